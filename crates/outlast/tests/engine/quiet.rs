//! When a test may believe that nothing is due and nothing runs: a turn may come and go between two looks.

use std::sync::Arc;

use outlast::prelude::*;
use outlast::testing;
use outlast_core::Timestamp;
use outlast_store::{Clock, OpenOptions, open};
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
