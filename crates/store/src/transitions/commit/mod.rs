//! Makes durable what runs recorded, and moves them: the one door of the engine.
//!
//! Nearly everything goes the short way ([`swift`]), in one flight. What is left goes the long way, which is
//! here: a batch that moves runs, sends or starts locks first and looks, then writes what it may. A run whose
//! row (or whose receiver's or listener's row) someone else has locked is answered [`Committed::Busy`]: it has
//! not moved, sent or started anything, though entries that it recorded may be there. A batch whose runs only
//! record locks no run on either way: the fence holds the node's row against takeover, and every insert asks
//! for the run's node and epoch.

mod entries;
mod lone;
mod moves;
mod swift;

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast_core::{RunId, ShardCount};

use super::agenda::{self, AgendaRow, ByShard, by_shard, fence};
use super::flight::Flight;
use super::keys::{self, KeyName, KeyRow};
use super::listen::{self, Listener};
use super::post::{self, Post, Receiver};
use super::results::{self, End};
use super::start;
use crate::rows::{ReadRow, cells};
use crate::{
    Batch, Committed, Delivered, Delivery, Dialect, Hold, NewRun, Next, RunCommit, Signal, Sql, StoreError,
    Tx, Type,
};

pub(crate) use entries::{JOURNAL_RECORD, entry_row};
pub(crate) use moves::{DOING_CLEAR, INBOX_CLEAR, INBOX_LEAVE};
pub(crate) use swift::commit_short;

use entries::add_entries;
use moves::Moves;

/// Makes a batch durable; answers in its order. A repeat changes nothing and gets the same answers.
pub(crate) async fn commit(
    tx: &mut dyn Tx,
    batch: &Batch,
    shards: ShardCount,
) -> Result<Vec<Committed>, StoreError> {
    let only_records =
        batch.runs.iter().all(|run| run.next.is_none() && run.sends.is_empty() && run.starts.is_empty());
    if only_records { record_all(tx, batch).await } else { move_all(tx, batch, shards).await }
}

/// Both ways in one transaction, where its flights go nowhere: what the short one leaves takes the long one.
pub(crate) async fn commit_both(
    tx: &mut dyn Tx,
    batch: &Batch,
    shards: ShardCount,
) -> Result<Vec<Committed>, StoreError> {
    let short = commit_short(tx, batch).await?;
    match left(batch, &short) {
        Some(left) => Ok(together(&short, commit(tx, &left, shards).await?)),
        None => Ok(vec![Committed::Done; batch.runs.len()]),
    }
}

/// What the short way left of a batch.
pub(crate) fn left(batch: &Batch, short: &[bool]) -> Option<Batch> {
    let left = batch.runs.iter().zip(short).filter(|(_, done)| !**done).map(|(run, _)| run.clone());
    let left = Batch { node: batch.node, shard: batch.shard, runs: left.collect() };
    (!left.runs.is_empty()).then_some(left)
}

/// The answers of both ways, in the order of the batch.
pub(crate) fn together(short: &[bool], long: Vec<Committed>) -> Vec<Committed> {
    let mut long = long.into_iter();
    let mut answer = |done: &bool| match done {
        true => Committed::Done,
        false => long.next().unwrap_or(Committed::LeaseLost),
    };
    short.iter().map(&mut answer).collect()
}

/// Entries and nothing else: one flight.
async fn record_all(tx: &mut dyn Tx, batch: &Batch) -> Result<Vec<Committed>, StoreError> {
    let mut flight = Flight::default();
    let fenced = flight.add(fence(batch.shard, batch.node));
    let looks = agenda::add_looks(&mut flight, &by_shard(batch.runs.iter().map(|run| run.run)));
    add_entries(&mut flight, batch.shard, batch.node, batch.runs.iter());
    let mut answers = flight.send_last(tx).await?;

    let fenced = !answers.take(fenced).is_empty();
    let rows = agenda::found(&mut answers, &looks)?;
    let held = |run: RunId, epoch: i64| fenced && holds(rows.get(&run), batch, epoch);
    let answer = |held| if held { Committed::Done } else { Committed::LeaseLost };
    Ok(batch.runs.iter().map(|run| answer(held(run.run, run.epoch))).collect())
}

fn holds(row: Option<&AgendaRow>, batch: &Batch, epoch: i64) -> bool {
    row.is_some_and(|row| row.node == Some(batch.node) && row.epoch == epoch)
}

