//! How runs ended, summed up: for charts and lists that never look at runs.

use std::time::Duration;

use outlast_core::{RunId, Timestamp};

/// Sums up what ended since the last time, of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roll {
    /// Of which.
    pub shard: u16,
    /// At most so many.
    pub limit: u32,
    /// What ended longer ago than this: transactions that end later than they say have become visible by then.
    pub behind: Duration,
    /// How long what was summed up is kept.
    pub keep: Duration,
}

/// Notes how long the lines of queues are, once for each minute: whoever comes first does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// The minute's beginning.
    pub minute: Timestamp,
    /// How long what was noted is kept.
    pub keep: Duration,
}

/// Which lengths of queues to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepthAsk {
    /// Of this queue; `None`: all together.
    pub queue: Option<String>,
    /// From this time on.
    pub from: Timestamp,
    /// Until before this time.
    pub to: Timestamp,
    /// How long each of the spans is into which the time is cut: whole minutes.
    pub step: Duration,
}

/// How long queues were in one span: the most of its minutes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DepthPoint {
    /// Its beginning.
    pub at: Timestamp,
    /// How many were due, and not taken.
    pub due: u64,
    /// How many nodes worked on.
    pub running: u64,
    /// How long the one that was due first had been in line.
    pub oldest: Duration,
}

/// Which sums to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesAsk {
    /// Of this tenant; `None`: all.
    pub tenant: Option<String>,
    /// Of this definition.
    pub definition: Option<String>,
    /// Of this queue.
    pub queue: Option<String>,
    /// From this time on.
    pub from: Timestamp,
    /// Until before this time.
    pub to: Timestamp,
    /// How long each of the spans is into which the time is cut: whole minutes.
    pub step: Duration,
}

/// How runs ended in one span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeriesPoint {
    /// Its beginning.
    pub at: Timestamp,
    /// How many completed.
    pub completed: u64,
    /// How many failed.
    pub failed: u64,
    /// How many were cancelled.
    pub cancelled: u64,
    /// How long they took: how many within each power of two of microseconds, by the power.
    pub times: Vec<(u32, u64)>,
    /// The same of how long they had stood in line before a node first took them, as far as that was recorded.
    pub waits: Vec<(u32, u64)>,
}

/// Which failures to read, the last first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureAsk {
    /// Of this tenant; `None`: all.
    pub tenant: Option<String>,
    /// Of this definition.
    pub definition: Option<String>,
    /// With this in common alone.
    pub fingerprint: Option<String>,
    /// That were there since.
    pub since: Timestamp,
    /// To now: what is between is told in spans, at most [`FailureGroup::SPANS`].
    pub until: Timestamp,
    /// At most so many.
    pub limit: u32,
}

/// Failures that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    /// What they have in common.
    pub fingerprint: String,
    /// Whose the last one is.
    pub tenant: String,
    /// Whose they are, of those that were asked for.
    pub tenants: Vec<String>,
    /// Of which definition.
    pub definition: String,
    /// What the last one said.
    pub message: String,
    /// The step that failed in the last one, if one did.
    pub step: Option<String>,
    /// The versions of the definition in which runs failed like this, the newest first.
    pub versions: Vec<u32>,
    /// How many runs failed like this.
    pub runs: u64,
    /// When the first did.
    pub first_at: Timestamp,
    /// When the last did.
    pub last_at: Timestamp,
    /// The last.
    pub last_run: RunId,
    /// How many failed in each span of what was asked for, the oldest first; whole minutes, so that it is about. Empty
    /// where nobody asked.
    pub lately: Vec<u64>,
}

impl FailureGroup {
    /// Into how many spans that is cut at most; none is shorter than a minute.
    pub const SPANS: usize = 30;
}
