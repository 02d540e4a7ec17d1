//! A deploy that is taken back while runs are in flight: from version 1 to 2 and back to 1. Runs go on with the code they
//! began with, wait and say why where nobody has it, and go on by themselves when somebody does. Nothing is lost or done twice.

use outlast::prelude::*;
use outlast::testing::{self, Test};
use serde::{Deserialize, Serialize};

use crate::engine_test;
use crate::harness::{Lab, Ledger};

/// Where a run is when builds come and go.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Case {
    Waits,
    Sleeps,
    Retries,
    Undoes,
}

const CASES: [Case; 4] = [Case::Waits, Case::Sleeps, Case::Retries, Case::Undoes];

/// Notes everything it does with the version that did it.
fn flow(version: u32) -> Workflow<(Case, u32), u32, AnyError> {
    let flow = Workflow::new("flow", move |ctx: Ctx, (case, n): (Case, u32)| async move {
        let ledger = ctx.state::<Ledger>();
        let note = move |what: String| ledger.note(format!("{case:?} {n} {what} by {version}"));
        let (begin, undo) = (note.clone(), note.clone());
        ctx.step("begin", move |_| {
            begin("begin".to_owned());
            async { Ok::<(), AnyError>(()) }
        })
        .undo(move |s, ()| {
            undo(format!("undo {}", s.attempt()));
            let again = s.attempt() < 2;
            async move { if again { Err(AnyError::new("not yet")) } else { Ok(()) } }
        })
        .undo_retry(Retry::fixed(2, 1.hour()))
        .await?;
        match case {
            Case::Waits => ctx.event("go").await?,
            Case::Sleeps => ctx.sleep(1.hour()).await?,
            Case::Retries => {
                let flaky = note.clone();
                let step = ctx.step("flaky", move |s| {
                    flaky(format!("try {}", s.attempt()));
                    let again = s.attempt() < 2;
                    async move { if again { Err(AnyError::new("not yet")) } else { Ok(()) } }
                });
                step.retry(Retry::fixed(2, 1.hour())).await?;
            }
            Case::Undoes => return Err(AnyError::new("no")),
        }
        ctx.step("end", move |_| {
            note("end".to_owned());
            async { Ok::<(), AnyError>(()) }
        })
        .await?;
        Ok(version)
    });
    flow.version(version)
}

/// All that a run of this kind does, once each.
fn wanted(case: Case, n: u32, version: u32) -> Vec<String> {
    let what: &[&str] = match case {
        Case::Waits | Case::Sleeps => &["begin", "end"],
        Case::Retries => &["begin", "try 1", "try 2", "end"],
        Case::Undoes => &["begin", "undo 1", "undo 2"],
    };
    what.iter().map(|what| format!("{case:?} {n} {what} by {version}")).collect()
}

fn old(app: Outlast) -> Outlast {
    app.workflow(flow(1))
}

/// Runs that began before go on beside new ones.
fn new(app: Outlast) -> Outlast {
    app.workflow(flow(1)).workflow(flow(2))
}

/// One more node beside the laboratory's.
async fn beside(lab: &Lab, with: impl FnOnce(Outlast) -> Outlast) -> Test {
    let (ledger, warm) = (lab.ledger.clone(), lab.warm());
    let with = |app: Outlast| with(app.state(ledger).settings(|settings| settings.warm = warm));
    testing::start_on(lab.world.store().clone(), with).await.unwrap()
}

async fn start(app: &App, lab: &Lab, n: u32) -> Vec<RunId> {
    let mut runs = Vec::new();
    for case in CASES {
        runs.push(app.start_by_name("flow", format!("[\"{case:?}\", {n}]")).await.unwrap().id());
    }
    let rest = async || {
        let [waits, sleeps, retries, undoes] = statuses(lab, &runs).await[..] else { return false };
        let now = lab.world.now().await;
        let tried = |what: &str| lab.ledger.notes().iter().any(|note| note.starts_with(what));
        [waits, sleeps, retries] == [Status::Waiting; 3]
            && tried(&format!("Retries {n} try 1"))
            && undoes == Status::Undoing
            && tried(&format!("Undoes {n} undo 1"))
            // It has this status also while its undo runs, and what is cut off there is tried anew.
            && lab.app().status(runs[3]).await.unwrap().due_at.is_some_and(|due| due > now)
    };
    lab.until("all are in flight", rest).await;
    runs
}

