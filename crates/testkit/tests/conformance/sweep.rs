//! Sweep: what dead nodes held is due again, what nobody knows is blocked, what is old is forgotten.

use std::time::Duration;

use outlast_core::{Error, FailureDoc, RunId, Status};
use outlast_store::{Address, Committed, Delivered, Ended, Mark, NewRun, Next, NodeCard, Sweep};
use outlast_testkit::{LEASE, World, card, event, step, store_test, sweep_of};

use crate::{DAY, MINUTE, SECOND};

#[store_test]
async fn a_dead_nodes_runs_are_due_again_with_one_more_crash(world: World) {
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(world.start("greet").held_by("gone").await);
    }
    let living = world.start("greet").held_by("living").await;
    let gone = world.node("gone").await;
    assert_eq!(world.sweep().await.dead_nodes, []);
    world.pass(LEASE + SECOND).await;
    world.renew(&world.renewal("living").await).await;

    let swept = world.sweep().await;
    assert_eq!((swept.dead_nodes, swept.freed), (vec![gone], 6));
    for turn in &held {
        let view = world.view(turn.run).await;
        assert_eq!((view.status, view.node), (Status::Ready, None));
        assert!(view.due_at.unwrap() <= world.now().await);
    }
    assert_eq!(world.status(living.run).await, Status::Running);
    let turns = world.claims_as("living", 10).await;
    assert_eq!(turns.len(), 6);
    assert!(
        turns.iter().all(|turn| turn.claimed.crashes == 1 && turn.epoch > 1 && turn.claimed.attempt == 1)
    );
    let nodes = world.store().nodes().await.unwrap();
    assert_eq!(nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["living"]);
}

#[store_test]
async fn a_lost_node_is_known_for_a_day_with_what_was_taken_from_it(world: World) {
    let lost = async || {
        let nodes = world.store().lost_nodes().await.unwrap();
        nodes.into_iter().map(|node| (node.name, node.freed)).collect::<Vec<_>>()
    };
    world.node("left").await;
    world.leave("left").await;
    for number in 0..3 {
        world.start("greet").shard(number % world.shards()).await.claimed_by("gone").await;
    }
    assert_eq!(lost().await, [], "who says good-bye is not lost");
    world.pass(LEASE * 2).await;
    world.sweep().await;
    world.sweep().await;
    assert_eq!(lost().await, [("gone".to_owned(), 3)]);
    world.node("later").await;
    world.pass(DAY + SECOND).await;
    assert_eq!(lost().await, []);
    world.sweep().await;
    assert_eq!(lost().await, [("later".to_owned(), 0)]);
    let rows = world.count("select count(*) from outlast.lost where name = 'gone'").await;
    assert_eq!(rows, 0, "forgotten with the next that is lost");
}

#[store_test]
async fn a_dead_node_without_runs_goes_too(world: World) {
    let gone = world.node("gone").await;
    world.pass(LEASE * 2).await;
    let swept = world.sweep().await;
    assert_eq!((swept.dead_nodes, swept.freed), (vec![gone], 0));
    assert_eq!(world.count("select count(*) from outlast.nodes").await, 0);
}

#[store_test]
async fn a_sweep_frees_a_bounded_number_and_the_next_goes_on(world: World) {
    let runs: Vec<NewRun> = (0..25).map(|_| world.start("greet").shard(0).asked()).collect();
    let hold = outlast_store::Hold { node: world.node("gone").await, claim: world.number() };
    world.store().start(&runs, Some(hold)).await.unwrap();
    world.pass(LEASE * 2).await;
    let ask = sweep_of(0);
    let mut freed = Vec::new();
    for _ in 0..4 {
        freed.push(world.store().sweep(&ask).await.unwrap());
        world.invariants().await;
    }
    assert_eq!(freed.iter().map(|swept| swept.freed).collect::<Vec<_>>(), [10, 10, 5, 0]);
    assert_eq!(freed.iter().map(|swept| swept.dead_nodes.len()).sum::<usize>(), 1);
    assert_eq!(world.claims_as("node", 100).await.len(), 25);
}

