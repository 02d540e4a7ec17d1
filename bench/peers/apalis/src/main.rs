//! Measures apalis on PostgreSQL and on SQLite: jobs, and flows in which each step is a job row.
//!
//! Settings, and why:
//! - Tasks are fetched 1,000 at a time instead of 10, polled every 5 ms, which finds them as soon as
//!   LISTEN/NOTIFY would.
//! - `lock_tasks(false)`: a fetched task belongs to its worker already, and locking it again costs a
//!   statement a task. Results are kept, since without them a task's end is not written down at all.
//! - An own polling strategy: the crate's interval forgets to ask for its next wake-up, and tasks
//!   then wait for the heartbeat of 30 s.
//! - Tasks are acknowledged in the background, so the drain lasts until the rows say that all are
//!   done.
//! - Tasks run on the runtime's threads (`parallelize`), 256 at once.
//! - SQLite with `synchronous=FULL`: its own `setup` would turn it OFF, so the pool that ran the
//!   set-up is closed and another one opened.
//! - Due times have a resolution of one second, so the timers are due at a full one.
//! - A run counts as done when its last step is, as nothing announces the flow's end.

use std::{
    future::Future,
    str::FromStr,
    task::Poll,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow, bail};
use apalis::prelude::*;
use apalis_postgres::PostgresStorage;
use apalis_sqlite::SqliteStorage;
use apalis_workflow::SteppedFlow;
use futures_util::stream;
use peer_common::{About, Bench, Landings, Tally, closed_loop, one_by_one};
use sqlx::{
    PgPool, SqlitePool,
    postgres::PgPoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::time::MissedTickBehavior;

fn main() {
    let lock = include_str!("../Cargo.lock");
    let about = About { name: "apalis", package: "apalis", lock, stores: &["postgres", "sqlite"] };
    peer_common::run(about, measure);
}

const AT_ONCE: usize = 256;
const FETCH: usize = 1_000;
const POLL: Duration = Duration::from_millis(5);

static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();

async fn job(number: u64) -> Result<(), BoxDynError> {
    RAN.add();
    LANDINGS.land(number);
    Ok(())
}

async fn step(number: u64) -> Result<u64, BoxDynError> {
    Ok(number)
}

async fn last_step(number: u64) -> Result<(), BoxDynError> {
    LANDINGS.land(number);
    Ok(())
}

/// What differs between the two stores: how a task goes in, and where its workers look.
trait Store: Clone + Send + Sync + 'static {
    fn push(&self, number: u64) -> impl Future<Output = Result<()>> + Send;
    fn push_many(&self, numbers: Vec<u64>) -> impl Future<Output = Result<()>> + Send;
    fn push_at(&self, numbers: Vec<u64>, due: SystemTime) -> impl Future<Output = Result<()>> + Send;
    /// How many jobs are written down as done.
    fn done(&self) -> impl Future<Output = Result<i64>> + Send;
    fn start_ten(&self, number: u64) -> impl Future<Output = Result<()>> + Send;
    fn start_one(&self, number: u64) -> impl Future<Output = Result<()>> + Send;
    /// Starts the workers of the jobs.
    fn work(&self);
    /// Starts the workers of the flows.
    fn flow(&self);
}

async fn measure(bench: Bench) -> Result<()> {
    match bench.store {
        "sqlite" => measure_on(&bench, Sqlite(open_sqlite(&bench).await?)).await,
        _ => measure_on(&bench, Postgres(open_postgres(&bench).await?)).await,
    }
}

