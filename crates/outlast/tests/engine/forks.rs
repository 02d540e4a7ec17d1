//! Forks, and what becomes of children when their parent is repaired or forked.

use outlast::prelude::*;
use outlast::{Filter, Op, ParentEnd, Phase};

use crate::engine_test;
use crate::harness::Ledger;

fn sum() -> Workflow<u64, u64, AnyError> {
    Workflow::new("sum", |ctx: Ctx, more: u64| async move {
        let ledger = ctx.state::<Ledger>();
        let base: u64 = ctx
            .step("base", |_| async {
                ledger.note("base");
                Ok::<u64, AnyError>(40)
            })
            .await?;
        let approved: u64 = ctx.event("approved").await?;
        let sum = ctx.step("add", |s| {
            ledger.note(format!("add {}", s.run_id() == ctx.run_id()));
            async move { Ok::<u64, AnyError>(base + more + approved) }
        });
        Ok(sum.await?)
    })
}

/// A child that fails until it is mended.
fn kid() -> Workflow<u32, u32, AnyError> {
    Workflow::new("kid", |ctx: Ctx, number: u32| async move {
        let ledger = ctx.state::<Ledger>();
        let work = ctx.step("work", |_| async {
            ledger.note(format!("kid {number}"));
            match number == 2 && ledger.count("mended") == 0 {
                true => Err(AnyError::new("kid 2 is broken")),
                false => Ok(number),
            }
        });
        Ok(work.await?)
    })
}

/// A parent of three, with keys or without.
fn parent(keyed: bool) -> Workflow<(), u32, AnyError> {
    Workflow::new("parent", move |ctx: Ctx, (): ()| async move {
        let mut sum = 0;
        for number in 1..=3u32 {
            let start = ctx.start(kid(), number);
            let start = if keyed { start.key(format!("kid-{number}")) } else { start };
            sum += start.await?.result().await?;
        }
        Ok(sum)
    })
}

