//! What commands ask for, the same for a database and for a server.

use std::time::Duration;

use outlast::{Bulk, CatchUp, Filter, Overlap, Timestamp};
use outlast_store::TokenView;
use serde_json::value::RawValue;

/// A run to start.
pub(crate) struct StartAsk {
    pub(crate) definition: String,
    pub(crate) input: Box<RawValue>,
    pub(crate) key: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) delay: Option<Duration>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) tags: Vec<(String, String)>,
}

/// Another try of a run, or another result for a step of it.
#[derive(Default)]
pub(crate) struct RepairAsk {
    /// From this step on, instead of where the run went wrong.
    pub(crate) from: Option<String>,
    pub(crate) input: Option<Box<RawValue>>,
    /// The step, and what counts as its result.
    pub(crate) replace: Option<(String, Box<RawValue>)>,
    pub(crate) reason: Option<String>,
}

/// Another run from a step of one.
pub(crate) struct ForkAsk {
    pub(crate) from: Option<String>,
    pub(crate) from_start: bool,
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) version: Option<Version>,
    pub(crate) reason: Option<String>,
}

/// Which version of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Number(u32),
    Latest,
}

/// One thing to do to many runs.
pub(crate) struct BulkAsk {
    pub(crate) op: Bulk,
    pub(crate) filter: Filter,
    /// All of them, where the filter is empty.
    pub(crate) all: bool,
    /// Why, where the operation does not say so itself.
    pub(crate) reason: Option<String>,
}

impl BulkAsk {
    /// Why, whoever says it.
    pub(super) fn why(&self) -> Option<&str> {
        match &self.op {
            Bulk::Cancel { reason }
            | Bulk::Kill { reason }
            | Bulk::Delete { reason }
            | Bulk::Pause { reason }
            | Bulk::Replace { reason, .. } => Some(reason),
            Bulk::Fork { reason, .. } => reason.as_deref(),
            _ => self.reason.as_deref(),
        }
    }
}

/// A schedule to set.
pub(crate) struct ScheduleAsk {
    pub(crate) name: String,
    pub(crate) expression: String,
    pub(crate) zone: String,
    pub(crate) definition: String,
    pub(crate) input: Box<RawValue>,
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) jitter: Duration,
    pub(crate) queue: Option<String>,
}

/// A token that was made, with its secret.
pub(crate) struct MadeToken {
    pub(crate) view: TokenView,
    pub(crate) secret: String,
    /// Whether it is the first of all.
    pub(crate) is_first: bool,
}
