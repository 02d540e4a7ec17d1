//! `outlast serve` by TLS, on the real binary, with certificates as authorities make them and a client that checks them.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client, StatusCode};
use support::{Dev, Shop, until};

/// An authority, and certificates of it in a folder.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    own: String,
}

impl Authority {
    fn new(folder: &Path) -> Authority {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = authority.self_signed(&key).unwrap().pem();
        Authority { folder: folder.to_owned(), issuer: Issuer::new(authority, key), own }
    }

    /// A certificate for this machine, and its key, as files.
    fn sign(&self, serial: u64) -> (String, String) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        params.serial_number = Some(serial.into());
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        let (cert_file, key_file) = (self.folder.join("cert.pem"), self.folder.join("key.pem"));
        fs::write(&cert_file, certificate).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        let text = |file: PathBuf| file.to_str().unwrap().to_owned();
        (text(cert_file), text(key_file))
    }

    /// A client that believes this authority alone.
    fn client(&self) -> Client {
        let root = Certificate::from_pem(self.own.as_bytes()).unwrap();
        builder().tls_certs_only([root]).build().unwrap()
    }
}

fn builder() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().timeout(Duration::from_secs(30))
}

fn serve(shop: &Shop, args: &[&str]) -> (Dev, String) {
    let args: Vec<&str> =
        ["serve", "--migrate", "--listen", "127.0.0.1:0", "--insecure-no-auth-i-understand"]
            .iter()
            .chain(args)
            .copied()
            .collect();
    let server = shop.spawned(&args);
    server.until_told("/api/v1");
    let told = server.told();
    let (_, rest) = told.split_once("https://").unwrap_or_else(|| panic!("no https: {told}"));
    (server, format!("https://{}", rest.split('/').next().unwrap()))
}

fn until_noted(server: &Dev, what: &str) {
    until(what, || server.noted().contains(what).then_some(()));
}