async fn statuses(lab: &Lab, runs: &[RunId]) -> Vec<Status> {
    let mut statuses = Vec::new();
    for run in runs {
        statuses.push(lab.app().status(*run).await.unwrap().status);
    }
    statuses
}

const ENDS: [Status; 4] = [Status::Completed, Status::Completed, Status::Completed, Status::Failed];

async fn all_end(lab: &Lab, runs: &[RunId]) {
    lab.until("all have ended", || async { statuses(lab, runs).await == ENDS }).await;
}

/// Of everything that was done: what is missing, and what was done that should not.
fn compare(lab: &Lab, wanted: Vec<String>) {
    let (mut notes, mut wanted) = (lab.ledger.notes(), wanted);
    notes.sort();
    wanted.sort();
    assert_eq!(notes, wanted);
}

/// Waits for an event, then sends the goods in its own way, and waits once more.
fn shop(build: u32) -> Workflow<(), (), AnyError> {
    Workflow::new("shop", move |ctx: Ctx, (): ()| async move {
        act(&ctx, "pack").await?;
        ctx.event::<()>("go").await?;
        match build == 2 && ctx.patched("express") {
            true => act(&ctx, "express").await?,
            false => act(&ctx, "post").await?,
        }
        ctx.event::<()>("done").await?;
        act(&ctx, "bill").await?;
        Ok(())
    })
}

async fn act(ctx: &Ctx, what: &str) -> Result<(), AnyError> {
    let (ledger, run) = (ctx.state::<Ledger>(), ctx.run_id());
    let note = format!("{run} {what}");
    let step = ctx.step(what, move |_| {
        ledger.note(note.clone());
        async { Ok::<(), AnyError>(()) }
    });
    Ok(step.await?)
}

