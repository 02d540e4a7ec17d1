//! Measures dbos (Rust), whose workflows run in the process that starts them and leave a row per
//! step in PostgreSQL.
//!
//! Settings, and why:
//! - 64 connections, as more only queue at two cores, and the default of 10 starves 256 runs.
//! - Queues poll every 10 ms instead of every second; otherwise a job waits for the poll.
//! - `worker_concurrency` 256, with no limit across processes: that one is counted in the database
//!   and makes every claim a REPEATABLE READ transaction.
//! - Outcomes are polled every 10 ms where they are polled at all; a run started here is awaited in
//!   memory.
//! - Wake-ups by LISTEN/NOTIFY with no coalescing, which by default adds 10 ms to a message.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use dbos::{Config, DBOS, Enqueue, QueueConflict, QueueOptions, StartOptions, WorkflowRef};
use peer_common::{About, Bench, Landings, Tally, closed_loop, millis, one_by_one, until};

fn main() {
    let lock = include_str!("../Cargo.lock");
    peer_common::run(About { name: "dbos", package: "dbos", lock, stores: &["postgres"] }, measure);
}

const JOBS: &str = "jobs";
const AT_ONCE: i32 = 256;

static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();

async fn measure(bench: Bench) -> Result<()> {
    // The first node runs no queue, so that a backlog can be built and then drained by the second.
    let producer = Node::launch(&bench, Some(vec![])).await?;
    if bench.wants("W1") {
        enqueue(&bench, &producer).await?;
    }
    let node = Node::launch(&bench, None).await?;
    if bench.wants("W1") {
        drain(&bench).await?;
    }
    producer.dbos.shutdown().await;

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

struct Node {
    dbos: DBOS,
    job: WorkflowRef<u64, ()>,
    ten_steps: WorkflowRef<(), ()>,
    one_step: WorkflowRef<(), ()>,
    waits: WorkflowRef<u64, ()>,
    sleeps: WorkflowRef<(u64, i64), ()>,
}

impl Node {
    async fn launch(bench: &Bench, listen_queues: Option<Vec<String>>) -> Result<Self> {
        let dbos = DBOS::new(Config {
            app_version: Some("1".to_owned()),
            max_connections: 64,
            outcome_poll_interval: Some(Duration::from_millis(10)),
            notification_coalesce: Some(Duration::ZERO),
            listen_queues,
            ..Config::new("peer", bench.url.clone())
        });
        let job = dbos.register_workflow("job", |number: u64| async move {
            RAN.add();
            LANDINGS.land(number);
            dbos::Result::Ok(())
        })?;
        let ten_steps = dbos.register_workflow("ten_steps", |()| async {
            for _ in 0..10 {
                nothing().await?;
            }
            dbos::Result::Ok(())
        })?;
        let one_step = dbos.register_workflow("one_step", |()| async { nothing().await })?;
        let waits = dbos.register_workflow("waits", |number: u64| async move {
            let _event: Option<u64> = dbos::recv(None, Duration::from_secs(60)).await?;
            LANDINGS.land(number);
            dbos::Result::Ok(())
        })?;
        let sleeps = dbos.register_workflow("sleeps", |(number, due): (u64, i64)| async move {
            RAN.add();
            dbos::sleep(until(due)).await?;
            LANDINGS.land(number);
            dbos::Result::Ok(())
        })?;
        dbos.launch().await.context("launching dbos")?;

        let options = QueueOptions {
            worker_concurrency: Some(AT_ONCE),
            polling_interval: Duration::from_millis(10),
            ..Default::default()
        };
        dbos.register_queue(JOBS, options, QueueConflict::UpdateIfLatestVersion).await?;
        Ok(Node { dbos, job, ten_steps, one_step, waits, sleeps })
    }

    async fn enqueue(&self, number: u64) -> Result<()> {
        let options = StartOptions { queue: Some(Enqueue::new(JOBS)), ..Default::default() };
        self.job.start_with(number, options).await.context("enqueueing")?;
        Ok(())
    }
}

async fn nothing() -> dbos::Result<()> {
    dbos::step("nothing", || async { dbos::Result::Ok(()) }).await
}

async fn enqueue(bench: &Bench, node: &Node) -> Result<()> {
    bench.cannot("W1", "bulk enqueue", "jobs/s", "no call that enqueues several");
    let job = node.job.clone();
    let pace = closed_loop(16, jobs(bench), Duration::from_secs(30), move |number| {
        let job = job.clone();
        async move {
            let options = StartOptions { queue: Some(Enqueue::new(JOBS)), ..Default::default() };
            job.start_with(number as u64, options).await.context("enqueueing")?;
            Ok(())
        }
    })
    .await?;
    bench.row("W1", "enqueue one by one, 16 tasks", 16, pace.per_second(), "jobs/s", "");
    Ok(())
}

/// So many jobs as 450 a second drain in the time there is.
fn jobs(bench: &Bench) -> usize {
    bench.pick(4_000, 1_000)
}

async fn drain(bench: &Bench) -> Result<()> {
    // It looks for queues once a second: the clock starts with the first job.
    RAN.reach(1, Duration::from_secs(30)).await?;
    let (before, begin) = (RAN.count(), Instant::now());
    RAN.reach(jobs(bench), Duration::from_secs(60)).await?;
    let rate = (jobs(bench) - before) as f64 / begin.elapsed().as_secs_f64();
    bench.row("W1", "drain", AT_ONCE as usize, rate, "jobs/s", &format!("{} jobs", jobs(bench)));
    RAN.clear();
    Ok(())
}

async fn steps(bench: &Bench, node: &Node) -> Result<()> {
    for &level in bench.levels() {
        let flow = node.ten_steps.clone();
        let pace = closed_loop(level, bench.runs(), bench.budget(), move |_| {
            let flow = flow.clone();
            async move { Ok(flow.run(()).await?) }
        })
        .await?;
        bench.row("W2", "", level, pace.per_second() * 10.0, "steps/s", &format!("{} runs", pace.done));
    }
    Ok(())
}

async fn start_to_result(bench: &Bench, node: &Node) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |_| {
        let begin = Instant::now();
        node.one_step.run(()).await?;
        Ok(begin.elapsed())
    })
    .await?;
    bench.latency("W3", "workflow", samples, "")?;

    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        node.enqueue(number as u64).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "job", samples, "queue polled every 10 ms")
}

async fn events(bench: &Bench, node: &Node) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let run = node.waits.start(number as u64).await?;
        // It must be waiting, or the send would measure its start too.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begin = Instant::now();
        node.dbos.send(run.workflow_id(), &1u64).await?;
        let took = landing.after(begin).await?;
        run.result().await?;
        Ok(took)
    })
    .await?;
    bench.latency("W4", "send to continuation", samples, "")
}

async fn timers(bench: &Bench, node: &Node) -> Result<()> {
    const TIMERS: usize = 2_000;
    RAN.clear();
    let due = SystemTime::now() + bench.lead();
    let landings: Vec<_> = (0..TIMERS as u64).map(|number| LANDINGS.expect(number)).collect();
    let sleeps = node.sleeps.clone();
    let due_at = millis(due);
    let pace = closed_loop(64, TIMERS, bench.lead(), move |number| {
        let sleeps = sleeps.clone();
        async move {
            sleeps.start((number as u64, due_at)).await?;
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
