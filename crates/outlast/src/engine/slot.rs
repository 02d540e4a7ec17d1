//! Slots: where the operations that the user's code awaits stand, from being asked for to their result.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use outlast_core::{AttemptNote, Entry, FailureDoc, Op, Payload, Timestamp};

use crate::verdict::Source;

/// An entry says how long what it tells of took where that began so long before or behind the entry before it.
const APART: Duration = Duration::from_millis(5);
/// The same of what had to wait until that entry was durable, or until a node that claimed the run came to it: steps that go
/// one by one say nothing, be the database busy.
const WAITED: Duration = Duration::from_millis(200);

/// One operation that the user's code awaits.
pub(crate) struct Slot {
    pub(crate) op: Op,
    pub(crate) name: Arc<str>,
    /// What news are matched by: an event's name without its occurrence, that of a promise or child with its life.
    pub(crate) plain: Arc<str>,
    pub(crate) stage: Stage,
    pub(crate) until: Option<Timestamp>,
    /// How long it was allowed to wait, in milliseconds, for the message when it did not come.
    pub(crate) within_ms: u64,
    /// Whether its opening is recorded.
    pub(crate) opened: bool,
    pub(crate) attempts: Vec<AttemptNote>,
    /// When its body began, and whether that is something else than what one would take it for.
    pub(super) began: (Timestamp, bool),
    /// Where in the user's code it was made.
    pub(crate) source: Source,
    pub(super) waker: Option<Waker>,
}

pub(crate) enum Stage {
    /// Its result is recorded and will come in its turn.
    Recorded,
    /// Waits for a timer or for news.
    Wait,
    /// A step whose next attempt is due at `until`.
    Backoff,
    /// A step that may start once everything before it is durable.
    WantsBody,
    /// May start now.
    MayStart,
    /// Its body runs.
    Body,
    /// Its body ended; the result has no position yet.
    Ended(BodyEnd),
    /// The result is here for the operation to take.
    Handed(Handed),
}

/// How an attempt of a body ended.
pub(crate) enum BodyEnd {
    Done(Payload),
    /// A transaction committed with its own record.
    Recorded(Entry),
    Failed(FailureDoc),
    /// Another attempt follows.
    Again {
        failure: FailureDoc,
        pause: Duration,
        saved: Option<Payload>,
    },
}

/// What reaches the user's code.
#[derive(Clone)]
pub(crate) enum Handed {
    Entry(Entry),
    Cancelled(String),
}

/// What an operation that asks says about itself.
pub(crate) struct Ask {
    pub(crate) op: Op,
    pub(crate) name: Arc<str>,
    pub(crate) plain: Arc<str>,
    /// How long a wait may take.
    pub(crate) within: Option<Deadline>,
    /// Whether it runs a body (a step) or waits.
    pub(crate) body: bool,
    /// Where in the user's code it was made.
    pub(crate) source: Source,
}

#[derive(Clone, Copy)]
pub(crate) enum Deadline {
    After(Duration),
    At(Timestamp),
}

impl Slot {
    /// Whether its body runs, may start or has just ended.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Body | Stage::MayStart | Stage::Ended(_))
    }

    /// The own name of an event that is waited for in a scope, where its name does not tell what has to be sent.
    pub(super) fn scoped_event(&self) -> Option<String> {
        let occurrence = self.name.strip_prefix(&*self.plain).map(|rest| rest.trim_start_matches('#'));
        let is_own = occurrence.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        (self.op == Op::Event && !is_own).then(|| self.plain.to_string())
    }

    /// Its body may start. It would be taken to have begun where the last entry was recorded, or its next attempt was due.
    pub(super) fn begin(&mut self, now: Timestamp, recorded_at: Option<Timestamp>, waited: bool) {
        let behind = self.attempts.last().map(|failed| failed.next_at).or(recorded_at);
        let near = if waited { WAITED } else { APART };
        self.began = (now, behind.is_none_or(|behind| now.since(behind) > near));
        self.stage = Stage::MayStart;
        self.wake();
    }

    /// How long its body took until now, if that has to be said.
    pub(super) fn took(&self, now: Timestamp, recorded_at: Option<Timestamp>) -> Option<Duration> {
        let (began, apart) = self.began;
        let others = self.attempts.is_empty() && recorded_at.is_some_and(|at| at.since(began) > APART);
        (apart || others).then(|| now.since(began))
    }

    /// Whether its time may come.
    pub(crate) fn waits_for_timer(&self) -> bool {
        matches!(self.stage, Stage::Wait | Stage::Backoff)
    }

    /// Whether nothing but its timer can end the wait.
    pub(crate) fn is_sure(&self) -> bool {
        self.op == Op::Sleep || matches!(self.stage, Stage::Backoff)
    }

    pub(crate) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
