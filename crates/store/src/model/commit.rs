//! Commits: what turns recorded, and where their runs go from there.

use std::ops::Range;
use std::time::Duration;

use outlast_core::{Entry, NodeId, Payload, RunId, Status, Timestamp};

use crate::{Delivery, NewRun};

/// Changes of many runs of one shard by one node, in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Who writes. Without its row in `nodes` the whole batch is refused.
    pub node: NodeId,
    /// The shard of all the runs.
    pub shard: u16,
    /// One element per run, each run once.
    pub runs: Vec<RunCommit>,
}

/// What one run recorded, and where it goes from here.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCommit {
    /// The run.
    pub run: RunId,
    /// The fence.
    pub epoch: i64,
    /// New entries, in the order of their positions, without gaps after what is stored.
    pub entries: Vec<Entry>,
    /// The numbers of news that these entries consumed; they leave the inbox.
    pub consumed: Vec<i64>,
    /// Children to start. Comes with at least one entry.
    pub starts: Vec<NewRun>,
    /// Messages to other runs. Comes with at least one entry, or with [`Next::Finish`].
    pub sends: Vec<Delivery>,
    /// Entries at these positions leave the journal (`continue_as_new`): from where it began, since what left before is dear to
    /// look through for as long as somebody holds a snapshot open.
    pub prunes: Option<Range<u32>>,
    /// Steps that have been running for a while, for people to see. Nothing waits for these.
    pub doing: Vec<Doing>,
    /// Whether there may be such rows that go when the turn ends.
    pub did: bool,
    /// Whether it may have been sent anything. One that ends and knows of nothing ends the short way only if there is nothing.
    pub had_news: bool,
    /// What handlers logged.
    pub logs: Vec<LogLine>,
    /// Searchable attributes to set.
    pub tags: Vec<(String, String)>,
    /// How the turn ends; `None` while it goes on.
    pub next: Option<Next>,
}

impl RunCommit {
    /// Of a run that has recorded nothing and goes on.
    pub fn new(run: RunId, epoch: i64) -> RunCommit {
        RunCommit {
            run,
            epoch,
            entries: Vec::new(),
            consumed: Vec::new(),
            starts: Vec::new(),
            sends: Vec::new(),
            prunes: None,
            doing: Vec::new(),
            did: true,
            had_news: true,
            logs: Vec::new(),
            tags: Vec::new(),
            next: None,
        }
    }
}

/// The end of one run's turn, for a transaction of the user's.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// Who holds the run.
    pub node: NodeId,
    /// How its turn ends.
    pub commit: RunCommit,
}

/// A step that runs now, or a job that tells how far it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Doing {
    /// The step, with its occurrence.
    pub name: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// What its body saved last.
    pub saved: Option<Payload>,
    /// How much of it is done.
    pub percent: Option<u8>,
    /// What it is at.
    pub message: Option<String>,
    /// When it said so first, by the database's clock. Filled by the store.
    pub since: Timestamp,
}

impl Doing {
    /// After how long a step that runs says so, if it has not told anything before.
    pub const ANNOUNCED_AFTER: Duration = Duration::from_millis(200);
}

/// One line that a handler logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The epoch of its turn. Filled by the store.
    pub epoch: i64,
    /// Its number in the turn; with the epoch it is unique in the run.
    pub n: u32,
    /// When, by the database's clock. Filled by the store.
    pub at: Timestamp,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    /// The text, with its fields.
    pub message: String,
    /// The step that logged it, with its occurrence; `undo:` before the name where the undo of it did; `None` where the code between steps did.
    pub step: Option<String>,
}

impl LogLine {
    /// Where it stands in the log of its run.
    pub fn place(&self) -> LogPlace {
        LogPlace { epoch: self.epoch, n: self.n }
    }
}

/// A place in the log of a run: that of a line, or before all of them. New lines are always behind those that are there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// The epoch of the turn.
    pub epoch: i64,
    /// The number in the turn.
    pub n: u32,
}

impl LogPlace {
    /// So many numbers each turn has. It logs no more than 1,000 lines; JSON holds the places of eight thousand million turns.
    const TURN: u64 = 1 << 20;

    /// As one number, which is 0 before all lines, and else greater than [`LogPlace::COUNTS`].
    pub fn number(self) -> u64 {
        self.epoch.unsigned_abs() * Self::TURN + u64::from(self.n)
    }

    /// The place with this number.
    pub fn of_number(number: u64) -> LogPlace {
        LogPlace { epoch: (number / Self::TURN) as i64, n: (number % Self::TURN) as u32 }
    }

    /// No line has a number up to this one: the first turn has the epoch 1.
    pub const COUNTS: u64 = Self::TURN - 1;
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Only durable waits are left. The run becomes `waiting` until `wake_at`, or `ready` at once when
    /// it has news beyond `seen`.
    Suspend {
        /// The earliest timer.
        wake_at: Option<Timestamp>,
        /// The last news the turn knows.
        seen: i64,
    },
    /// Another attempt (of a job) after a pause: `ready`, due later.
    Retry {
        /// How long from the database's now.
        after: Duration,
        /// The number of the next attempt.
        attempt: u32,
    },
    /// Handed back untouched: `ready`, due now.
    Release,
    /// The code does not fit: `blocked` until code appears that does, or its time is over.
    Block {
        /// Why, for people and programs.
        reason: String,
    },
    /// What the run did is undone from here on: `ready`, due now, shown as `undoing`. Its time is no longer limited.
    Undo,
    /// Not all could be undone: `undo_failed` until somebody wants it tried again. Its time is no longer limited.
    GiveUp {
        /// What failed, and what is left.
        reason: String,
    },
    /// The end. The run leaves the hot table.
    Finish(Ended),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// `Completed`, `Failed` or `Cancelled`.
    pub status: Status,
    /// The result.
    pub output: Option<Payload>,
    /// The `FailureDoc` as JSON text.
    pub error: Option<String>,
}

/// The answer for one run of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// All of it is durable (now, or by an earlier try of the same call).
    Done,
    /// The node no longer holds the run with this epoch. Nothing of it was written.
    LeaseLost,
    /// Someone else's transaction holds a row that it needs. The run has not moved, and nothing was sent or
    /// started; entries may be there. Carry all of it to the next batch.
    Busy,
}
