//! What a run recorded: journal, consumed news, and what is only for people to see.
//!
//! Every statement asks for the run's node and epoch in the agenda, without a lock: the fence that
//! stands before it keeps others from taking the run.

use std::collections::BTreeMap;
use std::ops::Range;

use outlast_core::{Entry, NodeId, RunId};

use crate::rows::{cells, payload_cells, plain, small, took_cell};
use crate::transitions::flight::{Flight, Place};
use crate::{Cell, RunCommit, Sql, Type};

/// The most log lines that are kept of one turn.
const LOG_LINES: u32 = 1_000;

/// Adds everything but the moves of `runs`; entries may have been recorded before.
pub(crate) fn add_entries<'a>(
    flight: &mut Flight,
    shard: u16,
    node: NodeId,
    runs: impl Iterator<Item = &'a RunCommit>,
) {
    add_all(flight, &JOURNAL_ADD, shard, node, runs);
}

/// The same for entries that should be new. The place given back says how many are.
pub(crate) fn add_new_entries<'a>(
    flight: &mut Flight,
    shard: u16,
    node: NodeId,
    runs: impl Iterator<Item = &'a RunCommit>,
) -> Option<Place> {
    add_all(flight, &JOURNAL_NEW, shard, node, runs)
}

fn add_all<'a>(
    flight: &mut Flight,
    journal: &'static Sql,
    shard: u16,
    node: NodeId,
    runs: impl Iterator<Item = &'a RunCommit>,
) -> Option<Place> {
    let mut rows = Rows::default();
    for run in runs {
        rows.take(run);
    }
    let held = || cells![shard, node];
    let added = flight.each(journal, rows.journal, held());
    flight.each(&INBOX_CONSUME, rows.consumed, held());
    for (run, epoch, at) in rows.prunes {
        flight.add(JOURNAL_PRUNE.with(cells![shard, node, run, epoch, at.start, at.end]));
    }
    flight.each(&DOING_SET, rows.doing, held());
    flight.each(&LOGS_ADD, rows.logs, held());
    flight.each(&TAGS_CLEAR, rows.tags.clone(), held());
    flight.each(&TAGS_SET, rows.tags, held());
    added
}

/// A row of the journal for [`JOURNAL_RECORD`].
pub(crate) fn entry_row(run: RunId, epoch: i64, entry: &Entry) -> Vec<Cell> {
    let (codec, body) = payload_cells(entry.body.as_ref());
    let kind = Entry::kind_code(entry.op, entry.phase);
    cells![run, epoch, entry.pos, kind, entry.name.clone(), codec, body, took_cell(entry)]
}

#[derive(Default)]
struct Rows {
    journal: Vec<Vec<Cell>>,
    consumed: Vec<Vec<Cell>>,
    prunes: Vec<(RunId, i64, Range<u32>)>,
    doing: Vec<Vec<Cell>>,
    logs: Vec<Vec<Cell>>,
    tags: Vec<Vec<Cell>>,
}

impl Rows {
    fn take(&mut self, commit: &RunCommit) {
        let (run, epoch) = (commit.run, commit.epoch);
        self.journal.extend(commit.entries.iter().map(|entry| entry_row(run, epoch, entry)));
        self.consumed.extend(commit.consumed.iter().map(|seq| cells![run, epoch, *seq]));
        self.prunes.extend(commit.prunes.clone().map(|at| (run, epoch, at)));
        // One statement cannot set a row twice: the last word about a step or a tag counts.
        let doing: BTreeMap<&str, _> = commit.doing.iter().map(|doing| (&*doing.name, doing)).collect();
        for doing in doing.into_values() {
            let (codec, saved) = payload_cells(doing.saved.as_ref());
            let message = doing.message.as_deref().map(plain);
            let (name, attempt) = (&*doing.name, small(doing.attempt));
            self.doing.push(cells![run, epoch, name, attempt, codec, saved, doing.percent, message]);
        }
        let kept = commit.logs.iter().filter(|line| line.n <= LOG_LINES);
        self.logs.extend(kept.map(|line| {
            let step = line.step.as_deref().map(plain);
            cells![run, epoch, line.n, plain(&line.level), plain(&line.message), step]
        }));
        let tags: BTreeMap<&str, &str> =
            commit.tags.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.tags.extend(tags.into_iter().map(|(name, value)| cells![run, epoch, name, value]));
    }
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &JOURNAL_ADD,
    &JOURNAL_NEW,
    &JOURNAL_RECORD,
    &INBOX_CONSUME,
    &JOURNAL_PRUNE,
    &DOING_SET,
    &LOGS_ADD,
    &TAGS_CLEAR,
    &TAGS_SET,
];

/// The rows of the batch whose runs the node holds with that epoch. A value and not a join, so that no
/// planner goes through all that the node holds: it is looked up by its key, row by row.
macro_rules! held {
    () => {
        " {batch} where (select case when a.node = {p2} then a.epoch end from outlast.agenda as a
                          where a.shard = {p1} and a.id = b.run) = b.epoch "
    };
}

/// The tags of the batch, whatever their values.
macro_rules! tags_of {
    () => {
        concat!("shard = {p1} and (run, name) in (select b.run, b.name from", held!(), ")")
    };
}

macro_rules! journal_add {
    ($insert:literal, $behind:literal) => {
        concat!(
            $insert,
            " outlast.journal (shard, run, pos, kind, epoch, at, name, codec, body, took)
             select {p1}, b.run, b.pos, b.kind, b.epoch, {now}, b.name, b.codec, b.body, b.took from",
            held!(),
            $behind
        )
    };
}

