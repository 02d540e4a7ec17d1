//! Waits: timers that are never early, events consumed once and in order, promises settled once.

use std::time::Duration;

use outlast::prelude::*;
use outlast::{Entry, Op, Target};

use crate::engine_test;
use crate::harness::Ledger;

fn two_sleeps() -> Workflow<(), (), AnyError> {
    Workflow::new("two_sleeps", |ctx: Ctx, (): ()| async move {
        let ledger = ctx.state::<Ledger>();
        ctx.sleep(1.hour()).await?;
        ctx.step("first", |_| async {
            ledger.note("first");
            Ok::<(), AnyError>(())
        })
        .await?;
        ctx.sleep(2.hours()).await?;
        ctx.step("second", |_| async {
            ledger.note("second");
            Ok::<(), AnyError>(())
        })
        .await?;
        Ok(())
    })
}

engine_test! {
    async fn each_sleep_takes_its_own_time_once_also_after_a_crash(lab: Lab) {
        let flow = two_sleeps();
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.advance(59.minutes()).await;
        assert!(lab.ledger.notes().is_empty(), "never early");
        lab.advance(1.minute()).await;
        assert_eq!(lab.ledger.notes(), ["first"]);
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(115.minutes()).await;
        assert_eq!(lab.ledger.notes(), ["first"], "the second sleep takes its own two hours");
        lab.advance(5.minutes()).await;
        assert_eq!(lab.ledger.notes(), ["first", "second"]);
        assert_eq!(run.status().await.unwrap().status, Status::Completed);
    }

    async fn an_event_that_wakes_the_run_does_not_shorten_its_sleep(lab: Lab) {
        let flow = two_sleeps();
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.advance(30.minutes()).await;
        run.send("nobody waits for this", &1).await.unwrap();
        lab.settle().await;
        lab.advance(29.minutes()).await;
        assert!(lab.ledger.notes().is_empty());
        lab.advance(1.minute()).await;
        assert_eq!(lab.ledger.notes(), ["first"]);
    }

    async fn a_wait_that_times_out_says_so_once(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let first = ctx.event::<u32>("go").timeout(1.hour()).await;
            let second = ctx.event::<u32>("go").timeout(1.hour()).await;
            Ok::<_, AnyError>((first.unwrap_err().to_string(), second?))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(90.minutes()).await;
        run.send("go", &7).await.unwrap();
        let (first, second) = run.result().await.unwrap();
        assert_eq!((first.as_str(), second), ("event \"go\" timed out after 3600000 ms", 7));
    }

    async fn events_are_consumed_once_in_the_order_sent(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let mut got = Vec::new();
            for _ in 0..4 {
                got.push(ctx.event::<u32>("n").await?);
                ctx.sleep(1.minute()).await?;
            }
            Ok::<_, AnyError>(got)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        for n in 0..3 { run.send("n", &n).await.unwrap(); }
        run.send("other", &99).await.unwrap();
        lab.advance(2.minutes()).await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.app().send(run.id(), "n", &3).await.unwrap();
        lab.advance(10.minutes()).await;
        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), [0, 1, 2, 3]);
    }

    async fn a_message_that_nobody_awaits_yet_is_kept_while_others_wake_the_run(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let mut seen = Vec::new();
            for name in ["first", "second", "third"] {
                seen.push(ctx.event::<u32>(name).await?);
            }
            Ok::<Vec<u32>, AnyError>(seen)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        for (name, value) in [("third", 3_u32), ("second", 2), ("first", 1)] {
            run.send(name, &value).await.unwrap();
            lab.settle().await;
        }
        assert_eq!(run.status().await.unwrap().status, Status::Completed);
        assert_eq!(run.result().await.unwrap(), [1, 2, 3]);
    }

    async fn a_wait_of_moments_stays_in_hand_and_a_longer_one_does_not(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, time: Duration| async move {
            let due = ctx.now() + time;
            ctx.sleep(time).await?;
            assert!(ctx.now() >= due, "never early");
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        for (time, turns) in [(20.millis(), 1), (400.millis(), 2)] {
            let run = lab.app().start(flow.clone(), time).await.unwrap();
            run.result().await.unwrap();
            assert_eq!(run.status().await.unwrap().epoch, turns, "{time:?}");
        }
    }

    async fn an_event_sent_before_the_run_exists_is_kept_for_it(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let event = ctx.event::<String>("hello").await?;
            let promise = ctx.promise::<String>("word").await?;
            Ok::<_, AnyError>(format!("{event} {promise}"))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        lab.app().send(Target::key("flow", "k-1"), "hello", "early").await.unwrap();
        lab.app().settle(Target::key("flow", "k-1"), "word", "bird").await.unwrap();
        let run = lab.app().start(flow, ()).key("k-1").await.unwrap();
        assert!(run.created());
        assert_eq!(run.result().await.unwrap(), "early bird");
    }

    async fn a_promise_is_settled_once_from_anywhere(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let paid = ctx.promise::<u64>("paid");
            ctx.save("token", &paid.token()?)?;
            Ok::<_, AnyError>(paid.await?)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        let token = format!("{}.paid", run.id());
        lab.app().settle_token(&token, &500).await.unwrap();
        let again = lab.app().settle_token(&token, &600).await.unwrap_err();
        assert!(matches!(again, Error::AlreadySettled { .. } | Error::Closed { .. }), "{again}");
        assert_eq!(run.result().await.unwrap(), 500);
        assert!(lab.app().settle_token("nonsense", &1).await.is_err());
    }

    async fn every_life_of_a_run_has_its_own_promise(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, sum: u64| async move {
            let ledger = ctx.state::<Ledger>();
            let paid = ctx.promise::<u64>("paid");
            let token = paid.token()?;
            ctx.step("ask", |_| async { ledger.note(&token); Ok::<(), AnyError>(()) }).await?;
            let sum = match paid.timeout(1.hour()).await {
                Err(Error::TimedOut { .. }) => sum,
                cents => sum + cents?,
            };
            if sum < 1111 { return ctx.continue_as_new(sum).await; }
            Ok::<u64, AnyError>(sum)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), 0).key("k-1").await.unwrap();
        let token = async |life: usize| {
            let ledger = lab.ledger.clone();
            lab.until("the life began", || { let ledger = ledger.clone(); async move { ledger.notes().len() > life } }).await;
            lab.ledger.notes()[life].clone()
        };
        let first = token(0).await;
        assert_eq!(first, format!("{}.paid", run.id()));
        lab.advance(1.hour()).await;

        let second = token(1).await;
        lab.app().settle_token(&first, &5).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Waiting, "a token of a life that is over settles nothing");
        lab.app().settle_token(&second, &1).await.unwrap();

        token(2).await;
        let again = lab.app().settle_token(&second, &7).await.unwrap_err();
        assert_eq!(again, Error::AlreadySettled { name: "paid".into(), run: run.id() });
        run.settle("paid", &10).await.unwrap();

        token(3).await;
        lab.app().settle(Target::key("flow", "k-1"), "paid", &100).await.unwrap();

        token(4).await;
        let client = lab.app().client().clone();
        lab.app().transaction(async |tx: Tx| client.settle_in_tx(&tx, run.id(), "paid", &1000).await).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 1111);
    }

    async fn an_event_wins_a_select_against_a_long_step(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let long = ctx.step("long", |_| { ledger.note("long began"); std::future::pending::<Result<(), AnyError>>() });
            let won = tokio::select! {
                event = ctx.event::<String>("stop") => event?,
                _ = long => "the step".to_owned(),
            };
            ctx.sleep(1.hour()).await?;
            Ok::<_, AnyError>(won)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        let ledger = lab.ledger.clone();
        lab.until("the step began", || { let ledger = ledger.clone(); async move { ledger.count("long began") == 1 } }).await;
        run.send("stop", "the event").await.unwrap();
        lab.advance(30.minutes()).await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(2.hours()).await;
        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), "the event");
        assert_eq!(lab.ledger.count("long began"), 1, "the branch that lost does not start again on replay");
    }

    async fn a_timer_fires_while_a_step_runs(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let long = ctx.step("long", |_| std::future::pending::<Result<(), AnyError>>());
            let won = tokio::select! {
                slept = ctx.sleep(20.millis()) => { slept?; "timer" },
                _ = long => "step",
            };
            Ok::<_, AnyError>(won.to_owned())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "timer");
    }

    async fn a_run_that_takes_longer_than_its_timeout_fails_with_that(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.event::<u32>("never").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).timeout(1.hour()).await.unwrap();
        lab.advance(59.minutes()).await;
        assert_eq!(run.status().await.unwrap().status, Status::Waiting);
        lab.advance(1.minute()).await;
        let error = run.result().await.unwrap_err();
        assert!(matches!(error.outlast(), Some(Error::TimedOut { .. })), "{error}");
    }

    async fn saved_state_and_tags_are_seen_from_outside(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            assert_eq!(ctx.saved::<u32>("n")?, None);
            ctx.save("n", &1)?;
            ctx.tag("customer", "42")?;
            ctx.sleep(1.hour()).await?;
            assert_eq!(ctx.saved::<u32>("n")?, Some(1));
            ctx.save("n", &2)?;
            ctx.event::<u32>("end").await?;
            Ok::<u32, AnyError>(ctx.saved("n")?.unwrap_or_default())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).tag("kind", "test").await.unwrap();
        let saved = async || {
            let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
            let saved = journal.into_iter().filter(|entry| entry.op == Op::State);
            let value = |entry: Entry| entry.body.unwrap().decode::<u32>("it").unwrap();
            saved.map(|entry| (entry.name.clone(), value(entry))).collect::<Vec<_>>()
        };
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Waiting);
        assert_eq!(saved().await, [("n".into(), 1)], "written with the suspension");
        lab.advance(2.hours()).await;
        assert_eq!(saved().await, [("n".into(), 1), ("n#2".into(), 2)]);
        let filter = outlast::Filter { tags: vec![("customer".into(), "42".into()), ("kind".into(), "test".into())], ..Default::default() };
        assert_eq!(lab.app().list(&filter, None, 10).await.unwrap().runs.len(), 1);
        run.send("end", &0).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 2);
    }

    async fn code_sets_so_many_tags_and_no_more(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            for n in 0..64 {
                ctx.tag(&n.to_string(), "x")?;
            }
            ctx.sleep(1.hour()).await?;
            ctx.tag("0", "another value")?;
            Ok::<Error, AnyError>(ctx.tag("64", "x").unwrap_err())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(2.hours()).await;
        let refused = run.result().await.unwrap();
        assert_eq!(refused.to_string(), "the number of tags is too large: 65, the limit is 64");
    }

    async fn a_timer_does_not_wait_for_a_poll(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.sleep(50.millis()).await?;
            ctx.sleep_until(ctx.now() + 50.millis()).await?;
            Ok::<(), AnyError>(())
        });
        // Without a poll for an hour, only the exact due time can wake the run.
        lab.start(|app| app.workflow(flow.clone()).settings(|s| s.poll_every = 1.hour())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        let ended = tokio::time::timeout(20.seconds(), run.result()).await;
        ended.expect("the timers fire by themselves").unwrap();
    }

    async fn a_promise_settled_with_something_else_says_so(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let wrong = ctx.promise::<u32>("n").await.unwrap_err();
            Ok::<String, AnyError>(wrong.code().to_owned())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        run.settle("n", "no number").await.unwrap();
        assert_eq!(run.result().await.unwrap(), "undecodable");
    }

    async fn names_in_a_scope_count_by_themselves(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            for scope in [ctx.scope("a"), ctx.scope("a"), ctx.clone()] {
                scope.step("x", |_| async { Ok::<(), AnyError>(()) }).await?;
            }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        run.result().await.unwrap();
        assert_eq!(lab.test().steps(run.id()).await.unwrap(), ["a/x", "a#2/x", "x"]);
    }
}
