//! Stories that nobody wrote about how runs end: whatever is asked of them, by whom and when, each ends once.
//!
//! A workflow with steps that are undone, a sleep, an event and a child, and a job that fails at first, are cancelled,
//! killed, paused, resumed, sent to and tried again while time passes and their process dies, in any order and mostly
//! without waiting for what came before. Then everything is healed: whoever is paused is resumed, what is awaited comes,
//! time passes. Each run has to have ended, as what was asked of it allows.

use std::collections::HashMap;

use outlast::prelude::*;
use outlast::{Entry, Op, Phase};
use outlast_testkit::StoreKind;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::harness::{Lab, Ledger, once};

/// What happens. Numbers choose among the runs of the story.
#[derive(Debug, Clone, Copy)]
enum Act {
    Cancel(usize),
    Kill(usize),
    Pause(usize),
    Resume(usize),
    Send(usize),
    Retry(usize),
    Pass(u64),
    Die,
    Settle,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..3_usize).prop_map(Act::Cancel),
        1 => (0..3_usize).prop_map(Act::Kill),
        3 => (0..3_usize).prop_map(Act::Pause),
        3 => (0..3_usize).prop_map(Act::Resume),
        3 => (0..3_usize).prop_map(Act::Send),
        1 => Just(Act::Retry(2)),
        3 => (1..90_u64).prop_map(Act::Pass),
        1 => Just(Act::Die),
        4 => Just(Act::Settle),
    ]
}

async fn step(ctx: &Ctx, name: &'static str) -> Result<u32, AnyError> {
    let (ledger, run) = (ctx.state::<Ledger>(), ctx.run_id());
    let undone = Ledger::clone(&ledger);
    let step = ctx.step(name, |_| async {
        ledger.note(format!("{run} {name}"));
        tokio::task::yield_now().await;
        Ok::<u32, AnyError>(1)
    });
    let step = step.undo(move |_, _| {
        let undone = undone.clone();
        async move {
            undone.note(format!("{run} undo {name}"));
            tokio::task::yield_now().await;
            Ok::<(), AnyError>(())
        }
    });
    Ok(step.await?)
}

fn child() -> Workflow<(), u32, AnyError> {
    Workflow::new("fates-child", |ctx: Ctx, (): ()| async move {
        step(&ctx, "one").await?;
        ctx.event::<()>("go").await?;
        step(&ctx, "two").await
    })
}

fn parent() -> Workflow<(), u32, AnyError> {
    Workflow::new("fates-parent", |ctx: Ctx, (): ()| async move {
        step(&ctx, "first").await?;
        let below = ctx.start(child(), ()).key(ctx.run_id().to_string()).await?;
        ctx.sleep(1.minute()).await?;
        step(&ctx, "second").await?;
        let _ = ctx.event::<()>("go").timeout(1.hour()).await;
        let got = below.result().await?;
        step(&ctx, "third").await?;
        Ok(got)
    })
}

fn job() -> Job<(), u32, AnyError> {
    Job::new("fates-job", |job: JobCtx, (): ()| async move {
        tokio::task::yield_now().await;
        match job.attempt() < 3 {
            true => Err(AnyError::new("not yet")),
            false => Ok(job.attempt()),
        }
    })
    .retry(Retry::times(4))
    .undo(|job: JobCtx, (): ()| async move {
        job.state::<Ledger>().note(format!("{} undo", job.run_id()));
        Ok::<(), AnyError>(())
    })
}

fn all(app: Outlast) -> Outlast {
    // What was started and held by a body that was dropped then is found by a renewal.
    let app = app.settings(|settings| settings.renew_every = std::time::Duration::from_millis(50));
    once(app).workflow(parent()).workflow(child()).job(job())
}

/// What the story knows of its runs.
#[derive(Default)]
struct Known {
    /// How those ended that did.
    ends: HashMap<RunId, (Status, Option<String>)>,
    killed: Vec<RunId>,
    cancelled: Vec<RunId>,
}

