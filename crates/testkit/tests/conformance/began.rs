//! When a run began: the time at which a node first took it, from then on until nobody remembers the run.

use std::time::Duration;

use outlast_core::{QueueRules, RunId, Status, Timestamp};
use outlast_store::{
    Address, Clash, Committed, Control, Controlled, Ended, Hold, Next, Scope, Started, TurnEnd,
};
use outlast_testkit::{LEASE, Turn, World, event, store_test};

use crate::{DAY, MINUTE, SECOND};

async fn began(world: &World, run: RunId) -> Option<Timestamp> {
    world.view(run).await.began_at
}

/// When it began; that has to be a time between then and now.
async fn began_since(world: &World, run: RunId, then: Timestamp) -> Timestamp {
    let began = began(world, run).await.expect("a node has taken it");
    assert!((then..=world.now().await).contains(&began), "{began:?} is not since {then:?}");
    began
}

fn failed() -> Next {
    Next::Finish(Ended { status: Status::Failed, output: None, error: Some("\"why\"".into()) })
}

fn retry(run: RunId) -> Control {
    Control::Retry { run: Address::Run(run), epoch: None, input: None, repair: None }
}

#[store_test]
async fn a_run_in_line_has_not_begun_until_a_node_claims_it(world: World) {
    let run = world.start("greet").await;
    assert_eq!(began(&world, run.id).await, None);
    world.pass(MINUTE).await;
    let then = world.now().await;
    run.claimed_by("node").await;
    let began = began_since(&world, run.id, then).await;
    assert!(began.since(world.view(run.id).await.record.created_at) >= MINUTE);
}

// More than a claim reads to choose from.
#[store_test]
async fn all_runs_of_a_long_line_begin_when_they_are_claimed(world: World) {
    for _ in 0..40 {
        world.start("greet").shard(0).await;
    }
    world.pass(MINUTE).await;
    let then = world.now().await;
    let turns = world.claims_as("node", 39).await;
    assert_eq!(turns.len(), 39);
    for turn in turns {
        began_since(&world, turn.run, then).await;
    }
    assert_eq!(world.count("select count(*) from outlast.agenda where began_at is null").await, 1);
}

#[store_test]
async fn a_run_that_is_held_at_its_start_begins_with_it(world: World) {
    let then = world.now().await;
    for start in [
        world.start("greet"),
        world.start("greet").tag("colour", "red"),
        world.start_keyed("greet", "k-1"),
        world.start_keyed("greet", "k-2").tag("colour", "red"),
        world.start("greet").unique("u-1", Scope::Unfinished, Clash::Refuse),
    ] {
        let turn = start.held_by("node").await;
        began_since(&world, turn.run, then).await;
    }
}

#[store_test]
async fn a_run_that_is_to_be_held_later_or_by_nobody_has_not_begun(world: World) {
    let hold = Hold { node: world.node("gone").await, claim: world.number() };
    for start in [world.start("greet").delayed(DAY), world.start_keyed("greet", "k-1").delayed(DAY)] {
        let Started::Created { id, held: false } = start.answer_held(Some(hold)).await else {
            panic!("nobody holds what is not due")
        };
        assert_eq!(began(&world, id).await, None);
    }
    world.leave("gone").await;
    for start in [world.start("greet"), world.start_keyed("greet", "k-2")] {
        let Started::Created { id, held: false } = start.answer_held(Some(hold)).await else {
            panic!("a node that is gone holds nothing")
        };
        assert_eq!(began(&world, id).await, None);
    }
}

#[store_test]
async fn a_queue_with_rules_has_those_begin_that_it_lets_go(world: World) {
    world.rules("press", QueueRules { limit: Some(1), ..QueueRules::default() }).await;
    let (first, second) =
        (world.start("greet").queue("press").await, world.start("greet").queue("press").priority(7).await);
    world.pass(MINUTE).await;
    let then = world.now().await;
    let turn = world.turns_of("node", "press", 10).await.pop().expect("one may go");
    assert_eq!(turn.run, first.id);
    let at = began_since(&world, first.id, then).await;
    assert_eq!(began(&world, second.id).await, None);

    world.pass(MINUTE).await;
    world.commit(turn.retry(Duration::ZERO, 2)).await;
    let again = world.turns_of("node", "press", 10).await.pop().expect("one may go");
    assert_eq!((again.run, began(&world, first.id).await), (first.id, Some(at)));
}

