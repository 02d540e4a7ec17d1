//! The committer: the one door through which everything that runs record becomes durable.
//!
//! One lane per shard. While batches are on their way the next gathers, so that each transaction carries
//! what hundreds of runs recorded meanwhile; a lone run still pays only one commit. A run's commits keep
//! their order, because it stands in one batch at a time: what it records while that is on its way waits.

pub(crate) mod bench;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hashbrown::{HashMap, HashSet};
use outlast_core::{Entry, Op, Payload, RunId};
use outlast_store::{Batch, Committed, Next, RunCommit, StoreError};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Engine;

#[cfg(test)]
mod tests;

/// The most runs in one batch.
const BATCH: usize = 1000;
/// How many batches are on their way at most. While the database works on one, it has the other at hand, and
/// the runs of a third record.
const FLIGHTS: usize = 2;
/// The most bytes in one batch, unless a single run needs more: a transaction has to be through long before
/// the lease ends, and innocents wait for it.
const BATCH_BYTES: usize = 4 << 20;
/// How long a batch waits before it is tried again when others hold the rows it needs.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause between two tries while the database is out of reach.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Who hears what became of a commit.
pub(crate) trait Hears: Send + Sync {
    /// Everything up to `pos` is durable; `ended` when the turn's end is.
    fn acked(&self, pos: u32, ended: bool);
    /// The run is no longer ours.
    fn lost(&self);
}

impl Hears for super::turn::Turn {
    fn acked(&self, pos: u32, ended: bool) {
        self.acked(pos, ended);
    }

    fn lost(&self) {
        self.lose();
    }
}

pub(crate) struct Committer {
    lanes: Vec<Arc<Lane>>,
}

struct Lane {
    shard: u16,
    gathered: Mutex<Gathered>,
    more: Notify,
}

#[derive(Default)]
struct Gathered {
    /// Who has something to commit and nothing on its way.
    order: VecDeque<RunId>,
    by_run: HashMap<RunId, Waiting>,
    /// Whose commits are on their way: what these record meanwhile waits for that to end.
    away: HashSet<RunId>,
}

/// What one run wants committed.
struct Waiting {
    /// Boxed: it is large, and goes from hand to hand on its way into a batch.
    commit: Box<RunCommit>,
    upto: u32,
    who: Arc<dyn Hears>,
    /// The database refused what the run recorded, and this is what blocks the run instead.
    refused: bool,
}

impl Committer {
    pub(crate) fn new(shards: u16) -> Committer {
        let lane = |shard| Arc::new(Lane { shard, gathered: Mutex::default(), more: Notify::new() });
        Committer { lanes: (0..shards).map(lane).collect() }
    }

    /// Takes what a run recorded. `who` hears when it is durable.
    pub(crate) fn submit(&self, commit: RunCommit, upto: u32, who: Arc<dyn Hears>) {
        let lane = &self.lanes[usize::from(commit.run.shard()) % self.lanes.len()];
        lane.gathered.lock().add(Waiting { commit: Box::new(commit), upto, who, refused: false });
        lane.more.notify_one();
    }

    /// Starts one task per lane.
    pub(crate) fn start(&self, engine: &Arc<Engine>) {
        for lane in &self.lanes {
            engine.spawn(run_lane(Arc::downgrade(engine), lane.clone()));
        }
    }

    /// Wakes the lanes so that they see that the engine stops.
    pub(crate) fn wake(&self) {
        self.lanes.iter().for_each(|lane| lane.more.notify_one());
    }
}

impl Lane {
    /// What a turn recorded after something that was refused must not become durable without it.
    fn forget(&self, run: RunId, epoch: i64) {
        let mut gathered = self.gathered.lock();
        if gathered.by_run.get(&run).is_some_and(|later| later.commit.epoch == epoch) {
            gathered.by_run.remove(&run);
            gathered.order.retain(|waiting| *waiting != run);
        }
    }

