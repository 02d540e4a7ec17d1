//! `outlast bench`: how fast runs go through this database, from a node in this process.
//!
//! So many runs are in flight at once; each is started, worked on and waited for. Three spans are measured of each: until
//! the start was durable, until its code began, and until its result was there. With `--store` the store alone is
//! measured (`bench/of_store.rs`).

mod of_store;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use outlast::Filter;
use outlast::prelude::*;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::BenchArgs;
use crate::database::Place;
use crate::fault::{Exit, Fault};
use crate::output::{Column, Format, Row, call, note, print_one, table};

/// How long work in hand gets to finish.
const GRACE: Duration = Duration::from_secs(10);
/// The longest span that is told exactly.
const LONGEST: u64 = 3_600_000_000;

/// What each run is called with.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Load {
    n: u64,
    steps: u32,
    fill: String,
}

/// When the code of each run began.
#[derive(Default)]
struct Begun(Mutex<HashMap<u64, Instant>>);

impl Begun {
    fn note(&self, n: u64) {
        self.0.lock().entry(n).or_insert_with(Instant::now);
    }
}

#[outlast::job]
async fn outlast_bench_job(ctx: JobCtx, load: Load) -> Result<(), AnyError> {
    ctx.state::<Arc<Begun>>().note(load.n);
    Ok(())
}

#[outlast::workflow]
async fn outlast_bench_workflow(ctx: Ctx, load: Load) -> Result<(), AnyError> {
    ctx.state::<Arc<Begun>>().note(load.n);
    for step in 0..load.steps {
        ctx.step("step", |_| async move { Ok::<_, AnyError>(step) }).await?;
    }
    Ok(())
}

/// Spans of one kind, in microseconds.
struct Spans(Histogram<u64>);

impl Spans {
    fn new() -> Result<Spans, Fault> {
        let made = Histogram::new_with_bounds(1, LONGEST, 3);
        made.map(Spans).map_err(|error| Fault::new(Exit::Failed, "internal", error.to_string()))
    }

    fn add(&mut self, span: Duration) {
        self.0.saturating_record(u64::try_from(span.as_micros()).unwrap_or(LONGEST).max(1));
    }

    /// The median, the 95th and the 99th of a hundred, and the longest, in milliseconds.
    fn told(&self) -> [f64; 4] {
        let at = |micros: u64| (micros as f64 / 10.0).round() / 100.0;
        let of = |quantile| at(self.0.value_at_quantile(quantile));
        [of(0.5), of(0.95), of(0.99), at(self.0.max())]
    }
}

/// What is measured, by whoever is done with a run.
struct Measured {
    enqueue: Spans,
    pickup: Spans,
    end_to_end: Spans,
}

/// Reads a size: `100`, `1k`, `1m`.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("a size looks like 100, 1k or 1m and is at most 1m, not {text:?}");
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|count| count.checked_mul(unit));
    bytes.filter(|bytes| *bytes <= 1 << 20).ok_or_else(wrong)
}

/// Reads `steps=5`.
pub(crate) fn parse_workflow(text: &str) -> Result<u32, String> {
    let steps = text.strip_prefix("steps=").and_then(|steps| steps.parse().ok());
    steps
        .filter(|steps| (1..=1000).contains(steps))
        .ok_or_else(|| format!("a workflow looks like steps=5, with 1 to 1000 of them, not {text:?}"))
}

/// Measures.
pub(crate) async fn bench(place: &Place, args: BenchArgs, format: Format) -> Result<(), Fault> {
    if args.store {
        return of_store::bench(place, &args, format).await;
    }
    let store = place.open().await?;
    store.own().await?;
    let begun = Arc::new(Begun::default());
    let outlast = Outlast::on(store).concurrency(args.concurrency.max(64)).state(begun.clone());
    let app = outlast.job(outlast_bench_job).workflow(outlast_bench_workflow).run().await?;
    let done = measure(&app, &begun, place, &args, format).await;
    let stopped = app.shutdown(GRACE).await;
    done?;
    Ok(stopped?)
}

