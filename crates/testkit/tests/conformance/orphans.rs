//! Children of a run that did not end well are asked to stop, in pages, whoever ended it.

use outlast_core::{RunId, Status};
use outlast_store::{Address, Committed, Control, Ended, NewsKind, Next, Started, Sweep, Swept};
use outlast_testkit::{LEASE, Starting, Turn, World, store_test, sweep_of};

use crate::DAY;

fn finish(status: Status) -> Next {
    Next::Finish(Ended { status, output: None, error: None })
}

fn kill(run: RunId) -> Control {
    Control::Kill { run: Address::Run(run), reason: "for good".into() }
}

/// A child that is asked to stop with its parent, not due for a while.
fn ward(world: &World, parent: RunId, op: &str) -> Starting {
    world.start("ship").shard(parent.shard()).child_of(parent, op).stops_with_parent().delayed(DAY)
}

/// A parent that waits for a child, and the child.
async fn family(world: &World) -> (Turn, RunId) {
    let parent = world.start("order").held_by("node").await;
    let child = ward(world, parent.run, "ship");
    let id = child.clone().asked().id;
    assert_eq!(world.commit(parent.records(1, "ship").starts(child)).await, Committed::Done);
    (parent, id)
}

async fn why(world: &World, run: RunId) -> String {
    let ended = world.view(run).await.ended.expect("it has ended");
    let failure: outlast_core::FailureDoc = serde_json::from_str(&ended.error.unwrap()).unwrap();
    failure.message()
}

#[store_test]
async fn a_child_stops_when_its_parent_ends_other_than_well(world: World) {
    for status in [Status::Failed, Status::Cancelled] {
        let (parent, child) = family(&world).await;
        assert_eq!(world.commit(parent.writes().next(finish(status))).await, Committed::Done);
        assert_eq!(world.status(child).await, Status::Ready, "it is noted, and nobody has looked yet");
        world.sweep().await;
        assert_eq!(world.status(child).await, Status::Cancelled);
        let told = why(&world, child).await;
        assert!(told.starts_with(&format!("cancelled: its parent {} has {status}", parent.run)), "{told}");
    }
    let (parent, child) = family(&world).await;
    parent.completed("done").await;
    world.sweep().await;
    assert_eq!(world.status(child).await, Status::Ready, "it goes on after a parent that ended well");
    assert_eq!(world.count("select count(*) from outlast.orphans").await, 0);
}

#[store_test]
async fn a_sweep_for_such_children_alone_leaves_everything_else_to_the_others(world: World) {
    let (parent, child) = family(&world).await;
    assert_eq!(world.commit(parent.writes().next(finish(Status::Failed))).await, Committed::Done);
    let held = world.start("greet").shard(child.shard()).held_by("gone").await;
    world.pass(LEASE * 2).await;
    for shard in 0..world.store().shards() {
        let ask = Sweep { only_orphans: true, ..sweep_of(shard) };
        assert_eq!(world.store().sweep(&ask).await.unwrap(), Swept::default());
    }
    assert_eq!(world.status(child).await, Status::Cancelled);
    assert_eq!(world.status(held.run).await, Status::Running, "whoever is dead is for a whole sweep");
    assert_eq!(world.sweep().await.freed, 1);
}

#[store_test]
async fn also_when_the_parent_ends_without_its_code(world: World) {
    let (killed, of_killed) = family(&world).await;
    world.control(&kill(killed.run)).await;
    let (blocked, of_blocked) = family(&world).await;
    world.commit(blocked.block("does not fit")).await;
    world.cancel(blocked.run, "enough").await;
    let (paused, of_paused) = family(&world).await;
    paused.suspended().await;
    world.control(&Control::Pause { run: Address::Run(paused.run), reason: "for a look".into() }).await;
    world.cancel(paused.run, "enough").await;
    world.sweep().await;
    for (parent, child, reason) in [
        (killed.run, of_killed, "killed: for good"),
        (blocked.run, of_blocked, "enough"),
        (paused.run, of_paused, "enough"),
    ] {
        assert_eq!(
            why(&world, child).await,
            format!("cancelled: its parent {parent} was cancelled: {reason}")
        );
    }
}

#[store_test]
async fn a_child_that_runs_is_asked_and_one_that_is_left_is_not(world: World) {
    let parent = world.start("order").held_by("node").await;
    let runs = world.start("ship").shard(parent.run.shard()).child_of(parent.run, "ship").stops_with_parent();
    let left = world.start("ship").shard(parent.run.shard()).child_of(parent.run, "ship#2").delayed(DAY);
    let (asked, stays) = (runs.clone().asked().id, left.clone().asked().id);
    world.commit(parent.records(1, "ship").starts(runs).starts(left)).await;
    let turn = world.claim_as("node").await;
    assert_eq!(turn.run, asked);
    world.control(&kill(parent.run)).await;
    world.sweep().await;
    let news = world.store().inbox(&[(asked, 0)]).await.unwrap();
    assert_eq!(news.iter().map(|(_, news)| news.kind).collect::<Vec<_>>(), [NewsKind::Cancel]);
    assert_eq!(world.status(stays).await, Status::Ready);
    // It tells nobody: its parent does not listen any more.
    assert_eq!(world.commit(turn.writes().next(finish(Status::Cancelled))).await, Committed::Done);
    assert_eq!(world.count("select count(*) from outlast.inbox").await, 0);
}

