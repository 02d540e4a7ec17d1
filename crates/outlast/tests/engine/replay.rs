//! Replay: what happened happens again, on this node or another, and code that does not fit is stopped.

use std::sync::atomic::{AtomicU32, Ordering};

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::Ledger;

/// Concurrency, randomness and branches whose outcome depends on what came first.
fn tangled() -> Workflow<u32, Vec<String>, AnyError> {
    Workflow::new("tangled", |ctx: Ctx, n: u32| async move {
        let ledger = ctx.state::<Ledger>();
        let note = |what: &str| {
            ledger.note(what);
            std::future::ready(Ok::<String, AnyError>(what.to_owned()))
        };
        let mut seen = Vec::new();
        for round in 0..n {
            let (a, b) = (format!("a{round}"), format!("b{round}"));
            let won = tokio::select! {
                a = ctx.step(&a, |_| note(&a)) => a?,
                b = ctx.step(&b, |_| note(&b)) => b?,
            };
            seen.push(won);
            let (left, right) = tokio::join!(
                async {
                    ctx.sleep(1.second()).await?;
                    let name = format!("left{round}");
                    Ok::<String, AnyError>(ctx.step(&name, |_| note(&name)).await?)
                },
                async {
                    let name = format!("right{round}");
                    let right = ctx.step(&name, |_| note(&name)).await?;
                    ctx.sleep(1.second()).await?;
                    Ok::<String, AnyError>(right)
                },
            );
            seen.extend([left?, right?]);
            if ctx.random().is_multiple_of(2) {
                let name = format!("even{round}");
                seen.push(ctx.step(&name, |_| note(&name)).await?);
            }
            seen.push(format!("{} {}", ctx.now(), ctx.uuid()));
        }
        Ok(seen)
    })
}

