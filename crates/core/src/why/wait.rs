//! What a suspended run waits for, as its journal and the rows of others tell it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{spelled, spelled_option};
use crate::{AttemptNote, Entry, Op, OpenNote, Phase, RunId, Timestamp};

/// What kind of thing wakes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitOn {
    /// A message to it.
    Event,
    /// A value that somebody settles.
    Promise,
    /// The end of another run.
    Child,
    /// A time.
    Sleep,
    /// The time of the next attempt of a step.
    Retry,
    /// The request to stop.
    Stop,
}

/// One thing that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// What kind of thing.
    pub on: WaitOn,
    /// Its name: what has to be sent or settled.
    pub name: String,
    /// Since when.
    #[serde(with = "spelled")]
    pub since: Timestamp,
    /// Until when at most.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "spelled_option")]
    pub until: Option<Timestamp>,
    /// The run whose end it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The number of the attempt that comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// A message that a run has not read: an event, or the value of a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// [`WaitOn::Event`] or [`WaitOn::Promise`].
    pub on: WaitOn,
    /// Its name, as a wait has it: of a promise in the current life of the run.
    pub name: String,
}

impl Wait {
    /// The wait that an entry opened; `None` for entries that open none. A child's end is known from the child.
    pub fn opened(entry: &Entry) -> Option<Wait> {
        let note: OpenNote = match entry.phase {
            Phase::Opened => entry.note().unwrap_or_default(),
            Phase::Attempt => OpenNote::default(),
            Phase::Done | Phase::Failed | Phase::Void => return None,
        };
        let (on, name) = match (entry.op, entry.phase) {
            // An event is sent by its own name, whatever scope waits for it.
            (Op::Event, Phase::Opened) => {
                (WaitOn::Event, note.event.as_deref().unwrap_or(first(&entry.name)))
            }
            (Op::Promise, Phase::Opened) => (WaitOn::Promise, &*entry.name),
            (Op::Sleep, Phase::Opened) => (WaitOn::Sleep, &*entry.name),
            (Op::Cancel, Phase::Opened) => (WaitOn::Stop, "stop"),
            (Op::Step | Op::Transaction, Phase::Attempt) => (WaitOn::Retry, &*entry.name),
            _ => return None,
        };
        let failed: Option<AttemptNote> = (on == WaitOn::Retry).then(|| entry.note().ok()).flatten();
        Some(Wait {
            on,
            name: name.to_owned(),
            since: entry.at,
            until: failed.as_ref().map(|failed| failed.next_at).or(note.until),
            run: None,
            attempt: failed.map(|failed| failed.attempt + 1),
        })
    }

    /// Whether an unread message is what it waits for.
    fn is_answered_by(&self, unread: &Unread) -> bool {
        self.on == unread.on && self.name == unread.name
    }
}

/// Those of the opened waits that can still wake a run which is due at this time, or at none.
///
/// A wait that lost a `select!` stays open in the journal. One with a time of its own is known to be such a one where
/// the run is not due by then; and one whose message lies unread has been passed over: whoever suspended the run had
/// seen it, or nothing will wake it.
pub fn live_waits(waits: Vec<Wait>, due_at: Option<Timestamp>, unread: &[Unread]) -> Vec<Wait> {
    let in_time = |wait: &Wait| wait.until.is_none_or(|until| due_at.is_some_and(|due| due <= until));
    let answered = |wait: &Wait| unread.iter().any(|unread| wait.is_answered_by(unread));
    waits.into_iter().filter(|wait| in_time(wait) && !answered(wait)).collect()
}

/// The name without its occurrence.
fn first(name: &str) -> &str {
    let numbered = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('#') {
        Some((name, digits)) if numbered(digits) => name,
        _ => name,
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { on, name, since, until, run, .. } = self;
        match on {
            WaitOn::Event => write!(f, "event {name}")?,
            WaitOn::Promise => write!(f, "promise {name}")?,
            WaitOn::Child => match run {
                Some(run) => write!(f, "the end of {name} ({run})")?,
                None => write!(f, "the end of {name}")?,
            },
            WaitOn::Sleep => f.write_str("the end of a sleep")?,
            WaitOn::Retry => write!(f, "the next attempt of step {name}")?,
            WaitOn::Stop => f.write_str("the request to stop")?,
        }
        write!(f, " (since {since}")?;
        until.map_or(Ok(()), |until| write!(f, ", until {until}"))?;
        f.write_str(")")
    }
}
