//! Encrypted connections to a real PostgreSQL that has certificates of its own.

use std::path::Path;

use outlast_cluster::Cluster;
use outlast_store::{OpenOptions, StoreError, open};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Whoever comes over the network has to have a certificate that names them.
const WHO_MAY_ENTER: &str = "\
local all all trust
hostssl all outlast 127.0.0.1/32 cert
";

const SETTINGS: &str = "\
ssl = on
ssl_cert_file = 'server.crt'
ssl_key_file = 'server.key'
ssl_ca_file = 'root.crt'
";

/// A server for `localhost`, the authority that signed its certificate, and a certificate for us.
struct Place {
    cluster: Cluster,
    files: TempDir,
}

impl Place {
    /// `None` when somebody asked to test without PostgreSQL.
    fn new() -> Option<Place> {
        if std::env::var("OUTLAST_SKIP_POSTGRES").is_ok_and(|value| value == "1") {
            return None;
        }
        let root = Authority::new("the authority that we know");
        let (server, server_key) = root.sign("localhost", ExtendedKeyUsagePurpose::ServerAuth);
        let (client, client_key) = root.sign("outlast", ExtendedKeyUsagePurpose::ClientAuth);
        let files = tempfile::tempdir().unwrap();
        let stranger = Authority::new("another authority");
        for (name, content) in [
            ("root.crt", &root.certificate),
            ("stranger.crt", &stranger.certificate),
            ("client.crt", &client),
            ("client.key", &client_key),
        ] {
            std::fs::write(files.path().join(name), content).unwrap();
        }
        let cluster = Cluster::start_on_loopback(
            SETTINGS,
            &[
                ("root.crt", &root.certificate),
                ("server.crt", &server),
                ("server.key", &server_key),
                ("pg_hba.conf", WHO_MAY_ENTER),
            ],
        );
        Some(Place { cluster: cluster.unwrap(), files })
    }

    /// Its address, with what it says of encryption.
    fn url(&self, host: &str, options: &str) -> String {
        format!("postgres://outlast@{host}:{}/postgres?{options}", self.cluster.port())
    }

    fn named(&self, option: &str, file: &str) -> String {
        format!("{option}={}", encoded(&self.files.path().join(file)))
    }

    /// Our certificate and its key.
    fn ours(&self) -> String {
        format!("{}&{}", self.named("sslcert", "client.crt"), self.named("sslkey", "client.key"))
    }
}

fn encoded(path: &Path) -> String {
    path.display().to_string().replace('/', "%2F")
}

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        (certificate, key.serialize_pem())
    }
}

async fn refusal(url: &str) -> String {
    match open(url, OpenOptions::default()).await {
        Err(StoreError::Address(why)) => why,
        Err(other) => panic!("not about the address: {other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[tokio::test]
async fn a_server_is_believed_as_far_as_the_address_says() {
    let Some(place) = Place::new() else { return };
    let (root, stranger) =
        (place.named("sslrootcert", "root.crt"), place.named("sslrootcert", "stranger.crt"));
    let ours = place.ours();
    for (host, options) in [
        ("localhost", format!("sslmode=verify-full&{root}&{ours}")),
        ("127.0.0.1", format!("sslmode=verify-ca&{root}&{ours}")),
        ("127.0.0.1", format!("sslmode=require&{ours}")),
        ("localhost", format!("sslmode=prefer&{ours}")),
    ] {
        let store = open(&place.url(host, &options), OpenOptions::default()).await;
        let store = store.unwrap_or_else(|error| panic!("{options}: {error}"));
        // Also those that renew leases and listen.
        let apart = store.apart(&tokio::runtime::Handle::current()).unwrap();
        assert!(apart.nodes().await.unwrap().is_empty());
    }
    for (host, options, why) in [
        ("127.0.0.1", format!("sslmode=verify-full&{root}&{ours}"), "not to be trusted"),
        ("localhost", format!("sslmode=verify-full&{stranger}&{ours}"), "not to be trusted"),
        ("127.0.0.1", format!("sslmode=verify-ca&{stranger}&{ours}"), "not to be trusted"),
        ("localhost", format!("sslmode=verify-full&{ours}"), "not to be trusted"),
        ("localhost", format!("sslmode=verify-full&{root}"), "certificate"),
        ("localhost", "sslmode=disable".to_owned(), "does not let us in"),
    ] {
        let said = refusal(&place.url(host, &options)).await;
        assert!(said.contains(why), "{options}: {said}");
    }
}

#[tokio::test]
async fn a_server_without_encryption_is_refused_where_the_address_asks_for_it() {
    if std::env::var("OUTLAST_SKIP_POSTGRES").is_ok_and(|value| value == "1") {
        return;
    }
    let cluster = Cluster::start_on_loopback("", &[]).unwrap();
    let url = |mode| format!("postgres://outlast@localhost:{}/postgres?sslmode={mode}", cluster.port());
    assert!(refusal(&url("require")).await.contains("offers no encryption"));
    open(&url("prefer"), OpenOptions::default()).await.unwrap();
}
