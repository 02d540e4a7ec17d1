//! Commit, what reaches other runs: children, messages, and the end that a parent hears of.

use outlast_core::{RunId, Status};
use outlast_store::{Address, Committed, Delivery, Ended, NewsKind, Next, StoreError};
use outlast_testkit::{Turn, World, event, key, payload, settlement, store_test};
use uuid::Uuid;

#[store_test]
async fn a_child_starts_in_the_commit_that_records_it(world: World) {
    let parent = world.start("order").held_by("node").await;
    let child = world.start("ship").shard(3).child_of(parent.run, "ship").tag("city", "Bern");
    let id = child.clone().asked().id;
    assert_eq!(world.commit(parent.records(1, "ship").starts(child)).await, Committed::Done);

    let view = world.view(id).await;
    assert_eq!(view.status, Status::Ready);
    assert_eq!(view.record.parent.unwrap().run, parent.run);
    assert_eq!(view.tags, [("city".to_owned(), "Bern".to_owned())]);
    assert_eq!(world.claim_as("node").await.run, id);
}

#[store_test]
async fn many_children_start_at_once_in_every_shard(world: World) {
    let parent = world.start("order").held_by("node").await;
    let mut writing = parent.records(1, "ship");
    for n in 0..100 {
        writing = writing.starts(world.start("ship").shard(n).child_of(parent.run, "ship"));
    }
    assert_eq!(world.commit(writing.suspend(0)).await, Committed::Done);
    assert_eq!(world.claims_as("node", 1_000).await.len(), 100);
    assert_eq!(world.status(parent.run).await, Status::Waiting);
}

#[store_test]
async fn a_childs_end_wakes_its_parent_in_another_shard(world: World) {
    let parent = world.start("order").shard(0).held_by("node").await;
    let child = world.start("ship").shard(2).child_of(parent.run, "ship#2");
    world.commit(parent.records(1, "ship#2").starts(child).suspend(0)).await;
    assert_eq!(world.status(parent.run).await, Status::Waiting);

    let child = world.claim_as("other").await;
    let end = Ended { status: Status::Completed, output: Some(payload("parcel")), error: None };
    let tell = Delivery {
        id: Uuid::from_u128(1),
        to: Address::Run(parent.run),
        kind: NewsKind::Child,
        name: "ship#2".into(),
        body: Some(end.to_payload()),
    };
    let writing = child.writes().sends(tell).next(Next::Finish(end.clone()));
    assert_eq!(world.commit(writing).await, Committed::Done);
    assert_eq!(world.status(child.run).await, Status::Completed);

    let turn = world.claim_as("node").await;
    assert_eq!(turn.run, parent.run);
    let news = &turn.claimed.inbox[0];
    assert_eq!((news.kind, &*news.name), (NewsKind::Child, "ship#2"));
    assert_eq!(Ended::from_payload(news.body.as_ref().unwrap()).unwrap(), end);
}

#[store_test]
async fn a_child_with_a_key_starts_once(world: World) {
    let first = world.start("order").held_by("node").await;
    let second = world.start("order").held_by("node").await;
    for parent in [&first, &second] {
        let child = world.start_keyed("ship", "parcel-1").child_of(parent.run, "ship");
        assert_eq!(world.commit(parent.records(1, "ship").starts(child)).await, Committed::Done);
    }
    let child = world.store().find(&key("ship", "parcel-1")).await.unwrap().unwrap();
    assert_eq!(world.view(child).await.record.parent.unwrap().run, first.run);
    assert_eq!(world.claims_as("node", 10).await.len(), 1);
}

#[store_test]
async fn a_child_adopts_the_messages_that_came_before_it(world: World) {
    world.deliver(&event(key("ship", "parcel-1"), "label", "printed")).await;
    let parent = world.start("order").held_by("node").await;
    let child = world.start_keyed("ship", "parcel-1").child_of(parent.run, "ship");
    assert_eq!(world.commit(parent.records(1, "ship").starts(child)).await, Committed::Done);
    let turn = world.claim_as("node").await;
    assert_eq!(turn.claimed.inbox.len(), 1);
    assert_eq!(world.inbox(turn.run).await, ["printed"]);
}

