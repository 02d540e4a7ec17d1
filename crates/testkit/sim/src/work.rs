//! What runs use beside workflows: jobs, a queue with a limit, and a counter that all of them share.

use std::time::Duration;

use outlast::CompareAndSet;
use outlast::prelude::*;
use serde::{Deserialize, Serialize};

use crate::beats::beat;
use crate::play::Stage;
use crate::program::{LIMIT, Line, RETRY_MS};

/// How often a job is tried: more often than any fails.
const ATTEMPTS: u32 = 3;
/// What a job's calls are called in the ledger: it has no steps.
pub(crate) const JOB: &str = "job";
/// Where the counter is.
pub(crate) const COUNTER: (&str, &str) = ("sim", "counter");

/// What a job is called with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) label: String,
    pub(crate) ms: u64,
    pub(crate) fails: u32,
}

/// Everything of this that a node runs.
pub(crate) fn register(app: Outlast, limits: bool) -> Outlast {
    let app = app.job(job(Line::Free)).job(beat());
    match limits {
        true => app.job(job(Line::Limited)).queue(Queue::new("limited").limit(LIMIT as u32)),
        false => app,
    }
}

/// The job of a line.
pub(crate) fn job(line: Line) -> Job<Work, u64, AnyError> {
    let job = match line {
        Line::Free => Job::new("work", work),
        Line::Limited => Job::new("limited", work).queue("limited"),
    };
    job.retry(Retry::fixed(ATTEMPTS, Duration::from_millis(RETRY_MS)))
}

async fn work(job: JobCtx, work: Work) -> Result<u64, AnyError> {
    let stage = job.state::<Stage>();
    let body = (format!("{}/0", work.label), JOB.to_owned(), false, job.attempt());
    let value = stage.run(&body, work.ms, 0).await;
    if job.attempt() <= work.fails { Err(AnyError::new("not yet")) } else { Ok(value) }
}

/// One more on the counter.
pub(crate) async fn count(ctx: &Ctx) -> Result<u64, Error> {
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