#[store_test]
async fn when_a_run_began_stays_over_attempts_waits_and_other_nodes(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let at = began(&world, turn.run).await;
    assert!(at.is_some());
    let stays = async |turn: &Turn| {
        assert_eq!(began(&world, turn.run).await, at);
        world.pass(MINUTE).await;
        world.renew(&world.renewal("node").await).await;
    };
    stays(&turn).await;

    world.commit(turn.retry(SECOND, 2)).await;
    world.pass(SECOND).await;
    let turn = world.claim_as("node").await;
    stays(&turn).await;
    world.commit(turn.suspend_until(world.now().await + SECOND)).await;
    stays(&turn).await;
    let turn = world.claim_as("node").await;
    turn.suspended().await;
    // Once by a claim, once by whoever sends, on the short way and on the long one.
    world.send(turn.run, "one", "yes").await;
    let turn = world.claim_as("node").await;
    stays(&turn).await;
    turn.suspended().await;
    let hold = async || Hold { node: world.node("node").await, claim: world.number() };
    let message = event(Address::Run(turn.run), "two", "yes");
    let (_, woken) = world.store().wake(&message, hold().await, turn.epoch).await.unwrap();
    let turn = Turn::new(&world, turn.node, woken.expect("nothing stands in the way"));
    stays(&turn).await;
    turn.suspended().await;
    let message = outlast_testkit::settlement(Address::Run(turn.run), "three", "yes");
    let (_, woken) = world.store().wake(&message, hold().await, turn.epoch).await.unwrap();
    let turn = match woken {
        Some(claimed) => Turn::new(&world, turn.node, claimed),
        None => world.claim_as("node").await,
    };
    stays(&turn).await;

    // As one that continues as new, one that is blocked and tried again, and one that is paused.
    world.commit(turn.records(1, "continue").prunes_below(1).next(Next::Release)).await;
    let turn = world.claim_as("node").await;
    stays(&turn).await;
    world.commit(turn.block("does not fit")).await;
    assert_eq!(world.control(&retry(turn.run)).await, Controlled::Retried { run: turn.run, by_this: true });
    let turn = world.claim_as("node").await;
    stays(&turn).await;
    let pause = Control::Pause { run: Address::Run(turn.run), reason: "for a look".into() };
    world.control(&pause).await;
    world.commit(turn.release()).await;
    world.control(&Control::Resume { run: Address::Run(turn.run) }).await;
    let turn = world.claim_as("node").await;
    stays(&turn).await;

    // Taken from a node that died.
    world.pass(LEASE * 2).await;
    let turn = world.claim_as("other").await;
    assert_eq!((turn.claimed.crashes, began(&world, turn.run).await), (1, at));
    turn.completed("done").await;
    let view = world.view(turn.run).await;
    assert_eq!(view.began_at, at);
    assert!(view.finished_at.unwrap().since(at.unwrap()) > MINUTE);
}

#[store_test]
async fn every_end_of_a_turn_carries_when_the_run_began(world: World) {
    let start = || world.start("greet").shard(0).held_by("node");
    let turns = [
        start().await,
        start().await,
        start().await,
        start().await,
        start().await,
        start().await,
        start().await,
    ];
    let mut times = Vec::new();
    for turn in &turns {
        times.push(began(&world, turn.run).await);
    }
    assert!(times.iter().all(Option::is_some));
    let [alone, records, failing, heard, one, two, in_tx] = &turns;
    let listener = world.start("order").shard(0).held_by("node").await;
    listener.suspended().await;
    world.listen(heard.run, listener.run, "ship").await;
    world.pass(MINUTE).await;
    world.renew(&world.renewal("node").await).await;

    world.commit(alone.complete("done")).await;
    world.commit(records.records(1, "one").complete("done")).await;
    world.commit(failing.writes().next(failed())).await;
    world.commit(heard.complete("done")).await;
    world.commit_all(vec![one.complete("done"), two.records(1, "one").complete("done")]).await;
    let mut tx = world.begin().await;
    let end = TurnEnd { node: in_tx.node, commit: in_tx.complete("done").commit };
    assert_eq!(tx.end(&end).await.unwrap(), Committed::Done);
    tx.commit().await.unwrap();
    for (turn, time) in turns.iter().zip(times) {
        let view = world.view(turn.run).await;
        assert!(view.status.is_final());
        assert_eq!(view.began_at, time);
        assert!(view.finished_at.unwrap().since(time.unwrap()) >= MINUTE);
    }
}

