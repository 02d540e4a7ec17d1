//! Kill: ends a run at once in whatever state it is, and nothing is written behind it.

use std::time::Duration;

use outlast_core::{Error, FailureDoc, RunId, Status};
use outlast_store::{
    Address, Clash, Committed, Control, Controlled, Ended, Known, NewsKind, Next, Renew, Scope, Signal,
    Started,
};
use outlast_testkit::{StoreKind, World, event, key, store_test};

use crate::{DAY, MINUTE};

fn kill(run: RunId) -> Control {
    Control::Kill { run: Address::Run(run), reason: "for good".into() }
}

fn ended(run: RunId, by_this: bool) -> Controlled {
    Controlled::Final { run, status: Status::Cancelled, by_this }
}

/// What a run says that was killed.
fn killed() -> Ended {
    let failure = FailureDoc::Outlast(Error::Cancelled { reason: "killed: for good".into() });
    Ended { status: Status::Cancelled, output: None, error: serde_json::to_string(&failure).ok() }
}

#[store_test]
async fn a_run_in_any_state_ends_at_once(world: World) {
    let ready = world.start("greet").await.id;
    let later = world.start("greet").delayed(DAY).await.id;
    let mut runs = vec![ready, later];
    let ways: [fn() -> Option<Next>; 7] = [
        || None,
        || Some(Next::Suspend { wake_at: None, seen: 0 }),
        || Some(Next::Retry { after: DAY, attempt: 2 }),
        || Some(Next::Release),
        || Some(Next::Block { reason: "does not fit".into() }),
        || Some(Next::Undo),
        || Some(Next::GiveUp { reason: "the undo failed".into() }),
    ];
    for way in ways {
        let turn = world.start("greet").held_by("node").await;
        let writing = turn.records(1, "one").doing("two", 1, None);
        assert_eq!(world.commit(writing.with(|commit| commit.next = way())).await, Committed::Done);
        runs.push(turn.run);
    }
    for run in runs {
        world.send(run, "approval", "never read").await;
        assert_eq!(world.control(&kill(run)).await, ended(run, true));
        let view = world.view(run).await;
        assert_eq!((view.status, view.ended), (Status::Cancelled, Some(killed())));
        assert_eq!(world.inbox(run).await, ["never read"], "it may be tried again");
        assert_eq!(world.control(&kill(run)).await, ended(run, false), "it says that it has ended");
    }
    assert_eq!(world.claims_as("node", 100).await.len(), 0);
}

#[store_test]
async fn a_node_that_holds_it_writes_nothing_more(world: World) {
    let end = |status| Next::Finish(Ended { status, output: None, error: None });
    type Way = Box<dyn Fn(&outlast_testkit::Turn) -> outlast_testkit::Writing>;
    let ways: Vec<Way> = vec![
        Box::new(|turn| turn.records(2, "two")),
        Box::new(|turn| turn.complete("done")),
        Box::new(move |turn| turn.writes().next(end(Status::Cancelled))),
        Box::new(|turn| turn.suspend()),
        Box::new(|turn| turn.block("does not fit")),
    ];
    for way in ways {
        let turn = world.start("greet").held_by("node").await;
        let beside = world.start("greet").shard(turn.run.shard()).held_by("node").await;
        world.commit(turn.records(1, "one")).await;
        world.send(turn.run, "approval", "unread").await;
        let mut signals = world.store().signals();
        assert_eq!(world.control(&kill(turn.run)).await, ended(turn.run, true));
        while signals.recv().await.unwrap() != Signal::Taken(turn.run) {}

        let answers = world.commit_all(vec![way(&turn), beside.records(1, "one")]).await;
        assert_eq!(answers, [Committed::LeaseLost, Committed::Done], "others of its batch go on");
        assert_eq!(world.journal(turn.run).await, ["one"]);
        assert_eq!(world.view(turn.run).await.ended, Some(killed()), "the first end stays");
        assert_eq!(world.inbox(turn.run).await, ["unread"], "it is there when the run is tried again");

        let known = vec![Known { run: turn.run, epoch: turn.epoch, seen: 0 }];
        let renewed = world.renew(&Renew { known, ..world.renewal("node").await }).await;
        assert_eq!(renewed.lost, [turn.run], "a renewal says so too");
    }
}

