//! The reasons, one by one.

use std::time::Duration;

use outlast_core::{QueueRules, Rate, Status, WaitOn, Why};
use outlast_store::{Next, NodeCard, QueueChange};
use outlast_testkit::{LEASE, QUEUE, World, card, store_test};

use crate::stage::{open, sleep_until, why};

const SECOND: Duration = Duration::from_secs(1);

#[store_test]
async fn a_run_that_is_due_waits_for_a_node_and_then_for_a_slot(world: World) {
    let run = world.start("greet").await.id;
    assert!(matches!(why(&world, run).await, Why::NoNode { .. }));
    world.join("other", &["greet@2"]).await;
    assert_eq!(why(&world, run).await, Why::NoCode { code: "greet@1".into() });
    let elsewhere = NodeCard { queues: vec!["mail".into()], ..card("elsewhere", &["greet@1"]) };
    world.store().join(&elsewhere).await.unwrap();
    let not_served = Why::NotServed { code: "greet@1".into(), queue: QUEUE.into() };
    assert_eq!(why(&world, run).await, not_served);
    world.node("here").await;
    assert!(matches!(why(&world, run).await, Why::Due { .. }));
}

#[store_test]
async fn blocked_because_nobody_serves_its_queue_a_run_names_that(world: World) {
    let run = world.start("greet").queue("parcels").await.id;
    world.node("node").await;
    world.pass(LEASE / 2).await;
    assert_eq!(world.sweep_unknown_after(SECOND).await.blocked, 1);
    let why = why(&world, run).await;
    assert!(matches!(&why, Why::Blocked { unserved: Some(queue), .. } if queue == "parcels"), "{why:?}");
}

#[store_test]
async fn a_run_in_hand_names_its_node_and_one_whose_node_died_says_so(world: World) {
    let turn = world.start("greet").await.claimed_by("web-1").await;
    let until = world.now().await + LEASE;
    match why(&world, turn.run).await {
        Why::Held { node, name, until: told } => {
            assert_eq!((node, name.as_str()), (turn.node, "web-1"));
            assert!(told <= until);
        }
        other => panic!("{other:?}"),
    }
    world.pass(LEASE * 2).await;
    assert!(matches!(why(&world, turn.run).await, Why::NodeLost { looked_after: false, .. }));
    world.join("web-2", &["greet@1"]).await;
    assert!(matches!(why(&world, turn.run).await, Why::NodeLost { looked_after: true, .. }));
    world.sweep().await;
    assert!(matches!(why(&world, turn.run).await, Why::Due { .. }));
}

#[store_test]
async fn a_suspended_run_names_everything_that_wakes_it(world: World) {
    let turn = world.start("order").await.claimed_by("node").await;
    let until = world.now().await + SECOND * 60;
    let child = world.start("ship").shard(turn.run.shard()).child_of(turn.run, "ship");
    let child_id = child.clone().asked().id;
    let writing = turn
        .suspend_until(until)
        .with(|commit| {
            commit.entries = vec![open(1, WaitOn::Event, "approval#2"), open(2, WaitOn::Promise, "paid")]
        })
        .with(|commit| commit.entries.push(sleep_until(3, until)))
        .starts(child);
    world.commit(writing).await;
    let Why::Waiting { waits, until: told } = why(&world, turn.run).await else { panic!("it waits") };
    let mut named: Vec<_> = waits.iter().map(|wait| (wait.on, wait.name.as_str(), wait.run)).collect();
    named.sort_by_key(|(_, name, _)| *name);
    let wanted = [
        (WaitOn::Event, "approval", None),
        (WaitOn::Promise, "paid", None),
        (WaitOn::Child, "ship", Some(child_id)),
        (WaitOn::Sleep, "sleep", None),
    ];
    assert_eq!((named.as_slice(), told), (wanted.as_slice(), Some(until)));

    world.send(turn.run, "approval", "yes").await;
    assert!(matches!(why(&world, turn.run).await, Why::Due { .. }));
}

#[store_test]
async fn a_run_that_shares_a_child_names_it_too(world: World) {
    let turn = world.start("order").await.claimed_by("node").await;
    let shared = world.start_keyed("ship", "parcel-1").await.id;
    world.listen(shared, turn.run, "ship").await;
    turn.suspended().await;
    let Why::Waiting { waits, until: None } = why(&world, turn.run).await else { panic!("it waits") };
    assert_eq!((waits[0].on, waits[0].run), (WaitOn::Child, Some(shared)));
    world.cancel(shared, "no more").await;
    assert!(matches!(why(&world, turn.run).await, Why::Due { .. }));
}

#[store_test]
async fn sleeps_retries_and_delays_say_when(world: World) {
    let later = world.start("greet").delayed(SECOND * 30).await.id;
    assert!(matches!(why(&world, later).await, Why::Later { at } if at > world.now().await));

    let turn = world.start("order").await.claimed_by("node").await;
    let until = world.now().await + SECOND * 60;
    let sleeps = turn.suspend_until(until).with(|commit| commit.entries.push(sleep_until(1, until)));
    world.commit(sleeps).await;
    assert_eq!(why(&world, turn.run).await, Why::Sleeping { until });

    let job = world.start("mail").job().await.claimed_by("node").await;
    world.commit(job.retry(SECOND * 5, 2)).await;
    assert!(matches!(why(&world, job.run).await, Why::Retry { attempt: 2, step: None, .. }));
}

