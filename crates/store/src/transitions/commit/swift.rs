//! The short way of a commit: one flight, for what nearly every turn asks.
//!
//! A run that records, waits or ends well, and neither sends nor starts anything, is written without a look
//! beforehand: each statement asks for itself whether the node holds the run, and passes over rows that
//! somebody else has locked. Under the fence nobody takes a run away, so that its node and epoch stay what
//! they are; news and listeners are read from the very row that was locked. Whatever could not be written so
//! (locked, listened to, asked to pause, no longer ours, written before) is left for the long way, which finds out why.

use std::collections::HashSet;

use outlast_core::{RunId, Status};

use super::entries::add_new_entries;
use super::lone;
use crate::rows::{ReadRow, cells, ids, payload_cells};
use crate::transitions::agenda::fence;
use crate::transitions::flight::Flight;
use crate::{Batch, Cell, Dialect, Next, RunCommit, Signal, Sql, StoreError, Tx, Type};

/// As many runs are worth a transaction of their own when others of the batch have to go the long way.
const WORTH: usize = 32;

/// Whether a run's commit may go the short way.
fn is_short(run: &RunCommit) -> bool {
    let plain = run.sends.is_empty() && run.starts.is_empty() && run.prunes.is_none();
    plain
        && match &run.next {
            // Its entries say whether the run is held.
            None => !run.entries.is_empty(),
            // Whoever does not end well may have children that have to know.
            Some(Next::Finish(end)) => end.status == Status::Completed,
            Some(Next::Suspend { .. }) => true,
            Some(_) => false,
        }
}

/// Writes what can be written in one flight; `true` for each run of the batch that is done.
pub(crate) async fn commit_short(tx: &mut dyn Tx, batch: &Batch) -> Result<Vec<bool>, StoreError> {
    if let (Dialect::Postgres, Some(run)) = (tx.dialect(), lone::lone(batch)) {
        return Ok(vec![lone::commit(tx, batch, run).await?]);
    }
    let short: Vec<&RunCommit> = batch.runs.iter().filter(|run| is_short(run)).collect();
    if short.is_empty() || (short.len() < WORTH && short.len() < batch.runs.len()) {
        Flight::default().send_last(tx).await?;
        return Ok(vec![false; batch.runs.len()]);
    }
    let mut moves = Moves::default();
    short.iter().for_each(|run| moves.take(run));
    let held = || cells![batch.shard, batch.node];
    let mut flight = Flight::default();
    let fenced = flight.add(fence(batch.shard, batch.node));
    let added = add_new_entries(&mut flight, batch.shard, batch.node, short.iter().copied());
    let waits = [held(), cells![Status::Ready, Status::Waiting]].concat();
    let suspended = moves.waits.iter().map(|row| row[..2].to_vec()).collect();
    let waiting = flight.each(&SUSPEND, moves.waits, waits);
    let suspended = flight.each(&SUSPENDED, suspended, cells![batch.shard]);
    let leaving = moves.ends.iter().map(|row| row[..3].to_vec()).collect();
    let ended = flight.each(&FINISH, moves.ends, held());
    flight.each(&FINISH_LEAVE, leaving, held());
    if !moves.reading.is_empty() {
        flight.add(INBOX_GONE.with(cells![batch.shard, ids(&moves.reading), Status::Completed]));
    }
    flight.each(&DOING_GONE, moves.idle, cells![batch.shard]);
    let ending = moves.ending;
    let mut answers = flight.send_last(tx).await?;

    if answers.take(fenced).is_empty() {
        return Ok(vec![false; batch.runs.len()]);
    }
    let new = answers.take_any(added).first().map_or(Ok(0), |row| row.int(0))?;
    let entries: usize = short.iter().map(|run| run.entries.len()).sum();
    let all_new = new as usize == entries;
    let mut moved = HashSet::new();
    let mut is_due = false;
    for row in [answers.take_any(waiting), answers.take_any(suspended)].concat() {
        moved.insert(row.run(0)?);
        is_due |= row.opt_int(1)?.is_some();
    }
    if is_due {
        tx.signal(Signal::Due);
    }
    let ended = answers.take_any(ended).first().map_or(Ok(0), |row| row.int(0))?;
    let all_ended = ended as usize == ending.len();
    if !ending.is_empty() {
        tx.signal(Signal::Ended(ending.into()));
    }
    let done = |run: &RunCommit| match run.next {
        None => all_new,
        Some(Next::Finish(_)) => all_ended,
        Some(_) => moved.contains(&run.run),
    };
    Ok(batch.runs.iter().map(|run| is_short(run) && done(run)).collect())
}

