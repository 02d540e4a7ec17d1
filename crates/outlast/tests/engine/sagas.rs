//! Undo: what a run did is reverted when it fails or is cancelled, newest first, whatever dies meanwhile.

use outlast::prelude::*;

use crate::engine_test;
use crate::harness::Ledger;

/// Five steps that can be undone, and a sixth that fails.
fn trip() -> Workflow<(), (), AnyError> {
    Workflow::new("trip", |ctx: Ctx, (): ()| async move {
        for place in 1..=5u32 {
            book(&ctx, place).await?;
        }
        ctx.step("pay", |_| async { Err::<(), AnyError>(AnyError::new("no money")) }).await?;
        Ok(())
    })
}

/// Books a place, and gives it back when undone.
async fn book(ctx: &Ctx, place: u32) -> Result<u32, Failure<AnyError>> {
    let (ledger, undone) = (ctx.state::<Ledger>(), ctx.state::<Ledger>());
    ctx.step("book", move |_| {
        ledger.note(format!("book {place}"));
        async move { Ok::<u32, AnyError>(place) }
    })
    .undo(move |_, place| {
        undone.note(format!("unbook {place}"));
        async { Ok::<(), AnyError>(()) }
    })
    .await
}

const ALL: [&str; 10] = [
    "book 1", "book 2", "book 3", "book 4", "book 5", "unbook 5", "unbook 4", "unbook 3", "unbook 2",
    "unbook 1",
];

