//! What those ask who look after a database: how it is doing, and where its schema stands.

use outlast_core::Status;
use outlast_store::{Definitions, GroupView, StoreError, VitalsKind, migrate, schema, schema_text};
use outlast_testkit::{LEASE, StoreKind, World, store_test};

use crate::MINUTE;

#[store_test]
async fn the_busiest_groups_of_a_queue_are_told_with_what_stands_behind_them(world: World) {
    let start = |group: &str| world.start("mail").queue("mail").group(group);
    for group in ["ann", "bob", "bob", "eve"] {
        start(group).held_by("node").await;
    }
    for group in ["ann", "ann", "dan"] {
        start(group).await;
    }
    start("ann").delayed(MINUTE).await;
    world.start("mail").queue("mail").held_by("node").await;
    world.start("mail").queue("other").group("zoe").held_by("node").await;

    let told = async |queue: &str, limit| world.store().queue_groups(queue, limit).await.unwrap();
    let group = |name: &str, running, in_line| GroupView { name: name.into(), running, in_line };
    let all = [group("bob", 2, 0), group("ann", 1, 3), group("eve", 1, 0)];
    assert_eq!(told("mail", 20).await, all, "dan has nothing in hand");
    assert_eq!(told("mail", 2).await, all[..2]);
    assert_eq!(told("empty", 20).await, []);
}

#[store_test]
async fn the_oldest_end_is_that_of_a_run_which_a_purge_would_take(world: World) {
    let oldest = async |status, of: &Definitions| world.store().oldest_ended(status, of).await.unwrap();
    assert_eq!(oldest(Status::Completed, &Definitions::All).await, None);
    let mut ends = Vec::new();
    for name in ["greet", "mail", "greet"] {
        world.start(name).held_by("node").await.completed("done").await;
        ends.push(world.now().await);
        world.pass(MINUTE).await;
    }
    let names = || vec!["greet".to_owned()];
    let between = |found: Option<outlast_core::Timestamp>, nth: usize| {
        let found = found.expect("one ended");
        found <= ends[nth] && ends[nth].since(found) < MINUTE
    };
    assert!(between(oldest(Status::Completed, &Definitions::All).await, 0));
    assert!(between(oldest(Status::Completed, &Definitions::Only(names())).await, 0));
    assert!(between(oldest(Status::Completed, &Definitions::Except(names())).await, 1));
    assert_eq!(oldest(Status::Failed, &Definitions::All).await, None);
}

#[store_test]
async fn vitals_tell_of_runs_whose_node_is_gone_for_long(world: World) {
    let vitals = async || world.store().vitals().await.unwrap();
    world.start("greet").held_by("gone").await;
    world.start("greet").await;
    let healthy = vitals().await;
    assert_eq!(healthy.orphans, 0, "one is held, one is due");
    assert!(!healthy.version.is_empty());
    match (world.kind(), healthy.kind) {
        (StoreKind::Sqlite, VitalsKind::Sqlite(file)) => {
            assert_eq!((file.journal_mode.as_str(), file.damage.len()), ("wal", 0));
            assert!(file.file.is_some() && file.bytes > 0 && file.unused <= file.bytes, "{file:?}");
        }
        (StoreKind::Postgres, VitalsKind::Postgres(server)) => {
            assert!(server.version_number >= 130_000 && !server.is_standby, "{server:?}");
            assert!(server.connections > 0 && server.connections <= server.connections_most, "{server:?}");
        }
        (kind, vitals) => panic!("{kind:?} says {vitals:?}"),
    }
    world.pass(LEASE + MINUTE / 2).await;
    assert_eq!(vitals().await.orphans, 0, "somebody may be about to take it over");
    world.pass(MINUTE).await;
    assert_eq!(vitals().await.orphans, 1);
    world.sweep().await;
    assert_eq!(vitals().await.orphans, 0, "whoever takes it over ends that");
}

#[store_test]
async fn a_schema_says_where_it_stands_what_it_lacks_and_that_it_is_not_ours(world: World) {
    let look = async || schema(world.url()).await;
    let whole = look().await.unwrap();
    assert!(whole.is_complete() && whole.at == whole.newest, "{whole:?}");
    assert_eq!(migrate(world.url(), None).await.unwrap(), whole, "there is nothing to do");

    let newest = whole.newest;
    world.raw(&format!("delete from outlast.migrations where number = {newest}")).await;
    let behind = look().await.unwrap();
    assert_eq!((behind.at, behind.is_complete()), (newest - 1, false));
    let lacking: Vec<_> = behind.files.iter().filter(|file| !file.is_applied).collect();
    assert_eq!(lacking.len(), 1);
    let text = schema_text(world.url(), behind.at, newest).unwrap();
    assert!(text.starts_with(&format!("-- {newest} {}\nbegin;", lacking[0].name)), "{text}");
    assert_eq!(text.matches("commit;").count(), 1, "only what is lacking: {text}");

    world.raw("update outlast.migrations set checksum = 'another' where number = 1").await;
    let refused = look().await.unwrap_err();
    assert!(matches!(&refused, StoreError::Schema(why) if why.contains('1')), "{refused}");
}
