//! Encryption by rustls, with the system's authorities or those of a file.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Checks, Files};
use crate::StoreError;
use crate::address::refused;

/// How connections are encrypted, if the server and the address want them so.
#[derive(Clone)]
pub(in crate::postgres) struct Tls(MakeRustlsConnect);

impl Tls {
    pub(super) fn new(mode: SslMode, checks: Checks, files: &Files) -> Result<Tls, StoreError> {
        let provider = Arc::new(ring::default_provider());
        let signatures = provider.signature_verification_algorithms;
        let lenient = |authorities| Arc::new(Lenient { signatures, authorities });
        let verifier: Arc<dyn ServerCertVerifier> = match checks {
            Checks::Nothing => {
                if mode == SslMode::Require {
                    tracing::warn!(
                        "sslmode=require believes whoever answers for PostgreSQL: use sslmode=verify-full"
                    );
                }
                lenient(None)
            }
            Checks::Authority => lenient(Some(authorities(&provider, files)?)),
            Checks::AuthorityAndName => authorities(&provider, files)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::Address(format!("TLS cannot be used: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match (&files.certificate, &files.key) {
            (None, None) => config.with_no_client_auth(),
            (Some(certificate), key) => {
                let chain = certificates("sslcert", certificate)?;
                let (name, key) = match key {
                    Some(key) => ("sslkey", key),
                    None => ("sslcert", certificate),
                };
                let key = PrivateKeyDer::from_pem_file(Path::new(key))
                    .map_err(|error| unusable(name, key, &error))?;
                config
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| unusable("sslcert", certificate, &error))?
            }
            (None, Some(_)) => {
                return refused(
                    "`sslkey` in the address needs the certificate that it is for: `sslcert`".to_owned(),
                );
            }
        };
        Ok(Tls(MakeRustlsConnect::new(config)))
    }

    pub(in crate::postgres) fn connector(&self) -> MakeRustlsConnect {
        self.0.clone()
    }
}

/// Looks for the authorities of a file, or of the system.
fn authorities(
    provider: &Arc<CryptoProvider>,
    files: &Files,
) -> Result<Arc<dyn ServerCertVerifier>, StoreError> {
    let wrong =
        |what: String| StoreError::Address(format!("no authorities can be used to check the server: {what}"));
    let file = match files.roots.as_deref() {
        None | Some("system") => {
            let verifier = rustls_platform_verifier::Verifier::new(provider.clone());
            return Ok(Arc::new(verifier.map_err(|error| wrong(error.to_string()))?));
        }
        Some(file) => file,
    };
    let mut roots = RootCertStore::empty();
    for root in certificates("sslrootcert", file)? {
        roots.add(root).map_err(|error| unusable("sslrootcert", file, &error))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
    Ok(verifier.map_err(|error| wrong(error.to_string()))?)
}

fn certificates(name: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let read = CertificateDer::pem_file_iter(Path::new(file)).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| unusable(name, file, &error))?;
    match read.is_empty() {
        true => Err(unusable(name, file, &"it holds no certificate in PEM")),
        false => Ok(read),
    }
}

fn unusable(name: &str, file: &str, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Address(format!("`{name}` in the address names `{file}`, which cannot be used: {why}"))
}

/// Wants less than `sslmode=verify-full` does.
#[derive(Debug)]
struct Lenient {
    signatures: WebPkiSupportedAlgorithms,
    /// Whose signature a certificate has to have, whatever host it is for; without any, whoever answers is believed.
    authorities: Option<Arc<dyn ServerCertVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::Error::InvalidCertificate;
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        match authorities.verify_server_cert(end, between, name, ocsp, now) {
            Err(InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signature, &self.signatures)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signature, &self.signatures)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.supported_schemes()
    }
}
