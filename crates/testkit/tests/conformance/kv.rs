//! Values that handlers keep: set, compared and set, deleted, gone by themselves, listed by prefix.

use std::time::Duration;

use bytes::Bytes;
use outlast_core::{Limits, Payload};
use outlast_store::{
    Expect, KvChange, KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten, Sweep, UserTx, Value,
};
use outlast_testkit::{World, payload, store_test, sweep_of};
use uuid::Uuid;

use crate::{DAY, MINUTE, SECOND};

/// The key `key` of nobody in particular.
fn name(key: &str) -> KvName {
    KvName { tenant: String::new(), space: "default".into(), key: key.into() }
}

/// A write that has happened nowhere yet.
fn write(key: &str, change: KvChange) -> KvWrite {
    KvWrite { id: Uuid::from_u128(fastrand::u128(..)), name: name(key), change, expect: None }
}

/// Sets `key` to a text for good.
pub(crate) fn set(key: &str, value: &str) -> KvWrite {
    write(key, KvChange::Set { value: payload(value), ttl: None })
}

fn set_for(key: &str, value: &str, ttl: Duration) -> KvWrite {
    write(key, KvChange::Set { value: payload(value), ttl: Some(ttl) })
}

fn delete(key: &str) -> KvWrite {
    write(key, KvChange::Delete)
}

fn expecting(expect: impl Into<Expect>, write: KvWrite) -> KvWrite {
    KvWrite { expect: Some(expect.into()), ..write }
}

async fn put(world: &World, write: &KvWrite) -> KvWritten {
    let mut answers = world.store().kv_write(std::slice::from_ref(write)).await.expect("a value is written");
    answers.pop().expect("an answer for a write")
}

/// The version that a write made.
async fn made(world: &World, write: &KvWrite) -> i64 {
    match put(world, write).await {
        KvWritten::Done { version } => version,
        other => panic!("{other:?}"),
    }
}

async fn entry(world: &World, name: &KvName) -> Option<KvEntry> {
    world.store().kv_get(name).await.expect("a value can be read")
}

/// The text under a key.
async fn got(world: &World, key: &str) -> Option<String> {
    entry(world, &name(key)).await.map(|entry| entry.value.decode("a text").unwrap())
}

fn from(prefix: &str) -> KvList {
    KvList {
        tenant: String::new(),
        space: "default".into(),
        prefix: prefix.into(),
        after: None,
        limit: KvList::MOST,
        bytes: Limits::HARD_PAYLOAD,
    }
}

async fn page(world: &World, ask: &KvList) -> KvPage {
    world.store().kv_list(ask).await.expect("values can be listed")
}

fn keys(page: &KvPage) -> Vec<&str> {
    page.entries.iter().map(|entry| &*entry.key).collect()
}

/// The keys of all pages, and how many pages there were.
async fn all(world: &World, ask: &KvList) -> (Vec<String>, usize) {
    let (mut found, mut pages, mut ask) = (Vec::new(), 0, ask.clone());
    loop {
        let page = page(world, &ask).await;
        found.extend(page.entries.into_iter().map(|entry| entry.key));
        pages += 1;
        match page.next {
            Some(next) => ask.after = Some(next),
            None => return (found, pages),
        }
    }
}

async fn rows(world: &World) -> i64 {
    world.count("select count(*) from outlast.kv").await
}

#[store_test]
async fn a_value_is_there_until_it_is_deleted(world: World) {
    assert_eq!(got(&world, "colour").await, None);
    assert_eq!(put(&world, &delete("colour")).await, KvWritten::Absent);
    assert_eq!(rows(&world).await, 0, "looking leaves nothing");

    let version = made(&world, &set("colour", "red")).await;
    let found = entry(&world, &name("colour")).await.unwrap();
    assert_eq!((&*found.key, found.version, found.expires_at), ("colour", version, None));
    assert!(found.updated_at <= world.now().await && version > 0);
    made(&world, &set("colour", "blue")).await;
    assert_eq!(got(&world, "colour").await.unwrap(), "blue");

    assert!(matches!(put(&world, &delete("colour")).await, KvWritten::Done { .. }));
    assert_eq!(got(&world, "colour").await, None);
    assert_eq!(put(&world, &delete("colour")).await, KvWritten::Absent);
}

