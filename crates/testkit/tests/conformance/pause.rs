//! Pause and resume: a run is held back in whatever state it is, and nothing of it gets lost meanwhile.

use outlast_core::{RunId, Status, Why};
use outlast_store::{
    Address, Clash, Committed, Control, Controlled, Ended, Known, NewsKind, Next, Renew, Scope, Signal,
    Started,
};
use outlast_testkit::{LEASE, World, key, store_test};

use crate::{DAY, MINUTE};

fn pause(run: RunId) -> Control {
    Control::Pause { run: Address::Run(run), reason: "for a look".into() }
}

fn resume(run: RunId) -> Control {
    Control::Resume { run: Address::Run(run) }
}

fn paused(run: RunId, by_this: bool) -> Controlled {
    Controlled::Paused { run, by_this }
}

fn resumed(run: RunId, by_this: bool) -> Controlled {
    Controlled::Resumed { run, by_this }
}

/// It stands still, and says why.
async fn stands_still(world: &World, run: RunId) {
    let view = world.view(run).await;
    assert_eq!((view.status, view.reason.as_deref()), (Status::Paused, Some("for a look")));
    assert_eq!(view.pause_reason, None, "it is no longer asked");
    assert_eq!((view.due_at, view.node), (None, None));
    let told = world.store().explain(run).await.unwrap().unwrap().why;
    assert_eq!(told, Why::Paused { reason: Some("for a look".into()) });
    assert!(world.claims_as("node", 100).await.is_empty(), "nobody claims it");
}

#[store_test]
async fn a_ready_run_is_paused_at_once_and_resumed_when_it_was_due(world: World) {
    let later = world.start("greet").delayed(DAY).asked();
    let now = world.start("greet").asked();
    let mut runs = Vec::new();
    for start in [later, now] {
        let run = start.id;
        runs.push(run);
        world.store().start(&[start], None).await.unwrap();
        assert_eq!(world.control(&pause(run)).await, paused(run, true));
        assert_eq!(world.control(&pause(run)).await, paused(run, false), "it is already");
        stands_still(&world, run).await;
        assert_eq!(world.control(&resume(run)).await, resumed(run, true));
        assert_eq!(world.control(&resume(run)).await, resumed(run, false), "it goes on already");
        assert_eq!(world.view(run).await.reason, None);
    }
    let (later, now) = (runs[0], runs[1]);
    assert_eq!(world.claim_as("node").await.run, now);
    assert!(world.claims_as("node", 10).await.is_empty(), "the other is not early");
    world.pass(DAY).await;
    assert_eq!(world.claim_as("later").await.run, later);
}

#[store_test]
async fn a_waiting_run_keeps_what_comes_and_finds_it_when_it_is_resumed(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.suspend_until(world.now().await + MINUTE)).await;
    assert_eq!(world.control(&pause(run.id)).await, paused(run.id, true));
    world.send(run.id, "approval", "yes").await;
    world.pass(MINUTE * 2).await;
    stands_still(&world, run.id).await;

    world.control(&resume(run.id)).await;
    let turn = world.claim_as("node").await;
    assert_eq!((turn.run, turn.claimed.inbox.len()), (run.id, 1));
    assert_eq!(turn.claimed.inbox[0].kind, NewsKind::Event);
    turn.completed("done").await;
}

#[store_test]
async fn a_running_run_is_paused_however_its_turn_ends(world: World) {
    let ways: [fn() -> Next; 6] = [
        || Next::Suspend { wake_at: None, seen: 0 },
        || Next::Suspend { wake_at: None, seen: 9 },
        || Next::Release,
        || Next::Block { reason: "does not fit".into() },
        || Next::Undo,
        || Next::Retry { after: DAY, attempt: 2 },
    ];
    for way in ways {
        let turn = world.start("greet").held_by("node").await;
        let mut signals = world.store().signals();
        assert_eq!(world.control(&pause(turn.run)).await, Controlled::Asked { run: turn.run });
        assert_eq!(world.control(&pause(turn.run)).await, Controlled::Asked { run: turn.run });
        while signals.recv().await.unwrap() != Signal::Pause(turn.run) {}
        let view = world.view(turn.run).await;
        assert_eq!(
            (view.status, view.pause_reason.as_deref()),
            (Status::Running, Some("for a look")),
            "it is asked"
        );

        let known = vec![Known { run: turn.run, epoch: turn.epoch, seen: 0 }];
        let renewed = world.renew(&Renew { known, ..world.renewal("node").await }).await;
        assert_eq!(renewed.pausing, [turn.run], "a renewal says so too");

        assert_eq!(world.commit(turn.records(1, "one").next(way())).await, Committed::Done);
        stands_still(&world, turn.run).await;
        assert_eq!(world.journal(turn.run).await, ["one"]);
        world.control(&resume(turn.run)).await;
        if matches!(way(), Next::Retry { .. }) {
            assert!(
                world.claims_as("node", 10).await.is_empty(),
                "the pause before its next attempt is not over"
            );
            world.pass(DAY).await;
        }
        let again = world.claim_as("later").await;
        assert_eq!(again.run, turn.run);
        again.completed("done").await;
    }
}

