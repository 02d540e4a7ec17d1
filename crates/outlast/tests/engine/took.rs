//! How long bodies took is recorded where the entries before them do not tell when they began.

use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast::{Entry, Outlast, Phase, testing};
use outlast_core::Timestamp;
use outlast_store::{Clock, OpenOptions};
use tokio::sync::Notify;

use crate::engine_test;
use crate::harness::once;

/// Lets things go on.
#[derive(Clone, Default)]
struct Gates(Arc<[Notify; 3]>);

/// Of the entries that end something or tell of an attempt: what took how long.
fn told(entries: &[Entry]) -> Vec<(&str, Option<Duration>)> {
    let ends = entries.iter().filter(|entry| entry.phase != Phase::Opened);
    ends.map(|entry| (&*entry.name, entry.took)).collect()
}

/// What of these took so many seconds, and however long passed by itself.
#[track_caller]
fn assert_seconds(told: &[(&str, Option<Duration>)], expected: &[(&str, u64)]) {
    let lasted = |took: Option<Duration>, least: u64| {
        took.is_some_and(|took| (least..least + 30).contains(&took.as_secs()))
    };
    let fits = told.iter().zip(expected).all(|(told, wanted)| told.0 == wanted.0 && lasted(told.1, wanted.1));
    assert!(fits && told.len() == expected.len(), "{told:?} instead of {expected:?}");
}

async fn pass(clock: &Clock, by: Duration) -> Result<(), AnyError> {
    tokio::task::yield_now().await;
    clock.advance(by);
    Ok(())
}

/// Two steps at once between two others; each lets two seconds pass.
fn two_at_once() -> Workflow<(), (), AnyError> {
    Workflow::new("two", |ctx: Ctx, (): ()| async move {
        let (clock, gate) = (ctx.state::<Clock>(), Notify::new());
        ctx.step("before", |_| pass(&clock, 2.seconds())).await?;
        let first = async {
            let first = ctx.step("first", |_| pass(&clock, 2.seconds())).await;
            gate.notify_one();
            first
        };
        let second = ctx.step("second", |_| async {
            gate.notified().await;
            pass(&clock, 2.seconds()).await
        });
        let (first, second) = tokio::join!(first, second);
        first?;
        second?;
        ctx.step("behind", |_| pass(&clock, 2.seconds())).await?;
        Ok::<(), AnyError>(())
    })
}

/// A step, and beside it what begins when the code gets to it: a step, or a transaction.
fn late(in_transaction: bool) -> Workflow<(), (), AnyError> {
    Workflow::new("late", move |ctx: Ctx, (): ()| async move {
        let (clock, gates) = (ctx.state::<Clock>(), ctx.state::<Gates>());
        let [began, goes_on, ends] = &*gates.0;
        let long = ctx.step("long", |_| async {
            began.notify_one();
            ends.notified().await;
            Ok::<(), AnyError>(())
        });
        let late = async {
            goes_on.notified().await;
            match in_transaction {
                true => ctx.transaction("late", async |_| pass(&clock, 2.seconds()).await).await?,
                false => ctx.step("late", |_| pass(&clock, 2.seconds())).await?,
            }
            ends.notify_one();
            Ok::<(), AnyError>(())
        };
        let (long, late) = tokio::join!(long, late);
        long?;
        late
    })
}

/// A step that fails at first, a second after it began, and is tried again ten minutes later.
fn flaky() -> Workflow<(), (), AnyError> {
    Workflow::new("flaky", |ctx: Ctx, (): ()| async move {
        let clock = ctx.state::<Clock>();
        let step = ctx.step("flaky", |s| {
            let clock = clock.clone();
            async move {
                pass(&clock, 1.second()).await?;
                if s.attempt() == 1 { Err(AnyError::new("not yet")) } else { Ok(()) }
            }
        });
        step.retry(Retry::fixed(2, 10.minutes())).await?;
        Ok::<(), AnyError>(())
    })
}

/// An engine whose time passes only where a body or the test says so.
async fn stopped(with: impl FnOnce(Outlast) -> Outlast) -> (testing::Test, Clock) {
    let clock = Clock::stopped_at(Timestamp::from_micros(1_900_000_000_000_000));
    let options = OpenOptions { clock: clock.clone(), ..OpenOptions::default() };
    let store = outlast_store::open("sqlite::memory:", options).await.unwrap();
    let own = clock.clone();
    (testing::start_on(store, |app| with(app.state(own))).await.unwrap(), clock)
}

#[tokio::test]
async fn only_what_ran_beside_others_says_how_long_it_took() {
    let flow = two_at_once();
    let (test, _) = stopped(|app| app.workflow(flow.clone())).await;
    let run = test.app().start(flow, ()).await.unwrap();
    test.settle().await.unwrap();
    let journal = test.journal(run.id()).await.unwrap();
    let expected = [("before", None), ("first", None), ("second", Some(4.seconds())), ("behind", None)];
    assert_eq!(told(&journal), expected);
}

