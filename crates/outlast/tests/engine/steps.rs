//! Steps: recorded once, tried again as told, never taking the process down.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlast::prelude::*;
use outlast_core::{AttemptNote, FailureDoc, NodeId};
use serde::{Deserialize, Serialize};

use crate::engine_test;
use crate::harness::Ledger;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
enum PayError {
    #[error("card declined: {0}")]
    Declined(String),
    #[error("try later")]
    Later,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
enum CheckoutError {
    #[error(transparent)]
    Pay(#[from] Failure<PayError>),
    #[error(transparent)]
    Outlast(#[from] Error),
}

/// A result that cannot be written while it is 1.
#[derive(Debug, PartialEq, Deserialize)]
struct Touchy(u32);

impl Serialize for Touchy {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        assert!(self.0 > 1, "1 is not written");
        self.0.serialize(to)
    }
}

/// Something that cannot be dropped in peace.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

async fn length(of: &str, s: StepCtx) -> Result<usize, AnyError> {
    tokio::task::yield_now().await;
    Ok(of.len() * s.attempt() as usize)
}

engine_test! {
    async fn a_step_runs_once_and_its_result_is_remembered(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, n: u64| async move {
            let ledger = ctx.state::<Ledger>();
            let a = ctx.step("double", |_| async { ledger.note("double"); Ok::<u64, AnyError>(n * 2) }).await?;
            ctx.sleep(1.hour()).await?;
            let b = ctx.step("add", |_| async { ledger.note("add"); Ok::<u64, AnyError>(a + 1) }).await?;
            ctx.sleep(1.hour()).await?;
            Ok::<u64, AnyError>(b)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), 20).await.unwrap();
        lab.advance(90.minutes()).await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(3.hours()).await;

        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), 41);
        assert_eq!(lab.ledger.notes(), ["double", "add"]);
        assert_eq!(lab.test().steps(run.id()).await.unwrap(), ["double", "add"]);
    }

    async fn users_errors_cross_the_boundary_as_themselves(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let charge = ctx.step("charge", |_| async { Err::<u32, _>(PayError::Declined("4242".into())) }).await;
            assert_eq!(charge, Err(Failure::Own(PayError::Declined("4242".into()))));
            ctx.sleep(1.hour()).await?;
            charge?;
            Ok::<(), CheckoutError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(2.hours()).await;

        let expected = CheckoutError::Pay(Failure::Own(PayError::Declined("4242".into())));
        assert_eq!(run.result().await.unwrap_err(), Failure::Own(expected));
        let ended = run.status().await.unwrap();
        assert_eq!(ended.status, Status::Failed);
        let failure: FailureDoc = serde_json::from_str(&ended.ended.unwrap().error.unwrap()).unwrap();
        assert_eq!(failure.step(), Some("charge"), "the step that failed is noted");
    }

    async fn a_failed_attempt_is_tried_again_after_its_pause_and_kept_in_the_journal(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let retry = Retry::times(5).first(10.minutes()).without_jitter();
            let got = ctx.step("flaky", |s| {
                ledger.note(format!("attempt {} {}", s.attempt(), s.key() == format!("{}/flaky", s.run_id())));
                async move { if s.attempt() < 3 { Err(PayError::Later) } else { Ok(s.attempt()) } }
            }).retry(retry).await;
            got.map_err(CheckoutError::from)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        assert_eq!(lab.ledger.notes().len(), 1);
        assert_eq!(run.status().await.unwrap().status, Status::Waiting, "a long pause frees the slot");

        lab.advance(9.minutes()).await;
        assert_eq!(lab.ledger.notes().len(), 1, "not early");
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(31.minutes()).await;
        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), 3);
        assert_eq!(lab.ledger.notes(), ["attempt 1 true", "attempt 2 true", "attempt 3 true"]);
        let journal = lab.test().journal(run.id()).await.unwrap();
        let failed = journal.iter().filter(|entry| entry.phase == outlast::Phase::Attempt);
        let nodes: Vec<Option<NodeId>> = failed.map(|entry| entry.note::<AttemptNote>().unwrap().node).collect();
        assert!(matches!(nodes[..], [Some(first), Some(next)] if first != next), "each by its node: {nodes:?}");
    }

    async fn after_the_last_attempt_the_error_reaches_the_code(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let step = ctx.step("flaky", |_| { ledger.note("try"); async { Err::<(), _>(PayError::Later) } });
            step.retry(Retry::fixed(3, 1.second())).await.map_err(CheckoutError::from)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(1.minute()).await;
        assert_eq!(run.result().await.unwrap_err().own(), Some(CheckoutError::Pay(Failure::Own(PayError::Later))));
        assert_eq!(lab.ledger.count("try"), 3);
    }

    async fn a_terminal_error_is_not_tried_again(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let step = ctx.step("charge", |_| { ledger.note("try"); async { Err::<(), _>(PayError::Declined("x".into())) } });
            step.retry(Retry::times(9)).retry_if(|error| *error == PayError::Later).await.map_err(CheckoutError::from)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        assert!(run.result().await.is_err());
        assert_eq!(lab.ledger.count("try"), 1);
    }

    async fn an_error_of_a_step_says_when_it_is_tried_again(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let step = ctx.step("charge", |s| { ledger.note("try"); async move {
                if s.attempt() == 1 { Err(PayError::Later) } else { Ok(s.attempt()) }
            }});
            let step = step.retry(Retry::fixed(2, 1.second())).retry_after(|_| Some(1.hour()));
            step.await.map_err(CheckoutError::from)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(59.minutes()).await;
        assert_eq!(lab.ledger.count("try"), 1);
        lab.advance(1.minute()).await;
        assert_eq!(run.result().await.unwrap(), 2);
    }

    async fn a_panic_fails_the_attempt_with_its_message_and_never_the_process(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let boom = ctx.step("boom", |_| async { if true { panic!("no {}", "luck") } Ok::<(), AnyError>(()) }).await;
            Err::<(), AnyError>(AnyError::new(boom.unwrap_err().to_string()))
        });
        let direct = Workflow::new("direct", |_: Ctx, (): ()| async move {
            if true { panic!("in the workflow") }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone()).workflow(direct.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "step \"boom\" panicked: no luck");
        let run = lab.app().start(direct, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "direct panicked: in the workflow");
    }

    async fn a_panic_in_any_code_of_a_step_is_a_failed_attempt(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let twice = Retry::fixed(2, Duration::ZERO);
            let written = ctx.step("write", |s| async move { Ok::<_, AnyError>(Touchy(s.attempt())) });
            let written = written.retry(twice).await?;
            let dropped = ctx.step("drop", |s| async move {
                let _bomb = (s.attempt() == 1).then(|| Bomb);
                if s.attempt() == 1 { std::future::pending::<()>().await; }
                Ok::<u32, AnyError>(s.attempt())
            });
            let dropped = dropped.timeout(20.millis()).retry(twice).await?;
            let judged = ctx.step("judge", |s| async move {
                if s.attempt() == 1 { Err(PayError::Later) } else { Ok(s.attempt()) }
            });
            let judged = judged.retry(twice).retry_if(|_| panic!("no verdict")).await.map_err(|e| AnyError::new(e.to_string()))?;
            Ok::<_, AnyError>((written, dropped, judged))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), (Touchy(2), 2, 2));
        let journal = lab.test().journal(run.id()).await.unwrap();
        let failed = journal.iter().filter(|entry| entry.phase == outlast::Phase::Attempt);
        let failed: Vec<&str> = failed.map(|entry| entry.body.as_ref().unwrap().json().unwrap()).collect();
        assert_eq!(failed.len(), 3, "{failed:?}");
        for (attempt, message) in failed.iter().zip(["1 is not written", "dropped", "no verdict"]) {
            assert!(attempt.contains("panicked") && attempt.contains(message), "{attempt}");
        }
    }

    async fn work_that_is_given_up_may_panic_and_nobody_else_minds(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let long = |name| ctx.step(name, |_| { let ledger = ledger.clone(); async move {
                let _bomb = Bomb;
                ledger.note("began");
                std::future::pending::<Result<(), AnyError>>().await
            }});
            tokio::select! { slept = ctx.sleep(20.millis()) => slept?, _ = long("lost") => {} }
            long("cancelled").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("the second began", || { let ledger = ledger.clone(); async move { ledger.count("began") == 2 } }).await;
        run.cancel("enough").await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "cancelled: enough");
    }

    async fn steps_that_borrow_can_be_joined_in_every_way(lab: Lab) {
        // That this compiles is the point: a run's future must be `Send`.
        let flow = Workflow::new("flow", |ctx: Ctx, words: Vec<String>| async move {
            let word = &words[0];
            let (one, event) = tokio::join!(
                ctx.step("one", |_| async { Ok::<_, AnyError>(word.len()) }),
                ctx.event::<usize>("two"),
            );
            let bound = ctx.step("three", |s| length(word, s));
            let (three, four) = futures_util::future::join(bound, ctx.step("four", |s| length(word, s))).await;
            let each = words.iter().map(|word| ctx.step("each", move |_| async move { Ok::<_, AnyError>(word.len()) }));
            let each: usize = futures_util::future::try_join_all(each).await?.iter().sum();
            Ok::<usize, AnyError>(one? + event? + three? + four? + each)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, vec!["abc".to_owned(), "de".to_owned()]).await.unwrap();
        run.send("two", &10).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 24);
    }

    async fn an_attempt_that_takes_too_long_counts_as_failed(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let step = ctx.step("slow", |s| async move {
                if s.attempt() == 1 { std::future::pending::<()>().await; }
                Ok::<u32, AnyError>(s.attempt())
            });
            Ok::<u32, AnyError>(step.timeout(20.millis()).retry(Retry::fixed(2, Duration::ZERO)).await?)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 2);
    }

    async fn a_silent_body_is_given_up_and_the_next_attempt_gets_what_it_saved(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let step = ctx.step("copy", |s| async move {
                match s.saved::<u32>()? {
                    None => {
                        s.beat(&41)?;
                        std::future::pending::<()>().await;
                        Ok(0)
                    }
                    Some(saved) => Ok::<u32, AnyError>(saved + 1),
                }
            });
            Ok::<u32, AnyError>(step.heartbeat(30.millis()).retry(Retry::fixed(2, Duration::ZERO)).await?)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 42);
    }

    async fn equal_step_calls_in_one_run_are_two_steps(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let n = AtomicU32::new(0);
            let mut got = Vec::new();
            for _ in 0..3 {
                got.push(ctx.step("next", |_| async { Ok::<u32, AnyError>(n.fetch_add(1, Ordering::SeqCst)) }).await?);
            }
            Ok::<Vec<u32>, AnyError>(got)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), [0, 1, 2]);
        assert_eq!(lab.test().steps(run.id()).await.unwrap(), ["next", "next#2", "next#3"]);
    }

    async fn a_step_that_runs_now_is_visible(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.step("long", |_| std::future::pending::<Result<(), AnyError>>()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let client = lab.app().client().clone();
        lab.until("the step was announced", || {
            let (client, id) = (client.clone(), run.id());
            async move { client.status(id).await.unwrap().doing.iter().any(|doing| doing.name == "long") }
        }).await;
        assert_eq!(run.status().await.unwrap().status, Status::Running);
    }

    async fn bad_names_and_policies_are_refused_with_the_range(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let mut refused = Vec::new();
            for name in ["", "a#2", "nul\0", &"x".repeat(201)] {
                let error = ctx.step(name, |_| async { Ok::<(), AnyError>(()) }).await.unwrap_err();
                refused.push(error.outlast().map(|error| error.code().to_owned()).unwrap_or_default());
            }
            let retry = Retry::times(0);
            refused.push(ctx.step("r", |_| async { Ok::<(), AnyError>(()) }).retry(retry).await.unwrap_err().to_string());
            refused.push(ctx.sleep(Duration::from_secs(u64::MAX)).await.unwrap_err().to_string());
            refused.push(ctx.event::<u32>("").await.unwrap_err().to_string());
            refused.push(ctx.promise::<u32>("a#2").await.unwrap_err().to_string());
            refused.push(ctx.save("nul\0", &1).unwrap_err().to_string());
            let big = "x".repeat(2 << 20);
            let large = ctx.step("big", |_| { let big = big.clone(); async { Ok::<String, AnyError>(big) } }).await.unwrap_err();
            refused.push(large.to_string());
            Ok::<Vec<String>, AnyError>(refused)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let refused = run.result().await.unwrap();
        assert_eq!(refused[..4], ["invalid_argument", "invalid_argument", "invalid_character", "invalid_argument"]);
        assert_eq!(refused[4], "invalid number of attempts \"0\": 1 to 1,000,000");
        assert!(refused[5].contains("at most 100 years"), "{}", refused[5]);
        assert!(refused[6].starts_with("invalid event name"), "{}", refused[6]);
        assert!(refused[7].starts_with("invalid promise name"), "{}", refused[7]);
        assert!(refused[8].starts_with("invalid name of a saved value"), "{}", refused[8]);
        assert_eq!(refused[9], "the result of step \"big\" is too large: 2097154, the limit is 1048576");
    }

    async fn operations_in_a_scope_with_a_bad_name_say_so(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let mut refused = Vec::new();
            for name in ["", "a#2", "nul\0", &"x".repeat(201)] {
                let scope = ctx.scope(name).scope("inner");
                let step = scope.step("s", |_| async { Ok::<(), AnyError>(()) }).await.unwrap_err();
                assert_eq!(scope.saved::<u32>("n").unwrap_err(), scope.save("n", &1).unwrap_err());
                refused.push(step.to_string());
            }
            // Each name alone is short enough.
            let deep = ctx.scope(&"x".repeat(150)).scope(&"y".repeat(50));
            refused.push(deep.sleep(1.hour()).await.unwrap_err().to_string());
            Ok::<Vec<String>, AnyError>(refused)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let refused = lab.app().start(flow, ()).await.unwrap().result().await.unwrap();
        assert_eq!(refused[0], "invalid scope \"\": 1 to 200 bytes without control characters");
        assert_eq!(refused[1], "invalid scope \"a#2\": no '#': it marks the second call of one name");
        assert!(refused[2..4].iter().all(|error| error.starts_with("invalid scope")), "{refused:?}");
        assert!(refused[4].starts_with("invalid name with its scopes"), "{refused:?}");
    }

    async fn a_bad_name_that_no_error_can_be_given_for_blocks_the_run(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, ask: String| async move {
            match ask.as_str() {
                "patched" => drop(ctx.patched("nul\0")),
                "now" => drop(ctx.scope("nul\0").now()),
                "random" => drop(ctx.scope("").random()),
                _ => drop(ctx.scope("a#2").uuid()),
            }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        for (ask, reason) in [
            ("patched", r#"invalid patch "nul\\0""#),
            ("now", r#"invalid scope "nul\\0""#),
            ("random", r#"invalid scope """#),
            ("uuid", r#"invalid scope "a#2""#),
        ] {
            let run = lab.app().start(flow.clone(), ask.to_owned()).await.unwrap();
            lab.settle().await;
            let view = run.status().await.unwrap();
            assert_eq!(view.status, Status::Blocked, "{ask}");
            let said = view.reason.unwrap();
            assert!(said.starts_with(reason), "{ask}: {said}");
        }
    }

    async fn a_result_that_json_cannot_hold_fails_its_step_and_does_not_block_the_run(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let step = ctx.step("divide", |_| async { Ok::<f64, AnyError>(f64::NAN) });
            let refused = step.retry(Retry::times(9)).await.unwrap_err().to_string();
            ctx.sleep(1.hour()).await?;
            Ok::<String, AnyError>(refused)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(2.hours()).await;
        let refused = run.result().await.unwrap();
        assert!(refused.starts_with("invalid the result of step \"divide\""), "{refused}");
        assert!(refused.contains("NaN"), "{refused}");
    }

    async fn what_is_nested_too_deeply_to_be_read_again_is_refused_and_blocks_no_run(lab: Lab) {
        fn nested(depth: usize) -> serde_json::Value {
            (1..depth).fold(serde_json::json!([]), |inner, _| serde_json::json!([inner]))
        }
        let flow = Workflow::new("flow", |ctx: Ctx, input: serde_json::Value| async move {
            ctx.step("deep", |_| async { Ok::<_, AnyError>(nested(127)) }).await?;
            let refused = ctx.step("deeper", |_| async { Ok::<_, AnyError>(nested(128)) }).await.unwrap_err();
            assert_eq!(ctx.event::<serde_json::Value>("deep").await?, input);
            Ok::<_, AnyError>((refused.to_string(), input))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let deeper = lab.app().start(flow.clone(), nested(128)).await.err().unwrap();
        assert!(deeper.to_string().ends_with("at most 127 levels of nesting"), "{deeper}");
        let run = lab.app().start(flow.clone(), nested(126)).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        assert_eq!(lab.app().send(run, "deep", &nested(128)).await.unwrap_err().code(), "invalid_argument");
        lab.app().send(run, "deep", &nested(126)).await.unwrap();
        let (refused, output) = lab.app().handle(&flow, run).result().await.unwrap();
        assert!(refused.starts_with("invalid the result of step \"deeper\""), "{refused}");
        assert_eq!(output, nested(126));
    }

    async fn errors_without_bound_are_kept_within_bounds(lab: Lab) {
        #[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
        #[error("it said {0}")]
        struct Huge(String);
        fn huge() -> Huge {
            Huge("no! ".repeat(1 << 20))
        }
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let own = ctx.step("own", |_| async { Err::<(), _>(huge()) }).await.unwrap_err();
            let any = ctx.step("any", |_| async { Err::<(), _>(AnyError::from(huge())) }).retry(Retry::times(2)).await;
            let panic = ctx.step("panic", |_| async { std::panic::resume_unwind(Box::new(huge().0)) });
            let panic: Result<(), Failure<AnyError>> = panic.await;
            ctx.sleep(1.minute()).await?;
            let said = [own.to_string(), any.unwrap_err().to_string(), panic.unwrap_err().to_string()];
            Err::<(), AnyError>(AnyError::new(said.join("\n")))
        });
        let fails = Workflow::new("fails", |_: Ctx, (): ()| async { Err::<(), Huge>(huge()) });
        lab.start(|app| app.workflow(flow.clone()).workflow(fails.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(2.minutes()).await;
        let said = run.result().await.unwrap_err().to_string();
        assert!(said.starts_with("the error \"it said no! no!"), "{said}");
        assert!(said.contains("is too large: 4194306, the limit is 1048576\nit said no! no!"), "{said}");
        let bodies = lab.test().journal(run.id()).await.unwrap().into_iter().filter_map(|entry| entry.body);
        assert!(bodies.map(|body| body.bytes.len()).max().unwrap() < 40_000);
        let error = lab.app().start(fails, ()).await.unwrap().result().await.unwrap_err();
        assert_eq!(error.outlast().unwrap().code(), "payload_too_large");
    }

    async fn what_handlers_log_is_kept_once_with_the_run(lab: Lab) {
        use tracing_subscriber::layer::SubscriberExt;
        let subscriber = tracing_subscriber::registry().with(outlast::RunLogs::default());
        // The subscriber of this test's process; other tests in the same process may have set one.
        let _ = tracing::subscriber::set_global_default(subscriber);
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            tracing::info!(who = "me", "before");
            ctx.sleep(1.hour()).await?;
            tracing::info!("after");
            ctx.sleep(1.hour()).await?;
            let logs = |name: &'static str| {
                ctx.step(name, move |_| async move {
                    tracing::info!("in {name}");
                    // What goes on later, beside another, is still of its step.
                    tokio::task::yield_now().await;
                    tracing::info!("still in {name}");
                    Ok::<(), AnyError>(())
                })
            };
            let (first, second) = futures_util::future::join(logs("pack"), logs("pack")).await;
            first.and(second)?;
            tracing::info!("at the end");
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(3.hours()).await;
        run.result().await.unwrap();
        let logs = lab.app().logs(run.id(), 100).await.unwrap();
        let lines: Vec<_> = logs.iter().map(|line| (line.message.as_str(), line.step.as_deref())).collect();
        let (one, two) = (Some("pack"), Some("pack#2"));
        assert_eq!(lines[..2], [("before who=\"me\"", None), ("after", None)]);
        assert_eq!(lines.last(), Some(&("at the end", None)));
        let mut inside = lines[2..6].to_vec();
        inside.sort_unstable_by_key(|(message, step)| (*step, *message));
        assert_eq!(
            inside,
            [("in pack", one), ("still in pack", one), ("in pack", two), ("still in pack", two)],
            "lines of steps have their step"
        );
    }

    async fn what_an_undo_logs_is_its_own(lab: Lab) {
        use tracing_subscriber::layer::SubscriberExt;
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(outlast::RunLogs::default()));
        let says = |what: &'static str| async move {
            tracing::info!("{what}");
            Ok::<(), AnyError>(())
        };
        let flow = Workflow::new("flow", move |ctx: Ctx, (): ()| async move {
            ctx.step("room", |_| says("booked")).undo(move |_, ()| says("given back")).await?;
            Err::<(), _>(AnyError::new("no trip"))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        run.result().await.unwrap_err();
        let logs = lab.app().logs(run.id(), 100).await.unwrap();
        let lines: Vec<_> = logs.iter().map(|line| (line.message.as_str(), line.step.as_deref())).collect();
        assert_eq!(lines, [("booked", Some("room")), ("given back", Some("undo:room"))]);
    }
}
