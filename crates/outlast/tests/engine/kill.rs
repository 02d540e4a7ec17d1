//! Kill: a run ends at once, whatever it is doing, and nothing is undone.

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::{Lab, Ledger};

/// Does something that can be undone, then what its input says.
fn saga() -> Workflow<String, (), AnyError> {
    Workflow::new("saga", |ctx: Ctx, then: String| async move {
        let ledger = ctx.state::<Ledger>();
        let noted = Ledger::clone(&ledger);
        ctx.step("charge", |_| async {
            ledger.note("charge");
            Ok::<u32, AnyError>(1)
        })
        .undo(move |_, _| {
            noted.note("refund");
            async { Ok::<(), AnyError>(()) }
        })
        .await?;
        match &*then {
            "sleep" => ctx.sleep(1.day()).await?,
            "work" => {
                let work = ctx.step("work", |_| {
                    ledger.note("work");
                    let dropped = Dropped(Ledger::clone(&ledger));
                    async move {
                        std::future::pending::<()>().await;
                        drop(dropped);
                        Ok::<(), AnyError>(())
                    }
                });
                work.await?;
            }
            _ => {}
        }
        Ok(())
    })
}

/// Notes that a body was dropped.
struct Dropped(Ledger);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

async fn until_noted(lab: &Lab, what: &'static str) {
    let ledger = lab.ledger.clone();
    lab.until(what, || {
        let ledger = ledger.clone();
        async move { ledger.count(what) > 0 }
    })
    .await;
}

engine_test! {
    async fn a_sleeping_run_is_killed_at_once_and_nothing_is_undone(lab: Lab) {
        lab.start(|app| app.workflow(saga())).await;
        let run = lab.app().start(saga(), "sleep".into()).await.unwrap();
        lab.settle().await;
        assert!(run.kill("a mistake").await.unwrap());
        assert_eq!(run.result().await.unwrap_err().to_string(), "cancelled: killed: a mistake");
        assert!(!run.kill("again").await.unwrap(), "a run that has ended says so");
        assert!(!run.cancel("late").await.unwrap());
        lab.advance(2.days()).await;
        assert_eq!(lab.ledger.notes(), ["charge"]);
    }

    async fn a_running_body_is_dropped_when_its_run_is_killed(lab: Lab) {
        lab.start(|app| app.workflow(saga())).await;
        let run = lab.app().start(saga(), "work".into()).await.unwrap();
        until_noted(&lab, "work").await;
        assert!(run.kill("enough").await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
        until_noted(&lab, "dropped").await;
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["charge", "work", "dropped"]);
        assert_eq!(lab.test().steps(run.id()).await.unwrap(), ["charge"]);
    }

    async fn a_running_job_is_dropped_when_it_is_killed_and_not_tried_again(lab: Lab) {
        let job = Job::new("job", |job: JobCtx, (): ()| async move {
            let ledger = job.state::<Ledger>();
            ledger.note("work");
            let _dropped = Dropped(Ledger::clone(&ledger));
            std::future::pending::<()>().await;
            Ok::<(), AnyError>(())
        }).retry(Retry::times(5)).undo(|job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("undo");
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        until_noted(&lab, "work").await;
        assert!(run.kill("enough").await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
        until_noted(&lab, "dropped").await;
        lab.advance(1.day()).await;
        assert_eq!(lab.ledger.notes(), ["work", "dropped"]);
    }

    async fn a_run_that_was_asked_to_stop_and_does_not_can_be_killed(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let step = ctx.step("deaf", |s| { let ledger = ledger.clone(); async move {
                ledger.note("listening");
                s.cancelled().await;
                ledger.note("asked");
                std::future::pending::<()>().await;
                Ok::<(), AnyError>(())
            } });
            step.await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        until_noted(&lab, "listening").await;
        assert!(run.cancel("please").await.unwrap());
        until_noted(&lab, "asked").await;
        assert!(run.kill("now").await.unwrap());
        assert_eq!(run.result().await.unwrap_err().to_string(), "cancelled: killed: now");
    }

    async fn a_run_that_undoes_is_killed_in_the_middle(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            for name in ["first", "second"] {
                let ledger = ctx.state::<Ledger>().clone();
                ctx.step(name, |_| async { Ok::<u32, AnyError>(1) }).undo(move |_, _| {
                    let ledger = ledger.clone();
                    async move {
                        ledger.note(format!("undo {name}"));
                        std::future::pending::<()>().await;
                        Ok::<(), AnyError>(())
                    }
                }).await?;
            }
            ctx.sleep(1.day()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        assert!(run.cancel("stop").await.unwrap());
        until_noted(&lab, "undo second").await;
        assert!(run.kill("leave it").await.unwrap());
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
        lab.settle().await;
        assert_eq!(lab.ledger.notes(), ["undo second"]);
    }

    async fn a_parent_hears_that_its_child_was_killed(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            let child = ctx.start(saga(), "sleep".into()).await?;
            ctx.state::<Ledger>().note(format!("child {}", child.id()));
            match child.result().await {
                Ok(()) => Ok::<String, AnyError>("done".into()),
                Err(error) => Ok(error.to_string()),
            }
        });
        lab.start(|app| crate::harness::once(app).workflow(saga()).workflow(parent.clone())).await;
        let run = lab.app().start(parent.clone(), ()).await.unwrap();
        lab.settle().await;
        let notes = lab.ledger.notes();
        let child: RunId = notes.iter().find_map(|note| note.strip_prefix("child ")).unwrap().parse().unwrap();
        assert!(lab.app().kill(child, "a mistake").await.unwrap());
        assert_eq!(run.result().await.unwrap(), "cancelled: killed: a mistake");
    }

    async fn a_kill_in_a_transaction_that_rolls_back_never_was(lab: Lab) {
        lab.start(|app| app.workflow(saga())).await;
        let run = lab.app().start(saga(), "sleep".into()).await.unwrap();
        lab.settle().await;
        let (client, id) = (lab.app().client().clone(), run.id());
        let kill = |fails: bool| {
            let client = client.clone();
            lab.app().transaction(async move |tx: Tx| {
                assert!(client.kill_in_tx(&tx, id, "gone").await?);
                if fails { Err(AnyError::new("no")) } else { Ok::<(), AnyError>(()) }
            })
        };
        assert!(kill(true).await.is_err());
        assert_eq!(run.status().await.unwrap().status, Status::Waiting);
        kill(false).await.unwrap();
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
        let error = lab.app().kill(RunId::new(0, Default::default(), 7), "who").await.unwrap_err();
        assert!(matches!(error, Error::UnknownRun { .. }), "{error}");
    }
}
