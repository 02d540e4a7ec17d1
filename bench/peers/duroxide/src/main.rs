//! Measures duroxide: orchestrations whose every turn and every activity travel through queues in
//! the store, PostgreSQL or SQLite.
//!
//! A job is an orchestration without activities, as there is nothing smaller.
//!
//! Settings, and why:
//! - 4 dispatchers for orchestrations and 4 for activities on PostgreSQL, instead of 2: of 2, 4, 8 and
//!   16 the fastest. On SQLite 1 each: there is one writer, and more only meet its lock.
//! - Dispatchers poll every 5 ms instead of every 100 ms: neither store wakes them.
//! - 64 connections on PostgreSQL instead of 10, set by the one way there is: a variable of the
//!   environment, for which the program starts itself anew.
//! - SQLite runs at `synchronous=NORMAL`: the provider opens the file itself, and the value it asks
//!   for ("WAL") is unknown to SQLite, which then takes NORMAL. The notes say so.
//! - A run counts as done when its body is, since waiting for it means polling with growing pauses.

use std::{
    collections::HashMap,
    os::unix::process::CommandExt,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, anyhow};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry,
    providers::{Provider, sqlite::SqliteProvider},
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};
use duroxide_pg::PostgresProvider;
use peer_common::{About, Bench, Landings, Tally, closed_loop, millis, one_by_one, until};

const POOL: &str = "DUROXIDE_PG_POOL_MAX";

fn main() {
    if std::env::var_os(POOL).is_none()
        && let Ok(program) = std::env::current_exe()
    {
        let error = Command::new(program).args(std::env::args_os().skip(1)).env(POOL, "64").exec();
        eprintln!("starting anew with {POOL}: {error}");
        std::process::exit(1);
    }
    // The runtime would log to stdout, where the rows go; whoever comes first decides.
    if let Err(error) = tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::new()) {
        eprintln!("turning the log off: {error}");
    }
    let lock = include_str!("../Cargo.lock");
    let about = About { name: "duroxide", package: "duroxide", lock, stores: &["postgres", "sqlite"] };
    peer_common::run(about, measure);
}

static STEPPED: Tally = Tally::new();
static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();
/// Where a body says that it came to its wait; a replay says it again, which changes nothing.
static WAITING: Landings = Landings::new();
/// How long each timer was asked for, as a replay must ask for the same.
static ASKED: Mutex<Option<HashMap<u64, Duration>>> = Mutex::new(None);

async fn measure(bench: Bench) -> Result<()> {
    let store: Arc<dyn Provider> = if bench.store == "postgres" {
        Arc::new(PostgresProvider::new(&bench.url).await.context("connecting")?)
    } else {
        // The provider does not create the file.
        std::fs::File::options()
            .create(true)
            .append(true)
            .open(bench.sqlite_path()?)
            .context("creating the file")?;
        Arc::new(SqliteProvider::new(&bench.url, None).await.context("opening the database")?)
    };
    let client = Client::new(store.clone());

    // A backlog first, and then the dispatchers.
    let backlog = if bench.wants("W1") { enqueue_many(&bench, &client).await? } else { 0 };
    let begin = Instant::now();
    let runtime = start(&bench, store).await;
    if bench.wants("W1") {
        RAN.reach(backlog, Duration::from_secs(120)).await?;
        let rate = backlog as f64 / begin.elapsed().as_secs_f64();
        bench.row("W1", "drain", dispatchers(&bench), rate, "jobs/s", &note(&bench, "", backlog));
    }
    if bench.wants("W3") {
        start_to_result(&bench, &client).await?;
    }
    if bench.wants("W4") {
        events(&bench, &client).await?;
    }
    if bench.wants("W5") {
        timers(&bench, &client).await?;
    }
    // Last, since the runs under way when the time is over are left behind.
    if bench.wants("W2") {
        steps(&bench, &client).await?;
    }
    drop(runtime);
    Ok(())
}

fn dispatchers(bench: &Bench) -> usize {
    if bench.store == "postgres" { 4 } else { 1 }
}

/// Says what was counted, and what SQLite was not told to do.
fn note(bench: &Bench, text: &str, count: usize) -> String {
    let durability = if bench.store == "sqlite" { "synchronous=NORMAL, cannot be set; " } else { "" };
    format!("{durability}{text}{count} orchestrations")
}

async fn start(bench: &Bench, store: Arc<dyn Provider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("nothing", |_: ActivityContext, _: String| async {
            STEPPED.add();
            Ok(String::new())
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("job", |_: OrchestrationContext, input: String| async move {
            RAN.add();
            LANDINGS.land(number(&input)?);
            Ok(String::new())
        })
        .register("steps", |ctx: OrchestrationContext, input: String| async move {
            for _ in 0..10 {
                ctx.schedule_activity("nothing", "").await?;
            }
            LANDINGS.land(number(&input)?);
            Ok(String::new())
        })
        .register("step", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("nothing", "").await?;
            LANDINGS.land(number(&input)?);
            Ok(String::new())
        })
        .register("waits", |ctx: OrchestrationContext, input: String| async move {
            let event = ctx.schedule_wait("go");
            WAITING.land(number(&input)?);
            event.await;
            LANDINGS.land(number(&input)?);
            Ok(String::new())
        })
        .register("sleeps", |ctx: OrchestrationContext, input: String| async move {
            let (this, due) = input.split_once(' ').ok_or("two numbers")?;
            let (this, due) = (number(this)?, number(due)?);
            let wait = {
                let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
                *asked.get_or_insert_default().entry(this).or_insert_with(|| until(due as i64))
            };
            let timer = ctx.schedule_timer(wait);
            WAITING.land(this);
            timer.await;
            LANDINGS.land(this);
            Ok(String::new())
        })
        .build();
    let options = RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(5),
        orchestration_concurrency: dispatchers(bench),
        worker_concurrency: dispatchers(bench),
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text} is no number: {error}"))
}