/// The runs of the story that are there by now: the parent, its child, the job.
async fn runs(lab: &Lab, parent: RunId, job: RunId) -> [Option<RunId>; 3] {
    let below = lab.app().find(Target::key("fates-child", parent.to_string())).await.ok();
    [Some(parent), below, Some(job)]
}

async fn perform(lab: &mut Lab, act: Act, parent: RunId, job: RunId, known: &mut Known) {
    let of = runs(lab, parent, job).await;
    let run = |place: usize| of[place].unwrap_or(parent);
    match act {
        Act::Cancel(place) => {
            if lab.app().cancel(run(place), "a story").await.unwrap() {
                known.cancelled.push(run(place));
            }
        }
        Act::Kill(place) => {
            if lab.app().kill(run(place), "a story").await.unwrap() {
                known.killed.push(run(place));
            }
        }
        Act::Pause(place) => drop(lab.app().pause(run(place), "a story").await.unwrap()),
        Act::Resume(place) => drop(lab.app().resume(run(place)).await.unwrap()),
        Act::Send(place) => drop(lab.app().send(run(place), "go", &()).await),
        Act::Retry(place) => {
            // Only whoever asks for it takes an end away.
            if lab.app().retry(run(place)).await.unwrap_or(false) {
                known.ends.remove(&run(place));
                known.killed.retain(|killed| *killed != run(place));
                known.cancelled.retain(|cancelled| *cancelled != run(place));
            }
        }
        Act::Pass(seconds) => lab.world.store().clock().advance(std::time::Duration::from_secs(seconds)),
        Act::Die => lab.restart(all).await,
        Act::Settle => lab.settle().await,
    }
}

/// Whoever has ended stays as it is.
async fn look(lab: &Lab, of: [Option<RunId>; 3], known: &mut Known) {
    for run in of.into_iter().flatten() {
        let view = lab.app().status(run).await.unwrap();
        let Some(ended) = view.ended else { continue };
        let end = (ended.status, ended.error);
        let before = known.ends.entry(run).or_insert_with(|| end.clone());
        assert_eq!(*before, end, "{run} ended twice");
    }
}

async fn story(lab: &mut Lab, acts: &[Act]) {
    let top = lab.app().start(parent(), ()).await.unwrap().id();
    let job = lab.app().start(job(), ()).await.unwrap().id();
    let mut known = Known::default();
    for act in acts {
        perform(lab, *act, top, job, &mut known).await;
        let of = runs(lab, top, job).await;
        look(lab, of, &mut known).await;
    }
    // What heals: nobody is held back, whatever is awaited comes, and time passes.
    let lab = &*lab;
    lab.until("each run has ended", async || {
        lab.test().sweep().await;
        for run in runs(lab, top, job).await.into_iter().flatten() {
            lab.app().resume(run).await.unwrap();
            let _ = lab.app().send(run, "go", &()).await;
        }
        lab.advance(2.hours()).await;
        let mut ended = true;
        for run in runs(lab, top, job).await.into_iter().flatten() {
            ended &= lab.app().status(run).await.unwrap().status.is_final();
        }
        ended
    })
    .await;
    let of = runs(lab, top, job).await;
    look(lab, of, &mut known).await;
    for run in of.into_iter().flatten() {
        check(lab, run, &known).await;
    }
    if let Some(below) = of[1] {
        told_once(lab, top, below).await;
    }
    lab.world.invariants().await;
}

