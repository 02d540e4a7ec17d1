//! Verification: in tests every workflow is replayed once when it waits or ends, and code that does not repeat itself
//! fails the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlast::prelude::*;
use outlast::testing;

use crate::engine_test;

/// A step whose name is another one each time.
fn fickle() -> Workflow<(), (), AnyError> {
    let calls = Arc::new(AtomicU32::new(0));
    Workflow::new("fickle", move |ctx: Ctx, (): ()| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        async move {
            ctx.step(&format!("call {call}"), |_| async { Ok::<(), AnyError>(()) }).await?;
            Ok(ctx.event("go").await?)
        }
    })
}

#[tokio::test]
async fn code_that_does_not_repeat_itself_fails_the_test_that_looks() {
    let test = testing::start(|app| app.workflow(fickle())).await.unwrap();
    test.app().start(fickle(), ()).await.unwrap();
    let told = test.settle().await.unwrap_err().to_string();
    assert!(told.contains("the code does not repeat itself: fickle (run_"), "{told}");
    assert!(
        told.contains("goes on with step \"call 0\" (entry 1), but the code begins step \"call 1\""),
        "{told}"
    );
    std::mem::forget(test);
}

#[tokio::test]
#[should_panic(expected = "the code does not repeat itself: fickle (run_")]
async fn code_that_does_not_repeat_itself_fails_the_test_that_does_not_look() {
    let test = testing::start(|app| app.workflow(fickle())).await.unwrap();
    let run = test.app().start(fickle(), ()).await.unwrap();
    test.app().send(run.id(), "go", &()).await.unwrap();
    run.result().await.unwrap();
}

#[tokio::test]
async fn code_that_ends_where_it_went_on_before_is_told_too() {
    let calls = Arc::new(AtomicU32::new(0));
    let flow = Workflow::new("flow", move |ctx: Ctx, (): ()| {
        let more = calls.fetch_add(1, Ordering::SeqCst) > 0;
        async move {
            ctx.step("once", |_| async { Ok::<(), AnyError>(()) }).await?;
            if more {
                ctx.step("more", |_| async { Ok::<(), AnyError>(()) }).await?;
            }
            Ok::<(), AnyError>(())
        }
    });
    let test = testing::start(|app| app.workflow(flow.clone())).await.unwrap();
    test.app().start(flow, ()).await.unwrap().result().await.unwrap();
    let told = test.settle().await.unwrap_err().to_string();
    assert!(
        told.contains("the run ended with entry 1, but the code begins step \"more\", which is not recorded"),
        "{told}"
    );
    std::mem::forget(test);
}

#[tokio::test]
async fn whoever_wants_no_verification_switches_it_off() {
    let test =
        testing::start(|app| app.workflow(fickle()).settings(|settings| settings.verify = 0)).await.unwrap();
    test.app().start(fickle(), ()).await.unwrap();
    test.settle().await.unwrap();
}

engine_test! {
    async fn in_production_one_turn_of_many_is_verified(lab: Lab) {
        let calls = Arc::new(AtomicU32::new(0));
        let seen = calls.clone();
        let flow = Workflow::new("flow", move |ctx: Ctx, (): ()| {
            calls.fetch_add(1, Ordering::SeqCst);
            async move { ctx.step("s", |_| async { Ok::<(), AnyError>(()) }).await.map_err(AnyError::from) }
        });
        lab.start(|app| app.workflow(flow.clone()).settings(|settings| settings.verify = 10)).await;
        for _ in 0..20 {
            lab.app().start(flow.clone(), ()).await.unwrap().result().await.unwrap();
        }
        assert_eq!(seen.load(Ordering::SeqCst), 22, "two of twenty were called twice");
    }
}
