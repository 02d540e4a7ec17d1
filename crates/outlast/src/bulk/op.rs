//! What can be done to many runs, and what that would do to each of them.
//!
//! Whoever adds an operation adds a variant, and its arm in each function here; everything else follows.

use std::fmt;

use outlast_core::repair::{BEGUN, revise};
use outlast_core::{Change, Error, Op, Phase, RunId, Status, check_name};
use outlast_store::{DefinitionCard, RunKind, RunView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Client, ForkRun, RepairPlan, RepairRun};

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
    /// They end at once, and nothing is undone.
    Kill {
        /// Why.
        reason: String,
    },
    /// Those that have ended are deleted, with everything of them.
    Delete {
        /// Why, for people who look at the bulk later.
        reason: String,
    },
    /// They are held back.
    Pause {
        /// Why.
        reason: String,
    },
    /// They go on.
    Resume,
    /// They are tried again.
    Retry {
        /// From which step; where they went wrong unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// Each is forked: another run goes on from one of its steps.
    Fork {
        /// From which step; where they went wrong unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// With this input, as JSON, instead of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// With the version that new runs take, instead of their own.
        #[serde(default)]
        latest: bool,
        /// Why, for people who look at the forks later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A step of each gets another result, and they go on with that.
    Replace {
        /// Which.
        step: String,
        /// The result, as JSON.
        result: String,
        /// Why, for people who look at them later.
        reason: String,
    },
}

impl Bulk {
    /// Asks runs to stop, as [`Client::cancel`] does.
    pub fn cancel(reason: impl Into<String>) -> Bulk {
        Bulk::Cancel { reason: reason.into() }
    }

    /// Ends runs at once, without undoing anything, as [`Client::kill`] does.
    pub fn kill(reason: impl Into<String>) -> Bulk {
        Bulk::Kill { reason: reason.into() }
    }

    /// Deletes runs that have ended, as [`Client::purge_run`] does.
    pub fn delete(reason: impl Into<String>) -> Bulk {
        Bulk::Delete { reason: reason.into() }
    }

    /// Holds runs back, as [`Client::pause`] does.
    pub fn pause(reason: impl Into<String>) -> Bulk {
        Bulk::Pause { reason: reason.into() }
    }

    /// Lets runs go on that were paused, as [`Client::resume`] does.
    pub fn resume() -> Bulk {
        Bulk::Resume
    }

    /// Tries runs again that failed, or were cancelled if the filter says so, and undos that gave up, as
    /// [`Client::retry`] does.
    pub fn retry() -> Bulk {
        Bulk::Retry { from: None }
    }

    /// Tries runs again from a step on that each of them has recorded, as [`RepairRun::from`] does.
    pub fn retry_from(step: impl Into<String>) -> Bulk {
        Bulk::Retry { from: Some(step.into()) }
    }

    /// Starts another run for each that goes on from a step of it, or from where it went wrong, as [`Client::fork`] does;
    /// with the version that new runs take, if `latest`.
    pub fn fork(from: Option<&str>, latest: bool) -> Bulk {
        Bulk::Fork { from: from.map(str::to_owned), input: None, latest, reason: None }
    }

    /// The same with another input, one for all of them, as [`ForkRun::input`] does.
    pub fn fork_with<T: Serialize + ?Sized>(
        from: Option<&str>,
        latest: bool,
        input: &T,
    ) -> Result<Bulk, Error> {
        let input = json("input", input)?;
        Ok(Bulk::Fork { from: from.map(str::to_owned), input: Some(input), latest, reason: None })
    }

    /// Gives a step of each another result, as [`Client::repair`] does.
    pub fn replace<T: Serialize + ?Sized>(
        step: impl Into<String>,
        result: &T,
        reason: impl Into<String>,
    ) -> Result<Bulk, Error> {
        Ok(Bulk::Replace { step: step.into(), result: json("result", result)?, reason: reason.into() })
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Bulk::Cancel { .. } => "cancel",
            Bulk::Kill { .. } => "kill",
            Bulk::Delete { .. } => "delete",
            Bulk::Pause { .. } => "pause",
            Bulk::Resume => "resume",
            Bulk::Retry { .. } => "retry",
            Bulk::Fork { .. } => "fork",
            Bulk::Replace { .. } => "replace",
        }
    }

    /// Says what is wrong with it, if something is.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self {
            Bulk::Cancel { reason }
            | Bulk::Kill { reason }
            | Bulk::Delete { reason }
            | Bulk::Pause { reason } => check_name("reason", reason).map(|_| ()),
            Bulk::Replace { result, reason, .. } => {
                check_name("reason", reason)?;
                raw("result", result).map(drop)
            }
            Bulk::Fork { input: Some(input), .. } => raw("input", input).map(drop),
            Bulk::Resume | Bulk::Retry { .. } | Bulk::Fork { .. } => Ok(()),
        }
    }

    /// Whether there may be something to do for a run in this status.
    pub(super) fn fits(&self, status: Status) -> bool {
        match self {
            Bulk::Cancel { .. } => {
                !status.is_final() && !matches!(status, Status::Undoing | Status::UndoFailed)
            }
            Bulk::Kill { .. } => !status.is_final(),
            Bulk::Delete { .. } => status.is_final(),
            Bulk::Pause { .. } => {
                matches!(status, Status::Ready | Status::Running | Status::Waiting | Status::Undoing)
            }
            // One that was asked to pause runs until it comes to it.
            Bulk::Resume => matches!(status, Status::Paused | Status::Running),
            Bulk::Retry { from: Some(_) } => status.after(Change::Revive).is_some(),
            Bulk::Retry { from: None } => {
                status.after(Change::Revive).is_some()
                    || matches!(status, Status::UndoFailed | Status::Blocked)
            }
            Bulk::Fork { from, .. } => from.is_some() || matches!(status, Status::Failed | Status::Cancelled),
            // What runs is refused one by one.
            Bulk::Replace { .. } => status != Status::Completed,
        }
    }

    /// The statuses that are meant where a filter names none.
    pub(super) fn usual(&self) -> Vec<Status> {
        match self {
            Bulk::Cancel { .. } | Bulk::Kill { .. } | Bulk::Delete { .. } | Bulk::Pause { .. } => {
                Status::ALL.into_iter().filter(|status| self.fits(*status)).collect()
            }
            Bulk::Resume => vec![Status::Paused],
            Bulk::Replace { step, .. } if step.starts_with("undo:") => vec![Status::UndoFailed],
            Bulk::Retry { .. } | Bulk::Fork { .. } | Bulk::Replace { .. } => vec![Status::Failed],
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
            _ => None,
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
            Bulk::Kill { .. } => What::WouldEnd,
            Bulk::Delete { .. } => What::WouldGo,
            Bulk::Pause { .. } => What::WouldPause,
            Bulk::Resume => What::WouldGoOn,
            Bulk::Retry { .. } if view.status == Status::Blocked => What::WouldGoOn,
            Bulk::Retry { .. } if view.status == Status::UndoFailed => {
                What::WouldUndo(undone(client, view, cards).await?)
            }
            Bulk::Retry { .. } => {
                planned(self.retries(client, view.record.id).plan().await, What::WouldRunAgain)?
            }
            Bulk::Fork { .. } => planned(self.forks(client, view.record.id).plan().await, What::WouldFork)?,
            Bulk::Replace { .. } => {
                planned(self.replaces(client, view.record.id).plan().await, What::WouldRunAgain)?
            }
        })
    }

    /// Does it to a run that was seen with this epoch. `false` when there was nothing to do any more.
    pub(super) async fn apply(
        &self,
        client: &Client,
        bulk: &Doer,
        run: RunId,
        epoch: i64,
    ) -> Result<bool, Error> {
        let done = match self {
            Bulk::Cancel { reason } => client.cancel(run, reason).await,
            Bulk::Kill { reason } => client.kill(run, reason).await,
            // One that was tried again meanwhile is another than the one that was meant.
            Bulk::Delete { .. } => match client.status(run).await {
                Ok(view) if view.epoch == epoch => client.purge_run(run).await,
                other => other.map(|_| false),
            },
            Bulk::Pause { reason } => client.pause(run, reason).await,
            Bulk::Resume => client.resume(run).await,
            Bulk::Retry { .. } => {
                let retry = self.retries(client, run).only_in(epoch).by(&bulk.by);
                bulk.reason.iter().fold(retry, |retry, reason| retry.reason(reason)).await
            }
            Bulk::Fork { .. } => self.forks(client, run).once_for(bulk.run).by(&bulk.by).await.map(|_| true),
            Bulk::Replace { .. } => self.replaces(client, run).only_in(epoch).by(&bulk.by).await,
        };
        match done {
            // Purged meanwhile, or by the attempt before.
            Err(Error::UnknownRun { .. }) => Ok(false),
            other => other,
        }
    }

    /// Whether a run for which there was nothing to do stands as if it had been done: by the node that began with these
    /// runs and died before it could say so.
    pub(super) fn was_done(&self, view: &RunView) -> bool {
        match self {
            Bulk::Cancel { .. } | Bulk::Kill { .. } => view.status == Status::Cancelled,
            // It is still there.
            Bulk::Delete { .. } => false,
            Bulk::Pause { .. } => view.status == Status::Paused,
            Bulk::Resume => view.status != Status::Paused,
            Bulk::Retry { .. } | Bulk::Fork { .. } | Bulk::Replace { .. } => true,
        }
    }

    /// Whether a run that is not there any more stands as if it had been done.
    pub(super) fn deletes(&self) -> bool {
        matches!(self, Bulk::Delete { .. })
    }

    fn retries(&self, client: &Client, run: RunId) -> RepairRun {
        let repair = client.repair(run);
        match self {
            Bulk::Retry { from: Some(step) } => repair.from(step),
            _ => repair,
        }
    }

    fn forks(&self, client: &Client, run: RunId) -> ForkRun {
        let fork = client.fork(run);
        let Bulk::Fork { from, input, latest, reason } = self else { return fork };
        let fork = from.iter().fold(fork, |fork, step| fork.from(step));
        let fork = reason.iter().fold(fork, |fork, reason| fork.reason(reason));
        // Judged when it was started.
        let input = input.as_deref().and_then(|input| raw("input", input).ok());
        let fork = input.into_iter().fold(fork, |fork, input| fork.input(&input));
        if *latest { fork.active_version() } else { fork }
    }

    fn replaces(&self, client: &Client, run: RunId) -> RepairRun {
        let repair = client.repair(run);
        let Bulk::Replace { step, result, reason } = self else { return repair };
        match raw("result", result) {
            Ok(result) => repair.replace(step, &result).reason(reason),
            // Judged when it was started.
            Err(_) => repair.replace(step, result).reason(reason),
        }
    }
}