#[store_test]
async fn a_value_returns_as_it_went_in(world: World) {
    for (key, value) in [
        ("empty", Payload { codec: None, bytes: Bytes::new() }),
        ("nul", Payload { codec: None, bytes: Bytes::from_static(b"\"a\\u0000\0\xff\"") }),
        ("coded", Payload { codec: Some("protobuf".into()), bytes: Bytes::from_static(&[0, 1, 2]) }),
        ("large", Payload { codec: None, bytes: vec![7; Limits::HARD_PAYLOAD].into() }),
    ] {
        made(&world, &write(key, KvChange::Set { value: value.clone(), ttl: None })).await;
        assert_eq!(entry(&world, &name(key)).await.unwrap().value, value, "{key}");
    }
    // The longest names, and whatever they may hold.
    let long = "ä".repeat(Limits::NAME / 2);
    let odd = KvName { tenant: long.clone(), space: "' \" \\ %".into(), key: long };
    made(&world, &KvWrite { name: odd.clone(), ..set("", "odd") }).await;
    assert_eq!(entry(&world, &odd).await.unwrap().key, odd.key);
}

#[store_test]
async fn a_version_only_rises_also_while_the_key_is_gone(world: World) {
    let mut last = 0;
    let mut rises = async |write: KvWrite| {
        let version = made(&world, &write).await;
        assert!(version > last, "{version} after {last}");
        let before = std::mem::replace(&mut last, version);
        let late = expecting(before, set("key", "late"));
        assert!(
            matches!(put(&world, &late).await, KvWritten::Conflict { .. }),
            "an old version fits nothing new"
        );
    };
    rises(set("key", "a")).await;
    rises(set("key", "b")).await;
    rises(delete("key")).await;
    rises(set_for("key", "c", MINUTE)).await;
    world.pass(MINUTE).await;
    rises(set("key", "d")).await;
    rises(delete("key")).await;
    world.pass(SECOND).await;
    world.sweep().await;
    assert_eq!(rows(&world).await, 0, "nothing is left that could remember");
    rises(set_for("key", "e", MINUTE)).await;
    world.pass(DAY).await;
    world.sweep().await;
    rises(set("key", "f")).await;
}

#[store_test]
async fn a_value_changes_only_if_what_was_expected_is_there(world: World) {
    let absent = |value: &str| expecting(Expect::Absent, set("key", value));
    assert_eq!(put(&world, &expecting(1, set("key", "no"))).await, KvWritten::Conflict { current: None });
    assert_eq!(put(&world, &expecting(1, delete("key"))).await, KvWritten::Conflict { current: None });
    assert_eq!(rows(&world).await, 0);
    let first = made(&world, &absent("one")).await;
    let conflict = KvWritten::Conflict { current: Some(first) };
    assert_eq!(put(&world, &absent("no")).await, conflict);
    assert_eq!(put(&world, &expecting(first - 1, set("key", "no"))).await, conflict);
    assert_eq!(put(&world, &expecting(first + 1, delete("key"))).await, conflict);
    assert_eq!(got(&world, "key").await.unwrap(), "one");

    let second = made(&world, &expecting(first, set_for("key", "two", MINUTE))).await;
    let conflict = KvWritten::Conflict { current: Some(second) };
    assert_eq!(put(&world, &expecting(first, delete("key"))).await, conflict);
    made(&world, &expecting(second, delete("key"))).await;
    let third = made(&world, &expecting(Expect::Absent, set_for("key", "three", MINUTE))).await;

    // What is gone by itself is absent, whether it was swept or not.
    world.pass(MINUTE).await;
    assert_eq!(put(&world, &expecting(third, set("key", "no"))).await, KvWritten::Conflict { current: None });
    made(&world, &absent("four")).await;
    assert_eq!(got(&world, "key").await.unwrap(), "four");
}

