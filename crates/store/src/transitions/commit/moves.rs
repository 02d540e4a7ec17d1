//! Where runs go when their turn ends.
//!
//! The runs are locked, and their node and epoch were compared with what the lock found: these
//! statements name the run and its epoch only.

use std::collections::HashSet;
use std::time::Duration;

use outlast_core::{RunId, Status, Timestamp};

use crate::rows::{cells, ids, micros, payload_cells, plain, small};
use crate::transitions::agenda::AgendaRow;
use crate::transitions::flight::{Flight, Place};
use crate::transitions::orphans;
use crate::{Cell, Ended, Next, RunCommit, Signal, Sql, Tx, Type};

/// The moves of a batch. Their runs are locked, so what was decided here stays true.
#[derive(Default)]
pub(super) struct Moves {
    moved: Vec<Vec<Cell>>,
    results: Vec<Vec<Cell>>,
    gone: Vec<Vec<Cell>>,
    finished: Vec<RunId>,
    /// Those that did not end well.
    failed: HashSet<RunId>,
    /// Those that do not end well, and those that undo.
    orphans: Vec<Orphans>,
    idle: Vec<RunId>,
    due: bool,
}

/// How long a run that was asked to stop is put aside at most.
const CANCELLED: Duration = Duration::from_millis(500);

/// Whose children are asked to stop.
enum Orphans {
    Ended(RunId, Ended),
    Undone(AgendaRow),
}

/// Where an unfinished run stands after its turn.
struct Stand {
    status: Status,
    due_at: Option<Timestamp>,
    /// Due this long from now, but not after the run's time is over.
    delay: Option<i64>,
    attempt: Option<i64>,
    reason: Option<String>,
}

impl Moves {
    /// Decides where a run goes; `row` counts the news of this batch.
    pub(super) fn take(&mut self, commit: &RunCommit, next: &Next, row: &AgendaRow) {
        if commit.did {
            self.idle.push(commit.run);
        }
        let ready = |delay, attempt| Stand {
            status: Status::Ready,
            due_at: None,
            delay: Some(delay),
            attempt,
            reason: None,
        };
        let place = match next {
            Next::Suspend { seen, .. } if row.news > *seen => ready(0, None),
            Next::Suspend { wake_at, .. } => Stand {
                status: Status::Waiting,
                due_at: [*wake_at, row.expires_at].into_iter().flatten().min(),
                delay: None,
                attempt: None,
                reason: None,
            },
            Next::Retry { after, attempt } => {
                // Whoever asked it to stop meanwhile does not wait as long; but one that is only put back must not come
                // again at once, and one that is being undone for that reason has its own pauses.
                let is_asked = row.cancel_reason.is_some() && !row.is_undoing;
                let after = if is_asked { (*after).min(CANCELLED) } else { *after };
                ready(micros(after), Some(small(*attempt)))
            }
            Next::Release => ready(0, None),
            Next::Block { reason } => Stand {
                status: Status::Blocked,
                due_at: None,
                delay: None,
                attempt: None,
                reason: Some(plain(reason)),
            },
            Next::Undo => {
                self.orphans.push(Orphans::Undone(row.clone()));
                ready(0, None)
            }
            Next::GiveUp { reason } => Stand {
                status: Status::UndoFailed,
                due_at: None,
                delay: None,
                attempt: None,
                reason: Some(plain(reason)),
            },
            Next::Finish(end) => {
                let (codec, output) = payload_cells(end.output.as_ref());
                let ended = cells![commit.run, commit.epoch, end.status, codec, output, end.error.clone()];
                self.results.push([ended, cells![row.began_at]].concat());
                self.gone.push(cells![commit.run, commit.epoch]);
                self.finished.push(commit.run);
                if end.status != Status::Completed {
                    self.failed.insert(commit.run);
                    self.orphans.push(Orphans::Ended(commit.run, end.clone()));
                }
                return;
            }
        };
        // Whoever gave up stands still anyway.
        let pauses = row.pause_asked.as_ref().filter(|_| place.status != Status::UndoFailed);
        let place = match pauses {
            Some(why) => Stand { status: Status::Paused, reason: Some(why.clone()), ..place },
            None => place,
        };
        // A claim loop that sleeps until the next due time has to hear of an earlier one.
        self.due |= pauses.is_none() && (place.due_at.is_some() || place.delay.is_some());
        self.moved.push(cells![
            commit.run,
            commit.epoch,
            place.status,
            place.due_at,
            place.delay,
            place.attempt,
            place.reason,
            i64::from(!commit.entries.is_empty()),
            i64::from(matches!(next, Next::Undo | Next::GiveUp { .. })),
            i64::from(pauses.is_some()),
        ]);
    }

    /// Adds the statements that make it so. The places given back have rows if there are children to be asked to stop.
    pub(super) fn add(self, flight: &mut Flight, tx: &mut dyn Tx, shard: u16) -> Vec<Place> {
        flight.each(&AGENDA_MOVE, self.moved, cells![shard]);
        flight.each(&RESULTS_ADD, self.results, cells![shard]);
        flight.each(&AGENDA_END, self.gone, cells![shard]);
        let note = |orphans: &Orphans| match orphans {
            Orphans::Ended(run, end) => orphans::add_ended(flight, *run, end),
            Orphans::Undone(row) => Some(orphans::add_undone(flight, row)),
        };
        let noted = self.orphans.iter().filter_map(note).collect();
        let (failed, completed): (Vec<RunId>, Vec<RunId>) =
            self.finished.iter().partition(|run| self.failed.contains(run));
        if !completed.is_empty() {
            flight.add(INBOX_CLEAR.with(cells![shard, ids(&completed)]));
        }
        if !failed.is_empty() {
            flight.add(INBOX_LEAVE.with(cells![shard, ids(&failed)]));
        }
        if !self.idle.is_empty() {
            flight.add(DOING_CLEAR.with(cells![shard, ids(&self.idle)]));
        }
        if self.due {
            tx.signal(Signal::Due);
        }
        if !self.finished.is_empty() {
            tx.signal(Signal::Ended(self.finished.into()));
        }
        noted
    }
}

