//! Control: a cancellation reaches a run in whatever state it is, and a job that failed can be tried again.

use outlast_core::{Error, FailureDoc, RunId, Status};
use outlast_store::{
    Address, Clash, Committed, Control, Controlled, Ended, NewsKind, Next, Purge, Purged, Scope, Started,
};
use outlast_testkit::{LEASE, Turn, World, event, key, payload, store_test};

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
        assert_eq!(world.inbox(run.id).await, ["never read"], "it may be tried again");
    }
    assert_eq!(world.claims_as("node", 10).await.len(), 0);
}

#[store_test]
async fn a_run_that_never_began_is_withdrawn_and_any_other_is_left_alone(world: World) {
    let withdraw = |run| Control::Withdraw { run: Address::Run(run), reason: "a typo".into() };
    for run in [world.start("greet").await, world.start("greet").delayed(DAY).await] {
        let ended = |by_this| Controlled::Final { run: run.id, status: Status::Cancelled, by_this };
        assert_eq!(world.control(&withdraw(run.id)).await, ended(true));
        assert_eq!(world.view(run.id).await.ended, Some(cancelled("a typo")));
        assert_eq!(world.control(&withdraw(run.id)).await, ended(false));
    }

    let (held, waits, again) = (
        world.start("greet").held_by("node").await,
        world.start("greet").held_by("node").await,
        world.start("greet").held_by("node").await,
    );
    waits.suspended().await;
    world.commit(again.writes().next(Next::Retry { after: DAY, attempt: 2 })).await;
    let paused = world.start("greet").await.id;
    world.control(&Control::Pause { run: Address::Run(paused), reason: "for a look".into() }).await;
    for run in [held.run, waits.run, again.run, paused] {
        let before = world.view(run).await;
        assert_eq!(world.control(&withdraw(run)).await, Controlled::Begun { run });
        assert_eq!(world.view(run).await, before);
        assert_eq!(world.inbox(run).await, [""; 0], "it is not asked to stop");
    }
    let nobody = Control::Withdraw { run: key("greet", "nobody"), reason: "a typo".into() };
    assert_eq!(world.control(&nobody).await, Controlled::Unknown);
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

#[store_test]
async fn a_paused_run_ends_at_once(world: World) {
    let run = world.start("greet").await;
    run.claimed_by("node").await.suspended().await;
    world.control(&Control::Pause { run: Address::Run(run.id), reason: "for a look".into() }).await;
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

fn retry(run: RunId) -> Control {
    Control::Retry { run: Address::Run(run), epoch: None, input: None, repair: None }
}

/// A job that has failed, with one attempt recorded.
async fn failed(world: &World) -> Turn {
    let turn = world.start_keyed("mail", "m-1").job().priority(3).queue("main").held_by("node").await;
    let end = Ended { status: Status::Failed, output: None, error: Some("\"why\"".into()) };
    world.commit(turn.records(1, "attempt").logs(1, "on").next(Next::Finish(end))).await;
    turn
}

#[store_test]
async fn a_failed_job_is_ready_again_as_the_same_run(world: World) {
    let turn = failed(&world).await;
    world.pass(MINUTE).await;
    let before = world.now().await;
    assert_eq!(world.control(&retry(turn.run)).await, Controlled::Retried { run: turn.run, by_this: true });
    let view = world.view(turn.run).await;
    assert_eq!((view.status, view.attempt), (Status::Ready, 1));
    assert!((before..=world.now().await).contains(&view.due_at.unwrap()), "it is due now");
    assert_eq!((view.ended, view.finished_at, view.expires_at, view.reason), (None, None, None, None));
    assert_eq!((view.record.priority, &*view.record.queue, view.group), (3, "main", None));
    assert!(view.epoch > turn.epoch);
    assert_eq!(world.journal(turn.run).await, ["attempt"], "people see why");

    let again = world.claim_as("other").await;
    assert_eq!((again.run, again.claimed.attempt, again.claimed.crashes), (turn.run, 1, 0));
    world.commit(again.records(2, "attempt").complete("done")).await;
    assert_eq!(world.output(turn.run).await, "done");
    let same = world.start_keyed("mail", "m-1").answer().await;
    assert_eq!(same, Started::Existing { id: turn.run }, "its key is its own");
}

#[store_test]
async fn a_retry_may_bring_another_input_but_not_to_one_that_has_not_ended(world: World) {
    let turn = failed(&world).await;
    let with = |input: &str| {
        let input = Some(payload(input));
        Control::Retry { run: key("mail", "m-1"), epoch: None, input, repair: None }
    };
    assert_eq!(world.control(&with("edited")).await, Controlled::Retried { run: turn.run, by_this: true });
    assert_eq!(world.view(turn.run).await.record.input, payload("edited"));
    let before = world.snapshot().await;
    let not_again = Controlled::Retried { run: turn.run, by_this: false };
    assert_eq!(world.control(&with("late")).await, not_again);
    assert_eq!(world.snapshot().await, before);
    world.claim_as("node").await;
    assert_eq!(world.control(&with("late")).await, not_again);
    assert_eq!(world.view(turn.run).await.record.input, payload("edited"));
}

#[store_test]
async fn what_an_old_node_still_writes_does_not_fit_a_run_that_is_tried_again(world: World) {
    let turn = failed(&world).await;
    world.control(&retry(turn.run)).await;
    let before = world.snapshot().await;
    assert_eq!(world.commit(turn.records(2, "late").complete("late")).await, Committed::LeaseLost);
    assert_eq!(world.snapshot().await, before);
    let again = world.claim_as("other").await;
    assert_eq!(world.commit(turn.complete("late")).await, Committed::LeaseLost);
    assert_eq!(world.commit(again.complete("in time")).await, Committed::Done);
    assert_eq!(world.output(turn.run).await, "in time");
}

#[store_test]
async fn a_cancelled_job_can_be_tried_again_also_if_it_never_began(world: World) {
    let run = world.start("mail").job().tenant("acme").delayed(DAY).await;
    world.cancel(run.id, "a mistake").await;
    assert_eq!(world.control(&retry(run.id)).await, Controlled::Retried { run: run.id, by_this: true });
    let view = world.view(run.id).await;
    assert_eq!((view.cancel_reason, view.group.as_deref(), view.epoch), (None, Some("acme"), 1));
    let turn = world.claim_as("node").await;
    assert_eq!((turn.run, turn.claimed.inbox.len()), (run.id, 0));
    turn.completed("done").await;
}

#[store_test]
async fn a_job_that_is_tried_again_is_in_the_group_it_was_started_with(world: World) {
    let start = || world.start("mail").job().tenant("acme").group("customer-7");
    let started =
        [start().await, start().key("k").await, start().unique("u", Scope::Unfinished, Clash::Return).await];
    for run in started {
        world.cancel(run.id, "a mistake").await;
        world.control(&retry(run.id)).await;
        assert_eq!(world.view(run.id).await.group.as_deref(), Some("customer-7"));
    }
}

#[store_test]
async fn what_completed_and_nobody_are_not_tried_again(world: World) {
    let job = world.start("mail").job().held_by("node").await;
    job.completed("done").await;
    let nobody = world.start("mail").asked().id;
    let before = world.snapshot().await;
    let completed = Controlled::Final { run: job.run, status: Status::Completed, by_this: false };
    assert_eq!(world.control(&retry(job.run)).await, completed);
    assert_eq!(world.control(&retry(nobody)).await, Controlled::Unknown);
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn a_parent_that_heard_of_a_failure_hears_nothing_of_the_retry(world: World) {
    let parent = world.start("order").shard(0).held_by("node").await;
    let child = world.start("mail").job().shard(1).child_of(parent.run, "mail").delayed(DAY);
    let id = child.clone().asked().id;
    world.commit(parent.records(1, "mail").starts(child).suspend(0)).await;
    world.cancel(id, "enough").await;
    let parent = world.claim_as("node").await;
    world.commit(parent.records(2, "heard").consumes(&[1]).suspend(1)).await;

    world.control(&retry(id)).await;
    let turn = world.claim_as("node").await;
    assert_eq!(turn.run, id);
    let record = world.view(id).await.record.parent.unwrap();
    assert_eq!((record.run, record.op), (parent.run, None), "whose child it is stays known");
    turn.completed("sent").await;
    assert_eq!(world.inbox(parent.run).await, [""; 0]);
    assert_eq!(world.status(parent.run).await, Status::Waiting);
}

#[store_test]
async fn many_who_retry_one_run_at_once_are_one(world: World) {
    let other = world.second_store().await;
    let turn = failed(&world).await;
    let ask = retry(turn.run);
    let asks = [world.store(), &other, world.store(), &other].map(|store| store.control(&ask));
    let [a, b, c, d] = asks;
    let answers = tokio::join!(a, b, c, d);
    let answers = [answers.0, answers.1, answers.2, answers.3].map(Result::unwrap);
    let ours = Controlled::Retried { run: turn.run, by_this: true };
    assert_eq!(answers.iter().filter(|answer| **answer == ours).count(), 1, "{answers:?}");
    let others = Controlled::Retried { run: turn.run, by_this: false };
    assert_eq!(answers.iter().filter(|answer| **answer == others).count(), 3, "{answers:?}");
}

#[store_test]
async fn a_run_that_is_tried_again_while_it_is_purged_is_there_or_not(world: World) {
    let other = world.second_store().await;
    for _ in 0..15 {
        let turn = failed(&world).await;
        world.pass(DAY * 2).await;
        let purge = Control::Purge(Purge::older_than(DAY, 10));
        let ask = retry(turn.run);
        let (retried, purged) = tokio::join!(world.store().control(&ask), other.control(&purge));
        world.invariants().await;
        match (retried.unwrap(), purged.unwrap()) {
            (Controlled::Retried { by_this: true, .. }, Controlled::Purged(Purged { runs: 0, .. })) => {
                let again = world.claim_as("node").await;
                again.completed("done").await;
                world.pass(DAY * 2).await;
                world.control(&purge).await;
            }
            (Controlled::Unknown, Controlled::Purged(Purged { runs: 1, .. })) => {}
            neither => panic!("{neither:?}"),
        }
    }
}