engine_test! {
    async fn concurrency_replays_as_it_happened_from_every_crash(lab: Lab) {
        lab.start(|app| app.workflow(tangled())).await;
        let run = lab.app().start(tangled(), 6).await.unwrap();
        let mut pauses = 0;
        while run.status().await.unwrap().status != Status::Completed {
            lab.settle().await;
            lab.restart(|app| app.workflow(tangled())).await;
            lab.settle().await;
            lab.world.store().clock().advance(1.second());
            pauses += 1;
            assert!(pauses < 100, "the run goes on");
        }
        let seen = lab.app().handle(&tangled(), run.id()).result().await.unwrap();
        let mut notes = lab.ledger.notes();
        let total = notes.len();
        notes.sort();
        notes.dedup();
        assert_eq!(notes.len(), total, "nothing ran twice: {notes:?}");
        assert!(seen.len() >= 24, "{seen:?}");
        let wins = seen.iter().filter(|what| what.starts_with('a') || what.starts_with('b')).count();
        assert_eq!(wins, 6, "{seen:?}");
    }

    async fn the_journal_starts_over_with_the_new_input(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, n: u32| async move {
            let ledger = ctx.state::<Ledger>();
            let sum: u32 = ctx.saved("sum")?.unwrap_or_default();
            ctx.save("sum", &(sum + n))?;
            ctx.step("work", |_| async { ledger.note(format!("work {n}")); Ok::<(), AnyError>(()) }).await?;
            ctx.sleep(1.minute()).await?;
            if n < 5 {
                return ctx.continue_as_new(n + 1).await;
            }
            Ok::<u32, AnyError>(ctx.saved("sum")?.unwrap_or_default())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), 1).key("loop").await.unwrap();
        lab.advance(150.seconds()).await;
        lab.restart(|app| app.workflow(flow.clone())).await;
        lab.advance(1.hour()).await;
        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), 15);
        assert_eq!(lab.ledger.notes(), ["work 1", "work 2", "work 3", "work 4", "work 5"]);
        assert!(lab.test().journal(run.id()).await.unwrap().len() < 10, "the journal does not grow");
    }

    async fn a_journal_does_not_start_over_with_an_input_of_another_type(lab: Lab) {
        fn flow(mended: bool) -> Workflow<u32, u32, AnyError> {
            Workflow::new("flow", move |ctx: Ctx, n: u32| async move {
                ctx.step("work", |_| async { Ok::<(), AnyError>(()) }).await?;
                match (n, mended) {
                    (0, _) => Ok(7),
                    (_, true) => ctx.continue_as_new(n - 1).await,
                    (_, false) => ctx.continue_as_new(format!("{n} - 1")).await,
                }
            })
        }
        lab.start(|app| app.workflow(flow(false))).await;
        let run = lab.app().start(flow(false), 1).await.unwrap().id();
        lab.settle().await;
        let view = lab.app().status(run).await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        let reason = view.reason.unwrap();
        assert!(reason.starts_with("the input of flow cannot be decoded as u32"), "{reason}");
        assert_eq!(lab.test().steps(run).await.unwrap(), ["work"], "nothing is lost");
        lab.restart(|app| app.workflow(flow(true))).await;
        assert_eq!(lab.app().handle(&flow(true), run).result().await.unwrap(), 7);
    }

    async fn a_step_of_another_life_has_another_key(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, life: u32| async move {
            let ledger = ctx.state::<Ledger>();
            let charge = ctx.step("charge", |s| {
                ledger.note(s.key());
                async move { if s.attempt() == 1 { Err(AnyError::new("later")) } else { Ok(()) } }
            });
            charge.retry(Retry::fixed(2, std::time::Duration::ZERO)).await?;
            if life < 3 {
                return ctx.continue_as_new(life + 1).await;
            }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, 1).await.unwrap();
        run.result().await.unwrap();
        let mut keys = lab.ledger.notes();
        assert_eq!(keys.len(), 6);
        assert_eq!(keys[0], format!("{}/charge", run.id()));
        keys.dedup();
        assert_eq!(keys.len(), 3, "one key for all attempts of one life: {keys:?}");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 3, "and no life has the key of another: {keys:?}");
    }

    async fn code_that_no_longer_fits_blocks_the_run_and_fitting_code_frees_it(lab: Lab) {
        let old = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.step("charge", |_| async { Ok::<u32, AnyError>(1) }).await?;
            ctx.event::<u32>("go").await?;
            Ok::<u32, AnyError>(1)
        });
        let other = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.event::<u32>("go").await?;
            Ok::<u32, AnyError>(2)
        });
        lab.start(|app| app.workflow(old.clone())).await;
        let run = lab.app().start(old.clone(), ()).await.unwrap();
        lab.settle().await;

        lab.restart(|app| app.workflow(other.clone())).await;
        lab.app().send(run.id(), "nudge", &0).await.unwrap();
        lab.settle().await;
        let view = lab.app().status(run.id()).await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        let reason = view.reason.unwrap();
        let told = "the journal goes on with step \"charge\" (entry 1), but the code waits for event \"go\" (at ";
        assert!(reason.starts_with(told) && reason.contains("replay.rs:"), "{reason}");

        lab.restart(|app| app.workflow(old.clone())).await;
        lab.app().send(run.id(), "go", &0).await.unwrap();
        assert_eq!(lab.app().handle(&old, run.id()).result().await.unwrap(), 1);
    }

    async fn an_unrelated_step_that_is_added_does_not_break_old_runs(lab: Lab) {
        let old = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            ctx.step("charge", |_| async { ledger.note("charge"); Ok::<u32, AnyError>(1) }).await?;
            ctx.event::<u32>("go").await?;
            Ok::<u32, AnyError>(1)
        });
        let new = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            ctx.step("audit", |_| async { ledger.note("audit"); Ok::<u32, AnyError>(1) }).await?;
            ctx.step("charge", |_| async { ledger.note("charge again"); Ok::<u32, AnyError>(1) }).await?;
            ctx.event::<u32>("go").await?;
            Ok::<u32, AnyError>(2)
        });
        lab.start(|app| app.workflow(old.clone())).await;
        let run = lab.app().start(old, ()).await.unwrap();
        lab.settle().await;
        lab.restart(|app| app.workflow(new.clone())).await;
        lab.app().send(run.id(), "go", &0).await.unwrap();
        assert_eq!(lab.app().handle(&new, run.id()).result().await.unwrap(), 2);
        assert_eq!(lab.ledger.notes(), ["charge", "audit"]);
    }

    async fn a_patch_changes_new_runs_and_leaves_old_ones(lab: Lab) {
        fn flow(patched: bool) -> Workflow<(), String, AnyError> {
            Workflow::new("flow", move |ctx: Ctx, (): ()| async move {
                let how = if patched && ctx.patched("by-air") { "air" } else { "sea" };
                ctx.step(how, |_| async { Ok::<(), AnyError>(()) }).await?;
                ctx.event::<u32>("go").await?;
                Ok(how.to_owned())
            })
        }
        lab.start(|app| app.workflow(flow(false))).await;
        let old = lab.app().start(flow(false), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(flow(true))).await;
        let new = lab.app().start(flow(true), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(flow(true))).await;
        for run in [old, new] { lab.app().send(run, "go", &0).await.unwrap(); }
        assert_eq!(lab.app().handle(&flow(true), old).result().await.unwrap(), "sea");
        assert_eq!(lab.app().handle(&flow(true), new).result().await.unwrap(), "air");
    }

    async fn a_patch_in_a_loop_has_one_answer_for_a_run(lab: Lab) {
        fn flow(patched: bool) -> Workflow<(), Vec<String>, AnyError> {
            Workflow::new("flow", move |ctx: Ctx, (): ()| async move {
                let mut ways = Vec::new();
                for _ in 0..3 {
                    let how = if patched && ctx.patched("by-air") { "air" } else { "sea" };
                    ctx.step(how, |_| async { Ok::<(), AnyError>(()) }).await?;
                    ctx.event::<u32>("go").await?;
                    ways.push(how.to_owned());
                }
                Ok(ways)
            })
        }
        lab.start(|app| app.workflow(flow(false))).await;
        let old = lab.app().start(flow(false), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(flow(true))).await;
        let new = lab.app().start(flow(true), ()).await.unwrap().id();
        for _ in 0..3 {
            for run in [old, new] { lab.app().send(run, "go", &0).await.unwrap(); }
            lab.settle().await;
        }
        assert_eq!(lab.app().handle(&flow(true), old).result().await.unwrap(), ["sea"; 3]);
        assert_eq!(lab.app().handle(&flow(true), new).result().await.unwrap(), ["air"; 3]);
        let journal = lab.test().journal(new).await.unwrap();
        assert_eq!(journal.iter().filter(|entry| *entry.name == *"patch:by-air").count(), 1);
    }

    async fn an_await_of_something_not_durable_blocks_the_run_with_that_reason(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.step("fine", |_| async { tokio::task::yield_now().await; Ok::<(), AnyError>(()) }).await?;
            tokio::task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.settle().await;
        let view = run.status().await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        assert!(view.reason.unwrap().contains("ctx.step"));
    }

    async fn a_run_without_its_state_is_blocked_until_a_node_has_it(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            Ok::<u32, AnyError>(ctx.state::<AtomicU32>().load(Ordering::SeqCst))
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        let view = run.status().await.unwrap();
        assert_eq!((view.status, view.reason.unwrap().contains("AtomicU32")), (Status::Blocked, true));
        lab.restart(|app| app.workflow(flow.clone()).state(AtomicU32::new(7))).await;
        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), 7);
    }

    async fn a_run_whose_code_nobody_knows_is_blocked_and_goes_on_when_someone_does(lab: Lab) {
        let flow = Workflow::new("flow", |_: Ctx, (): ()| async move { Ok::<u32, AnyError>(1) });
        let other = Workflow::new("other", |_: Ctx, (): ()| async move { Ok::<u32, AnyError>(1) });
        lab.start(|app| app.workflow(other.clone()).settings(|s| {
            s.lease = 500.millis();
            s.renew_every = 100.millis();
        })).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.world.store().clock().advance(1.minute());
        let client = lab.app().client().clone();
        lab.until("it is blocked", || { let (client, id) = (client.clone(), run.id()); async move {
            client.status(id).await.unwrap().status == Status::Blocked
        }}).await;
        let reason = run.status().await.unwrap().reason.unwrap();
        assert!(reason.contains("flow@1"), "{reason}");
        lab.restart(|app| app.workflow(flow.clone())).await;
        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), 1);
    }

    async fn a_run_in_a_queue_that_nobody_serves_is_blocked_and_goes_on_when_someone_does(lab: Lab) {
        let flow = Workflow::new("flow", |_: Ctx, (): ()| async move { Ok::<u32, AnyError>(1) });
        lab.start(|app| app.workflow(flow.clone()).settings(|s| {
            s.lease = 500.millis();
            s.renew_every = 100.millis();
            s.unknown_after = 200.millis();
        })).await;
        let run = lab.app().start(flow.clone(), ()).queue("nobody").await.unwrap();
        let client = lab.app().client().clone();
        lab.until("it is blocked", || { let (client, id) = (client.clone(), run.id()); async move {
            client.status(id).await.unwrap().status == Status::Blocked
        }}).await;
        let reason = run.status().await.unwrap().reason.unwrap();
        assert_eq!(reason, "no node that knows flow@1 serves queue nobody");
        lab.restart(|app| app.workflow(flow.clone()).settings(|s| s.queues = vec!["nobody".into()])).await;
        assert_eq!(lab.app().handle(&flow, run.id()).result().await.unwrap(), 1);
    }

    async fn a_run_that_kills_its_process_again_and_again_ends_as_poison_and_innocents_do_not_pay(lab: Lab) {
        let deadly = Workflow::new("deadly", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            ctx.step("kill", |_| { ledger.note("began"); std::future::pending::<Result<(), AnyError>>() }).await?;
            Ok::<(), AnyError>(())
        });
        let innocent = Workflow::new("innocent", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let step = ctx.step("long", |_| {
                ledger.note("innocent");
                async { tokio::time::sleep(300.millis()).await; Ok::<(), AnyError>(()) }
            });
            step.await?;
            Ok::<(), AnyError>(())
        });
        let with = |app: Outlast| app.workflow(deadly.clone()).workflow(innocent.clone());
        lab.start(with).await;
        let innocents = lab.app().start_many(innocent.clone(), [(), (), ()]).await.unwrap();
        let run = lab.app().start(deadly.clone(), ()).await.unwrap();
        for dead in 1..=9 {
            let ledger = lab.ledger.clone();
            lab.until("the deadly step began", || { let ledger = ledger.clone(); async move {
                ledger.count("began") == dead && (dead > 2 || ledger.count("innocent") >= 3 * dead)
            }}).await;
            lab.restart(with).await;
            // The pause of a suspect.
            lab.world.store().clock().advance(1.minute());
        }
        let error = lab.app().handle(&deadly, run.id()).result().await.unwrap_err();
        assert_eq!(error.to_string(), "poison: 9 processes died while they ran it");
        for run in innocents {
            lab.app().handle(&innocent, run.id()).result().await.unwrap();
        }
        assert!(lab.ledger.count("innocent") >= 6, "the innocents were hit twice");
    }

    async fn a_recorded_result_that_no_longer_decodes_blocks_the_run(lab: Lab) {
        let old = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.step("n", |_| async { Ok::<u32, AnyError>(7) }).await?;
            ctx.event::<()>("go").await?;
            Ok::<(), AnyError>(())
        });
        let new = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            ctx.step("n", |_| async { Ok::<String, AnyError>("seven".into()) }).await?;
            ctx.event::<()>("go").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(old.clone())).await;
        let run = lab.app().start(old.clone(), ()).await.unwrap();
        lab.settle().await;
        lab.restart(|app| app.workflow(new.clone())).await;
        lab.app().send(run.id(), "go", &()).await.unwrap();
        lab.settle().await;
        let view = lab.app().status(run.id()).await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        let reason = view.reason.unwrap();
        assert!(reason.starts_with("the recorded result of step \"n\" cannot be decoded as"), "{reason}");
        lab.restart(|app| app.workflow(old.clone())).await;
        lab.app().handle(&old, run.id()).result().await.unwrap();
    }

    async fn the_limit_of_the_journal_is_for_one_life(lab: Lab) {
        let looping = Workflow::new("looping", |ctx: Ctx, n: u32| async move {
            for _ in 0..10 { ctx.step("s", |_| async { Ok::<(), AnyError>(()) }).await?; }
            if n > 0 { return ctx.continue_as_new(n - 1).await; }
            Ok::<(), AnyError>(())
        });
        let endless = Workflow::new("endless", |ctx: Ctx, (): ()| async move {
            loop { ctx.step("s", |_| async { Ok::<(), AnyError>(()) }).await?; }
            #[allow(unreachable_code)]
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(looping.clone()).workflow(endless.clone()).limits(|limits| limits.entries = 20)).await;
        lab.app().start(looping, 5).await.unwrap().result().await.unwrap();
        let error = lab.app().start(endless, ()).await.unwrap().result().await.unwrap_err();
        assert_eq!(error.to_string(), "the journal is too large: 21, the limit is 20");
    }
}