#[store_test]
async fn its_parent_and_whoever_listens_hear_of_it_once(world: World) {
    let parent = world.start("order").shard(0).held_by("node").await;
    let other = world.start("order").shard(1).held_by("node").await;
    let child = world.start("ship").shard(2).child_of(parent.run, "ship");
    let id = child.clone().asked().id;
    world.commit(parent.records(1, "ship").starts(child).suspend(0)).await;
    world.listen(id, other.run, "shared").await;
    other.suspended().await;
    world.claim_as("node").await;
    world.control(&kill(id)).await;
    world.control(&kill(id)).await;

    let woken = world.claims_as("node", 10).await;
    assert_eq!(woken.len(), 2);
    for turn in woken {
        let news: Vec<_> = turn.claimed.inbox.iter().map(|news| (news.kind, &*news.name)).collect();
        let name = if turn.run == parent.run { "ship" } else { "shared" };
        assert_eq!(news, [(NewsKind::Child, name)]);
        assert_eq!(Ended::from_payload(turn.claimed.inbox[0].body.as_ref().unwrap()).unwrap(), killed());
    }
}

#[store_test]
async fn its_key_still_names_it_and_its_kind_is_free(world: World) {
    let start = || world.start("order").unique("only", Scope::Unfinished, Clash::Refuse);
    let turn = start().held_by("node").await;
    assert!(matches!(start().answer().await, Started::Taken { .. }));
    world.control(&kill(turn.run)).await;
    assert!(matches!(start().answer().await, Started::Created { .. }));

    let run = world.start_keyed("order", "o-1").await;
    let by_key = Control::Kill { run: key("order", "o-1"), reason: "for good".into() };
    assert_eq!(world.control(&by_key).await, ended(run.id, true));
    assert_eq!(world.store().find(&key("order", "o-1")).await.unwrap(), Some(run.id));
}

#[store_test]
async fn nobody_is_unknown_and_what_has_ended_stays(world: World) {
    let nobody = world.start("greet").asked().id;
    assert_eq!(world.control(&kill(nobody)).await, Controlled::Unknown);
    world.deliver(&event(key("order", "o-2"), "approval", "kept")).await;
    let by_key = Control::Kill { run: key("order", "o-2"), reason: "for good".into() };
    assert_eq!(world.control(&by_key).await, Controlled::Unknown, "a message alone is no run");

    let turn = world.start("greet").held_by("node").await;
    turn.completed("done").await;
    let before = world.snapshot().await;
    let completed = Controlled::Final { run: turn.run, status: Status::Completed, by_this: false };
    assert_eq!(world.control(&kill(turn.run)).await, completed);
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn a_job_that_was_killed_can_be_tried_again_and_its_late_turn_fits_nothing(world: World) {
    let turn = world.start("mail").job().held_by("node").await;
    world.control(&kill(turn.run)).await;
    let retry = Control::Retry { run: Address::Run(turn.run), epoch: None, input: None, repair: None };
    assert_eq!(world.control(&retry).await, Controlled::Retried { run: turn.run, by_this: true });
    let again = world.claim_as("node").await;
    assert!(again.epoch > turn.epoch);
    assert_eq!(world.commit(turn.complete("late")).await, Committed::LeaseLost);
    again.completed("in time").await;
    assert_eq!(world.output(turn.run).await, "in time");
}

// SQLite has one writer: there is no batch beside a kill.
#[store_test]
async fn a_kill_waits_for_what_the_node_is_just_writing(world: World) {
    if world.kind() == StoreKind::Sqlite {
        return;
    }
    let turn = world.start("greet").held_by("node").await;
    // A step's entry, which holds the node's row and not the run's.
    let mut batch = world.begin().await;
    let entry = outlast_testkit::step(1, "in flight");
    let recorded = batch.record(turn.node, turn.run, turn.epoch, &entry).await.unwrap();
    assert_eq!(recorded, Committed::Done);

    let store = world.store().clone();
    let asked = kill(turn.run);
    let kills = tokio::spawn(async move { store.control(&asked).await.unwrap() });
    let waits = "select count(*) from pg_locks where not granted";
    tokio::time::timeout(MINUTE, async {
        while world.count(waits).await == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(!kills.is_finished());
    batch.commit().await.unwrap();
    let done = tokio::time::timeout(Duration::from_secs(30), kills).await.unwrap().unwrap();
    assert_eq!(done, ended(turn.run, true));
    assert_eq!(world.journal(turn.run).await, ["in flight"]);
}

#[store_test]
async fn a_kill_in_a_transaction_happens_when_that_commits(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let mut tx = world.begin().await;
    assert_eq!(tx.control(&kill(turn.run)).await.unwrap(), ended(turn.run, true));
    drop(tx);
    assert_eq!(world.commit(turn.records(1, "one")).await, Committed::Done);

    let mut tx = world.begin().await;
    assert_eq!(tx.control(&kill(turn.run)).await.unwrap(), ended(turn.run, true));
    tx.commit().await.unwrap();
    assert_eq!(world.commit(turn.records(2, "two")).await, Committed::LeaseLost);
}
