//! Control: a cancellation reaches a run in whatever state it is.

use outlast_core::{Error, FailureDoc, Status};
use outlast_store::{Address, Committed, Control, Controlled, Ended, NewsKind, Next};
use outlast_testkit::{LEASE, World, event, key, payload, store_test};

use crate::{DAY, MINUTE};

/// What a run says that was cancelled before it could say anything.
fn cancelled(reason: &str) -> Ended {
    let failure = FailureDoc::Outlast(Error::Cancelled { reason: reason.into() });
    Ended { status: Status::Cancelled, output: None, error: serde_json::to_string(&failure).ok() }
}

#[store_test]
async fn a_run_that_never_began_ends_at_once(world: World) {
    for run in [world.start("greet").await, world.start("greet").delayed(DAY).await] {
        world.send(run.id, "approval", "never read").await;
        let before = world.now().await;
        let ended = Controlled::Final { run: run.id, status: Status::Cancelled, by_this: true };
        assert_eq!(world.cancel(run.id, "changed \"my\" mind").await, ended);

        let view = world.view(run.id).await;
        assert_eq!(view.ended, Some(cancelled("changed \"my\" mind")));
        assert!(view.finished_at.unwrap() >= before);
        assert_eq!(world.inbox(run.id).await, [""; 0]);
    }
    assert_eq!(world.claims_as("node", 10).await.len(), 0);
}

#[store_test]
async fn a_blocked_run_ends_at_once(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.records(1, "one").next(Next::Block { reason: "does not fit".into() })).await;
    let ended = Controlled::Final { run: run.id, status: Status::Cancelled, by_this: true };
    assert_eq!(world.cancel(run.id, "enough").await, ended);
    assert_eq!(world.status(run.id).await, Status::Cancelled);
    assert_eq!(world.journal(run.id).await, ["one"]);
}

// Nobody can pause a run yet. The state is there, and a cancellation has to know it.
#[store_test]
async fn a_paused_run_ends_at_once(world: World) {
    let run = world.start("greet").await;
    run.claimed_by("node").await.suspended().await;
    world.raw(&format!("update outlast.agenda set status = {}", Status::Paused.code())).await;
    let ended = Controlled::Final { run: run.id, status: Status::Cancelled, by_this: true };
    assert_eq!(world.cancel(run.id, "enough").await, ended);
}

#[store_test]
async fn a_running_run_is_asked_once_and_told_with_the_reason(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let asked = Controlled::Asked { run: turn.run };
    assert_eq!(world.cancel(turn.run, "enough \u{1f4e6}").await, asked);
    assert_eq!(world.cancel(turn.run, "another reason").await, asked);

    let view = world.view(turn.run).await;
    assert_eq!((view.status, view.cancel_reason.as_deref()), (Status::Running, Some("enough \u{1f4e6}")));
    let news = world.store().inbox(&[(turn.run, 0)]).await.unwrap();
    assert_eq!(news.len(), 1);
    assert_eq!(
        (news[0].1.kind, news[0].1.body.clone()),
        (NewsKind::Cancel, Some(payload("enough \u{1f4e6}")))
    );

    let end = Ended { status: Status::Cancelled, output: None, error: None };
    let writing = turn.records(1, "cancel").consumes(&[1]).next(Next::Finish(end));
    assert_eq!(world.commit(writing).await, Committed::Done);
    let ended = Controlled::Final { run: turn.run, status: Status::Cancelled, by_this: false };
    assert_eq!(world.cancel(turn.run, "late").await, ended);
}

#[store_test]
async fn a_waiting_run_is_woken_to_hear_it(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.suspend_until(world.now().await + DAY)).await;
    assert_eq!(world.cancel(run.id, "enough").await, Controlled::Asked { run: run.id });
    let turn = world.claim_as("node").await;
    assert_eq!(turn.claimed.inbox[0].kind, NewsKind::Cancel);
    turn.suspended().await;
    assert_eq!(world.cancel(run.id, "again").await, Controlled::Asked { run: run.id });
    assert_eq!(world.claims_as("node", 10).await.len(), 0, "it has been asked, and knows");
}