#[store_test]
async fn writes_of_one_batch_happen_in_order_and_each_has_its_own_answer(world: World) {
    let other = KvName { space: "other".into(), ..name("key") };
    let writes = [
        set("key", "one"),
        expecting(Expect::Absent, set("key", "no")),
        delete("key"),
        expecting(Expect::Absent, set("key", "two")),
        KvWrite { name: other.clone(), ..set("", "three") },
        delete("nothing"),
        set("gone", "four"),
        delete("gone"),
    ];
    let answers = world.store().kv_write(&writes).await.unwrap();
    let versions: Vec<Option<i64>> = answers
        .iter()
        .map(|answer| match answer {
            KvWritten::Done { version } => Some(*version),
            _ => None,
        })
        .collect();
    assert_eq!(answers[1], KvWritten::Conflict { current: versions[0] });
    assert_eq!(answers[5], KvWritten::Absent);
    assert!(versions[0] < versions[2] && versions[2] < versions[3] && versions[6] < versions[7]);
    assert_eq!(versions.iter().flatten().count(), 6);
    assert_eq!(entry(&world, &name("key")).await.map(|entry| entry.version), versions[3]);
    assert_eq!((got(&world, "key").await.as_deref(), got(&world, "gone").await), (Some("two"), None));
    assert!(entry(&world, &other).await.is_some());
}

#[store_test]
async fn a_repeated_write_happened_once_whatever_others_wrote_since(world: World) {
    let first = set("count", "1");
    let one = made(&world, &first).await;
    let mine = expecting(one, set("count", "2"));
    let two = made(&world, &mine).await;
    let theirs = made(&world, &expecting(two, set("count", "3"))).await;
    assert_eq!(put(&world, &mine).await, KvWritten::Done { version: two }, "it counted, and was counted on");
    assert_eq!(put(&world, &first).await, KvWritten::Done { version: one });
    assert_eq!(entry(&world, &name("count")).await.unwrap().version, theirs);

    let remove = delete("count");
    let removed = made(&world, &remove).await;
    for swept in [false, true] {
        if swept {
            world.pass(SECOND).await;
            world.sweep().await;
        }
        assert_eq!(put(&world, &mine).await, KvWritten::Done { version: two });
        assert_eq!(put(&world, &first).await, KvWritten::Done { version: one });
        assert_eq!(put(&world, &remove).await, KvWritten::Done { version: removed });
        assert_eq!(got(&world, "count").await, None);
    }
    assert_eq!(rows(&world).await, 0, "a repeat leaves no row behind");
}

#[store_test]
async fn one_write_sent_many_times_at_once_happens_once(world: World) {
    for round in 0..10 {
        let key = format!("round {round}");
        let once = expecting(Expect::Absent, set(&key, "once"));
        let tries = (0..8).map(|_| {
            let (world, once) = (world.clone(), once.clone());
            tokio::spawn(async move { made(&world, &once).await })
        });
        let mut versions = Vec::new();
        for tried in tries.collect::<Vec<_>>() {
            versions.push(tried.await.unwrap());
        }
        versions.dedup();
        assert_eq!(versions.len(), 1);
    }
}

#[store_test]
async fn of_many_who_make_one_key_one_does(world: World) {
    for round in 0..10 {
        let key = format!("round {round}");
        let tries = (0..8).map(|task| {
            let (world, make) = (world.clone(), expecting(Expect::Absent, set(&key, &task.to_string())));
            tokio::spawn(async move { put(&world, &make).await })
        });
        let mut answers = Vec::new();
        for tried in tries.collect::<Vec<_>>() {
            answers.push(tried.await.unwrap());
        }
        let version = entry(&world, &name(&key)).await.unwrap().version;
        let lost = KvWritten::Conflict { current: Some(version) };
        assert_eq!(answers.iter().filter(|answer| **answer == lost).count(), 7, "{answers:?}");
        assert!(answers.contains(&KvWritten::Done { version }), "{answers:?}");
    }
}

