//! `outlast bench --store`: what the store itself can do, without an engine above it.
//!
//! Each of those at work is a node that goes round: it starts a batch of runs, claims a batch, and finishes what it got, one
//! call of the store for each. What is measured is a call, from asking until it is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::future::try_join_all;
use outlast::{RunId, Status, Timestamp};
use outlast_core::{NodeId, Payload};
use outlast_store::{
    Batch, Claim, Claimed, Committed, Due, DynStore, Ended, NewRun, Next, NodeCard, Renew, RunCommit,
    RunKind, StoreError, code,
};
use parking_lot::Mutex;
use serde_json::json;

use super::{Report, Spans, is_empty, show_rate};
use crate::cli::BenchArgs;
use crate::database::Place;
use crate::fault::{Exit, Fault};
use crate::output::Format;

/// So many runs in one call.
const BATCH: usize = 50;
/// A node that died is let go of after so long.
const LEASE: Duration = Duration::from_secs(60);
/// What the runs are of: no code is called so.
const DEFINITION: &str = "outlast_bench_store";

/// What is shared by those at work.
struct Bench<'a> {
    store: DynStore,
    args: &'a BenchArgs,
    began: Instant,
    /// Runs that somebody starts, or has started.
    taken: AtomicU64,
    /// Runs that were started, and have to be finished.
    started: AtomicU64,
    done: AtomicU64,
    spans: Mutex<[Spans; 3]>,
}

/// Measures the store.
pub(super) async fn bench(place: &Place, args: &BenchArgs, format: Format) -> Result<(), Fault> {
    let store = place.open().await?;
    store.own().await?;
    is_empty(&outlast::Outlast::on(store.clone()).client(), place, args).await?;
    let bench = Bench {
        store,
        args,
        began: Instant::now(),
        taken: AtomicU64::new(0),
        started: AtomicU64::new(0),
        done: AtomicU64::new(0),
        spans: Mutex::new([Spans::new()?, Spans::new()?, Spans::new()?]),
    };
    let work = try_join_all((0..args.concurrency).map(|place| bench.work(place)));
    tokio::select! {
        worked = work => drop(worked?),
        never = show_rate(&bench.done, args, bench.began) => match never {},
        _ = tokio::signal::ctrl_c() => {
            return Err(Fault::new(Exit::Interrupted, "interrupted", "stopped by Ctrl-C"));
        }
    }
    let (runs, took) = (bench.done.into_inner(), bench.began.elapsed());
    let [enqueue, claim, finish] = bench.spans.into_inner();
    let spans = vec![("enqueue", enqueue), ("claim", claim), ("finish", finish)];
    let more = json!({ "store": true, "batch": BATCH });
    Report { runs, took, spans, more }.tell(args, format)
}

impl Bench<'_> {
    /// One node, from its joining to its leaving.
    async fn work(&self, place: usize) -> Result<(), Fault> {
        let node = NodeId::new(fastrand::u128(..));
        self.store.join(&card(node)).await?;
        let worked = self.rounds(node, place).await;
        self.store.leave(node).await?;
        worked
    }

    async fn rounds(&self, node: NodeId, place: usize) -> Result<(), Fault> {
        let shard = u16::try_from(place % usize::from(self.store.shards())).unwrap_or(0);
        let (number, mut renewed) = (AtomicI64::new(0), Instant::now());
        loop {
            let count = self.share();
            if count > 0 {
                let runs: Vec<NewRun> = (0..count).map(|_| self.run(shard)).collect();
                self.measured(0, || self.store.start(&runs, None)).await?;
                self.started.fetch_add(count, Ordering::Relaxed);
            }
            let ask = Claim {
                node,
                number: number.fetch_add(1, Ordering::Relaxed) + 1,
                shard,
                queues: vec![DEFINITION.to_owned()],
                codes: vec![code(DEFINITION, 1)],
                limit: BATCH as u32,
                early: Duration::ZERO,
                from: None,
            };
            let claimed = self.measured(1, || self.store.claim(&ask)).await?.runs;
            let is_idle = claimed.is_empty();
            self.finish(node, shard, claimed).await?;
            if count == 0 && is_idle {
                // What is left is in the hands of others.
                if self.done.load(Ordering::Relaxed) >= self.started.load(Ordering::Relaxed) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if renewed.elapsed() > LEASE / 4 {
                let settled = number.load(Ordering::Relaxed);
                self.store.renew(&Renew { node, lease: LEASE, settled, known: Vec::new() }).await?;
                renewed = Instant::now();
            }
        }
    }

    /// How many runs this round may start.
    fn share(&self) -> u64 {
        match self.args.duration {
            Some(duration) if self.began.elapsed() >= duration => 0,
            Some(_) => BATCH as u64,
            None => {
                let before = self.taken.fetch_add(BATCH as u64, Ordering::Relaxed);
                self.args.jobs.saturating_sub(before).min(BATCH as u64)
            }
        }
    }

    async fn finish(&self, node: NodeId, shard: u16, claimed: Vec<Claimed>) -> Result<(), Fault> {
        let ended = || Ended { status: Status::Completed, output: None, error: None };
        let mut runs: Vec<RunCommit> = claimed
            .iter()
            .map(|run| RunCommit {
                did: false,
                had_news: false,
                next: Some(Next::Finish(ended())),
                ..RunCommit::new(run.id, run.epoch)
            })
            .collect();
        while !runs.is_empty() {
            let batch = Arc::new(Batch { node, shard, runs: runs.clone() });
            let told = self.measured(2, || self.store.commit(batch.clone())).await?;
            if told.contains(&Committed::LeaseLost) {
                let message =
                    "a run was taken away although its node lives: the database stood still for a minute";
                return Err(Fault::new(Exit::Failed, "failed", message));
            }
            let done = told.iter().filter(|told| **told == Committed::Done).count();
            self.done.fetch_add(done as u64, Ordering::Relaxed);
            let mut told = told.into_iter();
            runs.retain(|_| told.next() == Some(Committed::Busy));
        }
        Ok(())
    }

    /// Does one call, again where another's transaction was in the way.
    async fn measured<T, F>(&self, kind: usize, call: impl Fn() -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let began = Instant::now();
        loop {
            match call().await {
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
                Ok(answer) => {
                    self.spans.lock()[kind].add(began.elapsed());
                    return Ok(answer);
                }
            }
        }
    }

    fn run(&self, shard: u16) -> NewRun {
        NewRun {
            id: RunId::new(shard, Timestamp::from(SystemTime::now()), fastrand::u64(..)),
            kind: RunKind::Job,
            tenant: String::new(),
            definition: DEFINITION.to_owned(),
            version: 1,
            key: None,
            unique: None,
            queue: DEFINITION.to_owned(),
            group: None,
            priority: 5,
            due: Due::Now,
            timeout: None,
            input: Payload {
                codec: None,
                bytes: Bytes::from(format!("\"{}\"", "x".repeat(self.args.payload))),
            },
            owner: None,
            roles: Vec::new(),
            tags: Vec::new(),
            trace: None,
            parent: None,
            stops_with_parent: false,
        }
    }
}

fn card(id: NodeId) -> NodeCard {
    NodeCard {
        id,
        name: "outlast bench".to_owned(),
        host: String::new(),
        pid: std::process::id(),
        lease: LEASE,
        definitions: Vec::new(),
        queues: vec![DEFINITION.to_owned()],
        rules: Vec::new(),
        slots: BATCH as u32,
        about: "{}".to_owned(),
    }
}
