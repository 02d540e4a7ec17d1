//! Runs to start: what they are, and what becomes of the start.

use std::time::Duration;

use outlast_core::{NodeId, Payload, RunId, Timestamp};

/// Whether a run has a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// A run with a journal.
    Workflow,
    /// A run with one unit of work and no journal.
    Job,
}

/// When a run becomes due. Only the database's clock says what "now" is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// This long after the database's now.
    After(Duration),
    /// At this time.
    At(Timestamp),
}

/// Name and version of the code that runs something, as one word: `checkout@1`.
pub fn code(definition: &str, version: u32) -> String {
    format!("{definition}@{version}")
}

/// A run to start.
///
/// The caller makes the id (in the shard of the key, when there is one: see
/// [`outlast_core::shard_of_key`]), so that repeating the same start is the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its id, unless an earlier message to its key has reserved another.
    pub id: RunId,
    /// Workflow or job.
    pub kind: RunKind,
    /// Whose run it is; empty for nobody's in particular.
    pub tenant: String,
    /// The definition's name.
    pub definition: String,
    /// The definition's version, to which the run is pinned.
    pub version: u32,
    /// Unique per tenant and definition while the run is kept.
    pub key: Option<String>,
    /// Whether it is the only one of its kind; one with a key is not.
    pub unique: Option<Unique>,
    /// The line it stands in.
    pub queue: String,
    /// What it belongs to there, where the queue's rules ask for that.
    pub group: Option<String>,
    /// From 0 (most urgent) to 9.
    pub priority: u8,
    /// When it may run.
    pub due: Due,
    /// How long it may take from now until it ends.
    pub timeout: Option<Duration>,
    /// What it is called with.
    pub input: Payload,
    /// Who started it.
    pub owner: Option<String>,
    /// The roles it acts with.
    pub roles: Vec<String>,
    /// Searchable attributes: name and value.
    pub tags: Vec<(String, String)>,
    /// The W3C trace context of whoever started it.
    pub trace: Option<String>,
    /// The run that started it, and the operation there that wants to hear of its end.
    pub parent: Option<Parent>,
    /// Whether it is asked to stop when that run does not end well.
    pub stops_with_parent: bool,
}

/// Says that a run is the only one of its kind (tenant, definition and key). Its id is in the shard of its kind: see
/// [`outlast_core::shard_of_key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// What is unique, in tenant and definition.
    pub key: String,
    /// For how long.
    pub scope: Scope,
    /// What becomes of another.
    pub clash: Clash,
}

/// For how long a run stands for its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Until it has ended.
    Unfinished,
    /// Until it begins.
    NotBegun {
        /// However often it is replaced, it is due this long after it was started.
        at_most: Option<Duration>,
    },
    /// For this long from its start, whatever becomes of it.
    For(Duration),
}

/// What becomes of a run whose kind is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clash {
    /// It is not started: the other is given instead.
    Return,
    /// It is refused.
    Refuse,
    /// Its input, time and priority replace those of the other, and its owner, roles, trace and tags too, if that has not
    /// begun; the other is given.
    Replace,
}

/// Who wants to hear of a run's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The run.
    pub run: RunId,
    /// The operation's name in that run; `None` when nobody waits.
    pub op: Option<String>,
}

/// Asks that started runs are held by this node at once, as if it had claimed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The node.
    pub node: NodeId,
    /// The number of this claim, greater than every earlier one of the node.
    pub claim: i64,
}

/// The answer to one start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// The run is there, by this call or by an earlier try of the same call.
    Created {
        /// Its id (an earlier message to the key may have reserved one).
        id: RunId,
        /// What [`Hold`] asked for, when it was given and came true: the run is held with epoch 1 and has
        /// no news.
        held: bool,
    },
    /// The key belongs to a run with the same input.
    Existing {
        /// That run.
        id: RunId,
    },
    /// The key belongs to a run with another input. Nothing was written.
    Conflict {
        /// That run.
        id: RunId,
    },
    /// Another stands for its kind, and it was to be refused then. Nothing was written.
    Taken {
        /// That run.
        id: RunId,
    },
}
