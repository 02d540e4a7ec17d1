//! Jobs: one unit of work, tried again as told.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use outlast::prelude::*;
use tokio::sync::Notify;

use crate::engine_test;
use crate::harness::Ledger;

engine_test! {
    async fn a_job_runs_and_gives_its_result(lab: Lab) {
        let job = Job::new("add", |_: JobCtx, (a, b): (u32, u32)| async move { Ok::<u32, AnyError>(a + b) });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, (40, 2)).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 42);
    }

    async fn a_failed_job_is_tried_again_and_its_errors_are_kept(lab: Lab) {
        let job = Job::new("flaky", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note(format!("attempt {}", job.attempt()));
            match job.attempt() {
                1 => Err(AnyError::new("not yet")),
                2 => panic!("still not"),
                n => Ok(n),
            }
        }).retry(Retry::fixed(5, 1.hour()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Ready, "due later");
        lab.advance(59.minutes()).await;
        assert_eq!(lab.ledger.notes(), ["attempt 1"]);
        lab.restart(|app| app.job(job.clone())).await;
        lab.advance(3.hours()).await;
        assert_eq!(lab.app().handle(&job, run.id()).result().await.unwrap(), 3);
        let journal = lab.test().journal(run.id()).await.unwrap();
        let errors: Vec<String> = journal.iter().map(|entry| {
            entry.note::<serde_json::Value>().unwrap()["failure"].to_string()
        }).collect();
        assert_eq!(errors.len(), 2);
        assert!(errors[0].contains("not yet") && errors[1].contains("still not"), "{errors:?}");
    }

    async fn after_its_last_attempt_a_job_has_failed_and_is_kept(lab: Lab) {
        let job = Job::new("hopeless", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("try");
            Err::<(), _>(AnyError::new("no"))
        }).retry(Retry::fixed(3, Duration::ZERO));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "no");
        assert_eq!(lab.ledger.count("try"), 3);
        assert_eq!(run.status().await.unwrap().status, Status::Failed);
    }

    async fn how_many_attempts_a_job_took_is_seen_when_it_has_ended(lab: Lab) {
        let job = Job::new("third", |job: JobCtx, most: u32| async move {
            if job.attempt() < most { Err(AnyError::new("not yet")) } else { Ok(()) }
        }).retry(Retry::fixed(3, Duration::ZERO));
        lab.start(|app| app.job(job.clone())).await;
        let mut seen = Vec::new();
        for most in [1, 3, 4] {
            let run = lab.app().start(job.clone(), most).await.unwrap();
            let ended = run.result().await.is_ok();
            seen.push((ended, run.status().await.unwrap().attempt));
        }
        assert_eq!(seen, [(true, 1), (true, 3), (false, 3)]);
    }

    async fn a_terminal_failure_and_an_undecodable_input_are_not_tried_again(lab: Lab) {
        let job = Job::new("strict", |job: JobCtx, n: u32| async move {
            job.state::<Ledger>().note("try");
            job.last_attempt();
            Err::<u32, _>(AnyError::new(format!("never {n}")))
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, 1).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "never 1");
        // From a process that does not have the code: one that has would refuse it.
        let client = Outlast::on(lab.world.store().clone()).client();
        let run = client.start_by_name("strict", r#""no number""#).await.unwrap();
        let error = run.result_json().await.unwrap_err().message();
        assert!(error.starts_with("the input of strict cannot be decoded as u32"), "{error}");
        assert_eq!(lab.ledger.count("try"), 1);
    }

    async fn a_job_that_takes_too_long_is_tried_again_like_any_failure(lab: Lab) {
        let job = Job::new("slow", |job: JobCtx, (): ()| async move {
            if job.attempt() == 1 { std::future::pending::<()>().await; }
            Ok::<u32, AnyError>(job.attempt())
        }).timeout(20.millis()).retry(Retry::fixed(2, Duration::ZERO));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 2);
    }

    async fn a_running_job_hears_that_it_is_cancelled(lab: Lab) {
        let job = Job::new("listening", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("listening");
            let reason = job.cancelled().await;
            Err::<(), _>(AnyError::new(reason))
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("it listens", || { let ledger = ledger.clone(); async move { ledger.count("listening") == 1 } }).await;
        assert!(run.cancel("bye").await.unwrap());
        assert_eq!(run.result().await.unwrap_err().to_string(), "cancelled: bye");
    }

    async fn concurrency_four_runs_four_at_once(lab: Lab) {
        let barrier = Arc::new(tokio::sync::Barrier::new(4));
        let job = Job::new("meet", |job: JobCtx, (): ()| async move {
            let barrier = job.state::<Arc<tokio::sync::Barrier>>();
            barrier.wait().await;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.job(job.clone()).state(barrier).concurrency(4)).await;
        let runs = lab.app().start_many(job, std::iter::repeat_n((), 12)).await.unwrap();
        for run in runs {
            run.result().await.unwrap();
        }
    }

    async fn a_burst_larger_than_any_buffer_is_drained_at_once(lab: Lab) {
        let job = Job::new("count", |job: JobCtx, n: u32| async move {
            job.state::<Ledger>().note(n.to_string());
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.job(job.clone())).await;
        let runs = lab.app().start_many(job, 0..2000).await.unwrap();
        for run in &runs {
            run.result().await.unwrap();
        }
        let mut notes = lab.ledger.notes();
        notes.sort();
        notes.dedup();
        assert_eq!(notes.len(), 2000);
        assert_eq!(lab.ledger.notes().len(), 2000, "none ran twice");
    }

    async fn urgent_runs_go_first(lab: Lab) {
        let job = Job::new("order", |job: JobCtx, n: u32| async move {
            job.state::<Ledger>().note(n.to_string());
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.job(job.clone()).concurrency(1)).await;
        let at = lab.test().now().await.unwrap() + 1.hour();
        for (n, priority) in [(3, 9), (2, 5), (1, 0)] {
            lab.app().start(job.clone(), n).priority(priority).at(at).await.unwrap();
        }
        if lab.world.store().shards() == 1 {
            lab.advance(2.hours()).await;
            assert_eq!(lab.ledger.notes(), ["1", "2", "3"]);
        }
    }

    async fn shutdown_finishes_what_is_in_hand_and_hands_the_rest_back(lab: Lab) {
        let job = Job::new("gate", |job: JobCtx, n: u32| async move {
            job.state::<Ledger>().note(format!("began {n}"));
            let gate = job.state::<Arc<tokio::sync::Semaphore>>();
            let _open = gate.acquire().await;
            Ok::<u32, AnyError>(n)
        });
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        lab.start(|app| app.job(job.clone()).state(gate.clone()).concurrency(2)).await;
        let runs = lab.app().start_many(job.clone(), 0..3).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("two began", || { let ledger = ledger.clone(); async move { ledger.notes().len() == 2 } }).await;
        // It stops before the first of them ends, which would make room for the third.
        let mut stopping = Box::pin(lab.app().clone().shutdown(10.seconds()));
        std::future::poll_fn(|cx| Poll::Ready(stopping.as_mut().poll(cx).is_pending())).await;
        gate.add_permits(10);
        stopping.await.unwrap();

        let open = lab.app().list(&outlast::Filter::default(), None, 10).await.unwrap().runs;
        let left: Vec<Status> = open.iter().map(|run| run.status).collect();
        assert_eq!(left.iter().filter(|status| **status == Status::Completed).count(), 2, "{left:?}");
        assert_eq!(left.iter().filter(|status| **status == Status::Ready).count(), 1, "{left:?}");
        lab.start(|app| app.job(job.clone()).state(gate.clone())).await;
        for run in &runs {
            lab.app().handle(&job, run.id()).result().await.unwrap();
        }
    }

    async fn work_that_does_not_end_in_time_is_handed_back_at_once(lab: Lab) {
        let job = Job::new("stuck", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("began");
            if job.state::<Ledger>().count("began") == 1 { std::future::pending::<()>().await; }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("it began", || { let ledger = ledger.clone(); async move { ledger.count("began") == 1 } }).await;
        lab.app().clone().shutdown(10.millis()).await.unwrap();
        assert_eq!(run.status().await.unwrap().status, Status::Ready);
        lab.start(|app| app.job(job.clone())).await;
        lab.app().handle(&job, run.id()).result().await.unwrap();
        assert_eq!(lab.ledger.count("began"), 2);
    }

    async fn a_job_that_succeeds_after_it_was_asked_to_stop_has_completed(lab: Lab) {
        let job = Job::new("stubborn", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("began");
            let reason = job.cancelled().await;
            assert_eq!(job.cancel_requested(), Some(reason));
            Ok::<u32, AnyError>(7)
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job, ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("it began", || { let ledger = ledger.clone(); async move { ledger.count("began") == 1 } }).await;
        run.cancel("").await.unwrap();
        assert_eq!(run.result().await.unwrap(), 7);
    }

    async fn handlers_know_for_whom_they_act(lab: Lab) {
        let job = Job::new("who", |job: JobCtx, (): ()| async move {
            assert_eq!(job.key(), job.run_id().to_string());
            let trace = job.trace().map(str::to_owned);
            Ok::<_, AnyError>((job.owner().map(str::to_owned), job.tenant().to_owned(), job.roles().to_vec(), trace))
        });
        let inner = job.clone();
        let flow = Workflow::new("flow", move |ctx: Ctx, (): ()| {
            let job = inner.clone();
            async move {
                let trace = ctx.trace().map(str::to_owned);
                let mine = (ctx.owner().map(str::to_owned), ctx.tenant().to_owned(), ctx.roles().to_vec(), trace);
                let child = ctx.start(job, ()).await?.result().await?;
                Ok::<_, AnyError>((mine, child))
            }
        });
        lab.start(|app| app.job(job.clone()).workflow(flow.clone())).await;
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let start = lab.app().start(flow.clone(), ()).owner("alice").tenant("acme").role("admin").trace(trace);
        let run = start.await.unwrap();
        let (mine, child) = run.result().await.unwrap();
        let wanted = (Some("alice".to_owned()), "acme".to_owned(), vec!["admin".to_owned()], Some(trace.to_owned()));
        assert_eq!(mine, wanted);
        assert_eq!(mine, child);
        assert_eq!(run.status().await.unwrap().record.trace.as_deref(), Some(trace));
        let bad = lab.app().start(flow, ()).trace("nul\0").await.err().unwrap();
        assert_eq!(bad.code(), "invalid_character");
    }

    async fn what_a_job_starts_acts_for_whoever_the_job_acts_for(lab: Lab) {
        let wipe = || Job::new("wipe", |job: JobCtx, n: u32| async move {
            let who = (job.owner().map(str::to_owned), job.tenant().to_owned(), job.trace().map(str::to_owned));
            Ok::<_, AnyError>((n, who))
        }).role("admin");
        let clean = Job::new("clean", move |job: JobCtx, (): ()| async move {
            let mut runs = vec![job.start(wipe(), 1).key(job.key()).await?];
            runs.extend(job.start_many(wipe(), [2, 3]).await?);
            runs.push(job.client().start(wipe(), 4).await?);
            Ok::<_, AnyError>(runs.into_iter().map(|run| run.id()).collect::<Vec<_>>())
        });
        lab.start(|app| app.job(wipe()).job(clean.clone())).await;
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let start = || lab.app().start(clean.clone(), ()).owner("alice").tenant("acme").trace(trace);
        let result = async |run: RunId| lab.app().handle(&wipe(), run).result().await.map_err(|error| error.to_string());

        let parent = start().role("admin").await.unwrap();
        let runs = parent.result().await.unwrap();
        for (run, n) in runs.iter().zip([1, 2, 3]) {
            let who = (Some("alice".to_owned()), "acme".to_owned(), Some(trace.to_owned()));
            assert_eq!(result(*run).await, Ok((n, who)));
            assert_eq!(lab.app().status(*run).await.unwrap().record.parent.unwrap().run, parent.id());
        }
        let missing = "job \"wipe\" needs the role \"admin\", without which the run was started";
        assert_eq!(result(runs[3]).await, Err(missing.into()), "the client is the program's");
        for run in start().role("reader").await.unwrap().result().await.unwrap() {
            assert_eq!(result(run).await, Err(missing.into()));
        }
    }

    async fn a_run_without_the_role_fails_with_that_reason_however_it_was_started(lab: Lab) {
        let job = Job::new("wipe", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("wiped");
            Ok::<(), AnyError>(())
        }).role("admin");
        let inner = job.clone();
        let flow = Workflow::new("flow", move |ctx: Ctx, (): ()| {
            let job = inner.clone();
            async move { Ok::<(), AnyError>(ctx.start(job, ()).await?.result().await?) }
        });
        let strict = Workflow::new("strict", |_: Ctx, (): ()| async { Ok::<(), AnyError>(()) }).role("admin");
        lab.start(|app| app.job(job.clone()).workflow(flow.clone()).workflow(strict.clone())).await;
        let app = lab.app();
        let missing = |what: &str| format!("{what} needs the role \"admin\", without which the run was started");

        let run = app.start(job.clone(), ()).role("reader").await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), missing("job \"wipe\""));
        let view = run.status().await.unwrap();
        assert_eq!((view.status, view.attempt), (Status::Failed, 1), "another attempt would have no other roles");
        for run in app.start_many(job.clone(), [(), ()]).await.unwrap() {
            assert!(run.result().await.is_err());
        }
        let run = app.start(flow.clone(), ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), missing("job \"wipe\""), "a child has its parent's");
        let run = app.start(strict, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), missing("workflow \"strict\""));
        assert_eq!(lab.ledger.count("wiped"), 0);

        app.start(job, ()).role("reader").role("admin").await.unwrap().result().await.unwrap();
        app.start(flow, ()).role("admin").await.unwrap().result().await.unwrap();
        assert_eq!(lab.ledger.count("wiped"), 2);
    }

    async fn a_role_that_code_asks_for_later_is_asked_for_in_the_next_attempt(lab: Lab) {
        let job = Job::new("grew", |job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("tried");
            Err::<(), _>(AnyError::new("not yet"))
        }).retry(Retry::fixed(3, 1.hour()));
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        lab.settle().await;
        let strict = job.role("admin");
        lab.restart(|app| app.job(strict.clone())).await;
        lab.advance(1.hour()).await;
        let error = lab.app().handle(&strict, run.id()).result().await.unwrap_err().to_string();
        assert!(error.contains("needs the role \"admin\""), "{error}");
        assert_eq!(lab.ledger.count("tried"), 1);
    }

    async fn what_a_job_recorded_in_very_many_attempts_is_kept_and_it_is_undone_behind_them(lab: Lab) {
        // More than are read with a claim.
        const ATTEMPTS: u32 = 1_005;
        let is_past_them = Arc::new(Notify::new());
        let told = is_past_them.clone();
        let job = Job::new("stubborn", move |job: JobCtx, (): ()| {
            let told = told.clone();
            async move {
                if job.attempt() > ATTEMPTS {
                    told.notify_one();
                    job.cancelled().await;
                }
                Err::<(), _>(AnyError::new("again"))
            }
        }).retry(Retry::fixed(ATTEMPTS + 5, Duration::ZERO)).undo(|job: JobCtx, (): ()| async move {
            job.state::<Ledger>().note("undone");
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        is_past_them.notified().await;
        assert_eq!(lab.test().journal(run.id()).await.unwrap().len() as u32, ATTEMPTS);
        run.cancel("enough").await.unwrap();
        assert!(run.result().await.is_err());
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
        assert_eq!(lab.ledger.count("undone"), 1);
    }

    async fn a_job_without_its_state_is_blocked_and_loses_no_attempt(lab: Lab) {
        let job = Job::new("needy", |job: JobCtx, (): ()| async move {
            job.state::<std::sync::atomic::AtomicU32>();
            Ok::<u32, AnyError>(job.attempt())
        });
        lab.start(|app| app.job(job.clone())).await;
        let run = lab.app().start(job.clone(), ()).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Blocked);
        lab.restart(|app| app.job(job.clone()).state(std::sync::atomic::AtomicU32::new(0))).await;
        assert_eq!(lab.app().handle(&job, run.id()).result().await.unwrap(), 1);
    }

    async fn workflows_use_all_slots_a_node_has(lab: Lab) {
        let barrier = Arc::new(tokio::sync::Barrier::new(4));
        let flow = Workflow::new("meet", |ctx: Ctx, (): ()| async move {
            let barrier = ctx.state::<Arc<tokio::sync::Barrier>>();
            ctx.step("meet", |_| async { barrier.wait().await; Ok::<(), AnyError>(()) }).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone()).state(barrier).concurrency(4)).await;
        for run in lab.app().start_many(flow, std::iter::repeat_n((), 8)).await.unwrap() {
            run.result().await.unwrap();
        }
    }

    async fn a_job_whose_work_panics_when_it_is_given_up_is_tried_again(lab: Lab) {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) { panic!("dropped"); }
        }
        let job = Job::new("slow", |job: JobCtx, (): ()| async move {
            if job.attempt() == 1 {
                let _bomb = Bomb;
                std::future::pending::<()>().await;
            }
            Ok::<u32, AnyError>(job.attempt())
        });
        let job = job.timeout(20.millis()).retry(Retry::fixed(2, Duration::ZERO));
        lab.start(|app| app.job(job.clone())).await;
        assert_eq!(lab.app().start(job, ()).await.unwrap().result().await.unwrap(), 2);
    }
}