#[store_test]
async fn a_job_between_two_attempts_hears_it_at_once(world: World) {
    let run = world.start("mail").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.retry(DAY, 2)).await;
    assert_eq!(world.cancel(run.id, "enough").await, Controlled::Asked { run: run.id });
    let turn = world.claim_as("node").await;
    assert_eq!((turn.claimed.attempt, turn.claimed.inbox.len()), (2, 1));
}

#[store_test]
async fn a_run_that_lost_its_node_is_asked(world: World) {
    let run = world.start("greet").await;
    run.claimed_by("gone").await;
    world.pass(LEASE * 2).await;
    world.sweep().await;
    assert_eq!(world.cancel(run.id, "enough").await, Controlled::Asked { run: run.id }, "it has begun");
    assert_eq!(world.claim_as("node").await.claimed.inbox.len(), 1);
}

#[store_test]
async fn a_run_that_nobody_knows_and_never_began_ends_at_once(world: World) {
    let run = world.start("unheard").await;
    world.pass(MINUTE).await;
    assert_eq!(world.sweep_unknown_after(MINUTE / 2).await.blocked, 1);
    let ended = Controlled::Final { run: run.id, status: Status::Cancelled, by_this: true };
    assert_eq!(world.cancel(run.id, "enough").await, ended);
}

#[store_test]
async fn an_ended_run_stays_as_it_is(world: World) {
    let turn = world.start("greet").held_by("node").await;
    turn.completed("done").await;
    let before = world.snapshot().await;
    let ended = Controlled::Final { run: turn.run, status: Status::Completed, by_this: false };
    assert_eq!(world.cancel(turn.run, "late").await, ended);
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn nobody_is_unknown_by_id_and_by_key(world: World) {
    let nobody = world.start("greet").asked().id;
    assert_eq!(world.cancel(nobody, "enough").await, Controlled::Unknown);
    let by_key = Control::Cancel { run: key("order", "o-1"), reason: "enough".into() };
    assert_eq!(world.control(&by_key).await, Controlled::Unknown);
    world.deliver(&event(key("order", "o-1"), "approval", "kept")).await;
    assert_eq!(world.control(&by_key).await, Controlled::Unknown, "a message alone is no run");

    let run = world.start_keyed("order", "o-1").await;
    assert!(matches!(world.control(&by_key).await, Controlled::Final { run: of, .. } if of == run.id));
}

#[store_test]
async fn a_parent_hears_that_its_child_was_cancelled_before_it_began(world: World) {
    let parent = world.start("order").shard(0).held_by("node").await;
    let child = world.start("ship").shard(1).child_of(parent.run, "ship").delayed(DAY);
    let id = child.clone().asked().id;
    world.commit(parent.records(1, "ship").starts(child).suspend(0)).await;
    world.cancel(id, "enough").await;

    let turn = world.claim_as("node").await;
    assert_eq!(turn.run, parent.run);
    let news = &turn.claimed.inbox[0];
    assert_eq!((news.kind, &*news.name), (NewsKind::Child, "ship"));
    assert_eq!(Ended::from_payload(news.body.as_ref().unwrap()).unwrap(), cancelled("enough"));
}

#[store_test]
async fn a_child_whose_parent_has_ended_can_be_cancelled(world: World) {
    let parent = world.start("order").held_by("node").await;
    let child = world.start("ship").child_of(parent.run, "ship").delayed(DAY);
    let id = child.clone().asked().id;
    world.commit(parent.records(1, "ship").starts(child).complete("over")).await;
    let ended = Controlled::Final { run: id, status: Status::Cancelled, by_this: true };
    assert_eq!(world.cancel(id, "enough").await, ended);
    assert_eq!(world.count("select count(*) from outlast.inbox").await, 0);
}

#[store_test]
async fn a_cancelled_run_is_lost_to_its_late_turn(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("slow").await;
    world.pass(LEASE * 2).await;
    world.sweep().await;
    world.join("newer", &["greet@2"]).await;
    world.sweep_unknown_after(std::time::Duration::ZERO).await;
    assert_eq!(world.status(run.id).await, Status::Blocked);
    world.control(&Control::Cancel { run: Address::Run(run.id), reason: "enough".into() }).await;
    assert_eq!(world.commit(turn.complete("late")).await, Committed::LeaseLost);
    assert_eq!(world.status(run.id).await, Status::Cancelled);
}