pub(super) static STATEMENTS: &[&Sql] =
    &[&AGENDA_MOVE, &RESULTS_ADD, &AGENDA_END, &INBOX_CLEAR, &INBOX_LEAVE, &DOING_CLEAR];

static AGENDA_MOVE: Sql = Sql::new(
    "agenda_move",
    "update outlast.agenda as a set status = b.status, node = null, claim = null,
            due_at = case when b.pauses = 1 then null when a.expires_at < {now} + b.delay then a.expires_at
                          else coalesce(b.due_at, {now} + b.delay) end,
            expires_at = case when b.undoing = 1 then null else a.expires_at end,
            undoing = case when b.undoing = 1 then 1 else a.undoing end,
            attempt = coalesce(b.attempt, a.attempt),
            resume_at = case when b.pauses = 1 then {now} + b.delay end, pause_asked = null,
            reason = b.reason, crashes = case when b.progress = 1 then 0 else a.crashes end
       from {batch} where a.shard = {p1} and a.id = b.run and a.epoch = b.epoch",
)
// An update from other rows has SQLite make a table of them first.
.on_sqlite(
    "update outlast.agenda set status = {b:status}, node = null, claim = null,
            due_at = case when {b:pauses} = 1 then null when expires_at < {now} + {b:delay} then expires_at
                          else coalesce({b:due_at}, {now} + {b:delay}) end,
            expires_at = case when {b:undoing} = 1 then null else expires_at end,
            undoing = case when {b:undoing} = 1 then 1 else undoing end,
            attempt = coalesce({b:attempt}, attempt),
            resume_at = case when {b:pauses} = 1 then {now} + {b:delay} end, pause_asked = null,
            reason = {b:reason}, crashes = case when {b:progress} = 1 then 0 else crashes end
      where shard = {p1} and id = {b:run} and epoch = {b:epoch}",
)
.rows(&[
    ("run", Type::Id),
    ("epoch", Type::Int),
    ("status", Type::Int),
    ("due_at", Type::Int),
    ("delay", Type::Int),
    ("attempt", Type::Int),
    ("reason", Type::Text),
    ("progress", Type::Int),
    ("undoing", Type::Int),
    ("pauses", Type::Int),
])
.takes(&[Type::Int]);

static RESULTS_ADD: Sql = Sql::new(
    "results_add",
    "insert into outlast.results (shard, run, status, epoch, began_at, finished_at, codec, output, error)
     select {p1}, b.run, b.status, b.epoch, b.began_at, {now}, b.codec, b.output, b.error
       from {batch} where true on conflict do nothing",
)
.on_sqlite(
    "insert into outlast.results (shard, run, status, epoch, began_at, finished_at, codec, output, error)
     values ({p1}, {b:run}, {b:status}, {b:epoch}, {b:began_at}, {now}, {b:codec}, {b:output}, {b:error})
     on conflict do nothing",
)
.rows(&[
    ("run", Type::Id),
    ("epoch", Type::Int),
    ("status", Type::Int),
    ("codec", Type::Text),
    ("output", Type::Bytes),
    ("error", Type::Text),
    ("began_at", Type::Int),
])
.takes(&[Type::Int]);

static AGENDA_END: Sql = Sql::new(
    "agenda_end",
    "delete from outlast.agenda
      where shard = {p1} and (id, epoch) in (select b.run, b.epoch from {batch})",
)
// A list of one row costs SQLite more than the row itself.
.on_sqlite("delete from outlast.agenda where shard = {p1} and id = {b:run} and epoch = {b:epoch}")
.rows(&[("run", Type::Id), ("epoch", Type::Int)])
.takes(&[Type::Int]);

/// What runs have not read. Run by run: for a list of unknown length PostgreSQL would rather read the inboxes of all, and with
/// them whatever has left them since somebody's snapshot. Nobody changes such a row, so that its place is its own.
macro_rules! unread_of {
    ($more:literal) => {
        concat!(
            "delete from outlast.inbox where ctid = any (array(
                 select i.ctid from unnest({p2}) as k(run) cross join lateral (
                     select i.ctid from outlast.inbox as i where i.shard = {p1} and i.run = k.run",
            $more,
            " offset 0) as i))"
        )
    };
}

/// An ended run reads no more messages.
pub(crate) static INBOX_CLEAR: Sql = Sql::new("inbox_clear", unread_of!(""))
    .on_sqlite("delete from outlast.inbox where shard = {p1} and run {in:p2}")
    .takes(&[Type::Int, Type::Ids]);

/// One that did not end well may be tried again: events and values of promises, which somebody was told have arrived,
/// are kept for that. 3 is the last of their kinds.
pub(crate) static INBOX_LEAVE: Sql = Sql::new("inbox_leave", unread_of!(" and i.kind > 3"))
    .on_sqlite("delete from outlast.inbox where shard = {p1} and run {in:p2} and kind > 3")
    .takes(&[Type::Int, Type::Ids]);

/// A run that no turn works on does nothing.
pub(crate) static DOING_CLEAR: Sql =
    Sql::new("doing_clear", "delete from outlast.doing where shard = {p1} and run {in:p2}")
        .takes(&[Type::Int, Type::Ids]);