#[tokio::test]
async fn an_attempt_that_begins_when_it_is_due_does_not_say_how_long_it_took() {
    let flow = flaky();
    let (test, _) = stopped(|app| app.workflow(flow.clone())).await;
    let run = test.app().start(flow, ()).await.unwrap();
    test.advance(1.hour()).await.unwrap();
    let journal = test.journal(run.id()).await.unwrap();
    assert_eq!(told(&journal), [("flaky", None), ("flaky", None)]);
}

#[tokio::test]
async fn a_step_behind_code_that_took_a_moment_says_how_long_it_took() {
    let (flow, gates) = (late(false), Gates::default());
    let own = gates.clone();
    let (test, clock) = stopped(|app| once(app).workflow(flow.clone()).state(own)).await;
    let run = test.app().start(flow, ()).await.unwrap();
    let [began, goes_on, _] = &*gates.0;
    began.notified().await;
    clock.advance(250.millis());
    goes_on.notify_one();
    test.settle().await.unwrap();
    let journal = test.journal(run.id()).await.unwrap();
    assert_eq!(told(&journal), [("late", Some(2.seconds())), ("long", Some(2250.millis()))]);
}

engine_test! {
    async fn steps_that_run_at_once_say_how_long_they_took(lab: Lab) {
        let (flow, clock) = (two_at_once(), lab.world.store().clock().clone());
        lab.start(|app| app.workflow(flow.clone()).state(clock)).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        run.result().await.unwrap();
        let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
        assert_seconds(&told(&journal)[2..3], &[("second", 4)]);
    }

    async fn a_transaction_says_how_long_it_took(lab: Lab) {
        let (flow, gates, clock) = (late(true), Gates::default(), lab.world.store().clock().clone());
        let (own, time) = (gates.clone(), clock.clone());
        lab.start(|app| once(app).workflow(flow.clone()).state(own).state(time)).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let [began, goes_on, _] = &*gates.0;
        began.notified().await;
        clock.advance(1.second());
        goes_on.notify_one();
        run.result().await.unwrap();
        let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
        assert_seconds(&told(&journal), &[("late", 2), ("long", 3)]);
    }

    async fn a_step_that_is_begun_anew_after_a_death_says_how_long_it_took(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let (clock, gates) = (ctx.state::<Clock>(), ctx.state::<Gates>());
            let [began, goes_on, _] = &*gates.0;
            ctx.step("first", |_| async { Ok::<(), AnyError>(()) }).await?;
            ctx.step("second", |_| async {
                began.notify_one();
                goes_on.notified().await;
                pass(&clock, 2.seconds()).await
            }).await?;
            Ok::<(), AnyError>(())
        });
        let (gates, clock) = (Gates::default(), lab.world.store().clock().clone());
        let with = |app: Outlast| once(app).workflow(flow.clone()).state(gates.clone()).state(clock.clone());
        lab.start(with).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        let [began, goes_on, _] = &*gates.0;
        began.notified().await;
        lab.kill().await;
        let died = lab.world.store().now().await.unwrap();
        lab.start(with).await;
        began.notified().await;
        goes_on.notify_one();
        lab.app().handle(&flow, run.id()).result().await.unwrap();
        let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
        let second = &journal[1];
        assert!(second.took.is_some_and(|took| second.at.before(took) >= died), "{second:?}");
    }

    async fn an_attempt_that_begins_late_says_how_long_it_took(lab: Lab) {
        let (flow, clock) = (flaky(), lab.world.store().clock().clone());
        let with = |app: Outlast| app.workflow(flow.clone()).state(clock.clone());
        lab.start(with).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        lab.kill().await;
        clock.advance(30.minutes());
        lab.start(with).await;
        lab.app().handle(&flow, run.id()).result().await.unwrap();
        let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
        assert_seconds(&told(&journal)[1..2], &[("flaky", 1)]);
    }

    async fn attempts_of_a_job_say_how_long_they_took(lab: Lab) {
        let job = Job::new("job", async |_: JobCtx, (): ()| {
            tokio::time::sleep(20.millis()).await;
            Err::<(), AnyError>(AnyError::new("no"))
        }).retry(Retry::fixed(2, 1.minute()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        lab.advance(1.hour()).await;
        run.result().await.unwrap_err();
        let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
        let took = told(&journal).into_iter().filter_map(|(_, took)| took);
        let took: Vec<Duration> = took.filter(|took| (20.millis()..1.minute()).contains(took)).collect();
        assert_eq!(took.len(), 2, "{journal:?}");
    }
}