#[store_test]
async fn a_half_swept_node_has_lost_what_was_freed(world: World) {
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(world.start("greet").shard(0).held_by("slow").await);
    }
    world.pass(LEASE * 2).await;
    let ask = Sweep { limit: 2, ..sweep_of(0) };
    assert_eq!(world.store().sweep(&ask).await.unwrap().freed, 2);
    let before = world.snapshot().await;
    let mut lost = 0;
    for turn in &turns {
        if world.status(turn.run).await == Status::Ready {
            assert_eq!(world.commit(turn.complete("late")).await, Committed::LeaseLost);
            assert_eq!(world.commit(turn.release()).await, Committed::LeaseLost);
            lost += 1;
        }
    }
    assert_eq!((lost, world.snapshot().await), (2, before));
    world.sweep().await;
    for turn in &turns {
        assert_eq!(world.commit(turn.complete("late")).await, Committed::LeaseLost);
    }
}

// The old node has recorded and not yet committed: whoever takes over waits for it, and then finds what
// it recorded. On SQLite there is one writer anyway.
#[store_test(postgres)]
async fn a_takeover_leaves_a_transaction_of_the_old_node_alone(world: World) {
    let turn = world.start("greet").held_by("slow").await;
    let mut tx = world.begin().await;
    let recorded = tx.record(turn.node, turn.run, turn.epoch, &step(1, "debit")).await.unwrap();
    assert_eq!(recorded, Committed::Done);
    world.pass(LEASE * 2).await;
    let swept = world.sweep().await;
    assert_eq!(swept.freed, 0, "it is not dead while it writes");
    assert!(world.claims_as("quick", 10).await.is_empty());

    tx.commit().await.unwrap();
    let live = world.claim_as("quick").await;
    assert_eq!((live.run, world.journal(turn.run).await), (turn.run, vec!["debit".to_owned()]));

    let mut tx = world.begin().await;
    let late = tx.record(turn.node, turn.run, turn.epoch, &step(2, "debit#2")).await.unwrap();
    assert_eq!(late, Committed::LeaseLost);
    tx.rollback().await.unwrap();
}

#[store_test(postgres)]
async fn a_run_that_a_user_holds_is_freed_by_the_next_sweep(world: World) {
    let turn = world.start("greet").held_by("gone").await;
    let free = world.start("greet").shard(turn.run.shard()).held_by("gone").await;
    world.pass(LEASE * 2).await;
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(turn.run), "approval", "yes")]).await.unwrap();
    assert_eq!(world.sweep().await.freed, 1);
    assert_eq!(world.status(free.run).await, Status::Ready);
    world.invariants().await;
    assert_eq!(world.commit(turn.records(1, "late").complete("late")).await, Committed::Busy);
    tx.commit().await.unwrap();
    assert_eq!(world.sweep().await.freed, 1);
    assert_eq!(world.claims_as("node", 10).await.len(), 2);
}

#[store_test]
async fn what_no_living_node_knows_is_blocked_and_says_so(world: World) {
    let known = world.start("greet").await;
    let unknown = world.start("unheard").version(3).await;
    let later = world.start("unheard").delayed(DAY).await;
    world.node("node").await;
    assert_eq!(world.sweep_unknown_after(MINUTE).await.blocked, 0, "it has not been due for long");
    world.pass(MINUTE * 2).await;
    world.renew(&world.renewal("node").await).await;

    assert_eq!(world.sweep_unknown_after(MINUTE).await.blocked, 1);
    assert_eq!(world.sweep_unknown_after(MINUTE).await.blocked, 0);
    let view = world.view(unknown.id).await;
    assert_eq!((view.status, view.reason.as_deref()), (Status::Blocked, Some("no node knows unheard@3")));
    assert_eq!((world.status(known.id).await, world.status(later.id).await), (Status::Ready, Status::Ready));
}