async fn check(lab: &Lab, run: RunId, known: &Known) {
    let view = lab.app().status(run).await.unwrap();
    let why = lab.app().explain(run).await.unwrap().why;
    let Some((status, error)) = known.ends.get(&run) else { panic!("{run} waits for ever: {why:?}") };
    let error = error.clone().unwrap_or_default();
    let is_killed = known.killed.contains(&run);
    if is_killed {
        assert!(*status == Status::Cancelled && error.contains("killed: a story"), "{status}: {error}");
    }
    if *status == Status::Cancelled {
        let by_parent = error.contains("its parent");
        assert!(is_killed || by_parent || known.cancelled.contains(&run), "nobody asked for it: {error}");
    }
    let journal = lab.test().journal(run).await.unwrap();
    if view.record.definition == "fates-job" {
        return;
    }
    let of = |op: Op, phase: Phase| {
        let fits = move |entry: &&Entry| entry.op == op && entry.phase == phase;
        journal.iter().filter(fits).map(|entry| entry.name.to_string()).collect::<Vec<_>>()
    };
    let own = |name: &String| !name.starts_with("start ");
    let (done, undone): (Vec<String>, _) =
        (of(Op::Step, Phase::Done).into_iter().filter(own).collect(), of(Op::Undo, Phase::Done));
    let newest_first: Vec<String> = done.iter().rev().cloned().collect();
    match status {
        Status::Completed => assert!(undone.is_empty(), "{undone:?} were undone of a run that completed"),
        // What was undone before the kill is undone; the rest is not, and nothing out of turn.
        _ if is_killed => assert_eq!(undone[..], newest_first[..undone.len()]),
        _ => assert_eq!(undone, newest_first, "newest first, and all of them"),
    }
    // Its parent may have asked it to stop, or its child ended badly: then it was about to undo what it did.
    let has_reason =
        |entry: &Entry| entry.op == Op::Cancel || (entry.op == Op::Child && entry.phase == Phase::Failed);
    if is_killed && !known.cancelled.contains(&run) && !journal.iter().any(has_reason) {
        assert!(undone.is_empty(), "nobody asked for an undo: {undone:?}");
    }
}

/// A parent hears of its child's end at most once, and as it was.
async fn told_once(lab: &Lab, top: RunId, below: RunId) {
    let journal = lab.test().journal(top).await.unwrap();
    let told: Vec<&Entry> =
        journal.iter().filter(|entry| entry.op == Op::Child && entry.phase != Phase::Opened).collect();
    assert!(told.len() <= 1, "{told:?}");
    let completed = lab.app().status(below).await.unwrap().status == Status::Completed;
    assert!(told.iter().all(|entry| (entry.phase == Phase::Done) == completed), "{told:?}");
}

/// Tells so many stories in one world.
async fn stories(kind: StoreKind, shards: u16, warm: usize, cases: u32) {
    let mut lab = Lab::new(kind, shards, warm).await;
    lab.start(all).await;
    let lab = Mutex::new(lab);
    // The same acts every time; `OUTLAST_STORIES=400` tells so many that nobody has heard.
    let more = std::env::var("OUTLAST_STORIES").ok().and_then(|cases| cases.parse().ok());
    let config = Config {
        cases: more.unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 30,
        ..Config::default()
    };
    let mut runner = match more {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let told = runner.run(&prop::collection::vec(act(), 1..16), |acts| {
        block_in_place(|| Handle::current().block_on(async { story(&mut *lab.lock().await, &acts).await }));
        Ok(())
    });
    match told {
        Ok(()) => {}
        Err(TestError::Fail(why, acts)) => panic!("{why}\nin the story {acts:?}"),
        Err(other) => panic!("{other}"),
    }
}

mod however_requests_race_each_run_ends_once_and_as_it_was_asked {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite_warm() {
        stories(StoreKind::Sqlite, 1, 100, 40).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite_cold_with_four_shards() {
        stories(StoreKind::Sqlite, 4, 0, 25).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_warm_with_four_shards() {
        if !outlast_testkit::skipped() {
            stories(StoreKind::Postgres, 4, 100, 15).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_cold() {
        if !outlast_testkit::skipped() {
            stories(StoreKind::Postgres, 1, 0, 20).await;
        }
    }
}