async fn begin_run(client: &Client, instance: &str, name: &str, input: &str) -> Result<()> {
    client
        .start_orchestration(instance, name, input)
        .await
        .map_err(|error| anyhow!("starting {name}: {error:?}"))
}

async fn enqueue_many(bench: &Bench, client: &Client) -> Result<usize> {
    bench.cannot("W1", "bulk enqueue", "jobs/s", "no call that starts several");
    let shared = client.clone();
    let pace = closed_loop(16, bench.pick(1_000, 300), bench.budget(), move |number| {
        let client = shared.clone();
        async move { begin_run(&client, &format!("job-{number}"), "job", &number.to_string()).await }
    })
    .await?;
    let note = note(bench, "", pace.done);
    bench.row("W1", "enqueue one by one, 16 tasks", 16, pace.per_second(), "jobs/s", &note);
    Ok(pace.done)
}

/// Counts the activities that run in a span of time, as a wave of 256 runs would take too long.
async fn steps(bench: &Bench, client: &Client) -> Result<()> {
    for &level in bench.levels() {
        let mut loops = tokio::task::JoinSet::new();
        for task in 0..level {
            let client = client.clone();
            loops.spawn(async move {
                for turn in 0.. {
                    let run = (level * 1_000_000 + task * 1_000 + turn) as u64;
                    let landing = LANDINGS.expect(run);
                    begin_run(&client, &format!("steps-{run}"), "steps", &run.to_string()).await?;
                    landing.at(Duration::from_secs(120)).await?;
                }
                anyhow::Ok(())
            });
        }
        // Not before there is something to count.
        STEPPED.clear();
        STEPPED.reach(1, Duration::from_secs(30)).await?;
        let (before, begin) = (STEPPED.count(), Instant::now());
        tokio::time::sleep(bench.budget()).await;
        let (count, took) = (STEPPED.count() - before, begin.elapsed());
        if let Some(ended) = loops.try_join_next() {
            ended.context("a run's task died")??;
        }
        loops.shutdown().await;
        let durability = if bench.store == "sqlite" { "synchronous=NORMAL, cannot be set; " } else { "" };
        let note = format!("{durability}{count} steps in {:.0} s", took.as_secs_f64());
        bench.row("W2", "", level, count as f64 / took.as_secs_f64(), "steps/s", &note);
        settle().await;
    }
    Ok(())
}

/// Lets the runs that were left behind end, as far as they do so soon.
async fn settle() {
    for _ in 0..20 {
        let before = STEPPED.count();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if STEPPED.count() == before {
            break;
        }
    }
}

async fn start_to_result(bench: &Bench, client: &Client) -> Result<()> {
    for (variant, name) in [("workflow", "step"), ("job", "job")] {
        let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
            let run = 1_000_000 + number as u64;
            let landing = LANDINGS.expect(run);
            let begin = Instant::now();
            begin_run(client, &format!("{variant}-{run}"), name, &run.to_string()).await?;
            landing.after(begin).await
        })
        .await?;
        let count = samples.len();
        bench.latency("W3", variant, samples, &note(bench, "until the body's end; ", count))?;
    }
    Ok(())
}

async fn events(bench: &Bench, client: &Client) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let number = number as u64;
        let (waiting, landing) = (WAITING.expect(number), LANDINGS.expect(number));
        let instance = format!("waits-{number}");
        begin_run(client, &instance, "waits", &number.to_string()).await?;
        waiting.at(Duration::from_secs(30)).await?;
        // Its wait must be written down too, or the event would find nobody.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begin = Instant::now();
        client.raise_event(&instance, "go", "1").await.map_err(|error| anyhow!("raising: {error:?}"))?;
        landing.after(begin).await
    })
    .await?;
    let count = samples.len();
    bench.latency("W4", "send to continuation", samples, &note(bench, "", count))
}

async fn timers(bench: &Bench, client: &Client) -> Result<()> {
    let timers = bench.pick(2_000, 100);
    // Every timer is a run of its own that first has to come to its wait, which takes long here.
    let lead = bench.pick(Duration::from_secs(60), Duration::from_secs(6));
    let due = SystemTime::now() + lead;
    let waiting: Vec<_> = (0..timers as u64).map(|number| WAITING.expect(number)).collect();
    let landings: Vec<_> = (0..timers as u64).map(|number| LANDINGS.expect(number)).collect();
    let (shared, due_at) = (client.clone(), millis(due));
    let pace = closed_loop(16, timers, lead, move |number| {
        let client = shared.clone();
        async move {
            begin_run(&client, &format!("sleeps-{number}"), "sleeps", &format!("{number} {due_at}")).await
        }
    })
    .await?;
    if bench.too_few_timers(pace.done, timers) {
        return Ok(());
    }
    for one in waiting {
        if one.at(until(due_at)).await.is_err() {
            let why = format!("did not come to {timers} waits within {} s", lead.as_secs());
            bench.cannot("W5", "timers due together", "ms p50", &note(bench, &format!("{why}; "), timers));
            return Ok(());
        }
    }
    let set = SystemTime::now();

    let mut fired = Vec::with_capacity(timers);
    for landing in landings {
        fired.push(landing.at(lead + Duration::from_secs(90)).await?);
    }
    bench.lateness(due, fired, set, &note(bench, "", timers))
}
