//! Measures forge-runtime: jobs and workflows of an application framework, both on PostgreSQL.
//!
//! The runtime's parts are put together by hand (worker, scheduler, notify bus), because the
//! framework's own `main` would bring a web server along. A workflow runs as a job; its steps are
//! recorded by the two calls that the framework's macros expand to.
//!
//! Settings, and why:
//! - 64 connections: the default pool drains 184 jobs a second instead of 504.
//! - 256 jobs and 256 workflows at once, claimed up to 256 at a time instead of 10.
//! - The worker polls every 5 ms instead of 5 s: it claims one batch per wake-up, and nothing
//!   wakes it for the rest of a backlog.
//! - The scheduler polls every 10 ms, 2,000 runs at a time: no notification announces a timer.
//! - No leader election, as there is one node.
//! - Its schema calls `uuidv7()`, which PostgreSQL has since version 18; before, a function of that
//!   name stands in.
//! - Nothing announces a run's end, so a run counts as done when its body is; its last commit is
//!   not waited for, in the peer's favour.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use forge_core::{
    __sealed::Sealed,
    CircuitBreakerClient, ForgeJob, JobContext, JobInfo, JobPriority,
    config::WORKFLOWS_QUEUE,
    workflow::{ForgeWorkflow, WorkflowContext, WorkflowInfo, WorkflowStatus},
};
use forge_runtime::{
    EventStore, JobDispatcher, JobQueue, JobRegistry, MigrationRunner, PgNotifyBus, Worker, WorkerConfig,
    WorkflowExecutor, WorkflowRegistry, WorkflowScheduler, WorkflowSchedulerConfig,
    jobs::JobRecord,
    sqlx::{self, PgPool, postgres::PgPoolOptions},
    workflow::register_workflow_bridge,
};
use peer_common::{About, Bench, Landings, Tally, closed_loop, millis, one_by_one};
use tokio_util::sync::CancellationToken;

fn main() {
    let lock = include_str!("../Cargo.lock");
    let about = About { name: "forge-runtime", package: "forge-runtime", lock, stores: &["postgres"] };
    peer_common::run(about, measure);
}

const AT_ONCE: usize = 256;

static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();

type Done<'a, T> = Pin<Box<dyn Future<Output = forge_core::Result<T>> + Send + 'a>>;

struct Job;

impl Sealed for Job {}

impl ForgeJob for Job {
    type Args = u64;
    type Output = ();

    fn info() -> JobInfo {
        JobInfo { name: "job", ..JobInfo::default() }
    }

    fn execute(_ctx: &JobContext, number: u64) -> Done<'_, ()> {
        Box::pin(async move {
            RAN.add();
            LANDINGS.land(number);
            Ok(())
        })
    }
}

struct Steps;

impl Sealed for Steps {}

impl ForgeWorkflow for Steps {
    type Input = (u64, usize);
    type Output = ();

    fn info() -> WorkflowInfo {
        WorkflowInfo { name: "steps", signature: "steps", ..WorkflowInfo::default() }
    }

    fn execute(ctx: &WorkflowContext, (number, count): (u64, usize)) -> Done<'_, ()> {
        Box::pin(async move {
            for step in STEPS.iter().take(count) {
                ctx.record_step_start(step).await?;
                ctx.record_step_complete(step, serde_json::Value::Null).await?;
            }
            LANDINGS.land(number);
            Ok(())
        })
    }
}

const STEPS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

struct Waits;

impl Sealed for Waits {}

impl ForgeWorkflow for Waits {
    type Input = u64;
    type Output = ();

    fn info() -> WorkflowInfo {
        WorkflowInfo { name: "waits", signature: "waits", ..WorkflowInfo::default() }
    }

    fn execute(ctx: &WorkflowContext, number: u64) -> Done<'_, ()> {
        Box::pin(async move {
            let _event: u64 = ctx.wait_for_event("go", Some(Duration::from_secs(60))).await?;
            LANDINGS.land(number);
            Ok(())
        })
    }
}

struct Sleeps;

impl Sealed for Sleeps {}

impl ForgeWorkflow for Sleeps {
    type Input = (u64, i64);
    type Output = ();

    fn info() -> WorkflowInfo {
        WorkflowInfo { name: "sleeps", signature: "sleeps", ..WorkflowInfo::default() }
    }