engine_test! {
    async fn a_fork_goes_on_from_its_step_as_another_run(lab: Lab) {
        lab.start(|app| app.workflow(sum())).await;
        let run = lab.app().start(sum(), 1).key("k").tag("region", "eu").await.unwrap();
        lab.app().send(run.id(), "approved", &1).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 42);

        let fork = lab.app().fork(run.id()).from("add").input(&2).reason("what if").by("ops");
        let plan = fork.plan().await.unwrap();
        assert_eq!((plan.kept, plan.again), (2, vec!["add".to_owned()]));
        let fork = fork.await.unwrap();
        assert_ne!(fork, run.id());
        assert_eq!(lab.app().handle(&sum(), fork).result().await.unwrap(), 43);
        assert_eq!(run.result().await.unwrap(), 42, "the other stays as it is");
        assert_eq!(lab.ledger.notes(), ["base", "add true", "add true"]);

        let tag = ("outlast.fork-of".to_owned(), run.id().to_string());
        let found = lab.app().list(&Filter { tags: vec![tag], ..Filter::default() }, None, 10).await.unwrap();
        assert_eq!(found.runs.iter().map(|view| view.record.id).collect::<Vec<_>>(), [fork]);
        assert!(found.runs[0].tags.contains(&("region".into(), "eu".into())));
        let journal = lab.app().journal(fork, 0, 100).await.unwrap();
        let note = journal.iter().find(|entry| entry.op == Op::Revise).unwrap();
        assert!(note.body.as_ref().unwrap().json().unwrap().contains(&run.id().to_string()));
    }

    async fn a_fork_from_before_an_event_hears_it_again(lab: Lab) {
        lab.start(|app| app.workflow(sum())).await;
        let run = lab.app().start(sum(), 1).await.unwrap();
        lab.app().send(run.id(), "approved", &1).await.unwrap();
        run.result().await.unwrap();
        let fork = lab.app().fork(run.id()).from("base").await.unwrap();
        assert_eq!(lab.app().handle(&sum(), fork).result().await.unwrap(), 42);
        assert_eq!(lab.ledger.count("base"), 2);

        // From the event itself: it is to be decided anew.
        let fork = lab.app().fork(run.id()).from("event:approved").await.unwrap();
        lab.settle().await;
        assert_eq!(lab.app().status(fork).await.unwrap().status, Status::Waiting);
        lab.app().send(fork, "approved", &5).await.unwrap();
        assert_eq!(lab.app().handle(&sum(), fork).result().await.unwrap(), 46);
        assert_eq!(lab.ledger.count("base"), 2);

        let fork = lab.app().fork(run.id()).from_start().await.unwrap();
        assert_eq!(lab.app().handle(&sum(), fork).result().await.unwrap(), 42);
        assert_eq!(lab.ledger.count("base"), 3);
    }

    async fn a_fork_of_a_run_that_goes_on_leaves_it_alone(lab: Lab) {
        lab.start(|app| app.workflow(sum())).await;
        let run = lab.app().start(sum(), 1).await.unwrap();
        lab.settle().await;
        let refused = lab.app().fork(run.id()).await.unwrap_err().to_string();
        assert!(refused.contains("from"), "{refused}");
        let fork = lab.app().fork(run.id()).from("base").await.unwrap();
        lab.app().send(fork, "approved", &2).await.unwrap();
        assert_eq!(lab.app().handle(&sum(), fork).result().await.unwrap(), 43);
        assert_eq!(run.status().await.unwrap().status, Status::Waiting);
        lab.app().send(run.id(), "approved", &1).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 42);
    }

    async fn a_fork_may_take_another_version_and_is_blocked_if_that_does_not_fit(lab: Lab) {
        let version = |version: u32, last: &'static str| -> Workflow<(), String, AnyError> {
            Workflow::new("flow", move |ctx: Ctx, (): ()| async move {
                let ledger = ctx.state::<Ledger>();
                for name in ["one", last] {
                    ctx.step(name, |_| async {
                        ledger.note(name);
                        match name {
                            "broken" => Err(AnyError::new("broken")),
                            _ => Ok::<(), AnyError>(()),
                        }
                    })
                    .await?;
                }
                Ok(last.to_owned())
            })
            .version(version)
        };
        let (old, new) = (version(1, "broken"), version(2, "two"));
        lab.start(|app| app.workflow(old.clone())).await;
        let run = lab.app().start(old.clone(), ()).await.unwrap().id();
        assert!(lab.app().handle(&old, run).result().await.is_err());
        let refused = lab.app().fork(run).version(2).await.unwrap_err().to_string();
        assert!(refused.contains("version"), "{refused}");
        lab.restart(|app| app.workflow(old.clone()).workflow(new.clone())).await;
        let fork = lab.app().fork(run).active_version().await.unwrap();
        assert_eq!(lab.app().handle(&new, fork).result().await.unwrap(), "two");
        assert_eq!(lab.ledger.notes(), ["one", "broken", "two"], "what was recorded is not run again");
        assert_eq!(lab.app().status(fork).await.unwrap().record.version, 2);
    }

    async fn a_child_that_failed_is_started_anew_and_others_are_not(lab: Lab) {
        lab.start(|app| app.workflow(parent(false)).workflow(kid())).await;
        let run = lab.app().start(parent(false), ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "kid 2 is broken");
        assert_eq!(lab.app().repair(run.id()).plan().await.unwrap().again, ["child:kid#2"]);
        lab.ledger.note("mended");
        lab.restart(|app| app.workflow(parent(false)).workflow(kid())).await;
        assert!(lab.app().retry(run.id()).await.unwrap());
        assert_eq!(lab.app().handle(&parent(false), run.id()).result().await.unwrap(), 6);
        assert_eq!(lab.ledger.notes(), ["kid 1", "kid 2", "mended", "kid 2", "kid 3"]);
    }

    async fn a_child_that_was_tried_again_before_its_parent_is_waited_for(lab: Lab) {
        for keyed in [false, true] {
            lab.start(|app| app.workflow(parent(keyed)).workflow(kid())).await;
            let run = lab.app().start(parent(keyed), ()).await.unwrap().id();
            assert!(lab.app().handle(&parent(keyed), run).result().await.is_err());
            let failed = Filter {
                definition: Some("kid".into()),
                statuses: vec![Status::Failed],
                ..Filter::default()
            };
            let failed = lab.app().list(&failed, None, 10).await.unwrap().runs;
            lab.ledger.note("mended");
            for child in &failed {
                assert!(lab.app().retry(child.record.id).await.unwrap());
            }
            assert!(lab.app().retry(run).await.unwrap());
            assert_eq!(lab.app().handle(&parent(keyed), run).result().await.unwrap(), 6);
            let kids = ["kid 1", "kid 2", "mended", "kid 2", "kid 3"];
            assert_eq!(lab.ledger.take(), kids, "keyed: {keyed}");
            lab.kill().await;
        }
    }

    async fn a_child_with_a_key_that_ended_while_its_parent_was_over_is_heard_of(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let child = ctx.start(kid(), 1).key("only").when_parent_ends(ParentEnd::Leave).await?;
            let ledger = ctx.state::<Ledger>();
            ctx.step("charge", |_| async {
                match ledger.count("mended") {
                    0 => Err(AnyError::new("no money")),
                    _ => Ok::<(), AnyError>(()),
                }
            })
            .await?;
            Ok::<u32, AnyError>(child.result().await?)
        });
        lab.start(|app| app.workflow(flow.clone()).workflow(kid())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap().id();
        assert!(lab.app().handle(&flow, run).result().await.is_err());
        lab.settle().await;
        lab.ledger.note("mended");
        let fork = lab.app().fork(run).await.unwrap();
        assert!(lab.app().retry(run).await.unwrap());
        for run in [run, fork] {
            assert_eq!(lab.app().handle(&flow, run).result().await.unwrap(), 1);
        }
        assert_eq!(lab.ledger.count("kid 1"), 1);
    }

    async fn a_fork_waits_for_the_children_that_go_on(lab: Lab) {
        let slow = Workflow::new("slow", |ctx: Ctx, (): ()| async move {
            let answer: u32 = ctx.event("answer").await?;
            Ok::<u32, AnyError>(answer)
        });
        let kid = slow.clone();
        let flow = Workflow::new("flow", move |ctx: Ctx, more: u32| {
            let kid = kid.clone();
            async move {
                let child = ctx.start(kid, ()).await?;
                ctx.step("meanwhile", |_| async { Ok::<(), AnyError>(()) }).await?;
                Ok::<u32, AnyError>(child.result().await? + more)
            }
        });
        lab.start(|app| app.workflow(flow.clone()).workflow(slow.clone())).await;
        let run = lab.app().start(flow.clone(), 1).await.unwrap();
        lab.settle().await;
        let fork = lab.app().fork(run.id()).from("meanwhile").input(&2).await.unwrap();
        lab.settle().await;
        let children = Filter { definition: Some("slow".into()), ..Filter::default() };
        let children = lab.app().list(&children, None, 10).await.unwrap().runs;
        assert_eq!(children.len(), 1, "the child is there already");
        lab.app().send(children[0].record.id, "answer", &40).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 41);
        assert_eq!(lab.app().handle(&flow, fork).result().await.unwrap(), 42);
        // And one that comes when all is over.
        let late = lab.app().fork(run.id()).from("meanwhile").input(&3).await.unwrap();
        assert_eq!(lab.app().handle(&flow, late).result().await.unwrap(), 43);
        let journal = lab.app().journal(late, 0, 100).await.unwrap();
        assert!(journal.iter().all(|entry| entry.phase != Phase::Void), "{journal:#?}");
    }
}
