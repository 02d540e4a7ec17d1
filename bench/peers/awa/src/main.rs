//! Measures awa, a job queue on PostgreSQL: no workflows, so no steps; a job can wait for a
//! callback, which is its event.
//!
//! Settings, and why:
//! - 256 jobs at once, claimed 512 at a time, which is its default.
//! - The storage of new installations, which a node chooses when it starts on an empty database.
//! - Bulk enqueue by COPY, 1,000 jobs a call, from two calls at once; its fastest way in.
//! - Jobs are announced by LISTEN/NOTIFY; the poll beside it every 20 ms instead of 200 ms, and
//!   jobs that become due are promoted every 20 ms.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result};
use async_trait::async_trait;
use awa::{
    AwaError, Client, InsertOpts, InsertParams, JobArgs, JobContext, JobError, JobResult, QueueConfig,
    QueueStorage, QueueStorageConfig, Worker, admin, insert_many_copy_from_pool, insert_with, migrations,
};
use chrono::{DateTime, Utc};
use peer_common::{About, Bench, Landings, Tally, closed_loop, one_by_one};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, postgres::PgPoolOptions, types::Uuid};

fn main() {
    let lock = include_str!("../Cargo.lock");
    peer_common::run(About { name: "awa", package: "awa", lock, stores: &["postgres"] }, measure);
}

const QUEUE: &str = "peer";
const AT_ONCE: usize = 256;

static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();
/// Where a job says that it waits, and for which callback.
static WAITING: Landings = Landings::new();
static CALLBACKS: Mutex<Option<HashMap<u64, Uuid>>> = Mutex::new(None);

#[derive(Serialize, Deserialize, JobArgs)]
struct Job {
    number: u64,
}

#[derive(Serialize, Deserialize, JobArgs)]
struct Waits {
    number: u64,
}

struct Waiting;

#[async_trait]
impl Worker for Waiting {
    fn kind(&self) -> &'static str {
        Waits::kind()
    }

    async fn perform(&self, ctx: &JobContext) -> Result<JobResult, JobError> {
        let failed = |error: AwaError| JobError::terminal(error.to_string());
        let number = ctx.job.args["number"].as_u64().unwrap_or_default();
        let callback = ctx.register_callback(Duration::from_secs(60)).await.map_err(failed)?;
        CALLBACKS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default()
            .insert(number, callback.id());
        WAITING.land(number);
        ctx.wait_for_callback(callback).await.map_err(failed)?;
        LANDINGS.land(number);
        Ok(JobResult::Completed)
    }
}

async fn measure(bench: Bench) -> Result<()> {
    let pool = PgPoolOptions::new().max_connections(48).connect(&bench.url).await.context("connecting")?;
    migrations::run(&pool).await.context("migrating")?;
    choose_storage(&pool).await?;
    let client = Client::builder(pool.clone())
        .queue(
            QUEUE,
            QueueConfig {
                max_workers: AT_ONCE as u32,
                poll_interval: Duration::from_millis(20),
                ..QueueConfig::default()
            },
        )
        .promote_interval(Duration::from_millis(20))
        .register::<Job, _, _>(|job: Job, _ctx| async move {
            RAN.add();
            LANDINGS.land(job.number);
            Ok(JobResult::Completed)
        })
        .register_worker(Waiting)
        .build()?;

    // A backlog first, and then the workers.
    let backlog = if bench.wants("W1") { enqueue_many(&bench, &pool).await? } else { 0 };
    let begin = Instant::now();
    client.start().await.context("starting the workers")?;
    if bench.wants("W1") {
        RAN.reach(backlog, Duration::from_secs(120)).await?;
        let rate = backlog as f64 / begin.elapsed().as_secs_f64();
        bench.row("W1", "drain", AT_ONCE, rate, "jobs/s", &format!("{backlog} jobs"));
    }
    if bench.wants("W2") {
        bench.cannot("W2", "", "steps/s", "jobs only: no steps");
    }
    if bench.wants("W3") {
        enqueue_to_ran(&bench, &pool).await?;
    }
    if bench.wants("W4") {
        callbacks(&bench, &pool).await?;
    }
    if bench.wants("W5") {
        timers(&bench, &pool).await?;
    }
    Ok(())
}