#[store_test]
async fn what_only_a_dead_node_knows_is_blocked(world: World) {
    let run = world.start("unheard").await;
    world.join("gone", &["unheard@1"]).await;
    world.pass(MINUTE).await;
    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 1);
    assert_eq!(world.status(run.id).await, Status::Blocked);
}

#[store_test]
async fn a_blocked_run_goes_on_when_a_node_joins_that_knows_it(world: World) {
    let run = world.start("unheard").await;
    world.pass(MINUTE).await;
    world.sweep_unknown_after(SECOND).await;
    world.join("other", &["unheard@2", "heard@1"]).await;
    assert_eq!(world.status(run.id).await, Status::Blocked);

    world.join("node", &["unheard@1"]).await;
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.reason), (Status::Ready, None));
    assert_eq!(world.claim_as("node").await.run, run.id);
}

#[store_test]
async fn what_no_node_serves_is_blocked_with_its_queue(world: World) {
    let run = world.start("greet").queue("parcels").await;
    let served = world.start("greet").await;
    world.node("node").await;
    let other = NodeCard { queues: vec!["parcels".into()], ..card("other", &["order@1"]) };
    world.store().join(&other).await.unwrap();
    assert_eq!(world.sweep_unknown_after(MINUTE).await.blocked, 0, "it has not been due for long");
    world.pass(LEASE / 2).await;

    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 1);
    let view = world.view(run.id).await;
    let reason = "no node that knows greet@1 serves queue parcels";
    assert_eq!((view.status, view.reason.as_deref()), (Status::Blocked, Some(reason)));
    assert_eq!(world.status(served.id).await, Status::Ready);
}

#[store_test]
async fn a_run_that_waits_for_a_queue_goes_on_when_a_node_joins_that_serves_it(world: World) {
    let run = world.start("greet").queue("parcels").await;
    world.node("node").await;
    world.pass(LEASE / 2).await;
    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 1);
    world.join("same", &["greet@1"]).await;
    let other = NodeCard { queues: vec!["parcels".into()], ..card("other", &["order@1"]) };
    world.store().join(&other).await.unwrap();
    assert_eq!(world.status(run.id).await, Status::Blocked, "one knows it, the other serves it");

    let fit = NodeCard { queues: vec!["mail".into(), "parcels".into()], ..card("fit", &["greet@1"]) };
    world.store().join(&fit).await.unwrap();
    let view = world.view(run.id).await;
    assert_eq!((view.status, view.reason), (Status::Ready, None));
    assert_eq!(world.sweep_unknown_after(Duration::ZERO).await.blocked, 0);
}

#[store_test]
async fn a_node_that_names_no_queues_may_serve_all(world: World) {
    let run = world.start("greet").queue("parcels").await;
    world.node("node").await;
    world.pass(LEASE / 2).await;
    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 1);
    let older = NodeCard { queues: Vec::new(), ..card("older", &["greet@1"]) };
    world.store().join(&older).await.unwrap();
    assert_eq!(world.status(run.id).await, Status::Ready);
    world.pass(LEASE / 4).await;
    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 0);
}

#[store_test]
async fn a_waiting_run_that_nobody_knows_any_more_is_blocked_only_when_it_is_due(world: World) {
    world.join("old", &["unheard@1"]).await;
    let run = world.start("unheard").await;
    let turn = run.claimed_by("old").await;
    world.commit(turn.suspend_until(world.now().await + DAY)).await;
    world.leave("old").await;
    assert_eq!(world.sweep_unknown_after(Duration::ZERO).await.blocked, 0);
    world.pass(DAY + MINUTE).await;
    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 1);
}

/// How a run ends that was blocked until it had to have ended.
fn timed_out(run: RunId, why: &str, after: Duration) -> Ended {
    let what = format!("run {run} (blocked: {why})");
    let error = Error::TimedOut { what, after_ms: after.as_millis() as u64 };
    let error = serde_json::to_string(&FailureDoc::Outlast(error)).ok();
    Ended { status: Status::Failed, output: None, error }
}