    fn put_back(&self, again: Vec<Waiting>) {
        let mut gathered = self.gathered.lock();
        gathered.come_back(again.iter().map(|waiting| waiting.commit.run));
        again.into_iter().rev().for_each(|waiting| gathered.put_back(waiting));
    }
}

impl Gathered {
    fn add(&mut self, new: Waiting) {
        match self.by_run.get_mut(&new.commit.run) {
            Some(old) if old.commit.epoch == new.commit.epoch => old.append(new),
            // A commit of an older epoch can only be refused: the newer one takes its place, or keeps it.
            Some(old) if old.commit.epoch > new.commit.epoch => new.who.lost(),
            Some(old) => {
                let old = std::mem::replace(old, new);
                old.who.lost();
            }
            None => {
                if !self.away.contains(&new.commit.run) {
                    self.order.push_back(new.commit.run);
                }
                self.by_run.insert(new.commit.run, new);
            }
        }
    }

    /// Puts back what could not be committed yet, ahead of what came since.
    fn put_back(&mut self, old: Waiting) {
        let run = old.commit.run;
        match self.by_run.remove(&run) {
            Some(newer) if newer.commit.epoch == old.commit.epoch => {
                let mut old = old;
                old.append(newer);
                self.by_run.insert(run, old);
            }
            Some(other) => {
                let newest = other.commit.epoch.max(old.commit.epoch);
                let (kept, lost) = if other.commit.epoch == newest { (other, old) } else { (old, other) };
                self.by_run.insert(run, kept);
                lost.who.lost();
            }
            None => {
                self.order.push_front(run);
                self.by_run.insert(run, old);
            }
        }
    }

    /// What goes into the next batch; nothing if fewer runs than these have something to commit.
    fn take(&mut self, least: usize) -> Vec<Waiting> {
        let (mut taken, mut room) = (Vec::new(), BATCH_BYTES);
        if self.order.len() < least {
            return taken;
        }
        while taken.len() < BATCH
            && let Some(run) = self.order.pop_front()
        {
            let Some(mut waiting) = self.by_run.remove(&run) else { continue };
            let bytes = waiting.bytes();
            if bytes > room && !taken.is_empty() {
                self.put_back(waiting);
                break;
            }
            // What is too much for one batch goes in several: as much as fits now, the rest when that is through.
            if let Some(rest) = waiting.split(room) {
                self.by_run.insert(run, rest);
                room = 0;
            }
            self.away.insert(run);
            taken.push(waiting);
            room = room.saturating_sub(bytes);
            if room == 0 {
                break;
            }
        }
        taken
    }

    /// A batch is through: what its runs recorded meanwhile is first in line.
    fn come_back(&mut self, runs: impl DoubleEndedIterator<Item = RunId>) {
        for run in runs.rev() {
            if self.away.remove(&run) && self.by_run.contains_key(&run) {
                self.order.push_front(run);
            }
        }
    }
}

impl Waiting {
    /// About how many bytes it sends to the database.
    fn bytes(&self) -> usize {
        let body = |body: &Option<Payload>| body.as_ref().map_or(0, |body| body.bytes.len());
        let commit = &self.commit;
        let entries: usize = commit.entries.iter().map(|entry| entry.name.len() + body(&entry.body)).sum();
        let starts: usize = commit.starts.iter().map(|run| run.input.bytes.len()).sum();
        let sends: usize = commit.sends.iter().map(|send| body(&send.body)).sum();
        let doing: usize = commit.doing.iter().map(|doing| body(&doing.saved)).sum();
        let logs: usize = commit.logs.iter().map(|line| line.message.len()).sum();
        entries + starts + sends + doing + logs
    }

