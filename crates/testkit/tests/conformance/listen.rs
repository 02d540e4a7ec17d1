//! Listen: whoever listens hears of a run's end once, as its parent does, whichever comes first.

use std::sync::Arc;

use outlast_core::{RunId, Status};
use outlast_store::{Address, Committed, Controlled, Ended, Listen, Listened, NewsKind, Next};
use outlast_testkit::{Turn, World, event, payload, store_test};

use crate::DAY;

/// A run in this shard that waits for news.
async fn waiting(world: &World, shard: u16) -> RunId {
    let turn = world.start("order").shard(shard).held_by("node").await;
    turn.suspended().await;
    turn.run
}

/// The ends that a run has not read: under what name, and which.
async fn heard(world: &World, run: RunId) -> Vec<(String, Ended)> {
    let news = world.store().inbox(&[(run, 0)]).await.unwrap();
    let end = |(_, news): (RunId, outlast_store::News)| {
        assert_eq!(news.kind, NewsKind::Child);
        (news.name, Ended::from_payload(news.body.as_ref().unwrap()).unwrap())
    };
    news.into_iter().map(end).collect()
}

async fn notes(world: &World) -> i64 {
    world.count("select count(*) from outlast.listeners").await
}

fn completed(output: &str) -> Ended {
    Ended { status: Status::Completed, output: Some(payload(output)), error: None }
}

#[store_test]
async fn an_end_wakes_its_listeners_in_every_shard(world: World) {
    let run = world.start("ship").shard(1).held_by("node").await;
    let listeners = [waiting(&world, 0).await, waiting(&world, 1).await, waiting(&world, 2).await];
    for listener in listeners {
        assert_eq!(world.listen(run.run, listener, "ship").await, Listened::Noted);
    }
    assert_eq!(world.status(listeners[0]).await, Status::Waiting, "nothing has ended yet");

    run.completed("parcel").await;
    for listener in listeners {
        assert_eq!(world.status(listener).await, Status::Ready);
        assert_eq!(heard(&world, listener).await, [("ship".to_owned(), completed("parcel"))]);
    }
    assert_eq!(notes(&world).await, 0);
}

#[store_test]
async fn a_listener_hears_of_a_failure_as_it_was(world: World) {
    let run = world.start("ship").held_by("node").await;
    let listener = waiting(&world, 0).await;
    world.listen(run.run, listener, "ship#2").await;
    let failed = Ended { status: Status::Failed, output: None, error: Some(r#"{"own":"no stamp"}"#.into()) };
    let writing = run.records(1, "pack").next(Next::Finish(failed.clone()));
    assert_eq!(world.commit(writing).await, Committed::Done);
    assert_eq!(heard(&world, listener).await, [("ship#2".to_owned(), failed)]);
}

#[store_test]
async fn one_run_may_listen_under_several_names(world: World) {
    let run = world.start("ship").held_by("node").await;
    let listener = waiting(&world, 0).await;
    for name in ["ship", "ship#2", "ship"] {
        assert_eq!(world.listen(run.run, listener, name).await, Listened::Noted);
    }
    run.completed("parcel").await;
    let mut names: Vec<String> = heard(&world, listener).await.into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["ship", "ship#2"]);
}

#[store_test]
async fn only_the_end_is_told(world: World) {
    let run = world.start("ship").shard(0).held_by("node").await;
    let listener = waiting(&world, 1).await;
    world.listen(run.run, listener, "ship").await;
    assert_eq!(world.commit(run.records(1, "pack").next(Next::Release)).await, Committed::Done);
    assert_eq!((world.status(listener).await, notes(&world).await), (Status::Waiting, 1));

    let again = world.claim_as("node").await;
    assert_eq!(world.commit(run.complete("late")).await, Committed::LeaseLost);
    assert_eq!(world.status(listener).await, Status::Waiting, "a turn without its lease tells nobody");
    again.completed("parcel").await;
    assert_eq!(heard(&world, listener).await.len(), 1);
}

#[store_test]
async fn an_end_that_came_before_is_told_at_once(world: World) {
    let run = world.start("ship").shard(1).held_by("node").await;
    run.completed("parcel").await;
    let listener = waiting(&world, 0).await;
    assert_eq!(world.listen(run.run, listener, "ship").await, Listened::Ended);
    assert_eq!(world.status(listener).await, Status::Ready);
    assert_eq!(heard(&world, listener).await, [("ship".to_owned(), completed("parcel"))]);
    assert_eq!(notes(&world).await, 0);
}

#[store_test]
async fn nobody_can_be_listened_to_who_is_unknown(world: World) {
    let nobody = world.start("ship").asked().id;
    let listener = waiting(&world, 0).await;
    let before = world.snapshot().await;
    assert_eq!(world.listen(nobody, listener, "ship").await, Listened::Unknown);
    assert_eq!(world.snapshot().await, before);
}

#[store_test]
async fn a_listener_that_has_ended_holds_up_nobody(world: World) {
    let run = world.start("ship").held_by("node").await;
    let listener = world.start("order").held_by("node").await;
    world.listen(run.run, listener.run, "ship").await;
    listener.completed("over").await;
    run.completed("parcel").await;
    assert_eq!(world.listen(run.run, listener.run, "ship#2").await, Listened::Ended);
    assert_eq!(world.count("select count(*) from outlast.inbox").await, 0);
    assert_eq!(notes(&world).await, 0);
}

#[store_test]
async fn a_listener_that_is_suspended_in_the_same_batch_does_not_sleep_over_it(world: World) {
    let run = world.start("ship").shard(0).held_by("node").await;
    let listener = world.start("order").shard(0).held_by("node").await;
    world.listen(run.run, listener.run, "ship").await;
    let batch = vec![listener.suspend(), run.complete("parcel")];
    assert_eq!(world.commit_all(batch).await, [Committed::Done; 2]);
    assert_eq!(world.status(listener.run).await, Status::Ready);
}

#[store_test]
async fn a_listener_hears_that_a_run_was_cancelled_before_it_began(world: World) {
    let parent = waiting(&world, 0).await;
    let listener = waiting(&world, 2).await;
    let run = world.start("ship").shard(1).child_of(parent, "ship").delayed(DAY).await.id;
    world.listen(run, listener, "ship#2").await;
    assert!(matches!(world.cancel(run, "enough").await, Controlled::Final { by_this: true, .. }));
    for (who, name) in [(parent, "ship"), (listener, "ship#2")] {
        let (told, end) = heard(&world, who).await.remove(0);
        assert_eq!((&*told, end.status), (name, Status::Cancelled));
        assert_eq!(world.status(who).await, Status::Ready);
    }
    assert_eq!(notes(&world).await, 0);
}

#[store_test(postgres)]
async fn a_listener_that_a_user_holds_makes_the_end_busy_and_nobody_else(world: World) {
    let listener = waiting(&world, 1).await;
    let run = world.start("ship").shard(0).held_by("node").await;
    let other = world.start("ship").shard(0).held_by("node").await;
    world.listen(run.run, listener, "ship").await;
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(listener), "label", "the user's")]).await.unwrap();

    let writing = |turn: &Turn| turn.records(1, "pack").complete("parcel");
    let batch = vec![writing(&run), writing(&other)];
    assert_eq!(world.commit_all(batch).await, [Committed::Busy, Committed::Done]);
    // What it recorded may be there already: only its end has to be told.
    assert_eq!((world.status(run.run).await, notes(&world).await), (Status::Running, 1));

    tx.rollback().await.unwrap();
    assert_eq!(world.commit(writing(&run)).await, Committed::Done);
    assert_eq!(heard(&world, listener).await, [("ship".to_owned(), completed("parcel"))]);
}