async fn measure_on(bench: &Bench, store: impl Store) -> Result<()> {
    // A backlog first, and then the workers.
    let backlog = if bench.wants("W1") { enqueue_many(bench, &store).await? } else { 0 };
    let begin = Instant::now();
    store.work();
    if bench.wants("W1") {
        RAN.reach(backlog, Duration::from_secs(120)).await?;
        while (store.done().await? as usize) < backlog {
            if begin.elapsed() > Duration::from_secs(120) {
                bail!("the jobs ran, but not all were written down as done");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let rate = backlog as f64 / begin.elapsed().as_secs_f64();
        bench.row("W1", "drain", AT_ONCE, rate, "jobs/s", &format!("{backlog} jobs"));
    }
    store.flow();
    tokio::time::sleep(Duration::from_secs(1)).await;
    if bench.wants("W2") {
        steps(bench, &store).await?;
    }
    if bench.wants("W3") {
        start_to_result(bench, &store).await?;
    }
    if bench.wants("W4") {
        bench.cannot("W4", "send to continuation", "ms p50", "no events");
    }
    if bench.wants("W5") {
        timers(bench, &store).await?;
    }
    Ok(())
}

async fn enqueue_many(bench: &Bench, store: &impl Store) -> Result<usize> {
    let batches = match bench.store {
        "sqlite" => bench.pick(2, 1),
        _ => bench.pick(50, 10),
    };
    let begin = Instant::now();
    for _ in 0..batches {
        store.push_many((0..FETCH as u64).collect()).await?;
    }
    let bulk = batches * FETCH;
    let rate = bulk as f64 / begin.elapsed().as_secs_f64();
    bench.row("W1", "bulk enqueue", 1, rate, "jobs/s", &format!("{bulk} jobs, 1,000 a call"));

    let shared = store.clone();
    let most = if bench.store == "sqlite" { bench.pick(1_000, 300) } else { bench.pick(10_000, 2_000) };
    let pace = closed_loop(16, most, bench.budget(), move |number| {
        let store = shared.clone();
        async move { store.push(number as u64).await }
    })
    .await?;
    bench.row("W1", "enqueue one by one, 16 tasks", 16, pace.per_second(), "jobs/s", "");
    Ok(bulk + pace.done)
}

async fn steps(bench: &Bench, store: &impl Store) -> Result<()> {
    for &level in bench.levels() {
        let shared = store.clone();
        let pace = closed_loop(level, bench.runs(), bench.budget(), move |number| {
            let store = shared.clone();
            async move {
                let landing = LANDINGS.expect(number as u64);
                store.start_ten(number as u64).await?;
                landing.at(Duration::from_secs(60)).await?;
                Ok(())
            }
        })
        .await?;
        bench.row("W2", "", level, pace.per_second() * 10.0, "steps/s", &format!("{} runs", pace.done));
    }
    Ok(())
}

async fn start_to_result(bench: &Bench, store: &impl Store) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        store.start_one(number as u64).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "workflow", samples, "until the step's end, as nothing announces the flow's")?;

    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        store.push(number as u64).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "job", samples, "")
}

async fn timers(bench: &Bench, store: &impl Store) -> Result<()> {
    const TIMERS: u64 = 2_000;
    let lead = (SystemTime::now() + bench.lead()).duration_since(UNIX_EPOCH).map_or(0, |at| at.as_secs());
    let due = UNIX_EPOCH + Duration::from_secs(lead);
    let landings: Vec<_> = (0..TIMERS).map(|number| LANDINGS.expect(number)).collect();
    store.push_at((0..TIMERS).collect(), due).await?;
    let set = SystemTime::now();

    let mut fired = Vec::new();
    for landing in landings {
        fired.push(landing.at(bench.lead() + Duration::from_secs(60)).await?);
    }
    bench.lateness(due, fired, set, "due times have a resolution of one second")
}

async fn open_postgres(bench: &Bench) -> Result<PgPool> {
    let pool = PgPoolOptions::new().max_connections(64).connect(&bench.url).await.context("connecting")?;
    PostgresStorage::setup(&pool).await.map_err(failed).context("setting up")?;
    Ok(pool)
}

async fn open_sqlite(bench: &Bench) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::from_str(&bench.url)
        .context("reading the address")?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(60));
    // The set-up leaves its connection without durability.
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    SqliteStorage::setup(&pool).await.map_err(failed).context("setting up")?;
    pool.close().await;
    Ok(SqlitePoolOptions::new().max_connections(5).connect_with(options).await?)
}

