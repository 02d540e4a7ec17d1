//! Jobs that are undone when they are cancelled, and jobs that complete in a transaction.

use std::sync::Arc;

use outlast::prelude::*;
use outlast::{Op, Phase};
use tokio::sync::Semaphore;

use crate::engine_test;
use crate::harness::{Lab, Ledger};

#[derive(Clone)]
struct Gate(Arc<Semaphore>);

impl Gate {
    fn closed() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }
}

/// A job that waits until it is asked to stop, and whose undo waits at a gate.
fn upload() -> Job<String, (), AnyError> {
    Job::new("upload", |job: JobCtx, file: String| async move {
        job.state::<Ledger>().note(format!("upload {file}"));
        job.cancelled().await;
        Err(AnyError::new("stopped"))
    })
    .undo(|job: JobCtx, file: String| async move {
        job.state::<Ledger>().note(format!("remove {file} ({})", job.attempt()));
        job.state::<Gate>().0.acquire().await?.forget();
        match job.attempt() {
            1 => Err(AnyError::new("not yet")),
            _ => Ok(()),
        }
    })
    .retry(Retry::fixed(3, 1.hour()))
}

/// Whether an attempt to undo the run has failed.
async fn has_failed(lab: &Lab, run: RunId) -> bool {
    let journal = lab.test().journal(run).await.unwrap();
    journal.iter().any(|entry| entry.op == Op::Undo && entry.phase == Phase::Attempt)
}