#[store_test]
async fn counting_from_many_tasks_loses_and_doubles_nothing(world: World) {
    let count = async |world: World| {
        for _ in 0..10 {
            loop {
                let before = entry(&world, &name("count")).await;
                let number: u64 = before.as_ref().map_or(0, |entry| entry.value.decode("a number").unwrap());
                let value = Payload::encode("a number", &(number + 1), &Limits::default()).unwrap();
                let next = write("count", KvChange::Set { value, ttl: None });
                let next = expecting(before.map(|entry| entry.version), next);
                if matches!(put(&world, &next).await, KvWritten::Done { .. }) {
                    break;
                }
            }
        }
    };
    let tasks: Vec<_> = (0..6).map(|_| tokio::spawn(count(world.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let total: u64 = entry(&world, &name("count")).await.unwrap().value.decode("a number").unwrap();
    assert_eq!(total, 60);
}

#[store_test]
async fn a_value_is_gone_when_its_time_is_over_and_not_before(world: World) {
    let began = world.now().await;
    made(&world, &set_for("short", "value", MINUTE)).await;
    made(&world, &set_for("forever", "value", Duration::MAX)).await;
    made(&world, &set("plain", "value")).await;
    let expires_at = entry(&world, &name("short")).await.unwrap().expires_at.unwrap();
    assert!(expires_at >= began + MINUTE && expires_at <= world.now().await + MINUTE);

    world.pass(MINUTE / 2).await;
    world.sweep().await;
    assert!(got(&world, "short").await.is_some());
    made(&world, &set_for("short", "longer", MINUTE)).await;
    world.pass(MINUTE / 2 + SECOND).await;
    assert!(got(&world, "short").await.is_some(), "the last write says how long");

    world.pass(MINUTE).await;
    assert_eq!(got(&world, "short").await, None);
    assert_eq!(keys(&page(&world, &from("")).await), ["forever", "plain"]);
    assert_eq!((rows(&world).await, put(&world, &delete("short")).await), (3, KvWritten::Absent));
    world.sweep().await;
    assert_eq!(rows(&world).await, 2);
    assert!(got(&world, "forever").await.is_some() && got(&world, "plain").await.is_some());

    // What is set for good is no longer bound to an earlier time.
    made(&world, &set_for("short", "value", MINUTE)).await;
    made(&world, &set("short", "for good")).await;
    world.pass(DAY).await;
    world.sweep().await;
    assert_eq!(got(&world, "short").await.unwrap(), "for good");
}

#[store_test]
async fn a_sweep_deletes_a_bounded_number_of_values_and_ids_and_says_so(world: World) {
    let writes: Vec<KvWrite> = (0..25).map(|n| set_for(&format!("key {n}"), "value", SECOND)).collect();
    world.store().kv_write(&writes).await.unwrap();
    made(&world, &set("stays", "value")).await;
    world.pass(MINUTE).await;
    let sweep = async |forget_after: Duration| {
        let mut forgotten = Vec::new();
        for _ in 0..4 {
            let mut most = 0;
            for shard in 0..world.shards() {
                let by = outlast_core::NodeId::new(0);
                let ask = Sweep { by, forget_after, ..sweep_of(shard) };
                most = world.store().sweep(&ask).await.unwrap().forgotten.max(most);
            }
            forgotten.push(most);
        }
        forgotten
    };
    assert_eq!(sweep(DAY).await, [10, 10, 5, 0]);
    assert_eq!((rows(&world).await, got(&world, "stays").await.is_some()), (1, true));
    let ids = async || world.count("select count(*) from outlast.kv_writes").await;
    assert_eq!(ids().await, 26, "ids are remembered longer than values");
    assert_eq!(sweep(SECOND).await, [10, 10, 6, 0]);
    assert_eq!(ids().await, 0);
}

#[store_test]
async fn a_prefix_is_taken_as_it_is_written_and_keys_come_in_the_order_of_their_bytes(world: World) {
    let all_keys = [
        "%",
        "A",
        "B_1",
        "Bx1",
        "_",
        "a",
        "a%b",
        "a%bc",
        "a*",
        "a\\%",
        "a_b",
        "aab",
        "ab",
        "a\u{e4}",
        "b",
        "z",
        "\u{e4}",
        "\u{1f4e6}",
        "\u{10ffff}a",
    ];
    let mut sorted = all_keys;
    sorted.sort_unstable();
    assert_eq!(sorted, all_keys, "the test's own order");
    let writes: Vec<KvWrite> = all_keys.iter().rev().map(|key| set(key, key)).collect();
    world.store().kv_write(&writes).await.unwrap();

    for prefix in
        ["", "%", "_", "a", "a%", "a%b", "a_", "a*", "a\\", "B_", "\u{e4}", "\u{10ffff}", "a\u{e4}", "x"]
    {
        let expected: Vec<&str> = all_keys.iter().copied().filter(|key| key.starts_with(prefix)).collect();
        let whole = page(&world, &from(prefix)).await;
        assert_eq!((keys(&whole), whole.next.as_deref()), (expected.clone(), None), "{prefix:?}");
        for limit in [1, 2, 3] {
            let (found, pages) = all(&world, &KvList { limit, ..from(prefix) }).await;
            assert_eq!(found, expected, "{prefix:?} in pages of {limit}");
            assert_eq!(pages, expected.len().div_ceil(limit as usize).max(1));
        }
    }
    // From a key that is not there any more, or lies before the prefix.
    let from_the_middle = page(&world, &KvList { after: Some("a%bb".into()), ..from("a") }).await;
    assert_eq!(keys(&from_the_middle), ["a%bc", "a*", "a\\%", "a_b", "aab", "ab", "a\u{e4}"]);
    assert_eq!(keys(&page(&world, &KvList { after: Some("%".into()), ..from("B") }).await), ["B_1", "Bx1"]);
    assert_eq!(page(&world, &KvList { after: Some("z".into()), ..from("a") }).await, KvPage::default());
}

#[store_test]
async fn a_page_has_a_bounded_number_of_values_and_of_bytes(world: World) {
    let writes: Vec<KvWrite> = (0..1_005).map(|n| set(&format!("many {n:04}"), "x")).collect();
    world.store().kv_write(&writes).await.unwrap();
    let whole = page(&world, &KvList { limit: u32::MAX, ..from("many") }).await;
    assert_eq!((whole.entries.len(), whole.next.as_deref()), (KvList::MOST as usize, Some("many 0999")));
    assert_eq!(all(&world, &from("many")).await.0.len(), 1_005);

    let large = "x".repeat(10_000);
    let writes: Vec<KvWrite> = (0..9).map(|n| set(&format!("large {n}"), &large)).collect();
    world.store().kv_write(&writes).await.unwrap();
    for (bytes, pages) in [(10, 9), (21_000, 9), (22_000, 5), (100_000, 1)] {
        let (found, asked) = all(&world, &KvList { bytes, ..from("large") }).await;
        assert_eq!((found.len(), asked), (9, pages), "{bytes} bytes");
    }
}

#[store_test]
async fn tenants_and_spaces_are_apart(world: World) {
    let mut names = Vec::new();
    for tenant in ["", "acme", "ACME"] {
        for space in ["default", "carts", "Default"] {
            names.push(KvName { tenant: tenant.into(), space: space.into(), key: "key".into() });
        }
    }
    let text = |name: &KvName| format!("{}/{}", name.tenant, name.space);
    let writes: Vec<KvWrite> =
        names.iter().map(|name| KvWrite { name: name.clone(), ..set("", &text(name)) }).collect();
    world.store().kv_write(&writes).await.unwrap();
    for name in &names {
        let found = entry(&world, name).await.unwrap();
        assert_eq!(found.value.decode::<String>("a text").unwrap(), text(name));
        let ask = KvList { tenant: name.tenant.clone(), space: name.space.clone(), ..from("") };
        assert_eq!(page(&world, &ask).await.entries, [found]);
    }
    put(&world, &KvWrite { name: names[4].clone(), ..delete("") }).await;
    assert_eq!(rows(&world).await, 9, "a deleted one stays until its version is over");
    world.pass(SECOND).await;
    world.sweep().await;
    for (n, name) in names.iter().enumerate() {
        assert_eq!(entry(&world, name).await.is_some(), n != 4);
    }
}

/// The text under a key as a transaction sees it.
async fn seen(tx: &mut dyn UserTx, key: &str) -> Option<String> {
    let found = tx.kv_get(&name(key)).await.unwrap();
    found.map(|entry| entry.value.decode("a text").unwrap())
}

#[store_test]
async fn what_a_transaction_writes_is_there_with_its_commit_and_gone_with_its_roll_back(world: World) {
    made(&world, &set("old", "before")).await;
    let before = world.snapshot().await;
    for commits in [false, true] {
        let mut tx = world.begin().await;
        let writes = [set("old", "after"), set("new", "made"), delete("old"), set("old", "again")];
        let answers = tx.kv_write(&writes).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, KvWritten::Done { .. })), "{answers:?}");
        assert_eq!(seen(&mut *tx, "old").await.unwrap(), "again", "it sees itself");
        assert_eq!(keys(&tx.kv_list(&from("")).await.unwrap()), ["new", "old"]);
        let late = tx.kv_write(&[expecting(Expect::Absent, set("new", "no"))]).await.unwrap();
        assert!(matches!(late[0], KvWritten::Conflict { current: Some(_) }), "losing is an answer");

        assert_eq!(got(&world, "old").await.unwrap(), "before", "nobody else does");
        assert_eq!(keys(&page(&world, &from("")).await), ["old"]);
        match commits {
            false => {
                tx.rollback().await.unwrap();
                assert_eq!(world.snapshot().await, before);
            }
            true => tx.commit().await.unwrap(),
        }
    }
    assert_eq!(
        (got(&world, "old").await.unwrap(), got(&world, "new").await.unwrap()),
        ("again".into(), "made".into())
    );
}