/// How a run ended, with the time that it had in whole seconds: SQLite looks at its clock once for when a run was made, and
/// once for until when it may run.
fn in_seconds(ended: Option<Ended>) -> Option<Ended> {
    let mut ended = ended?;
    let failure = ended.error.as_deref().and_then(|error| serde_json::from_str::<FailureDoc>(error).ok());
    if let Some(FailureDoc::Outlast(Error::TimedOut { what, after_ms })) = failure {
        let error = Error::TimedOut { what, after_ms: after_ms / 1000 * 1000 };
        ended.error = serde_json::to_string(&FailureDoc::Outlast(error)).ok();
    }
    Some(ended)
}

#[store_test]
async fn a_blocked_run_whose_time_is_over_ends_although_no_code_fits_it(world: World) {
    let run = world.start("greet").with(|run| run.timeout = Some(MINUTE)).await;
    world.send(run.id, "approval", "never read").await;
    world
        .commit(
            run.claimed_by("node")
                .await
                .records(1, "one")
                .next(Next::Block { reason: "entry 2 fits nothing".into() }),
        )
        .await;
    let patient = world.start("greet").await;
    world.commit(patient.claimed_by("node").await.block("entry 2 fits nothing")).await;
    assert_eq!(world.sweep().await.expired, 0, "it has time");

    world.pass(MINUTE).await;
    assert_eq!(world.sweep().await.expired, 1);
    let ended = in_seconds(world.view(run.id).await.ended);
    assert_eq!(ended, Some(timed_out(run.id, "entry 2 fits nothing", MINUTE)));
    assert_eq!(world.journal(run.id).await, ["one"]);
    assert_eq!(world.inbox(run.id).await, ["never read"], "it may be tried again");
    assert_eq!(world.status(patient.id).await, Status::Blocked);
    assert_eq!(world.sweep().await.expired, 0);
}

#[store_test]
async fn a_run_that_nobody_knows_ends_when_its_time_is_over(world: World) {
    let run = world.start("unheard").with(|run| run.timeout = Some(MINUTE)).await;
    world.pass(MINUTE / 2).await;
    let swept = world.sweep_unknown_after(SECOND).await;
    assert_eq!((swept.blocked, swept.expired), (1, 0));
    world.pass(MINUTE).await;
    assert_eq!(world.sweep().await.expired, 1);
    let ended = in_seconds(world.view(run.id).await.ended);
    assert_eq!(ended, Some(timed_out(run.id, "no node knows unheard@1", MINUTE)));

    let late = world.start("unheard").with(|run| run.timeout = Some(SECOND)).await;
    world.pass(MINUTE).await;
    let swept = world.sweep_unknown_after(SECOND).await;
    assert_eq!((swept.blocked, swept.expired), (1, 1), "one sweep does both");
    assert_eq!(world.status(late.id).await, Status::Failed);
}

#[store_test]
async fn a_run_that_its_queue_did_not_let_begin_ends_when_its_time_is_over(world: World) {
    let begun = world.start("greet").with(|run| run.timeout = Some(SECOND)).await;
    world.commit(begun.claimed_by("node").await.retry(Duration::ZERO, 2)).await;
    let late = world.start("greet").with(|run| run.timeout = Some(SECOND)).await;
    let patient = world.start("greet").with(|run| run.timeout = Some(DAY)).await;
    world.pass(LEASE / 2).await;
    let swept = world.sweep_unknown_after(SECOND).await;
    assert_eq!((swept.blocked, swept.expired), (1, 1));
    let ended = in_seconds(world.view(late.id).await.ended);
    assert_eq!(ended, Some(timed_out(late.id, "queue main did not let it begin in time", SECOND)));
    // What has begun may have something to undo: whoever claims it ends it.
    assert_eq!(world.status(begun.id).await, Status::Ready);
    assert_eq!(world.status(patient.id).await, Status::Ready);
}

