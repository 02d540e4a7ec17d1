//! What can be done to many runs, and what that would do to each of them.
//!
//! Whoever adds an operation adds a variant, and its arm in each function here; everything else follows.

use std::fmt;

use outlast_core::{Change, Error, Op, Phase, RunId, Status};
use outlast_store::{DefinitionCard, RunKind, RunView};
use serde::{Deserialize, Serialize};

use crate::Client;

/// How many entries of a journal are read at once.
const ENTRIES: u32 = 1_000;

/// What is done to many runs: see [`Client::bulk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Bulk {
    /// They are asked to stop.
    Cancel {
        /// Why.
        reason: String,
    },
    /// They are tried again.
    Retry,
}

impl Bulk {
    /// Asks runs to stop, as [`Client::cancel`] does.
    pub fn cancel(reason: impl Into<String>) -> Bulk {
        Bulk::Cancel { reason: reason.into() }
    }

    /// Tries jobs again that failed, or were cancelled if the filter says so, and undos that gave up, as
    /// [`Client::retry`] does.
    pub fn retry() -> Bulk {
        Bulk::Retry
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Bulk::Cancel { .. } => "cancel",
            Bulk::Retry => "retry",
        }
    }

    /// Whether there may be something to do for a run in this status.
    pub(super) fn fits(&self, status: Status) -> bool {
        match self {
            Bulk::Cancel { .. } => {
                !status.is_final() && !matches!(status, Status::Undoing | Status::UndoFailed)
            }
            Bulk::Retry => status.after(Change::Revive).is_some() || status == Status::UndoFailed,
        }
    }

    /// The statuses that are meant where a filter names none.
    pub(super) fn usual(&self) -> Vec<Status> {
        match self {
            Bulk::Cancel { .. } => Status::ALL.into_iter().filter(|status| self.fits(*status)).collect(),
            Bulk::Retry => vec![Status::Failed],
        }
    }

    /// Why there is nothing to do for a run as it stands, if so.
    pub(super) fn refuses(&self, view: &RunView) -> Option<String> {
        if !self.fits(view.status) {
            return Some(format!("it is {}", view.status));
        }
        match self {
            Bulk::Cancel { .. } => {
                view.cancel_reason.as_ref().map(|why| format!("it was asked to stop before: {why}"))
            }
            Bulk::Retry => {
                let is_workflow = view.record.kind == RunKind::Workflow && view.status != Status::UndoFailed;
                is_workflow.then(|| "it is a workflow, and only jobs can be tried again".to_owned())
            }
        }
    }

    /// What it would do to a run as it stands.
    pub(super) async fn plan(
        &self,
        client: &Client,
        view: &RunView,
        cards: &[DefinitionCard],
    ) -> Result<What, Error> {
        if let Some(why) = self.refuses(view) {
            return Ok(What::Nothing(why));
        }
        Ok(match self {
            Bulk::Cancel { .. } => match undone(client, view, cards).await? {
                names if !names.is_empty() => What::WouldUndo(names),
                // Nobody has to be asked who never began, or cannot go on.
                _ if view.epoch == 0 || matches!(view.status, Status::Paused | Status::Blocked) => {
                    What::WouldEnd
                }
                _ => What::WouldStop,
            },
            Bulk::Retry if view.status == Status::UndoFailed => {
                What::WouldUndo(undone(client, view, cards).await?)
            }
            Bulk::Retry => What::WouldRunAgain(vec![view.record.definition.clone()]),
        })
    }

    /// Does it to a run that was seen with this epoch. `false` when there was nothing to do any more.
    pub(super) async fn apply(&self, client: &Client, run: RunId, epoch: i64) -> Result<bool, Error> {
        let done = match self {
            Bulk::Cancel { reason } => client.cancel(run, reason).await,
            Bulk::Retry => client.retry_end(run, epoch, None).await,
        };
        match done {
            // Purged meanwhile.
            Err(Error::UnknownRun { .. }) => Ok(false),
            other => other,
        }
    }

    /// Whether a run for which there was nothing to do stands as if it had been done: by the node that began with these
    /// runs and died before it could say so.
    pub(super) fn was_done(&self, view: &RunView) -> bool {
        match self {
            Bulk::Cancel { .. } => view.status == Status::Cancelled,
            Bulk::Retry => true,
        }
    }
}

/// What a bulk would do to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// It ends at once: none of its code is called.
    WouldEnd,
    /// Its code is asked to stop.
    WouldStop,
    /// What it did is undone: these steps, the last first, or the job itself.
    WouldUndo(Vec<String>),
    /// These run again.
    WouldRunAgain(Vec<String>),
    /// It stays as it is; says why.
    Nothing(String),
}

impl What {
    /// Whether something would happen at all.
    pub fn acts(&self) -> bool {
        !matches!(self, What::Nothing(_))
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::WouldEnd => f.write_str("ends at once"),
            What::WouldStop => f.write_str("is asked to stop"),
            What::WouldUndo(names) => write!(f, "undoes {}", names.join(", ")),
            What::WouldRunAgain(names) => write!(f, "runs again: {}", names.join(", ")),
            What::Nothing(why) => write!(f, "stays as it is: {why}"),
        }
    }
}

/// What a run would have to undo, the last first: of a workflow the steps that said so and are not undone yet, of a job
/// that began the job itself, if it knows how.
async fn undone(client: &Client, view: &RunView, cards: &[DefinitionCard]) -> Result<Vec<String>, Error> {
    let record = &view.record;
    if view.epoch == 0 {
        return Ok(Vec::new());
    }
    if record.kind == RunKind::Job {
        let card =
            cards.iter().find(|card| (&card.name, card.version) == (&record.definition, record.version));
        let options = card.and_then(|card| serde_json::from_str::<serde_json::Value>(&card.options).ok());
        let undoes = options.is_some_and(|options| options["undo"] == true);
        return Ok(if undoes { vec![record.definition.clone()] } else { Vec::new() });
    }
    let (mut names, mut after) = (Vec::<String>::new(), 0);
    loop {
        let entries = client.journal(record.id, after, ENTRIES).await?;
        let Some(last) = entries.last() else { break };
        after = last.pos;
        for entry in entries.iter().filter(|entry| entry.op == Op::Undo) {
            match entry.phase {
                // Not the one that says that undoing has begun, which is no name of the user's.
                Phase::Opened if &*entry.name != "*" => names.push(entry.name.to_string()),
                Phase::Done => names.retain(|name| **name != *entry.name),
                _ => {}
            }
        }
    }
    names.reverse();
    Ok(names)
}
