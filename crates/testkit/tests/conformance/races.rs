//! Races: whoever comes first, the other notices, and nothing is lost between them.

use std::sync::Arc;

use futures_util::future::join_all;
use outlast_core::Status;
use outlast_store::{Address, Claim, Committed, Control, Controlled, Delivered, Purge, Purged, Started};
use outlast_testkit::{LEASE, Turn, World, Writing, event, store_test, sweep_of};

use crate::DAY;

// The delivery sees the run still running, the suspension does not see the delivery yet, and the run
// waits for ever with a full inbox: that is what locking before looking is for.
#[store_test]
async fn a_delivery_and_a_suspension_never_miss_each_other(world: World) {
    let other = world.second_store().await;
    for _ in 0..200 {
        let turn = world.start("greet").held_by("node").await;
        let run = turn.run;
        let (store, message) = (Arc::clone(&other), event(Address::Run(run), "approval", "yes"));
        let sending = tokio::spawn(async move { store.deliver(&[message]).await.unwrap() });
        let committed = world.commit_patiently(turn.suspend()).await;
        assert_eq!((committed, sending.await.unwrap()), (Committed::Done, vec![Delivered::Done { run }]));

        let view = world.view(run).await;
        assert_eq!(view.status, Status::Ready, "it waits for ever with a full inbox");
        assert!(view.due_at.is_some());
    }
    assert_eq!(world.claims_as("node", 1_000).await.len(), 200);
}

#[store_test]
async fn a_childs_end_and_its_parents_suspension_never_miss_each_other(world: World) {
    for _ in 0..50 {
        let parent = world.start("order").shard(0).held_by("one").await;
        let child = world.start("ship").shard(1).held_by("two").await;
        let tell = event(Address::Run(parent.run), "ship", "done");
        let ending = tokio::spawn({
            let (world, writing) = (world.clone(), child.records(1, "pack").sends(tell).complete("parcel"));
            async move { world.commit_patiently(writing).await }
        });
        let suspended = world.commit_patiently(parent.suspend()).await;
        assert_eq!((suspended, ending.await.unwrap()), (Committed::Done, Committed::Done));
        assert_eq!(world.status(parent.run).await, Status::Ready);
        assert_eq!(world.inbox(parent.run).await, ["done"]);
    }
}

#[store_test]
async fn a_cancel_and_a_completion_leave_one_end(world: World) {
    let other = world.second_store().await;
    for round in 0..100 {
        let turn = world.start("greet").held_by("node").await;
        let run = turn.run;
        let cancel = Control::Cancel { run: Address::Run(run), reason: "enough".into() };
        let store = Arc::clone(&other);
        let cancelling = tokio::spawn(async move { store.control(&cancel).await.unwrap() });
        let committed = world.commit_patiently(turn.records(1, "last").complete("done")).await;
        let cancelled = cancelling.await.unwrap();

        // A success recorded before the cancellation was handed over wins.
        assert_eq!(
            (committed, world.status(run).await),
            (Committed::Done, Status::Completed),
            "round {round}"
        );
        let late = Controlled::Final { run, status: Status::Completed, by_this: false };
        assert!(cancelled == late || cancelled == Controlled::Asked { run }, "{cancelled:?}");
        assert_eq!(world.inbox(run).await, [""; 0]);
    }
}

#[store_test]
async fn a_cancel_and_a_claim_leave_one_owner(world: World) {
    let other = world.second_store().await;
    for _ in 0..100 {
        let run = world.start("greet").shard(0).await.id;
        let cancel = Control::Cancel { run: Address::Run(run), reason: "enough".into() };
        let store = Arc::clone(&other);
        let cancelling = tokio::spawn(async move { store.control(&cancel).await.unwrap() });
        let ask = world.ask("node", 0).await;
        let claimed = world.claim(&ask).await.runs.pop();
        match (cancelling.await.unwrap(), claimed) {
            (Controlled::Final { by_this: true, .. }, None) => {
                assert_eq!(world.status(run).await, Status::Cancelled);
            }
            (Controlled::Asked { .. }, Some(claimed)) => {
                let turn = Turn::new(&world, ask.node, claimed);
                assert_eq!(world.status(run).await, Status::Running);
                turn.completed("asked too late").await;
            }
            // The claim passed over a run that was just being asked to stop, or came too early.
            (Controlled::Asked { .. }, None) => panic!("a run that never began ends at once"),
            other => panic!("{other:?}"),
        }
    }
}

#[store_test]
async fn a_delivery_and_a_completion_leave_no_orphan(world: World) {
    let other = world.second_store().await;
    for _ in 0..50 {
        let turn = world.start("greet").held_by("node").await;
        let run = turn.run;
        let (store, message) = (Arc::clone(&other), event(Address::Run(run), "approval", "yes"));
        let sending = tokio::spawn(async move { store.deliver(&[message]).await.unwrap().remove(0) });
        assert_eq!(world.commit_patiently(turn.complete("done")).await, Committed::Done);
        let sent = sending.await.unwrap();
        let closed = Delivered::Closed { run, status: Status::Completed };
        assert!(sent == closed || sent == Delivered::Done { run }, "{sent:?}");
        assert_eq!(world.inbox(run).await, [""; 0]);
    }
}

