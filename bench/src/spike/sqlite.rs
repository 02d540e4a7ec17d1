//! The bare rows on SQLite: one connection, prepared statements, a transaction for each wave.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::postgres::middle;
use super::{BODY, Bare, INPUT, STEPS, ids, rate};

/// How many jobs share a transaction.
const BATCH: i64 = 1000;

/// As the store has it.
const CACHE_KB: i64 = 8 * 1024;

fn open(file: &Path) -> Result<(Connection, Uuid)> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -CACHE_KB)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(100);
    let node = Uuid::now_v7();
    connection.execute(
        "insert into outlast_nodes (shard, id, name, host, pid, codes, joined_at, lease_until)
         values (0, ?1, 'spike', 'spike', 1, '[]', 0, 9000000000000000)",
        [node.as_bytes()],
    )?;
    Ok((connection, node))
}

pub fn steps(file: &Path, runs: usize, concurrency: usize) -> Result<Bare> {
    let (connection, node) = open(file)?;
    let began = Instant::now();
    let (mut done, mut commits) = (0, 0);
    while done < runs {
        let ids = ids(concurrency.min(runs - done));
        transact(&connection, &node, || {
            for id in &ids {
                start(&connection, id, 1, "ten_steps", Some(&node))?;
            }
            Ok(())
        })?;
        for pos in 1..=STEPS {
            transact(&connection, &node, || {
                let mut step = connection.prepare_cached(STEP)?;
                for id in &ids {
                    step.execute(params![
                        id.as_bytes(),
                        pos as i64,
                        "step",
                        BODY,
                        node.as_bytes(),
                        1,
                        now()
                    ])?;
                }
                for id in ids.iter().filter(|_| pos == STEPS) {
                    finish(&connection, id, Some(&node), 1)?;
                }
                Ok(())
            })?;
        }
        done += ids.len();
        commits += STEPS + 1;
    }
    Ok(Bare::new(done, commits, began.elapsed()))
}

/// The journal's rows without a look at anything, 1,000 in a transaction.
pub fn insert_steps(file: &Path, steps: usize) -> Result<f64> {
    let (connection, node) = open(file)?;
    let began = Instant::now();
    for wave in ids(steps).chunks(BATCH as usize) {
        transact(&connection, &node, || {
            let mut step = connection.prepare_cached(
                "insert into outlast_journal (shard, run, pos, kind, epoch, at, name, body)
                 values (0, ?1, 1, 2, 1, ?2, 'step', ?3)",
            )?;
            wave.iter().try_for_each(|id| step.execute(params![id.as_bytes(), now(), BODY]).map(drop))?;
            Ok(())
        })?;
    }
    Ok(rate(steps, began.elapsed()))
}

pub fn enqueue(file: &Path, jobs: usize) -> Result<f64> {
    let (connection, node) = open(file)?;
    let began = Instant::now();
    for wave in ids(jobs).chunks(BATCH as usize) {
        transact(&connection, &node, || {
            wave.iter().try_for_each(|id| start(&connection, id, 2, "noop", None))
        })?;
    }
    Ok(rate(jobs, began.elapsed()))
}