/// What a batch that moves runs found out before it writes.
struct Found {
    fenced: bool,
    /// The rows of its own runs and of receivers, as they stand.
    rows: HashMap<RunId, AgendaRow>,
    /// The receivers and the keys, locked.
    post: Post,
    keys: HashMap<KeyName, KeyRow>,
    /// Runs whose entries an earlier try has recorded.
    recorded: HashSet<RunId>,
    /// Who listens to runs that finish; their rows are among the receivers'.
    listeners: HashMap<RunId, Vec<Listener>>,
}

/// What becomes of one run's commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// All of it is written.
    Goes,
    /// Its entries and effects were written by an earlier try: only its move may be missing.
    Moves,
    Busy,
    Lost,
}

async fn move_all(tx: &mut dyn Tx, batch: &Batch, shards: ShardCount) -> Result<Vec<Committed>, StoreError> {
    let mut found = look(tx, batch, shards).await?;
    let fates: Vec<Fate> = batch.runs.iter().map(|run| found.fate(run, batch, shards)).collect();
    let going = || batch.runs.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::Goes).map(|(run, _)| run);
    let goes_on = |fate: &Fate| matches!(fate, Fate::Goes | Fate::Moves);
    let moving = || batch.runs.iter().zip(&fates).filter(|(_, fate)| goes_on(fate)).map(|(run, _)| run);

    let mut flight = Flight::default();
    add_entries(&mut flight, batch.shard, batch.node, going());
    let children: Vec<&NewRun> = going().flat_map(|run| &run.starts).collect();
    add_children(&mut flight, tx, &mut found, children);
    for message in going().flat_map(|run| &run.sends) {
        send(&mut found, message, shards)?;
    }
    let finished = moving().filter(|run| matches!(run.next, Some(Next::Finish(_))));
    tell_listeners(&mut flight, &mut found, finished);
    // A message of this very batch counts for a suspension in it: news first, then moves.
    let mut moves = Moves::default();
    for run in moving() {
        if let (Some(next), Some(row)) = (&run.next, found.post.runs.get(&run.run)) {
            moves.take(run, next, row);
        }
    }
    std::mem::take(&mut found.post).add(&mut flight, tx);
    let orphans = moves.add(&mut flight, tx, batch.shard);
    let lost = batch.runs.iter().zip(&fates).filter(|(run, fate)| **fate == Fate::Lost && run.next.is_some());
    let ended = results::add_looks(&mut flight, &by_shard(lost.map(|(run, _)| run.run)));
    let mut answers = flight.send_last(tx).await?;
    let ended = results::found(&mut answers, &ended)?;
    if orphans.into_iter().any(|noted| !answers.take(noted).is_empty()) {
        tx.signal(Signal::Orphans);
    }
    Ok(batch
        .runs
        .iter()
        .zip(fates)
        .map(|(run, fate)| match fate {
            Fate::Goes | Fate::Moves => Committed::Done,
            Fate::Busy => Committed::Busy,
            Fate::Lost if found.has_moved(run, ended.get(&run.run)) => Committed::Done,
            Fate::Lost => Committed::LeaseLost,
        })
        .collect())
}

