//! The limit: what a database does with the very rows that a workload writes, with no engine around it.
//!
//! Same tables, same columns, same bytes, same fence, hundreds of runs to a transaction, as our store
//! writes them; but no replay, no user code, no leases to renew and nobody to tell. When the schema or the
//! statements of the store change, these change too: a limit that does less than the work is no limit.

pub mod postgres;
pub mod sqlite;

use std::time::Duration;

use anyhow::Result;
use uuid::Uuid;

use crate::place::Fresh;

/// Steps of a run in W2.
pub const STEPS: usize = 10;
/// What a step of the benchmark records.
pub const BODY: &[u8] = b"null";
/// What a run of the benchmark is started with.
pub const INPUT: &[u8] = b"1";

/// A row for each run of a wave.
pub fn ids(count: usize) -> Vec<Uuid> {
    (0..count).map(|_| Uuid::now_v7()).collect()
}

/// Work per second.
pub fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// What the bare rows of W2 came to.
#[derive(Debug, Clone, Copy)]
pub struct Bare {
    /// Steps per second.
    pub steps: f64,
    /// Transactions per second.
    pub commits: f64,
    /// Rows of all tables in each.
    pub rows: f64,
}

impl Bare {
    /// For each run a record, a place in line that goes again, its steps and a result.
    fn new(runs: usize, transactions: usize, took: Duration) -> Bare {
        let rows = runs * (STEPS + 3);
        Bare {
            steps: rate(runs * STEPS, took),
            commits: rate(transactions, took),
            rows: rows as f64 / transactions as f64,
        }
    }
}

/// `runs` runs of ten steps, `concurrency` at a time.
pub async fn steps(fresh: &Fresh, runs: usize, concurrency: usize) -> Result<Bare> {
    match &fresh.file {
        None => {
            // One lane has the client wait while the server works, two may get in each other's way.
            let one = postgres::steps(&fresh.url, runs, concurrency, 1).await?;
            let two = match concurrency {
                0..2 => one,
                _ => postgres::steps(&fresh.url, runs, concurrency, 2).await?,
            };
            Ok(if one.steps > two.steps { one } else { two })
        }
        Some(file) => sqlite::steps(file, runs, concurrency),
    }
}

/// The rows of as many steps, written as fast as the database takes rows at all: steps per second.
pub async fn copy_steps(fresh: &Fresh, steps: usize) -> Result<f64> {
    match &fresh.file {
        None => postgres::copy_steps(&fresh.url, steps).await,
        Some(file) => sqlite::insert_steps(file, steps),
    }
}

/// Enqueues `jobs` in batches of 1,000, as fast as rows go in: jobs per second.
pub async fn enqueue(fresh: &Fresh, jobs: usize) -> Result<f64> {
    match &fresh.file {
        None => postgres::copy(&fresh.url, jobs).await,
        Some(file) => sqlite::enqueue(file, jobs),
    }
}

/// Claims what is enqueued and finishes it, in batches of 1,000: jobs per second.
pub async fn drain(fresh: &Fresh) -> Result<f64> {
    match &fresh.file {
        None => postgres::drain(&fresh.url).await,
        Some(file) => sqlite::drain(file, false),
    }
}

/// The same as if taking a job wrote nothing, as it could where a single process has all of them: `None` where many may.
pub fn drain_owned(fresh: &Fresh) -> Result<Option<f64>> {
    fresh.file.as_ref().map(|file| sqlite::drain(file, true)).transpose()
}

/// One durable commit of one small row, again and again: the middle one, in milliseconds.
pub async fn commit(fresh: &Fresh) -> Result<f64> {
    match &fresh.file {
        None => postgres::commit(&fresh.url).await,
        Some(file) => sqlite::commit(file),
    }
}