#[store_test]
async fn a_run_that_stands_still_says_why_and_whether_it_was_asked_to_stop(world: World) {
    let turn = world.start("greet").await.claimed_by("node").await;
    world.cancel(turn.run, "too late").await;
    let told = world.store().explain(turn.run).await.unwrap().unwrap();
    assert_eq!(told.asked_to_stop.as_deref(), Some("too late"));
    world.commit(turn.block("the journal does not fit")).await;
    let misfit = Why::Blocked { reason: "the journal does not fit".into(), unserved: None };
    assert_eq!(why(&world, turn.run).await, misfit);

    // Nothing sets these yet.
    let waiting = world.start("greet").await.claimed_by("node").await.run;
    let id = world.sql_id(waiting);
    for (status, reason) in [(Status::UndoFailed, "'refund refused'"), (Status::Paused, "null")] {
        let code = status.code();
        let set = format!("status = {code}, node = null, claim = null, due_at = null, reason = {reason}");
        world.raw(&format!("update outlast.agenda set {set} where id = {id}")).await;
        let told = why(&world, waiting).await;
        match status {
            Status::Paused => assert_eq!(told, Why::Paused { reason: None }),
            _ => assert_eq!(told, Why::UndoFailed { reason: "refund refused".into() }),
        }
    }
    let later = world.now().await.micros() + 60_000_000;
    let set = format!("status = {}, due_at = {later}", Status::Undoing.code());
    world.raw(&format!("update outlast.agenda set {set} where id = {id}")).await;
    assert!(matches!(why(&world, waiting).await, Why::Undoing { .. }));
    world.raw(&format!("update outlast.agenda set status = 1 where id = {id}")).await;
}

#[store_test]
async fn an_ended_run_says_so_and_an_unknown_one_is_none(world: World) {
    let turn = world.start("greet").await.claimed_by("node").await;
    turn.completed("done").await;
    assert!(matches!(why(&world, turn.run).await, Why::Ended { .. }));
    let unknown = world.start("greet").asked().id;
    assert_eq!(world.store().explain(unknown).await.unwrap(), None);
}

#[store_test]
async fn a_queue_says_which_of_its_rules_holds_a_run_back(world: World) {
    let node = NodeCard { queues: vec![QUEUE.into(), "line".into()], ..card("node", &["mail@1"]) };
    world.store().join(&node).await.unwrap();
    let queued = async |group: &str| world.start("mail").job().queue("line").group(group).await.id;
    let (first, second, other) = (queued("a").await, queued("a").await, queued("b").await);

    world.change_queue("line", QueueChange::Pause).await;
    assert!(matches!(why(&world, first).await, Why::QueuePaused { since: Some(_), .. }));
    world.change_queue("line", QueueChange::Resume).await;
    world.pass(SECOND).await;
    world.change_queue("line", QueueChange::Drain).await;
    world.pass(SECOND).await;
    let late = queued("c").await;
    assert!(matches!(why(&world, late).await, Why::QueueDraining { .. }));
    assert!(matches!(why(&world, first).await, Why::Due { .. }));
    world.change_queue("line", QueueChange::Resume).await;

    world.rules("line", QueueRules { ordered: true, ..QueueRules::default() }).await;
    assert!(matches!(why(&world, second).await, Why::BehindInOrder { head, .. } if head == first));
    assert!(matches!(why(&world, other).await, Why::Due { .. }));

    let claims = world.store();
    let ask = outlast_store::QueueClaim {
        node: node.id,
        number: world.number(),
        queue: "line".into(),
        codes: vec!["mail@1".into()],
        limit: 1,
    };
    let claimed = claims.claim_queue(&ask).await.unwrap().runs;
    assert_eq!(claimed[0].id, first);
    assert!(matches!(why(&world, second).await, Why::BehindInOrder { head, .. } if head == first));
    let limited =
        |limit, per_group, per_node| QueueRules { limit, per_group, per_node, ..QueueRules::default() };
    world.rules("line", limited(Some(1), None, None)).await;
    let full = Why::QueueFull { queue: "line".into(), limit: 1, held: 1, by: vec![first] };
    assert_eq!(why(&world, other).await, full);
    world.rules("line", limited(None, Some(1), None)).await;
    let full = Why::GroupFull { queue: "line".into(), group: "a".into(), limit: 1, held: 1, by: vec![first] };
    assert_eq!((why(&world, second).await, why(&world, other).await.kind()), (full, "due"));
    world.rules("line", limited(None, None, Some(1))).await;
    let full = Why::NodesFull { queue: "line".into(), limit: 1, by: vec![first] };
    assert_eq!(why(&world, other).await, full);

    world.rules("line", QueueRules { rate: Some(Rate::new(1, SECOND * 60)), ..QueueRules::default() }).await;
    let ask = outlast_store::QueueClaim { number: world.number(), ..ask };
    assert_eq!(claims.claim_queue(&ask).await.unwrap().runs.len(), 1);
    assert!(
        matches!(why(&world, late).await, Why::RateSpent { freer_at, .. } if freer_at > world.now().await)
    );
}

#[store_test]
async fn a_retry_that_was_asked_for_by_a_step_names_the_step(world: World) {
    let turn = world.start("order").await.claimed_by("node").await;
    let until = world.now().await + SECOND * 9;
    let next = Next::Suspend { wake_at: Some(until), seen: 0 };
    let failed = crate::stage::failed_attempt(1, "charge", 1, until);
    world.commit(turn.writes().with(|commit| commit.entries.push(failed)).next(next)).await;
    let told = why(&world, turn.run).await;
    assert_eq!(told, Why::Retry { at: until, attempt: 2, step: Some("charge".into()) });
}
