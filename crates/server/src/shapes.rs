//! Runs, entries, queues, schedules, nodes and definitions as JSON: the shapes that programs rely on.
//!
//! Names are in snake_case, times in RFC 3339 (UTC), ids are texts. Fields may be added; none changes.

mod definition;
mod journal;
mod node;
mod queue;
mod run;
mod schedule;

use std::time::Duration;

use outlast_core::Payload;
use serde::Serialize;
use serde_json::value::RawValue;

pub(crate) use self::definition::{DefinitionJson, kind};
pub(crate) use self::journal::{EntryJson, LogJson, StepJson, WholeRun};
pub(crate) use self::node::{LostNodeJson, NodeJson};
pub(crate) use self::queue::QueueJson;
pub(crate) use self::run::{ErrorJson, RunJson};
pub(crate) use self::schedule::ScheduleJson;
use crate::redact::shown;

/// A list: one document.
#[derive(Serialize)]
pub(crate) struct Items<T> {
    pub(crate) items: Vec<T>,
    /// Whether there are more than the limit let through.
    pub(crate) more: bool,
}

/// Whole milliseconds, as every span is told.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// JSON exactly as it was stored, as far as whoever asks may see it; other codecs show nothing.
pub(crate) fn raw(payload: Option<&Payload>) -> Option<Box<RawValue>> {
    RawValue::from_string(shown(payload?.json()?).into_owned()).ok()
}
