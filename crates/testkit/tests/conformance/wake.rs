//! Wake: a message to a run that waits, and the claim of it, in one go.

use futures_util::future::join_all;
use outlast_core::Status;
use outlast_store::{Address, Claimed, Committed, Delivered, Hold};
use outlast_testkit::{Run, Turn, World, event, store_test};

/// A run that waits, as its last turn left it.
async fn waiting(world: &World) -> (Run, Turn) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    turn.suspended().await;
    (run, turn)
}

async fn hold(world: &World, node: &str) -> Hold {
    Hold { node: world.node(node).await, claim: world.number() }
}

/// Sends an event named `name` with the hope of having the run.
async fn wake(world: &World, turn: &Turn, name: &str) -> (Delivered, Option<Claimed>) {
    let message = event(Address::Run(turn.run), name, name);
    world.store().wake(&message, hold(world, "node").await, turn.claimed.epoch).await.unwrap()
}

#[store_test]
async fn a_run_that_waits_is_held_at_once_with_its_message(world: World) {
    let (run, turn) = waiting(&world).await;
    let (answer, claimed) = wake(&world, &turn, "approval").await;
    assert_eq!(answer, Delivered::Done { run: run.id });
    let claimed = claimed.expect("nothing stands in the way");
    assert_eq!((claimed.id, claimed.epoch, claimed.news), (run.id, turn.claimed.epoch + 1, 1));
    assert_eq!(claimed.inbox.iter().map(|news| &*news.name).collect::<Vec<_>>(), ["approval"]);
    assert_eq!(world.status(run.id).await, Status::Running);
    assert!(world.claims_as("other", 10).await.is_empty());

    let turn = Turn::new(&world, turn.node, claimed);
    assert_eq!(
        world.commit(turn.records(1, "approval").consumes(&[1]).complete("done")).await,
        Committed::Done
    );
}

#[store_test]
async fn the_turn_before_can_write_no_more(world: World) {
    let (run, turn) = waiting(&world).await;
    assert!(wake(&world, &turn, "approval").await.1.is_some());
    assert_eq!(world.commit(turn.records(1, "late")).await, Committed::LeaseLost);
    assert_eq!(world.journal(run.id).await.len(), 0);
}

#[store_test]
async fn a_run_that_somebody_had_in_between_is_only_told(world: World) {
    let (run, turn) = waiting(&world).await;
    world.send(run.id, "first", "yes").await;
    let other = run.claimed_by("other").await;
    // While somebody has it, and when it waits again with another epoch.
    assert_eq!(wake(&world, &turn, "second").await, (Delivered::Done { run: run.id }, None));
    world.commit(other.writes().suspend(2)).await;
    assert_eq!(wake(&world, &turn, "third").await, (Delivered::Done { run: run.id }, None));
    assert_eq!(world.status(run.id).await, Status::Ready);
    let names: Vec<String> =
        run.claimed_by("other").await.claimed.inbox.into_iter().map(|news| news.name).collect();
    assert_eq!(names, ["first", "second", "third"]);
}

#[store_test]
async fn a_node_without_its_lease_wakes_the_run_and_does_not_have_it(world: World) {
    let (run, turn) = waiting(&world).await;
    let lost = hold(&world, "node").await;
    world.store().leave(lost.node).await.unwrap();
    let message = event(Address::Run(run.id), "approval", "yes");
    let answer = world.store().wake(&message, lost, turn.claimed.epoch).await.unwrap();
    assert_eq!(answer, (Delivered::Done { run: run.id }, None));
    assert_eq!(run.claimed_by("other").await.claimed.inbox.len(), 1);
}

#[store_test]
async fn a_run_that_has_ended_or_never_was_is_answered_as_ever(world: World) {
    let run = world.start("greet").held_by("node").await;
    run.completed("done").await;
    let closed = Delivered::Closed { run: run.run, status: Status::Completed };
    assert_eq!(wake(&world, &run, "late").await, (closed, None));
    let nobody = world.start("greet").asked().id;
    let message = event(Address::Run(nobody), "approval", "yes");
    let answer = world.store().wake(&message, hold(&world, "node").await, 1).await.unwrap();
    assert_eq!(answer, (Delivered::Unknown, None));
}

#[store_test]
async fn of_many_who_wake_a_run_at_once_one_has_it_and_no_message_is_lost(world: World) {
    for _ in 0..20 {
        let (run, turn) = waiting(&world).await;
        let names = ["a", "b", "c", "d"];
        let answers = join_all(names.iter().map(|name| wake(&world, &turn, name))).await;
        let held: Vec<Claimed> = answers.into_iter().filter_map(|(_, claimed)| claimed).collect();
        assert_eq!(held.len(), 1, "{held:?}");
        let mut inbox = world.inbox(run.id).await;
        inbox.sort();
        assert_eq!(inbox, names);
        let turn = Turn::new(&world, turn.node, held.into_iter().next().unwrap());
        world.commit(turn.complete("done")).await;
    }
}
