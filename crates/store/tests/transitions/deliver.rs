//! Delivering messages.

use outlast_core::{RunId, Status};
use outlast_store::*;

use crate::stories;
use crate::world::*;

stories! {
    async fn a_message_wakes_a_run_that_waits_and_arrives_once(world: World) {
        let run = world.running().await;
        world.suspend(&run).await;
        let message = event(Address::Run(run.id), "hello");
        assert_eq!(world.deliver(message.clone()).await, Delivered::Done { run: run.id });
        assert_eq!(world.deliver(message.clone()).await, Delivered::Done { run: run.id });
        let twice = world.store.deliver(&[message.clone(), message]).await.unwrap();
        assert_eq!(twice, [Delivered::Done { run: run.id }, Delivered::Done { run: run.id }]);

        assert_eq!(world.view(run.id).await.status, Status::Ready);
        let claimed = world.claim_of(run.id).await;
        let news = &claimed.inbox[0];
        assert_eq!((claimed.inbox.len(), &*news.name, &news.body), (1, "hello", &Some(json("2"))));
        assert_eq!((news.at, news.kind, news.seq), (world.now(), NewsKind::Event, 1));
    }

    async fn messages_arrive_in_the_order_sent(world: World) {
        let run = world.start(&world.greet()).await;
        let all: Vec<Delivery> = ["a", "b", "c"].map(|name| event(Address::Run(run), name)).into();
        world.store.deliver(&all).await.unwrap();
        world.deliver(event(Address::Run(run), "d")).await;
        assert_eq!(world.inbox(run).await, ["1:a", "2:b", "3:c", "4:d"]);
        let after = world.store.inbox(&[(run, 3)]).await.unwrap();
        assert_eq!(after[0].1.name, "d");
        assert_eq!(world.view(run).await.due_at, Some(world.now()));
    }

    async fn a_running_run_is_told(world: World) {
        let run = world.running().await;
        let mut signals = world.store.signals();
        world.deliver(event(Address::Run(run.id), "hello")).await;
        hears(&mut signals, Signal::News(run.id)).await;
        assert_eq!(world.view(run.id).await.status, Status::Running);
    }

    async fn a_run_that_ended_or_never_was_receives_nothing(world: World) {
        let run = world.running().await;
        let message = event(Address::Run(run.id), "in time");
        world.deliver(message.clone()).await;
        world.commit(ends(&run, completed("1"))).await;
        let closed = Delivered::Closed { run: run.id, status: Status::Completed };
        assert_eq!(world.deliver(event(Address::Run(run.id), "late")).await, closed);
        assert_eq!(world.deliver(message).await, Delivered::Done { run: run.id });

        let nobody = event(Address::Run(world.greet().id), "lost");
        assert_eq!(world.deliver(nobody.clone()).await, Delivered::Unknown);
        assert_eq!(world.deliver(nobody).await, Delivered::Unknown);
    }

    async fn a_promise_keeps_its_first_value(world: World) {
        let run = world.start(&world.greet()).await;
        let settle = |kind| Delivery { kind, ..event(Address::Run(run), "paid") };
        let (first, second) = (settle(NewsKind::Settled), settle(NewsKind::Rejected));
        let both = world.store.deliver(&[first.clone(), second.clone()]).await.unwrap();
        assert_eq!(both, [Delivered::Done { run }, Delivered::AlreadySettled { run }]);
        assert_eq!(world.deliver(second).await, Delivered::AlreadySettled { run });
        assert_eq!(world.deliver(first).await, Delivered::Done { run });
        assert_eq!(world.inbox(run).await, ["1:paid#@*"]);
    }

    async fn a_full_inbox_refuses_until_something_is_read(world: World) {
        let run = world.running().await;
        let limit = outlast_core::Limits::INBOX;
        let many: Vec<Delivery> = (0..=limit).map(|_| event(Address::Run(run.id), "e")).collect();
        let answers = world.store.deliver(&many).await.unwrap();
        let full = Delivered::Full { run: run.id, limit };
        let done = Delivered::Done { run: run.id };
        let last = many.last().unwrap();
        assert_eq!(answers[limit as usize - 1..], [done.clone(), full.clone()]);
        assert_eq!(world.deliver(last.clone()).await, full);

        let commit = RunCommit { consumed: vec![1], ..records(&run, &[entry(1, "e")]) };
        world.commit(commit).await;
        let two = [last.clone(), event(Address::Run(run.id), "e")];
        assert_eq!(world.store.deliver(&two).await.unwrap(), [done, full]);
    }

    async fn a_key_names_its_run(world: World) {
        let id = world.start(&world.keyed("k")).await;
        assert_eq!(world.deliver(event(by_key("k"), "a")).await, Delivered::Done { run: id });
        let run = world.claim_of(id).await;
        world.commit(ends(&run, completed("1"))).await;
        let closed = Delivered::Closed { run: id, status: Status::Completed };
        assert_eq!(world.deliver(event(by_key("k"), "b")).await, closed);
    }

    async fn a_delivery_in_a_users_transaction_happens_with_it(world: World) {
        let run = world.running().await;
        world.suspend(&run).await;
        for commits in [false, true] {
            let mut tx = world.store.begin().await.unwrap();
            let answer = tx.deliver(&[event(Address::Run(run.id), "e")]).await.unwrap();
            assert_eq!(answer, [Delivered::Done { run: run.id }]);
            let (new, child) = (world.greet(), world.keyed("in a transaction"));
            assert_eq!(tx.start(&[new.clone(), child]).await.unwrap().len(), 2);
            if commits {
                tx.commit().await.unwrap()
            } else {
                tx.rollback().await.unwrap()
            }
            let status = if commits { Status::Ready } else { Status::Waiting };
            assert_eq!(world.view(run.id).await.status, status);
            assert_eq!(world.store.run(new.id).await.unwrap().is_some(), commits);
        }
        assert_eq!(world.inbox(run.id).await, ["1:e"]);
    }

    async fn messages_go_to_many_shards_at_once(world: World) {
        let mut runs: Vec<RunId> = Vec::new();
        for _ in 0..8 {
            runs.push(world.start(&world.greet()).await);
        }
        let all: Vec<Delivery> = runs.iter().rev().map(|run| event(Address::Run(*run), "e")).collect();
        let answers = world.store.deliver(&all).await.unwrap();
        let expected: Vec<Delivered> = runs.iter().rev().map(|run| Delivered::Done { run: *run }).collect();
        assert_eq!(answers, expected);
    }
}
