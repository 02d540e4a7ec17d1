//! Repair: a run that went wrong goes on from where it did, and what counted still counts.

use outlast::prelude::*;
use outlast::{Op, Phase};

use crate::engine_test;
use crate::harness::Ledger;

/// A step that notes that it ran; what `broken` names fails until it is mended.
async fn step(ctx: &Ctx, name: &'static str) -> Result<String, Failure<AnyError>> {
    let ledger = ctx.state::<Ledger>();
    ctx.step(name, |_| async {
        ledger.note(name);
        match ledger.count("mended") > 0 || !name.starts_with("bad") {
            true => Ok(format!("{name} done")),
            false => Err(AnyError::new(format!("{name} is broken"))),
        }
    })
    .await
}

fn flow() -> Workflow<(), String, AnyError> {
    Workflow::new("flow", |ctx: Ctx, (): ()| async move {
        let first = step(&ctx, "first").await?;
        let second = step(&ctx, "bad").await?;
        let third = step(&ctx, "third").await?;
        Ok(format!("{first}, {second}, {third}"))
    })
}

/// Books something that is given back when undone, and notes with what key.
async fn book(ctx: &Ctx) -> Result<String, Failure<AnyError>> {
    let (ledger, undone) = (ctx.state::<Ledger>(), ctx.state::<Ledger>());
    let key = |key: String| key.split_once('/').map(|(_, name)| name.to_owned()).unwrap_or_default();
    ctx.step("book", |s| {
        ledger.note(key(s.key()));
        async { Ok::<String, AnyError>("seat".into()) }
    })
    .undo(move |s, seat: String| {
        undone.note(format!("{} {seat}", key(s.key())));
        async { Ok::<(), AnyError>(()) }
    })
    .await
}

/// Locks something that cannot be unlocked.
async fn lock(ctx: &Ctx) -> Result<(), Failure<AnyError>> {
    let ledger = ctx.state::<Ledger>();
    let undo = move |_, ()| {
        ledger.note("unlock");
        async { Err(AnyError::new("the key is lost")) }
    };
    let step = ctx.step("lock", |_| async { Ok::<(), AnyError>(()) });
    step.undo(undo).undo_retry(Retry::times(1)).await
}

const NAMES: [&str; 6] = ["l1", "l2", "u1", "r1", "leaf", "r2"];

/// A step that is broken if it is the one, until it is mended.
async fn one_of(ctx: &Ctx, name: &'static str, broken: &str) -> Result<String, Failure<AnyError>> {
    let (ledger, undone) = (ctx.state::<Ledger>(), ctx.state::<Ledger>());
    let is_broken = name == broken;
    let step = ctx.step(name, |_| async {
        ledger.note(name);
        match is_broken && ledger.count("mended") == 0 {
            true => Err(AnyError::new(format!("{name} is broken"))),
            false => Ok(name.to_owned()),
        }
    });
    match name.starts_with('u') {
        false => step.await,
        true => {
            let undo = move |_, _: String| {
                undone.note(format!("undo {name}"));
                async { Ok::<(), AnyError>(()) }
            };
            step.undo(undo).await
        }
    }
}

fn leaf() -> Workflow<String, String, AnyError> {
    Workflow::new("leaf", |ctx: Ctx, broken: String| async move { Ok(one_of(&ctx, "leaf", &broken).await?) })
}

/// Two branches side by side, of steps, a sleep, an event, something to undo, and a child.
fn branches() -> Workflow<String, String, AnyError> {
    Workflow::new("branches", |ctx: Ctx, broken: String| async move {
        let left = async {
            let one = one_of(&ctx, "l1", &broken).await?;
            ctx.sleep(1.hour()).await?;
            let two = one_of(&ctx, "l2", &broken).await?;
            let go: u32 = ctx.event("go").await?;
            let undoable = one_of(&ctx, "u1", &broken).await?;
            Ok::<String, AnyError>(format!("{one} {two} {go} {undoable}"))
        };
        let right = async {
            let one = one_of(&ctx, "r1", &broken).await?;
            let child = ctx.start(leaf(), broken.clone()).await?.result().await?;
            ctx.sleep(1.hour()).await?;
            let two = one_of(&ctx, "r2", &broken).await?;
            Ok::<String, AnyError>(format!("{one} {child} {two}"))
        };
        let (left, right) = tokio::try_join!(left, right)?;
        Ok(format!("{left} {right}"))
    })
}

