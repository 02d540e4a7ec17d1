//! Bounds: of time, of memory, and what a node refuses to start with.

use std::time::Duration;

use outlast::prelude::*;

use crate::engine_test;

/// Two steps, then a long wait.
fn slow() -> Workflow<(), (), AnyError> {
    Workflow::new("slow", |ctx: Ctx, (): ()| async move {
        for name in ["a", "b"] {
            ctx.step(name, |_| async { Ok::<(), AnyError>(()) }).await?;
        }
        ctx.sleep(1.day()).await?;
        Ok::<(), AnyError>(())
    })
    .timeout(1.hour())
}

engine_test! {
    async fn a_run_out_of_time_fails_also_when_its_code_has_not_replayed_to_the_end(lab: Lab) {
        lab.start(|app| app.workflow(slow())).await;
        let run = lab.app().start(slow(), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(slow())).await;
        lab.advance(2.hours()).await;
        let error = lab.app().handle(&slow(), run).result().await.unwrap_err();
        assert!(matches!(error.outlast(), Some(Error::TimedOut { .. })), "{error}");
    }

    async fn a_run_started_by_name_has_the_timeout_of_its_definition(lab: Lab) {
        lab.start(|app| app.workflow(slow())).await;
        let run = lab.app().start_by_name("slow", "null").await.unwrap();
        lab.advance(2.hours()).await;
        let failure = run.result_json().await.unwrap_err();
        assert!(failure.message().contains("timed out"), "{}", failure.message());
    }

    async fn a_job_out_of_time_does_not_wait_for_its_next_attempt(lab: Lab) {
        let job = Job::new("job", |_: JobCtx, (): ()| async { Err::<(), AnyError>(AnyError::new("no")) });
        let job = job.retry(Retry::fixed(3, 1.day()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).timeout(1.hour()).await.unwrap();
        lab.advance(2.hours()).await;
        let view = run.status().await.unwrap();
        assert_eq!(view.status, Status::Failed);
    }

    async fn a_cancelled_run_has_no_next_life(lab: Lab) {
        let flow: Workflow<u32, (), AnyError> = Workflow::new("flow", |ctx: Ctx, n: u32| async move {
            // It swallows whatever happens to it.
            let _ = ctx.step("poll", |_| async { Ok::<(), AnyError>(()) }).await;
            let _ = ctx.sleep(1.minute()).await;
            ctx.continue_as_new(n + 1).await
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, 1).await.unwrap();
        lab.advance(5.minutes()).await;
        assert!(run.cancel("enough").await.unwrap());
        lab.advance(5.minutes()).await;
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
    }

    async fn a_node_refuses_settings_with_which_it_cannot_work(lab: Lab) {
        type Change = fn(&mut outlast::Settings);
        let wrong: [(Change, &str); 5] = [
            (|settings| settings.lease = Duration::ZERO, "lease"),
            (|settings| settings.lease = Duration::MAX, "lease"),
            (|settings| settings.renew_every = settings.lease, "renew_every"),
            (|settings| settings.crashes = 0, "crashes"),
            (|settings| settings.concurrency = 0, "concurrency"),
        ];
        for (change, named) in wrong {
            let store = lab.world.store().clone();
            let refused = outlast::Outlast::on(store).settings(change).run().await.err().unwrap();
            assert!(refused.to_string().contains(named), "{refused}");
        }
    }
}
