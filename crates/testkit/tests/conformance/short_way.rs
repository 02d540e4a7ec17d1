//! The short way of a commit, which looks at nothing beforehand: it writes as little as the long way would, and
//! whoever comes in between is neither missed nor disturbed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{RunId, Status};
use outlast_store::{Address, Batch, Claim, Committed, Delivered, Delivery, DynStore, Next};
use outlast_testkit::{LEASE, StoreKind, Turn, World, Writing, event, payload, store_test};

/// What a step of the run has saved.
async fn saved(world: &World, run: RunId) -> Vec<Option<outlast_core::Payload>> {
    let loaded = world.store().load(&[run]).await.unwrap().remove(0);
    loaded.doing.into_iter().map(|doing| doing.saved).collect()
}

/// How much news a run has not read.
async fn unread(world: &World, run: RunId) -> usize {
    world.store().inbox(&[(run, 0)]).await.unwrap().len()
}

#[store_test]
async fn an_end_that_comes_too_late_leaves_what_the_run_has_saved(world: World) {
    let turn = world.start("greet").held_by("slow").await;
    world.commit(turn.writes().doing("copy", 1, Some("half"))).await;
    world.pass(LEASE * 2).await;
    world.sweep().await;
    assert_eq!(world.status(turn.run).await, Status::Ready, "due again, and nobody's yet");

    let wake_at = world.now().await;
    for late in [
        turn.complete("late"),
        turn.records(1, "late").complete("late"),
        turn.suspend(),
        turn.suspend_until(wake_at),
        turn.release(),
    ] {
        assert_eq!(world.commit(late).await, Committed::LeaseLost);
        assert_eq!(saved(&world, turn.run).await, [Some(payload("half"))]);
    }
    let again = world.claim_as("quick").await;
    assert_eq!(world.commit(turn.complete("late")).await, Committed::LeaseLost);
    assert_eq!(saved(&world, turn.run).await, [Some(payload("half"))]);
    again.completed("in time").await;
}

// Taken from a node that lives on: its row is there, so that the fence alone says nothing.
#[store_test]
async fn an_end_of_a_run_that_was_freed_leaves_what_the_run_has_saved(world: World) {
    let turn = world.start("greet").held_by("node").await;
    world.commit(turn.writes().doing("copy", 1, Some("half"))).await;
    let mut renewal = world.renewal("node").await;
    renewal.settled = i64::MAX;
    assert_eq!(world.renew(&renewal).await.freed, 1);
    for late in [turn.complete("late"), turn.suspend()] {
        assert_eq!(world.commit(late).await, Committed::LeaseLost);
        assert_eq!(saved(&world, turn.run).await, [Some(payload("half"))]);
    }
}

#[store_test]
async fn every_run_of_a_mixed_batch_gets_its_own_answer_however_often_it_is_sent(world: World) {
    let start = || world.start("greet").shard(0).held_by("node");
    let [new, partly, lost, ends, heard, waits, told] = [
        start().await,
        start().await,
        start().await,
        start().await,
        start().await,
        start().await,
        start().await,
    ];
    let listener = world.start("order").shard(1).queue("quiet").held_by("node").await;
    listener.suspended().await;
    world.listen(heard.run, listener.run, "ship").await;
    assert_eq!(world.commit(partly.records(1, "one")).await, Committed::Done);
    world.send(told.run, "approval", "yes").await;

    let batch = || {
        vec![
            new.records(1, "one").entry(2, "two"),
            partly.records(1, "one").entry(2, "two"),
            lost.clone().of_epoch(7).records(1, "never"),
            ends.records(1, "one").complete("done"),
            heard.records(1, "one").complete("parcel"),
            waits.records(1, "one").suspend(0),
            told.records(1, "one").suspend(0),
            lost.clone().of_epoch(7).suspend(),
        ]
    };
    let wanted = [true, true, false, true, true, true, true, false];
    for round in 0..3 {
        let answers = world.commit_all(batch()).await;
        let done: Vec<bool> = answers.iter().map(|answer| *answer == Committed::Done).collect();
        assert_eq!(done, wanted, "round {round}: {answers:?}");
        for (turn, entries, status) in [
            (&new, 2, Status::Running),
            (&partly, 2, Status::Running),
            (&lost, 0, Status::Running),
            (&ends, 1, Status::Completed),
            (&heard, 1, Status::Completed),
            (&waits, 1, Status::Waiting),
            (&told, 1, Status::Ready),
        ] {
            assert_eq!(world.status(turn.run).await, status, "round {round}");
            assert_eq!(world.journal(turn.run).await.len(), entries, "round {round}");
        }
        assert_eq!(unread(&world, listener.run).await, 1, "told once");
        world.invariants().await;
    }
}