#[store_test]
async fn whoever_writes_what_a_transaction_has_written_waits_for_its_end(world: World) {
    let first = made(&world, &set("key", "one")).await;
    let mut tx = world.begin().await;
    tx.kv_write(&[set("key", "two"), set("new", "two")]).await.unwrap();
    let others = [expecting(first, set("key", "no")), expecting(Expect::Absent, set("new", "no"))];
    let waits: Vec<_> = others
        .into_iter()
        .map(|other| {
            let world = world.clone();
            tokio::spawn(async move { put(&world, &other).await })
        })
        .collect();
    tx.commit().await.unwrap();
    for wait in waits {
        assert!(matches!(wait.await.unwrap(), KvWritten::Conflict { current: Some(_) }));
    }
    assert_eq!(got(&world, "key").await.unwrap(), "two");
}

/// Until so many wait for a lock.
async fn until_waiting(world: &World, many: i64) {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while world.count(sql).await < many {
        tokio::task::yield_now().await;
    }
}

// On SQLite a sweep and a write are never at work together.
#[store_test(postgres)]
async fn a_value_that_is_swept_while_a_transaction_writes_it_is_made_anew(world: World) {
    made(&world, &set_for("key", "old", SECOND)).await;
    world.pass(MINUTE).await;
    let mut sweeper = world.begin().await;
    assert_eq!(sweeper.execute("delete from outlast.kv", &[]).await.unwrap(), 1);
    let mut writer = world.begin().await;
    let writes = tokio::spawn(async move {
        writer.kv_write(&[set("key", "new")]).await.unwrap();
        writer.commit().await.unwrap();
    });
    until_waiting(&world, 1).await;
    sweeper.commit().await.unwrap();
    writes.await.unwrap();
    assert_eq!(got(&world, "key").await.unwrap(), "new");
}

