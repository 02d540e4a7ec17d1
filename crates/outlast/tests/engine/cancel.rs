//! Cancel: reaches a run in every state, and ends it once.

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::{Ledger, once};

fn sleeper() -> Workflow<(), (), AnyError> {
    Workflow::new("sleeper", |ctx: Ctx, (): ()| async move {
        let ledger = ctx.state::<Ledger>();
        ctx.step("begin", |_| async {
            ledger.note("begin");
            Ok::<(), AnyError>(())
        })
        .await?;
        ctx.sleep(300.days()).await?;
        ctx.step("end", |_| async {
            ledger.note("end");
            Ok::<(), AnyError>(())
        })
        .await?;
        Ok(())
    })
}

engine_test! {
    async fn a_sleeping_run_is_cancelled_at_once(lab: Lab) {
        lab.start(|app| app.workflow(sleeper())).await;
        let run = lab.app().start(sleeper(), ()).await.unwrap();
        lab.settle().await;
        assert!(run.cancel("enough").await.unwrap());
        let error = run.result().await.unwrap_err();
        assert_eq!(error.to_string(), "cancelled: enough");
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
        assert_eq!(lab.ledger.notes(), ["begin"]);
        assert!(!run.cancel("again").await.unwrap(), "a run that has ended says so");
    }

    async fn the_request_to_stop_comes_before_other_news_and_timers(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let first = tokio::select! {
                event = ctx.event::<u32>("go") => event.map(|_| "the event"),
                slept = ctx.sleep(1.hour()) => slept.map(|()| "the timer"),
            };
            let ledger = ctx.state::<Ledger>();
            ledger.note(first.map_or_else(|error| error.to_string(), str::to_owned));
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap().id();
        lab.settle().await;
        // Nobody is there while all of it happens, the request last.
        lab.kill().await;
        let client = Outlast::on(lab.world.store().clone()).client();
        client.send(run, "go", &1).await.unwrap();
        lab.world.store().clock().advance(2.hours());
        assert!(client.cancel(run, "enough").await.unwrap());
        lab.start(|app| once(app).workflow(flow.clone())).await;
        assert!(lab.app().handle(&flow, run).result().await.unwrap_err().is_cancelled());
        assert_eq!(lab.ledger.notes(), ["cancelled: enough"]);
    }

    async fn a_run_that_never_began_is_cancelled_at_once(lab: Lab) {
        lab.start(|app| app.workflow(sleeper())).await;
        let run = lab.app().start(sleeper(), ()).delay(1.hour()).await.unwrap();
        assert!(run.cancel("too early").await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
        lab.advance(2.hours()).await;
        assert!(lab.ledger.notes().is_empty());
    }

    async fn a_running_step_is_dropped_when_its_run_is_cancelled(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            ctx.step("long", |_| { ledger.note("long"); std::future::pending::<Result<(), AnyError>>() }).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("the step began", || { let ledger = ledger.clone(); async move { ledger.count("long") == 1 } }).await;
        assert!(run.cancel("stop it").await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
    }

    async fn a_body_that_listens_finishes_cleanly(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let got = ctx.step("long", |s| {
                let ledger = ledger.clone();
                async move {
                    ledger.note("listening");
                    let reason = s.cancelled().await;
                    ledger.note(format!("cleaned up: {reason}"));
                    Ok::<String, AnyError>(reason)
                }
            }).await;
            ledger.note(format!("step: {}", got.is_ok()));
            ctx.sleep(1.hour()).await?;
            ledger.note("never");
            Ok::<(), AnyError>(())
        });
        lab.start(|app| once(app).workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("the body listens", || { let ledger = ledger.clone(); async move { ledger.count("listening") == 1 } }).await;
        run.cancel("bye").await.unwrap();
        assert!(run.result().await.unwrap_err().is_cancelled());
        assert_eq!(lab.ledger.notes(), ["listening", "cleaned up: bye", "step: true"]);
    }

    async fn a_body_that_listens_no_more_is_dropped_like_any_other(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            ctx.step("deaf", |s| { let ledger = ledger.clone(); async move {
                let _ = tokio::time::timeout(1.millis(), s.cancelled()).await;
                ledger.note("deaf");
                std::future::pending::<Result<(), AnyError>>().await
            }}).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("the body is deaf", || { let ledger = ledger.clone(); async move { ledger.count("deaf") == 1 } }).await;
        run.cancel("bye").await.unwrap();
        let ended = tokio::time::timeout(20.seconds(), run.result()).await;
        assert!(ended.expect("the body is not waited for").unwrap_err().is_cancelled());
    }

    async fn a_body_that_still_listens_elsewhere_finishes_cleanly(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            ctx.step("long", |s| { let ledger = ledger.clone(); async move {
                let mut listens = std::pin::pin!(s.cancelled());
                let _ = tokio::time::timeout(1.millis(), &mut listens).await;
                let _ = tokio::time::timeout(1.millis(), s.cancelled()).await;
                ledger.note("listening");
                listens.await;
                tokio::time::sleep(50.millis()).await;
                ledger.note("cleaned up");
                Ok::<(), AnyError>(())
            }}).await?;
            ctx.sleep(1.hour()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("the body listens", || { let ledger = ledger.clone(); async move { ledger.count("listening") == 1 } }).await;
        run.cancel("bye").await.unwrap();
        assert!(run.result().await.unwrap_err().is_cancelled());
        assert_eq!(lab.ledger.notes(), ["listening", "cleaned up"]);
    }

    async fn code_that_awaits_the_cancellation_decides_how_to_end(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            tokio::select! {
                reason = ctx.cancelled() => {
                    ctx.step("clean", |_| async { ledger.note(format!("clean: {reason}")); Ok::<(), AnyError>(()) }).await?;
                    ctx.sleep(1.minute()).await?;
                }
                slept = ctx.sleep(300.days()) => slept?,
            }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        run.cancel("tidy").await.unwrap();
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["clean: tidy"]);
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(5.minutes()).await;
        assert_eq!(lab.app().status(run.id()).await.unwrap().status, Status::Cancelled);
        assert_eq!(lab.ledger.notes(), ["clean: tidy"]);
    }

    async fn a_blocked_run_is_cancelled_at_once(lab: Lab) {
        let flow = Workflow::new("flow", |_: Ctx, (): ()| async move {
            std::future::pending::<()>().await;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        let view = run.status().await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        assert!(view.reason.unwrap().contains("not durable"));
        assert!(run.cancel("give up").await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
    }

    async fn a_cancel_without_a_reason_says_so(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.sleep(1.hour()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        run.cancel("").await.unwrap();
        let error = run.result().await.unwrap_err();
        assert!(matches!(error.outlast(), Some(Error::Cancelled { reason }) if reason == "no reason given"), "{error}");
    }
}