#[store_test(postgres)]
async fn a_run_that_a_user_holds_does_not_hold_up_its_batch_and_hears_the_message(world: World) {
    let start = || world.start("greet").shard(0).held_by("node");
    let [waits, ends, records, other] = [start().await, start().await, start().await, start().await];
    let mut tx = world.begin().await;
    for turn in [&waits, &ends, &records] {
        tx.deliver(&[event(Address::Run(turn.run), "approval", "the user's")]).await.unwrap();
    }
    let batch = || {
        vec![
            waits.records(1, "one").suspend(0),
            ends.records(1, "one").complete("done"),
            records.records(1, "one"),
            other.records(1, "one").complete("done"),
        ]
    };
    let busy = [Committed::Busy, Committed::Busy, Committed::Done, Committed::Done];
    assert_eq!(world.commit_all(batch()).await, busy);
    assert_eq!(world.commit_all(batch()).await, busy, "again");
    assert_eq!(world.status(waits.run).await, Status::Running);
    tx.commit().await.unwrap();

    assert_eq!(world.commit_all(batch()).await, [Committed::Done; 4]);
    assert_eq!(world.status(waits.run).await, Status::Ready, "its message is not slept over");
    assert_eq!((world.status(ends.run).await, world.inbox(ends.run).await.len()), (Status::Completed, 0));
    assert_eq!(world.journal(records.run).await, ["one"]);
}

const RUNS: usize = 8;
const MESSAGES: usize = 10;

// Messages, users' transactions, listeners, sweeps and renewals come while batches are committed, each of them
// perhaps twice at the same time, as after a lost reply.
#[store_test]
async fn nothing_is_lost_or_doubled_when_all_come_at_once(world: World) {
    let other = world.second_store().await;
    let mut runs = Vec::new();
    let mut busy = Vec::new();
    for _ in 0..RUNS {
        let run = world.start("greet").shard(0).await.id;
        let listener = world.start("order").shard(1).queue("quiet").held_by("node").await;
        listener.suspended().await;
        runs.push((run, listener.run));
        busy.push(tokio::spawn(send_all(world.clone(), other.clone(), run)));
        let (world, other) = (world.clone(), other.clone());
        busy.push(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..30))).await;
            let ask = outlast_store::Listen { run, listener: listener.run, name: "ship".into() };
            other.listen(&ask).await.unwrap();
            drop(world);
        }));
    }
    let work = work_through(&world, &other);
    let heard = tokio::time::timeout(Duration::from_secs(60), work).await;
    let heard = heard.expect("a run waits for ever with a full inbox");
    for task in busy {
        task.await.unwrap();
    }

    let sent: Vec<String> = (0..MESSAGES).map(|n| n.to_string()).collect();
    for (run, listener) in runs {
        assert_eq!(heard[&run], sent, "each once and in order");
        assert_eq!(world.journal(run).await, sent);
        assert_eq!(world.status(run).await, Status::Completed);
        assert_eq!(unread(&world, listener).await, 1, "one end");
        assert_eq!(world.status(listener).await, Status::Ready);
    }
}

async fn send_all(world: World, other: DynStore, run: RunId) {
    for n in 0..MESSAGES {
        let message = event(Address::Run(run), "message", &n.to_string());
        let sent = match fastrand::u8(..4) {
            0 if world.kind() == StoreKind::Postgres => by_user(&world, &message).await,
            1 => {
                // Its reply was lost.
                other.deliver(std::slice::from_ref(&message)).await.unwrap();
                world.deliver(&message).await
            }
            _ => other.deliver(std::slice::from_ref(&message)).await.unwrap().remove(0),
        };
        assert_eq!(sent, Delivered::Done { run });
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..3_000))).await;
    }
}

