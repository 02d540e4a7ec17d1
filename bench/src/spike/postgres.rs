//! The bare rows on PostgreSQL: set-based statements, a whole transaction in one round trip, and none around what is one
//! statement, as the store has it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use futures_util::{SinkExt, pin_mut};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::{BODY, Bare, INPUT, STEPS, ids, rate};
use crate::place::connect;

/// How many jobs share a transaction.
const BATCH: i64 = 1000;

/// Everything prepared on one connection.
struct Lane {
    client: Client,
    node: Uuid,
    fence: Statement,
    start: Statement,
    step: Statement,
    end: Statement,
    lone_step: Statement,
    lone_end: Statement,
}

pub async fn steps(url: &str, runs: usize, concurrency: usize, lanes: usize) -> Result<Bare> {
    let mut ready = Vec::new();
    for _ in 0..lanes {
        ready.push(Lane::open(url).await?);
    }
    let began = Instant::now();
    let work = ready.iter().map(|lane| lane.run(runs / lanes, concurrency.div_ceil(lanes)));
    let done: Vec<(usize, usize)> = try_join_all(work).await?;
    let (runs, commits) = done.into_iter().fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
    Ok(Bare::new(runs, commits, began.elapsed()))
}

impl Lane {
    async fn open(url: &str) -> Result<Lane> {
        let client = connect(url).await?;
        client.batch_execute(PLANS).await?;
        let node = Uuid::now_v7();
        client
            .execute(
                "insert into outlast.nodes (shard, id, name, host, pid, codes, joined_at, lease_until)
                 values (0, $1, 'spike', 'spike', 1, '[]', 0, 9000000000000000)",
                &[&node],
            )
            .await?;
        Ok(Lane {
            fence: client.prepare(FENCE).await?,
            start: client.prepare(START).await?,
            step: client.prepare(STEP).await?,
            end: client.prepare(END).await?,
            lone_step: client.prepare(LONE_STEP).await?,
            lone_end: client.prepare(LONE_END).await?,
            client,
            node,
        })
    }

    /// Wave after wave; gives the number of runs it took to their end, and of transactions.
    async fn run(&self, runs: usize, wave: usize) -> Result<(usize, usize)> {
        let (mut done, mut commits) = (0, 0);
        while done < runs {
            let ids = ids(wave.min(runs - done));
            let (names, inputs) = (vec!["ten_steps"; ids.len()], vec![INPUT; ids.len()]);
            let queues = vec!["default"; ids.len()];
            let start: [&(dyn ToSql + Sync); 5] = [&self.node, &ids, &names, &queues, &inputs];
            ensure!(self.client.execute(&self.start, &start).await? == ids.len() as u64, "not all began");
            match ids[..] {
                [id] => self.run_alone(id).await?,
                _ => self.run_together(&ids).await?,
            }
            done += ids.len();
            commits += STEPS + 1;
        }
        Ok((done, commits))
    }

    async fn run_together(&self, ids: &[Uuid]) -> Result<()> {
        let (bodies, names) = (vec![BODY; ids.len()], vec!["step"; ids.len()]);
        let epochs = vec![1_i64; ids.len()];
        for pos in 1..=STEPS as i32 {
            let positions = vec![pos; ids.len()];
            let step: [&(dyn ToSql + Sync); 6] = [&self.node, &ids, &epochs, &positions, &names, &bodies];
            let end: [&(dyn ToSql + Sync); 4] = [&self.node, &ids, &epochs, &bodies];
            match pos as usize == STEPS {
                false => self.transact(ids.len(), &[(&self.step, &step)]).await?,
                true => self.transact(ids.len(), &[(&self.step, &step[..]), (&self.end, &end)]).await?,
            }
        }
        Ok(())
    }

    /// A run by itself: each step is a statement, and the last one ends the run as well.
    async fn run_alone(&self, id: Uuid) -> Result<()> {
        for pos in 1..=STEPS as i32 {
            let sql = if pos as usize == STEPS { &self.lone_end } else { &self.lone_step };
            let written = self.client.execute(sql, &[&self.node, &id, &1_i64, &pos, &"step", &BODY]).await?;
            ensure!(written == 1, "the spike lost its run");
        }
        Ok(())
    }

    /// One transaction behind the fence, in one round trip. Each call has to write so many rows.
    async fn transact(&self, rows: usize, calls: &[(&Statement, &[&(dyn ToSql + Sync)])]) -> Result<()> {
        let begin = self.client.batch_execute(BEGIN);
        let fence: [&(dyn ToSql + Sync); 1] = [&self.node];
        let fence = self.client.query(&self.fence, &fence);
        let calls = try_join_all(calls.iter().map(|(sql, with)| self.client.execute(*sql, with)));
        let commit = self.client.batch_execute("commit");
        let (_, fenced, written, ()) = futures_util::try_join!(begin, fence, calls, commit)?;
        ensure!(fenced.len() == 1, "the spike lost its node");
        ensure!(written.iter().all(|written| *written == rows as u64), "the spike lost a run");
        Ok(())
    }
}

