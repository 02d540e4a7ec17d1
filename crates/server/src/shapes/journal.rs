//! What a run recorded: entries, the operations that they tell of, what was logged.

use outlast::{Entry, LogLine, Op, Phase, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ErrorJson, RunJson, raw};
use crate::preview::{PreviewJson, Previews};
use crate::story::{Attempt, Operation};
use crate::when::When;

/// A run with everything it recorded.
#[derive(Serialize)]
pub(crate) struct WholeRun {
    #[serde(flatten)]
    pub(crate) run: RunJson,
    pub(crate) journal: Vec<EntryJson>,
    pub(crate) logs: Vec<LogJson>,
}

/// An entry of a journal.
#[derive(Serialize, ToSchema)]
#[schema(as = Entry)]
pub(crate) struct EntryJson {
    pos: u32,
    #[schema(value_type = String)]
    op: Op,
    #[schema(value_type = String)]
    phase: Phase,
    name: String,
    at: When,
    /// How long what it tells of went on until then, in microseconds; left away where that began about when the entry before it
    /// was recorded, and of entries from before schema 31.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_us: Option<u64>,
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
    /// Of a body that is longer than was asked for: how it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, PreviewJson>>)]
    previews: Option<Previews>,
}

/// What a handler logged.
#[derive(Serialize, ToSchema)]
#[schema(as = Log)]
pub(crate) struct LogJson {
    at: When,
    level: String,
    message: String,
    /// The step that logged it, with its occurrence when it is not the first of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

impl EntryJson {
    pub(crate) fn new(entry: &Entry) -> EntryJson {
        EntryJson {
            pos: entry.pos,
            op: entry.op,
            phase: entry.phase,
            name: entry.name.to_string(),
            at: When(entry.at),
            took_us: entry.took.map(|took| took.as_micros() as u64),
            body: raw(entry.body.as_ref()),
            previews: None,
        }
    }

    /// The same, with no more than the beginning of a body that is longer than this.
    pub(crate) fn in_part(mut self, most: usize) -> EntryJson {
        self.previews = PreviewJson::instead("body", &mut self.body, most);
        self
    }
}

impl LogJson {
    pub(crate) fn new(line: &LogLine) -> LogJson {
        LogJson {
            at: When(line.at),
            level: line.level.clone(),
            message: line.message.clone(),
            step: line.step.clone(),
        }
    }
}

/// One operation of a run: a step, a wait, a child.
#[derive(Serialize, ToSchema)]
#[schema(as = Step)]
pub(crate) struct StepJson {
    #[schema(value_type = String)]
    op: Op,
    /// With its occurrence when it is not the first of its name.
    name: String,
    /// `running`, `waiting`, `retrying`, `completed`, `failed` or `dropped`.
    #[schema(value_type = String)]
    state: &'static str,
    began_at: When,
    ended_at: Option<When>,
    /// When a sleep or a wait is over.
    until: Option<When>,
    /// The child that was started.
    child: Option<String>,
    attempts: Vec<AttemptJson>,
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    error: Option<ErrorJson>,
    /// Of a result that is longer than was asked for: how it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, PreviewJson>>)]
    previews: Option<Previews>,
}

/// An attempt that failed.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
struct AttemptJson {
    number: u32,
    began_at: When,
    failed_at: When,
    next_at: When,
    /// The node that made it, since that is recorded.
    node: Option<String>,
    error: ErrorJson,
}

impl StepJson {
    /// One operation of several that somebody else keeps.
    pub(crate) fn of(operation: &Operation, run_ended: Option<Timestamp>) -> StepJson {
        StepJson::new(operation.clone(), run_ended)
    }

    pub(crate) fn new(operation: Operation, run_ended: Option<Timestamp>) -> StepJson {
        let state = match (&operation.end, operation.attempts.is_empty()) {
            (Some(end), _) if end.result.is_err() => "failed",
            (Some(_), _) => "completed",
            // Nobody waited for it any more, or it was the run's last.
            (None, _) if run_ended.is_some() => "dropped",
            (None, false) => "retrying",
            (None, true) if matches!(operation.op, Op::Step | Op::Transaction | Op::Job) => "running",
            (None, true) => "waiting",
        };
        let attempt = |attempt: Attempt| AttemptJson {
            number: attempt.number,
            began_at: When(attempt.began),
            failed_at: When(attempt.failed_at),
            next_at: When(attempt.next_at),
            node: attempt.node.map(|node| node.to_string()),
            error: ErrorJson::new(attempt.failure),
        };
        let ended_at = operation.end.as_ref().map(|end| end.at).or(run_ended);
        let (result, error) = match operation.end.map(|end| end.result) {
            Some(Ok(body)) => (raw(body.as_ref()), None),
            Some(Err(failure)) => (None, Some(ErrorJson::new(failure))),
            None => (None, None),
        };
        StepJson {
            op: operation.op,
            name: operation.name,
            state,
            began_at: When(operation.began),
            ended_at: ended_at.map(When),
            until: operation.until.map(When),
            child: operation.child.map(|run| run.to_string()),
            attempts: operation.attempts.into_iter().map(attempt).collect(),
            result,
            error,
            previews: None,
        }
    }

    /// The same, with no more than the beginning of a result that is longer than this.
    pub(crate) fn in_part(mut self, most: usize) -> StepJson {
        self.previews = PreviewJson::instead("result", &mut self.result, most);
        self
    }
}