#[store_test]
async fn a_turn_that_only_waits_cannot_pass_the_request(world: World) {
    // Without entries, the shortest way there is.
    let turn = world.start("greet").held_by("node").await;
    world.control(&pause(turn.run)).await;
    assert_eq!(world.commit(turn.suspend()).await, Committed::Done);
    assert_eq!(world.commit(turn.suspend()).await, Committed::Done, "a repeat says the same");
    stands_still(&world, turn.run).await;
}

#[store_test]
async fn a_result_counts_although_somebody_asked_for_a_pause(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.control(&pause(turn.run)).await;
    turn.completed("done").await;
    assert_eq!(world.output(turn.run).await, "done");
    let ended = Controlled::Final { run: turn.run, status: Status::Completed, by_this: false };
    assert_eq!(world.control(&pause(turn.run)).await, ended);
    assert_eq!(world.control(&resume(turn.run)).await, ended);
}

#[store_test]
async fn a_run_whose_node_dies_or_leaves_or_forgot_it_is_paused(world: World) {
    let dies = world.start("greet").held_by("dies").await;
    world.control(&pause(dies.run)).await;
    world.pass(LEASE * 2).await;
    world.sweep().await;
    stands_still(&world, dies.run).await;

    let leaves = world.start("greet").held_by("leaves").await;
    world.control(&pause(leaves.run)).await;
    world.leave("leaves").await;
    stands_still(&world, leaves.run).await;

    let forgotten = world.start("greet").held_by("forgets").await;
    world.control(&pause(forgotten.run)).await;
    let ask = Renew { settled: world.number(), ..world.renewal("forgets").await };
    assert_eq!(world.renew(&ask).await.freed, 1);
    stands_still(&world, forgotten.run).await;
    for turn in [dies, leaves, forgotten] {
        assert_eq!(world.commit(turn.complete("late")).await, Committed::LeaseLost);
        assert_eq!(world.control(&resume(turn.run)).await, resumed(turn.run, true));
    }
}

#[store_test]
async fn a_request_that_is_taken_back_pauses_nobody(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.control(&pause(turn.run)).await;
    assert_eq!(world.control(&resume(turn.run)).await, resumed(turn.run, true));
    assert_eq!(world.control(&resume(turn.run)).await, resumed(turn.run, false));
    turn.suspended().await;
    assert_eq!(world.status(turn.run).await, Status::Waiting);
}

#[store_test]
async fn a_paused_run_that_was_begun_is_cancelled_at_once_unless_it_has_to_undo(world: World) {
    let plain = world.start("greet").held_by("node").await;
    plain.suspended().await;
    let undoes = world.start("greet").held_by("node").await;
    let opened = outlast_core::Entry {
        op: outlast_core::Op::Undo,
        phase: outlast_core::Phase::Opened,
        ..outlast_testkit::step(1, "charge")
    };
    world.commit(undoes.suspend().with(|commit| commit.entries.push(opened))).await;
    for run in [plain.run, undoes.run] {
        world.control(&pause(run)).await;
    }
    let ended = Controlled::Final { run: plain.run, status: Status::Cancelled, by_this: true };
    assert_eq!(world.cancel(plain.run, "enough").await, ended);
    assert_eq!(world.cancel(undoes.run, "enough").await, Controlled::Asked { run: undoes.run });
    let turn = world.claim_as("node").await;
    assert_eq!((turn.run, turn.claimed.inbox[0].kind), (undoes.run, NewsKind::Cancel));

    // Held back once more while it undoes, and asked once more.
    world.control(&pause(undoes.run)).await;
    world.commit(turn.release()).await;
    stands_still(&world, undoes.run).await;
    assert_eq!(world.cancel(undoes.run, "now").await, Controlled::Asked { run: undoes.run });
    assert_eq!(world.claim_as("node").await.run, undoes.run);
}

