//! Pause and resume: a run stands still at its next boundary, and goes on as if nothing had been.

use std::sync::Arc;

use outlast::Why;
use outlast::prelude::*;
use tokio::sync::Notify;

use crate::engine_test;
use crate::harness::{Lab, Ledger, once};

/// Lets bodies end.
#[derive(Clone, Default)]
struct Gate(Arc<Notify>);

/// A step whose body waits for the gate, beside an event; then another step.
fn gated() -> Workflow<(), String, AnyError> {
    Workflow::new("gated", |ctx: Ctx, (): ()| async move {
        let (ledger, gate) = (ctx.state::<Ledger>(), ctx.state::<Gate>());
        let first = ctx.step("first", |_| async {
            ledger.note("first");
            gate.0.notified().await;
            Ok::<(), AnyError>(())
        });
        let other = async {
            ctx.event::<()>("go").await?;
            ctx.step("other", |_| async {
                ledger.note("other");
                Ok::<(), AnyError>(())
            })
            .await?;
            Ok::<(), AnyError>(())
        };
        let (first, other) = tokio::join!(first, other);
        first?;
        other?;
        ctx.step("second", |_| async {
            ledger.note("second");
            Ok::<(), AnyError>(())
        })
        .await?;
        Ok("done".to_owned())
    })
}

async fn until_noted(lab: &Lab, what: &'static str) {
    let ledger = lab.ledger.clone();
    lab.until(what, || {
        let ledger = ledger.clone();
        async move { ledger.count(what) > 0 }
    })
    .await;
}

async fn until_paused(lab: &Lab, run: RunId) {
    lab.until("it is paused", async || lab.app().status(run).await.unwrap().status == Status::Paused).await;
}