    /// Keeps only the first results of steps, as many as fit into `room` and at least one, and gives the rest
    /// back; `None` when all fits. Nothing but a step's result can go ahead alone: other entries belong to
    /// messages that are consumed, sent or started with them.
    fn split(&mut self, room: usize) -> Option<Waiting> {
        if self.bytes() <= room {
            return None;
        }
        let entries = &self.commit.entries;
        let size = |entry: &Entry| entry.name.len() + entry.body.as_ref().map_or(0, |body| body.bytes.len());
        let (mut keep, mut kept) = (0, 0);
        while keep < entries.len()
            && entries[keep].op == Op::Step
            && (keep == 0 || kept + size(&entries[keep]) <= room)
        {
            kept += size(&entries[keep]);
            keep += 1;
        }
        if keep == 0 || keep == entries.len() {
            return None;
        }
        let rest = self.commit.entries.split_off(keep);
        let upto = self.commit.entries.last().map_or(0, |entry| entry.pos);
        let (run, epoch) = (self.commit.run, self.commit.epoch);
        let entries = std::mem::take(&mut self.commit.entries);
        let first = RunCommit { entries, ..RunCommit::new(run, epoch) };
        let commit = RunCommit { entries: rest, ..std::mem::replace(&mut *self.commit, first) };
        let rest =
            Waiting { commit: Box::new(commit), upto: self.upto, who: self.who.clone(), refused: false };
        self.upto = upto;
        Some(rest)
    }

    fn append(&mut self, newer: Waiting) {
        // What comes after something that was refused must not become durable without it.
        if self.refused {
            return;
        }
        let (to, from) = (&mut *self.commit, *newer.commit);
        to.entries.extend(from.entries);
        to.consumed.extend(from.consumed);
        to.starts.extend(from.starts);
        to.sends.extend(from.sends);
        // The last word about a step or a tag counts: a body that beats while the database is away must
        // not fill the memory.
        to.doing.retain(|old| from.doing.iter().all(|new| new.name != old.name));
        to.doing.extend(from.doing);
        to.did |= from.did;
        to.had_news |= from.had_news;
        to.logs.extend(from.logs);
        to.tags.retain(|(old, _)| from.tags.iter().all(|(new, _)| new != old));
        to.tags.extend(from.tags);
        to.prunes = from.prunes.or(to.prunes.take());
        to.next = from.next.or(to.next.take());
        // What was told last goes with the run, whoever told it.
        to.did |= matches!(to.next, Some(Next::Finish(_))) && !to.doing.is_empty();
        self.upto = newer.upto;
        self.who = newer.who;
    }
}

async fn run_lane(engine: Weak<Engine>, lane: Arc<Lane>) {
    let mut away = FuturesUnordered::new();
    let mut last = 0;
    loop {
        // A small batch that goes beside a large one saves nobody's time, and costs a commit.
        let least = if away.is_empty() { 1 } else { last };
        if away.len() < FLIGHTS {
            let waiting = lane.gathered.lock().take(least);
            if !waiting.is_empty() {
                let Some(engine) = engine.upgrade() else { return };
                last = waiting.len();
                away.push(commit_batch(engine, lane.clone(), waiting));
            }
        }
        if !away.is_empty() {
            tokio::select! {
                biased;
                _ = away.next() => {}
                () = lane.more.notified(), if away.len() < FLIGHTS => {}
            }
            continue;
        }
        match engine.upgrade() {
            Some(engine) if !engine.lanes_stop.is_cancelled() => {
                let stop = engine.lanes_stop.clone();
                drop(engine);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = lane.more.notified() => {}
                }
            }
            _ => return,
        }
    }
}

