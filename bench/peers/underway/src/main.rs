//! Measures underway: jobs on PostgreSQL that are a fixed sequence of steps, each step a task row of
//! its own.
//!
//! Settings, and why:
//! - 32 tasks at once: every task under way holds a connection and its transaction, so that more
//!   only fill the pool. 100 connections.
//! - Workers poll every 20 ms instead of every minute: a notification wakes one task, and a poll adds
//!   one more, so that a backlog is met by all of them. Polling more often costs more than it finds.
//! - Only the workers that a measure needs are up, since each of them polls.
//! - Bulk enqueue by `enqueue_multi`, 5,000 tasks a statement.
//! - Nothing announces a job's end, so a run counts as done when its last step is.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result};
use jiff::ToSpan;
use peer_common::{About, Bench, Landings, Tally, closed_loop, millis, one_by_one, until};
use sqlx::{PgPool, Postgres, Transaction, postgres::PgPoolOptions};
use tokio_util::sync::{CancellationToken, DropGuard};
use underway::{Job, Queue, Task, To, Worker, task::Result as TaskResult};

fn main() {
    let lock = include_str!("../Cargo.lock");
    peer_common::run(About { name: "underway", package: "underway", lock, stores: &["postgres"] }, measure);
}

const AT_ONCE: usize = 32;

static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();

/// A task without steps, as jobs are.
struct Nothing;

impl Task for Nothing {
    type Input = u64;
    type Output = ();

    async fn execute(&self, _tx: Transaction<'_, Postgres>, number: u64) -> TaskResult<()> {
        RAN.add();
        LANDINGS.land(number);
        Ok(())
    }
}

type Steps = Arc<Job<u64, ()>>;

async fn measure(bench: Bench) -> Result<()> {
    let pool = PgPoolOptions::new().max_connections(100).connect(&bench.url).await.context("connecting")?;
    underway::run_migrations(&pool).await.context("migrating")?;
    let queue = Arc::new(Queue::builder().name("nothing").pool(pool.clone()).build().await?);

    if bench.wants("W1") {
        // A backlog first, and then the worker.
        let backlog = enqueue_many(&bench, &pool, &queue).await?;
        let begin = Instant::now();
        let _up = start(Worker::new(queue.clone(), Nothing));
        RAN.reach(backlog, Duration::from_secs(120)).await?;
        let rate = backlog as f64 / begin.elapsed().as_secs_f64();
        bench.row("W1", "drain", AT_ONCE, rate, "jobs/s", &format!("{backlog} jobs"));
    }
    if bench.wants("W2") {
        let job = ten_steps(&pool).await?;
        let _up = start(job.worker());
        steps(&bench, &job).await?;
    }
    if bench.wants("W3") {
        let job = one_step(&pool).await?;
        let up = start(job.worker());
        start_to_result(&bench, &job).await?;
        drop(up);
        let _up = start(Worker::new(queue.clone(), Nothing));
        enqueue_to_ran(&bench, &pool, &queue).await?;
    }
    if bench.wants("W4") {
        bench.cannot("W4", "send to continuation", "ms p50", "no events");
    }
    if bench.wants("W5") {
        let _up = start(Worker::new(queue.clone(), Nothing));
        timers(&bench, &pool, &queue).await?;
    }
    Ok(())
}

/// Runs a worker for as long as the answer is kept.
fn start<T: Task + Sync>(mut worker: Worker<T>) -> DropGuard {
    let token = CancellationToken::new();
    worker.set_concurrency_limit(AT_ONCE);
    worker.set_shutdown_token(token.clone());
    tokio::spawn(async move {
        if let Err(error) = worker.run_every(20.milliseconds()).await {
            eprintln!("a worker ended: {error}");
        }
    });
    token.drop_guard()
}

async fn one_step(pool: &PgPool) -> Result<Steps> {
    let job = Job::builder()
        .step(|_, number: u64| async move {
            LANDINGS.land(number);
            To::done()
        })
        .name("one")
        .pool(pool.clone())
        .build()
        .await?;
    Ok(Arc::new(job))
}