/// Locks what moves and whom it reaches, in order, and looks at the rest.
async fn look(tx: &mut dyn Tx, batch: &Batch, shards: ShardCount) -> Result<Found, StoreError> {
    let sends = || batch.runs.iter().flat_map(|run| &run.sends);
    let keys = reserve(tx, batch, shards).await?;
    // A key that somebody holds has no row here; its sender is answered `Busy`.
    let receivers: Vec<(&Delivery, Receiver)> =
        sends().filter_map(|send| Some((send, post::receiver(&send.to, &keys, shards).ok()?))).collect();

    let movers = batch.runs.iter().filter(|run| run.next.is_some()).map(|run| run.run);
    let told = receivers.iter().filter(|(_, to)| matches!(to, Receiver::Run(_))).map(|(_, to)| to.run());
    let locked: Vec<RunId> = movers.chain(told).collect();
    let seen = by_shard(locked.iter().copied().chain(batch.runs.iter().map(|run| run.run)));

    let mut flight = Flight::default();
    let fenced = flight.add(fence(batch.shard, batch.node));
    // One writer has nothing to lock: what is looked at is locked.
    let has_locks = tx.dialect() == Dialect::Postgres;
    let to_lock = if has_locks { by_shard(locked.iter().copied()) } else { ByShard::new() };
    let locks = agenda::add_locks(&mut flight, &to_lock, false);
    let looks = agenda::add_looks(&mut flight, &seen);
    let last = batch.runs.iter().filter_map(|run| Some(cells![run.run, run.entries.last()?.pos, run.epoch]));
    let recorded = flight.each(&RECORDED, last.collect(), cells![batch.shard]);
    let finished = batch.runs.iter().filter(|run| matches!(run.next, Some(Next::Finish(_))));
    let listeners = listen::add_looks(&mut flight, &by_shard(finished.map(|run| run.run)));
    let settled = post::add_settled(&mut flight, receivers.iter().map(|(send, to)| (*send, to.run())));
    let mut answers = flight.send(tx).await?;

    let mut rows = agenda::found(&mut answers, &looks)?;
    let locked = match has_locks {
        true => agenda::found(&mut answers, &locks)?,
        false => locked.iter().filter_map(|run| Some((*run, rows.get(run)?.clone()))).collect(),
    };
    let mut post = Post::to(locked);
    post.reserve(&keys);
    post.settled = post::settled(&mut answers, &settled)?;
    let recorded = answers.take_any(recorded).iter().map(|row| row.run(0)).collect::<Result<_, _>>()?;
    let fenced = !answers.take(fenced).is_empty();
    let listeners = listen::found(&mut answers, &listeners)?;
    if !listeners.is_empty() {
        lock_listeners(tx, listeners.values().flatten(), &mut rows, &mut post).await?;
    }
    let to: Vec<&Receiver> = receivers.iter().map(|(_, to)| to).collect();
    post.unread = post::count_unread(tx, &post.doubtful(&to)).await?;
    Ok(Found { fenced, rows, post, keys, recorded, listeners })
}

/// Locks and looks at those who listen to runs that finish, in a flight that is seldom needed. It comes after
/// other locks and passes over what somebody has, so it never waits and their order does not matter.
async fn lock_listeners(
    tx: &mut dyn Tx,
    listeners: impl Iterator<Item = &Listener>,
    rows: &mut HashMap<RunId, AgendaRow>,
    post: &mut Post,
) -> Result<(), StoreError> {
    let runs = by_shard(listeners.map(|listener| listener.run));
    let mut flight = Flight::default();
    let locks = agenda::add_locks(&mut flight, &runs, false);
    let looks = agenda::add_looks(&mut flight, &runs);
    let mut answers = flight.send(tx).await?;
    post.runs.extend(agenda::found(&mut answers, &locks)?);
    rows.extend(agenda::found(&mut answers, &looks)?);
    Ok(())
}

/// Reserves and locks the keys that sends and children name, before the fence is taken: making a row
/// waits for another transaction that is just making it. Rows that are left over if a run's commit is
/// refused name nobody's run and do no harm.
async fn reserve(
    tx: &mut dyn Tx,
    batch: &Batch,
    shards: ShardCount,
) -> Result<HashMap<KeyName, KeyRow>, StoreError> {
    let sends = batch.runs.iter().flat_map(|run| &run.sends);
    let mut names: BTreeMap<KeyName, RunId> =
        post::keys_of(tx.machine_now(), sends.map(|send| &send.to), shards);
    for (name, child) in start::first_of_each_key(batch.runs.iter().flat_map(|run| &run.starts)) {
        names.insert(name, child.id);
    }
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let mut flight = Flight::default();
    let locks = keys::add_reserve(&mut flight, &names, false, false);
    keys::found(&mut flight.send(tx).await?, &locks)
}

impl Found {
    /// Whether an earlier try of this commit has moved the run. Whoever takes a run away raises its epoch,
    /// so one that is let go with our epoch was let go by us.
    fn has_moved(&self, run: &RunCommit, end: Option<&End>) -> bool {
        let row = self.rows.get(&run.run).filter(|row| row.node.is_none() && row.epoch == run.epoch);
        let recorded = run.entries.is_empty() || self.recorded.contains(&run.run);
        match (&run.next, row, end) {
            (Some(Next::Finish(ours)), _, Some(end)) => end.epoch == run.epoch && end.status == ours.status,
            (Some(Next::Finish(_)) | None, ..) => false,
            (Some(Next::Block { .. }), None, Some(end)) => end.epoch == run.epoch,
            (Some(_), Some(_), _) => recorded,
            (Some(_), None, _) => false,
        }
    }

