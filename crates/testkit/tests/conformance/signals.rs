//! Signals: hints that something happened. Nothing depends on them, and yet they come.

use std::time::Duration;

use outlast_store::{Address, Claim, Control, Signal};
use outlast_testkit::{World, event, store_test};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

/// Waits for a signal; others may come before.
async fn heard(signals: &mut Receiver<Signal>, wanted: Signal) {
    let hearing = async { while signals.recv().await.expect("the store is there") != wanted {} };
    timeout(Duration::from_secs(30), hearing).await.unwrap_or_else(|_| panic!("{wanted:?} never came"));
}

#[store_test]
async fn whoever_listens_hears_of_due_runs_news_and_ends(world: World) {
    let mut signals = world.store().signals();
    let run = world.start("greet").await;
    heard(&mut signals, Signal::Due).await;

    let turn = run.claimed_by("node").await;
    world.send(run.id, "approval", "yes").await;
    heard(&mut signals, Signal::News(run.id)).await;
    world.commit(turn.suspend()).await;
    heard(&mut signals, Signal::Due).await;

    run.claimed_by("node").await.suspended().await;
    world.cancel(run.id, "enough").await;
    heard(&mut signals, Signal::Due).await;
    run.claimed_by("node").await.completed("done").await;
    heard(&mut signals, Signal::ended(run.id)).await;

    let never = world.start("greet").await.id;
    world.cancel(never, "enough").await;
    heard(&mut signals, Signal::ended(never)).await;
}

// If it did, nodes without work would wake each other for ever.
#[store_test]
async fn a_claim_that_finds_nothing_tells_nobody(world: World) {
    let turn = world.start("greet").held_by("node").await;
    let mut signals = world.store().signals();
    for shard in 0..world.shards() {
        let claims = world.claim(&Claim { limit: 10, ..world.ask("node", shard).await }).await;
        assert_eq!(claims.runs.len(), 0);
    }
    world.send(turn.run, "approval", "yes").await;
    loop {
        match timeout(Duration::from_secs(30), signals.recv()).await.unwrap().unwrap() {
            Signal::News(run) if run == turn.run => break,
            // Whoever begins to listen may have missed something.
            Signal::Anything => {}
            told => panic!("{told:?}"),
        }
    }
}

#[store_test]
async fn a_users_transaction_tells_when_it_commits_and_not_otherwise(world: World) {
    let one = world.start("greet").held_by("node").await.run;
    let two = world.start("greet").held_by("node").await.run;
    let mut signals = world.store().signals();
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(one), "approval", "yes")]).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = world.begin().await;
    tx.deliver(&[event(Address::Run(two), "approval", "yes")]).await.unwrap();
    tx.control(&Control::Cancel { run: Address::Run(two), reason: "enough".into() }).await.unwrap();
    tx.commit().await.unwrap();

    loop {
        match timeout(Duration::from_secs(30), signals.recv()).await.unwrap().unwrap() {
            Signal::News(run) if run == one => panic!("it was rolled back"),
            Signal::News(run) if run == two => break,
            _ => {}
        }
    }
}

// How soon it is heard is the driver's; that it is heard at all is the seam's.
#[store_test]
async fn another_process_hears_of_it_too(world: World) {
    let other = world.second_store().await;
    let mut signals = other.signals();
    for _ in 0..100 {
        world.start("greet").await;
        // It may have begun to listen only after this one.
        if timeout(Duration::from_millis(500), signals.recv()).await.is_ok() {
            return;
        }
    }
    panic!("nobody hears anything");
}