    fn execute(ctx: &WorkflowContext, (number, due): (u64, i64)) -> Done<'_, ()> {
        Box::pin(async move {
            RAN.add();
            ctx.sleep_until(DateTime::<Utc>::from_timestamp_millis(due).unwrap_or_default()).await?;
            LANDINGS.land(number);
            Ok(())
        })
    }
}

async fn measure(bench: Bench) -> Result<()> {
    let node = Node::build(&bench).await?;
    // A backlog first, and then the worker.
    let backlog = if bench.wants("W1") { enqueue(&bench, &node).await? } else { 0 };
    let begin = Instant::now();
    node.start();
    if bench.wants("W1") {
        RAN.reach(backlog, Duration::from_secs(120)).await?;
        let rate = backlog as f64 / begin.elapsed().as_secs_f64();
        bench.row("W1", "drain", AT_ONCE, rate, "jobs/s", &format!("{backlog} jobs"));
        RAN.clear();
    }
    // The notify bus listens before anyone relies on it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    if bench.wants("W2") {
        steps(&bench, &node).await?;
    }
    if bench.wants("W3") {
        start_to_result(&bench, &node).await?;
    }
    if bench.wants("W4") {
        events(&bench, &node).await?;
    }
    if bench.wants("W5") {
        timers(&bench, &node).await?;
    }
    Ok(())
}

/// A time in milliseconds, the version's bits, and chance.
const UUIDV7: &str = "do $$ begin
    if to_regprocedure('uuidv7()') is null then
        create function uuidv7() returns uuid language sql volatile as
        'select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
             substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
             from 1 for 6), 52, 1), 53, 1), ''hex'')::uuid';
    end if;
end $$";

struct Node {
    pool: PgPool,
    queue: JobQueue,
    jobs: JobRegistry,
    dispatcher: JobDispatcher,
    workflows: Arc<WorkflowExecutor>,
    events: Arc<EventStore>,
}

impl Node {
    async fn build(bench: &Bench) -> Result<Self> {
        let pool =
            PgPoolOptions::new().max_connections(64).connect(&bench.url).await.context("connecting")?;
        sqlx::raw_sql(UUIDV7).execute(&pool).await.context("standing in for uuidv7()")?;
        MigrationRunner::new(pool.clone()).run(vec![]).await.context("migrating")?;

        let mut registry = WorkflowRegistry::new();
        registry.register::<Steps>();
        registry.register::<Waits>();
        registry.register::<Sleeps>();
        registry.persist_definitions(&pool).await.context("writing the definitions")?;

        let queue = JobQueue::new(pool.clone());
        let http = CircuitBreakerClient::with_ssrf_protection();
        let workflows =
            Arc::new(WorkflowExecutor::new(Arc::new(registry), pool.clone(), queue.clone(), http));
        let mut jobs = JobRegistry::new();
        jobs.register::<Job>();
        register_workflow_bridge(workflows.clone(), &mut jobs);

        let dispatcher = JobDispatcher::new(queue.clone(), jobs.clone());
        let events = Arc::new(EventStore::new(pool.clone()));
        Ok(Node { pool, queue, jobs, dispatcher, workflows, events })
    }

    /// Starts what runs in the background until the process ends.
    fn start(&self) {
        let channels = ["forge_jobs_available", "forge_workflow_wakeup"];
        let bus = Arc::new(PgNotifyBus::new(self.pool.clone(), &channels));
        let listening = bus.clone();
        tokio::spawn(async move {
            let (_open, shutdown) = tokio::sync::watch::channel(false);
            listening.run(shutdown).await;
        });

        let config = WorkerConfig {
            capabilities: vec!["default".to_owned(), WORKFLOWS_QUEUE.to_owned()],
            max_concurrent: AT_ONCE,
            system_reserved: AT_ONCE,
            poll_interval: Duration::from_millis(5),
            batch_size: AT_ONCE as i32,
            ..WorkerConfig::default()
        };
        let mut worker =
            Worker::new(config, self.queue.clone(), self.jobs.clone(), self.pool.clone(), bus.clone());
        tokio::spawn(async move { worker.run().await });

        let config = WorkflowSchedulerConfig {
            poll_interval: Duration::from_millis(10),
            batch_size: 2_000,
            ..WorkflowSchedulerConfig::default()
        };
        let scheduler =
            WorkflowScheduler::new(self.pool.clone(), self.queue.clone(), self.events.clone(), config, bus);
        tokio::spawn(async move { scheduler.run(CancellationToken::new()).await });
    }
}