async fn ten_steps(pool: &PgPool) -> Result<Steps> {
    let job = Job::builder()
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move { To::next(number) })
        .step(|_, number: u64| async move {
            LANDINGS.land(number);
            To::done()
        })
        .name("ten")
        .pool(pool.clone())
        .build()
        .await?;
    Ok(Arc::new(job))
}

async fn enqueue_many(bench: &Bench, pool: &PgPool, queue: &Arc<Queue<Nothing>>) -> Result<usize> {
    // The figure needs many, the drain few: most go to a queue that nobody drains.
    let aside = Queue::builder().name("aside").pool(pool.clone()).build().await?;
    let numbers: Vec<u64> = (0..bench.pick(100_000, 20_000)).collect();
    let begin = Instant::now();
    aside.enqueue_multi(pool, &Nothing, &numbers).await.context("bulk enqueue")?;
    let rate = numbers.len() as f64 / begin.elapsed().as_secs_f64();
    bench.row("W1", "bulk enqueue", 1, rate, "jobs/s", &format!("{} jobs", numbers.len()));

    let (shared, shared_pool) = (queue.clone(), pool.clone());
    let pace = closed_loop(16, bench.pick(2_000, 500), bench.budget(), move |number| {
        let (queue, pool) = (shared.clone(), shared_pool.clone());
        async move {
            queue.enqueue(&pool, &Nothing, &(number as u64)).await.context("enqueueing")?;
            Ok(())
        }
    })
    .await?;
    bench.row("W1", "enqueue one by one, 16 tasks", 16, pace.per_second(), "jobs/s", "");
    Ok(pace.done)
}

async fn steps(bench: &Bench, job: &Steps) -> Result<()> {
    for &level in bench.levels() {
        let shared = job.clone();
        let pace = closed_loop(level, bench.runs(), bench.budget(), move |number| {
            let job = shared.clone();
            async move {
                let landing = LANDINGS.expect(number as u64);
                job.enqueue(&(number as u64)).await?;
                landing.at(Duration::from_secs(60)).await?;
                Ok(())
            }
        })
        .await?;
        bench.row("W2", "", level, pace.per_second() * 10.0, "steps/s", &format!("{} runs", pace.done));
    }
    Ok(())
}

async fn start_to_result(bench: &Bench, one: &Steps) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        one.enqueue(&(number as u64)).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "workflow", samples, "until the step's end, as nothing announces the run's")
}

async fn enqueue_to_ran(bench: &Bench, pool: &PgPool, queue: &Queue<Nothing>) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        queue.enqueue(pool, &Nothing, &(number as u64)).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "job", samples, "")
}

async fn timers(bench: &Bench, pool: &PgPool, queue: &Arc<Queue<Nothing>>) -> Result<()> {
    const TIMERS: usize = 2_000;
    let due = SystemTime::now() + bench.lead();
    let landings: Vec<_> = (0..TIMERS as u64).map(|number| LANDINGS.expect(number)).collect();
    let (shared, shared_pool, due_at) = (queue.clone(), pool.clone(), millis(due));
    let pace = closed_loop(16, TIMERS, bench.lead(), move |number| {
        let (queue, pool) = (shared.clone(), shared_pool.clone());
        async move {
            // Whole milliseconds, which is what the database takes, and never early.
            let delay = (until(due_at).as_millis() as i64 + 1).milliseconds();
            queue.enqueue_after(&pool, &Nothing, &(number as u64), delay).await.context("setting a timer")?;
            Ok(())
        }
    })
    .await?;
    if bench.too_few_timers(pace.done, TIMERS) {
        return Ok(());
    }
    let set = SystemTime::now();

    let mut fired = Vec::with_capacity(TIMERS);
    for landing in landings {
        fired.push(landing.at(bench.lead() + Duration::from_secs(60)).await?);
    }
    bench.lateness(due, fired, set, "")
}
