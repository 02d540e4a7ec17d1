//! Deliver: a message arrives once, in the order sent, and wakes a run that waits.

use std::sync::Arc;

use futures_util::future::join_all;
use outlast_core::{Limits, Status};
use outlast_store::{Address, Delivered, Delivery, NewsKind, Store};
use outlast_testkit::{World, event, key, payload, rejection, settlement, store_test};
use uuid::Uuid;

use crate::{DAY, MINUTE};

#[store_test]
async fn a_message_wakes_a_run_that_waits(world: World) {
    let run = world.start("greet").await;
    run.claimed_by("node").await.suspended().await;
    let before = world.now().await;
    assert_eq!(world.send(run.id, "approval", "yes").await, Delivered::Done { run: run.id });

    let view = world.view(run.id).await;
    assert_eq!(view.status, Status::Ready);
    assert!(view.due_at.unwrap() >= before && view.due_at.unwrap() <= world.now().await);
    let turn = world.claim_as("node").await;
    let news = &turn.claimed.inbox[0];
    assert_eq!((news.seq, news.kind, &*news.name), (1, NewsKind::Event, "approval"));
    assert_eq!(news.body, Some(payload("yes")));
    assert!(news.at >= before);
}

#[store_test]
async fn a_message_wakes_a_run_before_its_timer(world: World) {
    let run = world.start("greet").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.suspend_until(world.now().await + DAY)).await;
    world.send(run.id, "approval", "yes").await;
    assert_eq!(world.claim_as("node").await.run, run.id);
}

#[store_test]
async fn a_message_does_not_make_a_delayed_run_start_early(world: World) {
    let run = world.start("greet").delayed(MINUTE).await;
    let due = world.view(run.id).await.due_at;
    world.send(run.id, "approval", "yes").await;
    assert_eq!((world.view(run.id).await.due_at, world.claims_as("node", 1).await.len()), (due, 0));
    world.pass(MINUTE).await;
    assert_eq!(world.claim_as("node").await.claimed.inbox.len(), 1);
}

#[store_test]
async fn a_message_does_not_end_the_pause_before_a_retry(world: World) {
    let run = world.start("mail").await;
    let turn = run.claimed_by("node").await;
    world.commit(turn.retry(MINUTE, 2)).await;
    world.send(run.id, "approval", "yes").await;
    assert_eq!(world.claims_as("node", 1).await.len(), 0);
    world.pass(MINUTE).await;
    assert_eq!(world.claim_as("node").await.claimed.inbox.len(), 1);
}

#[store_test]
async fn a_message_does_not_wake_a_blocked_run(world: World) {
    let run = world.start("greet").await;
    world.commit(run.claimed_by("node").await.block("does not fit")).await;
    assert_eq!(world.send(run.id, "approval", "yes").await, Delivered::Done { run: run.id });
    assert_eq!(world.status(run.id).await, Status::Blocked);
    assert_eq!(world.claims_as("node", 1).await.len(), 0);
    assert_eq!(world.inbox(run.id).await, ["yes"]);
}

#[store_test]
async fn a_message_to_a_ready_run_does_not_change_its_place_in_line(world: World) {
    let first = world.start("greet").shard(0).await;
    world.start("greet").shard(0).await;
    let due = world.view(first.id).await.due_at;
    world.send(first.id, "approval", "yes").await;
    assert_eq!(world.view(first.id).await.due_at, due);
    assert_eq!(world.claim_as("node").await.run, first.id);
}

#[store_test]
async fn messages_keep_the_order_in_which_they_were_sent(world: World) {
    let (one, two) = (world.start("greet").await, world.start("greet").await);
    let to = |n: usize| Address::Run(if n.is_multiple_of(2) { one.id } else { two.id });
    let messages: Vec<Delivery> = (0..50).map(|n| event(to(n), "tick", &n.to_string())).collect();
    world.deliver_all(&messages[..30]).await;
    for message in &messages[30..] {
        world.deliver(message).await;
    }
    let even: Vec<String> = (0..50).step_by(2).map(|n| n.to_string()).collect();
    let odd: Vec<String> = (1..50).step_by(2).map(|n| n.to_string()).collect();
    assert_eq!(world.inbox(one.id).await, even);
    assert_eq!(world.inbox(two.id).await, odd);
}

