//! Sooner than by itself: a run begins now, an attempt comes now, a sleep is over; and only that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlast::prelude::*;
use outlast::{Client, RunId, Timestamp};

use crate::engine_test;
use crate::harness::Ledger;

fn sleeper() -> Workflow<(), (), AnyError> {
    Workflow::new("sleeper", |ctx: Ctx, (): ()| async move {
        let ledger = ctx.state::<Ledger>();
        ctx.sleep(30.days()).await?;
        ctx.step("first", |_| async {
            ledger.note("first");
            Ok::<(), AnyError>(())
        })
        .await?;
        ctx.sleep(1.day()).await?;
        ctx.step("second", |_| async {
            ledger.note("second");
            Ok::<(), AnyError>(())
        })
        .await?;
        Ok(())
    })
}

/// Sleeps for a month, unless an event comes first; then for a day.
fn either() -> Workflow<(), (), AnyError> {
    Workflow::new("either", |ctx: Ctx, (): ()| async move {
        let ledger = ctx.state::<Ledger>();
        let first = tokio::select! {
            biased;
            told = ctx.event::<()>("go") => told.map(|()| "event"),
            slept = ctx.sleep(30.days()) => slept.map(|()| "slept"),
        }?;
        ctx.step("first", |_| async {
            ledger.note(first);
            Ok::<(), AnyError>(())
        })
        .await?;
        ctx.sleep(1.day()).await?;
        Ok(())
    })
}

async fn status(client: &Client, run: RunId) -> Status {
    client.status(run).await.unwrap().status
}

engine_test! {
    async fn a_sleep_is_over_when_somebody_says_so_and_the_next_one_is_not(lab: Lab) {
        lab.start(|app| app.workflow(sleeper())).await;
        let run = lab.app().start(sleeper(), ()).await.unwrap().id();
        lab.settle().await;
        let refused = lab.app().make_due(run, Some(Timestamp::MAX)).await.unwrap_err().to_string();
        assert!(refused.contains("its code waits for a time that its journal has"), "{refused}");
        assert!(lab.app().make_due(run, None).await.unwrap());
        lab.until("the first step", async || lab.ledger.count("first") == 1).await;
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["first"], "the second sleep is another");

        // A replay finds the first one over, and the second not.
        lab.restart(|app| app.workflow(sleeper())).await;
        lab.settle().await;
        assert_eq!((lab.ledger.notes(), status(lab.app(), run).await), (vec!["first".into()], Status::Waiting));
        lab.advance(25.hours()).await;
        assert_eq!(lab.ledger.notes(), ["first", "second"]);
        assert!(!lab.app().make_due(run, None).await.unwrap(), "it has ended");
    }

    async fn a_sleep_that_is_said_to_be_over_stays_over_through_the_death_of_its_process(lab: Lab) {
        lab.start(|app| app.workflow(sleeper())).await;
        let run = lab.app().start(sleeper(), ()).await.unwrap().id();
        lab.settle().await;
        let client = (**lab.app()).clone();
        lab.kill().await;
        assert!(client.make_due(run, None).await.unwrap());
        assert!(!client.make_due(run, None).await.unwrap(), "it is due");
        lab.start(|app| app.workflow(sleeper())).await;
        lab.until("the first step", async || lab.ledger.count("first") == 1).await;
        lab.settle().await;
        assert_eq!((lab.ledger.notes(), status(lab.app(), run).await), (vec!["first".into()], Status::Waiting));
    }

    async fn what_ends_a_wait_first_keeps_the_next_sleep_whole(lab: Lab) {
        lab.start(|app| app.workflow(either())).await;
        let run = lab.app().start(either(), ()).await.unwrap().id();
        lab.settle().await;
        let client = (**lab.app()).clone();
        lab.kill().await;
        assert!(client.make_due(run, None).await.unwrap());
        client.send(run, "go", &()).await.unwrap();
        lab.start(|app| app.workflow(either())).await;
        lab.until("the event", async || lab.ledger.count("event") == 1).await;
        lab.settle().await;
        assert_eq!(status(lab.app(), run).await, Status::Waiting, "nobody has said anything of the second sleep");
        lab.advance(25.hours()).await;
        assert_eq!(status(lab.app(), run).await, Status::Completed);
        assert_eq!(lab.ledger.count("slept"), 0);
    }

    async fn a_timeout_is_not_made_to_happen(lab: Lab) {
        let flow = Workflow::new("asks", |ctx: Ctx, (): ()| async move {
            Ok::<bool, AnyError>(ctx.event::<()>("go").timeout(1.day()).await.is_ok())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        assert!(!run.make_due(None).await.unwrap(), "it waits for something else");
        run.send("go", &()).await.unwrap();
        assert!(run.result().await.unwrap());
    }

    async fn the_next_attempt_of_a_step_and_of_a_job_comes_now(lab: Lab) {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        let flow = Workflow::new("tries", move |ctx: Ctx, (): ()| {
            let tries = counted.clone();
            async move {
                let work = ctx.step("call", |_| async {
                    match tries.fetch_add(1, Ordering::SeqCst) {
                        0 => Err(AnyError::new("not yet")),
                        _ => Ok(()),
                    }
                });
                work.retry(Retry::fixed(3, 7.days())).await?;
                Ok::<(), AnyError>(())
            }
        });
        let counted = tries.clone();
        let job = Job::new("mail", move |_: JobCtx, (): ()| {
            let tries = counted.clone();
            async move {
                match tries.fetch_add(1, Ordering::SeqCst) {
                    2 => Err(AnyError::new("not yet")),
                    _ => Ok(()),
                }
            }
        })
        .retry(Retry::fixed(3, 7.days()));
        lab.start(|app| app.workflow(flow.clone()).job(job.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        assert!(run.make_due(None).await.unwrap());
        run.result().await.unwrap();

        let run = lab.app().start(job, ()).await.unwrap();
        lab.settle().await;
        let soon = lab.world.now().await + 1.hour();
        assert!(run.make_due(Some(soon)).await.unwrap());
        assert_eq!(run.status().await.unwrap().due_at, Some(soon));
        assert!(run.make_due(None).await.unwrap());
        run.result().await.unwrap();
        assert_eq!(tries.load(Ordering::SeqCst), 4);
    }

    async fn a_run_that_was_started_for_later_begins_now(lab: Lab) {
        let flow = Workflow::new("quick", |_: Ctx, (): ()| async move { Ok::<(), AnyError>(()) });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).delay(1.day()).await.unwrap();
        lab.settle().await;
        assert!(run.make_due(None).await.unwrap());
        run.result().await.unwrap();
        assert!(!run.make_due(None).await.unwrap(), "it has ended");
    }
}
