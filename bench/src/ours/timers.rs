//! W5: very many timers that are due at the same instant.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};

use super::{ms, node, sleeps, times};
use crate::place::Place;
use crate::report::{Figure, Report};

/// How many runs the node may have in hand: those who wait are taken early into half of it.
const CONCURRENCY: usize = 5_000;

/// By how much each timer was late, in microseconds; negative when early.
static LATE: Mutex<Vec<i64>> = Mutex::new(Vec::new());

/// Called by the workflow as soon as its sleep is over. One machine, one clock: the database's is ours.
pub fn woke(due: i64) {
    LATE.lock().expect("no panic in here").push(now() - due);
}

pub async fn w5(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let sizes: &[usize] = if quick { &[2_000] } else { &[2_000, 100_000] };
    for &count in sizes {
        LATE.lock().expect("no panic in here").clear();
        let fresh = place.fresh().await?;
        let app = node(&fresh, CONCURRENCY).await?;
        // Time enough to start them all and to let them fall asleep.
        let due = now() + 3_000_000 + count as i64 * 300;
        for chunk in (0..count).collect::<Vec<_>>().chunks(10_000) {
            app.start_many(sleeps(), chunk.iter().map(|_| due)).await?;
        }
        while LATE.lock().expect("no panic in here").len() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
            ensure!(now() < due + 120_000_000, "timers are missing two minutes after they were due");
        }
        app.shutdown(Duration::from_secs(5)).await?;
        fresh.remove().await?;
        let late = std::mem::take(&mut *LATE.lock().expect("no panic in here"));
        let early = late.iter().filter(|late| **late < 0).count();
        ensure!(early == 0, "{early} timers were early, by up to {:?} µs", late.iter().min());
        let mut times = times();
        for late in late {
            times.record(late.max(1) as u64)?;
        }
        let figure =
            |quantile, unit| Figure::new("W5", place.name(), CONCURRENCY, ms(&times, quantile), unit);
        let what = format!("lateness of {count} timers");
        report.add(figure(0.5, "ms p50").variant(&what));
        report.add(figure(0.99, "ms p99").variant(&what));
        report.add(figure(1.0, "ms max").variant(&what));
    }
    Ok(())
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros() as i64)
}
