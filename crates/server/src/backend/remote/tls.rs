//! Whom a command believes that it is the server: an authority that the system knows, or the one that was named.

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::fault::{Exit, Fault};

/// TLS with the authorities of the system, or with those of a file and no others.
pub(super) fn config(ca: Option<&Path>) -> Result<ClientConfig, Fault> {
    let chosen = CryptoProvider::get_default().cloned();
    let provider = chosen.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let builder =
        || ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let wrong =
        |error: rustls::Error| Fault::new(Exit::Failed, "internal", format!("TLS cannot be used: {error}"));
    let mut config = match ca {
        Some(file) => {
            builder().map_err(wrong)?.with_root_certificates(authorities(file)?).with_no_client_auth()
        }
        None => match builder().map_err(wrong)?.with_platform_verifier() {
            Ok(config) => config.with_no_client_auth(),
            // Plain http still works.
            Err(_) => {
                builder().map_err(wrong)?.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
            }
        },
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The certificates of a file.
fn authorities(file: &Path) -> Result<RootCertStore, Fault> {
    let wrong = |why: String| {
        let remedy = "it has to hold the certificate of the authority that signed the server's, as PEM";
        Fault::usage(format!("the authority {} cannot be used: {why}: {remedy}", file.display()))
    };
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
        let certificate = found.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("it holds no certificate".to_owned())),
        false => Ok(roots),
    }
}

/// Why a server's certificate is not believed, and what to do about it; `None` where something else went wrong.
pub(super) fn disbelieved(error: &reqwest::Error) -> Option<String> {
    let rustls::Error::InvalidCertificate(why) = cause(error)? else { return None };
    Some(match why {
        // Another authority of the same name is as unknown as any other.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "nobody that is believed here signed its certificate: name the file with the authority's own by --ca or OUTLAST_CA"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name: use the name in --url that it is for".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate is over: it needs a new one, or the clock here is wrong".to_owned()
        }
        CertificateError::Other(why) if format!("{why:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is an authority's own (CA:TRUE), which names no server: give the server one that an authority \
             signed, and name that authority's by --ca"
                .to_owned()
        }
        other => format!("its certificate is not accepted ({other}): the server needs another one"),
    })
}

/// What TLS said, however deep it is. An I/O error hides what it was made of from its chain of sources.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref::<rustls::Error>() {
        return Some(found);
    }
    if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        return cause(inner);
    }
    cause(error.source()?)
}
