//! W1: jobs go in (many at once, one by one, in users' transactions) and are worked off. W11: with a limit per group.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use outlast::{Client, Outlast, QueueRules};

use super::{ROUNDS, middle, noop, opened};
use crate::place::{Fresh, Place, connect};
use crate::report::{Figure, Report};
use crate::spike::{self, rate};

/// Jobs of one bulk call.
const BULK: u32 = 10_000;
/// Jobs that run at a time: as many as the bare rows of a batch.
pub const SLOTS: usize = 1000;
pub async fn w1(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let jobs: u32 = if quick { 20_000 } else { 100_000 };
    // An SQLite file takes one transaction of somebody else's at a time.
    let (few, tasks, writers) = (jobs / 10, 16, if place.name() == "sqlite" { 1 } else { 16 });
    let (mut bulk, mut bulk_limit, mut drained, mut drain_limit) = (vec![], vec![], vec![], vec![]);
    let (mut alone, mut in_users, mut drain_owned) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let fresh = place.fresh().await?;
        bulk_limit.push(spike::enqueue(&fresh, jobs as usize).await?);
        drain_limit.push(spike::drain(&fresh).await?);
        if place.name() == "sqlite" {
            spike::enqueue(&fresh, jobs as usize).await?;
        }
        drain_owned.extend(spike::drain_owned(&fresh)?);
        fresh.remove().await?;

        let fresh = place.fresh().await?;
        let client = Outlast::open(&fresh.url).await?.client();
        let began = Instant::now();
        enqueue(&client, jobs).await?;
        bulk.push(rate(jobs as usize, began.elapsed()));
        drop(client);
        drained.push(drain(&fresh, jobs).await?);
        fresh.remove().await?;

        let fresh = place.fresh().await?;
        alone.push(one_by_one(&fresh, few, tasks).await?);
        in_users.push(in_transactions(&fresh, few / 4, writers).await?);
        fresh.remove().await?;
    }
    let figure = |at_a_time, values| Figure::new("W1", place.name(), at_a_time, middle(values), "jobs/s");
    report.add(figure(1, bulk).of(middle(bulk_limit)).variant("bulk enqueue"));
    let drain_limit = middle(drain_limit);
    report.add(figure(SLOTS, drained).of(drain_limit).variant("drain"));
    if !drain_owned.is_empty() {
        let bare = Figure::new("W1", place.name(), 1000, middle(drain_owned), "bare jobs/s").of(drain_limit);
        report.add(bare.variant("bare drain that writes nothing to take a job; limit: bare drain"));
    }
    report.add(figure(tasks as usize, alone).variant("enqueue one by one"));
    report.add(figure(writers as usize, in_users).variant("enqueue in users' transactions"));
    Ok(())
}

/// Puts jobs into line, as many in a call as it takes.
pub async fn enqueue(client: &Client, jobs: u32) -> Result<()> {
    for first in (0..jobs).step_by(BULK as usize) {
        client.start_many(noop(), first..(first + BULK).min(jobs)).await?;
    }
    Ok(())
}

/// Works off jobs of very many groups, with rules and without: what a rule costs. What the groups cost by themselves,
/// which every job is found by, is a figure of its own.
///
/// The best of each side counts, because whatever else the machine does meanwhile makes both slower, and seldom both alike.
pub async fn w11(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let jobs: u32 = if quick { 20_000 } else { 100_000 };
    for (rules, variant) in [
        (QueueRules { per_group: Some(2), ..QueueRules::default() }, "2 at once of each of 1,000 groups"),
        (QueueRules { limit: Some(500), ..QueueRules::default() }, "500 at once"),
        (QueueRules { fair: true, ..QueueRules::default() }, "1,000 groups in turn"),
    ] {
        let (mut free, mut ruled) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            free = free.max(drain_by(place, jobs, true, None).await?);
            ruled = ruled.max(drain_by(place, jobs, true, Some(rules.clone())).await?);
        }
        let figure = Figure::new("W11", place.name(), SLOTS, ruled, "jobs/s").of(free);
        report.add(figure.variant(&format!("{variant}; limit: the same jobs without rules")));
    }
    let (mut alone, mut grouped) = (0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        alone = alone.max(drain_by(place, jobs, false, None).await?);
        grouped = grouped.max(drain_by(place, jobs, true, None).await?);
    }
    let figure = Figure::new("W11", place.name(), SLOTS, grouped, "jobs/s").of(alone);
    report.add(figure.variant("1,000 groups without rules; limit: without groups"));
    Ok(())
}

/// Works off jobs of a queue with rules, if any, each of one of 1,000 groups or of none.
async fn drain_by(place: &Place, jobs: u32, grouped: bool, rules: Option<QueueRules>) -> Result<f64> {
    let fresh = place.fresh().await?;
    let client = Outlast::open(&fresh.url).await?.client();
    for first in (0..jobs).step_by(BULK as usize) {
        let start = client.start_many(noop(), first..(first + BULK).min(jobs));
        match grouped {
            false => start.await?,
            true => start.groups(|number| format!("group {}", number % 1000)).await?,
        };
    }
    client.set_queue_rules("default", rules).await?;
    drop(client);
    let value = drain(&fresh, jobs).await?;
    fresh.remove().await?;
    Ok(value)
}

/// Works off what is in line.
pub async fn drain(fresh: &Fresh, jobs: u32) -> Result<f64> {
    let outlast = opened(fresh, SLOTS).await?;
    let began = Instant::now();
    let app = outlast.run().await?;
    // The database is asked only when nothing is left to do here: it has enough to do.
    while !app.is_idle() || app.store().next_due().await?.is_some() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let value = rate(jobs as usize, began.elapsed());
    app.shutdown(Duration::from_secs(5)).await?;
    Ok(value)
}

async fn one_by_one(fresh: &Fresh, jobs: u32, tasks: u32) -> Result<f64> {
    let client = Outlast::open(&fresh.url).await?.client();
    let began = Instant::now();
    let work = (0..tasks).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for number in 0..jobs / tasks {
                client.start(noop(), number).await?;
            }
            anyhow::Ok(())
        })
    });
    for done in try_join_all(work).await? {
        done?;
    }
    Ok(rate((jobs / tasks * tasks) as usize, began.elapsed()))
}

/// Each in a transaction of the user's own driver.
async fn in_transactions(fresh: &Fresh, jobs: u32, tasks: u32) -> Result<f64> {
    let client = Outlast::open(&fresh.url).await?.client();
    if let Some(file) = &fresh.file {
        let connection = rusqlite::Connection::open(file)?;
        connection.pragma_update(None, "synchronous", "full")?;
        let began = Instant::now();
        for number in 0..jobs {
            connection.execute_batch("begin immediate")?;
            client.start(noop(), number).in_tx_blocking(&connection)?;
            connection.execute_batch("commit")?;
        }
        return Ok(rate(jobs as usize, began.elapsed()));
    }
    let mut connections = Vec::new();
    for _ in 0..tasks {
        connections.push(connect(&fresh.url).await?);
    }
    let began = Instant::now();
    let work = connections.into_iter().map(|mut connection| {
        let client = client.clone();
        tokio::spawn(async move {
            for number in 0..jobs / tasks {
                let tx = connection.transaction().await?;
                client.start(noop(), number).in_tx(&tx).await?;
                tx.commit().await?;
            }
            anyhow::Ok(())
        })
    });
    for done in try_join_all(work).await? {
        done?;
    }
    Ok(rate((jobs / tasks * tasks) as usize, began.elapsed()))
}
