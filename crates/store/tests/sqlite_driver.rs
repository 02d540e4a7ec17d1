//! The store on SQLite, from the outside.

mod story;

use outlast_store::{DynStore, OpenOptions, open};
use tempfile::TempDir;

/// In memory and in a file, with one shard and with four.
async fn stores() -> Vec<(DynStore, TempDir)> {
    let mut stores = Vec::new();
    for shards in [1, 4] {
        let folder = TempDir::new().unwrap();
        let file = format!("sqlite://{}/orders.db", folder.path().display());
        for url in ["sqlite::memory:", &file] {
            let options = OpenOptions { shards, ..OpenOptions::default() };
            let store = open(url, options).await.unwrap();
            assert_eq!((store.name(), store.shards()), ("sqlite", shards));
            store.own().await.unwrap();
            stores.push((store, TempDir::new().unwrap()));
        }
        stores.last_mut().unwrap().1 = folder;
    }
    stores
}

#[tokio::test]
async fn a_run_lives_and_ends() {
    for (store, _folder) in stores().await {
        story::a_run_lives_and_ends(store).await;
    }
}

#[tokio::test]
async fn a_users_transaction_carries_runs() {
    for (store, _folder) in stores().await {
        story::a_users_transaction_carries_runs(store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_starts_at_once_all_arrive() {
    for (store, _folder) in stores().await {
        story::many_starts_at_once_all_arrive(store).await;
    }
}

#[tokio::test]
async fn bad_addresses_are_refused_by_open_too() {
    for url in
        ["", "orders.db", "mysql://host/db", "sqlite:", "postgres:///db", "postgres://h/d?sslmode=always"]
    {
        let refusal = open(url, OpenOptions::default()).await.err().unwrap();
        assert!(matches!(refusal, outlast_store::StoreError::Address(_)), "{url}: {refusal:?}");
    }
    let many = OpenOptions { shards: 5000, ..OpenOptions::default() };
    assert!(open("sqlite::memory:", many).await.err().unwrap().to_string().contains("at most 4096"));
}
