//! Commit, where a run goes when its turn ends.

use outlast_core::{Status, Timestamp};
use outlast_store::{Committed, Control, Ended, Next};
use outlast_testkit::{World, event, payload, store_test};

use crate::{DAY, MINUTE, SECOND};

#[store_test]
async fn a_suspended_run_waits_for_news_alone(world: World) {
    let run = world.start("greet").await;
    run.claimed_by("node").await.suspended().await;
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.node, view.due_at, view.epoch), (Status::Waiting, None, None, 1));
    world.pass(DAY * 1_000).await;
    assert_eq!(world.claims_as("node", 10).await.len(), 0);
    world.send(run.id, "approval", "yes").await;
    assert_eq!(world.claim_as("node").await.epoch, 2);
}

#[store_test]
async fn a_suspended_run_wakes_at_its_timer_and_never_early(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    let at = world.now().await + DAY;
    assert_eq!(world.commit(turn.suspend_until(at)).await, Committed::Done);
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.due_at), (Status::Waiting, Some(at)));
    assert_eq!(world.store().next_due().await.unwrap(), Some(at));

    world.pass(DAY - SECOND * 20).await;
    assert_eq!(world.claims_as("node", 10).await.len(), 0);
    world.pass(SECOND * 20).await;
    assert_eq!(world.claim_as("node").await.run, run.id);
}

#[store_test]
async fn a_timer_in_the_past_wakes_at_once(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.suspend_until(Timestamp::from_micros(1))).await;
    assert_eq!(world.claim_as("node").await.run, run.id);
}

#[store_test]
async fn a_suspended_run_wakes_when_it_must_have_ended(world: World) {
    let run = world.start("greet").with(|run| run.timeout = Some(MINUTE)).await;
    let turn = run.claimed_by("node").await;
    let expires = turn.claimed.expires_at.unwrap();
    world.commit(turn.suspend_until(expires + DAY)).await;
    assert_eq!(world.view(run.id).await.due_at, Some(expires));
    world.pass(MINUTE).await;
    let turn = world.claim_as("node").await;
    world.commit(turn.suspend()).await;
    assert_eq!(world.view(run.id).await.due_at, Some(expires));
}

#[store_test]
async fn news_that_came_between_the_turns_look_and_its_suspension_make_it_ready(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.send(run.id, "approval", "yes").await;
    assert_eq!(world.commit(turn.suspend_until(world.now().await + DAY)).await, Committed::Done);
    assert_eq!(world.status(run.id).await, Status::Ready);
    let turn = world.claim_as("node").await;
    assert_eq!((turn.epoch, turn.claimed.inbox.len()), (2, 1));
}

#[store_test]
async fn news_that_the_turn_has_seen_do_not_keep_it_awake(world: World) {
    let run = world.start("greet").await;
    world.send(run.id, "nobody waits for it", "yes").await;
    run.claimed_by("node").await.suspended().await;
    assert_eq!(world.status(run.id).await, Status::Waiting);
    assert_eq!(world.inbox(run.id).await, ["yes"], "it stays for whoever waits for it later");
}

#[store_test]
async fn a_retry_is_due_after_its_pause_with_the_next_attempt(world: World) {
    let run = world.start("mail").await;
    let turn = run.claimed_by("node").await;
    let before = world.now().await;
    assert_eq!(world.commit(turn.retry(MINUTE, 2)).await, Committed::Done);
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.attempt, view.node), (Status::Ready, 2, None));
    assert!(view.due_at.unwrap() >= before + MINUTE && view.due_at.unwrap() <= world.now().await + MINUTE);

    assert_eq!(world.claims_as("node", 10).await.len(), 0);
    world.pass(MINUTE).await;
    assert_eq!(world.claim_as("node").await.claimed.attempt, 2);
}

#[store_test]
async fn a_released_run_is_due_at_once_and_unchanged(world: World) {
    let run = world.start("mail").await;
    let turn = run.claimed_by("node").await;
    assert_eq!(world.commit(turn.release()).await, Committed::Done);
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.attempt, view.node), (Status::Ready, 1, None));
    assert_eq!(world.claim_as("other").await.epoch, 2);
}

#[store_test]
async fn a_blocked_run_says_why_and_is_not_claimed(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    assert_eq!(
        world.commit(turn.records(1, "one").next(block("entry 2 fits nothing"))).await,
        Committed::Done
    );
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.due_at, view.node), (Status::Blocked, None, None));
    assert_eq!(view.reason.as_deref(), Some("entry 2 fits nothing"));
    world.pass(DAY).await;
    assert_eq!(world.claims_as("node", 10).await.len(), 0);
}

#[store_test]
async fn a_finished_run_leaves_the_agenda_with_its_last_step_in_one_commit(world: World) {
    let run = world.start("greet").await;
    world.send(run.id, "approval", "never read").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.writes().doing("charge", 1, None)).await;
    let before = world.now().await;
    assert_eq!(world.commit(turn.records(1, "charge").complete("done")).await, Committed::Done);

    let view = world.view(run.id).await;
    assert_eq!((view.status, view.node, view.due_at, view.epoch), (Status::Completed, None, None, 1));
    assert!(view.finished_at.unwrap() >= before);
    assert_eq!(world.journal(run.id).await, ["charge"]);
    assert_eq!(world.output(run.id).await, "done");
    assert_eq!((world.inbox(run.id).await.len(), view.doing.len()), (0, 0));
    assert_eq!(world.count("select count(*) from outlast.agenda").await, 0);
}