engine_test! {
    async fn a_version_that_is_taken_back_leaves_its_runs_waiting_and_those_before_go_on(lab: Lab) {
        let rolls = lab.world.store().name() == "postgres";
        lab.start(old).await;
        let ones = start(lab.app(), &lab, 1).await;
        let more = start(lab.app(), &lab, 2).await;

        // Where several nodes can be, both builds are there for a while.
        if rolls {
            let node = beside(&lab, new).await;
            let retired = lab.replace(node);
            assert_eq!(lab.app().definition("flow").await.unwrap().version, 2);
            // Whoever still asks the old one starts the new version, too.
            let run = retired.app().start_by_name("flow", "[\"Waits\", 9]").await.unwrap();
            lab.until("it waits", || async { run.status().await.unwrap().status == Status::Waiting }).await;
            retired.app().send(run.id(), "go", &()).await.unwrap();
            assert_eq!(run.result_json().await.unwrap().get(), "2");
            retired.app().clone().shutdown(5.seconds()).await.unwrap();
        } else {
            lab.restart(new).await;
        }
        let twos = start(lab.app(), &lab, 3).await;
        lab.app().send(more[0], "go", &()).await.unwrap();
        assert_eq!(lab.app().handle(&flow(1), more[0]).result().await.unwrap(), 1, "it keeps its version");

        // Back, while runs of both are in flight. The new one does not even say good-bye.
        if rolls {
            let node = beside(&lab, old).await;
            lab.replace(node).kill().await;
        } else {
            lab.restart(old).await;
        }
        for run in [ones[0], twos[0]] {
            lab.app().send(run, "go", &()).await.unwrap();
        }
        lab.world.clock().advance(2.hours());
        lab.until("what began with version 1 ends", || async {
            lab.test().sweep().await;
            [statuses(&lab, &ones).await, statuses(&lab, &more).await] == [ENDS, ENDS]
        }).await;
        lab.until("what began with version 2 is blocked", || async {
            lab.test().sweep().await;
            statuses(&lab, &twos).await == [Status::Blocked; 4]
        }).await;
        for run in &twos {
            let reason = lab.app().status(*run).await.unwrap().reason.unwrap();
            assert_eq!(reason, "no node knows flow@2, only flow@1");
        }
        let done = |n, version| CASES.iter().flat_map(move |case| wanted(*case, n, version));
        let begun = |case: &Case| match case {
            Case::Waits | Case::Sleeps => 1,
            Case::Retries | Case::Undoes => 2,
        };
        let mut all: Vec<String> = done(1, 1).chain(done(2, 1)).collect();
        if rolls {
            all.extend(wanted(Case::Waits, 9, 2));
        }
        let so_far = CASES.iter().flat_map(|case| wanted(*case, 3, 2).into_iter().take(begun(case)));
        compare(&lab, all.iter().cloned().chain(so_far).collect());

        // And here it is again: nobody has to ask for anything.
        lab.restart(new).await;
        all_end(&lab, &twos).await;
        compare(&lab, all.into_iter().chain(done(3, 2)).collect());
        lab.world.invariants().await;
    }

    async fn a_patch_that_is_taken_back_blocks_the_runs_that_came_by_it_before_they_do_anything(lab: Lab) {
        lab.start(|app| app.workflow(shop(1))).await;
        let mut runs = Vec::new();
        for _ in 0..3 {
            runs.push(lab.app().start(shop(1), ()).await.unwrap().id());
        }
        let [before, past, patched] = runs[..] else { panic!("three") };
        lab.settle().await;
        lab.app().send(past, "go", &()).await.unwrap();
        lab.settle().await;

        lab.restart(|app| app.workflow(shop(2))).await;
        let new = lab.app().start(shop(2), ()).await.unwrap().id();
        lab.app().send(patched, "go", &()).await.unwrap();
        lab.settle().await;

        lab.restart(|app| app.workflow(shop(1))).await;
        for run in [before, past, patched, new] {
            lab.app().send(run, "go", &()).await.unwrap();
            lab.app().send(run, "done", &()).await.unwrap();
        }
        lab.settle().await;
        for run in [before, past, new] {
            assert_eq!(lab.app().status(run).await.unwrap().status, Status::Completed);
        }
        let view = lab.app().status(patched).await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        let reason = view.reason.unwrap();
        assert!(reason.starts_with("the journal goes on with step \"express\" (entry "), "{reason}");
        assert!(reason.contains("but the code begins step \"post\", which is not recorded"), "{reason}");
        assert_eq!(lab.ledger.count(&format!("{patched} post")), 0, "it was sent already");

        lab.restart(|app| app.workflow(shop(2))).await;
        lab.app().handle(&shop(2), patched).result().await.unwrap();
        let mut wanted = Vec::new();
        for (run, way) in [(before, "post"), (past, "post"), (patched, "express"), (new, "post")] {
            wanted.extend(["pack", way, "bill"].map(|what| format!("{run} {what}")));
        }
        compare(&lab, wanted);
    }

    async fn code_that_leaves_out_what_was_done_and_is_taken_back_has_harmed_nobody(lab: Lab) {
        let shop = |is_whole: bool| {
            Workflow::new("shop", move |ctx: Ctx, (): ()| async move {
                act(&ctx, "pack").await?;
                if is_whole {
                    act(&ctx, "post").await?;
                }
                ctx.event::<()>("go").await?;
                ctx.event::<()>("done").await?;
                act(&ctx, "bill").await?;
                Ok::<(), AnyError>(())
            })
        };
        lab.start(|app| app.workflow(shop(true))).await;
        let run = lab.app().start(shop(true), ()).await.unwrap().id();
        lab.settle().await;
        lab.restart(|app| app.workflow(shop(false))).await;
        let short = lab.app().start(shop(false), ()).await.unwrap().id();
        lab.app().send(run, "go", &()).await.unwrap();
        lab.settle().await;
        let view = lab.app().status(run).await.unwrap();
        assert_eq!(view.status, Status::Blocked);
        let reason = view.reason.unwrap();
        assert!(reason.contains("step \"post\" (entry 2)"), "{reason}");

        // The other way round it is a step that was added: it is done.
        lab.restart(|app| app.workflow(shop(true))).await;
        for run in [run, short] {
            lab.app().send(run, "go", &()).await.unwrap();
            lab.app().send(run, "done", &()).await.unwrap();
            lab.app().handle(&shop(true), run).result().await.unwrap();
        }
        let wanted = [run, short].map(|run| ["pack", "post", "bill"].map(|what| format!("{run} {what}")));
        compare(&lab, wanted.concat());
    }
}