#[store_test]
async fn a_message_reaches_a_run_in_another_shard_and_wakes_it(world: World) {
    let target = world.start("ship").shard(1).await;
    target.claimed_by("node").await.suspended().await;
    let sender = world.start("order").shard(0).held_by("node").await;
    let one = event(Address::Run(target.id), "label", "one");
    let two = settlement(Address::Run(target.id), "paid", "two");
    assert_eq!(world.commit(sender.records(1, "send").sends(one).sends(two)).await, Committed::Done);

    assert_eq!(world.status(target.id).await, Status::Ready);
    assert_eq!(world.inbox(target.id).await, ["one", "two"]);
    let again = sender.records(2, "send#2").sends(settlement(Address::Run(target.id), "paid", "three"));
    assert_eq!(world.commit(again).await, Committed::Done);
    assert_eq!(world.inbox(target.id).await, ["one", "two"], "a promise is settled once");
}

#[store_test]
async fn a_message_to_a_key_waits_for_its_run(world: World) {
    let sender = world.start("order").held_by("node").await;
    let message = event(key("ship", "parcel-1"), "label", "printed");
    assert_eq!(world.commit(sender.records(1, "send").sends(message)).await, Committed::Done);
    let run = world.start_keyed("ship", "parcel-1").await;
    assert_eq!(world.inbox(run.id).await, ["printed"]);
}

#[store_test]
async fn a_run_can_send_to_itself_and_does_not_sleep_over_it(world: World) {
    let turn = world.start("order").held_by("node").await;
    let message = event(Address::Run(turn.run), "remember", "me");
    assert_eq!(world.commit(turn.records(1, "send").sends(message).suspend(0)).await, Committed::Done);
    assert_eq!(world.status(turn.run).await, Status::Ready);
    assert_eq!(world.inbox(turn.run).await, ["me"]);
}

#[store_test]
async fn a_message_to_nobody_does_not_hold_up_its_sender(world: World) {
    let ended = world.start("ship").held_by("node").await;
    ended.completed("done").await;
    let nobody = world.start("ship").asked().id;
    let sender = world.start("order").held_by("node").await;
    let to = |run: RunId| event(Address::Run(run), "label", "lost");
    let writing = sender.records(1, "send").sends(to(ended.run)).sends(to(nobody));
    assert_eq!(world.commit(writing.complete("sent")).await, Committed::Done);
    assert_eq!(world.count("select count(*) from outlast.inbox").await, 0);
}

#[store_test]
async fn a_parent_and_its_child_can_end_in_one_batch(world: World) {
    let parent = world.start("order").shard(0).held_by("node").await;
    let child = world.start("ship").shard(0).child_of(parent.run, "ship").held_by("node").await;
    let tell = Delivery { kind: NewsKind::Child, ..event(Address::Run(parent.run), "ship", "done") };
    let batch = vec![child.complete("parcel").sends(tell), parent.complete("order")];
    assert_eq!(world.commit_all(batch).await, [Committed::Done; 2]);
    assert_eq!(world.output(parent.run).await, "order");
    assert_eq!(world.output(child.run).await, "parcel");
}

