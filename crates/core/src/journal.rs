//! The journal: what a run has recorded, entry by entry.
//!
//! An entry belongs to one operation (its kind, and its name with the occurrence: `charge`,
//! `charge#2`) and says one thing about it: that it was opened, that an attempt failed, or how it
//! ended. Positions are handed out in the order in which results reached the user's code.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::Equivalent;
use serde::{Deserialize, Serialize};

use crate::{Error, FailureDoc, NodeId, Payload, RunId, Timestamp};

/// What kind of operation an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Op {
    /// A side effect, recorded once.
    Step,
    /// A step whose rows and record commit together.
    Transaction,
    /// A time to wait for.
    Sleep,
    /// A message to this run.
    Event,
    /// A value settled once from anywhere.
    Promise,
    /// A run started by this one.
    Child,
    /// A message from this run to another.
    Send,
    /// The time, a random number, an id, a patch: a value fixed at its first use.
    Value,
    /// Run-local saved state.
    State,
    /// The request to stop, handed over.
    Cancel,
    /// The journal starts over with a new input.
    Continue,
    /// A failed attempt of a job.
    Job,
    /// What reverts another operation.
    Undo,
    /// Somebody repaired the run: what of it counts no more, or counts otherwise. The body is a
    /// [`Revision`](crate::Revision).
    Revise,
}

/// An operation by its kind and name, to look it up among those that own theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpName<'a>(pub Op, pub &'a str);

impl Equivalent<(Op, Arc<str>)> for OpName<'_> {
    fn equivalent(&self, (op, name): &(Op, Arc<str>)) -> bool {
        self.0 == *op && *self.1 == **name
    }
}

/// What an entry says about its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// It was begun; the body is an [`OpenNote`].
    Opened,
    /// An attempt failed; the body is an [`AttemptNote`].
    Attempt,
    /// It ended well; the body is the result.
    Done,
    /// It ended with a failure; the body is a [`FailureDoc`].
    Failed,
    /// It counts no more, since somebody repaired the run. It is kept for people to see.
    Void,
}

const OPS: [Op; 14] = {
    use Op::*;
    [Step, Transaction, Sleep, Event, Promise, Child, Send, Value, State, Cancel, Continue, Job, Undo, Revise]
};
const PHASES: [Phase; 4] = [Phase::Opened, Phase::Attempt, Phase::Done, Phase::Failed];

/// What is added to the number of an entry that counts no more.
pub const VOID: i64 = 1000;

impl Op {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Op::Step => "step",
            Op::Transaction => "transaction",
            Op::Sleep => "sleep",
            Op::Event => "event",
            Op::Promise => "promise",
            Op::Child => "child",
            Op::Send => "send",
            Op::Value => "value",
            Op::State => "state",
            Op::Cancel => "cancel",
            Op::Continue => "continue",
            Op::Job => "job",
            Op::Undo => "undo",
            Op::Revise => "revise",
        }
    }
}

/// One line of a run's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the run, from 1, never used twice.
    pub pos: u32,
    /// What kind of operation it is about.
    pub op: Op,
    /// What it says.
    pub phase: Phase,
    /// The operation's name, with its occurrence when it is not the first.
    pub name: Arc<str>,
    /// When it was recorded, by the database's clock. Filled by the store.
    pub at: Timestamp,
    /// How long what it tells of went on until it was recorded: the body of a step, a transaction or an undo, or an
    /// attempt that failed. `None` where that began about when the entry before it was recorded, which mostly is so.
    pub took: Option<Duration>,
    /// The result, the note or the failure.
    pub body: Option<Payload>,
}

impl Entry {
    /// The number that the database keeps for operation and phase.
    pub fn kind_code(op: Op, phase: Phase) -> i16 {
        let op = OPS.iter().position(|known| *known == op).unwrap_or_default() as i16;
        let phase = PHASES.iter().position(|known| *known == phase).unwrap_or_default() as i16;
        op * 10 + phase
    }

    /// Operation and phase of such a number; an unknown one is an error, never a default.
    pub fn kind_from_code(code: i64) -> Result<(Op, Phase), Error> {
        let place = |n: i64| usize::try_from(n).ok();
        let (of, is_void) = if code >= VOID { (code - VOID, true) } else { (code, false) };
        let op = place(of / 10).and_then(|n| OPS.get(n).copied());
        let phase = place(of % 10).and_then(|n| PHASES.get(n).copied());
        op.zip(phase.map(|phase| if is_void { Phase::Void } else { phase }))
            .ok_or_else(|| Error::invalid("entry kind", code, "written by another version of Outlast"))
    }

