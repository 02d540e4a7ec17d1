//! Deleting ended runs: which, how many at a time, and where the next time begins.

use std::time::Duration;

use outlast_core::{RunId, Status};

use crate::Mark;

/// Which ended runs are deleted. One that stands for its kind for a time stays until that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Those that ended before this long ago, oldest first in each shard.
    pub older_than: Duration,
    /// No more than this many are looked at in each shard, and no more deleted in all; fewer where journals are long.
    pub limit: u32,
    /// Those that ended with this status; `None`: with any.
    pub status: Option<Status>,
    /// Those of these definitions.
    pub of: Definitions,
    /// This one alone.
    pub run: Option<RunId>,
    /// Where an earlier purge of the same kind stopped, shard by shard; empty: from the oldest on.
    pub after: Vec<Mark>,
}

impl Purge {
    /// All that ended before this long ago.
    pub fn older_than(older_than: Duration, limit: u32) -> Purge {
        Purge { older_than, limit, status: None, of: Definitions::All, run: None, after: Vec::new() }
    }

    /// One run, if it has ended.
    pub fn one(run: RunId) -> Purge {
        Purge { run: Some(run), ..Purge::older_than(Duration::ZERO, 1) }
    }
}

/// Some definitions, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Definitions {
    /// All of them.
    All,
    /// These.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Definitions {
    /// Whether this one is among them.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Definitions::All => true,
            Definitions::Only(names) => names.iter().any(|one| one == name),
            Definitions::Except(names) => names.iter().all(|one| one != name),
        }
    }
}

/// What became of a purge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// How many runs were deleted.
    pub runs: u64,
    /// Where it stopped, shard by shard: all before it that the purge is for are gone, but those that somebody
    /// else had locked.
    pub marks: Vec<Mark>,
    /// Whether there may be more behind that.
    pub more: bool,
}
