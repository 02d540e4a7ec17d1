//! W8: many children of one run. W9: two nodes beside one. W10: a database with a past.

use std::time::{Duration, Instant};

use anyhow::Result;
use outlast::Outlast;

use super::{ROUNDS, fans_out, jobs, middle, node, steps};
use crate::place::{Place, connect};
use crate::report::{Figure, Report};
use crate::spike::rate;

pub async fn w8(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let children: u32 = if quick { 2_000 } else { 10_000 };
    let fresh = place.fresh().await?;
    let app = node(&fresh, 1000).await?;
    let began = Instant::now();
    let ended = app.start(fans_out(), children).await?.result().await?;
    anyhow::ensure!(ended == children, "{ended} of {children} children ended");
    let value = rate(children as usize, began.elapsed());
    app.shutdown(Duration::from_secs(5)).await?;
    fresh.remove().await?;
    let figure = Figure::new("W8", place.name(), 1000, value, "children/s");
    report.add(figure.variant(&format!("fan-out of {children}")));
    Ok(())
}

/// The same jobs with one node and with two, which share the two cores with the database.
pub async fn w9(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    if place.name() == "sqlite" {
        return Ok(());
    }
    let count: u32 = if quick { 10_000 } else { 100_000 };
    let (mut one, mut two) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        one.push(drain_with(place, count, 1).await?);
        two.push(drain_with(place, count, 2).await?);
    }
    let figure = Figure::new("W9", place.name(), 1000, middle(two), "jobs/s").of(middle(one));
    report.add(figure.variant("two nodes; limit: one node"));
    Ok(())
}

/// Works off jobs with so many nodes.
async fn drain_with(place: &Place, count: u32, nodes: u32) -> Result<f64> {
    let fresh = place.fresh().await?;
    let client = Outlast::open(&fresh.url).await?.client();
    jobs::enqueue(&client, count).await?;
    let began = Instant::now();
    let mut apps = Vec::new();
    for _ in 0..nodes {
        apps.push(node(&fresh, 1000).await?);
    }
    while apps.iter().any(|app| !app.is_idle()) || client.store().next_due().await?.is_some() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let value = rate(count as usize, began.elapsed());
    for app in apps {
        app.shutdown(Duration::from_secs(5)).await?;
    }
    fresh.remove().await?;
    Ok(value)
}

/// Throughput of an empty database, of one with very many finished runs, and beside a held snapshot.
pub async fn w10(place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    let (past, runs, count) = if quick { (100_000_u32, 1_000, 10_000) } else { (10_000_000, 5_000, 50_000) };
    let (mut empty, mut with_past) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let fresh = place.fresh().await?;
        empty.push(steps::ours(&fresh, runs, 256).await?);
        fresh.remove().await?;
    }
    // One past for all rounds: it takes longer than they do.
    let fresh = place.fresh().await?;
    fill(&fresh, past).await?;
    for _ in 0..ROUNDS {
        with_past.push(steps::ours(&fresh, runs, 256).await?);
    }
    fresh.remove().await?;
    let figure = |values| Figure::new("W10", place.name(), 256, middle(values), "steps/s");
    let empty = figure(empty).variant("empty");
    let limit = empty.value.unwrap_or_default();
    report.add(empty);
    let variant = format!("after {past} finished runs; limit: empty");
    report.add(figure(with_past).of(limit).variant(&variant).note("one in ten of them has its journal"));
    if place.name() == "sqlite" {
        return Ok(());
    }
    let (mut free, mut held) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        free.push(drain_beside(place, count, false).await?);
        held.push(drain_beside(place, count, true).await?);
    }
    let figure = Figure::new("W10", place.name(), 1000, middle(held), "jobs/s").of(middle(free));
    report.add(figure.variant("drain beside a held snapshot; limit: without"));
    Ok(())
}

/// Works off jobs, beside a snapshot that was opened before them and is held, or not.
async fn drain_beside(place: &Place, count: u32, held: bool) -> Result<f64> {
    let fresh = place.fresh().await?;
    let reader = connect(&fresh.url).await?;
    if held {
        let snapshot = "begin isolation level repeatable read; select count(*) from outlast.agenda";
        reader.batch_execute(snapshot).await?;
    }
    let client = Outlast::open(&fresh.url).await?.client();
    jobs::enqueue(&client, count).await?;
    drop(client);
    let value = jobs::drain(&fresh, count).await?;
    drop(reader);
    fresh.remove().await?;
    Ok(value)
}

/// Finished runs, as the database would have them after a while: their record, ten entries and a result
/// for each would take an hour to write, so the journal is that of one run in ten. Ids are in the order of time, as
/// ours are.
async fn fill(fresh: &crate::place::Fresh, runs: u32) -> Result<()> {
    if let Some(file) = &fresh.file {
        let connection = rusqlite::Connection::open(file)?;
        connection.execute_batch(&format!(
            "pragma synchronous = off; begin;
             create temporary table n as with recursive n(i) as (select 1 union all select i + 1 from n
                 where i < {runs}) select i, unhex(printf('%012x', 1700000000000 + i)) || randomblob(10) as id
                 from n;
             insert into outlast_runs (shard, id, tenant, definition, version, kind, queue, priority,
                 created_at, input)
             select 0, id, '', 'ten_steps', 1, 1, 'default', 5, 1700000000000000 + i, x'31' from n;
             insert into outlast_results (shard, run, status, epoch, began_at, finished_at, output)
             select 0, id, 8, 1, 1700000000000000 + i, 1700000000000000 + i, x'6e756c6c' from n;
             insert into outlast_journal (shard, run, pos, kind, epoch, at, name, body)
             select 0, n.id, p.value, 2, 1, 1700000000000000 + i, 'step', x'6e756c6c'
               from n cross join json_each('[1,2,3,4,5,6,7,8,9,10]') as p where i % 10 = 0;
             commit; pragma wal_checkpoint(truncate);"
        ))?;
        // Otherwise the first checkpoint pays for all of it.
        std::fs::File::open(file)?.sync_all()?;
        return Ok(());
    }
    let client = connect(&fresh.url).await?;
    client
        .batch_execute(&format!(
            "set synchronous_commit = off;
             create table n as
                 select i, (lpad(to_hex(1700000000000 + i), 12, '0') || substr(md5(i::text), 1, 20))::uuid as id
                   from generate_series(1, {runs}) as i;
             insert into outlast.runs (shard, id, tenant, definition, version, kind, queue, priority,
                 created_at, input)
             select 0, id, '', 'ten_steps', 1, 1, 'default', 5, 1700000000000000 + i, '1'::bytea from n;
             insert into outlast.results (shard, run, status, epoch, began_at, finished_at, output)
             select 0, id, 8, 1, 1700000000000000 + i, 1700000000000000 + i, 'null'::bytea from n;
             insert into outlast.journal (shard, run, pos, kind, epoch, at, name, body)
             select 0, n.id, p, 2, 1, 1700000000000000 + i, 'step', 'null'::bytea
               from n cross join generate_series(1, 10) as p where i % 10 = 0;
             drop table n;"
        ))
        .await?;
    for alone in ["outlast.runs", "outlast.results", "outlast.journal"] {
        client.batch_execute(&format!("vacuum analyze {alone}")).await?;
    }
    client.batch_execute("checkpoint").await?;
    Ok(())
}
