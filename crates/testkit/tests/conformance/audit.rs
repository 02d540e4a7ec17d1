//! The chain of the audit log: whoever changes or removes a line by hand is found out, and nobody else.

use std::time::Duration;

use outlast_store::{Access, Accessed, AuditNote, ChainChecked, ChainList, Link, check_chain};
use outlast_testkit::{World, store_test};
use uuid::Uuid;

use crate::access::note;
use crate::{DAY, MINUTE};

async fn add(world: &World, ids: std::ops::RangeInclusive<u128>) {
    for id in ids {
        world.store().access(&Access::Note(note(id, "acme", "run"))).await.unwrap();
    }
}

/// Walks the whole chain, two lines at a time; gives what does not fit, and its end.
async fn walk(world: &World, known: Option<&Link>) -> (Vec<String>, Link) {
    let (mut from, mut told) = (None, Vec::new());
    loop {
        let after = from.as_ref().map_or(0, |from: &Link| from.place);
        let page = world.store().audit_chain(ChainList { after, limit: 2 }).await.unwrap();
        let ChainChecked { breaks, next } = check_chain(&page, from.as_ref(), known);
        told.extend(breaks.into_iter().map(|found| found.what));
        from = next;
        if from.is_none() {
            return (told, page.chain.map(|chain| chain.end).unwrap_or_default());
        }
    }
}

async fn found(world: &World) -> Vec<String> {
    walk(world, None).await.0
}

async fn forget(world: &World, keep: Duration) -> u32 {
    match world.store().access(&Access::Forget { keep, limit: 100 }).await.unwrap() {
        Accessed::Forgotten(count) => count,
        other => panic!("{other:?}"),
    }
}

#[store_test]
async fn a_chain_that_nobody_touched_holds(world: World) {
    assert_eq!(walk(&world, None).await, (vec![], Link::default()));
    let strange = AuditNote {
        reason: Some("a\0b \u{1f980}".into()),
        token: None,
        after: Some(String::new()),
        ..note(9, "", "")
    };
    world.store().access(&Access::Note(strange)).await.unwrap();
    add(&world, 1..=5).await;
    let (told, end) = walk(&world, None).await;
    assert_eq!((told, end.place), (vec![], 6));
    // The same line again is no other line.
    add(&world, 5..=5).await;
    assert_eq!(walk(&world, Some(&end)).await, (vec![], end));
}

#[store_test]
async fn a_line_that_was_changed_is_named(world: World) {
    add(&world, 1..=5).await;
    for (column, value, back) in [
        ("actor", "'bob'", "'ann'"),
        ("target", "'another'", "'run'"),
        ("reason", "null", "'wrong address'"),
        ("before", "null", "'{\"status\":\"waiting\"}'"),
        ("status", "500", "200"),
    ] {
        world.raw(&format!("update outlast.audit set {column} = {value} where place = 3")).await;
        let told = found(&world).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("line 3 (run.cancel of ") && told[0].contains("was changed"), "{told:?}");
        world.raw(&format!("update outlast.audit set {column} = {back} where place = 3")).await;
    }
    assert!(found(&world).await.is_empty());
    world.raw("update outlast.audit set hash = 'beef' where place = 3").await;
    assert_eq!(found(&world).await.len(), 2, "it, and the one that follows from it");
}

#[store_test]
async fn lines_that_were_removed_are_named_wherever_they_were(world: World) {
    add(&world, 1..=9).await;
    world.raw("delete from outlast.audit where place in (1, 4, 5, 9)").await;
    assert_eq!(found(&world).await, ["line 1 is missing", "lines 4 to 5 are missing", "line 9 is missing"]);
    // Whoever adds to it later does not hide that.
    add(&world, 10..=10).await;
    assert_eq!(found(&world).await.last().unwrap(), "line 9 is missing");
}

