//! The workloads on Outlast, as its users would write them.

pub mod idle;
pub mod jobs;
pub mod latency;
pub mod many;
pub mod steps;
pub mod timers;

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use outlast::Timestamp;
use outlast::prelude::*;

use crate::place::Fresh;

/// How often each figure of a pair is measured, in turns: a machine is not the same from one second to the next.
pub const ROUNDS: usize = 3;

/// The one in the middle.
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `steps` no-op steps, one after the other.
pub async fn some_steps(ctx: Ctx, steps: u32) -> Result<(), AnyError> {
    for _ in 0..steps {
        ctx.step("step", |_| async { Ok::<_, AnyError>(()) }).await?;
    }
    Ok(())
}

pub fn ten_steps() -> Workflow<u32, (), AnyError> {
    Workflow::new("ten_steps", some_steps)
}

/// A job that does nothing.
pub fn noop() -> Job<u32, (), AnyError> {
    Job::new("noop", |_: JobCtx, _: u32| async { Ok::<_, AnyError>(()) })
}

/// Waits for an event, again and again, and gives the time of each back through a channel of the test.
pub fn waits() -> Workflow<u32, (), AnyError> {
    Workflow::new("waits", |ctx: Ctx, events: u32| async move {
        for _ in 0..events {
            let _: u64 = ctx.event("go").await?;
            latency::CONTINUED.send_replace(Instant::now().into());
        }
        Ok::<_, AnyError>(())
    })
}

/// Sleeps until a time.
pub fn sleeps() -> Workflow<i64, (), AnyError> {
    Workflow::new("sleeps", |ctx: Ctx, until: i64| async move {
        ctx.sleep_until(Timestamp::from_micros(until)).await?;
        timers::woke(until);
        Ok::<_, AnyError>(())
    })
}

/// Starts children and waits for all of them.
pub fn fans_out() -> Workflow<u32, u32, AnyError> {
    Workflow::new("fans_out", |ctx: Ctx, children: u32| async move {
        let mut started = Vec::new();
        for child in 0..children {
            started.push(ctx.start(noop(), child).await?);
        }
        let mut ended = 0;
        for child in started {
            child.result().await?;
            ended += 1;
        }
        Ok::<_, AnyError>(ended)
    })
}

/// A node with all of the above.
pub async fn node(fresh: &Fresh, concurrency: usize) -> Result<App> {
    Ok(opened(fresh, concurrency).await?.run().await?)
}

/// The same before it begins: whoever measures what is there already starts the clock in between.
pub async fn opened(fresh: &Fresh, concurrency: usize) -> Result<Outlast> {
    let outlast = Outlast::open(&fresh.url).await?.concurrency(concurrency);
    let outlast = outlast.workflow(ten_steps()).workflow(waits()).workflow(sleeps()).workflow(fans_out());
    Ok(outlast.workflow(steps::remembers()).job(noop()))
}

/// Times in microseconds, up to ten minutes.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are fine")
}

/// A quantile in milliseconds.
pub fn ms(times: &Histogram<u64>, quantile: f64) -> f64 {
    times.value_at_quantile(quantile) as f64 / 1000.0
}

pub fn micros(time: Duration) -> u64 {
    time.as_micros().max(1) as u64
}