#[store_test]
async fn whole_trees_stop(world: World) {
    let root = world.start("order").held_by("node").await;
    let mut parent = root.clone();
    let mut below = Vec::new();
    for _ in 0..5 {
        let child = world.start("ship").shard(parent.run.shard()).child_of(parent.run, "ship");
        world.commit(parent.records(1, "ship").starts(child.stops_with_parent()).suspend(0)).await;
        parent = world.claim_as("node").await;
        below.push(parent.run);
    }
    world.commit(parent.block("does not fit")).await;
    world.control(&kill(root.run)).await;
    // Each is asked when the one above has ended; nobody has to look more than once for each.
    for run in &below {
        world.sweep().await;
        for turn in world.claims_as("node", 10).await {
            assert_eq!(turn.claimed.inbox[0].kind, NewsKind::Cancel);
            world.commit(turn.writes().consumes(&[1]).next(finish(Status::Cancelled))).await;
        }
        assert_eq!(world.status(*run).await, Status::Cancelled);
    }
    world.sweep().await;
    assert_eq!(world.count("select count(*) from outlast.orphans").await, 0);
}

#[store_test]
async fn children_stop_when_their_parent_begins_to_undo(world: World) {
    let (parent, child) = family(&world).await;
    world.commit(parent.writes().next(Next::Undo)).await;
    world.sweep().await;
    assert_eq!(world.status(child).await, Status::Cancelled);
    let turn = world.claim_as("node").await;
    assert_eq!(turn.claimed.inbox[0].kind, NewsKind::Child, "a parent that is still there hears of it");
    world.commit(turn.writes().next(finish(Status::Failed))).await;
    world.sweep().await;
    assert_eq!(world.count("select count(*) from outlast.orphans").await, 0);
}

#[store_test]
async fn thousands_of_children_are_asked_page_by_page_by_any_number_of_sweepers(world: World) {
    const CHILDREN: usize = 2_050;
    let parent = world.start("order").held_by("node").await;
    let wards: Vec<_> = (0..CHILDREN).map(|n| ward(&world, parent.run, &format!("ship#{n}"))).collect();
    let writing = wards.into_iter().fold(parent.records(1, "ship"), |writing, child| writing.starts(child));
    assert_eq!(world.commit(writing).await, Committed::Done);
    world.control(&kill(parent.run)).await;
    let ask = sweep_of(parent.run.shard());
    let sweeps = (0..3).map(|_| world.store().sweep(&ask));
    for swept in futures_util::future::join_all(sweeps).await {
        swept.unwrap();
    }
    world.sweep().await;
    let cancelled =
        format!("select count(*) from outlast.results where status = {}", Status::Cancelled.code());
    assert_eq!(world.count(&cancelled).await, CHILDREN as i64 + 1);
    assert_eq!(world.count("select count(*) from outlast.orphans").await, 0);
}

#[store_test]
async fn a_child_that_is_started_by_its_key_after_its_parent_has_ended_stops_too(world: World) {
    let start =
        |parent: RunId, key: &str| world.start("ship").key(key).child_of(parent, "ship").stops_with_parent();
    let killed = world.start("order").held_by("node").await;
    world.control(&kill(killed.run)).await;
    let late = start(killed.run, "late").delayed(DAY).answer().await;
    let Started::Created { id: late, .. } = late else { panic!("it starts: {late:?}") };
    let completed = world.start("order").held_by("node").await;
    completed.completed("done").await;
    let fine = start(completed.run, "fine").delayed(DAY).await.id;
    let early = world.start("order").held_by("node").await;
    let elsewhere = start(early.run, "early").delayed(DAY).await.id;
    world.control(&kill(early.run)).await;
    world.sweep().await;
    assert_eq!(world.status(late).await, Status::Cancelled);
    assert_eq!(world.status(fine).await, Status::Ready);
    assert_eq!(world.status(elsewhere).await, Status::Cancelled, "in whatever shard its key is");
}

#[store_test]
async fn a_child_that_is_tried_again_does_not_belong_to_its_parent_any_more(world: World) {
    let parent = world.start("order").held_by("node").await;
    let child =
        world.start("mail").job().shard(parent.run.shard()).child_of(parent.run, "mail").stops_with_parent();
    world.commit(parent.records(1, "mail").starts(child)).await;
    let turn = world.claim_as("node").await;
    world.commit(turn.writes().next(finish(Status::Failed))).await;
    world
        .control(&Control::Retry { run: Address::Run(turn.run), epoch: None, input: None, repair: None })
        .await;
    world.control(&kill(parent.run)).await;
    world.sweep().await;
    assert_eq!(world.status(turn.run).await, Status::Ready);
}