/// Where runs go, and which.
#[derive(Default)]
struct Moves {
    waits: Vec<Vec<Cell>>,
    ends: Vec<Vec<Cell>>,
    ending: Vec<RunId>,
    /// Those of them that may have messages.
    reading: Vec<RunId>,
    idle: Vec<Vec<Cell>>,
}

impl Moves {
    fn take(&mut self, commit: &RunCommit) {
        let (run, epoch) = (commit.run, commit.epoch);
        if commit.next.is_some() && commit.did {
            self.idle.push(cells![run, epoch]);
        }
        match &commit.next {
            Some(Next::Suspend { wake_at, seen }) => {
                let progress = i64::from(!commit.entries.is_empty());
                self.waits.push(cells![run, epoch, *wake_at, *seen, progress]);
            }
            Some(Next::Finish(end)) => {
                let (codec, output) = payload_cells(end.output.as_ref());
                let had_news = i64::from(commit.had_news);
                self.ends.push(cells![run, epoch, had_news, end.status, codec, output, end.error.clone()]);
                self.ending.push(run);
                self.reading.extend(commit.had_news.then_some(run));
            }
            _ => {}
        }
    }
}

pub(super) static STATEMENTS: &[&Sql] =
    &[&SUSPEND, &SUSPENDED, &FINISH, &FINISH_LEAVE, &INBOX_GONE, &DOING_GONE];

/// The rows of the batch whose runs the node holds and nobody has locked, locked by this. One by one and by
/// both parts of the key, which whoever takes them from here compares with both too: a planner that has no
/// statistics yet takes a shard for small, and would read all of it.
macro_rules! fit {
    ($columns:literal, $and:literal) => {
        concat!(
            "with fit as materialized (
                 select h.shard, b.run, ",
            $columns,
            " from {batch} cross join lateral (
                     select a.shard, a.began_at from outlast.agenda as a
                      where a.shard = {p1} and a.id = b.run
                        and case when a.node = {p2} then a.epoch end = b.epoch",
            $and,
            " for update skip locked) as h
             )"
        )
    };
}

// A message that came after what the turn has seen makes the run due again at once.
static SUSPEND: Sql = Sql::new(
    "suspend",
    concat!(
        fit!("b.wake_at, b.seen, b.progress", " and a.pause_asked is null"),
        " update outlast.agenda as a
             set status = case when a.news > f.seen then {p3} else {p4} end, node = null, claim = null,
                 due_at = least(case when a.news > f.seen then {now} else f.wake_at end, a.expires_at),
                 reason = null, crashes = case when f.progress = 1 then 0 else a.crashes end
            from fit as f where a.shard = f.shard and a.id = f.run returning a.id, a.due_at"
    ),
)
.on_sqlite(
    "update outlast.agenda
        set status = case when news > {b:seen} then {p3} else {p4} end, node = null, claim = null,
            due_at = coalesce(min(case when news > {b:seen} then {now} else {b:wake_at} end, expires_at),
                              case when news > {b:seen} then {now} else {b:wake_at} end, expires_at),
            reason = null, crashes = case when {b:progress} = 1 then 0 else crashes end
      where shard = {p1} and id = {b:run} and node = {p2} and epoch = {b:epoch} and pause_asked is null",
)
.rows(&[
    ("run", Type::Id),
    ("epoch", Type::Int),
    ("wake_at", Type::Int),
    ("seen", Type::Int),
    ("progress", Type::Int),
])
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int]);

