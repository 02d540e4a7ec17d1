//! The code under test: a workflow and a job that do what a [`Plan`] says, with everything there is.

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use outlast::prelude::*;
use outlast::{Child, CompareAndSet};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::beats::beat;
use crate::gates;
use crate::ledger::{Body, Ledger};
use crate::plan::{Act, ChildEnd, Did, How, JOB_ATTEMPTS, JobEnd, Plan, Saw, Score, Spot, Work};
use crate::poison::poison;
use crate::sagas::saga;

/// The pause before a body is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(3);
/// How long a child is awaited at first before its parent looks up from it, and at most.
const LOOK_UP: (Duration, Duration) = (Duration::from_millis(4), Duration::from_secs(1));
/// How many operations a busy body passes through: more than tokio lets a task do before others get their turn.
const OPERATIONS: usize = 200;
/// The name of the job without rules.
pub(crate) const WORK: &str = "work";
/// Where the counter is that runs share.
pub(crate) const COUNTER: (&str, &str) = ("kill", "counter");
/// What a job's calls are called in the ledger: it has no steps.
pub(crate) const JOB_STEP: &str = "job";

/// Where transactional steps leave their row. No key: a row written twice shall be seen.
pub(crate) const EFFECTS: &str =
    "create table if not exists effects (run text not null, step text not null, value bigint not null)";

pub(crate) fn play() -> Workflow<Plan, Score, Miss> {
    Workflow::new("play", perform_plan)
}

pub(crate) fn work() -> Job<Work, Did, Planned> {
    job(WORK)
}

/// A job of this name that does what its input says.
pub(crate) fn job(name: &'static str) -> Job<Work, Did, Planned> {
    Job::new(name, do_work).retry(Retry::fixed(JOB_ATTEMPTS, PAUSE))
}

/// Everything that a victim runs.
pub(crate) fn register(app: Outlast) -> Outlast {
    gates::register(app.workflow(play()).workflow(saga()).job(work()).job(poison()).job(beat()))
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
    let body = ledger.begin(job.run_id(), JOB_STEP, job.attempt(), 0, Some(work));
    finish(body, job.attempt(), work.ms, work.fails).await
}

/// What every body does once it has begun: takes its time, and fails as often as the plan says.
pub(crate) async fn finish(body: Body<'_>, attempt: u32, ms: u64, fails: u32) -> Result<Did, Planned> {
    pass(ms).await;
    let value = body.value();
    body.end();
    match attempt > fails {
        true => Ok(Did { value, attempt }),
        false => Err(Planned { value }),
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
            Act::Count => Saw::Counted(count(ctx).await?),
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
            Act::Job { work, how } => child_job(ctx, *work, *how, &spot).await?,
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
            let body = ledger.begin(s.run_id(), step, s.attempt(), sum, None);
            finish(body, s.attempt(), ms, fails).await
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
            let body = ledger.begin(s.run_id(), name, s.attempt(), sum, None);
            let did = finish(body, s.attempt(), ms, 0).await;
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
            let body = ledger.begin(run, &step, 1, sum, None);
            let value = body.value();
            let row = (run.to_string(), step, value.cast_signed());
            tx.execute("insert into effects (run, step, value) values ($1, $2, $3)", row).await?;
            pass(ms).await;
            body.end();
            Ok::<u64, AnyError>(value)
        }
    };
    ctx.transaction(&name, work).await
}

/// Raises the counter by one, however many do so at once, and says to what.
async fn count(ctx: &Ctx) -> Result<u64, Error> {
    let (space, key) = COUNTER;
    let kv = ctx.kv().space(space);
    loop {
        let found = kv.get_versioned::<u64>(key).await?;
        let (version, count) = found.map_or((None, 0), |found| (Some(found.version), found.value));
        if let CompareAndSet::Done { .. } = kv.compare_and_set(key, version, &(count + 1)).await? {
            return Ok(count + 1);
        }
    }
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

async fn child_job(ctx: &Ctx, work: Work, how: How, spot: &Spot) -> Result<Saw, Miss> {
    let start = ctx.start(work.job(), work);
    let start = work.ticket.iter().fold(start, |start, ticket| start.group(ticket.group()));
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