// Its entries are there from an earlier commit; telling its end belongs to the move.
#[store_test(postgres)]
async fn a_busy_listener_is_told_by_a_move_whose_entries_went_before(world: World) {
    let listener = waiting(&world, 1).await;
    let run = world.start("ship").shard(0).held_by("node").await;
    world.listen(run.run, listener, "ship").await;
    assert_eq!(world.commit(run.records(1, "pack")).await, Committed::Done);
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(listener), "label", "the user's")]).await.unwrap();
    let writing = run.records(1, "pack").complete("parcel");
    assert_eq!(world.commit(writing.clone()).await, Committed::Busy);
    tx.rollback().await.unwrap();
    assert_eq!(world.commit(writing).await, Committed::Done);
    assert_eq!(heard(&world, listener).await.len(), 1);
}

// The listener sees the run still running, the end does not see the listener yet, and it waits for ever:
// that is what the lock of the run's row is for.
#[store_test]
async fn an_end_and_a_listener_never_miss_each_other(world: World) {
    let other = world.second_store().await;
    for round in 0..100 {
        let listener = waiting(&world, 1).await;
        let run = world.start("ship").shard(0).held_by("node").await;
        let (store, ask) = (Arc::clone(&other), Listen { run: run.run, listener, name: "ship".into() });
        let listening = tokio::spawn(async move { store.listen(&ask).await.unwrap() });
        let ended = world.commit_patiently(run.complete("parcel")).await;
        let listened = listening.await.unwrap();
        assert_eq!(ended, Committed::Done);
        assert_eq!(heard(&world, listener).await.len(), 1, "round {round}: {listened:?}");
        assert_eq!(world.status(listener).await, Status::Ready);
    }
    assert_eq!(notes(&world).await, 0);
}

#[store_test]
async fn a_cancel_and_a_listener_never_miss_each_other(world: World) {
    let other = world.second_store().await;
    for round in 0..50 {
        let listener = waiting(&world, 1).await;
        let run = world.start("ship").shard(0).delayed(DAY).await.id;
        let (store, ask) = (Arc::clone(&other), Listen { run, listener, name: "ship".into() });
        let listening = tokio::spawn(async move { store.listen(&ask).await.unwrap() });
        world.cancel(run, "enough").await;
        let listened = listening.await.unwrap();
        assert_eq!(heard(&world, listener).await.len(), 1, "round {round}: {listened:?}");
    }
    assert_eq!(notes(&world).await, 0);
}