/// The serial number of the certificate that a server shows.
async fn serial(url: &str, authority: &Authority) -> u8 {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(authority.own.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = tokio::net::TcpStream::connect(url.trim_start_matches("https://")).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    // DER: the certificate, what is signed of it, the version; then the serial number.
    let at = shown.windows(5).position(|part| part[..3] == [0xa0, 3, 2] && part[4] == 2).unwrap();
    shown[at + 4 + 1 + usize::from(shown[at + 5])]
}

#[tokio::test]
async fn a_server_with_a_certificate_answers_whoever_believes_its_authority() {
    let shop = Shop::new();
    let authority = Authority::new(shop.folder());
    let (cert, key) = authority.sign(7);
    let (server, url) = serve(&shop, &["--tls-cert", &cert, "--tls-key", &key]);
    let client = authority.client();
    let answer = client.get(format!("{url}/readyz")).send().await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, reqwest::Version::HTTP_2));
    assert_eq!(serial(&url, &authority).await, 7);
    assert!(server.noted().contains("chmod 600"), "{}", server.noted());

    // Whoever believes others does not, and nothing is answered in the clear.
    let other = Authority::new(shop.folder());
    assert!(other.client().get(format!("{url}/readyz")).send().await.is_err());
    let plain = url.replace("https://", "http://");
    assert!(builder().build().unwrap().get(format!("{plain}/readyz")).send().await.is_err());
    assert_eq!(client.get(format!("{url}/healthz")).send().await.unwrap().status(), 200, "it goes on");

    // The cookie of a session travels by TLS alone.
    let made = shop.ok(&["token", "create", "ann", "--role", "viewer", "-o", "json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let body = format!(r#"{{"token":{}}}"#, made["secret"]);
    let login = client.post(format!("{url}/api/v1/session")).header("content-type", "application/json");
    let answer = login.body(body).send().await.unwrap();
    assert_eq!(answer.status(), 204);
    assert!(answer.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"));
}

#[test]
fn a_command_believes_a_server_by_the_authority_that_was_named() {
    let shop = Shop::new();
    let authority = Authority::new(shop.folder());
    let (cert, key) = authority.sign(7);
    let (_server, url) = serve(&shop, &["--tls-cert", &cert, "--tls-key", &key]);
    let ca = shop.folder().join("ca.pem");
    fs::write(&ca, &authority.own).unwrap();
    let token = shop.ok(&["token", "create", "ann", "--role", "admin", "-o", "name"]);
    let token = token.trim();
    let asks = ["list", "definitions", "--url", &url, "--token", token];
    let with = |more: &[&str]| shop.run(&[&asks, more].concat());

    // By a flag, the environment, and a file of settings beside the address.
    let by_flag = with(&["--ca", ca.to_str().unwrap()]);
    assert_eq!(by_flag.code, 0, "{by_flag:?}");
    let by_env = shop.command(&asks).env("OUTLAST_CA", "ca.pem").output().unwrap();
    assert_eq!(by_env.status.code(), Some(0), "{by_env:?}");
    assert_eq!(shop.ok(&["healthcheck", "--ready", "--url", &url, "--ca", "ca.pem"]), "");
    fs::write(
        shop.folder().join("outlast.toml"),
        format!("url = \"{url}\"\ntoken = \"{token}\"\nca = \"ca.pem\"\n"),
    )
    .unwrap();
    shop.ok(&["list", "definitions"]);
    let shown = shop.ok(&["config", "show", "--origin"]);
    assert!(shown.contains("outlast.toml:3"), "{shown}");
    fs::remove_file(shop.folder().join("outlast.toml")).unwrap();

    // Without it nobody is believed, nor by another's, and the remedy is named; the token went nowhere.
    let other = shop.folder().join("other.pem");
    fs::write(&other, &Authority::new(shop.folder()).own).unwrap();
    for more in [&[][..], &["--ca", "other.pem"]] {
        let told = with(more);
        assert_eq!(told.code, 6, "{told:?}");
        assert!(
            told.err.contains("cannot be believed") && told.err.contains("--ca or OUTLAST_CA"),
            "{told:?}"
        );
        assert!(told.err.ends_with("(unavailable)\n"), "{told:?}");
    }
    // A file that holds none is named.
    fs::write(shop.folder().join("empty.pem"), "nothing").unwrap();
    for (file, why) in [("none.pem", "none.pem cannot be used"), ("empty.pem", "it holds no certificate")] {
        let told = with(&["--ca", file]);
        assert!(told.code == 2 && told.err.contains(why) && told.err.contains("as PEM"), "{told:?}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_taken_at_a_hangup_and_a_broken_one_is_not() {
    let shop = Shop::new();
    let authority = Authority::new(shop.folder());
    let (cert, key) = authority.sign(1);
    let (server, url) = serve(&shop, &["--tls-cert", &cert, "--tls-key", &key]);
    assert_eq!(serial(&url, &authority).await, 1);
    authority.sign(2);
    server.signal("HUP");
    until_noted(&server, "the certificate has changed");
    assert_eq!(serial(&url, &authority).await, 2);
    fs::write(&cert, "nothing of the kind").unwrap();
    server.signal("HUP");
    until_noted(&server, "the certificate stays as it was");
    assert_eq!(serial(&url, &authority).await, 2, "the old one stays");
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let shop = Shop::new();
    let authority = Authority::new(shop.folder());
    let (cert, key) = authority.sign(1);
    let empty = shop.folder().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    let other = shop.folder().join("other.pem");
    fs::write(&other, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let other = other.to_str().unwrap();
    let refused = |cert: &str, key: &str| {
        shop.run(&["serve", "--migrate", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key])
    };
    for (cert, key, said) in [
        ("missing.pem", key.as_str(), "the certificate missing.pem cannot be used"),
        (empty, key.as_str(), "it holds no certificate"),
        (cert.as_str(), "missing.pem", "the key missing.pem cannot be used"),
        (cert.as_str(), empty, "empty.pem cannot be used"),
        (cert.as_str(), other, "it is not the key of"),
    ] {
        let answer = refused(cert, key);
        assert_ne!(answer.code, 0);
        assert!(answer.err.contains(said), "{cert} {key}: {answer:?}");
    }
    let alone = shop.run(&["serve", "--tls-cert", &cert]);
    assert!(alone.code == 2 && alone.err.contains("--tls-key"), "{alone:?}");
}

#[tokio::test]
async fn metrics_have_an_address_of_their_own_where_one_is_named() {
    let shop = Shop::new();
    let server =
        shop.spawned(&["serve", "--migrate", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
    server.until_told("metrics are at http://");
    let told = server.told();
    let (_, rest) = told.split_once("metrics are at ").unwrap();
    let url = rest.split(',').next().unwrap().to_owned();
    shop.ok(&["token", "create", "ann", "--role", "viewer"]);
    // A measure is there from its first value on: the server says where they are before it claims for the first time.
    let told = async || loop {
        let answer = builder().build().unwrap().get(&url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/plain"));
        let text = answer.text().await.unwrap();
        if text.contains("# TYPE outlast_claim_seconds histogram") {
            return text;
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(30), told()).await.expect("claims are measured");
    assert!(text.contains("outlast_claim_seconds_bucket{le=\"0.001\"}"), "{text}");
    let other = builder().build().unwrap().get(url.replace("/metrics", "/api/v1/runs")).send().await.unwrap();
    assert_eq!(other.status(), 404, "nothing else is there");
    assert_eq!(other.headers()["content-type"], "application/problem+json");
    let bent = builder().build().unwrap().get(&url).header("host", "evil.example").send().await.unwrap();
    assert_eq!(bent.status(), 421, "under another name nothing is");
}
