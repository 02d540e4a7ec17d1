//! Races and repeated waits: what a `select!` sees first, and who is told when several ask for the same.

use std::sync::Arc;

use futures_util::future::join_all;
use outlast::prelude::*;
use outlast::{Op, Phase};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::engine_test;
use crate::harness::{Lab, Ledger, bounded};

/// What each pass through the code has seen, in order. Every replay is a pass.
#[derive(Clone, Default)]
struct Passes(Arc<Mutex<Vec<Vec<String>>>>);

impl Passes {
    fn begin(&self) {
        self.0.lock().push(Vec::new());
    }

    fn see(&self, what: impl Into<String>) {
        self.0.lock().last_mut().expect("a pass has begun").push(what.into());
    }

    /// A pass sees what the one before it saw, and goes on from there.
    fn agree(&self) {
        let passes = self.0.lock();
        for pair in passes.windows(2) {
            let seen = &pair[1][..pair[1].len().min(pair[0].len())];
            assert_eq!(pair[0][..seen.len()], *seen, "{passes:#?}");
        }
    }
}

/// Passes through so many operations of tokio's that are all ready.
async fn busy(operations: u32) -> Result<u32, AnyError> {
    let semaphore = Semaphore::new(1);
    for _ in 0..operations {
        drop(semaphore.acquire().await?);
    }
    Ok(operations)
}

/// Steps whose bodies do much at once, one of which wins; then the others go on.
fn contest() -> Workflow<u32, Vec<u32>, AnyError> {
    Workflow::new("contest", |ctx: Ctx, rounds: u32| async move {
        let passes = ctx.state::<Passes>();
        passes.begin();
        let mut won = Vec::new();
        for _ in 0..rounds {
            let first = tokio::select! {
                a = ctx.step("a", |_| busy(64)) => ("a", a?),
                b = ctx.step("b", |_| busy(65)) => ("b", b?),
                c = ctx.step("c", |_| busy(3)) => ("c", c?),
                d = ctx.event::<u32>("never") => ("d", d?),
            };
            passes.see(first.0);
            let name = format!("after {}", first.0);
            won.push(ctx.step(&name, |_| async { Ok::<u32, AnyError>(first.1) }).await?);
            passes.see(name);
            ctx.sleep(1.second()).await?;
        }
        Ok(won)
    })
}

/// Many bodies that do much at once, beside a wait.
fn crowd() -> Workflow<u32, u32, AnyError> {
    Workflow::new("crowd", |ctx: Ctx, n: u32| async move {
        let steps = join_all((0..n).map(|_| ctx.step("one", |_| busy(1))));
        let done = tokio::select! {
            done = steps => done.into_iter().try_fold(0, |sum, one| one.map(|one| sum + one))?,
            stopped = ctx.event::<u32>("stop") => stopped?,
        };
        Ok(done)
    })
}

/// One body that does so much that tokio makes what follows wait.
fn spent() -> Workflow<u32, String, AnyError> {
    Workflow::new("spent", |ctx: Ctx, n: u32| async move {
        ctx.step("work", |_| busy(n)).await?;
        tokio::select! {
            slept = ctx.sleep(1.second()) => slept.map(|()| "slept".to_owned()).map_err(AnyError::from),
            event = ctx.event::<String>("stop") => event.map_err(AnyError::from),
        }
    })
}

/// A minute, then a step.
fn kid() -> Workflow<u32, u32, AnyError> {
    Workflow::new("kid", |ctx: Ctx, n: u32| async move {
        ctx.sleep(1.minute()).await?;
        Ok::<u32, AnyError>(n * 2)
    })
}

/// Reminds every seven seconds until the child is done, and works on afterwards.
fn reminding() -> Workflow<Option<String>, (u32, u32), AnyError> {
    Workflow::new("reminding", |ctx: Ctx, key: Option<String>| async move {
        let ledger = ctx.state::<Ledger>();
        let start = ctx.start(kid(), 21);
        let child = match key {
            Some(key) => start.key(key).await?,
            None => start.await?,
        };
        let mut reminders = 0;
        let result = loop {
            tokio::select! {
                result = child.result() => break result?,
                slept = ctx.sleep(7.seconds()) => slept?,
            }
            reminders += 1;
            ctx.step("remind", |_| async {
                ledger.note("reminded");
                Ok::<(), AnyError>(())
            })
            .await?;
        };
        ctx.sleep(1.minute()).await?;
        Ok((result, reminders))
    })
}