engine_test! {
    async fn a_run_that_fails_undoes_what_it_did_newest_first(lab: Lab) {
        lab.start(|app| app.workflow(trip())).await;
        let run = lab.app().start(trip(), ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "no money");
        assert_eq!(run.status().await.unwrap().status, Status::Failed);
        assert_eq!(lab.ledger.notes(), ALL);
    }

    async fn a_process_that_dies_in_any_body_loses_no_undo_and_keeps_their_order(lab: Lab) {
        lab.start(|app| app.workflow(trip())).await;
        for (dies_in, what) in ALL.iter().enumerate() {
            let before = lab.ledger.notes().len();
            let run = lab.app().start(trip(), ()).await.unwrap().id();
            lab.until("a body runs", || async { lab.ledger.notes().len() > before + dies_in }).await;
            lab.restart(|app| app.workflow(trip())).await;
            let run = lab.app().handle(&trip(), run);
            assert_eq!(run.result().await.unwrap_err().to_string(), "no money");
            let mut notes = lab.ledger.notes().split_off(before);
            assert!(notes.len() <= ALL.len() + 1, "only the body in which it died runs again: {notes:?}");
            notes.dedup();
            assert_eq!(notes, ALL, "it died in {what:?}");
        }
    }

    async fn a_run_that_is_cancelled_undoes_what_it_did(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx, 1).await?;
            book(&ctx, 2).await?;
            ctx.sleep(300.days()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        // Another node undoes what it never did.
        lab.kill().await;
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().handle(&flow, run.id());
        run.cancel("enough").await.unwrap();
        assert!(run.result().await.unwrap_err().is_cancelled());
        assert_eq!(run.status().await.unwrap().status, Status::Cancelled);
        assert_eq!(lab.ledger.notes(), ["book 1", "book 2", "unbook 2", "unbook 1"]);
    }

    async fn branches_that_ran_beside_each_other_are_undone_newest_record_first_also_on_another_node(lab: Lab) {
        // Three branches whose steps are recorded in turns: 1, 2, 3, then 11, 12, 13.
        let flow = Workflow::new("branches", |ctx: Ctx, (): ()| async move {
            let branch = |place: u32, wait: u32| {
                let ctx = ctx.scope(&format!("branch {place}"));
                async move {
                    ctx.sleep(wait.minutes()).await?;
                    book(&ctx, place).await?;
                    ctx.sleep(10.minutes()).await?;
                    book(&ctx, place + 10).await?;
                    Ok::<(), AnyError>(())
                }
            };
            tokio::try_join!(branch(1, 1), branch(2, 2), branch(3, 3))?;
            ctx.event::<()>("go").await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap().id();
        lab.settle().await;
        for _ in 0..14 {
            lab.advance(1.minute()).await;
        }
        lab.kill().await;
        lab.start(|app| app.workflow(flow.clone())).await;
        lab.app().cancel(run, "enough").await.unwrap();
        assert!(lab.app().handle(&flow, run).result().await.unwrap_err().is_cancelled());
        let undone: Vec<String> = lab.ledger.notes().split_off(6);
        assert_eq!(undone, ["unbook 13", "unbook 12", "unbook 11", "unbook 3", "unbook 2", "unbook 1"]);
    }

    async fn a_later_life_of_a_run_undoes_its_own_steps_and_not_those_of_the_life_before(lab: Lab) {
        let flow = Workflow::new("lives", |ctx: Ctx, place: u32| async move {
            book(&ctx, place).await?;
            if place < 3 {
                return ctx.continue_as_new(place + 1).await;
            }
            ctx.step("pay", |_| async { Err::<(), AnyError>(AnyError::new("no money")) }).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), 1).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "no money");
        assert_eq!(lab.ledger.notes(), ["book 1", "book 2", "book 3", "unbook 3"]);
    }

    async fn a_run_that_ends_well_undoes_nothing(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx, 1).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        lab.app().start(flow.clone(), ()).await.unwrap().result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["book 1"]);
    }

    async fn a_run_whose_time_is_over_undoes_what_it_did(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx, 1).await?;
            ctx.sleep(300.days()).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).timeout(1.hour()).await.unwrap();
        lab.settle().await;
        lab.advance(2.hours()).await;
        let error = run.result().await.unwrap_err().to_string();
        assert!(error.contains("timed out"), "{error}");
        assert_eq!(lab.ledger.notes(), ["book 1", "unbook 1"]);
    }

    async fn an_undo_that_fails_is_tried_again_and_the_run_shows_that_it_undoes(lab: Lab) {
        lab.start(|app| app.workflow(stubborn(3))).await;
        let run = lab.app().start(stubborn(3), ()).await.unwrap();
        lab.settle().await;
        assert_eq!(run.status().await.unwrap().status, Status::Undoing);
        lab.kill().await;
        lab.start(|app| app.workflow(stubborn(3))).await;
        for _ in 0..3 {
            lab.advance(1.hour()).await;
        }
        let run = lab.app().handle(&stubborn(3), run.id());
        assert_eq!(run.result().await.unwrap_err().to_string(), "no");
        assert_eq!(lab.ledger.notes(), ["book 1", "try 1", "try 2", "try 3", "unbook 1"]);
    }

    async fn an_undo_that_gives_up_waits_for_a_person_and_goes_on_from_there(lab: Lab) {
        lab.start(|app| app.workflow(stubborn(7))).await;
        let run = lab.app().start(stubborn(7), ()).await.unwrap();
        for _ in 0..5 {
            lab.advance(1.hour()).await;
        }
        let status = run.status().await.unwrap();
        assert_eq!(status.status, Status::UndoFailed);
        let reason = status.reason.unwrap();
        assert_eq!(reason, "the undo of \"wall\" failed 5 times: stuck; left to undo: book");
        // Neither time nor a new node make it go on.
        lab.kill().await;
        lab.start(|app| app.workflow(stubborn(7))).await;
        lab.advance(100.days()).await;
        let run = lab.app().handle(&stubborn(7), run.id());
        assert_eq!(run.status().await.unwrap().status, Status::UndoFailed);
        lab.app().retry(run.id()).await.unwrap();
        for _ in 0..3 {
            lab.advance(1.hour()).await;
        }
        assert_eq!(run.result().await.unwrap_err().to_string(), "no");
        let tries = (1..=7).map(|n| format!("try {n}"));
        let wanted: Vec<String> = ["book 1".to_owned()].into_iter().chain(tries).chain(["unbook 1".to_owned()]).collect();
        assert_eq!(lab.ledger.notes(), wanted);
    }

    async fn code_that_undoes_by_itself_may_go_on(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx, 1).await?;
            ctx.undo_all().await;
            book(&ctx, 2).await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        lab.app().start(flow.clone(), ()).await.unwrap().result().await.unwrap();
        assert_eq!(lab.ledger.notes(), ["book 1", "unbook 1", "book 2"]);
    }

    async fn a_panic_is_undone_like_any_failure(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            book(&ctx, 1).await?;
            if ctx.run_id().shard() < 1000 {
                panic!("oh no");
            }
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let error = lab.app().start(flow.clone(), ()).await.unwrap().result().await.unwrap_err();
        assert!(error.to_string().contains("oh no"), "{error}");
        assert_eq!(lab.ledger.notes(), ["book 1", "unbook 1"]);
    }

    async fn a_step_in_doubt_is_undone_if_it_asks(lab: Lab) {
        let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
            let (ledger, undone) = (ctx.state::<Ledger>(), ctx.state::<Ledger>());
            ctx.step("send", move |_| {
                ledger.note("send");
                std::future::pending::<Result<u32, AnyError>>()
            })
            .undo_in_doubt(move |_, sent: Option<u32>| {
                undone.note(format!("take back {sent:?}"));
                async { Ok::<(), AnyError>(()) }
            })
            .await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| app.workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.until("the step runs", || async { lab.ledger.count("send") == 1 }).await;
        lab.kill().await;
        lab.world.store().clock().advance(1.minute());
        let client = Outlast::on(lab.world.store().clone()).client();
        client.cancel(run.id(), "enough").await.unwrap();
        lab.start(|app| app.workflow(flow.clone())).await;
        assert!(lab.app().handle(&flow, run.id()).result().await.unwrap_err().is_cancelled());
        assert_eq!(lab.ledger.notes(), ["send", "take back None"]);
    }

    async fn transactions_and_children_are_undone_too(lab: Lab) {
        let child = Workflow::new("child", |_: Ctx, (): ()| async { Ok::<(), AnyError>(()) });
        let started = child.clone();
        let flow = Workflow::new("flow", move |ctx: Ctx, (): ()| {
            let child = started.clone();
            async move {
                let (first, second) = (ctx.state::<Ledger>(), ctx.state::<Ledger>());
                ctx.transaction("debit", |_| async { Ok::<u32, AnyError>(5) })
                    .undo(move |_, cents| {
                        first.note(format!("credit {cents}"));
                        async { Ok::<(), AnyError>(()) }
                    })
                    .await?;
                let started = ctx.start(child, ()).undo(move |_, run| {
                    second.note(format!("undo {run}"));
                    async { Ok::<(), AnyError>(()) }
                });
                let _ = started.await?.id();
                Err::<(), AnyError>(AnyError::new("no"))
            }
        });
        lab.start(|app| app.workflow(flow.clone()).workflow(child.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        assert_eq!(run.result().await.unwrap_err().to_string(), "no");
        let notes = lab.ledger.notes();
        assert_eq!((notes.len(), &*notes[1]), (2, "credit 5"), "{notes:?}");
        assert!(notes[0].starts_with("undo run_"), "{notes:?}");
    }

    async fn a_blocked_run_with_something_to_undo_waits_for_code_that_fits(lab: Lab) {
        let flow = |fits: bool| {
            Workflow::new("flow", move |ctx: Ctx, (): ()| async move {
                if fits {
                    book(&ctx, 1).await?;
                }
                ctx.sleep(1.day()).await?;
                ctx.sleep(300.days()).await?;
                Ok::<(), AnyError>(())
            })
        };
        lab.start(|app| app.workflow(flow(true))).await;
        let run = lab.app().start(flow(true), ()).await.unwrap();
        lab.settle().await;
        lab.kill().await;
        lab.start(|app| app.workflow(flow(false))).await;
        lab.advance(2.days()).await;
        let run = lab.app().handle(&flow(true), run.id());
        assert_eq!(run.status().await.unwrap().status, Status::Blocked);
        assert!(run.cancel("enough").await.unwrap());
        assert_eq!(run.status().await.unwrap().status, Status::Blocked, "nobody here knows how to undo it");
        lab.kill().await;
        lab.start(|app| app.workflow(flow(true))).await;
        let run = lab.app().handle(&flow(true), run.id());
        assert!(run.result().await.unwrap_err().is_cancelled());
        assert_eq!(lab.ledger.notes(), ["book 1", "unbook 1"]);
    }
}

/// Fails, and what undoes its second step fails so often.
fn stubborn(times: usize) -> Workflow<(), (), AnyError> {
    Workflow::new("stubborn", move |ctx: Ctx, (): ()| async move {
        book(&ctx, 1).await?;
        let ledger = ctx.state::<Ledger>();
        ctx.step("wall", |_| async { Ok::<(), AnyError>(()) })
            .undo(move |_, ()| {
                let tried = ledger.notes().iter().filter(|note| note.starts_with("try")).count();
                let fails = tried < times;
                if fails {
                    ledger.note(format!("try {}", tried + 1));
                }
                async move { if fails { Err(AnyError::new("stuck")) } else { Ok(()) } }
            })
            .undo_retry(Retry::times(5))
            .await?;
        Err(AnyError::new("no"))
    })
}
