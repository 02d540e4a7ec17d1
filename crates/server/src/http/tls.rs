//! Encryption by rustls: a certificate and its key from two files, which are read again when they change.
//!
//! Whoever renews certificates replaces the files. The next look finds the new ones, within a minute or at a SIGHUP;
//! connections that are open stay as they are. Files that cannot be used leave the old certificate in place, and are told
//! of in the log.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use outlast::Error;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take until both sides know their keys.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A certificate, and its key. Clones share what was read last.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    certificate: PathBuf,
    key: PathBuf,
    read: RwLock<Read>,
}

/// What was read, and when its files had been written.
struct Read {
    config: Arc<ServerConfig>,
    written: [Option<SystemTime>; 2],
}

impl Tls {
    /// Reads a chain of certificates (the server's own first) and the key of the first, both in PEM.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, holds nothing of its kind, or the two do not belong together: the error names the file.
    pub fn from_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Tls, Error> {
        let (certificate, key) = (certificate.into(), key.into());
        let read = RwLock::new(read(&certificate, &key)?);
        Ok(Tls(Arc::new(Inner { certificate, key, read })))
    }

    /// Reads the files again. Says whether they are others than before; where they cannot be used, the old ones stay.
    ///
    /// # Errors
    ///
    /// As [`Tls::from_files`].
    pub fn reload(&self) -> Result<bool, Error> {
        let Inner { certificate, key, read: held } = &*self.0;
        if written(certificate, key) == held.read().written {
            return Ok(false);
        }
        *held.write() = read(certificate, key)?;
        Ok(true)
    }

    /// Whether anybody but the owner may read the key.
    pub(crate) fn has_open_key(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(&self.0.key).is_ok_and(|key| key.permissions().mode() & 0o077 != 0)
        }
        #[cfg(not(unix))]
        false
    }

    pub(crate) fn key_file(&self) -> &Path {
        &self.0.key
    }

    /// Agrees with a client on keys.
    pub(super) async fn accept<S>(&self, socket: S) -> Result<TlsStream<S>, String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.0.read.read().config.clone());
        match tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no handshake within {} s", HANDSHAKE.as_secs())),
        }
    }
}

fn written(certificate: &Path, key: &Path) -> [Option<SystemTime>; 2] {
    [certificate, key].map(|file| fs::metadata(file).and_then(|file| file.modified()).ok())
}

fn read(certificate: &Path, key: &Path) -> Result<Read, Error> {
    // Before the files: whatever is written meanwhile is read the next time.
    let written = written(certificate, key);
    let wrong_certificate = |why: &dyn Display| unusable("certificate", certificate, why);
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> = chain.map_err(|error| wrong_certificate(&error))?;
    if chain.is_empty() {
        return Err(wrong_certificate(&"it holds no certificate in PEM (BEGIN CERTIFICATE)"));
    }
    let wrong_key = |why: &dyn Display| unusable("key", key, why);
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong_key(&error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong_certificate(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| {
            wrong_key(&format_args!("it is not the key of {}: {error}", certificate.display()))
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Read { config: Arc::new(config), written })
}

fn unusable(what: &str, file: &Path, why: &dyn Display) -> Error {
    Error::misconfigured(format!("the {what} {} cannot be used: {why}", file.display()))
}