async fn measure(
    app: &App,
    begun: &Arc<Begun>,
    place: &Place,
    args: &BenchArgs,
    format: Format,
) -> Result<(), Fault> {
    is_empty(app.client(), place, args).await?;
    let measured =
        Mutex::new(Measured { enqueue: Spans::new()?, pickup: Spans::new()?, end_to_end: Spans::new()? });
    let (taken, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let worker = || async {
        loop {
            let n = taken.fetch_add(1, Ordering::Relaxed);
            let is_over = match args.duration {
                Some(duration) => began.elapsed() >= duration,
                None => n >= args.jobs,
            };
            if is_over {
                return Ok::<(), Fault>(());
            }
            one(app, begun, n, args, &measured).await?;
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    let work = try_join_all((0..args.concurrency).map(|_| worker()));
    tokio::select! {
        worked = work => drop(worked?),
        never = show_rate(&done, args, began) => match never {},
        _ = tokio::signal::ctrl_c() => {
            return Err(Fault::new(Exit::Interrupted, "interrupted", "stopped by Ctrl-C"));
        }
    }
    let (runs, took) = (done.into_inner(), began.elapsed());
    let Measured { enqueue, pickup, end_to_end } = measured.into_inner();
    let spans = vec![("enqueue", enqueue), ("pickup", pickup), ("end_to_end", end_to_end)];
    Report { runs, took, spans, more: json!({ "steps": args.workflow }) }.tell(args, format)
}

/// Refuses a database that has runs, unless that is meant.
async fn is_empty(client: &outlast::Client, place: &Place, args: &BenchArgs) -> Result<(), Fault> {
    if args.force || client.list(&Filter::default(), None, 1).await?.runs.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} has runs, which this would hold up: name an empty database, or say --force",
        place.shown()
    );
    Err(Fault::new(Exit::Conflict, "precondition_failed", message))
}

/// One run, from its start to its result.
async fn one(
    app: &App,
    begun: &Begun,
    n: u64,
    args: &BenchArgs,
    measured: &Mutex<Measured>,
) -> Result<(), Fault> {
    let load = Load { n, steps: args.workflow.unwrap_or(0), fill: "x".repeat(args.payload) };
    let failed = |why: String| Fault::new(Exit::Failed, "failed", format!("a run failed: {why}"));
    let asked = Instant::now();
    let started = match args.workflow {
        None => {
            let run = app.start(outlast_bench_job, load).await?;
            let started = asked.elapsed();
            run.result().await.map_err(|why| failed(why.to_string()))?;
            started
        }
        Some(_) => {
            let run = app.start(outlast_bench_workflow, load).await?;
            let started = asked.elapsed();
            run.result().await.map_err(|why| failed(why.to_string()))?;
            started
        }
    };
    let ended = asked.elapsed();
    let picked = begun.0.lock().remove(&n).map(|at| at.saturating_duration_since(asked));
    let mut measured = measured.lock();
    measured.enqueue.add(started);
    measured.end_to_end.add(ended);
    if let Some(picked) = picked {
        measured.pickup.add(picked);
    }
    Ok(())
}

/// Shows how fast it goes, on a terminal.
async fn show_rate(done: &AtomicU64, args: &BenchArgs, began: Instant) -> std::convert::Infallible {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let bar = match args.duration {
        None => ProgressBar::new(args.jobs),
        Some(_) => ProgressBar::no_length(),
    };
    let template =
        if args.duration.is_none() { "{wide_bar} {pos}/{len}  {msg}" } else { "{spinner} {pos}  {msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let _clear = ClearOnDrop(bar.clone());
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = done.load(Ordering::Relaxed);
        bar.set_position(now);
        bar.set_message(format!("{:.0} runs/s", now as f64 / began.elapsed().as_secs_f64()));
    }
}

struct ClearOnDrop(ProgressBar);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// What was measured.
struct Report {
    runs: u64,
    took: Duration,
    spans: Vec<(&'static str, Spans)>,
    /// What else is told of it.
    more: Value,
}

impl Report {
    fn tell(self, args: &BenchArgs, format: Format) -> Result<(), Fault> {
        let Report { runs, took, spans, more } = self;
        let rate = runs as f64 / took.as_secs_f64().max(1e-9);
        let mut answer = json!({
            "runs": runs,
            "seconds": took.as_secs_f64(),
            "runs_per_second": (rate * 10.0).round() / 10.0,
            "concurrency": args.concurrency,
            "payload_bytes": args.payload,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            answer[name] = value.clone();
        }
        for (name, spans) in &spans {
            let [p50, p95, p99, max] = spans.told();
            answer[name] = json!({ "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": max });
        }
        let columns = ["", "p50", "p95", "p99", "max"].map(|head| Column { head, spare: 0 });
        let row = |(name, spans): &(&str, Spans)| {
            let spans = spans.told().map(|millis| format!("{millis:.2} ms"));
            let cells = [name.replace('_', " ")].into_iter().chain(spans).collect();
            Row { style: anstyle::Style::new(), cells }
        };
        print_one(format, &answer, format!("{rate:.1}"), || {
            let rows: Vec<Row> = spans.iter().map(row).collect();
            format!(
                "{runs} runs in {:.2} s: {rate:.1} runs/s\n\n{}",
                took.as_secs_f64(),
                table(&columns, &rows)
            )
        })?;
        if let Some(batch) = more["batch"].as_u64() {
            note(&format!("each is a call of the store for up to {batch} runs"));
        }
        note(&format!("its runs stay: `{}` deletes all that have ended", call("purge --older-than 0s")));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_workflows_are_read_or_told_what_they_can_be() {
        assert_eq!(
            (parse_bytes("100"), parse_bytes("1k"), parse_bytes("1M")),
            (Ok(100), Ok(1024), Ok(1 << 20))
        );
        for wrong in ["", "k", "-1", "2m", "1g", "1.5k"] {
            assert!(parse_bytes(wrong).unwrap_err().contains("100, 1k or 1m"), "{wrong}");
        }
        assert_eq!(parse_workflow("steps=5"), Ok(5));
        for wrong in ["5", "steps=0", "steps=1001", "steps="] {
            assert!(parse_workflow(wrong).unwrap_err().contains("steps=5"), "{wrong}");
        }
    }
}