#[derive(Clone)]
struct Postgres(PgPool);

#[derive(Clone)]
struct Sqlite(SqlitePool);

/// The two storages have the same methods but no trait in common that names all of them.
macro_rules! store {
    ($store:ident, $storage:ident, $config:ty, $done:literal) => {
        impl $store {
            fn storage(&self, queue: &str) -> $storage<u64> {
                let config = <$config>::default().queue(queue).batch_size(FETCH).lock_tasks(false);
                $storage::new(&self.0).with_config(config)
            }
        }

        impl Store for $store {
            async fn push(&self, number: u64) -> Result<()> {
                self.storage("jobs").push(number).await.map_err(failed)
            }

            async fn push_many(&self, numbers: Vec<u64>) -> Result<()> {
                self.storage("jobs").push_bulk(numbers).await.map_err(failed)
            }

            async fn push_at(&self, numbers: Vec<u64>, due: SystemTime) -> Result<()> {
                let mut tasks = stream::iter(
                    numbers.into_iter().map(|number| TaskBuilder::new(number).run_at_time(due).build()),
                );
                self.storage("jobs").push_all(&mut tasks).await.map_err(failed)
            }

            async fn done(&self) -> Result<i64> {
                Ok(sqlx::query_scalar($done).fetch_one(&self.0).await?)
            }

            async fn start_ten(&self, number: u64) -> Result<()> {
                self.storage("ten").push(number).await.map_err(failed)
            }

            async fn start_one(&self, number: u64) -> Result<()> {
                self.storage("one").push(number).await.map_err(failed)
            }

            fn work(&self) {
                let backend = self.storage("jobs");
                let worker = WorkerBuilder::new("jobs")
                    .backend(backend.poll_with_strategy(Every::new(POLL)))
                    .concurrency(AT_ONCE)
                    .parallelize(tokio::spawn)
                    .build(job);
                tokio::spawn(worker.run());
            }

            fn flow(&self) {
                let ten = SteppedFlow::new("ten")
                    .and_then(step)
                    .and_then(step)
                    .and_then(step)
                    .and_then(step)
                    .and_then(step)
                    .and_then(step)
                    .and_then(step)
                    .and_then(step)
                    .and_then(step)
                    .and_then(last_step);
                let backend = self.storage("ten");
                let worker = WorkerBuilder::new("ten")
                    .backend(backend.poll_with_strategy(Every::new(POLL)))
                    .concurrency(AT_ONCE)
                    .parallelize(tokio::spawn)
                    .build(ten);
                tokio::spawn(worker.run());

                let one = SteppedFlow::new("one").and_then(last_step);
                let backend = self.storage("one");
                let worker = WorkerBuilder::new("one")
                    .backend(backend.poll_with_strategy(Every::new(POLL)))
                    .build(one);
                tokio::spawn(worker.run());
            }
        }
    };
}

store!(
    Postgres,
    PostgresStorage,
    apalis_postgres::Config,
    "select count(*) from apalis.jobs where job_type = 'jobs' and status = 'Done'"
);
store!(
    Sqlite,
    SqliteStorage,
    apalis_sqlite::Config,
    "select count(*) from Jobs where job_type = 'jobs' and status = 'Done'"
);

/// Wakes the worker at every tick.
struct Every(tokio::time::Interval);

impl Every {
    fn new(pause: Duration) -> Self {
        let mut ticks = tokio::time::interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Every(ticks)
    }
}

impl Clone for Every {
    fn clone(&self) -> Self {
        Every::new(self.0.period())
    }
}

impl PollStrategy for Every {
    fn poll_drive(&mut self, cx: &mut std::task::Context<'_>, _: &PollSnapshot) -> Poll<Option<()>> {
        // Until it is pending, as only then the next tick wakes anyone.
        while self.0.poll_tick(cx).is_ready() {}
        Poll::Ready(Some(()))
    }
}

/// The peer's errors are not all errors of the standard library.
fn failed(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("{error:?}")
}
