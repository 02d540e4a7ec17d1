//! Measures durare, which follows dbos's design on PostgreSQL and on SQLite: workflows run in the
//! process that starts them, and every step leaves a row.
//!
//! Settings, and why:
//! - PostgreSQL with 64 connections instead of 8, which would starve 256 runs.
//! - SQLite with `synchronous=FULL`. Its default, NORMAL, is about twice as fast and loses the last
//!   commits with the power; everyone else here keeps them. Otherwise its own settings: WAL, foreign
//!   keys, five connections; but writers wait longer than 5 s for each other before they fail.
//! - Queues poll every 10 ms instead of every second, and take up to 1,000 at a time instead of 100.

use std::{
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result};
use durare::{
    DurableContext, DurableEngine, PostgresProvider, SqliteProvider, StateProvider, WorkflowOptions,
    WorkflowQueue,
};
use peer_common::{About, Bench, Landings, Tally, closed_loop, millis, one_by_one, until};
use sqlx::{
    postgres::PgPoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

fn main() {
    let lock = include_str!("../Cargo.lock");
    let about = About { name: "durare", package: "durare", lock, stores: &["postgres", "sqlite"] };
    peer_common::run(about, measure);
}

const JOBS: &str = "jobs";
const AT_ONCE: usize = 256;

static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();

#[durare::workflow]
async fn job(_ctx: DurableContext, number: u64) -> durare::Result<()> {
    RAN.add();
    LANDINGS.land(number);
    Ok(())
}

#[durare::workflow]
async fn steps(ctx: DurableContext, count: u64) -> durare::Result<()> {
    for _ in 0..count {
        ctx.step("nothing", || async { durare::Result::Ok(()) }).await?;
    }
    Ok(())
}

#[durare::workflow]
async fn waits(ctx: DurableContext, number: u64) -> durare::Result<()> {
    let _event: Option<u64> = ctx.recv("go", Duration::from_secs(60)).await?;
    LANDINGS.land(number);
    Ok(())
}

#[durare::workflow]
async fn sleeps(ctx: DurableContext, timer: (u64, i64)) -> durare::Result<()> {
    let (number, due) = timer;
    RAN.add();
    ctx.sleep(until(due)).await?;
    LANDINGS.land(number);
    Ok(())
}

async fn measure(bench: Bench) -> Result<()> {
    let mut engine = DurableEngine::new(provider(&bench).await?).await?;
    engine.register_queue(
        WorkflowQueue::new(JOBS)
            .worker_concurrency(AT_ONCE)
            .max_tasks_per_iteration(1_000)
            .base_polling_interval(Duration::from_millis(10))
            .max_polling_interval(Duration::from_millis(10)),
    );
    let engine = Arc::new(engine);

    // A backlog first, and then the dispatcher.
    let backlog = if bench.wants("W1") { enqueue_many(&bench, &engine).await? } else { 0 };
    let begin = Instant::now();
    engine.launch().await.context("launching")?;
    if bench.wants("W1") {
        RAN.reach(backlog, Duration::from_secs(120)).await?;
        let rate = backlog as f64 / begin.elapsed().as_secs_f64();
        bench.row("W1", "drain", AT_ONCE, rate, "jobs/s", &format!("{backlog} jobs"));
        RAN.clear();
    }
    if bench.wants("W2") {
        runs_of_steps(&bench, &engine).await?;
    }
    if bench.wants("W3") {
        start_to_result(&bench, &engine).await?;
    }
    if bench.wants("W4") {
        events(&bench, &engine).await?;
    }
    if bench.wants("W5") {
        timers(&bench, &engine).await?;
    }
    Ok(())
}

async fn provider(bench: &Bench) -> Result<Arc<dyn StateProvider>> {
    if bench.store == "postgres" {
        let pool =
            PgPoolOptions::new().max_connections(64).connect(&bench.url).await.context("connecting")?;
        return Ok(Arc::new(PostgresProvider::from_pool_with_schema(pool, "dbos")?));
    }
    let options = SqliteConnectOptions::from_str(&bench.url)
        .context("reading the address")?
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new()
        .max_connections(5)
        .acquire_timeout(Duration::from_secs(120))
        .connect_with(options)
        .await
        .context("opening the database")?;
    Ok(Arc::new(SqliteProvider::from_pool(pool)))
}

async fn enqueue(engine: &DurableEngine, number: u64) -> Result<()> {
    engine.start_with(Job, number, WorkflowOptions::default().queue(JOBS)).await.context("enqueueing")?;
    Ok(())
}

async fn enqueue_many(bench: &Bench, engine: &Arc<DurableEngine>) -> Result<usize> {
    bench.cannot("W1", "bulk enqueue", "jobs/s", "no call that enqueues several");
    let shared = engine.clone();
    let pace = closed_loop(16, bench.pick(20_000, 6_000), bench.budget(), move |number| {
        let engine = shared.clone();
        async move { enqueue(&engine, number as u64).await }
    })
    .await?;
    bench.row("W1", "enqueue one by one, 16 tasks", 16, pace.per_second(), "jobs/s", "");
    Ok(pace.done)
}

async fn runs_of_steps(bench: &Bench, engine: &Arc<DurableEngine>) -> Result<()> {
    for &level in bench.levels() {
        let shared = engine.clone();
        let pace = closed_loop(level, bench.runs(), bench.budget(), move |_| {
            let engine = shared.clone();
            async move {
                engine.start_with(Steps, 10, WorkflowOptions::default()).await?.result().await?;
                Ok(())
            }
        })
        .await?;
        bench.row("W2", "", level, pace.per_second() * 10.0, "steps/s", &format!("{} runs", pace.done));
    }
    Ok(())
}

async fn start_to_result(bench: &Bench, engine: &DurableEngine) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |_| {
        let begin = Instant::now();
        engine.start_with(Steps, 1, WorkflowOptions::default()).await?.result().await?;
        Ok(begin.elapsed())
    })
    .await?;
    bench.latency("W3", "workflow", samples, "")?;

    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        enqueue(engine, number as u64).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "job", samples, "queue polled every 10 ms")
}