engine_test! {
    async fn a_failed_run_goes_on_from_its_failed_step(lab: Lab) {
        lab.start(|app| app.workflow(flow())).await;
        let run = lab.app().start(flow(), ()).key("order-1").await.unwrap().id();
        let failed = lab.app().handle(&flow(), run).result().await.unwrap_err();
        assert_eq!(failed.to_string(), "bad is broken");
        lab.restart(|app| app.workflow(flow())).await;
        let plan = lab.app().repair(run).plan().await.unwrap();
        assert_eq!((plan.kept, plan.again), (1, vec!["bad".to_owned()]));
        assert_eq!(lab.app().status(run).await.unwrap().status, Status::Failed, "a plan changes nothing");
        lab.ledger.note("mended");
        assert!(lab.app().retry(Target::key("flow", "order-1")).await.unwrap());
        let result = lab.app().handle(&flow(), run).result().await.unwrap();
        assert_eq!(result, "first done, bad done, third done");
        assert_eq!(lab.ledger.notes(), ["first", "bad", "mended", "bad", "third"]);
        assert!(matches!(lab.app().retry(run).await, Err(Error::NotRetryable { .. })), "it has completed");
    }

    async fn a_run_may_fail_and_be_tried_again_any_number_of_times(lab: Lab) {
        lab.start(|app| app.workflow(flow())).await;
        let run = lab.app().start(flow(), ()).await.unwrap();
        for _ in 0..3 {
            assert!(run.result().await.is_err());
            assert!(lab.app().repair(run.id()).reason("once more").by("ops").await.unwrap());
            lab.settle().await;
        }
        lab.ledger.note("mended");
        assert!(lab.app().retry(run.id()).await.unwrap());
        assert!(run.result().await.is_ok());
        assert_eq!(lab.ledger.count("first"), 1);
        let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
        let repairs = journal.iter().filter(|entry| entry.op == Op::Revise).count();
        let void = journal.iter().filter(|entry| entry.phase == Phase::Void).count();
        assert_eq!((repairs, void), (4, 4), "what counts no more is kept for people to see: {journal:#?}");
    }

    async fn what_was_undone_runs_again_with_a_key_of_its_own(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            step(&ctx, "first").await?;
            book(&ctx).await?;
            step(&ctx, "bad").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap().id();
        for _ in 0..2 {
            assert!(lab.app().handle(&flow, run).result().await.is_err());
            assert_eq!(lab.app().repair(run).plan().await.unwrap().again, ["book", "bad"]);
            lab.restart(|app| app.workflow(flow.clone())).await;
            if lab.ledger.count("book#undo seat") > 0 && lab.ledger.count("book#~1") > 0 {
                lab.ledger.note("mended");
            }
            assert!(lab.app().retry(run).await.unwrap());
            lab.settle().await;
        }
        assert!(lab.app().handle(&flow, run).result().await.is_ok());
        let keys = ["first", "book", "bad", "book#undo seat", "book#~1", "bad", "book#~1#undo seat"];
        assert_eq!(lab.ledger.notes(), [&keys[..], &["mended", "book#~2", "bad"]].concat());
    }

    async fn a_cancelled_run_goes_on_where_it_was_stopped(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            step(&ctx, "first").await?;
            let said: String = ctx.event("go").await?;
            step(&ctx, "third").await?;
            Ok::<String, AnyError>(said)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        run.cancel("enough").await.unwrap();
        assert!(run.result().await.unwrap_err().is_cancelled());
        assert!(lab.app().retry(run.id()).await.unwrap());
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Waiting);
        lab.app().send(run.id(), "go", "on").await.unwrap();
        assert_eq!(run.result().await.unwrap(), "on");
        assert_eq!(lab.ledger.notes(), ["first", "third"]);
    }

    async fn events_that_were_consumed_by_what_counts_no_more_arrive_again(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx).await?;
            let (one, two): (u32, u32) = (ctx.event("go").await?, ctx.scope("inner").event("go").await?);
            let paid: u32 = ctx.promise("paid").await?;
            step(&ctx, "bad").await?;
            Ok::<u32, AnyError>(100 * one + 10 * two + paid)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap().id();
        lab.app().send(run, "go", &1).await.unwrap();
        lab.app().send(run, "go", &2).await.unwrap();
        lab.app().settle(run, "paid", &3).await.unwrap();
        assert!(lab.app().handle(&flow, run).result().await.is_err());
        assert_eq!(lab.app().repair(run).plan().await.unwrap().messages, 3);
        lab.ledger.note("mended");
        lab.restart(|app| app.workflow(flow.clone())).await;
        assert!(lab.app().retry(run).await.unwrap());
        assert_eq!(lab.app().handle(&flow, run).result().await.unwrap(), 123);
    }

    async fn a_result_can_be_replaced_and_the_run_goes_on_with_it(lab: Lab) {
        lab.start(|app| app.workflow(flow())).await;
        let run = lab.app().start(flow(), ()).await.unwrap();
        assert!(run.result().await.is_err());
        let repair = || lab.app().repair(run.id()).replace("bad", "by hand").reason("its table is gone").by("ops");
        assert!(repair().plan().await.unwrap().again.is_empty());
        assert!(repair().await.unwrap());
        assert_eq!(run.result().await.unwrap(), "first done, by hand, third done");
        assert_eq!(lab.ledger.notes(), ["first", "bad", "third"]);
        let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
        let audit = journal.iter().find(|entry| entry.op == Op::Revise).unwrap();
        let audit = audit.body.as_ref().unwrap().json().unwrap();
        assert!(audit.contains("ops") && audit.contains("its table is gone"), "{audit}");
        assert!(journal.iter().any(|entry| &*entry.name == "bad" && entry.phase == Phase::Failed), "{journal:#?}");
    }

    async fn a_run_that_waits_can_get_another_result_if_the_rest_fits(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let first = step(&ctx, "first").await?;
            ctx.event::<u32>("go").await?;
            Ok::<String, AnyError>(first)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        assert!(lab.app().repair(run.id()).replace("first", "another").await.unwrap());
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Waiting, "it waits for the same");
        lab.app().send(run.id(), "go", &1).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "another");
        assert_eq!(lab.ledger.notes(), ["first"]);
    }

    async fn what_was_undone_already_stays_undone_when_another_undo_is_said_to_be_done(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            lock(&ctx).await?;
            book(&ctx).await?;
            step(&ctx, "bad").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::UndoFailed);
        assert!(lab.app().repair(run.id()).replace("undo:lock", &()).await.unwrap());
        assert_eq!(run.result().await.unwrap_err().to_string(), "bad is broken");
        assert_eq!(lab.ledger.notes(), ["book", "bad", "book#undo seat", "unlock"]);
    }

    async fn events_that_were_not_read_are_there_when_the_run_is_tried_again(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx).await?;
            let first: u32 = ctx.event("go").await?;
            step(&ctx, "bad").await?;
            let (second, paid): (u32, u32) = (ctx.event("go").await?, ctx.promise("paid").await?);
            Ok::<u32, AnyError>(100 * first + 10 * second + paid)
        });
        let to = Target::key("flow", "k");
        lab.start(|app| app.workflow(flow.clone())).await;
        lab.app().send(to.clone(), "go", &1).await.unwrap();
        lab.app().send(to.clone(), "go", &2).await.unwrap();
        lab.app().settle(to.clone(), "paid", &3).await.unwrap();
        let run = lab.app().start(flow.clone(), ()).key("k").await.unwrap().id();
        assert!(lab.app().handle(&flow, run).result().await.is_err());
        lab.ledger.note("mended");
        lab.restart(|app| app.workflow(flow.clone())).await;
        assert!(lab.app().retry(run).await.unwrap());
        assert_eq!(lab.app().handle(&flow, run).result().await.unwrap(), 123);
    }

    async fn an_undo_that_gave_up_can_be_said_to_be_done(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx).await?;
            lock(&ctx).await?;
            step(&ctx, "bad").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::UndoFailed);
        assert!(lab.app().repair(run.id()).replace("undo:lock", &()).reason("a locksmith came").await.unwrap());
        assert_eq!(run.result().await.unwrap_err().to_string(), "bad is broken");
        assert_eq!(run.status().await.unwrap().status, Status::Failed);
        assert_eq!(lab.ledger.notes(), ["book", "bad", "unlock", "book#undo seat"]);
    }

    async fn code_that_was_wrong_itself_is_tried_again_when_it_is_mended(lab: Lab) {
        fn with(limit: u32) -> Workflow<(), u32, AnyError> {
            Workflow::new("flow", move |ctx: Ctx, (): ()| async move {
                let found: u32 = ctx.step("find", async |_| Ok::<_, AnyError>(7)).await?;
                match found < limit {
                    true => Ok(found),
                    false => Err(AnyError::new("too much")),
                }
            })
        }
        lab.start(|app| app.workflow(with(5))).await;
        let run = lab.app().start(with(5), ()).await.unwrap().id();
        assert!(lab.app().handle(&with(5), run).result().await.is_err());
        lab.restart(|app| app.workflow(with(10))).await;
        assert!(lab.app().repair(run).plan().await.unwrap().again.is_empty());
        assert!(lab.app().retry(run).await.unwrap());
        assert_eq!(lab.app().handle(&with(10), run).result().await.unwrap(), 7);
    }

    async fn a_run_with_branches_is_repaired_wherever_it_failed(lab: Lab) {
        lab.start(|app| app.workflow(branches()).workflow(leaf())).await;
        for broken in NAMES {
            // It is there before the run: whatever fails first, nobody sends it again.
            lab.app().send(Target::key("branches", broken), "go", &5).await.unwrap();
            let run = lab.app().start(branches(), broken.to_owned()).key(broken).await.unwrap();
            lab.advance(2.hours()).await;
            let failed = run.result().await.unwrap_err().to_string();
            assert_eq!(failed, format!("{broken} is broken"));
            let plan = lab.app().repair(run.id()).plan().await.unwrap();
            let journal = lab.app().journal(run.id(), 0, 100).await.unwrap();
            let recorded = journal.iter().filter(|entry| entry.phase != Phase::Opened);
            let before: Vec<String> = recorded.map(|entry| entry.name.to_string()).collect();
            lab.ledger.take();
            lab.ledger.note("mended");
            assert!(lab.app().retry(run.id()).await.unwrap(), "{broken}");
            lab.advance(2.hours()).await;
            let status = run.status().await.unwrap();
            assert_eq!(status.status, Status::Completed, "{broken}: {:?}", status.reason);
            assert_eq!(run.result().await.unwrap(), "l1 l2 5 u1 r1 leaf r2");
            // What was said to run again did; the rest is what the run had not come to.
            let after = lab.ledger.take();
            let twice: Vec<&String> = after.iter().filter(|name| before.contains(name)).collect();
            let said: Vec<String> = plan.again.iter().map(|name| name.replace("child:", "")).collect();
            let unsaid: Vec<_> = twice.iter().filter(|name| !said.contains(name)).collect();
            assert!(unsaid.is_empty(), "{broken}: {unsaid:?} of {before:?}, {after:?}, {said:?}");
        }
    }

    async fn a_blocked_run_is_looked_at_once_more_when_somebody_says_so(lab: Lab) {
        // Code that goes by something else than its journal, and is mended without a new process.
        let moody = || Workflow::new("moody", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            if ledger.count("strays") > ledger.count("mended") {
                ctx.event::<()>("never").await?;
            }
            ctx.step("first", |_| async {
                ledger.note("did");
                Ok::<(), AnyError>(())
            }).await?;
            ctx.event::<()>("go").await?;
            Ok::<(), AnyError>(())
        });
        let with = |app: Outlast| crate::harness::once(app).workflow(moody());
        lab.start(with).await;
        let run = lab.app().start(moody(), ()).await.unwrap().id();
        lab.settle().await;
        lab.ledger.note("strays");
        lab.restart(with).await;
        lab.app().send(run, "go", &()).await.unwrap();
        lab.settle().await;
        let view = lab.app().status(run).await.unwrap();
        let reason = view.reason.clone().unwrap();
        assert_eq!(view.status, Status::Blocked, "{view:?}");

        // Held back and let go, it is looked at too, and is blocked for the same reason.
        assert!(lab.app().pause(run, "for a look").await.unwrap());
        assert_eq!(lab.app().status(run).await.unwrap().status, Status::Paused);
        assert_eq!(lab.app().verify().await.unwrap().lacking, 0);
        assert!(lab.app().resume(run).await.unwrap());
        lab.settle().await;
        let view = lab.app().status(run).await.unwrap();
        assert_eq!((view.status, view.reason.as_ref()), (Status::Blocked, Some(&reason)));

        assert!(lab.app().repair(run).plan().await.unwrap().again.is_empty());
        assert!(lab.app().retry(run).await.unwrap(), "it is looked at once more");
        lab.settle().await;
        assert_eq!(lab.app().status(run).await.unwrap().reason, Some(reason));
        lab.ledger.note("mended");
        assert!(lab.app().retry(run).await.unwrap());
        lab.app().handle(&moody(), run).result().await.unwrap();
        assert!(lab.app().retry(run).await.is_err(), "it has completed");
        assert_eq!(lab.ledger.count("did"), 1);
    }

    async fn a_run_whose_journal_is_being_deleted_is_neither_tried_again_nor_forked(lab: Lab) {
        lab.start(|app| app.workflow(flow())).await;
        let run = lab.app().start(flow(), ()).await.unwrap();
        assert!(run.result().await.is_err());
        // A journal that is too long to be deleted at once.
        let id = lab.world.sql_id(run.id());
        lab.world.raw(&format!(
            "insert into outlast.journal (shard, run, pos, kind, epoch, at, name)
             with recursive n (pos) as (select 100 union all select pos + 1 from n where pos < 12000)
             select r.shard, r.id, n.pos, 90, 1, 0, 'value' || n.pos from outlast.runs as r, n where r.id = {id}"
        )).await;
        lab.world.pass(2.days()).await;
        let purge = outlast_store::Control::Purge(outlast_store::Purge::older_than(1.day(), 10));
        let repair = lab.app().repair(run.id()).plan().await.unwrap();
        assert_eq!(repair.run, run.id(), "nothing is deleted yet");
        lab.world.control(&purge).await;
        let before = lab.world.snapshot().await.without(&["nodes"]);
        let refusals = [
            lab.app().retry(run.id()).await.unwrap_err(),
            lab.app().repair(run.id()).from("first").plan().await.unwrap_err(),
            lab.app().fork(run.id()).from("first").await.unwrap_err(),
        ];
        for refused in refusals {
            assert_eq!(refused.code(), "not_retryable");
            assert!(refused.to_string().contains("its journal is being deleted"), "{refused}");
        }
        // Whoever had looked before it began is refused under the run's lock.
        let retry = outlast_store::Control::Retry { run: outlast_store::Address::Run(run.id()), epoch: None, input: None, repair: None };
        let answer = lab.world.control(&retry).await;
        assert_eq!(answer, outlast_store::Controlled::Purging { run: run.id() });
        assert_eq!(lab.world.snapshot().await.without(&["nodes"]), before, "nothing is half done");
        while lab.app().purge(1.day()).await.unwrap() > 0 {}
        assert!(lab.app().status(run.id()).await.is_err());
    }

    async fn what_cannot_be_repaired_is_refused_with_the_reason(lab: Lab) {
        lab.start(|app| app.workflow(flow())).await;
        let run = lab.app().start(flow(), ()).await.unwrap();
        assert!(run.result().await.is_err());
        let refused = lab.app().repair(run.id()).from("frist").await.unwrap_err().to_string();
        assert!(refused.contains("frist") && refused.contains("first"), "{refused}");
        let refused = lab.app().retry_with(run.id(), &1).await.unwrap_err().to_string();
        assert!(refused.contains("forked"), "{refused}");
        assert_eq!(run.status().await.unwrap().status, Status::Failed, "nothing was changed");
    }
}