#[store_test]
async fn a_takeover_and_a_completion_leave_one_end(world: World) {
    let other = world.second_store().await;
    for round in 0..50 {
        let turn = world.start("greet").shard(0).held_by(&format!("slow {round}")).await;
        world.pass(LEASE * 2).await;
        let store = Arc::clone(&other);
        let ask = sweep_of(0);
        let sweeping = tokio::spawn(async move { store.sweep(&ask).await.unwrap() });
        let committed = world.commit_patiently(turn.records(1, "last").complete("done")).await;
        let swept = sweeping.await.unwrap();
        let wanted = match committed {
            Committed::Done => Status::Completed,
            _ => Status::Ready,
        };
        assert_eq!(world.status(turn.run).await, wanted, "{committed:?} {swept:?}");
        if wanted == Status::Ready {
            let turn = world.claim_as("quick").await;
            assert_eq!((turn.claimed.crashes, world.journal(turn.run).await), (1, vec![]));
            turn.completed("by another").await;
        }
        world.sweep().await;
    }
}

#[store_test]
async fn many_sweepers_free_a_run_once(world: World) {
    let stores = join_all((0..4).map(|_| world.second_store())).await;
    for round in 0..10 {
        for _ in 0..5 {
            world.start("greet").shard(0).held_by(&format!("gone {round}")).await;
        }
        world.pass(LEASE * 2).await;
        let sweeps = stores.iter().map(|store| {
            let ask = sweep_of(0);
            let store = Arc::clone(store);
            tokio::spawn(async move { store.sweep(&ask).await.unwrap() })
        });
        let swept: Vec<_> = join_all(sweeps).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(swept.iter().map(|swept| swept.freed).sum::<u64>(), 5, "{swept:?}");
        let turns = world.claims_as("node", 100).await;
        assert_eq!(turns.len(), 5);
        for turn in turns {
            assert_eq!(turn.claimed.crashes, 1);
            turn.completed("done").await;
        }
    }
}

#[store_test]
async fn a_purge_and_a_start_with_its_key_never_leave_a_key_without_a_run(world: World) {
    let other = world.second_store().await;
    for round in 0..25 {
        let key = format!("o-{round}");
        world.start_keyed("order", &key).await.claimed_by("node").await.completed("done").await;
        world.pass(DAY * 2).await;
        let store = Arc::clone(&other);
        let purge = Control::Purge(Purge::older_than(DAY, 10));
        let purging = tokio::spawn(async move { store.control(&purge).await.unwrap() });
        let answer = world.start_keyed("order", &key).answer().await;
        assert!(matches!(purging.await.unwrap(), Controlled::Purged(Purged { runs: 1.., .. })));
        world.invariants().await;
        match answer {
            Started::Existing { id } => assert!(world.store().run(id).await.unwrap().is_none()),
            Started::Created { id, .. } => {
                assert_eq!(world.status(id).await, Status::Ready);
                world.cancel(id, "enough").await;
            }
            Started::Conflict { .. } | Started::Taken { .. } => panic!("the input is the same"),
        }
    }
}

#[store_test]
async fn many_nodes_work_through_a_queue_and_every_run_ends_once(world: World) {
    let runs: Vec<_> = (0..200).map(|_| world.start("greet").asked()).collect();
    world.store().start(&runs, None).await.unwrap();
    let mut workers = Vec::new();
    for n in 0..4 {
        let (world, name) = (world.clone(), format!("node {n}"));
        world.node(&name).await;
        workers.push(tokio::spawn(async move {
            let mut done = 0;
            while world.store().next_due().await.unwrap().is_some() {
                for shard in 0..world.shards() {
                    let ask = Claim { limit: 8, ..world.ask(&name, shard).await };
                    let claimed = world.claim(&ask).await.runs;
                    let turns = claimed.into_iter().map(|run| Turn::new(&world, ask.node, run));
                    let batch: Vec<_> = turns.map(|turn| turn.records(1, "work").complete(&name)).collect();
                    done += batch.len();
                    complete(&world, batch).await;
                }
            }
            done
        }));
    }
    let done: Vec<usize> = join_all(workers).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(done.iter().sum::<usize>(), 200, "{done:?}");
    assert_eq!(world.count("select count(*) from outlast.journal").await, 200);
}

/// Commits a batch, and what was busy once more: a claimer that came second may just hold its lock.
async fn complete(world: &World, batch: Vec<Writing>) {
    if batch.is_empty() {
        return;
    }
    let answers = world.commit_all(batch.clone()).await;
    for (writing, answer) in batch.into_iter().zip(answers) {
        let answer = match answer {
            Committed::Busy => world.commit_patiently(writing).await,
            other => other,
        };
        assert_eq!(answer, Committed::Done);
    }
}