/// Works off what is in line. `owned`: as if whoever has the file had all that is in it, so that taking writes nothing.
pub fn drain(file: &Path, owned: bool) -> Result<f64> {
    let (connection, node) = open(file)?;
    let holder = (!owned).then_some(&node);
    let began = Instant::now();
    let mut done = 0;
    loop {
        let mut claimed: Vec<(Vec<u8>, i64)> = Vec::new();
        transact(&connection, &node, || {
            let mut pick = connection.prepare_cached(
                "select id, epoch from outlast_agenda
                  where shard = 0 and queue = 'default' and priority = 5 and due_at is not null
                  order by due_at, id limit ?1",
            )?;
            let rows = pick.query_map([BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?;
            claimed = rows.collect::<Result<_, _>>()?;
            let mut take = connection.prepare_cached(
                "update outlast_agenda set node = ?2, claim = 1, epoch = epoch + 1, status = 2, due_at = null,
                        began_at = coalesce(began_at, ?3)
                  where shard = 0 and id = ?1 and node is null",
            )?;
            for (id, _) in claimed.iter().filter(|_| !owned) {
                take.execute(params![id, node.as_bytes(), now()])?;
            }
            Ok(())
        })?;
        if claimed.is_empty() {
            return Ok(rate(done, began.elapsed()));
        }
        let mut input = connection.prepare_cached(
            "select definition, version, queue, codec, input from outlast_runs where shard = 0 and id = ?1",
        )?;
        for (id, _) in &claimed {
            input.query_row([id], |row| row.get::<_, Vec<u8>>(4))?;
        }
        drop(input);
        transact(&connection, &node, || {
            claimed.iter().try_for_each(|(id, epoch)| {
                finish(&connection, &Uuid::from_slice(id)?, holder, epoch + i64::from(!owned))
            })
        })?;
        done += claimed.len();
    }
}

pub fn commit(file: &Path) -> Result<f64> {
    let (connection, _) = open(file)?;
    let mut insert = connection.prepare(
        "insert into outlast_logs (shard, run, epoch, n, at, level, message) values (0, ?1, 1, 1, 1, 'info', 'x')",
    )?;
    let mut times = Vec::new();
    for id in ids(500) {
        let began = Instant::now();
        insert.execute([id.as_bytes()])?;
        times.push(began.elapsed());
    }
    Ok(middle(times))
}

/// A transaction behind the fence.
fn transact(connection: &Connection, node: &Uuid, work: impl FnOnce() -> Result<()>) -> Result<()> {
    connection.prepare_cached("begin immediate")?.execute([])?;
    let mut fence = connection.prepare_cached("select id from outlast_nodes where shard = 0 and id = ?1")?;
    ensure!(fence.exists([node.as_bytes()])?, "the spike lost its node");
    work()?;
    connection.prepare_cached("commit")?.execute([])?;
    Ok(())
}

fn start(connection: &Connection, id: &Uuid, kind: i64, name: &str, held: Option<&Uuid>) -> Result<()> {
    let now = now();
    connection
        .prepare_cached(
            "insert into outlast_runs (shard, id, tenant, definition, version, kind, queue, priority, created_at, input)
             values (0, ?1, '', ?2, 1, ?3, 'default', 5, ?4, ?5) on conflict do nothing",
        )?
        .execute(params![id.as_bytes(), name, kind, now, INPUT])?;
    connection
        .prepare_cached(
            "insert into outlast_agenda (shard, id, status, kind, priority, attempt, crashes, due_at, node, claim, epoch,
                                 news, queue, code, began_at)
             values (0, ?1, ?2, ?3, 5, 1, 0, ?4, ?5, ?6, ?7, 0, 'default', ?8, ?9) on conflict do nothing",
        )?
        .execute(params![
            id.as_bytes(),
            if held.is_some() { 2 } else { 1 },
            kind,
            held.is_none().then_some(now),
            held.map(Uuid::as_bytes),
            held.map(|_| 1),
            i64::from(held.is_some()),
            format!("{name}@1"),
            held.map(|_| now),
        ])?;
    Ok(())
}

fn finish(connection: &Connection, id: &Uuid, holder: Option<&Uuid>, epoch: i64) -> Result<()> {
    let holder = holder.map(Uuid::as_bytes);
    let written = connection
        .prepare_cached(
            "insert or fail into outlast_results (shard, run, status, epoch, began_at, finished_at, output)
             select 0, ?1, 8, ?3, a.began_at, ?4, ?5 from outlast_agenda as a
              where a.shard = 0 and a.id = ?1 and a.node is ?2 and a.epoch = ?3 and a.heard = 0 and a.news = 0
             on conflict do nothing",
        )?
        .execute(params![id.as_bytes(), holder, epoch, now(), BODY])?;
    ensure!(written == 1, "the spike lost a run");
    connection
        .prepare_cached(
            "delete from outlast_agenda
              where shard = 0 and id = ?1 and node is ?2 and epoch = ?3 and heard = 0 and news = 0",
        )?
        .execute(params![id.as_bytes(), holder, epoch])?;
    Ok(())
}

fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as i64)
}

const STEP: &str = "
    insert or fail into outlast_journal (shard, run, pos, kind, epoch, at, name, body)
    select 0, ?1, ?2, 2, ?6, ?7, ?3, ?4 from outlast_agenda as a
     where a.shard = 0 and a.id = ?1 and a.node = ?5 and a.epoch = ?6
    on conflict do nothing";