engine_test! {
    async fn a_job_may_be_called_undo(lab: Lab) {
        let undo = || Job::new("undo", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("begin");
            Err::<(), _>(AnyError::new("down"))
        }).retry(Retry::fixed(4, 1.hour())).undo(|job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("undone");
            if job.attempt() < 3 { Err(AnyError::new("not yet")) } else { Ok(()) }
        });
        lab.start(|app| app.job(undo())).await;
        let run = lab.app().start(undo(), ()).await.unwrap();
        lab.settle().await;
        lab.advance(150.minutes()).await;
        assert_eq!(lab.ledger.count("begin"), 3);
        run.cancel("not needed").await.unwrap();
        lab.settle().await;
        lab.advance(5.hours()).await;
        assert_eq!((lab.ledger.count("undone"), run.status().await.unwrap().status), (3, Status::Cancelled));
    }

    async fn a_job_is_undone_on_cancel_also_after_a_crash_in_the_middle(lab: Lab) {
        let gate = Gate::closed();
        let with = |app: Outlast| app.job(upload()).state(gate.clone());
        lab.start(with).await;
        let run = lab.app().start(upload(), "a".into()).await.unwrap();
        lab.until("it runs", || async { lab.ledger.count("upload a") == 1 }).await;
        lab.app().cancel(run.id(), "enough").await.unwrap();
        lab.until("it is being undone", || async { lab.ledger.count("remove a (1)") == 1 }).await;
        assert_eq!(run.status().await.unwrap().status, Status::Undoing, "while it runs");
        lab.restart(with).await;
        lab.until("it is undone anew", || async { lab.ledger.count("remove a (1)") == 2 }).await;
        gate.0.add_permits(1);
        lab.until("that failed", || async { has_failed(&lab, run.id()).await }).await;
        assert_eq!(lab.app().status(run.id()).await.unwrap().status, Status::Undoing, "between two attempts");
        gate.0.add_permits(1);
        lab.advance(2.hours()).await;
        assert_eq!(lab.app().status(run.id()).await.unwrap().status, Status::Cancelled);
        assert_eq!(lab.ledger.count("remove a (2)"), 1);
        assert_eq!(lab.ledger.count("upload a"), 1, "it was not tried again");
    }

    async fn an_undo_is_put_off_and_tried_again_as_its_job_says(lab: Lab) {
        let upload = || Job::new("upload", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("upload");
            job.cancelled().await;
            Err::<(), _>(AnyError::new("stopped"))
        })
        .undo(|job: JobCtx, (): ()| async move {
            let ledger = job.state::<Ledger>();
            ledger.note(format!("undo {}", job.attempt()));
            match ledger.notes().len() {
                2 => job.snooze(1.hour()).await,
                3 => Err(AnyError::new("not yet")),
                _ => Ok(()),
            }
        })
        .retry(Retry::fixed(2, 1.minute()))
        .backoff(|_| 1.day());
        lab.start(|app| app.job(upload())).await;
        let run = lab.app().start(upload(), ()).await.unwrap();
        lab.until("it runs", || async { lab.ledger.count("upload") == 1 }).await;
        run.cancel("enough").await.unwrap();
        lab.until("it is put off", || async { lab.ledger.count("undo 1") == 1 }).await;
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Undoing);
        lab.advance(2.hours()).await;
        assert_eq!(lab.ledger.notes(), ["upload", "undo 1", "undo 1"], "no attempt was spent");
        lab.advance(20.hours()).await;
        assert_eq!(lab.ledger.notes().len(), 3, "the job's own pause is a day");
        lab.advance(5.hours()).await;
        assert_eq!(lab.ledger.notes()[3], "undo 2");
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
    }

    async fn what_never_began_has_nothing_to_undo(lab: Lab) {
        let gate = Gate::closed();
        lab.start(|app| app.job(upload()).state(gate)).await;
        let run = lab.app().start(upload(), "a".into()).delay(1.hour()).await.unwrap();
        lab.app().cancel(run.id(), "enough").await.unwrap();
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
        lab.advance(2.hours()).await;
        assert!(lab.ledger.notes().is_empty());
    }

    async fn an_undo_that_does_not_work_waits_for_a_person_who_wants_it_tried_again(lab: Lab) {
        let job = Job::new("stuck", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("run");
            job.cancelled().await;
            Err::<(), _>(AnyError::new("stopped"))
        })
        .undo(|job: JobCtx, (): ()| async move {
            let ledger = job.state::<Ledger>();
            ledger.note("undo");
            assert!(ledger.count("undo") > 2, "cannot");
            Ok::<(), AnyError>(())
        })
        .retry(Retry::fixed(2, 1.minute()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        lab.until("it runs", || async { lab.ledger.count("run") == 1 }).await;
        lab.app().cancel(run.id(), "enough").await.unwrap();
        lab.until("it was undone once", || async { has_failed(&lab, run.id()).await }).await;
        lab.advance(5.minutes()).await;
        let view = run.status().await.unwrap();
        assert_eq!(view.status, Status::UndoFailed);
        let reason = view.reason.unwrap();
        assert!(reason.contains("undo failed 2 times") && reason.contains("cannot"), "{reason}");
        assert!(lab.app().cancel(run.id(), "again").await.unwrap());
        assert_eq!(run.status().await.unwrap().status, Status::UndoFailed, "asking again undoes nothing");
        assert!(lab.app().retry(run.id()).await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
    }

    async fn a_job_that_nobody_knows_any_more_is_undone_when_somebody_does(lab: Lab) {
        let upload = || {
            let upload = Job::new("upload", |job: JobCtx, (): ()| async move {
                job.state::<Ledger>().note("begin");
                std::future::pending::<Result<(), AnyError>>().await
            });
            upload.undo(|job: JobCtx, (): ()| async move {
                job.state::<Ledger>().note("undone");
                Ok::<(), AnyError>(())
            })
        };
        let other = || Job::new("other", |_: JobCtx, (): ()| async { Ok::<(), AnyError>(()) });
        lab.start(|app| app.job(upload())).await;
        let run = lab.app().start(upload(), ()).await.unwrap().id();
        lab.until("it runs", || async { lab.ledger.count("begin") == 1 }).await;
        lab.restart(|app| app.job(other())).await;
        lab.test().sweep().await;
        lab.world.store().clock().advance(1.minute());
        lab.test().sweep().await;
        assert_eq!(lab.app().status(run).await.unwrap().status, Status::Blocked);
        assert!(lab.app().cancel(run, "not needed").await.unwrap());
        lab.restart(|app| app.job(upload())).await;
        assert!(lab.app().handle(&upload(), run).result().await.unwrap_err().is_cancelled());
        assert_eq!(lab.ledger.notes(), ["begin", "undone"]);
    }

    async fn a_job_completes_with_what_its_transaction_wrote_or_not_at_all(lab: Lab) {
        let job = Job::new("pay", |job: JobCtx, commits: bool| async move {
            let attempt = job.attempt();
            job.state::<Ledger>().note(format!("attempt {attempt}"));
            let done = job.clone();
            job.client().transaction(async move |tx: Tx| {
                tx.execute("insert into payments (n) values ($1)", (i64::from(attempt),)).await?;
                done.complete_in(&tx, &format!("by attempt {attempt}")).await?;
                match commits || attempt > 1 {
                    true => Ok(()),
                    false => Err(AnyError::new("rolled back")),
                }
            }).await?;
            // Too late to change anything.
            Err::<String, _>(AnyError::new("after the commit"))
        }).retry(Retry::fixed(3, 1.minute()));
        lab.world.raw("create table payments (n bigint)").await;
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), true).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "by attempt 1");

        let run = lab.app().start(job.clone(), false).await.unwrap();
        lab.until("rolled back", || async { run.status().await.unwrap().attempt == 2 }).await;
        lab.advance(2.minutes()).await;
        assert_eq!(run.result().await.unwrap(), "by attempt 2");
        let rows = lab.world.raw("select n from payments order by n").await;
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(lab.ledger.notes(), ["attempt 1", "attempt 1", "attempt 2"]);
    }

    async fn what_a_job_logged_is_kept_although_its_transaction_rolled_back(lab: Lab) {
        use tracing_subscriber::layer::SubscriberExt;
        let subscriber = tracing_subscriber::registry().with(outlast::RunLogs::default());
        // The subscriber of this test's process; other tests in the same process may have set one.
        let _ = tracing::subscriber::set_global_default(subscriber);
        let job = Job::new("pay", |job: JobCtx, commits: bool| async move {
            tracing::info!("before");
            let done = job.clone();
            job.client().transaction(async move |tx: Tx| {
                done.complete_in(&tx, &()).await?;
                if commits { Ok(()) } else { Err(AnyError::new("rolled back")) }
            }).await
        }).retry(Retry::never());
        lab.start(|app| app.job(job.clone())).await;
        for commits in [false, true] {
            let run = lab.app().start(job.clone(), commits).await.unwrap();
            assert_eq!(run.result().await.is_ok(), commits);
            let lines: Vec<_> = lab.app().logs(run.id(), 10).await.unwrap().into_iter().map(|line| line.message).collect();
            assert_eq!(lines, ["before"], "{commits}");
        }
    }

    async fn a_parent_hears_of_a_child_that_completed_in_a_transaction(lab: Lab) {
        let child = Job::new("child", |job: JobCtx, n: u32| async move {
            let done = job.clone();
            job.client().transaction(async move |tx: Tx| {
                done.complete_in(&tx, &(n + 1)).await?;
                Ok::<_, AnyError>(())
            }).await?;
            Ok::<u32, AnyError>(0)
        });
        let told = child.clone();
        let parent = Workflow::new("parent", move |ctx: Ctx, n: u32| {
            let child = told.clone();
            async move { Ok::<u32, AnyError>(ctx.start(child, n).await?.result().await?) }
        });
        lab.start(|app| app.job(child).workflow(parent.clone())).await;
        let run = lab.app().start(parent, 41).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 42);
    }
}
