//! Bounds: of time, of memory, and what a node refuses to start with.

use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast_testkit::Watched;
use tokio::sync::Notify;

use crate::engine_test;
use crate::harness::Ledger;

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

    async fn a_blocked_run_ends_in_time_whether_its_code_does_not_fit_or_nobody_knows_it(lab: Lab) {
        let soon = |app: Outlast| app.settings(|settings| {
            settings.lease = 500.millis();
            settings.renew_every = 100.millis();
            settings.unknown_after = 100.millis();
        });
        let other = Workflow::new("slow", |ctx: Ctx, (): ()| async move {
            ctx.step("z", |_| async { Ok::<(), AnyError>(()) }).await?;
            Ok::<(), AnyError>(())
        });
        let unheard = Workflow::new("unheard", |_: Ctx, (): ()| async { Ok::<(), AnyError>(()) });
        lab.start(|app| soon(app).workflow(slow())).await;
        let misfit = lab.app().start(slow(), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| soon(app).workflow(other)).await;
        let unknown = lab.app().start(unheard, ()).timeout(1.hour()).await.unwrap().id();
        let client = lab.app().client().clone();
        // Something new wakes the first; nobody takes the second.
        client.send(misfit, "news", &()).await.unwrap();
        for run in [misfit, unknown] {
            lab.until("it is blocked", || { let client = client.clone(); async move {
                client.status(run).await.unwrap().status == Status::Blocked
            }}).await;
        }
        lab.world.store().clock().advance(2.hours());
        for run in [misfit, unknown] {
            let failure = client.handle(&slow(), run).result().await.unwrap_err();
            assert!(matches!(failure.outlast(), Some(Error::TimedOut { .. })), "{failure}");
        }
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
        let wrong: [(Change, &str); 9] = [
            (|settings| settings.lease = Duration::ZERO, "lease"),
            (|settings| settings.lease = Duration::MAX, "lease"),
            (|settings| settings.renew_every = settings.lease, "renew_every"),
            (|settings| settings.crashes = 0, "crashes"),
            (|settings| settings.concurrency = 0, "concurrency"),
            (|settings| settings.name = "nul\0".into(), "name of the node"),
            (|settings| settings.name = "x".repeat(201), "name of the node"),
            (|settings| settings.queues = vec!["fine".into(), String::new()], "queue"),
            (|settings| settings.queues = vec!["nul\0".into()], "queue"),
        ];
        for (change, named) in wrong {
            let store = lab.world.store().clone();
            let refused = outlast::Outlast::on(store).settings(change).run().await.err().unwrap();
            assert!(matches!(refused, outlast::Error::Invalid { .. }), "{refused}");
            assert!(refused.to_string().contains(named), "{refused}");
        }
    }

    async fn a_body_may_outlast_many_leases_while_its_node_renews(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let (ledger, go) = (ctx.state::<Ledger>(), ctx.state::<Arc<Notify>>());
            ctx.step("long", |_| {
                let (ledger, go) = (ledger.clone(), go.clone());
                async move {
                    ledger.note("long");
                    go.notified().await;
                    Ok::<(), AnyError>(())
                }
            }).await?;
            Ok::<(), AnyError>(())
        });
        let go = Arc::new(Notify::new());
        let own = go.clone();
        lab.start(|app| app.workflow(flow.clone()).state(own).settings(|settings| settings.renew_every = 10.millis())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let (ledger, store) = (lab.ledger.clone(), lab.world.store().clone());
        lab.until("the body runs", || { let ledger = ledger.clone(); async move { ledger.count("long") == 1 } }).await;
        for _ in 0..5 {
            store.clock().advance(8.seconds());
            // More than a renewal from before that can have left.
            let renewed = store.now().await.unwrap() + 5.seconds();
            lab.until("the lease is renewed", || {
                let store = store.clone();
                async move { store.nodes().await.unwrap().first().is_some_and(|node| node.lease_until > renewed) }
            }).await;
            assert_eq!(lab.world.sweep().await.freed, 0);
        }
        go.notify_one();
        run.result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["long"]);
    }

    async fn an_engine_outlives_connections_that_are_cut_again_and_again(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            for _ in 0..30 {
                ctx.step("step", |_| async { Ok::<(), AnyError>(()) }).await?;
            }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let mut runs = Vec::new();
        for _ in 0..10 {
            runs.push(lab.app().start(flow.clone(), ()).await.unwrap());
            // SQLite has no connections to cut.
            if lab.world.store().name() == "postgres" {
                let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                            where datname = current_database() and pid <> pg_backend_pid()";
                // A connection may hear only now that it was cut before.
                loop {
                    let Ok(mut tx) = lab.world.store().begin().await else { continue };
                    let is_cut = tx.query(cut, &[]).await.is_ok();
                    let _ = tx.rollback().await;
                    if is_cut {
                        break;
                    }
                }
            }
        }
        for run in runs {
            run.result().await.unwrap();
            assert_eq!(lab.test().steps(run.id()).await.unwrap().len(), 30);
        }
    }

    async fn an_engine_goes_on_when_a_server_that_refused_it_lets_it_in_again(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let (ledger, go) = (ctx.state::<Ledger>(), ctx.state::<Arc<Notify>>());
            ctx.step("body", |_| {
                let (ledger, go) = (ledger.clone(), go.clone());
                async move {
                    ledger.note("body");
                    go.notified().await;
                    Ok::<(), AnyError>(())
                }
            }).await?;
            Ok::<(), AnyError>(())
        });
        // SQLite has no server.
        if lab.world.store().name() == "sqlite" {
            return;
        }
        let (store, go) = (Watched::over(lab.world.store().clone()), Arc::new(Notify::new()));
        let app = outlast::Outlast::on(store.clone()).workflow(flow.clone()).state(lab.ledger.clone());
        let app = app.state(go.clone()).settings(|settings| settings.poll_every = 10.millis()).run().await.unwrap();
        let run = app.start(flow.clone(), ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("the body runs", || { let ledger = ledger.clone(); async move { ledger.count("body") == 1 } }).await;

        lab.world.admits(false).await;
        go.notify_one();
        let before = (store.count("claim"), store.count("commit"));
        lab.until("both loops have tried again and again", || {
            let now = (store.count("claim"), store.count("commit"));
            async move { now.0 >= before.0 + 5 && now.1 >= before.1 + 5 }
        }).await;
        assert!(app.start(flow.clone(), ()).await.is_err(), "whoever asks is told");

        lab.world.admits(true).await;
        run.result().await.unwrap();
        assert_eq!(ledger.count("body"), 1);
        go.notify_one();
        app.start(flow, ()).await.unwrap().result().await.unwrap();
    }
}
