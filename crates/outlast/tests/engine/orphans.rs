//! What becomes of children when their parent does not end well.

use outlast::ParentEnd;
use outlast::prelude::*;

use crate::engine_test;
use crate::harness::{Lab, Ledger, once};

/// Does something that is undone, and sleeps.
fn leaf() -> Workflow<String, (), AnyError> {
    Workflow::new("leaf", |ctx: Ctx, name: String| async move {
        let (ledger, undone) = (ctx.state::<Ledger>(), Ledger::clone(&ctx.state::<Ledger>()));
        let of = name.clone();
        ctx.step("work", |_| async {
            ledger.note(format!("{name} works"));
            Ok::<(), AnyError>(())
        })
        .undo(move |_, _| {
            undone.note(format!("{of} undone"));
            async { Ok::<(), AnyError>(()) }
        })
        .await?;
        ctx.sleep(1.day()).await?;
        ledger.note(format!("{name} woke"));
        Ok(())
    })
}

/// Starts a child that it awaits, and others, then ends as its input says.
fn parent() -> Workflow<String, (), AnyError> {
    Workflow::new("parent", |ctx: Ctx, then: String| async move {
        let awaited = ctx.start(leaf(), "awaited".into()).await?;
        let _ = ctx.start(leaf(), "left".into()).when_parent_ends(ParentEnd::Leave).await?;
        let _ = ctx.start(leaf(), "detached".into()).detached().await?;
        let _ = ctx.start(leaf(), "bound".into()).detached().when_parent_ends(ParentEnd::Cancel).await?;
        ctx.sleep(1.minute()).await?;
        match &*then {
            "fails" => Err(AnyError::new("no more")),
            "completes" => Ok(()),
            _ => Ok(awaited.result().await?),
        }
    })
}

/// Each with a child below it.
fn tree() -> Workflow<u32, (), AnyError> {
    Workflow::new("tree", |ctx: Ctx, depth: u32| async move {
        let (ledger, run) = (ctx.state::<Ledger>(), ctx.run_id());
        ctx.step("note", |_| async {
            ledger.note(format!("{depth} {run}"));
            Ok::<(), AnyError>(())
        })
        .await?;
        if depth > 0 {
            let _ = ctx.start(tree(), depth - 1).await?;
        }
        ctx.sleep(1.day()).await?;
        Ok(())
    })
}

fn both(app: Outlast) -> Outlast {
    once(app).workflow(leaf()).workflow(parent())
}

/// Who went on until its own end, and who was undone, in order.
fn ends(lab: &Lab) -> Vec<String> {
    let mut ends: Vec<String> =
        lab.ledger.notes().into_iter().filter(|note| !note.ends_with("works")).collect();
    ends.sort();
    ends
}

const STOPPED: [&str; 4] = ["awaited undone", "bound undone", "detached woke", "left woke"];

engine_test! {
    async fn children_that_are_awaited_stop_with_a_parent_that_is_cancelled_fails_or_is_killed(lab: Lab) {
        lab.start(both).await;
        for how in ["cancelled", "fails", "killed"] {
            let run = lab.app().start(parent(), how.into()).await.unwrap();
            lab.settle().await;
            lab.advance(2.minutes()).await;
            match how {
                "cancelled" => assert!(run.cancel("enough").await.unwrap()),
                "killed" => assert!(run.kill("enough").await.unwrap()),
                _ => {}
            }
            assert!(run.result().await.is_err());
            lab.advance(2.days()).await;
            let before = lab.ledger.notes().len();
            assert_eq!(before % 8, 0, "each of four works once and ends once: {:?}", lab.ledger.notes());
        }
        let wanted: Vec<&str> = STOPPED.iter().flat_map(|end| [*end; 3]).collect();
        assert_eq!(ends(&lab), wanted);
    }

    async fn children_go_on_after_a_parent_that_completes(lab: Lab) {
        lab.start(both).await;
        let run = lab.app().start(parent(), "completes".into()).await.unwrap();
        lab.advance(2.days()).await;
        run.result().await.unwrap();
        assert_eq!(ends(&lab), ["awaited woke", "bound woke", "detached woke", "left woke"]);
    }

    async fn they_stop_also_if_the_process_dies_right_after_its_parent(lab: Lab) {
        lab.start(both).await;
        let run = lab.app().start(parent(), "sleeps".into()).await.unwrap().id();
        lab.settle().await;
        lab.kill().await;
        // Nobody is there to hear of it.
        let client = Outlast::on(lab.world.store().clone()).client();
        assert!(client.kill(run, "enough").await.unwrap());
        lab.start(both).await;
        lab.advance(2.days()).await;
        assert_eq!(ends(&lab), STOPPED);
    }

    async fn trees_of_any_depth_stop_and_say_why(lab: Lab) {
        lab.start(|app| once(app).workflow(tree())).await;
        let root = lab.app().start(tree(), 6).await.unwrap();
        lab.settle().await;
        assert!(root.cancel("enough").await.unwrap());
        assert!(root.result().await.unwrap_err().is_cancelled());
        lab.settle().await;
        let runs: Vec<RunId> = lab.ledger.notes().iter().map(|note| note.split_once(' ').unwrap().1.parse().unwrap()).collect();
        assert_eq!(runs.len(), 7);
        for pair in runs.windows(2) {
            let view = lab.app().status(pair[1]).await.unwrap();
            assert_eq!(view.status, Status::Cancelled);
            let why = view.cancel_reason.or(view.ended.and_then(|ended| ended.error)).unwrap();
            assert!(why.contains(&format!("its parent {} was cancelled", pair[0])), "{why}");
        }
    }

    async fn a_child_with_an_undo_of_its_own_stops_and_is_undone(lab: Lab) {
        let flow = Workflow::new("parent", |ctx: Ctx, (): ()| async move {
            let ledger = Ledger::clone(&ctx.state::<Ledger>());
            let child = ctx.start(leaf(), "child".into()).undo(move |_, _| {
                ledger.note("parent undoes it");
                async { Ok::<(), AnyError>(()) }
            }).await?;
            child.result().await?;
            Ok::<(), AnyError>(())
        });
        lab.start(|app| once(app).workflow(leaf()).workflow(flow.clone())).await;
        let run = lab.app().start(flow.clone(), ()).await.unwrap();
        lab.settle().await;
        assert!(run.cancel("enough").await.unwrap());
        assert!(run.result().await.unwrap_err().is_cancelled());
        lab.settle().await;
        assert_eq!(ends(&lab), ["child undone", "parent undoes it"]);
    }
}