/// Starts a node on the empty database, which makes it choose the storage of new installations; one
/// that already holds jobs keeps the slower one of older versions.
async fn choose_storage(pool: &PgPool) -> Result<()> {
    let client = Client::builder(pool.clone())
        .queue("idle", QueueConfig::default())
        .register::<Job, _, _>(|_, _| async { Ok(JobResult::Completed) })
        .build()?;
    client.start().await.context("starting on an empty database")?;
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.to_owned(), ..InsertOpts::default() }
}

fn batch(numbers: impl Iterator<Item = u64>, options: &InsertOpts) -> Result<Vec<InsertParams>> {
    let one = |number| awa::model::insert::params_with(&Job { number }, options.clone());
    Ok(numbers.map(one).collect::<Result<_, _>>()?)
}

async fn enqueue_many(bench: &Bench, pool: &PgPool) -> Result<usize> {
    let (batches, of) = (bench.pick(100, 20), 1_000);
    let storage = Arc::new(QueueStorage::new(QueueStorageConfig::default())?);
    let shared = pool.clone();
    let pace = closed_loop(2, batches, Duration::from_secs(30), move |_| {
        let (pool, storage) = (shared.clone(), storage.clone());
        async move {
            storage.enqueue_params_copy(&pool, &batch(0..of, &options())?).await.context("bulk enqueue")?;
            Ok(())
        }
    })
    .await?;
    let bulk = pace.done * of as usize;
    let note = format!("{bulk} jobs, 1,000 a call");
    bench.row("W1", "bulk enqueue", 2, pace.per_second() * of as f64, "jobs/s", &note);

    let shared = pool.clone();
    let pace = closed_loop(16, bench.pick(10_000, 2_000), bench.budget(), move |number| {
        let pool = shared.clone();
        async move {
            insert_with(&pool, &Job { number: number as u64 }, options()).await.context("enqueueing")?;
            Ok(())
        }
    })
    .await?;
    bench.row("W1", "enqueue one by one, 16 tasks", 16, pace.per_second(), "jobs/s", "");
    Ok(bulk + pace.done)
}

async fn enqueue_to_ran(bench: &Bench, pool: &PgPool) -> Result<()> {
    bench.cannot("W3", "workflow", "ms p50", "jobs only: no result to wait for");
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let number = number as u64;
        let landing = LANDINGS.expect(number);
        let begin = Instant::now();
        insert_with(pool, &Job { number }, options()).await.context("enqueueing")?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "job", samples, "")
}

async fn callbacks(bench: &Bench, pool: &PgPool) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let number = number as u64;
        let (waiting, landing) = (WAITING.expect(number), LANDINGS.expect(number));
        insert_with(pool, &Waits { number }, options()).await.context("enqueueing")?;
        waiting.at(Duration::from_secs(30)).await?;
        let callback = {
            let callbacks = CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner);
            callbacks.as_ref().and_then(|all| all.get(&number)).copied().context("no callback")?
        };
        // Its wait must be written down too.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begin = Instant::now();
        admin::resume_external(pool, callback, None, None).await.context("resuming")?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W4", "send to continuation", samples, "callback to a job that keeps its worker")
}

async fn timers(bench: &Bench, pool: &PgPool) -> Result<()> {
    const TIMERS: u64 = 2_000;
    let due = SystemTime::now() + bench.lead();
    let landings: Vec<_> = (0..TIMERS).map(|number| LANDINGS.expect(number)).collect();
    let options = InsertOpts { run_at: Some(DateTime::<Utc>::from(due)), ..options() };
    insert_many_copy_from_pool(pool, &batch(0..TIMERS, &options)?).await.context("setting timers")?;
    let set = SystemTime::now();

    let mut fired = Vec::new();
    for landing in landings {
        fired.push(landing.at(bench.lead() + Duration::from_secs(60)).await?);
    }
    bench.lateness(due, fired, set, "promoted every 20 ms")
}