async fn restarts(lab: &mut Lab, passes: &Passes, rounds: u32) {
    for _ in 0..rounds {
        lab.restart(|app| app.workflow(contest()).state(passes.clone())).await;
        lab.advance(1.second()).await;
    }
}

engine_test! {
    async fn a_race_of_busy_bodies_replays_as_it_happened(lab: Lab) {
        let passes = Passes::default();
        lab.start(|app| app.workflow(contest()).state(passes.clone())).await;
        let run = lab.app().start(contest(), 6).await.unwrap();
        // What the first pass sees is durable only then.
        lab.settle().await;
        restarts(&mut lab, &passes, 8).await;
        let run = lab.app().handle(&contest(), run.id());
        let status = run.status().await.unwrap();
        assert_eq!((status.status, status.reason), (Status::Completed, None));
        assert_eq!(run.result().await.unwrap().len(), 6);
        passes.agree();
    }

    async fn a_body_that_does_much_at_once_is_not_taken_for_one_that_waits(lab: Lab) {
        lab.start(|app| app.workflow(crowd()).workflow(spent())).await;
        for n in [127, 128, 129, 300] {
            let run = lab.app().start(crowd(), n).await.unwrap();
            lab.settle().await;
            assert_eq!(run.status().await.unwrap().status, Status::Completed, "{n} bodies");
            assert_eq!(run.result().await.unwrap(), n);
        }
        for n in [127, 128, 129, 256, 384] {
            let run = lab.app().start(spent(), n).await.unwrap();
            lab.advance(1.second()).await;
            let status = run.status().await.unwrap();
            assert_eq!((status.status, status.reason), (Status::Completed, None), "{n} operations");
        }
    }

    async fn a_child_is_awaited_again_and_again_beside_reminders(lab: Lab) {
        lab.start(|app| app.workflow(reminding()).workflow(kid())).await;
        let own = lab.app().start(reminding(), None).await.unwrap().id();
        let shared = lab.app().start(reminding(), Some("kid".into())).await.unwrap().id();
        lab.advance(30.seconds()).await;
        lab.restart(|app| app.workflow(reminding()).workflow(kid())).await;
        lab.advance(1.minute()).await;
        lab.restart(|app| app.workflow(reminding()).workflow(kid())).await;
        lab.advance(2.minutes()).await;
        let mut reminders = 0;
        for run in [own, shared] {
            let run = lab.app().handle(&reminding(), run);
            let status = run.status().await.unwrap();
            assert_eq!((status.status, status.reason), (Status::Completed, None));
            let (result, reminded) = run.result().await.unwrap();
            assert_eq!(result, 42);
            reminders += reminded;
        }
        assert!(reminders >= 8, "{reminders}");
        assert_eq!(lab.ledger.count("reminded"), reminders as usize, "none of them twice");
    }

    async fn everybody_who_awaits_a_child_is_told_its_end(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let child = ctx.start(kid(), 1).await?;
            let (one, other) = tokio::join!(child.result(), child.result());
            ctx.sleep(1.minute()).await?;
            Ok::<u32, AnyError>(one? + other? + child.result().await?)
        });
        lab.start(|app| app.workflow(flow.clone()).workflow(kid())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.advance(10.minutes()).await;
        assert_eq!(run.status().await.unwrap().status, Status::Completed);
        assert_eq!(run.result().await.unwrap(), 6);
    }

    async fn a_body_that_uses_the_workflows_context_blocks_the_run_with_that_reason(lab: Lab) {
        let nested = Workflow::new("nested", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let inner = || ctx.step("inner", |_| async { ledger.note("inner"); Ok::<u32, AnyError>(1) });
            Ok::<u32, AnyError>(ctx.step("outer", |_| async { Ok::<u32, AnyError>(inner().await?) }).await?)
        });
        let saves = Workflow::new("saves", |ctx: Ctx, (): ()| async move {
            ctx.step("outer", |_| async { Ok::<(), AnyError>(ctx.save("total", &7)?) }).await?;
            Ok::<u32, AnyError>(ctx.saved("total")?.unwrap_or_default())
        });
        lab.start(|app| app.workflow(nested.clone()).workflow(saves.clone())).await;
        let nested = lab.app().start(nested, ()).await.unwrap();
        let saves = lab.app().start(saves, ()).await.unwrap();
        lab.settle().await;
        for (status, what) in [(nested.status().await.unwrap(), "step \"inner\""), (saves.status().await.unwrap(), "total")] {
            assert_eq!(status.status, Status::Blocked);
            let reason = status.reason.unwrap_or_default();
            assert!(reason.contains("the body of a step") && reason.contains(what), "{reason}");
        }
        assert!(lab.ledger.notes().is_empty(), "{:?}", lab.ledger.notes());
        assert!(lab.test().journal(saves.id()).await.unwrap().is_empty(), "nothing of it is recorded");
    }

    async fn results_reach_the_code_beside_a_body_that_always_has_something_to_do(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let endless = ctx.step("endless", |_| async {
                ledger.note("began");
                loop {
                    busy(1000).await?;
                    if false {
                        break Ok::<u32, AnyError>(0);
                    }
                }
            });
            tokio::select! {
                never = endless => never.map_err(AnyError::from),
                event = ctx.event::<u32>("stop") => event.map_err(AnyError::from),
            }
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        lab.until("the body runs", || async { lab.ledger.count("began") == 1 }).await;
        run.send("stop", &7_u32).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 7);
    }

    async fn a_timer_that_goes_off_while_nobody_looks_holds_no_slot(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let mut deadline = std::pin::pin!(ctx.sleep(200.millis()));
            tokio::select! {
                slept = &mut deadline => slept?,
                first = ctx.event::<u32>("first") => drop(first?),
            }
            let second = ctx.event::<u32>("second").await?;
            deadline.await?;
            Ok::<u32, AnyError>(second)
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow, ()).await.unwrap();
        run.send("first", &1_u32).await.unwrap();
        let fired = || async {
            let entries = lab.test().journal(run.id()).await.unwrap();
            entries.iter().any(|entry| entry.op == Op::Sleep && entry.phase == Phase::Done)
        };
        lab.until("the timer has gone off", fired).await;
        lab.settle().await;
        let status = run.status().await.unwrap();
        assert_eq!(status.status, Status::Waiting);
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().epoch, status.epoch, "nobody claims it again and again");
        run.send("second", &2_u32).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 2);
    }

    async fn a_run_of_short_waits_leaves_room_for_others(lab: Lab) {
        let naps = Workflow::new("naps", |ctx: Ctx, (): ()| async move {
            while ctx.state::<Ledger>().count("stop") == 0 {
                ctx.sleep(5.millis()).await?;
            }
            Ok::<(), AnyError>(())
        });
        let quick = Workflow::new("quick", |_: Ctx, (): ()| async { Ok::<u32, AnyError>(1) });
        lab.start(|app| app.workflow(naps.clone()).workflow(quick.clone()).concurrency(1)).await;
        let naps = lab.app().start(naps, ()).await.unwrap();
        for _ in 0..5 {
            assert_eq!(lab.app().start(quick.clone(), ()).await.unwrap().result().await.unwrap(), 1);
        }
        lab.ledger.note("stop");
        naps.result().await.unwrap();
    }

    async fn a_run_that_is_cut_lets_go_of_its_transaction_before_its_end_is_committed(lab: Lab) {
        let stuck = Workflow::new("stuck", |ctx: Ctx, (): ()| async move {
            let ledger = ctx.state::<Ledger>();
            let body = |_| async {
                ledger.note("began");
                std::future::pending::<Result<(), AnyError>>().await
            };
            Ok::<(), AnyError>(ctx.transaction("stuck", body).await?)
        });
        lab.start(|app| app.workflow(stuck.clone())).await;
        let began = std::time::Instant::now();
        let run = lab.app().start(stuck, ()).timeout(100.millis()).await.unwrap();
        assert!(run.result().await.unwrap_err().to_string().contains("timed out"));
        // On SQLite the writer would else wait for it until it is taken away by force, after five seconds.
        assert!(began.elapsed() < 4.seconds(), "{:?}", began.elapsed());
        assert_eq!(lab.ledger.notes(), ["began"]);
    }
}

/// Tokio wakes those whom it made wait before it polls anything else: so they are woken while their run leaves
/// its bodies as they are.
#[test]
fn a_body_that_is_woken_while_bodies_are_left_goes_on_afterwards() {
    let runtime = tokio::runtime::Builder::new_current_thread().event_interval(1).enable_all().build();
    runtime.unwrap().block_on(bounded(async {
        let test = outlast::testing::start(|app| app.workflow(crowd())).await.unwrap();
        let run = test.app().start(crowd(), 300).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 300);
    }));
}
