//! The proof that something wakes every unfinished run.

use outlast_core::{RunId, Status, WaitOn, WakeSource, Why};
use outlast_store::{Committed, Unwakeable, VerifyMark};
use outlast_testkit::{LEASE, World, store_test};

use crate::stage::{open, why};

/// Everything that pages of this size find.
pub(crate) async fn verified(world: &World, limit: u32) -> (Vec<(WakeSource, u64)>, Vec<Unwakeable>) {
    let (mut wakes, mut without) = (std::collections::BTreeMap::new(), Vec::new());
    let mut from = Some(VerifyMark::default());
    while let Some(mark) = from {
        let page = world.store().verify(mark, limit).await.unwrap();
        page.wakes.into_iter().for_each(|(source, count)| *wakes.entry(source).or_insert(0) += count);
        without.extend(page.without);
        from = page.next;
    }
    (wakes.into_iter().collect(), without)
}

#[store_test]
async fn every_run_has_something_that_wakes_it_whatever_the_size_of_the_page(world: World) {
    world.start("greet").await.claimed_by("node").await;
    let waits = world.start("order").await.claimed_by("node").await;
    let event = waits.suspend().with(|commit| commit.entries.push(open(1, WaitOn::Event, "go")));
    world.commit(event).await;
    let blocked = world.start("order").await.claimed_by("node").await;
    world.commit(blocked.block("it does not fit")).await;
    let done = world.start("order").await.claimed_by("node").await;
    done.completed("done").await;
    for _ in 0..5 {
        world.start("mail").await;
    }
    let wanted =
        vec![(WakeSource::Due, 5), (WakeSource::Held, 1), (WakeSource::Waiting, 1), (WakeSource::Blocked, 1)];
    for limit in [1, 2, 3, 1000] {
        assert_eq!(verified(&world, limit).await, (wanted.clone(), Vec::new()), "pages of {limit}");
    }
    // A node that is late is still there to be found dead.
    world.pass(LEASE * 3).await;
    assert_eq!(verified(&world, 2).await.1, []);
}

/// A run that was left without anything by hand, and mended again so that the database makes sense at the end.
async fn orphan(world: &World, run: RunId, set: &str, mend: &str) -> String {
    let id = world.sql_id(run);
    world.raw(&format!("update outlast.agenda set {set} where id = {id}")).await;
    let (_, without) = verified(world, 2).await;
    assert_eq!(without.len(), 1, "{set}: {without:?}");
    assert_eq!(without[0].run, run);
    assert!(matches!(why(world, run).await, Why::NoWake { .. }), "{set}");
    world.raw(&format!("update outlast.agenda set {mend} where id = {id}")).await;
    assert_eq!(verified(world, 2).await.1, [], "{mend}");
    without[0].detail.clone()
}

#[store_test]
async fn a_run_that_was_made_an_orphan_by_hand_is_found(world: World) {
    let ready = world.start("greet").await.id;
    let due = world.now().await.micros();
    let mend = format!("status = 1, due_at = {due}, node = null, claim = null, reason = null");
    for (status, reason) in [
        (Status::Ready, "due at no time"),
        (Status::Running, "no node has it"),
        (Status::Waiting, "neither a time nor anything open"),
        (Status::Undoing, "due at no time"),
        (Status::Blocked, "does not say why"),
        (Status::UndoFailed, "does not say why"),
        (Status::Completed, "still stands in line"),
    ] {
        let set = format!("status = {}, due_at = null", status.code());
        let told = orphan(&world, ready, &set, &mend).await;
        assert!(told.contains(reason), "{status}: {told}");
    }
    let nobody = world.sql_id(world.start("greet").asked().id);
    let set = format!("status = 2, due_at = null, node = {nobody}, claim = 1");
    let told = orphan(&world, ready, &set, &mend).await;
    assert!(told.contains("no node of this database"), "{told}");
}

#[store_test]
async fn a_wake_up_that_got_lost_is_found(world: World) {
    let turn = world.start("order").await.claimed_by("node").await;
    let event = turn.suspend().with(|commit| commit.entries.push(open(1, WaitOn::Event, "go")));
    world.commit(event).await;
    world.send(turn.run, "go", "now").await;
    // As if the message had not found it waiting.
    let told = orphan(&world, turn.run, "status = 3, due_at = null", "status = 1, due_at = 1").await;
    assert!(told.contains("anything open"), "{told}");
}

#[store_test]
async fn a_run_that_waits_for_one_that_has_ended_is_found(world: World) {
    let turn = world.start("order").await.claimed_by("node").await;
    let child = world.start("ship").shard(turn.run.shard()).child_of(turn.run, "ship");
    let ship = child.clone().asked().id;
    let waits = turn.suspend().with(|commit| commit.entries.push(open(1, WaitOn::Child, "ship")));
    world.commit(waits.starts(child)).await;
    assert_eq!(verified(&world, 10).await.1, []);
    world.cancel(ship, "no more").await;
    orphan(&world, turn.run, "status = 3, due_at = null", "status = 1, due_at = 1").await;
}

#[store_test]
async fn a_run_that_is_in_no_line_is_found(world: World) {
    let runs = [world.start("greet").await.id, world.start("greet").await.id, world.start("greet").await.id];
    let id = world.sql_id(runs[1]);
    world.raw(&format!("delete from outlast.agenda where id = {id}")).await;
    for limit in [1, 2, 10] {
        let (_, without) = verified(&world, limit).await;
        let found: Vec<_> = without.iter().map(|found| (found.run, found.status)).collect();
        assert_eq!(found, [(runs[1], None)], "pages of {limit}");
    }
    assert!(matches!(why(&world, runs[1]).await, Why::NoWake { .. }));
    world.raw(&format!("delete from outlast.runs where id = {id}")).await;
}

/// What pages of this size say that must never be.
async fn contradictions(world: &World, limit: u32) -> Vec<(&'static str, u64)> {
    let mut found = Vec::new();
    let mut from = Some(VerifyMark::default());
    while let Some(mark) = from {
        let page = world.store().verify(mark, limit).await.unwrap();
        found.extend(page.contradictions.into_iter().map(|found| (found.what, found.times)));
        from = page.next;
    }
    found
}

#[store_test]
async fn tables_that_do_not_agree_about_a_run_are_told_of(world: World) {
    let two = world.start("greet").await;
    let turn = two.claimed_by("node").await;
    let one = world.start("greet").await;
    assert_eq!(world.commit(turn.records(1, "charge")).await, Committed::Done);
    let (one, two) = (world.sql_id(one.id), world.sql_id(two.id));
    for limit in [1, 1000] {
        assert_eq!(contradictions(&world, limit).await, []);
        for (break_it, mend_it, told) in [
            (
                format!("update outlast.journal set epoch = epoch + 5 where run = {two}"),
                format!("update outlast.journal set epoch = epoch - 5 where run = {two}"),
                "an entry has a greater epoch than its run",
            ),
            (
                format!("update outlast.agenda set reason = 'none' where id = {one}"),
                format!("update outlast.agenda set reason = null where id = {one}"),
                "a run has a reason and does not stand still",
            ),
            (
                format!("update outlast.agenda set claim = 5 where id = {one}"),
                format!("update outlast.agenda set claim = null where id = {one}"),
                "a ready run is not due at any time, or is held",
            ),
        ] {
            world.raw(&break_it).await;
            assert_eq!(contradictions(&world, limit).await, [(told, 1)], "pages of {limit}");
            world.raw(&mend_it).await;
            assert_eq!(contradictions(&world, limit).await, []);
        }
    }
}
