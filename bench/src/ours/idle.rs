//! W6: what runs cost that only wait.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{node, waits};
use crate::place::{Place, connect};
use crate::report::{Figure, Report};

pub async fn w6(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let (runs, watch) = if quick { (10_000_u32, 6) } else { (100_000, 20) };
    let fresh = place.fresh().await?;
    let app = node(&fresh, 256).await?;
    // Whatever grows with the first runs (pool, plans, allocator) has grown before we look.
    for _ in 0..3 {
        app.start_many(waits(), vec![1; 1000]).await?;
        quiet(&app).await?;
    }
    let before = resident()?;
    for _ in 0..runs / 10_000 {
        app.start_many(waits(), vec![1; 10_000]).await?;
        quiet(&app).await?;
    }
    let each = (resident()? as f64 - before as f64).max(0.0) / f64::from(runs);
    let variant = format!("{runs} waiting runs");
    report.add(Figure::new("W6", place.name(), 1, each, "bytes per run").variant(&variant));

    if fresh.is_postgres() {
        let watcher = connect(&fresh.url).await?;
        let made = watcher.batch_execute("create extension if not exists pg_stat_statements").await;
        if made.is_ok() && watcher.batch_execute("select pg_stat_statements_reset()").await.is_ok() {
            let began = Instant::now();
            tokio::time::sleep(Duration::from_secs(watch)).await;
            let counted = watcher
                .query_one(
                    "select coalesce(sum(calls), 0)::float8 from pg_stat_statements s
                       join pg_database d on d.oid = s.dbid
                      where d.datname = current_database() and query not like '%pg_stat_statements%'",
                    &[],
                )
                .await?;
            let value = counted.get::<_, f64>(0) / began.elapsed().as_secs_f64();
            report.add(Figure::new("W6", place.name(), 1, value, "statements/s").variant(&variant));
        }
    }
    let busy = cpu()?;
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(watch)).await;
    let share = (cpu()? - busy) / began.elapsed().as_secs_f64() * 100.0;
    report.add(Figure::new("W6", place.name(), 1, share, "% of a core").variant(&variant));
    app.shutdown(Duration::from_secs(5)).await?;
    fresh.remove().await
}

/// Until all runs wait.
async fn quiet(app: &outlast::App) -> Result<()> {
    while !app.is_idle() || app.store().next_due().await?.is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Bytes of this process in memory.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("only Linux tells the memory")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kilobytes * 1024)
}

/// Seconds of CPU that this process has used.
fn cpu() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("only Linux tells the time")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(ticks as f64 / 100.0)
}