#[store_test]
async fn every_end_is_kept_as_it_was(world: World) {
    let failed = r#"{"outlast":{"timed_out":{"what":"run","after_ms":1}}}"#;
    let mut own = payload("own");
    own.codec = Some("own".into());
    let ends = [
        Ended { status: Status::Completed, output: Some(payload(())), error: None },
        Ended { status: Status::Completed, output: None, error: None },
        Ended { status: Status::Failed, output: None, error: Some(failed.into()) },
        Ended { status: Status::Cancelled, output: Some(own), error: Some("\"half\"".into()) },
    ];
    let mut runs = Vec::new();
    for end in &ends {
        let turn = world.start("greet").held_by("node").await;
        assert_eq!(world.commit(turn.writes().next(Next::Finish(end.clone()))).await, Committed::Done);
        assert_eq!(world.view(turn.run).await.ended.as_ref(), Some(end));
        runs.push(turn.run);
    }
    let unfinished = world.start("greet").await.id;
    let mut ended = world.store().ended(&[&runs[..], &[unfinished]].concat()).await.unwrap();
    ended.sort_by_key(|(run, _)| runs.iter().position(|known| known == run));
    assert_eq!(ended, runs.into_iter().zip(ends).collect::<Vec<_>>());
}

#[store_test]
async fn nothing_moves_a_run_that_has_ended(world: World) {
    let turn = world.start("greet").held_by("node").await;
    turn.completed("once").await;
    let before = world.snapshot().await;
    for writing in [turn.records(1, "late"), turn.records(2, "later")] {
        assert_eq!(world.commit(writing).await, Committed::LeaseLost);
    }
    world.commit(turn.complete("twice")).await;
    world.commit(turn.release()).await;
    world.send(turn.run, "approval", "late").await;
    world.cancel(turn.run, "late").await;
    assert_eq!(world.snapshot().await, before);
    assert_eq!(world.output(turn.run).await, "once");
}

#[store_test]
async fn a_run_that_goes_on_forgets_its_crashes_when_it_records(world: World) {
    let run = world.start("greet").await;
    for crashes in 0..3 {
        let turn = world.claim_as(&format!("node {crashes}")).await;
        assert_eq!(turn.claimed.crashes, crashes);
        world.pass(outlast_testkit::LEASE * 2).await;
        world.sweep().await;
        world.pass(SECOND).await;
    }
    let turn = world.claim_as("node").await;
    assert_eq!((turn.run, turn.claimed.crashes), (run.id, 3));
    world.commit(turn.release()).await;
    let turn = world.claim_as("node").await;
    assert_eq!(turn.claimed.crashes, 3, "handed back untouched");
    world.commit(turn.records(1, "charge").next(Next::Release)).await;
    assert_eq!(world.claim_as("node").await.claimed.crashes, 0);
}

#[store_test]
async fn a_run_that_was_asked_to_stop_is_not_suspended_before_it_heard(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.cancel(run.id, "enough").await;
    world.commit(turn.suspend()).await;
    assert_eq!(world.status(run.id).await, Status::Ready);
    let again = Control::Cancel { run: outlast_store::Address::Run(run.id), reason: "really".into() };
    world.control(&again).await;
    let turn = world.claim_as("node").await;
    assert_eq!(turn.claimed.inbox.len(), 1);
    turn.suspended().await;
    assert_eq!(world.status(run.id).await, Status::Waiting);
}

#[store_test]
async fn many_runs_move_in_many_ways_in_one_batch(world: World) {
    let mut turns = Vec::new();
    for _ in 0..6 {
        turns.push(world.start("greet").shard(0).held_by("node").await);
    }
    let to = outlast_store::Address::Run(turns[1].run);
    let batch = vec![
        turns[0].complete("done"),
        turns[1].suspend(),
        turns[2].retry(MINUTE, 4).entry(1, "attempt"),
        turns[3].release(),
        turns[4].block("does not fit"),
        turns[5].records(1, "send").sends(event(to, "approval", "from the same batch")),
    ];
    assert_eq!(world.commit_all(batch).await, [Committed::Done; 6]);
    let mut statuses = Vec::new();
    for turn in &turns {
        statuses.push(world.status(turn.run).await);
    }
    use Status::*;
    // The second got a message in this very batch, and so does not wait.
    assert_eq!(statuses, [Completed, Ready, Ready, Ready, Blocked, Running]);
    assert_eq!(world.inbox(turns[1].run).await, ["from the same batch"]);
}

fn block(reason: &str) -> Next {
    Next::Block { reason: reason.into() }
}

#[store_test]
async fn a_run_that_was_asked_to_stop_is_not_put_aside_for_long(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.cancel(run.id, "enough").await;
    assert_eq!(world.commit(turn.retry(DAY, 2)).await, Committed::Done);
    world.pass(SECOND).await;
    assert_eq!(world.claim_as("node").await.run, run.id);
}

#[store_test]
async fn a_run_whose_undo_gave_up_has_all_the_time_it_needs_and_shows_that_it_undoes_when_it_goes_on(
    world: World,
) {
    let run = world.start("greet").with(|run| run.timeout = Some(MINUTE)).await;
    let turn = run.claimed_by("node").await;
    let gave_up = turn.writes().next(Next::GiveUp { reason: "stuck".into() });
    assert_eq!(world.commit(gave_up).await, Committed::Done);
    world.pass(DAY).await;
    world.sweep().await;
    assert_eq!(world.status(run.id).await, Status::UndoFailed);
    let retry =
        Control::Retry { run: outlast_store::Address::Run(run.id), epoch: None, input: None, repair: None };
    world.control(&retry).await;
    assert_eq!(world.status(run.id).await, Status::Undoing);
}
