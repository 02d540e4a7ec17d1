//! Repair: what of a journal counts no more when a run is tried again or forked from somewhere, and what that means.
//!
//! A journal is cut at one position. What was recorded before it stays; what came after it counts no more, and so do
//! the operation at which it is cut and what was undone since: those run again. Nothing is deleted. An entry that says
//! so is appended ([`Revision`]), and what it takes back is marked [`Phase::Void`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Entry, Error, Op, Payload, Phase, RunId, distance};

mod plan;

pub use plan::{BEGUN, CutAt, Message, Plan, children, plan};

/// The body of an [`Op::Revise`] entry: who repaired the run, why, and what replay has to know of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Revision {
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Operations that begin anew although they, or what they asked for, had happened: others must not take the one for
    /// the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anew: Vec<Operated>,
    /// A result that counts from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Replaced>,
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<RunId>,
}

/// An operation of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Operated {
    /// Its kind.
    pub op: OpWord,
    /// Its name, with the occurrence when it is not the first.
    pub name: Arc<str>,
}

/// A kind of operation, ordered and written by its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpWord(pub Op);

impl PartialOrd for OpWord {
    fn partial_cmp(&self, other: &OpWord) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OpWord {
    fn cmp(&self, other: &OpWord) -> std::cmp::Ordering {
        self.0.word().cmp(other.0.word())
    }
}

impl Operated {
    /// What an entry is about.
    pub fn of(entry: &Entry) -> Operated {
        Operated { op: OpWord(entry.op), name: entry.name.clone() }
    }
}

impl std::fmt::Display for Operated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.op.0 {
            Op::Step => f.write_str(&self.name),
            op => write!(f, "{}:{}", op.word(), self.name),
        }
    }
}

/// A result instead of the one that was recorded, or before there was one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Replaced {
    /// Whose.
    pub of: Operated,
    /// At which position it is handed over; the revision's own where none was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pos: Option<u32>,
    /// The result.
    pub body: Box<serde_json::value::RawValue>,
}

/// Puts results that were replaced into their places. Gives how often operations were begun anew.
pub fn revise(entries: &mut [Entry]) -> Result<BTreeMap<Operated, u32>, Error> {
    let mut anew: BTreeMap<Operated, u32> = BTreeMap::new();
    let revisions = entries.iter().filter(|entry| entry.op == Op::Revise);
    let revisions: Vec<(u32, Revision)> =
        revisions.map(|entry| Ok((entry.pos, entry.note()?))).collect::<Result<_, Error>>()?;
    for (pos, revision) in revisions {
        for operated in revision.anew {
            *anew.entry(operated).or_default() += 1;
        }
        let Some(Replaced { of, pos: at, body }) = revision.result else { continue };
        let place = entries.binary_search_by_key(&at.unwrap_or(pos), |entry| entry.pos).ok();
        // What was taken back since counts no more, whatever it had been replaced with.
        let Some(entry) = place.map(|place| &mut entries[place]).filter(|entry| counts(entry)) else {
            continue;
        };
        let body = Payload { codec: None, bytes: body.get().to_owned().into() };
        *entry = Entry { op: of.op.0, phase: Phase::Done, name: of.name, body: Some(body), ..entry.clone() };
    }
    Ok(anew)
}

/// Finds the operation that a person means: `charge`, `charge#2`, or with its kind, `event:approval`.
pub fn operation(entries: &[Entry], named: &str) -> Result<Operated, Error> {
    let is_one = |entry: &&Entry| counts(entry) && !matches!(entry.op, Op::Revise | Op::Continue);
    let known: BTreeSet<Operated> = entries.iter().filter(is_one).map(Operated::of).collect();
    let exact = known.iter().find(|operated| operated.to_string() == named);
    let by_name: Vec<&Operated> = known.iter().filter(|operated| *operated.name == *named).collect();
    match (exact, by_name.as_slice()) {
        (Some(found), _) => Ok(found.clone()),
        (None, [found]) => Ok((*found).clone()),
        (None, []) => {
            let mut names: Vec<String> = known.iter().map(Operated::to_string).collect();
            names.sort_by_key(|name| distance(name, named));
            names.truncate(5);
            let remedy = format!("one that the run has recorded: {}", names.join(", "));
            Err(Error::invalid(
                "step",
                named,
                if names.is_empty() { "none: nothing is recorded".into() } else { remedy },
            ))
        }
        (None, several) => {
            let names: Vec<String> = several.iter().map(|operated| operated.to_string()).collect();
            Err(Error::invalid("step", named, format!("one of {}", names.join(", "))))
        }
    }
}

fn counts(entry: &Entry) -> bool {
    entry.phase != Phase::Void
}

#[cfg(test)]
mod tests;