/// SQLite would make a table of a batch of one row, and look the run up beside it.
macro_rules! journal_row {
    () => {
        "insert or fail into outlast.journal (shard, run, pos, kind, epoch, at, name, codec, body, took)
         select {p1}, {b:run}, {b:pos}, {b:kind}, {b:epoch}, {now}, {b:name}, {b:codec}, {b:body}, {b:took}
           from outlast.agenda as a
          where a.shard = {p1} and a.id = {b:run} and a.node = {p2} and a.epoch = {b:epoch}
         on conflict do nothing"
    };
}

static JOURNAL_ADD: Sql = Sql::new("journal_add", journal_add!("insert into", "on conflict do nothing"))
    .on_sqlite(journal_row!())
    .rows(ENTRY)
    .alike(ENTRIES_ALIKE)
    .seldom(ENTRIES_SELDOM)
    .takes(&[Type::Int, Type::Id]);

/// Entries that nobody has recorded yet: PostgreSQL refuses the transaction otherwise. Looking for others first
/// would cost it a third of the whole, SQLite nothing.
static JOURNAL_NEW: Sql = Sql::new("journal_new", journal_add!("insert into", ""))
    // A row that is refused fails the whole transaction anyway: SQLite need not be ready to undo it alone.
    .on_sqlite(journal_row!())
    .counted()
    .rows(ENTRY)
    .alike(ENTRIES_ALIKE)
    .seldom(ENTRIES_SELDOM)
    .takes(&[Type::Int, Type::Id]);

/// Counts what it recorded: an entry that was there before belongs to another transaction.
pub(crate) static JOURNAL_RECORD: Sql =
    Sql::new("journal_record", journal_add!("insert into", "on conflict do nothing"))
        .on_sqlite(journal_row!())
        .counted()
        .rows(ENTRY)
        .alike(ENTRIES_ALIKE)
        .seldom(ENTRIES_SELDOM)
        .takes(&[Type::Int, Type::Id]);

const ENTRY: &[(&str, Type)] = &[
    ("run", Type::Id),
    ("epoch", Type::Int),
    ("pos", Type::Int),
    ("kind", Type::Int),
    ("name", Type::Text),
    ("codec", Type::Text),
    ("body", Type::Bytes),
    ("took", Type::Int),
];

/// Most of what is recorded at the same time are results of steps.
const ENTRIES_ALIKE: &[&str] = &["kind", "codec"];

/// Steps that go one by one say nothing of how long they took.
pub(super) const ENTRIES_SELDOM: &[&str] = &["took"];

static INBOX_CONSUME: Sql = Sql::new(
    "inbox_consume",
    concat!(
        "delete from outlast.inbox where shard = {p1} and (run, seq) in (select b.run, b.seq from",
        held!(),
        ")"
    ),
)
.on_sqlite(
    "delete from outlast.inbox
      where shard = {p1} and run = {b:run} and seq = {b:seq}
        and (select case when a.node = {p2} then a.epoch end from outlast.agenda as a
              where a.shard = {p1} and a.id = {b:run}) = {b:epoch}",
)
.rows(&[("run", Type::Id), ("epoch", Type::Int), ("seq", Type::Int)])
.takes(&[Type::Int, Type::Id]);

static JOURNAL_PRUNE: Sql = Sql::new(
    "journal_prune",
    "delete from outlast.journal where shard = {p1} and run = {p3} and pos >= {p5} and pos < {p6}
        and (select case when a.node = {p2} then a.epoch end from outlast.agenda as a
              where a.shard = {p1} and a.id = {p3}) = {p4}",
)
.takes(&[Type::Int, Type::Id, Type::Id, Type::Int, Type::Int, Type::Int]);

static DOING_SET: Sql = Sql::new(
    "doing_set",
    concat!(
        "insert into outlast.doing (shard, run, name, attempt, since, codec, saved, percent, message)
         select {p1}, b.run, b.name, b.attempt, {now}, b.codec, b.saved, b.percent, b.message from",
        held!(),
        "on conflict (shard, run, name)
         do update set attempt = excluded.attempt, codec = excluded.codec, saved = excluded.saved,
                       percent = excluded.percent, message = excluded.message"
    ),
)
.rows(&[
    ("run", Type::Id),
    ("epoch", Type::Int),
    ("name", Type::Text),
    ("attempt", Type::Int),
    ("codec", Type::Text),
    ("saved", Type::Bytes),
    ("percent", Type::Int),
    ("message", Type::Text),
])
.takes(&[Type::Int, Type::Id]);

static LOGS_ADD: Sql = Sql::new(
    "logs_add",
    concat!(
        "insert into outlast.logs (shard, run, epoch, n, at, level, message, step)
         select {p1}, b.run, b.epoch, b.n, {now}, b.level, b.message, b.step from",
        held!(),
        "on conflict do nothing"
    ),
)
.rows(&[
    ("run", Type::Id),
    ("epoch", Type::Int),
    ("n", Type::Int),
    ("level", Type::Text),
    ("message", Type::Text),
    ("step", Type::Text),
])
.takes(&[Type::Int, Type::Id]);

// A tag has one value: the others of its name go.
static TAGS_CLEAR: Sql = Sql::new("tags_clear", concat!("delete from outlast.tags where ", tags_of!()))
    .on_sqlite(concat!("delete from outlast.tags indexed by outlast.tags_by_run where ", tags_of!()))
    .rows(TAG)
    .takes(&[Type::Int, Type::Id]);

static TAGS_SET: Sql = Sql::new(
    "tags_set",
    concat!(
        "insert into outlast.tags (shard, name, value, run) select {p1}, b.name, b.value, b.run from",
        held!(),
        "on conflict do nothing"
    ),
)
.rows(TAG)
.takes(&[Type::Int, Type::Id]);

const TAG: &[(&str, Type)] =
    &[("run", Type::Id), ("epoch", Type::Int), ("name", Type::Text), ("value", Type::Text)];