/// COPY of the same rows, both tables in one transaction of 1,000 jobs.
pub async fn copy(url: &str, jobs: usize) -> Result<f64> {
    let client = connect(url).await?;
    let began = Instant::now();
    let mut done = 0;
    while done < jobs {
        let ids = ids((BATCH as usize).min(jobs - done));
        client.batch_execute("begin").await?;
        let now = 1_780_000_000_000_000_i64;
        let runs = "copy outlast.runs (shard, id, tenant, definition, version, kind, queue, priority,
                        created_at, input) from stdin";
        let line = |id: &Uuid| format!("0\t{id}\t\tnoop\t1\t2\tdefault\t5\t{now}\t\\\\x31\n");
        copy_in(&client, runs, ids.iter().map(line).collect()).await?;
        let agenda = "copy outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at,
                          epoch, news, queue, code) from stdin";
        let line = |id: &Uuid| format!("0\t{id}\t1\t2\t5\t1\t0\t{now}\t0\t0\tdefault\tnoop@1\n");
        copy_in(&client, agenda, ids.iter().map(line).collect()).await?;
        client.batch_execute("commit").await?;
        done += ids.len();
    }
    Ok(rate(done, began.elapsed()))
}

/// COPY of the journal's rows, 1,000 in a transaction.
pub async fn copy_steps(url: &str, steps: usize) -> Result<f64> {
    let client = connect(url).await?;
    let began = Instant::now();
    let mut done = 0;
    while done < steps {
        let ids = ids((BATCH as usize).min(steps - done));
        let sql = "copy outlast.journal (shard, run, pos, kind, epoch, at, name, body) from stdin";
        let line = |id: &Uuid| format!("0\t{id}\t1\t2\t1\t1780000000000000\tstep\t\\\\x6e756c6c\n");
        copy_in(&client, sql, ids.iter().map(line).collect()).await?;
        done += ids.len();
    }
    Ok(rate(done, began.elapsed()))
}

async fn copy_in(client: &Client, sql: &str, text: String) -> Result<()> {
    let sink = client.copy_in::<_, bytes::Bytes>(sql).await?;
    pin_mut!(sink);
    sink.send(text.into_bytes().into()).await?;
    sink.finish().await?;
    Ok(())
}

/// Claims and finishes what is due, each as a transaction of its own, as two different processes might.
pub async fn drain(url: &str) -> Result<f64> {
    let lane = Lane::open(url).await?;
    let claim = lane.client.prepare(CLAIM).await?;
    let inputs = lane.client.prepare(INPUTS).await?;
    let began = Instant::now();
    let mut done = 0;
    loop {
        let begin = lane.client.batch_execute(BEGIN);
        let fence: [&(dyn ToSql + Sync); 1] = [&lane.node];
        let fence = lane.client.query(&lane.fence, &fence);
        let asked: [&(dyn ToSql + Sync); 2] = [&lane.node, &BATCH];
        let claimed = lane.client.query(&claim, &asked);
        let commit = lane.client.batch_execute("commit");
        let (_, _, claimed, ()) = futures_util::try_join!(begin, fence, claimed, commit)?;
        if claimed.is_empty() {
            return Ok(rate(done, began.elapsed()));
        }
        let ids: Vec<Uuid> = claimed.iter().map(|row| row.get(0)).collect();
        let epochs: Vec<i64> = claimed.iter().map(|row| row.get(1)).collect();
        lane.client.query(&inputs, &[&ids]).await?;
        let bodies = vec![BODY; ids.len()];
        let end: [&(dyn ToSql + Sync); 4] = [&lane.node, &ids, &epochs, &bodies];
        lane.transact(ids.len(), &[(&lane.end, &end)]).await?;
        done += ids.len();
    }
}

pub async fn commit(url: &str) -> Result<f64> {
    let client = connect(url).await?;
    let insert = client
        .prepare_typed(
            "insert into outlast.logs (shard, run, epoch, n, at, level, message)
             values (0, $1, 1, 1, 1, 'info', 'x')",
            &[Type::UUID],
        )
        .await?;
    let mut times = Vec::new();
    for id in ids(500) {
        let began = Instant::now();
        client.execute(&insert, &[&id]).await?;
        times.push(began.elapsed());
    }
    Ok(middle(times))
}

/// The median, in milliseconds.
pub fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

/// As the store has them.
const PLANS: &str = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; \
                     set enable_hashjoin = off; set enable_mergejoin = off; set enable_bitmapscan = off; \
                     set jit = off; set seq_page_cost = 0; set random_page_cost = 0; set cpu_tuple_cost = 0.1; \
                     set cpu_index_tuple_cost = 0.1";

const BEGIN: &str = "begin isolation level read committed; set local statement_timeout = 5000; \
                     set local idle_in_transaction_session_timeout = 5000; set local lock_timeout = 2000";