    fn fate(&self, run: &RunCommit, batch: &Batch, shards: ShardCount) -> Fate {
        if !self.fenced || !holds(self.rows.get(&run.run), batch, run.epoch) {
            return Fate::Lost;
        }
        let locked = |id: &RunId| self.post.runs.contains_key(id);
        let busy_listener = |to: &Listener| self.rows.contains_key(&to.run) && !locked(&to.run);
        let mut listeners = self.listeners.get(&run.run).into_iter().flatten();
        if run.next.is_some() && (!locked(&run.run) || listeners.any(busy_listener)) {
            return Fate::Busy;
        }
        if self.recorded.contains(&run.run) {
            return Fate::Moves;
        }
        let key_is_busy = |name: Option<KeyName>| name.is_some_and(|name| !self.keys.contains_key(&name));
        let busy_send = |send: &Delivery| match post::receiver(&send.to, &self.keys, shards) {
            Ok(to) => self.rows.contains_key(&to.run()) && !locked(&to.run()),
            Err(_) => true,
        };
        let busy = run.sends.iter().any(busy_send)
            || run.starts.iter().any(|child| key_is_busy(start::name_of(child)));
        if busy { Fate::Busy } else { Fate::Goes }
    }
}

/// Puts a run's message into its receiver's inbox. A run cannot be told that there was nobody to
/// receive it, so that is only logged.
fn send(found: &mut Found, message: &Delivery, shards: ShardCount) -> Result<(), StoreError> {
    let to = post::receiver(&message.to, &found.keys, shards)?;
    let run = to.run();
    if matches!(to, Receiver::Run(_)) && !found.post.runs.contains_key(&run) {
        tracing::debug!(%run, name = message.name, "a message was dropped: its receiver has ended or is unknown");
        return Ok(());
    }
    if let Delivered::Full { limit, .. } = found.post.take(message, &message.name, &to) {
        tracing::warn!(%run, name = message.name, limit, "a message was dropped: its receiver's inbox is full");
    }
    Ok(())
}

/// Tells the ends of `finished` runs to those who listen.
fn tell_listeners<'a>(flight: &mut Flight, found: &mut Found, finished: impl Iterator<Item = &'a RunCommit>) {
    let mut told = Vec::new();
    for run in finished {
        if let (Some(Next::Finish(end)), Some(listeners)) = (&run.next, found.listeners.get(&run.run)) {
            listen::tell(&mut found.post, listeners, end);
            told.push(run.run);
        }
    }
    listen::add_clear(flight, &by_shard(told));
}

/// Starts children, and lets messages of this very batch reach them. One whose key belongs to another
/// run starts nothing.
fn add_children(flight: &mut Flight, tx: &mut dyn Tx, found: &mut Found, children: Vec<&NewRun>) {
    if children.is_empty() {
        return;
    }
    tx.signal(Signal::Due);
    let keyed = start::first_of_each_key(children.iter().copied());
    let plain = children.into_iter().filter(|run| run.key.is_none());
    let new: Vec<(&NewRun, Option<Hold>)> =
        plain.chain(keyed.values().copied()).map(|run| (run, None)).collect();
    start::add_runs(flight, &new);

    for (run, _) in new {
        let key = start::name_of(run).and_then(|name| found.keys.get_mut(&name));
        let (id, news) = match key {
            None => (run.id, 0),
            Some(row) if row.started => continue,
            Some(row) => {
                row.started = true;
                (row.run, row.news)
            }
        };
        found.post.runs.insert(id, AgendaRow::started(id, news));
    }
}

pub(crate) fn statements() -> Vec<&'static Sql> {
    [&[&RECORDED], entries::STATEMENTS, moves::STATEMENTS, lone::STATEMENTS, swift::STATEMENTS].concat()
}

// The last entry, because an earlier one may have left the journal in the same commit.
static RECORDED: Sql = Sql::new(
    "commit_recorded",
    "select b.run from {batch}
      where (select j.epoch from outlast.journal as j
              where j.shard = {p1} and j.run = b.run and j.pos = b.pos) = b.epoch",
)
.rows(&[("run", Type::Id), ("pos", Type::Int), ("epoch", Type::Int)])
.takes(&[Type::Int]);
