//! The code under test: a workflow and a job that do what a [`Plan`] says, with everything there is.

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use outlast::Child;
use outlast::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::ledger::Ledger;
use crate::plan::{Act, ChildEnd, Did, How, JOB_ATTEMPTS, JobEnd, Plan, Saw, Score, Spot, Work};

/// The pause before a body is tried again.
const PAUSE: Duration = Duration::from_millis(3);
/// How long a child is awaited at first before its parent looks up from it, and at most.
const LOOK_UP: (Duration, Duration) = (Duration::from_millis(4), Duration::from_secs(1));
/// How many operations a busy body passes through: more than tokio lets a task do before others get their turn.
const OPERATIONS: usize = 200;
/// What a job's calls are called in the ledger: it has no steps.
pub(crate) const JOB_STEP: &str = "job";

/// Where transactional steps leave their row. No key: a row written twice shall be seen.
pub(crate) const EFFECTS: &str =
    "create table if not exists effects (run text not null, step text not null, value bigint not null)";

pub(crate) fn play() -> Workflow<Plan, Score, Miss> {
    Workflow::new("play", perform_plan)
}

pub(crate) fn work() -> Job<Work, Did, Planned> {
    Job::new("work", do_work).retry(Retry::fixed(JOB_ATTEMPTS, PAUSE))
}

/// The end of a run that did not go well.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Miss {
    #[error("failed as planned")]
    Planned(Score),
    /// Nobody planned this.
    #[error("{0}")]
    Wrong(String),
}

impl From<Error> for Miss {
    fn from(error: Error) -> Miss {
        Miss::Wrong(error.to_string())
    }
}

impl<E: std::fmt::Display> From<Failure<E>> for Miss {
    fn from(failure: Failure<E>) -> Miss {
        Miss::Wrong(failure.to_string())
    }
}

/// A failure that the plan asked for.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("failed as planned with {value}")]
pub(crate) struct Planned {
    pub(crate) value: u64,
}

async fn do_work(job: JobCtx, work: Work) -> Result<Did, Planned> {
    let ledger = job.state::<Ledger>();
    body(&ledger, job.run_id(), JOB_STEP, job.attempt(), 0, work.ms, work.fails).await
}

/// What every body does: tells the ledger, takes its time, and fails as often as the plan says.
async fn body(
    ledger: &Ledger,
    run: RunId,
    step: &str,
    attempt: u32,
    sum: u64,
    ms: u64,
    fails: u32,
) -> Result<Did, Planned> {
    let call = ledger.begin(run, step, attempt, sum);
    pass(ms).await;
    ledger.end(&call);
    match attempt > fails {
        true => Ok(Did { value: call.value, attempt }),
        false => Err(Planned { value: call.value }),
    }
}

