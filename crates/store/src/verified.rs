//! What a look at all runs found: whether something wakes each that has not ended, and whether rows contradict each other.

use std::collections::BTreeMap;

use outlast_core::{RunId, Status, WakeSource};
use serde::Serialize;

/// One page of the proof that every unfinished run has something that wakes it, and that no rows contradict each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyPage {
    /// How many runs are woken by what.
    pub wakes: BTreeMap<WakeSource, u64>,
    /// The runs that nothing wakes.
    pub without: Vec<Unwakeable>,
    /// What must never be, and is.
    pub contradictions: Vec<Contradiction>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<VerifyMark>,
}

/// How far the proof has come. It goes through what is in line, shard by shard, and then through all runs, to find those
/// that are neither in line nor ended, and rows that contradict each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyMark {
    /// Whether everything in line was looked at.
    pub in_line: bool,
    /// The shard.
    pub shard: u16,
    /// Behind this run.
    pub after: Option<RunId>,
}

/// A run that nothing wakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unwakeable {
    /// The run.
    pub run: RunId,
    /// Where it stands; `None` when no table says.
    pub status: Option<Status>,
    /// What is missing.
    pub detail: String,
}

/// Something that must never be, and is: see [`VerifyPage`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// What it is.
    pub what: &'static str,
    /// How often it is.
    pub times: u64,
}
