//! What happens between two looks: a turn may come and go, and a message may arrive that no hint tells of.

use std::sync::Arc;

use outlast::prelude::*;
use outlast::testing;
use outlast_core::Timestamp;
use outlast_store::{Clock, OpenOptions, Reads, open};
use outlast_testkit::Watched;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_came_and_went_while_somebody_looked_is_noticed() {
    let clock = Clock::stopped_at(Timestamp::from_micros(1_893_456_000_000_000));
    let options = OpenOptions { clock, ..OpenOptions::default() };
    let store = Watched::over(open("sqlite::memory:", options).await.unwrap());
    let quick = Workflow::new("quick", |_: Ctx, (): ()| async { Ok::<(), AnyError>(()) });
    let test = testing::start_on(store.clone(), |app| app.workflow(quick.clone())).await.unwrap();
    test.settle().await.unwrap();

    let held = store.hold_next_due();
    let test = Arc::new(test);
    let settles = tokio::spawn({
        let test = test.clone();
        async move { test.settle().await }
    });
    held.there.notified().await;
    let looks = store.count("next_due");
    test.app().start(quick, ()).await.unwrap().result().await.unwrap();
    held.go.notify_one();
    settles.await.unwrap().unwrap();
    assert!(store.count("next_due") > looks, "what was read before the turn counts for nothing after it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_was_sent_in_time_wins_against_the_timeout_though_no_hint_tells_of_it() {
    let store = Watched::over(open("sqlite::memory:", OpenOptions::default()).await.unwrap());
    store.hints();
    let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
        Ok::<u32, AnyError>(ctx.event::<u32>("go").timeout(400.millis()).await?)
    });
    let app = Outlast::on(store.clone()).workflow(flow.clone());
    let app = app.settings(|settings| settings.poll_every = 20.millis()).run().await.unwrap();
    for tries in 1.. {
        let before = store.now().await.unwrap();
        let run = app.start(flow.clone(), ()).await.unwrap();
        // Taken before its time, it waits in hand for the timeout.
        while run.status().await.unwrap().epoch < 2 {
            tokio::time::sleep(1.millis()).await;
        }
        // From a process that has no engine.
        let sent = Outlast::on(store.clone()).client().send(run.id(), "go", &7_u32).await;
        if store.now().await.unwrap() < before + 400.millis() {
            sent.unwrap();
            assert_eq!(run.result().await.unwrap(), 7);
            return;
        }
        assert!(tries < 50, "this machine is too slow to send anything in time");
    }
}
