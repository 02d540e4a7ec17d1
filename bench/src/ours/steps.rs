//! W2: many runs of ten steps. W7: one run of very many, and its replay.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use outlast::App;
use outlast::prelude::*;
use tokio::sync::watch;

use super::{ROUNDS, middle, node, some_steps, ten_steps};
use crate::place::{Fresh, Place};
use crate::report::{Figure, Report};
use crate::spike::{self, STEPS, rate};

/// A bare row took 0.86 of what COPY took when this was designed, 1,000 in a commit. Below half of that it has to be said why.
const FEW_OF_COPY: f64 = 0.43;

/// Why bare rows of so many runs at a time are so far from COPY.
fn why_few(concurrency: usize) -> String {
    let rows = "a run is a record, a place in line that goes again and a result beside its ten steps";
    format!("{rows}, and each commit has {concurrency} runs at most: COPY has the steps alone, 1,000 in a commit")
}

pub async fn w2(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let sizes: &[usize] = if quick { &[64, 256] } else { &[1, 64, 256, 1000] };
    for &concurrency in sizes {
        let counts = match (quick, concurrency) {
            (true, _) => vec![4_000],
            // Twenty thousand one by one would take a minute each, and show nothing else.
            (false, 1) => vec![2_000],
            (false, _) => vec![2_000, 20_000],
        };
        for runs in counts {
            // In turns, and the middle of each: a machine is not the same from one second to the next.
            let (mut bare, mut ours_, mut copied) = (vec![], vec![], vec![]);
            let (mut written, mut kept) = (vec![], vec![]);
            for _ in 0..ROUNDS {
                let fresh = place.fresh().await?;
                copied.push(spike::copy_steps(&fresh, runs * STEPS).await?);
                fresh.remove().await?;
                let fresh = place.fresh().await?;
                bare.push(spike::steps(&fresh, runs, concurrency).await?);
                fresh.remove().await?;
                let fresh = place.fresh().await?;
                let (log, room) = fresh.sizes().await?;
                ours_.push(ours(&fresh, runs, concurrency).await?);
                let after = fresh.sizes().await?;
                // The runs that made everything warm count as well.
                let all = (runs + concurrency.min(WARM)) as f64;
                written.extend(after.0.zip(log).map(|(after, before)| (after - before) / all));
                kept.push((after.1 - room) / all);
                fresh.remove().await?;
            }
            bare.sort_by(|a, b| a.steps.total_cmp(&b.steps));
            let limit = bare[bare.len() / 2];
            let variant = format!("{runs} runs of 10 steps");
            let figure = |value, unit| Figure::new("W2", place.name(), concurrency, value, unit);
            report.add(figure(middle(ours_), "steps/s").of(limit.steps).variant(&variant));
            if !written.is_empty() {
                report.add(figure(middle(written), "bytes of log").variant("a run of 10 steps"));
            }
            report.add(figure(middle(kept), "bytes kept").variant("a run of 10 steps"));
            let rows = format!("bare rows: {:.0} commits/s of {:.0}", limit.commits, limit.rows);
            let bare = figure(limit.steps, "bare steps/s").of(middle(copied)).variant(&rows);
            report.add(match bare.ratio {
                Some(ratio) if ratio < FEW_OF_COPY => bare.note(&why_few(concurrency)),
                _ => bare,
            });
        }
    }
    Ok(())
}

/// Starts a run, waits for its result, starts the next: so many at a time.
pub async fn ours(fresh: &Fresh, runs: usize, concurrency: usize) -> Result<f64> {
    let app = node(fresh, concurrency).await?;
    // The pool, the plans and the allocator are warm before the clock runs.
    closed_loop(&app, concurrency.min(WARM), concurrency).await?;
    let began = Instant::now();
    closed_loop(&app, runs, concurrency).await?;
    let value = rate(runs * STEPS, began.elapsed());
    app.shutdown(Duration::from_secs(5)).await?;
    Ok(value)
}

pub async fn closed_loop(app: &App, runs: usize, concurrency: usize) -> Result<()> {
    let left = Arc::new(AtomicUsize::new(runs));
    let worker = || {
        let (app, left) = (app.clone(), left.clone());
        tokio::spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let run = app.start(ten_steps(), STEPS as u32).await?;
                run.result().await?;
            }
            anyhow::Ok(())
        })
    };
    for done in try_join_all((0..concurrency).map(|_| worker())).await? {
        done?;
    }
    Ok(())
}

/// How many runs make everything warm, at most.
const WARM: usize = 200;

pub async fn w7(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let fresh = place.fresh().await?;
    let commit = spike::commit(&fresh).await?;
    let app = node(&fresh, 256).await?;
    let most = if quick { 2_000 } else { 10_000 };
    // The pool and the plans are warm before the clock runs: a run of ten steps would show nothing else.
    app.start(ten_steps(), 100).await?.result().await?;
    for steps in [10, 100, 1_000, most] {
        let began = Instant::now();
        app.start(ten_steps(), steps).await?.result().await?;
        let each = began.elapsed().as_secs_f64() * 1000.0 / f64::from(steps);
        let figure = Figure::new("W7", place.name(), 1, each, "ms per step").of(commit);
        report.add(figure.variant(&format!("one run of {steps} steps")));
    }
    app.shutdown(Duration::from_secs(5)).await?;
    replay(&fresh, place, report, most).await?;
    fresh.remove().await
}

/// How long the code of [`remembers`] took to come to its end the last time that it began.
static REPLAYED: LazyLock<watch::Sender<Duration>> = LazyLock::new(|| watch::Sender::new(Duration::ZERO));

/// Some steps, then a wait.
pub fn remembers() -> Workflow<u32, (), AnyError> {
    Workflow::new("remembers", |ctx: Ctx, steps: u32| async move {
        let began = Instant::now();
        some_steps(ctx.clone(), steps).await?;
        REPLAYED.send_replace(began.elapsed());
        ctx.event::<()>("go").await?;
        Ok::<_, AnyError>(())
    })
}

/// A run that no node keeps warm goes on: its journal is read, and its code comes through it again.
async fn replay(fresh: &Fresh, place: &Place, report: &mut Report, steps: u32) -> Result<()> {
    let app = node(fresh, 256).await?;
    let id = app.start(remembers(), steps).await?.id();
    while app.handle(&remembers(), id).status().await?.status != outlast::Status::Waiting {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    app.shutdown(Duration::from_secs(5)).await?;
    let app = node(fresh, 256).await?;
    let run = app.handle(&remembers(), id);
    let began = Instant::now();
    run.send("go", &()).await?;
    run.result().await?;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    let alone = rate(steps as usize, *REPLAYED.borrow());
    app.shutdown(Duration::from_secs(5)).await?;
    let figure = |value, unit| Figure::new("W7", place.name(), 1, value, unit);
    report.add(figure(alone, "entries/s").variant(&format!("replay of {steps} entries")));
    report.add(figure(took, "ms").variant(&format!("event to end of a cold run, {steps} entries")));
    Ok(())
}