// SQLite makes a table of what an update returns, which costs more than to look again. Whoever lets a run go with our epoch
// is us.
static SUSPENDED: Sql = Sql::new("suspended", "")
    .on_sqlite(
        "select a.id, a.due_at from outlast.agenda as a
          where a.shard = {p1} and a.id = {b:run} and a.epoch = {b:epoch} and a.node is null",
    )
    .rows(&[("run", Type::Id), ("epoch", Type::Int)])
    .takes(&[Type::Int]);

const END: &[(&str, Type)] = &[
    ("run", Type::Id),
    ("epoch", Type::Int),
    ("had_news", Type::Int),
    ("status", Type::Int),
    ("codec", Type::Text),
    ("output", Type::Bytes),
    ("error", Type::Text),
];

static FINISH: Sql = Sql::new(
    "finish",
    concat!(
        fit!(
            "b.epoch, b.status, b.codec, b.output, b.error, h.began_at",
            " and a.heard = 0 and (b.had_news = 1 or a.news = 0)"
        ),
        ", gone as (
             delete from outlast.agenda as a using fit as f where a.shard = f.shard and a.id = f.run
         )
         insert into outlast.results (shard, run, status, epoch, began_at, finished_at, codec, output, error)
         select {p1}, f.run, f.status, f.epoch, f.began_at, {now}, f.codec, f.output, f.error from fit as f"
    ),
)
.on_sqlite(
    "insert or fail into outlast.results (shard, run, status, epoch, began_at, finished_at, codec, output, error)
     select {p1}, {b:run}, {b:status}, {b:epoch}, a.began_at, {now}, {b:codec}, {b:output}, {b:error}
       from outlast.agenda as a
      where a.shard = {p1} and a.id = {b:run} and a.node = {p2} and a.epoch = {b:epoch} and a.heard = 0
        and ({b:had_news} = 1 or a.news = 0)
     on conflict do nothing",
)
.counted()
.rows(END)
.alike(&["had_news", "status", "codec", "error"])
.takes(&[Type::Int, Type::Id]);

// PostgreSQL does both in one statement.
static FINISH_LEAVE: Sql = Sql::new("finish_leave", "")
    .on_sqlite(
        "delete from outlast.agenda
          where shard = {p1} and id = {b:run} and node = {p2} and epoch = {b:epoch} and heard = 0
            and ({b:had_news} = 1 or news = 0)",
    )
    .rows(&[("run", Type::Id), ("epoch", Type::Int), ("had_news", Type::Int)])
    .takes(&[Type::Int, Type::Id]);

/// A run that ended well reads no more messages. What somebody else ended meanwhile may be tried again, and then reads
/// those that it has not read. Run by run: a list would have the planner read the messages of the whole shard.
static INBOX_GONE: Sql = Sql::new(
    "inbox_gone",
    "delete from outlast.inbox as i using (
         select k.run from unnest({p2}) as k(run)
          where (select r.status from outlast.results as r where r.shard = {p1} and r.run = k.run) = {p3} offset 0) as k
      where i.shard = {p1} and i.run = k.run",
)
.on_sqlite(
    "delete from outlast.inbox as i where i.shard = {p1} and i.run {in:p2}
        and (select r.status from outlast.results as r where r.shard = {p1} and r.run = i.run) = {p3}",
)
.takes(&[Type::Int, Type::Ids, Type::Int]);

/// A run that no turn works on does nothing. Only if we let it go, by our epoch, or it has ended: what a run has
/// saved that was taken from us is for whoever has it next.
static DOING_GONE: Sql = Sql::new(
    "doing_gone",
    "delete from outlast.doing where shard = {p1} and run in (select b.run from {batch}
      where coalesce((select case when a.node is null then a.epoch else -1 end from outlast.agenda as a
                       where a.shard = {p1} and a.id = b.run), b.epoch) = b.epoch)",
)
.on_sqlite(
    "delete from outlast.doing where shard = {p1} and run = {b:run}
        and coalesce((select case when a.node is null then a.epoch else -1 end from outlast.agenda as a
                       where a.shard = {p1} and a.id = {b:run}), {b:epoch}) = {b:epoch}",
)
.rows(&[("run", Type::Id), ("epoch", Type::Int)])
.takes(&[Type::Int]);