    /// The failure that a [`Phase::Failed`] entry holds.
    pub fn failure(&self) -> Result<FailureDoc, Error> {
        self.note()
    }

    /// The body as one of the notes of this module.
    pub fn note<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        let body = self.body.clone().unwrap_or_default();
        body.decode(format_args!("entry {} ({} {:?})", self.pos, self.op.word(), self.name))
    }
}

/// The body of an [`Phase::Opened`] entry: what has to be known again after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenNote {
    /// When a sleep or a wait is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The child that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The own name of an event that is waited for in a scope: what has to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Of a child: nobody waits for its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
}

/// The body of a [`Phase::Attempt`] entry: a failed attempt and when the next is due.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttemptNote {
    /// Its number, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub failure: FailureDoc,
    /// When the next begins.
    pub next_at: Timestamp,
    /// What the body saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Box<serde_json::value::RawValue>>,
    /// Of an undo: it was the last one, and the run waits for a person. Whoever tries it again begins to count anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gave_up: bool,
    /// The node that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
}

/// What stands between a name and the life it belongs to. No name of the user's has a `#`.
const LIFE_MARK: &str = "#@";

/// The name by which others reach a promise or a child of one life of a run.
///
/// After `continue_as_new` names begin anew, while messages to earlier lives may still come. In the first
/// life (0) it is the name itself.
pub fn name_in_life(name: &str, life: u32) -> String {
    match life {
        0 => name.to_owned(),
        life => mark_life(name, life),
    }
}

/// A name that says which life it means, also where that is the first.
pub fn mark_life(name: &str, life: u32) -> String {
    format!("{name}{LIFE_MARK}{life}")
}

/// The name by which a promise is reached in whichever life awaits it first.
pub fn name_in_any_life(name: &str) -> String {
    format!("{name}{LIFE_MARK}*")
}

/// The name and the life it was marked with, if it was.
pub fn split_life(name: &str) -> (&str, Option<u32>) {
    let marked = name.rsplit_once(LIFE_MARK).and_then(|(name, life)| Some((name, life.parse().ok()?)));
    marked.map_or((name, None), |(name, life)| (name, Some(life)))
}

/// What stands between a name and how often it was begun anew. No name of the user's has a `#`.
const ANEW_MARK: &str = "#~";

/// The name of an operation for others (a child that tells its end, a service that gets a key) after what it did was
/// given up so many times and the run was repaired: what it did before must not be taken for what it does now.
pub fn name_anew(name: &str, times: u32) -> String {
    match times {
        0 => name.to_owned(),
        times => format!("{name}{ANEW_MARK}{times}"),
    }
}

/// The name without such a mark.
pub fn strip_anew(name: &str) -> &str {
    name.rsplit_once(ANEW_MARK).map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_entry_has_a_number_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for op in OPS {
            for phase in PHASES {
                let code = Entry::kind_code(op, phase);
                assert!(seen.insert(code));
                assert_eq!(Entry::kind_from_code(code.into()).unwrap(), (op, phase));
            }
        }
        assert!(Entry::kind_from_code(-1).is_err() && Entry::kind_from_code(999).is_err());
    }

    #[test]
    fn an_entry_that_counts_no_more_still_says_what_it_was_about() {
        let done = i64::from(Entry::kind_code(Op::Child, Phase::Done));
        assert_eq!(Entry::kind_from_code(VOID + done).unwrap(), (Op::Child, Phase::Void));
        assert!(Entry::kind_from_code(VOID + 999).is_err());
    }

    #[test]
    fn a_name_and_its_life_are_told_apart_whatever_the_name() {
        for name in ["paid", "paid#2", "table@7", "a#2/b"] {
            assert_eq!(split_life(name), (name, None));
            assert_eq!(name_in_life(name, 0), name);
            assert_eq!(split_life(&name_in_life(name, 7)), (name, Some(7)));
            assert_eq!(split_life(&mark_life(name, 0)), (name, Some(0)));
        }
    }
}