async fn events(bench: &Bench, engine: &DurableEngine) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let id = format!("waits-{number}");
        let run = engine.start_with(Waits, number as u64, WorkflowOptions::with_id(&id)).await?;
        // It must be waiting, or the send would measure its start too.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begin = Instant::now();
        engine.send(&id, 1u64, "go").await?;
        let took = landing.after(begin).await?;
        run.result().await?;
        Ok(took)
    })
    .await?;
    bench.latency("W4", "send to continuation", samples, "")
}

async fn timers(bench: &Bench, engine: &Arc<DurableEngine>) -> Result<()> {
    const TIMERS: usize = 2_000;
    RAN.clear();
    let due = SystemTime::now() + bench.lead();
    let landings: Vec<_> = (0..TIMERS as u64).map(|number| LANDINGS.expect(number)).collect();
    let (shared, due_at) = (engine.clone(), millis(due));
    let pace = closed_loop(64, TIMERS, bench.lead(), move |number| {
        let engine = shared.clone();
        async move {
            engine.start_with(Sleeps, (number as u64, due_at), WorkflowOptions::default()).await?;
            Ok(())
        }
    })
    .await?;
    if bench.too_few_timers(pace.done, TIMERS) {
        return Ok(());
    }
    RAN.reach(TIMERS, Duration::from_secs(30)).await?;
    let set = SystemTime::now();

    let mut fired = Vec::with_capacity(TIMERS);
    for landing in landings {
        fired.push(landing.at(bench.lead() + Duration::from_secs(30)).await?);
    }
    bench.lateness(due, fired, set, "sleeping runs stay in memory")
}
