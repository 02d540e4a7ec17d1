//! The store on PostgreSQL, from the outside, in the cluster that `cargo xtask test` starts.

mod story;

use outlast_store::{DynStore, OpenOptions, StoreError, open};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

/// A database that goes away with its test.
struct Place {
    name: String,
    url: String,
    admin: Client,
}

impl Place {
    /// `None` when somebody asked to test without PostgreSQL.
    async fn new() -> Option<Place> {
        if std::env::var("OUTLAST_SKIP_POSTGRES").is_ok_and(|value| value == "1") {
            return None;
        }
        let told = std::env::var("OUTLAST_TEST_POSTGRES");
        let told = told.expect("there is no PostgreSQL to test with: run cargo xtask test");
        let config: Config = told.parse().expect("OUTLAST_TEST_POSTGRES is a connection string");
        let (admin, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        let name = format!("d_{:016x}", fastrand::u64(..));
        admin.batch_execute(&format!("create database {name} template template0")).await.unwrap();
        let host = match &config.get_hosts()[0] {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string().replace('/', "%2F"),
        };
        let (user, port) = (config.get_user().unwrap(), config.get_ports().first().unwrap_or(&5432));
        Some(Place { url: format!("postgres://{user}@{host}:{port}/{name}"), name, admin })
    }

    async fn gone(self) {
        self.admin.batch_execute(&format!("drop database {} with (force)", self.name)).await.unwrap();
    }
}

/// Tells a story with one shard and with four, with named statements and without.
async fn told(story: impl AsyncFn(DynStore)) {
    for (shards, options) in [(1, ""), (4, ""), (4, "?pool=3&statements=unnamed")] {
        let Some(place) = Place::new().await else { return };
        let open_options = OpenOptions { shards, ..OpenOptions::default() };
        let store = open(&format!("{}{options}", place.url), open_options).await.unwrap();
        assert_eq!((store.name(), store.shards()), ("postgres", shards));
        store.own().await.unwrap();
        story(store).await;
        place.gone().await;
    }
}

#[tokio::test]
async fn a_run_lives_and_ends() {
    told(story::a_run_lives_and_ends).await;
}

#[tokio::test]
async fn a_users_transaction_carries_runs() {
    told(story::a_users_transaction_carries_runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_starts_at_once_all_arrive() {
    told(story::many_starts_at_once_all_arrive).await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://ann@{}/orders", silent.local_addr().unwrap());
    let opening =
        tokio::time::timeout(std::time::Duration::from_secs(20), open(&url, OpenOptions::default()));
    let refusal = opening.await.unwrap().err().unwrap();
    assert!(matches!(refusal, StoreError::Unavailable(_)), "{refusal:?}");
}

#[tokio::test]
async fn a_stopped_server_is_unavailable_and_never_quotes_the_password() {
    let url = "postgres://ann:hunter2@127.0.0.1:1/orders";
    let refusal = open(url, OpenOptions::default()).await.err().unwrap();
    assert!(matches!(refusal, StoreError::Unavailable(_)), "{refusal:?}");
    assert!(!format!("{refusal} {refusal:?}").contains("hunter2"));
}