#[store_test]
async fn what_was_written_anew_is_found_by_whoever_kept_its_end(world: World) {
    add(&world, 1..=4).await;
    let (_, end) = walk(&world, None).await;
    // All that is said of the chain agrees with each other, and not with what somebody remembers.
    world.raw("delete from outlast.audit where place > 2").await;
    world.raw("update outlast.audit_chain set place = 2, hash = (select hash from outlast.audit where place = 2)").await;
    assert!(found(&world).await.is_empty());
    let told = walk(&world, Some(&end)).await.0;
    assert_eq!(told, ["you know line 4, and the chain ends with line 2: what was behind is cut off"]);
    add(&world, 11..=14).await;
    assert!(found(&world).await.is_empty());
    let told = walk(&world, Some(&end)).await.0;
    assert_eq!(told, ["line 4 is another than the one that you know: the chain was written anew"]);
    world.raw("delete from outlast.audit_chain").await;
    let told = found(&world).await;
    assert!(told.len() == 1 && told[0].contains("is gone"), "{told:?}");
    add(&world, 15..=15).await;
    assert!(found(&world).await.is_empty(), "it goes on");
}

#[store_test]
async fn lines_that_were_kept_long_enough_leave_a_chain_that_holds(world: World) {
    add(&world, 1..=3).await;
    let (_, old) = walk(&world, None).await;
    world.pass(DAY).await;
    add(&world, 4..=6).await;
    assert_eq!(forget(&world, DAY / 2).await, 3);
    assert_eq!(walk(&world, Some(&old)).await.0, [""; 0]);
    let other = Link { hash: "beef".into(), ..old.clone() };
    assert_eq!(walk(&world, Some(&other)).await.0.len(), 1, "what it begins behind is known");
    world.raw("delete from outlast.audit where place = 4").await;
    assert_eq!(found(&world).await, ["line 4 is missing"]);
    // When all are gone it goes on where it was.
    world.pass(DAY).await;
    assert_eq!(forget(&world, DAY / 2).await, 2);
    assert!(found(&world).await.is_empty());
    add(&world, 7..=7).await;
    assert_eq!(walk(&world, None).await.1.place, 7);
    assert!(found(&world).await.is_empty());
}

#[store_test]
async fn lines_of_programs_that_know_no_chain_are_given_a_place(world: World) {
    let loose = async |id: u8, at: i64| {
        let id =
            if world.store().name() == "sqlite" { format!("x'{id:032x}'") } else { format!("'{id:032x}'") };
        let sql = format!(
            "insert into outlast.audit (shard, id, at, tenant, actor, action, target, request, status)
             values (0, {id}, {at}, '', 'old', 'run.kill', 'r', 'q', 200)"
        );
        world.raw(&sql).await;
    };
    let now = world.now().await.micros();
    loose(1, now - 10_000_000).await;
    add(&world, 100..=101).await;
    loose(2, now + 3_600_000_000).await;
    let page = world.store().audit_chain(ChainList { after: 0, limit: 10 }).await.unwrap();
    assert_eq!((page.older, page.loose, page.lines.len()), (1, 1, 2));
    assert_eq!(forget(&world, DAY).await, 0);
    let page = world.store().audit_chain(ChainList { after: 0, limit: 10 }).await.unwrap();
    assert_eq!((page.older, page.loose, page.lines.len()), (1, 0, 3));
    assert_eq!(page.lines[2].1.note.id, Uuid::from_u128(2));
    assert!(found(&world).await.is_empty());
    world.pass(DAY * 2).await;
    assert_eq!(forget(&world, DAY).await, 4);
    assert!(found(&world).await.is_empty());
}

#[store_test]
async fn many_who_add_at_once_make_one_chain(world: World) {
    let other = world.second_store().await;
    let adds = (1..=60_u128).map(|id| {
        let store = if id % 2 == 0 { other.clone() } else { world.store().clone() };
        async move { store.access(&Access::Note(note(id, "acme", "run"))).await.unwrap() }
    });
    let forgets = (0..3).map(|_| async { forget(&world, MINUTE).await });
    futures_util::future::join(futures_util::future::join_all(adds), futures_util::future::join_all(forgets))
        .await;
    let (told, end) = walk(&world, None).await;
    assert_eq!((told, end.place), (vec![], 60));
}