/// A user's transaction sends, thinks, and rolls back or commits.
async fn by_user(world: &World, message: &Delivery) -> Delivered {
    loop {
        let mut tx = world.begin().await;
        let sent = tx.deliver(std::slice::from_ref(message)).await.unwrap().remove(0);
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..5_000))).await;
        if fastrand::bool() {
            tx.commit().await.unwrap();
            return sent;
        }
        tx.rollback().await.unwrap();
    }
}

/// Works through the first shard as an engine does, until every run has heard everything.
async fn work_through(world: &World, other: &DynStore) -> HashMap<RunId, Vec<String>> {
    let mut heard: HashMap<RunId, Vec<String>> = HashMap::new();
    while heard.len() < RUNS || heard.values().any(|heard| heard.len() < MESSAGES) {
        let ask = Claim { limit: 1 + fastrand::u32(..RUNS as u32), ..world.ask("node", 0).await };
        let claimed = world.claim(&ask).await.runs;
        if claimed.is_empty() {
            world.sweep().await;
            world.renew(&world.renewal("node").await).await;
            tokio::time::sleep(Duration::from_micros(500)).await;
            continue;
        }
        let mut batch = Vec::new();
        for run in claimed {
            let heard = heard.entry(run.id).or_default();
            let turn = Turn::new(world, ask.node, run);
            let mut writing = turn.writes();
            for news in &turn.claimed.inbox {
                let body: String = news.body.as_ref().unwrap().decode("a text").unwrap();
                heard.push(body.clone());
                writing = writing.entry(heard.len() as u32, &body).consumes(&[news.seq]);
            }
            batch.push(match heard.len() {
                MESSAGES => writing.complete("all"),
                _ => writing.next(Next::Suspend { wake_at: None, seen: turn.claimed.news }),
            });
        }
        commit_somehow(world, other, batch).await;
    }
    heard
}

/// Commits until nobody is busy; sometimes the same batch is on its way twice.
async fn commit_somehow(world: &World, other: &DynStore, mut left: Vec<Writing>) {
    while !left.is_empty() {
        let runs = left.iter().map(|writing| writing.commit.clone()).collect();
        let batch = Arc::new(Batch { node: left[0].node, shard: 0, runs });
        let mut answers = vec![Committed::Busy; left.len()];
        let tries = match fastrand::bool() {
            true => vec![other.commit(batch.clone()).await],
            false => {
                let (one, two) = tokio::join!(other.commit(batch.clone()), world.store().commit(batch));
                vec![one, two]
            }
        };
        for tried in tries {
            for (answer, new) in answers.iter_mut().zip(tried.unwrap()) {
                assert!(!(*answer == Committed::Done && new == Committed::LeaseLost), "it was our own");
                *answer = if *answer == Committed::Done { *answer } else { new };
            }
        }
        assert!(!answers.contains(&Committed::LeaseLost), "{answers:?}");
        let mut answers = answers.into_iter();
        left.retain(|_| answers.next() == Some(Committed::Busy));
    }
}

#[store_test]
async fn a_message_that_nobody_knows_of_goes_with_the_run_that_ends(world: World) {
    let shard = world.any_shard();
    let told = world.start("greet").shard(shard).held_by("node").await;
    let other = world.start("greet").shard(shard).held_by("node").await;
    world.send(told.run, "approval", "late").await;
    let unaware = |turn: &Turn| {
        let mut ends = turn.complete("done");
        ends.commit.had_news = false;
        ends
    };
    let both = vec![unaware(&told), unaware(&other)];
    assert_eq!(world.commit_all(both.clone()).await, [Committed::Done; 2]);
    assert_eq!(world.commit_all(both).await, [Committed::Done; 2]);
    assert_eq!((unread(&world, told.run).await, world.output(told.run).await.as_str()), (0, "done"));
    assert_eq!(world.output(other.run).await, "done");
}