#[store_test]
async fn a_body_is_any_bytes_or_none(world: World) {
    let run = world.start("greet").await;
    let to = Address::Run(run.id);
    let mut own = event(to.clone(), "own", "");
    own.body = Some(outlast_core::Payload { codec: Some("own".into()), bytes: vec![0, 255].into() });
    let none = Delivery { body: None, ..event(to, "none", "") };
    world.deliver_all(&[own.clone(), none]).await;
    let news = world.store().inbox(&[(run.id, 0)]).await.unwrap();
    assert_eq!(news.into_iter().map(|(_, news)| news.body).collect::<Vec<_>>(), [own.body, None]);
}

#[store_test]
async fn nobody_is_unknown_and_an_ended_run_is_closed(world: World) {
    let nobody = world.start("greet").asked().id;
    assert_eq!(world.send(nobody, "approval", "yes").await, Delivered::Unknown);
    let turn = world.start("greet").with(|run| run.key = None).held_by("node").await;
    turn.completed("done").await;
    let closed = Delivered::Closed { run: turn.run, status: Status::Completed };
    assert_eq!(world.send(turn.run, "approval", "yes").await, closed);

    let keyed = world.start_keyed("order", "o-1").await;
    world.cancel(keyed.id, "enough").await;
    let closed = Delivered::Closed { run: keyed.id, status: Status::Cancelled };
    assert_eq!(world.deliver(&event(key("order", "o-1"), "approval", "yes")).await, closed);
    assert_eq!(world.count("select count(*) from outlast.deliveries").await, 0, "only what arrived is noted");
}

#[store_test]
async fn one_call_answers_message_by_message(world: World) {
    let open = world.start("greet").await;
    let ended = world.start("greet").held_by("node").await;
    ended.completed("done").await;
    let nobody = world.start("greet").asked().id;
    let to = Address::Run;
    let answers = world
        .deliver_all(&[
            event(to(nobody), "a", ""),
            settlement(to(open.id), "paid", "first"),
            event(to(ended.run), "a", ""),
            settlement(to(open.id), "paid", "second"),
            event(to(open.id), "a", ""),
        ])
        .await;
    let (run, status) = (open.id, Status::Completed);
    assert_eq!(
        answers,
        [
            Delivered::Unknown,
            Delivered::Done { run },
            Delivered::Closed { run: ended.run, status },
            Delivered::AlreadySettled { run },
            Delivered::Done { run },
        ]
    );
    assert_eq!(world.inbox(open.id).await, ["first", ""]);
    assert_eq!(world.deliver_all(&[]).await, []);
}

#[store_test]
async fn a_promise_keeps_its_first_value(world: World) {
    let run = world.start("greet").await;
    let to = || Address::Run(run.id);
    assert_eq!(world.deliver(&settlement(to(), "paid", "yes")).await, Delivered::Done { run: run.id });
    let settled = Delivered::AlreadySettled { run: run.id };
    assert_eq!(world.deliver(&settlement(to(), "paid", "no")).await, settled);
    assert_eq!(world.deliver(&rejection(to(), "paid", "no")).await, settled);
    assert_eq!(world.deliver(&rejection(to(), "other", "no")).await, Delivered::Done { run: run.id });

    let turn = run.claimed_by("node").await;
    let kinds: Vec<NewsKind> = turn.claimed.inbox.iter().map(|news| news.kind).collect();
    assert_eq!(kinds, [NewsKind::Settled, NewsKind::Rejected]);
    world.commit(turn.records(1, "paid").consumes(&[1, 2])).await;
    assert_eq!(world.deliver(&settlement(to(), "paid", "again")).await, settled, "read or not");
}

#[store_test]
async fn of_racing_settlers_one_wins(world: World) {
    let stores: Vec<_> = join_all((0..4).map(|_| world.second_store())).await;
    for round in 0..10 {
        let run = world.start("greet").await.id;
        let settle = |n: usize| {
            let store = Arc::clone(&stores[n % 4]);
            let message = settlement(Address::Run(run), "paid", &format!("{round}.{n}"));
            tokio::spawn(async move { store.deliver(&[message]).await.unwrap().remove(0) })
        };
        let answers: Vec<Delivered> =
            join_all((0..8).map(settle)).await.into_iter().map(Result::unwrap).collect();
        let won = answers.iter().filter(|answer| **answer == Delivered::Done { run }).count();
        let late = answers.iter().filter(|answer| **answer == Delivered::AlreadySettled { run }).count();
        assert_eq!((won, late, world.inbox(run).await.len()), (1, 7, 1));
    }
}

