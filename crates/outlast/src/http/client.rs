//! The one HTTP client of a node: connections, TLS, and names that are looked up under the guard's eyes.
//!
//! The client resolves names through [`Guarded`] and connects to what that returns: between the judgement and
//! the connection there is no second lookup that could answer differently. It follows no redirects (see
//! `exchange.rs`) and takes no proxy from the environment, behind which the guard would see nothing.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use super::breaker::Breakers;
use super::{Egress, HttpError};

/// How long one connection may take to come about, however long the whole call may.
const CONNECT: Duration = Duration::from_secs(10);
/// The most connections kept open for later, per host.
const IDLE: usize = 32;

/// What an engine needs to call others.
pub(crate) struct Outbound {
    pub(super) egress: Arc<Egress>,
    pub(super) breakers: Breakers,
    /// Made when it is first needed: reading the system's certificates takes a while.
    client: OnceLock<reqwest::Client>,
}

impl Outbound {
    pub(crate) fn new(egress: Egress) -> Outbound {
        let breakers = Breakers::new(egress.failures, egress.pause);
        Outbound { egress: Arc::new(egress), breakers, client: OnceLock::new() }
    }

    pub(super) fn client(&self) -> Result<&reqwest::Client, HttpError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let built = reqwest::Client::builder()
            .user_agent(concat!("outlast/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Guarded(self.egress.clone()))
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(IDLE)
            .tls_backend_preconfigured(tls()?)
            .build();
        let built = built.map_err(|error| HttpError::invalid(format!("there is no HTTP client: {error}")))?;
        Ok(self.client.get_or_init(|| built))
    }
}

/// TLS with the provider of the program if it has chosen one, and the certificates of the system.
fn tls() -> Result<ClientConfig, HttpError> {
    let chosen = CryptoProvider::get_default().cloned();
    let provider = chosen.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let builder =
        || ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let wrong = |error: rustls::Error| HttpError::invalid(format!("TLS cannot be used: {error}"));
    let mut config = match builder().map_err(wrong)?.with_platform_verifier() {
        Ok(config) => config.with_no_client_auth(),
        Err(error) => {
            tracing::warn!(
                "https cannot be used, because no certificates of authorities were found: {error}"
            );
            builder().map_err(wrong)?.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Looks names up, and gives only addresses that the guard has seen.
struct Guarded(Arc<Egress>);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = self.0.clone();
        Box::pin(async move {
            let found = egress.look_up(name.as_str()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