// The test's own database may compare bytes anyway.
#[store_test(postgres)]
async fn names_are_compared_by_their_bytes_whatever_the_database_is_used_to(world: World) {
    let sql = "select column_name::text, collation_name::text from information_schema.columns
                where table_schema = 'outlast' and table_name = 'kv' and collation_name is not null order by 1";
    let c = |column: &str| [Value::Text(column.into()), Value::Text("C".into())];
    assert_eq!(world.raw(sql).await, [c("key"), c("space"), c("tenant")]);
}

#[store_test]
async fn a_sweep_passes_over_values_that_are_being_written(world: World) {
    made(&world, &set_for("key", "old", SECOND)).await;
    world.pass(MINUTE).await;
    if world.kind() == outlast_testkit::StoreKind::Postgres {
        let mut tx = world.begin().await;
        tx.kv_write(&[set("key", "new")]).await.unwrap();
        assert_eq!(world.sweep().await.forgotten, 0);
        tx.commit().await.unwrap();
    } else {
        made(&world, &set("key", "new")).await;
    }
    world.sweep().await;
    assert_eq!(got(&world, "key").await.unwrap(), "new");
}

#[store_test]
async fn people_see_values_as_json(world: World) {
    made(&world, &set("key", "red")).await;
    made(&world, &set("gone", "red")).await;
    made(&world, &delete("gone")).await;
    let rows = world.raw("select space, key, cast(value as text) from outlast.show_kv").await;
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(rows, [[text("default"), text("key"), text("\"red\"")]]);
}