#[store_test]
async fn an_end_without_a_turn_carries_when_the_run_began(world: World) {
    let start = || world.start("greet").with(|run| run.timeout = Some(MINUTE)).held_by("node");
    let (killed, cancelled, expired) = (start().await, start().await, start().await);
    let mut times = Vec::new();
    for turn in [&killed, &cancelled, &expired] {
        times.push(began(&world, turn.run).await);
    }
    assert!(times.iter().all(Option::is_some));
    world.commit(cancelled.block("does not fit")).await;
    world.commit(expired.block("does not fit")).await;
    world.control(&Control::Kill { run: Address::Run(killed.run), reason: "for good".into() }).await;
    world.cancel(cancelled.run, "enough").await;
    world.pass(MINUTE * 2).await;
    assert_eq!(world.sweep().await.expired, 1);
    for (turn, time) in [&killed, &cancelled, &expired].into_iter().zip(times) {
        let view = world.view(turn.run).await;
        assert!(view.status.is_final());
        assert_eq!(view.began_at, time);
    }
}

#[store_test]
async fn a_run_that_ended_before_anybody_took_it_never_began(world: World) {
    let [cancelled, killed, withdrawn] =
        [world.start("greet").await, world.start("greet").await, world.start("greet").await];
    world.cancel(cancelled.id, "enough").await;
    world.control(&Control::Kill { run: Address::Run(killed.id), reason: "for good".into() }).await;
    let withdraw = Control::Withdraw { run: Address::Run(withdrawn.id), reason: "a typo".into() };
    world.control(&withdraw).await;
    for run in [cancelled, killed, withdrawn] {
        let view = world.view(run.id).await;
        assert_eq!((view.status, view.began_at), (Status::Cancelled, None));
    }
}

#[store_test]
async fn a_run_that_is_tried_again_after_its_end_begins_anew(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.writes().next(failed())).await;
    assert!(began(&world, turn.run).await.is_some());
    assert_eq!(world.control(&retry(turn.run)).await, Controlled::Retried { run: turn.run, by_this: true });
    assert_eq!(began(&world, turn.run).await, None, "it stands in line");
    world.pass(MINUTE).await;
    let then = world.now().await;
    let again = world.claim_as("node").await;
    began_since(&world, again.run, then).await;
}

// As nodes of an earlier version leave it.
#[store_test]
async fn a_run_of_which_nobody_noted_when_it_began_goes_on_and_ends(world: World) {
    let [waits, runs, ends] = [
        world.start("greet").held_by("node").await,
        world.start("greet").held_by("node").await,
        world.start("greet").held_by("node").await,
    ];
    ends.completed("done").await;
    waits.suspended().await;
    world.raw("update outlast.agenda set began_at = null").await;
    world.raw("update outlast.results set began_at = null").await;
    assert_eq!(began(&world, ends.run).await, None);

    let hold = Hold { node: waits.node, claim: world.number() };
    let message = event(Address::Run(waits.run), "approval", "yes");
    let (_, woken) = world.store().wake(&message, hold, waits.epoch).await.unwrap();
    let woken = Turn::new(&world, waits.node, woken.expect("nothing stands in the way"));
    assert_eq!(began(&world, waits.run).await, None, "whoever wakes a run is not the first that takes it");
    for turn in [&woken, &runs] {
        world.commit(turn.writes().consumes(&[1]).complete("done")).await;
        let view = world.view(turn.run).await;
        assert_eq!((view.status, view.began_at), (Status::Completed, None));
    }
}