/// Builds a backlog in both ways, and says how long it is.
async fn enqueue(bench: &Bench, node: &Node) -> Result<usize> {
    let (batches, batch) = (bench.pick(4, 2), 500);
    let begin = Instant::now();
    for _ in 0..batches {
        let mut tx = node.pool.begin().await?;
        for number in 0..batch {
            let job = JobRecord::new("job", serde_json::json!(number), JobPriority::Normal, 3);
            node.queue.enqueue_in_conn(&mut tx, job).await.context("enqueueing in a transaction")?;
        }
        tx.commit().await?;
    }
    let bulk = batches * batch as usize;
    let rate = bulk as f64 / begin.elapsed().as_secs_f64();
    bench.row("W1", "bulk enqueue", 1, rate, "jobs/s", "one statement a job, 500 in a transaction");

    let dispatcher = node.dispatcher.clone();
    let pace = closed_loop(16, bench.pick(4_000, 1_000), bench.budget(), move |number| {
        let dispatcher = dispatcher.clone();
        async move {
            dispatcher.dispatch::<Job>(number as u64, None).await?;
            Ok(())
        }
    })
    .await?;
    bench.row("W1", "enqueue one by one, 16 tasks", 16, pace.per_second(), "jobs/s", "");
    Ok(bulk + pace.done)
}

async fn steps(bench: &Bench, node: &Node) -> Result<()> {
    for &level in bench.levels() {
        let workflows = node.workflows.clone();
        let pace = closed_loop(level, bench.runs(), bench.budget(), move |number| {
            let workflows = workflows.clone();
            async move {
                let landing = LANDINGS.expect(number as u64);
                workflows.start("steps", (number, STEPS.len()), None, None).await?;
                landing.at(Duration::from_secs(60)).await?;
                Ok(())
            }
        })
        .await?;
        bench.row("W2", "", level, pace.per_second() * 10.0, "steps/s", &format!("{} runs", pace.done));
    }
    Ok(())
}

async fn start_to_result(bench: &Bench, node: &Node) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        node.workflows.start("steps", (number, 1), None, None).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "workflow", samples, "until the body's end, as nothing announces the run's")?;

    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        node.dispatcher.dispatch::<Job>(number as u64, None).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "job", samples, "")
}

async fn events(bench: &Bench, node: &Node) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let run = node.workflows.start("waits", number as u64, None, None).await?;
        // It must be suspended, or the send would measure its start too.
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if matches!(node.workflows.status(run).await?.status, WorkflowStatus::Waiting) {
                break;
            }
        }
        let begin = Instant::now();
        node.events.send_event("go", &run.to_string(), Some(serde_json::json!(1))).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W4", "send to continuation", samples, "")
}

async fn timers(bench: &Bench, node: &Node) -> Result<()> {
    let timers = bench.pick(2_000, 500);
    RAN.clear();
    // Every timer is a run of its own that first has to come to its sleep, which takes long here.
    let lead = bench.pick(Duration::from_secs(15), Duration::from_secs(5));
    let due = SystemTime::now() + lead;
    let landings: Vec<_> = (0..timers as u64).map(|number| LANDINGS.expect(number)).collect();
    let (workflows, due_at) = (node.workflows.clone(), millis(due));
    let pace = closed_loop(64, timers, lead, move |number| {
        let workflows = workflows.clone();
        async move {
            workflows.start("sleeps", (number as u64, due_at), None, None).await?;
            Ok(())
        }
    })
    .await?;
    if bench.too_few_timers(pace.done, timers) {
        return Ok(());
    }
    RAN.reach(timers, Duration::from_secs(60)).await?;
    let set = SystemTime::now();

    let mut fired = Vec::with_capacity(timers);
    for landing in landings {
        fired.push(landing.at(lead + Duration::from_secs(60)).await?);
    }
    bench.lateness(due, fired, set, "")
}
