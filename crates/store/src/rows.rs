//! Cells and the types of the model: how each is written into a row and read from one.
//!
//! A number or a text that this version does not know is an error, never a default: it was written by
//! a version that knows more, and a person has to look.

use std::time::Duration;

use outlast_core::{Entry, Limits, NodeId, Payload, RunId, Status, Timestamp};

use crate::{
    Cell, DefinitionCard, Doing, Ended, News, NewsKind, Parent, Row, RunKind, RunRecord, StoreError,
};

/// One row of cells, each made from a value.
macro_rules! cells {
    ($($value:expr),* $(,)?) => { vec![$($crate::Cell::from($value)),*] };
}
pub(crate) use cells;

impl From<RunId> for Cell {
    fn from(run: RunId) -> Cell {
        Cell::Id(run.uuid())
    }
}

impl From<NodeId> for Cell {
    fn from(node: NodeId) -> Cell {
        Cell::Id(node.uuid())
    }
}

impl From<Timestamp> for Cell {
    fn from(time: Timestamp) -> Cell {
        Cell::Int(time.micros())
    }
}

impl From<Option<Timestamp>> for Cell {
    fn from(time: Option<Timestamp>) -> Cell {
        time.map_or(Cell::Null, Cell::from)
    }
}

impl From<Status> for Cell {
    fn from(status: Status) -> Cell {
        Cell::from(status.code())
    }
}

impl From<RunKind> for Cell {
    fn from(kind: RunKind) -> Cell {
        Cell::Int(match kind {
            RunKind::Workflow => 0,
            RunKind::Job => 1,
        })
    }
}

impl From<NewsKind> for Cell {
    fn from(kind: NewsKind) -> Cell {
        Cell::Int(match kind {
            // Who does not know that one takes it for an event of a name that nobody can wait for.
            NewsKind::Event | NewsKind::Skip => 1,
            NewsKind::Settled => 2,
            NewsKind::Rejected => 3,
            NewsKind::Child => 4,
            NewsKind::Cancel => 5,
        })
    }
}

/// Many ids, for `{in:…}`.
pub(crate) fn ids<'a>(runs: impl IntoIterator<Item = &'a RunId>) -> Cell {
    Cell::Ids(runs.into_iter().map(|run| run.uuid()).collect())
}

/// A span in microseconds, no longer than what may be asked for, so that no sum with a time overflows.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(Limits::DURATION).as_micros()).unwrap_or(i64::MAX)
}

/// A number for a small column: what is more than it holds is not worth telling apart.
pub(crate) fn small(number: u32) -> i64 {
    i64::from(number.min(i16::MAX as u32))
}

/// Text that people wrote, for a column that cannot hold NUL. One line must not fail its batch.
pub(crate) fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The codec and the bytes of a payload: two cells.
pub(crate) fn payload_cells(payload: Option<&Payload>) -> (Cell, Cell) {
    match payload {
        Some(payload) => (Cell::from(payload.codec.clone()), Cell::from(payload.bytes.clone())),
        None => (Cell::Null, Cell::Null),
    }
}

/// Reading what only this store knows how to read.
pub(crate) trait ReadRow {
    /// The run whose id is in column `at`.
    fn run(&self, at: usize) -> Result<RunId, StoreError>;
    /// The node whose id is in column `at`, or `None` for null.
    fn opt_node(&self, at: usize) -> Result<Option<NodeId>, StoreError>;
    /// The time in column `at`.
    fn time(&self, at: usize) -> Result<Timestamp, StoreError>;
    /// The time in column `at`, or `None` for null.
    fn opt_time(&self, at: usize) -> Result<Option<Timestamp>, StoreError>;
    /// The small number in column `at`.
    fn number<T: TryFrom<i64>>(&self, at: usize) -> Result<T, StoreError>;
    /// The payload whose codec is in column `at` and whose bytes are in the next.
    fn payload(&self, at: usize) -> Result<Option<Payload>, StoreError>;
    /// The status in column `at`.
    fn status(&self, at: usize) -> Result<Status, StoreError>;
    /// The kind of run in column `at`.
    fn kind(&self, at: usize) -> Result<RunKind, StoreError>;
}

impl ReadRow for Row {
    fn run(&self, at: usize) -> Result<RunId, StoreError> {
        self.id(at).map(RunId::from_uuid)
    }

    fn opt_node(&self, at: usize) -> Result<Option<NodeId>, StoreError> {
        Ok(self.opt_id(at)?.map(NodeId::from_uuid))
    }

    fn time(&self, at: usize) -> Result<Timestamp, StoreError> {
        self.int(at).map(Timestamp::from_micros)
    }

    fn opt_time(&self, at: usize) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.opt_int(at)?.map(Timestamp::from_micros))
    }

    fn number<T: TryFrom<i64>>(&self, at: usize) -> Result<T, StoreError> {
        let number = self.int(at)?;
        T::try_from(number).map_err(|_| refused(format!("column {at} holds {number}, which is out of range")))
    }

    fn payload(&self, at: usize) -> Result<Option<Payload>, StoreError> {
        let codec = self.opt_text(at)?;
        Ok(self.opt_bytes(at + 1)?.map(|bytes| Payload { codec, bytes }))
    }

    fn status(&self, at: usize) -> Result<Status, StoreError> {
        Status::from_code(self.int(at)?).map_err(|unknown| refused(unknown.to_string()))
    }

    fn kind(&self, at: usize) -> Result<RunKind, StoreError> {
        match self.int(at)? {
            0 => Ok(RunKind::Workflow),
            1 => Ok(RunKind::Job),
            other => Err(refused(format!("a run of kind {other}, written by another version of Outlast"))),
        }
    }
}