#[store_test]
async fn a_blocked_run_whose_code_comes_in_time_goes_on(world: World) {
    let run = world.start("greet").with(|run| run.timeout = Some(MINUTE)).await;
    world.commit(run.claimed_by("old").await.block("does not fit")).await;
    world.pass(MINUTE / 2).await;
    world.join("fixed", &["greet@1"]).await;
    world.pass(MINUTE).await;
    assert_eq!(world.sweep().await.expired, 0, "whoever has it now ends it");
    assert_eq!(world.status(run.id).await, Status::Ready);
}

#[store_test]
async fn everybody_hears_of_a_blocked_run_whose_time_was_over(world: World) {
    let parent = world.start("order").await;
    parent.claimed_by("node").await.suspended().await;
    let listener = world.start("ship").await;
    listener.claimed_by("node").await.suspended().await;
    let child =
        world.start("greet").child_of(parent.id, "greet").with(|run| run.timeout = Some(SECOND)).await;
    world.listen(child.id, listener.id, "greeted").await;
    world.commit(child.claimed_by("node").await.block("does not fit")).await;

    world.pass(SECOND).await;
    assert_eq!(world.sweep().await.expired, 1);
    let end = timed_out(child.id, "does not fit", SECOND);
    for (run, name) in [(parent.id, "greet"), (listener.id, "greeted")] {
        let news = world.store().inbox(&[(run, 0)]).await.unwrap();
        assert_eq!((news.len(), &*news[0].1.name), (1, name));
        let told = Ended::from_payload(news[0].1.body.as_ref().unwrap()).ok();
        assert_eq!(in_seconds(told).as_ref(), Some(&end));
        assert_eq!(world.status(run).await, Status::Ready);
    }
}

// Asked while it ran, blocked before it heard.
#[store_test]
async fn a_blocked_run_that_was_asked_to_stop_ends_as_cancelled(world: World) {
    let run = world.start("greet").with(|run| run.timeout = Some(SECOND)).await;
    let turn = run.claimed_by("node").await;
    world.cancel(run.id, "enough").await;
    world.commit(turn.block("does not fit")).await;
    world.pass(SECOND).await;
    assert_eq!(world.sweep().await.expired, 1);
    assert_eq!(world.status(run.id).await, Status::Cancelled);
}

// On SQLite there is one writer: nobody holds a row while another sweeps.
#[store_test(postgres)]
async fn a_late_run_is_left_to_the_next_sweep_while_a_user_holds_whom_it_tells(world: World) {
    let parent = world.start("order").await;
    parent.claimed_by("node").await.suspended().await;
    let child =
        world.start("greet").child_of(parent.id, "greet").with(|run| run.timeout = Some(SECOND)).await;
    world.commit(child.claimed_by("node").await.block("does not fit")).await;
    world.pass(SECOND).await;
    for held in [parent.id, child.id] {
        let mut tx = world.begin().await;
        tx.deliver(&[event(Address::Run(held), "approval", "yes")]).await.unwrap();
        assert_eq!(world.sweep().await.expired, 0);
        tx.commit().await.unwrap();
    }
    assert_eq!(world.sweep().await.expired, 1);
    assert_eq!(world.store().inbox(&[(parent.id, 0)]).await.unwrap().len(), 2);
}

#[store_test]
async fn a_sweep_blocks_a_bounded_number(world: World) {
    for _ in 0..5 {
        world.start("unheard").shard(0).await;
    }
    world.pass(MINUTE).await;
    let ask = Sweep { unknown_after: SECOND, limit: 2, ..sweep_of(0) };
    let mut blocked = Vec::new();
    for _ in 0..4 {
        blocked.push(world.store().sweep(&ask).await.unwrap().blocked);
    }
    assert_eq!(blocked, [2, 2, 1, 0]);
}