#[store_test]
async fn a_cancel_takes_the_request_to_pause_back(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.control(&pause(turn.run)).await;
    world.cancel(turn.run, "enough").await;
    world.commit(turn.release()).await;
    assert_eq!(world.status(turn.run).await, Status::Ready);
}

#[store_test]
async fn a_blocked_run_that_is_paused_does_not_go_on_when_code_comes_that_fits(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.block("does not fit")).await;
    assert_eq!(world.control(&pause(turn.run)).await, paused(turn.run, true));
    world.join("newer", &["greet@1"]).await;
    stands_still(&world, turn.run).await;
}

#[store_test]
async fn an_undo_that_gave_up_cannot_be_paused(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.writes().next(Next::GiveUp { reason: "the undo failed".into() })).await;
    assert_eq!(world.control(&pause(turn.run)).await, Controlled::GaveUp { run: turn.run });
    assert_eq!(world.control(&resume(turn.run)).await, resumed(turn.run, false));

    let asked = world.start("greet").held_by("node").await;
    world.control(&pause(asked.run)).await;
    world.commit(asked.writes().next(Next::GiveUp { reason: "the undo failed".into() })).await;
    assert_eq!(world.view(asked.run).await.reason.as_deref(), Some("the undo failed"));
}

#[store_test]
async fn a_paused_run_whose_time_is_over_is_let_go_to_end(world: World) {
    let never = world.start("greet").shard(0).with(|run| run.timeout = Some(MINUTE)).await.id;
    world.control(&pause(never)).await;
    world.pass(MINUTE / 2).await;
    world.sweep().await;
    stands_still(&world, never).await;
    world.pass(MINUTE).await;
    world.sweep().await;
    let turn = world.claim_as("later").await;
    assert_eq!(turn.run, never);
    assert!(turn.claimed.expires_at.unwrap() <= world.now().await);
    assert_eq!(world.sweep().await.expired, 0);
}

#[store_test]
async fn a_paused_run_that_never_began_is_replaced_and_stays_paused(world: World) {
    let scope = Scope::NotBegun { at_most: None };
    let start = || world.start("order").unique("only", scope, Clash::Replace);
    let first = start().delayed(MINUTE).await;
    world.control(&pause(first.id)).await;
    let answer = start().input("newer").delayed(DAY).answer().await;
    assert_eq!(answer, Started::Existing { id: first.id });
    stands_still(&world, first.id).await;
    world.control(&resume(first.id)).await;
    world.pass(MINUTE * 2).await;
    assert!(world.claims_as("later", 10).await.is_empty(), "it was put off");
    world.pass(DAY).await;
    assert_eq!(world.claim_as("later").await.run, first.id);
}

#[store_test]
async fn nobody_is_unknown(world: World) {
    let nobody = world.start("greet").asked().id;
    assert_eq!(world.control(&pause(nobody)).await, Controlled::Unknown);
    assert_eq!(world.control(&resume(nobody)).await, Controlled::Unknown);
    let run = world.start_keyed("order", "o-1").await;
    let by_key = Control::Pause { run: key("order", "o-1"), reason: "for a look".into() };
    assert_eq!(world.control(&by_key).await, paused(run.id, true));
    let by_key = Control::Resume { run: key("order", "o-1") };
    assert_eq!(world.control(&by_key).await, resumed(run.id, true));
}

#[store_test]
async fn a_parent_that_is_paused_finds_the_end_of_its_child(world: World) {
    let parent = world.start("order").shard(0).held_by("node").await;
    let child = world.start("ship").shard(1).child_of(parent.run, "ship");
    world.commit(parent.records(1, "ship").starts(child).suspend(0)).await;
    world.control(&pause(parent.run)).await;
    let turn = world.claim_as("node").await;
    let told = outlast_store::Delivery {
        kind: NewsKind::Child,
        ..outlast_testkit::event(Address::Run(parent.run), "ship", "done")
    };
    let end = Next::Finish(Ended { status: Status::Completed, output: None, error: None });
    assert_eq!(world.commit(turn.writes().sends(told).next(end)).await, Committed::Done);
    stands_still(&world, parent.run).await;
    world.control(&resume(parent.run)).await;
    assert_eq!(world.claim_as("node").await.claimed.inbox[0].kind, NewsKind::Child);
}