#[store_test]
async fn racing_senders_lose_nothing_and_number_everything_once(world: World) {
    let run = world.start("greet").await.id;
    let stores: Vec<_> = join_all((0..4).map(|_| world.second_store())).await;
    let send = |n: usize| {
        let store = Arc::clone(&stores[n % 4]);
        let messages =
            [event(Address::Run(run), "a", &n.to_string()), event(Address::Run(run), "b", &n.to_string())];
        tokio::spawn(async move { store.deliver(&messages).await.unwrap() })
    };
    let answers = join_all((0..40).map(send)).await;
    assert!(
        answers
            .into_iter()
            .all(|answers| answers.unwrap() == [Delivered::Done { run }, Delivered::Done { run }])
    );
    let inbox = world.store().inbox(&[(run, 0)]).await.unwrap();
    assert_eq!(inbox.iter().map(|(_, news)| news.seq).collect::<Vec<_>>(), (1..=80).collect::<Vec<_>>());
    for pair in inbox.chunks(2) {
        assert_eq!((&*pair[0].1.name, &*pair[1].1.name), ("a", "b"), "one call's messages stay together");
        assert_eq!(pair[0].1.body, pair[1].1.body);
    }
}

#[store_test]
async fn two_who_send_to_the_same_runs_in_opposite_order_both_arrive(world: World) {
    let runs = [world.start("greet").await.id, world.start("greet").await.id];
    let other = world.second_store().await;
    for _ in 0..30 {
        let message = |n: usize| event(Address::Run(runs[n]), "tick", "");
        let (there, back) = ([message(0), message(1)], [message(1), message(0)]);
        let (first, second) = (Arc::clone(world.store()), Arc::clone(&other));
        let first = tokio::spawn(async move { first.deliver(&there).await.unwrap() });
        let second = tokio::spawn(async move { second.deliver(&back).await.unwrap() });
        first.await.unwrap();
        second.await.unwrap();
    }
    assert_eq!((world.inbox(runs[0]).await.len(), world.inbox(runs[1]).await.len()), (60, 60));
}

#[store_test]
async fn a_full_inbox_takes_no_more_events_until_some_are_read(world: World) {
    let run = world.start("greet").await.id;
    let limit = Limits::INBOX;
    let messages: Vec<Delivery> = (0..limit).map(|_| event(Address::Run(run), "tick", "")).collect();
    for some in messages.chunks(2_500) {
        let answers = world.deliver_all(some).await;
        assert!(answers.iter().all(|answer| *answer == Delivered::Done { run }));
    }
    assert_eq!(world.send(run, "tick", "").await, Delivered::Full { run, limit });
    let settle = settlement(Address::Run(run), "paid", "yes");
    assert_eq!(world.deliver(&settle).await, Delivered::Full { run, limit });
    assert!(matches!(world.cancel(run, "enough").await, outlast_store::Controlled::Final { .. }));
}

#[store_test]
async fn what_was_read_makes_room_and_a_cancel_always_fits(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let limit = Limits::INBOX;
    let numbered = |n: u32| event(Address::Run(turn.run), "tick", &n.to_string());
    world.deliver_all(&(0..limit).map(numbered).collect::<Vec<_>>()).await;
    assert_eq!(world.deliver(&numbered(limit)).await, Delivered::Full { run: turn.run, limit });
    let asked = outlast_store::Controlled::Asked { run: turn.run };
    assert_eq!(world.cancel(turn.run, "enough").await, asked);
    let read: Vec<i64> = (1..=10).collect();
    world.commit(turn.records(1, "tick").consumes(&read)).await;
    let settle = settlement(Address::Run(turn.run), "paid", "yes");
    assert_eq!(world.deliver(&settle).await, Delivered::Done { run: turn.run }, "it was not settled before");
    assert_eq!(world.deliver(&numbered(limit)).await, Delivered::Done { run: turn.run });
    // What was refused and is sent again comes behind all that was there; the cancel and the promise have no number.
    let inbox = world.inbox(turn.run).await;
    let numbers: Vec<u32> = inbox.iter().filter_map(|body| body.parse().ok()).collect();
    assert_eq!(numbers, (10..=limit).collect::<Vec<_>>());
}

#[store_test]
async fn the_same_delivery_arrives_once_whoever_repeats_it(world: World) {
    let run = world.start("greet").await.id;
    let message = Delivery { id: Uuid::from_u128(7), ..event(Address::Run(run), "tick", "") };
    let done = Delivered::Done { run };
    assert_eq!(world.deliver_all(&[message.clone(), message.clone()]).await, [done.clone(), done.clone()]);
    let second = world.second_store().await;
    let again = (0..8).map(|_| Store::deliver(&*second, std::slice::from_ref(&message)));
    assert!(join_all(again).await.into_iter().all(|answer| answer.unwrap() == [done.clone()]));
    assert_eq!(world.inbox(run).await.len(), 1);
}