// A user's transaction that sends holds the receiver until it ends. On SQLite it has the one writer, and
// every commit waits; on PostgreSQL only those that need the row wait.
#[store_test(postgres)]
async fn a_run_that_a_user_holds_is_busy_and_the_rest_of_the_batch_commits(world: World) {
    let held = world.start("order").shard(0).held_by("node").await;
    let free = world.start("order").shard(0).held_by("node").await;
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(held.run), "approval", "yes")]).await.unwrap();

    let batch = vec![held.suspend(), free.records(1, "one").complete("done")];
    assert_eq!(world.commit_all(batch).await, [Committed::Busy, Committed::Done]);
    assert_eq!(world.status(held.run).await, Status::Running);
    assert_eq!(world.commit(held.records(1, "one")).await, Committed::Done, "recording needs no lock");

    tx.commit().await.unwrap();
    assert_eq!(world.commit(held.suspend()).await, Committed::Done);
    assert_eq!(world.status(held.run).await, Status::Ready, "the user's message keeps it awake");
    assert_eq!(world.output(free.run).await, "done");
}

#[store_test(postgres)]
async fn a_receiver_that_a_user_holds_makes_its_sender_busy_and_nobody_else(world: World) {
    let target = world.start("ship").shard(1).await;
    let sender = world.start("order").shard(0).held_by("node").await;
    let other = world.start("order").shard(0).held_by("node").await;
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(target.id), "label", "the user's")]).await.unwrap();

    let send =
        |turn: &Turn| turn.records(1, "send").sends(event(Address::Run(target.id), "label", "the run's"));
    let batch = vec![send(&sender).complete("sent"), other.complete("done")];
    assert_eq!(world.commit_all(batch).await, [Committed::Busy, Committed::Done]);
    assert_eq!(world.journal(sender.run).await, [""; 0]);

    tx.rollback().await.unwrap();
    assert_eq!(world.commit(send(&sender).complete("sent")).await, Committed::Done);
    assert_eq!(world.inbox(target.id).await, ["the run's"]);
}

#[store_test(postgres)]
async fn a_key_that_a_user_holds_makes_its_sender_busy(world: World) {
    let message = || event(key("ship", "parcel-1"), "label", "printed");
    world.deliver(&message()).await;
    let sender = world.start("order").shard(0).held_by("node").await;
    let parent = world.start("order").shard(0).held_by("node").await;
    let other = world.start("order").shard(0).held_by("node").await;
    let mut tx = world.begin().await;
    tx.deliver(&[message()]).await.unwrap();

    let child = || world.start_keyed("ship", "parcel-1").child_of(parent.run, "ship");
    let batch = || {
        let sends = sender.records(1, "send").sends(message());
        vec![sends, parent.records(1, "ship").starts(child()), other.records(1, "one").complete("done")]
    };
    assert_eq!(world.commit_all(batch()).await, [Committed::Busy, Committed::Busy, Committed::Done]);
    tx.commit().await.unwrap();
    assert_eq!(world.commit_all(batch()).await, [Committed::Done; 3]);
    assert_eq!(
        world.inbox(world.store().find(&key("ship", "parcel-1")).await.unwrap().unwrap()).await.len(),
        3
    );
}

// Nobody can pass over a key's row that is only just being made. The wait is bounded.
#[store_test(postgres)]
async fn a_key_that_a_user_is_just_making_holds_up_a_batch_only_so_long(world: World) {
    let sender = world.start("order").held_by("node").await;
    let mut tx = world.begin().await;
    tx.start(&[world.start_keyed("ship", "parcel-1").asked()]).await.unwrap();

    let writing = sender.records(1, "send").sends(event(key("ship", "parcel-1"), "label", "printed"));
    let batch = outlast_store::Batch {
        node: writing.node,
        shard: sender.run.shard(),
        runs: vec![writing.commit.clone()],
    };
    match world.store().commit(batch.into()).await {
        Ok(answers) => assert_eq!(answers, [Committed::Busy]),
        Err(error @ StoreError::Conflict(_)) => assert!(error.is_retryable()),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(world.journal(sender.run).await, [""; 0]);
    tx.commit().await.unwrap();
    assert_eq!(world.commit(writing).await, Committed::Done);
    let run = world.store().find(&key("ship", "parcel-1")).await.unwrap().unwrap();
    assert_eq!(world.inbox(run).await, ["printed"]);
}
