//! Children: started with the commit that records them, their end told once.

use futures_util::future::try_join_all;
use outlast::prelude::*;
use outlast_core::Entry;
use outlast_store::{Claim, Committed, Next};
use outlast_testkit::{Turn, payload, step};

use crate::engine_test;
use crate::harness::Ledger;

fn double() -> Workflow<u64, u64, AnyError> {
    Workflow::new("double", |ctx: Ctx, n: u64| async move {
        let ledger = ctx.state::<Ledger>();
        ctx.sleep(1.minute()).await?;
        if n == 13 {
            return Err(AnyError::new("unlucky"));
        }
        Ok(ctx
            .step("double", |_| async {
                ledger.note(format!("double {n}"));
                Ok::<u64, AnyError>(n * 2)
            })
            .await?)
    })
}

fn shout() -> Job<u64, u64, AnyError> {
    Job::new("shout", |_: JobCtx, n: u64| async move { Ok::<u64, AnyError>(n) })
}

fn of(definition: &str) -> outlast::Filter {
    outlast::Filter { definition: Some(definition.into()), ..Default::default() }
}

engine_test! {
    async fn a_child_tells_its_result_to_its_parent(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, n: u64| async move {
            let child = ctx.start(double(), n).await?;
            Ok::<u64, AnyError>(child.result().await? + 1)
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let run = lab.app().start(parent.clone(), 21).owner("alice").tenant("acme").role("admin").await.unwrap();
        lab.settle().await;
        lab.restart(|app| app.workflow(parent.clone()).workflow(double())).await;
        lab.advance(10.minutes()).await;
        assert_eq!(lab.app().handle(&parent, run.id()).result().await.unwrap(), 43);
        assert_eq!(lab.ledger.notes(), ["double 21"]);

        let filter = outlast::Filter { parent: Some(run.id()), ..Default::default() };
        let children = lab.app().list(&filter, None, 10).await.unwrap().runs;
        assert_eq!(children.len(), 1);
        let record = &children[0].record;
        assert_eq!((record.owner.as_deref(), record.tenant.as_str()), (Some("alice"), "acme"));
        assert_eq!(record.roles, ["admin"], "owner, tenant and roles travel with the run");
    }

    async fn a_fan_out_gathers_all_results_in_order(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, n: u64| async move {
            let mut children = Vec::new();
            for i in 0..n {
                children.push(ctx.start(double(), i).await?);
            }
            Ok::<Vec<u64>, AnyError>(try_join_all(children.iter().map(|child| child.result())).await?)
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let run = lab.app().start(parent, 12).await.unwrap();
        lab.advance(10.minutes()).await;
        assert_eq!(run.result().await.unwrap(), (0..12).map(|n| n * 2).collect::<Vec<u64>>());
        assert_eq!(lab.ledger.notes().len(), 12);
    }

    async fn a_childs_error_reaches_the_parent_as_itself(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            let failed = ctx.start(double(), 13).await?.result().await;
            Ok::<String, AnyError>(failed.unwrap_err().own().map(|own: AnyError| own.to_string()).unwrap_or_default())
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let run = lab.app().start(parent, ()).await.unwrap();
        lab.advance(10.minutes()).await;
        assert_eq!(run.result().await.unwrap(), "unlucky");
    }

    async fn a_detached_child_outlives_its_parent(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            Ok::<RunId, AnyError>(ctx.start(double(), 4).detached().await?.id())
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let child = lab.app().start(parent, ()).await.unwrap().result().await.unwrap();
        lab.advance(10.minutes()).await;
        assert_eq!(lab.app().handle(&double(), child).result().await.unwrap(), 8);
    }

    async fn a_run_that_was_started_for_another_belongs_to_it_and_does_not_tell_it(lab: Lab) {
        let waits = Workflow::new("waits", |ctx: Ctx, (): ()| async move {
            ctx.event::<u32>("go").await?;
            Ok::<(), AnyError>(())
        });
        let inner = Workflow::new("inner", |_: Ctx, n: u32| async move { Ok::<u32, AnyError>(n) });
        lab.start(|app| app.workflow(waits.clone()).workflow(inner.clone())).await;
        let outer = lab.app().start(waits, ()).await.unwrap();
        let run = lab.app().start(inner, 7).parent(outer.id()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 7);
        assert_eq!(run.status().await.unwrap().record.parent.unwrap().run, outer.id());
        lab.settle().await;
        assert_eq!(outer.status().await.unwrap().status, Status::Waiting);
        assert!(lab.world.store().inbox(&[(outer.id(), 0)]).await.unwrap().is_empty());
        outer.send("go", &0).await.unwrap();
        outer.result().await.unwrap();
    }

    async fn an_event_to_a_run_that_is_not_there_is_no_error(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, to: RunId| async move {
            ctx.send(to, "hello", &1).await?;
            ctx.step("after", |_| async { Ok::<(), AnyError>(()) }).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let nobody = RunId::new(0, Default::default(), 1);
        lab.app().start(flow.clone(), nobody).await.unwrap().result().await.unwrap();
    }

    async fn a_child_starts_at_its_time_and_ends_within_its_timeout(lab: Lab) {
        let waits = Workflow::new("waits", |ctx: Ctx, (): ()| async move {
            ctx.state::<Ledger>().note("began");
            Ok::<u64, AnyError>(ctx.event::<u64>("never").await?)
        });
        let parent = { let waits = waits.clone(); Workflow::new("parent", move |ctx: Ctx, (): ()| { let waits = waits.clone(); async move {
            let child = ctx.start(waits, ()).at(ctx.now() + 1.hour()).timeout(3.hours()).await?;
            Ok::<String, AnyError>(child.result().await.unwrap_err().to_string())
        }})};
        lab.start(|app| app.workflow(parent.clone()).workflow(waits.clone())).await;
        let run = lab.app().start(parent, ()).await.unwrap();
        lab.advance(59.minutes()).await;
        assert!(lab.ledger.notes().is_empty(), "not early");
        lab.advance(2.minutes()).await;
        assert!(!lab.ledger.notes().is_empty());
        lab.advance(2.hours()).await;
        assert!(run.result().await.unwrap().contains("timed out"));
    }

    async fn a_child_with_a_key_is_one_run_for_all_its_parents(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            Ok::<u64, AnyError>(ctx.start(double(), 4).key("shared").await?.result().await?)
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let one = lab.app().start(parent.clone(), ()).await.unwrap();
        let two = lab.app().start(parent, ()).await.unwrap();
        let client = lab.app().client().clone();
        lab.until("the child sleeps", || { let client = client.clone(); async move {
            let Ok(child) = client.find(Target::key("double", "shared")).await else { return false };
            client.status(child).await.unwrap().status == Status::Waiting
        }}).await;
        lab.world.store().clock().advance(2.minutes());
        assert_eq!((one.result().await.unwrap(), two.result().await.unwrap()), (8, 8));
        assert_eq!(lab.ledger.notes(), ["double 4"]);
    }

    async fn parents_that_share_a_child_leave_it_a_slot(lab: Lab) {
        let rates = Workflow::new("rates", |ctx: Ctx, (): ()| async move {
            ctx.sleep(1.second()).await?;
            Ok::<u64, AnyError>(7)
        });
        let parent = {
            let rates = rates.clone();
            Workflow::new("parent", move |ctx: Ctx, (): ()| {
                let rates = rates.clone();
                async move { Ok::<u64, AnyError>(ctx.start(rates, ()).key("today").await?.result().await?) }
            })
        };
        lab.start(|app| {
            let app = app.settings(|settings| settings.concurrency = 2);
            app.workflow(parent.clone()).workflow(rates.clone())
        }).await;
        let runs = lab.app().start_many(parent, vec![(); 6]).await.unwrap();
        lab.advance(1.minute()).await;
        for run in &runs {
            assert_eq!(run.result().await.unwrap(), 7);
            let steps = lab.test().steps(run.id()).await.unwrap();
            assert!(steps.iter().all(|step| !step.starts_with("await")), "{steps:?}");
        }
        assert_eq!(lab.app().list(&of("rates"), None, 10).await.unwrap().runs.len(), 1);
    }

    async fn everybody_who_shares_a_child_hears_its_error_as_itself(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            let failed = ctx.start(double(), 13).key("shared").await?.result().await;
            Ok::<String, AnyError>(failed.unwrap_err().own().map(|own: AnyError| own.to_string()).unwrap_or_default())
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let runs = lab.app().start_many(parent.clone(), vec![(); 3]).await.unwrap();
        lab.advance(10.minutes()).await;
        // It has ended by now: the last one hears of it at once.
        let late = lab.app().start(parent, ()).await.unwrap();
        for run in runs.iter().chain([&late]) {
            assert_eq!(run.result().await.unwrap(), "unlucky");
        }
    }

    async fn parents_that_share_a_child_hear_of_its_end_after_a_crash(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            let child = ctx.start(double(), 4).key("shared").await?;
            let again = ctx.start(double(), 4).key("shared").await?;
            Ok::<(u64, u64), AnyError>((child.result().await?, again.result().await?))
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let runs = lab.app().start_many(parent.clone(), vec![(); 3]).await.unwrap();
        lab.settle().await;
        lab.restart(|app| app.workflow(parent.clone()).workflow(double())).await;
        lab.advance(10.minutes()).await;
        for run in runs {
            assert_eq!(lab.app().handle(&parent, run.id()).result().await.unwrap(), (8, 8));
        }
        assert_eq!(lab.ledger.notes(), ["double 4"]);
        lab.world.invariants().await;
    }

    async fn a_detached_child_with_a_key_can_be_awaited_all_the_same(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            Ok::<u64, AnyError>(ctx.start(shout(), 4).key("shared").detached().await?.result().await?)
        });
        lab.start(|app| app.workflow(parent.clone()).job(shout())).await;
        let one = lab.app().start(parent.clone(), ()).await.unwrap();
        let two = lab.app().start(parent, ()).await.unwrap();
        assert_eq!((one.result().await.unwrap(), two.result().await.unwrap()), (4, 4));
    }

    // Before there were listeners, a run waited in a step for a child that another had started.
    async fn a_journal_that_says_nobody_tells_waits_in_a_step(lab: Lab) {
        let parent = Workflow::new("order", |ctx: Ctx, (): ()| async move {
            Ok::<u64, AnyError>(ctx.start(double(), 4).key("shared").await?.result().await?)
        });
        let child = lab.world.start_keyed("double", "shared").queue("default").input(4).await;
        let run = lab.world.start("order").queue("default").input(()).await;
        let asked = Claim { queues: vec!["default".into()], ..lab.world.ask("older", run.id.shard()).await };
        let claimed = lab.world.claim(&asked).await.runs.pop().expect("the run is due");
        let turn = Turn::new(&lab.world, asked.node, claimed);
        let found = serde_json::json!({ "run": child.id, "told": false });
        let entry = Entry { body: Some(payload(found)), ..step(1, "start double") };
        let writing = turn.writes().with(|commit| commit.entries.push(entry)).next(Next::Release);
        assert_eq!(lab.world.commit(writing).await, Committed::Done);

        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        lab.until("the child sleeps", || async {
            lab.world.status(child.id).await == Status::Waiting
        }).await;
        lab.world.store().clock().advance(2.minutes());
        assert_eq!(lab.app().handle(&parent, run.id).result().await.unwrap(), 8);
        assert!(lab.test().steps(run.id).await.unwrap().contains(&"await double".to_owned()));
    }

    async fn a_child_of_an_earlier_life_does_not_answer_for_one_of_this_life(lab: Lab) {
        let parent = Workflow::new("parent", |ctx: Ctx, n: u64| async move {
            let child = ctx.start(double(), n).await?;
            if n == 1 {
                // Its end is told and nobody takes it: the next life finds it in its inbox.
                ctx.sleep(5.minutes()).await?;
                return ctx.continue_as_new(21).await;
            }
            Ok::<u64, AnyError>(child.result().await?)
        });
        lab.start(|app| app.workflow(parent.clone()).workflow(double())).await;
        let run = lab.app().start(parent.clone(), 1).await.unwrap();
        lab.advance(1.hour()).await;
        assert_eq!(lab.app().handle(&parent, run.id()).result().await.unwrap(), 42);
    }

    async fn a_workflow_awaits_a_job_and_sends_to_other_runs(lab: Lab) {
        let job = Job::new("shout", |_: JobCtx, word: String| async move { Ok::<String, AnyError>(word.to_uppercase()) });
        let listener = Workflow::new("listener", |ctx: Ctx, (): ()| async move {
            Ok::<String, AnyError>(ctx.event::<String>("word").await?)
        });
        let teller = {
            let job = job.clone();
            Workflow::new("teller", move |ctx: Ctx, to: RunId| {
                let job = job.clone();
                async move {
                    let word = ctx.start(job, "hey".to_owned()).await?.result().await?;
                    ctx.send(to, "word", &word).await?;
                    ctx.sleep(1.hour()).await?;
                    Ok::<(), AnyError>(())
                }
            })
        };
        lab.start(|app| app.workflow(listener.clone()).workflow(teller.clone()).job(job.clone())).await;
        let listening = lab.app().start(listener, ()).await.unwrap();
        let telling = lab.app().start(teller, listening.id()).await.unwrap();
        assert_eq!(listening.result().await.unwrap(), "HEY");
        lab.advance(2.hours()).await;
        telling.result().await.unwrap();
    }
}
