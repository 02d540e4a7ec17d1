//! Opening and closing: migrations, roles, wrong places.

use super::*;
use crate::render::rendered;
use crate::{Dialect, Shape};

#[tokio::test]
async fn dropping_the_store_closes_its_connections() {
    with_place!(place);
    let store = place.open().await;
    let mut signals = store.subscribe();
    assert_eq!(signals.recv().await.unwrap(), Signal::Anything);
    assert!(place.connections().await >= 2);
    drop(store);
    let began = Instant::now();
    while place.connections().await > 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "connections stay open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    place.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_openers_at_once_make_one_schema() {
    with_place!(place);
    let openings: Vec<_> = (0..50)
        .map(|_| {
            let url = format!("{}?pool=2", place.url);
            let options = OpenOptions { shards: 4, ..OpenOptions::default() };
            tokio::spawn(async move { open(&url, options).await })
        })
        .collect();
    for opening in openings {
        assert_eq!(opening.await.unwrap().unwrap().shards, 4);
    }
    // An existing schema keeps its own number.
    assert_eq!(place.open().await.shards, 4);
    place.gone().await;
}

#[tokio::test]
async fn a_migration_that_waits_for_a_reader_lets_everybody_else_go_on() {
    with_place!(place);
    let before_took = OpenOptions { up_to: Some(30), ..OpenOptions::default() };
    drop(open(&place.url, before_took).await.unwrap());
    let connect = async || {
        let (client, connection) = place.url.parse::<Config>().unwrap().connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    let read = "select count(*) from outlast.journal";
    let (backup, node) = (connect().await, connect().await);
    backup.batch_execute(&format!("begin; {read}")).await.unwrap();
    let url = place.url.clone();
    let migration = tokio::spawn(async move { open(&url, OpenOptions::default()).await });
    let waits = "select 1 from pg_locks where relation = 'outlast.journal'::regclass and not granted";
    while node.query(waits, &[]).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node.batch_execute(&format!("set statement_timeout = 30000; {read}")).await.unwrap();
    backup.batch_execute("commit").await.unwrap();
    drop(migration.await.unwrap().unwrap());
    place.gone().await;
}

#[tokio::test]
async fn a_newer_schema_that_serves_older_programs_is_used_by_them() {
    with_place!(place);
    drop(place.open().await);
    let (client, connection) = place.url.parse::<Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("insert into outlast.migrations values (900, 'later', '', 0)").await.unwrap();
    drop(place.open().await);
    place.gone().await;
}

#[tokio::test]
async fn a_schema_of_another_version_is_refused() {
    with_place!(place);
    let no_migrate = OpenOptions { no_migrate: true, ..OpenOptions::default() };
    let refusal = open(&place.url, no_migrate).await.err().unwrap();
    assert!(refusal.to_string().contains("no schema of ours"), "{refusal}");

    let changes = [
        (
            "insert into outlast.migrations values (900, 'later', '', 0);
             update outlast.meta set value = '900' where name = 'serves'",
            "schema version 900",
        ),
        (
            "delete from outlast.migrations where number = 900;
             update outlast.migrations set checksum = 'beef'",
            "checksum beef",
        ),
        ("alter table outlast.migrations rename number to n", "not ours"),
        ("drop table outlast.migrations", "not ours"),
    ];
    drop(place.open().await);
    let (client, connection) = place.url.parse::<Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    for (change, said) in changes {
        client.batch_execute(change).await.unwrap();
        let refusal = open(&place.url, OpenOptions::default()).await.err().unwrap();
        assert!(matches!(refusal, StoreError::Schema(_)), "{refusal:?}");
        assert!(refusal.to_string().contains(said), "{refusal}");
    }
    place.gone().await;
}

#[tokio::test]
async fn a_role_that_may_only_use_the_schema_can_open_it() {
    with_place!(place);
    let role = format!("r_{:016x}", fastrand::u64(..));
    place.admin.batch_execute(&format!("create role {role} login")).await.unwrap();
    let (_, behind) = place.url.split_once('@').unwrap();
    let theirs = format!("postgres://{role}@{behind}");
    let refusal = open(&theirs, OpenOptions::default()).await.err().unwrap();
    assert!(matches!(refusal, StoreError::Schema(_)), "{refusal:?}");
    assert!(refusal.to_string().contains("may not do that"), "{refusal}");

    drop(place.open().await);
    let (client, connection) = place.url.parse::<Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let grant = format!(
        "grant usage on schema outlast to {role};
         grant select, insert, update, delete on all tables in schema outlast to {role}"
    );
    client.batch_execute(&grant).await.unwrap();
    let store = open(&theirs, OpenOptions::default()).await.unwrap();
    store.transact(TxKind::Plain, put(&["a"])).await.unwrap();
    drop(store);
    client.batch_execute(&format!("drop owned by {role}")).await.unwrap();
    place.admin.batch_execute(&format!("drop role {role}")).await.unwrap();
    place.gone().await;
}

#[tokio::test]
async fn places_without_a_database_are_named() {
    with_place!(place);
    let (server, _) = place.url.rsplit_once('/').unwrap();
    let refusal = open(&format!("{server}/nowhere"), OpenOptions::default()).await.err().unwrap();
    assert!(matches!(refusal, StoreError::Address(_)), "{refusal:?}");
    assert!(refusal.to_string().contains("create it first"), "{refusal}");
    let (_, behind) = place.url.split_once('@').unwrap();
    let refusal =
        open(&format!("postgres://nobody_we_know:hunter2@{behind}"), OpenOptions::default()).await.err();
    let refusal = refusal.unwrap();
    assert!(matches!(refusal, StoreError::Address(_)), "{refusal:?}");
    assert!(!refusal.to_string().contains("hunter2"), "{refusal}");
    let refusal = open("postgres://ann@127.0.0.1:1/db", OpenOptions::default()).await.err().unwrap();
    assert!(matches!(refusal, StoreError::Unavailable(_)), "{refusal:?}");
    place.gone().await;
}

#[tokio::test]
async fn every_statement_can_be_prepared() {
    with_place!(place);
    let store = place.open().await;
    let connection = store.pool.lease().await.unwrap();
    for sql in statements::all() {
        for shape in [Shape::Many, Shape::One, Shape::Bare, Shape::Alike] {
            let rendered = rendered(sql, Dialect::Postgres, shape);
            let types = cells::types(sql, shape, rendered.now);
            if let Err(error) = connection.client().prepare_typed(&rendered.text, &types).await {
                panic!("{}: {}\n{}", sql.name, error::chain(&error), rendered.text);
            }
        }
    }
    place.gone().await;
}