fn json<T: Serialize + ?Sized>(what: &'static str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::invalid(what, "(a value)", error.to_string()))
}

/// JSON as it was given.
fn raw(what: &'static str, json: &str) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(json.to_owned())
        .map_err(|error| Error::invalid(what, json, format!("JSON: {error}")))
}

/// What a plan says, or why there is none for this run.
fn planned(plan: Result<RepairPlan, Error>, does: fn(Vec<String>) -> What) -> Result<What, Error> {
    match plan {
        Ok(plan) => Ok(does(plan.again)),
        Err(error @ Error::Store { .. }) => Err(error),
        Err(error) => Ok(What::Nothing(error.to_string())),
    }
}

/// Who does it.
pub(super) struct Doer {
    /// The bulk.
    pub(super) run: RunId,
    /// Who asked for it, or the bulk itself, for people who look at the runs later.
    pub(super) by: String,
    /// Why, where the operation itself does not say.
    pub(super) reason: Option<String>,
}

/// What a bulk would do to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// It ends at once: none of its code is called.
    WouldEnd,
    /// It is deleted.
    WouldGo,
    /// Its code is asked to stop.
    WouldStop,
    /// What it did is undone: these steps, the last first, or the job itself.
    WouldUndo(Vec<String>),
    /// It is held back.
    WouldPause,
    /// It goes on.
    WouldGoOn,
    /// These run again.
    WouldRunAgain(Vec<String>),
    /// Another run goes on from there, and these run again in it.
    WouldFork(Vec<String>),
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
            What::WouldGo => f.write_str("is deleted"),
            What::WouldStop => f.write_str("is asked to stop"),
            What::WouldPause => f.write_str("is paused"),
            What::WouldGoOn => f.write_str("goes on"),
            What::WouldUndo(names) => write!(f, "undoes {}", names.join(", ")),
            What::WouldRunAgain(names) if names.is_empty() => f.write_str("goes on, and nothing runs again"),
            What::WouldRunAgain(names) => write!(f, "runs again: {}", names.join(", ")),
            What::WouldFork(names) => write!(f, "is forked, and runs again: {}", names.join(", ")),
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
    let mut names = Vec::<String>::new();
    let mut entries = client.whole_journal(record.id).await?;
    revise(&mut entries)?;
    for entry in entries.iter().filter(|entry| entry.op == Op::Undo) {
        match entry.phase {
            Phase::Opened if &*entry.name != BEGUN => names.push(entry.name.to_string()),
            Phase::Done => names.retain(|name| **name != *entry.name),
            _ => {}
        }
    }
    names.reverse();
    Ok(names)
}