#[store_test]
async fn old_delivery_ids_are_forgotten_and_young_ones_kept(world: World) {
    let run = world.start("greet").await.id;
    let old = event(Address::Run(run), "tick", "old");
    world.deliver(&old).await;
    world.pass(DAY).await;
    let young = event(Address::Run(run), "tick", "young");
    world.deliver(&young).await;
    world.pass(MINUTE).await;
    world.sweep().await;
    assert_eq!(world.count("select count(*) from outlast.deliveries").await, 1);
    assert_eq!(world.deliver(&young).await, Delivered::Done { run });
    assert_eq!(world.inbox(run).await, ["old", "young"]);
}

#[store_test]
async fn a_quiet_store_is_swept_without_a_trace(world: World) {
    world.start("greet").held_by("node").await;
    world.start("greet").await;
    let before = world.snapshot().await;
    assert_eq!(world.sweep_unknown_after(MINUTE).await, outlast_store::Swept::default());
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn a_node_that_sweeps_late_does_not_block_what_it_knows(world: World) {
    let slow = world.join("slow", &["greet@1"]).await;
    let run = world.start("greet").await;
    world.pass(LEASE * 2).await;

    let ask = Sweep { by: slow, unknown_after: SECOND, ..sweep_of(run.id.shard()) };
    assert_eq!(world.store().sweep(&ask).await.expect("the store is swept").blocked, 0);
    assert_eq!(world.status(run.id).await, Status::Ready);
}

#[store_test]
async fn a_node_that_sweeps_is_not_dead_however_late_it_renews(world: World) {
    let run = world.start("greet").await.claimed_by("slow").await;
    let slow = world.node("slow").await;
    world.pass(LEASE * 2).await;

    let ask = Sweep { by: slow, ..sweep_of(run.run.shard()) };
    let swept = world.store().sweep(&ask).await.expect("the store is swept");
    assert_eq!(swept.dead_nodes, []);
    assert_eq!(world.commit(run.complete("late, and yet ours")).await, Committed::Done);
}

// Its lease is over and it writes, as it does when it renews: on SQLite nobody sweeps meanwhile.
#[store_test(postgres)]
async fn what_a_late_node_knows_that_is_just_writing_is_not_blocked(world: World) {
    let turn = world.start("greet").held_by("slow").await;
    let due = world.start("greet").shard(turn.run.shard()).await;
    let stranger = world.join("stranger", &["other@1"]).await;
    let mut tx = world.begin().await;
    tx.record(turn.node, turn.run, turn.epoch, &step(1, "debit")).await.unwrap();
    world.pass(LEASE * 2).await;
    let shard = turn.run.shard();
    let ask = Sweep { by: stranger, unknown_after: SECOND, ..sweep_of(shard) };
    assert_eq!(world.store().sweep(&ask).await.unwrap(), outlast_store::Swept::default());
    assert_eq!(world.status(due.id).await, Status::Ready);

    tx.rollback().await.unwrap();
    let swept = world.store().sweep(&ask).await.unwrap();
    assert_eq!((swept.dead_nodes, swept.freed, swept.blocked), (vec![turn.node], 1, 1), "now it is dead");
}

#[store_test]
async fn a_run_that_nobody_knows_is_blocked_behind_any_number_that_wait_for_their_turn(world: World) {
    world.join("node", &["greet@1"]).await;
    let waiting: Vec<NewRun> = (0..25).map(|_| world.start("greet").shard(0).asked()).collect();
    world.store().start(&waiting, None).await.unwrap();
    world.pass(SECOND).await;
    let unheard = world.start("unheard").shard(0).await.id;
    world.pass(LEASE / 2).await;
    let mut ask = Sweep { unknown_after: SECOND, limit: 1, ..sweep_of(0) };
    let mut blocked = Vec::new();
    for _ in 0..4 {
        let swept = world.store().sweep(&ask).await.unwrap();
        blocked.push(swept.blocked);
        ask.after = swept.next;
    }
    // Ten are looked at for each that may be blocked; behind the last it begins anew.
    assert_eq!(blocked, [0, 0, 1, 0]);
    assert_eq!(world.status(unheard).await, Status::Blocked);
    assert_eq!(ask.after, Mark::default());
}
