//! W3: from a start to its result. W4: from an event to the code behind the wait.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::watch;

use super::{micros, ms, node, noop, ten_steps, times, waits};
use crate::place::Place;
use crate::report::{Figure, Report};
use crate::spike;

/// When the workflow of W4 last went on.
pub static CONTINUED: LazyLock<watch::Sender<tokio::time::Instant>> =
    LazyLock::new(|| watch::Sender::new(tokio::time::Instant::now()));

pub async fn w3(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let tries = if quick { 200 } else { 2_000 };
    let fresh = place.fresh().await?;
    let commit = spike::commit(&fresh).await?;
    let app = node(&fresh, 256).await?;
    let (mut workflow, mut job) = (times(), times());
    for number in 0..tries {
        let began = Instant::now();
        app.start(ten_steps(), 1).await?.result().await?;
        workflow.record(micros(began.elapsed()))?;
        let began = Instant::now();
        app.start(noop(), number).await?.result().await?;
        job.record(micros(began.elapsed()))?;
    }
    app.shutdown(Duration::from_secs(5)).await?;
    fresh.remove().await?;
    for (what, times) in [("one-step workflow", &workflow), ("job", &job)] {
        let figure = |quantile, unit| Figure::new("W3", place.name(), 1, ms(times, quantile), unit);
        report.add(figure(0.5, "ms p50").of(commit).variant(&format!("{what}, start to result")));
        report.add(figure(0.99, "ms p99").variant(&format!("{what}, start to result")));
    }
    Ok(())
}

pub async fn w4(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let tries: u32 = if quick { 200 } else { 2_000 };
    let fresh = place.fresh().await?;
    let commit = spike::commit(&fresh).await?;
    let app = node(&fresh, 256).await?;
    let run = app.start(waits(), tries).await?;
    let mut continued = CONTINUED.subscribe();
    let mut times = times();
    for number in 0..tries {
        // Only a run that waits has to be woken.
        while run.status().await?.status != outlast::Status::Waiting {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        continued.borrow_and_update();
        let began = Instant::now();
        run.send("go", &u64::from(number)).await?;
        continued.changed().await?;
        let went_on = continued.borrow().into_std();
        times.record(micros(went_on.saturating_duration_since(began)))?;
    }
    run.result().await?;
    app.shutdown(Duration::from_secs(5)).await?;
    fresh.remove().await?;
    let figure = |quantile, unit| Figure::new("W4", place.name(), 1, ms(&times, quantile), unit);
    report.add(figure(0.5, "ms p50").of(commit).variant("event to continuation"));
    report.add(figure(0.99, "ms p99").variant("event to continuation"));
    Ok(())
}