/// Commits a batch and tells everybody. What has to come again is put back: what others' locks held up, and
/// what blocks a run instead of what it recorded.
async fn commit_batch(engine: Arc<Engine>, lane: Arc<Lane>, waiting: Vec<Waiting>) {
    let mut runs = Vec::with_capacity(waiting.len());
    let mut who = Vec::with_capacity(waiting.len());
    for Waiting { commit, upto, who: hears, refused } in waiting {
        who.push((upto, hears, refused));
        runs.push(*commit);
    }
    metrics::histogram!("outlast_commit_runs").record(runs.len() as f64);
    metrics::counter!("outlast_commit_entries_total")
        .increment(runs.iter().map(|run| run.entries.len() as u64).sum());
    let batch = Arc::new(Batch { node: engine.node(), shard: lane.shard, runs });
    let answers: Vec<Result<Committed, StoreError>> = match persist(&engine, &batch).await {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) => refused_batch(&engine, &batch, error).await,
    };
    let mut again = Vec::new();
    let mut told = Vec::with_capacity(who.len());
    for ((commit, (upto, who, refused)), answer) in batch.runs.iter().zip(who).zip(answers) {
        match answer {
            Ok(Committed::Busy) => {
                again.push(Waiting { commit: Box::new(commit.clone()), upto, who, refused });
            }
            // Another try would be refused too, and so would every turn: the run waits for a person.
            Err(error) if !refused && error.is_final() => {
                let (run, epoch) = (commit.run, commit.epoch);
                tracing::error!(%error, %run, "blocked: the database refuses what the run recorded");
                let reason = format!("the database refuses what the run recorded: {error}");
                let next = Some(Next::Block { reason });
                let commit = Box::new(RunCommit { next, did: false, ..RunCommit::new(run, epoch) });
                lane.forget(run, epoch);
                again.push(Waiting { commit, upto, who, refused: true });
            }
            answer => told.push((commit, upto, who, refused, answer)),
        }
    }
    lane.gathered.lock().come_back(told.iter().map(|(commit, ..)| commit.run));
    for (commit, upto, who, refused, answer) in told {
        let (run, epoch) = (commit.run, commit.epoch);
        match answer {
            Ok(Committed::Done) if !refused => {
                if let Some(Next::Finish(ended)) = &commit.next {
                    engine.note_end(run, ended);
                }
                who.acked(upto, commit.next.is_some());
                continue;
            }
            Ok(Committed::Done) => {}
            _ => {
                metrics::counter!("outlast_fenced_writes_total").increment(1);
                tracing::debug!(%run, epoch, "the run is no longer ours: its turn is dropped");
                if let Some(unsaid) = engine.troubles.fenced.say() {
                    tracing::warn!(%run, epoch, unsaid, "a run is no longer ours: its turn is dropped");
                }
            }
        }
        // First, so that it records nothing more.
        who.lost();
        lane.forget(run, epoch);
    }
    if !again.is_empty() {
        tokio::time::sleep(BUSY_PAUSE).await;
        lane.put_back(again);
    }
}

/// Commits until it worked, is refused, or the engine stops. Repeating is safe.
async fn persist(engine: &Engine, batch: &Arc<Batch>) -> Result<Vec<Committed>, StoreError> {
    let mut pause = Duration::from_millis(10);
    loop {
        match engine.store.commit(batch.clone()).await {
            Err(error) if error.is_retryable() && !engine.lanes_stop.is_cancelled() => {
                if let Some(unsaid) = engine.troubles.commit.say() {
                    tracing::warn!(%error, runs = batch.runs.len(), unsaid, "a commit failed and is tried again");
                }
                metrics::counter!("outlast_commit_retries_total").increment(1);
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                pause = (pause * 2).min(RETRY_PAUSE);
            }
            other => return other,
        }
    }
}

/// The database refuses the batch as it is: find the run that it is about, so that the others go on.
async fn refused_batch(
    engine: &Engine,
    batch: &Arc<Batch>,
    error: StoreError,
) -> Vec<Result<Committed, StoreError>> {
    if batch.runs.len() == 1 {
        return vec![Err(error)];
    }
    let mut answers = Vec::with_capacity(batch.runs.len());
    for run in &batch.runs {
        let alone = Arc::new(Batch { node: batch.node, shard: batch.shard, runs: vec![run.clone()] });
        let answer = persist(engine, &alone).await;
        answers.push(answer.map(|answers| answers.first().copied().unwrap_or(Committed::LeaseLost)));
    }
    answers
}