async fn pass(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

async fn perform_plan(ctx: Ctx, plan: Plan) -> Result<Score, Miss> {
    let mut score: Score = ctx.saved("score")?.unwrap_or_default();
    if plan.from > 0 {
        score.add(Saw::StartedOver { mark: ctx.saved("mark")? });
    }
    for (at, act) in plan.acts.iter().enumerate().skip(plan.from) {
        match act {
            Act::StartOver => {
                ctx.save("score", &score)?;
                return ctx.continue_as_new(Plan { from: at + 1, ..plan }).await;
            }
            Act::Fail => return Err(Miss::Planned(score)),
            Act::Save => {
                ctx.save("mark", &at)?;
                score.add(Saw::Saved);
            }
            act => {
                let saw = perform(&ctx, act, Spot::new(at), score.sum).await?;
                score.add(saw);
            }
        }
    }
    Ok(score)
}

fn perform<'a>(ctx: &'a Ctx, act: &'a Act, spot: Spot, sum: u64) -> BoxFuture<'a, Result<Saw, Miss>> {
    Box::pin(async move {
        Ok(match act {
            Act::Step { ms } => Saw::Did(step(ctx, &spot.plain("step"), sum, *ms, 0, Retry::never()).await?),
            Act::Busy { ms } => Saw::Did(busy(ctx, &spot.plain("busy"), sum, *ms).await?),
            Act::Flaky { fails, ms } => {
                let retry = Retry::fixed(fails + 1, PAUSE);
                Saw::Did(step(ctx, &spot.plain("flaky"), sum, *ms, *fails, retry).await?)
            }
            Act::Doomed { attempts } => {
                let retry = Retry::fixed(*attempts, PAUSE);
                match step(ctx, &spot.plain("doomed"), sum, 0, u32::MAX, retry).await {
                    Err(Failure::Own(Planned { value })) => Saw::GaveUp { value },
                    other => return Err(Miss::Wrong(format!("a doomed step gave {other:?}"))),
                }
            }
            Act::Transaction { ms } => {
                Saw::Committed { value: transaction(ctx, spot.plain("tx"), sum, *ms).await? }
            }
            Act::Sleep { ms } => {
                ctx.sleep(ms.millis()).await?;
                Saw::Slept
            }
            Act::Ticks { count } => Saw::Heard(hear(ctx, "tick", *count).await?),
            Act::Mail { count } => Saw::Heard(hear(ctx, "mail", *count).await?),
            Act::Letter => Saw::Heard(hear(ctx, &spot.plain("letter"), 1).await?),
            Act::Post { to, count } => {
                for n in 1..=*count {
                    ctx.send(*to, "mail", &n).await?;
                }
                Saw::Posted
            }
            Act::Promise => Saw::Settled(ctx.promise(&spot.plain("promise")).await?),
            Act::Random => Saw::Random(ctx.random()),
            Act::Now => Saw::Now(ctx.now().micros()),
            Act::Sequence(acts) => {
                let mut saw = Vec::new();
                for (k, act) in acts.iter().enumerate() {
                    saw.push(perform(ctx, act, spot.inner(k), sum).await?);
                }
                Saw::All(saw)
            }
            Act::Join(acts) => {
                let branches = spot.branches(acts).into_iter();
                let all = join_all(branches.map(|(spot, act)| perform(ctx, act, spot, sum))).await;
                Saw::All(all.into_iter().collect::<Result<_, _>>()?)
            }
            Act::Race(acts) => tokio::select! {
                saw = perform(ctx, &acts[0], spot.inner(0), sum) => Saw::Won(0, Box::new(saw?)),
                saw = perform(ctx, &acts[1], spot.inner(1), sum) => Saw::Won(1, Box::new(saw?)),
                saw = perform(ctx, &acts[acts.len() - 1], spot.inner(2), sum), if acts.len() > 2 => {
                    Saw::Won(2, Box::new(saw?))
                }
            },
            Act::Child { plan, how } => child(ctx, plan, *how, &spot).await?,
            Act::Watch { plan, how } => watch(ctx, plan, *how, &spot).await?,
            Act::Job { work, how } => job(ctx, *work, *how, &spot).await?,
            Act::Save | Act::StartOver | Act::Fail => {
                return Err(Miss::Wrong("only a run itself can save, start over or fail".into()));
            }
        })
    })
}

async fn step(
    ctx: &Ctx,
    name: &str,
    sum: u64,
    ms: u64,
    fails: u32,
    retry: Retry,
) -> Result<Did, Failure<Planned>> {
    let ledger = ctx.state::<Ledger>();
    let work = |s: StepCtx| {
        let ledger = ledger.clone();
        async move {
            // The name as the engine has it: with its occurrence.
            let key = s.key();
            let step = key.split_once('/').map_or(key.as_str(), |(_, step)| step);
            body(&ledger, s.run_id(), step, s.attempt(), sum, ms, fails).await
        }
    };
    ctx.step(name, work).retry(retry).await
}

async fn busy(ctx: &Ctx, name: &str, sum: u64, ms: u64) -> Result<Did, Failure<Planned>> {
    let ledger = ctx.state::<Ledger>();
    let work = |s: StepCtx| {
        let ledger = ledger.clone();
        async move {
            pass_operations().await;
            let did = body(&ledger, s.run_id(), name, s.attempt(), sum, ms, 0).await;
            pass_operations().await;
            did
        }
    };
    ctx.step(name, work).await
}

async fn pass_operations() {
    let ready = Semaphore::new(1);
    for _ in 0..OPERATIONS {
        drop(ready.acquire().await);
    }
}

async fn transaction(ctx: &Ctx, name: String, sum: u64, ms: u64) -> Result<u64, Failure<AnyError>> {
    let (ledger, run) = (ctx.state::<Ledger>(), ctx.run_id());
    let work = |tx: Tx| {
        let (ledger, step) = (ledger.clone(), name.clone());
        async move {
            let call = ledger.begin(run, &step, 1, sum);
            let row = (run.to_string(), step, call.value.cast_signed());
            tx.execute("insert into effects (run, step, value) values ($1, $2, $3)", row).await?;
            pass(ms).await;
            ledger.end(&call);
            Ok::<u64, AnyError>(call.value)
        }
    };
    ctx.transaction(&name, work).await
}

async fn hear(ctx: &Ctx, name: &str, count: u32) -> Result<Vec<u32>, Error> {
    let mut heard = Vec::new();
    for _ in 0..count {
        heard.push(ctx.event::<u32>(name).await?);
    }
    Ok(heard)
}

async fn child(ctx: &Ctx, plan: &Plan, how: How, spot: &Spot) -> Result<Saw, Miss> {
    let child = start_child(ctx, plan, how, spot).await?;
    let run = child.id();
    if how == How::Detached {
        return Ok(Saw::Child { run, end: None });
    }
    let end = child_end(child.result().await)?;
    Ok(Saw::Child { run, end: Some(end) })
}

async fn watch(ctx: &Ctx, plan: &Plan, how: How, spot: &Spot) -> Result<Saw, Miss> {
    let child = start_child(ctx, plan, how, spot).await?;
    let mut pause = LOOK_UP.0;
    loop {
        tokio::select! {
            end = child.result() => return Ok(Saw::Child { run: child.id(), end: Some(child_end(end)?) }),
            slept = ctx.sleep(pause) => slept?,
        }
        pause = (pause * 2).min(LOOK_UP.1);
    }
}

async fn start_child(
    ctx: &Ctx,
    plan: &Plan,
    how: How,
    spot: &Spot,
) -> Result<Child<Workflow<Plan, Score, Miss>>, Miss> {
    let start = ctx.start(play(), plan.clone());
    let child = match how {
        How::Plain => start.await?,
        How::Keyed => start.key(format!("{}:{}", ctx.run_id(), spot.plain("child"))).await?,
        How::Detached => start.detached().await?,
    };
    for n in 1..=plan.ticks() {
        child.send("tick", &n).await?;
    }
    Ok(child)
}

fn child_end(end: Result<Score, Failure<Miss>>) -> Result<ChildEnd, Miss> {
    match end {
        Ok(score) => Ok(ChildEnd { failed: false, score }),
        Err(Failure::Own(Miss::Planned(score))) => Ok(ChildEnd { failed: true, score }),
        Err(other) => Err(other.into()),
    }
}

async fn job(ctx: &Ctx, job: Work, how: How, spot: &Spot) -> Result<Saw, Miss> {
    let start = ctx.start(work(), job);
    let job = match how {
        How::Plain => start.await?,
        How::Keyed => start.key(format!("{}:{}", ctx.run_id(), spot.plain("job"))).await?,
        How::Detached => start.detached().await?,
    };
    let run = job.id();
    if how == How::Detached {
        return Ok(Saw::Job { run, end: None });
    }
    let end = match job.result().await {
        Ok(did) => JobEnd::Did(did),
        Err(Failure::Own(Planned { value })) => JobEnd::GaveUp { value },
        Err(other) => return Err(other.into()),
    };
    Ok(Saw::Job { run, end: Some(end) })
}