engine_test! {
    async fn a_sleeping_run_is_paused_at_once_and_its_timer_fires_when_it_is_resumed(lab: Lab) {
        let flow = Workflow::new("sleeper", |ctx: Ctx, (): ()| async move {
            ctx.sleep(1.hour()).await?;
            let ledger = ctx.state::<Ledger>();
            ctx.step("end", |_| async { ledger.note("end"); Ok::<(), AnyError>(()) }).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        assert!(run.pause("for a look").await.unwrap());
        assert!(run.pause("again").await.unwrap());
        let why = lab.app().explain(run.id()).await.unwrap().why;
        assert_eq!(why, Why::Paused { reason: Some("for a look".into()) });
        lab.advance(2.hours()).await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.settle().await;
        assert!(lab.ledger.notes().is_empty());
        assert_eq!(lab.app().verify().await.unwrap().lacking, 0);

        let run = lab.app().handle(&flow, run.id());
        assert!(run.resume().await.unwrap());
        run.result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["end"]);
        assert!(!run.resume().await.unwrap(), "it has ended");
        assert!(!run.pause("late").await.unwrap(), "it has ended");
    }

    async fn a_run_that_is_resumed_before_its_timer_sleeps_on(lab: Lab) {
        let flow = Workflow::new("sleeper", |ctx: Ctx, (): ()| async move {
            ctx.sleep(1.hour()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        let delayed = lab.app().start(flow.clone(), ()).delay(1.day()).await.unwrap();
        lab.settle().await;
        for run in [&run, &delayed] {
            assert!(run.pause("for a look").await.unwrap());
            assert!(run.resume().await.unwrap());
        }
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Waiting);
        assert_eq!(delayed.status().await.unwrap().status, Status::Ready);
        lab.advance(2.hours()).await;
        assert_eq!(run.status().await.unwrap().status, Status::Completed);
        assert_eq!(delayed.status().await.unwrap().status, Status::Ready, "it is not early");
    }

    async fn a_running_body_finishes_and_nothing_new_begins(lab: Lab) {
        let gate = Gate::default();
        lab.start(|app| once(app).state(gate.clone()).workflow(gated())).await;
        let run = lab.app().start(gated(), ()).await.unwrap();
        until_noted(&lab, "first").await;
        assert!(run.pause("for a look").await.unwrap());
        assert_eq!(run.status().await.unwrap().status, Status::Running, "its body runs on");
        // What comes meanwhile is kept.
        run.send("go", &()).await.unwrap();
        gate.0.notify_one();
        until_paused(&lab, run.id()).await;
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["first"]);
        assert_eq!(lab.test().steps(run.id()).await.unwrap(), ["first"]);

        lab.restart(|app| once(app).state(gate.clone()).workflow(gated())).await;
        let run = lab.app().handle(&gated(), run.id());
        assert!(run.resume().await.unwrap());
        assert_eq!(run.result().await.unwrap(), "done");
        assert_eq!(lab.ledger.notes(), ["first", "other", "second"]);
    }

    async fn a_run_whose_process_dies_while_it_is_asked_is_paused(lab: Lab) {
        let gate = Gate::default();
        lab.start(|app| once(app).state(gate.clone()).workflow(gated())).await;
        let run = lab.app().start(gated(), ()).await.unwrap();
        until_noted(&lab, "first").await;
        assert!(run.pause("for a look").await.unwrap());
        lab.restart(|app| once(app).state(gate.clone()).workflow(gated())).await;
        lab.test().sweep().await;
        lab.settle().await;
        assert_eq!(lab.app().status(run.id()).await.unwrap().status, Status::Paused);
        assert_eq!(lab.ledger.notes(), ["first"], "the body does not begin again");

        let run = lab.app().handle(&gated(), run.id());
        assert!(run.resume().await.unwrap());
        // After a death it waits a moment.
        lab.world.store().clock().advance(1.minute());
        let ledger = lab.ledger.clone();
        lab.until("it runs", || { let ledger = ledger.clone(); async move { ledger.count("first") == 2 } }).await;
        gate.0.notify_one();
        run.send("go", &()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "done");
    }

    async fn a_running_job_finishes_its_attempt_and_a_retry_becomes_a_pause(lab: Lab) {
        let gate = Gate::default();
        let job = Job::new("job", |job: JobCtx, fails: u32| async move {
            let (ledger, gate) = (job.state::<Ledger>(), job.state::<Gate>());
            ledger.note("attempt");
            gate.0.notified().await;
            match job.attempt() <= fails {
                true => Err(AnyError::new("not yet")),
                false => Ok::<u32, AnyError>(job.attempt()),
            }
        }).retry(Retry::times(3));
        lab.start(|app| once(app).state(gate.clone()).job(job.clone())).await;
        let run = lab.app().start(job.clone(), 1).await.unwrap();
        until_noted(&lab, "attempt").await;
        assert!(run.pause("for a look").await.unwrap());
        gate.0.notify_one();
        until_paused(&lab, run.id()).await;
        lab.advance(1.day()).await;
        assert_eq!(lab.ledger.count("attempt"), 1);
        assert!(run.resume().await.unwrap());
        gate.0.notify_one();
        assert_eq!(run.result().await.unwrap(), 2);

        let run = lab.app().start(job.clone(), 0).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("it runs", || { let ledger = ledger.clone(); async move { ledger.count("attempt") == 3 } }).await;
        assert!(run.pause("for a look").await.unwrap());
        gate.0.notify_one();
        assert_eq!(run.result().await.unwrap(), 1, "its result counts");
    }

    async fn a_run_that_undoes_is_paused_between_two_undos(lab: Lab) {
        let gate = Gate::default();
        let flow = Workflow::new("saga", |ctx: Ctx, (): ()| async move {
            for name in ["first", "second"] {
                let (ledger, gate) = (ctx.state::<Ledger>().clone(), ctx.state::<Gate>().clone());
                ctx.step(name, |_| async { Ok::<u32, AnyError>(1) }).undo(move |_, _| {
                    let (ledger, gate) = (ledger.clone(), gate.clone());
                    async move {
                        ledger.note(format!("undo {name}"));
                        gate.0.notified().await;
                        Ok::<(), AnyError>(())
                    }
                }).await?;
            }
            ctx.sleep(1.day()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| once(app).state(gate.clone()).workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        run.cancel("stop").await.unwrap();
        until_noted(&lab, "undo second").await;
        assert!(run.pause("for a look").await.unwrap());
        gate.0.notify_one();
        until_paused(&lab, run.id()).await;
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["undo second"]);
        assert!(run.resume().await.unwrap());
        until_noted(&lab, "undo first").await;
        gate.0.notify_one();
        assert!(run.result().await.unwrap_err().is_cancelled());
        assert_eq!(lab.ledger.notes(), ["undo second", "undo first"]);
    }

    async fn a_paused_run_is_cancelled_or_killed(lab: Lab) {
        let flow = Workflow::new("saga", |ctx: Ctx, undoes: bool| async move {
            let ledger = ctx.state::<Ledger>().clone();
            let step = ctx.step("charge", |_| async { Ok::<u32, AnyError>(1) });
            match undoes {
                true => step.undo(move |_, _| { let ledger = ledger.clone(); async move { ledger.note("undo"); Ok::<(), AnyError>(()) } }).await?,
                false => step.await?,
            };
            ctx.sleep(1.day()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        for (undoes, kills, undone) in [(false, false, 0), (true, true, 0), (true, false, 1)] {
            let run = lab.app().start(flow.clone(), undoes).await.unwrap();
            lab.settle().await;
            assert!(run.pause("for a look").await.unwrap());
            let taken = if kills { run.kill("stop").await } else { run.cancel("stop").await };
            assert!(taken.unwrap());
            assert!(run.result().await.unwrap_err().is_cancelled());
            lab.settle().await;
            assert_eq!(lab.ledger.count("undo"), undone);
        }
    }

    async fn the_time_of_a_paused_run_goes_on_to_count(lab: Lab) {
        let flow = Workflow::new("sleeper", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>().clone();
            ctx.step("charge", |_| async { Ok::<u32, AnyError>(1) })
                .undo(move |_, _| { let ledger = ledger.clone(); async move { ledger.note("undo"); Ok::<(), AnyError>(()) } })
                .await?;
            ctx.sleep(1.day()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).timeout(1.hour()).await.unwrap();
        lab.settle().await;
        assert!(run.pause("for a look").await.unwrap());
        lab.advance(2.hours()).await;
        lab.test().sweep().await;
        let error = run.result().await.unwrap_err();
        assert!(matches!(error.outlast(), Some(Error::TimedOut { .. })), "{error}");
        assert_eq!(lab.ledger.notes(), ["undo"]);
    }

    async fn a_paused_run_holds_no_slot_of_its_queue(lab: Lab) {
        let gate = Gate::default();
        let job = Job::new("job", |job: JobCtx, _: u32| async move {
            job.state::<Ledger>().note("attempt");
            job.state::<Gate>().0.notified().await;
            Err::<(), AnyError>(AnyError::new("not yet"))
        }).queue("narrow").retry(Retry::times(2));
        let with = |app: Outlast| once(app).state(gate.clone()).queue(Queue::new("narrow").limit(1)).job(job.clone());
        lab.start(with).await;
        let first = lab.app().start(job.clone(), 1).await.unwrap();
        until_noted(&lab, "attempt").await;
        assert!(first.pause("for a look").await.unwrap());
        let _second = lab.app().start(job.clone(), 2).await.unwrap();
        gate.0.notify_one();
        until_paused(&lab, first.id()).await;
        let ledger = lab.ledger.clone();
        lab.until("the next runs", || { let ledger = ledger.clone(); async move { ledger.count("attempt") == 2 } }).await;
    }
}