const FENCE: &str = "select n.id from outlast.nodes as n where n.shard = 0 and n.id = $1 for key share";

const START: &str = "
    with b as materialized (
        select * from unnest($2::uuid[], $3::text[], $4::text[], $5::bytea[]) as b(id, definition, queue, input)
    ), fence as materialized (
        select n.id from outlast.nodes as n where n.shard = 0 and n.id = $1::uuid for key share
    ), new as (
        insert into outlast.runs (shard, id, tenant, definition, version, kind, queue, priority, created_at, input)
        select 0, b.id, '', b.definition, 1, 1, b.queue, 5,
               (select (extract(epoch from statement_timestamp()) * 1000000)::bigint), b.input
          from b
    )
    insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, node, claim, epoch, news,
                                queue, code, began_at)
    select 0, b.id, 2, 1, 5, 1, 0, n.id, 1, 1, 0, b.queue, b.definition || '@1',
           (select (extract(epoch from statement_timestamp()) * 1000000)::bigint)
      from b cross join fence as n";

const STEP: &str = "
    insert into outlast.journal (shard, run, pos, kind, epoch, at, name, body)
    select 0, b.run, b.pos, 2, b.epoch, (select (extract(epoch from statement_timestamp()) * 1000000)::bigint),
           b.name, b.body
      from unnest($2::uuid[], $3::bigint[], $4::int[], $5::text[], $6::bytea[])
               as b(run, epoch, pos, name, body)
     where (select case when a.node = $1::uuid then a.epoch end from outlast.agenda as a
             where a.shard = 0 and a.id = b.run) = b.epoch";

// By both parts of the key from the row that was locked: without statistics the planner would read the whole shard.
const END: &str = "
    with fit as materialized (
        select h.shard, b.run, b.epoch, b.output, h.began_at
          from unnest($2::uuid[], $3::bigint[], $4::bytea[]) as b(run, epoch, output) cross join lateral (
              select a.shard, a.began_at from outlast.agenda as a
               where a.shard = 0 and a.id = b.run and case when a.node = $1::uuid then a.epoch end = b.epoch
                 and a.heard = 0 and a.news = 0 for update skip locked) as h
    ), gone as (
        delete from outlast.agenda as a using fit as f where a.shard = f.shard and a.id = f.run
    )
    insert into outlast.results (shard, run, status, epoch, began_at, finished_at, output)
    select 0, f.run, 8, f.epoch, f.began_at,
           (select (extract(epoch from statement_timestamp()) * 1000000)::bigint), f.output from fit as f";

const LONE_STEP: &str = "
    with fit as materialized (
        select a.shard, a.id from outlast.agenda as a
         where a.shard = 0 and a.id = $2::uuid and case when a.node = $1::uuid then a.epoch end = $3::bigint
           for update skip locked
    )
    insert into outlast.journal (shard, run, pos, kind, epoch, at, name, body)
    select f.shard, f.id, $4::int, 2, $3, (select (extract(epoch from statement_timestamp()) * 1000000)::bigint),
           $5::text, $6::bytea from fit as f";

const LONE_END: &str = "
    with fit as materialized (
        select a.shard, a.id, a.began_at from outlast.agenda as a
         where a.shard = 0 and a.id = $2::uuid and case when a.node = $1::uuid then a.epoch end = $3::bigint
           and a.heard = 0 and a.news = 0 for update skip locked
    ), added as (
        insert into outlast.journal (shard, run, pos, kind, epoch, at, name, body)
        select f.shard, f.id, $4::int, 2, $3, (select (extract(epoch from statement_timestamp()) * 1000000)::bigint),
               $5::text, $6::bytea from fit as f
    ), gone as (
        delete from outlast.agenda as a using fit as f where a.shard = f.shard and a.id = f.id
    )
    insert into outlast.results (shard, run, status, epoch, began_at, finished_at, output)
    select f.shard, f.id, 8, $3, f.began_at,
           (select (extract(epoch from statement_timestamp()) * 1000000)::bigint), $6 from fit as f";

const CLAIM: &str = "
    with picked as materialized (
        select a.shard, a.id from outlast.agenda as a
         where a.shard = 0 and a.queue = 'default' and a.priority = 5 and a.due_at is not null
         order by a.due_at, a.id limit $2 for update skip locked
    )
    update outlast.agenda as a set node = $1::uuid, claim = 1, epoch = a.epoch + 1, status = 2, due_at = null,
           began_at = coalesce(a.began_at, (select (extract(epoch from statement_timestamp()) * 1000000)::bigint))
      from picked as p where a.shard = p.shard and a.id = p.id
    returning a.id, a.epoch";

const INPUTS: &str = "select r.id, r.definition, r.version, r.queue, r.codec, r.input
                        from outlast.runs as r where r.shard = 0 and r.id = any($1::uuid[])";