fn refused(detail: String) -> StoreError {
    StoreError::Refused(detail.into())
}

/// The columns of [`record`], of a `runs` row called `r`.
macro_rules! run_columns {
    () => {
        "r.id, r.kind, r.tenant, r.definition, r.version, r.key, r.queue, r.priority, r.created_at,
         r.owner, r.roles, r.trace, r.parent, r.parent_op, r.codec, r.input"
    };
}
pub(crate) use run_columns;

/// How many columns `run_columns!` has.
pub(crate) const RUN_COLUMNS: usize = 16;

/// A run from `run_columns!`, which begin the row.
pub(crate) fn record(row: &Row) -> Result<RunRecord, StoreError> {
    let id = row.run(0)?;
    let roles = match row.opt_text(10)? {
        Some(text) => serde_json::from_str(&text).map_err(|wrong| unreadable(id, wrong))?,
        None => Vec::new(),
    };
    let op = row.opt_text(13)?;
    let parent = row.opt_id(12)?.map(|run| Parent { run: RunId::from_uuid(run), op });
    Ok(RunRecord {
        id,
        kind: row.kind(1)?,
        tenant: row.text(2)?,
        definition: row.text(3)?,
        version: row.number(4)?,
        key: row.opt_text(5)?,
        queue: row.text(6)?,
        priority: row.number(7)?,
        created_at: row.time(8)?,
        owner: row.opt_text(9)?,
        roles,
        trace: row.opt_text(11)?,
        parent,
        input: row.payload(14)?.unwrap_or_default(),
    })
}

/// How long an entry says that what it tells of took, in microseconds.
pub(crate) fn took_cell(entry: &Entry) -> Cell {
    entry.took.map_or(Cell::Null, |took| Cell::Int(i64::try_from(took.as_micros()).unwrap_or(i64::MAX)))
}

/// An entry from `run, pos, kind, name, at, codec, body, took`.
pub(crate) fn entry(row: &Row) -> Result<(RunId, Entry), StoreError> {
    let run = row.run(0)?;
    let (op, phase) = Entry::kind_from_code(row.int(2)?).map_err(|unknown| unreadable(run, unknown))?;
    let entry = Entry {
        pos: row.number(1)?,
        op,
        phase,
        name: row.text(3)?.into(),
        at: row.time(4)?,
        body: row.payload(5)?,
        took: row.opt_int(7)?.map(|took| Duration::from_micros(u64::try_from(took).unwrap_or_default())),
    };
    Ok((run, entry))
}

/// The name of a [`NewsKind::Skip`]: no event has one with a control character.
pub(crate) const SKIP: &str = "\u{1f}skip";

/// News from `run, seq, kind, name, sent_at, codec, body`.
pub(crate) fn news(row: &Row) -> Result<(RunId, News), StoreError> {
    let run = row.run(0)?;
    let kind = match row.int(2)? {
        1 if row.text(3)? == SKIP => NewsKind::Skip,
        1 => NewsKind::Event,
        2 => NewsKind::Settled,
        3 => NewsKind::Rejected,
        4 => NewsKind::Child,
        5 => NewsKind::Cancel,
        other => return Err(unreadable(run, format!("news of kind {other}"))),
    };
    let news = News { seq: row.int(1)?, kind, name: row.text(3)?, at: row.time(4)?, body: row.payload(5)? };
    Ok((run, news))
}

/// A step in progress from `run, name, attempt, codec, saved, percent, message, since`.
pub(crate) fn doing(row: &Row) -> Result<(RunId, Doing), StoreError> {
    let percent = row.opt_int(5)?.map(|percent| percent.clamp(0, 100) as u8);
    let doing = Doing {
        name: row.text(1)?,
        attempt: row.number(2)?,
        saved: row.payload(3)?,
        percent,
        message: row.opt_text(6)?,
        since: row.time(7)?,
    };
    Ok((row.run(0)?, doing))
}

/// How a run ended, from status, codec, output and error in the columns from `at`.
pub(crate) fn ended(row: &Row, at: usize) -> Result<Ended, StoreError> {
    Ok(Ended { status: row.status(at)?, output: row.payload(at + 1)?, error: row.opt_text(at + 3)? })
}

/// A definition from `name, version, kind, active, signature, queue, priority, options`.
pub(crate) fn definition(row: &Row) -> Result<DefinitionCard, StoreError> {
    Ok(DefinitionCard {
        name: row.text(0)?,
        version: row.number(1)?,
        kind: row.kind(2)?,
        active: row.int(3)? != 0,
        signature: row.text(4)?,
        queue: row.text(5)?,
        priority: row.number(6)?,
        options: row.text(7)?,
    })
}

fn unreadable(run: RunId, detail: impl ToString) -> StoreError {
    StoreError::Unreadable { run, detail: detail.to_string() }
}
