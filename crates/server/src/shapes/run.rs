//! A run: how it stands, what it waits for, why it has no result.

use std::collections::BTreeMap;

use outlast::{Doing, FailureDoc, RunView, Status};
use outlast_core::{Wait, WaitOn, not_served};
use outlast_store::{RunRecord, code, failure_of};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::raw;
use crate::preview::{PreviewJson, Previews};
use crate::redact::shown;
use crate::story::failure;
use crate::when::When;

/// The largest payload that is shown of a run among others: 4 KiB.
const BRIEF: usize = 4 << 10;

/// A run as JSON.
#[derive(Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunJson {
    pub(crate) id: String,
    definition: String,
    version: u32,
    key: Option<String>,
    #[schema(value_type = String)]
    status: Status,
    queue: String,
    priority: u8,
    /// Number of the current attempt; of a job that ended how many it took, those from before somebody tried it again
    /// among them.
    attempt: u32,
    created_at: When,
    /// When a node first took it: before that it stood in line. `null` until then, again after a retry of one that had
    /// ended, and of runs from before schema 28.
    started_at: Option<When>,
    /// From when on it was wanted, if it was to begin at another time than at once, or was tried again after its end:
    /// before that it did not stand in line. `null` otherwise, and of runs from before schema 29.
    wanted_at: Option<When>,
    due_at: Option<When>,
    expires_at: Option<When>,
    finished_at: Option<When>,
    node: Option<String>,
    tenant: String,
    owner: Option<String>,
    reason: Option<String>,
    /// Whether it is blocked because no node that knows its code serves its queue.
    unserved: bool,
    cancel_reason: Option<String>,
    pause_reason: Option<String>,
    parent: Option<String>,
    tags: BTreeMap<String, String>,
    doing: Vec<DoingJson>,
    /// What a waiting run has waited for longest, where the API is asked and the end of its journal tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<WaitJson>,
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Box<RawValue>>,
    error: Option<ErrorJson>,
    /// Of one that failed: the fingerprint of failures like this, by which `/errors` has them.
    failure: Option<String>,
    /// What was left away because it is large: the run itself has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    omitted: Vec<&'static str>,
    /// Of payloads that are longer than was asked for: how they begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, PreviewJson>>)]
    previews: Option<Previews>,
}

/// A step that runs, or how far a job is.
#[derive(Serialize, ToSchema)]
#[schema(as = Doing)]
struct DoingJson {
    name: String,
    attempt: u32,
    percent: Option<u8>,
    message: Option<String>,
    /// When it said so first.
    since: When,
}

/// What a run waits for.
#[derive(Serialize, ToSchema)]
#[schema(as = Wait)]
struct WaitJson {
    /// `event`, `promise`, `child`, `sleep`, `retry` or `stop`.
    #[schema(value_type = String)]
    on: WaitOn,
    name: String,
    since: When,
    /// Until when at most.
    until: Option<When>,
    /// The run whose end it waits for.
    run: Option<String>,
    /// The attempt that comes.
    attempt: Option<u32>,
}

impl WaitJson {
    fn new(wait: Wait) -> WaitJson {
        let Wait { on, name, since, until, run, attempt } = wait;
        let (until, run) = (until.map(When), run.map(|run| run.to_string()));
        WaitJson { on, name, since: When(since), until, run, attempt }
    }
}

/// Why a run or a step has no result.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorJson {
    message: String,
    #[schema(value_type = serde_json::Value)]
    detail: FailureDoc,
}

impl DoingJson {
    fn new(doing: &Doing) -> DoingJson {
        DoingJson {
            name: doing.name.clone(),
            attempt: doing.attempt,
            percent: doing.percent,
            message: doing.message.clone(),
            since: When(doing.since),
        }
    }
}

/// Whether a run is blocked because no node that knows its code serves its queue.
fn is_unserved(view: &RunView) -> bool {
    let RunRecord { definition, version, queue, .. } = &view.record;
    view.status == Status::Blocked
        && view.reason.as_ref() == Some(&not_served(&code(definition, *version), queue))
}

impl RunJson {
    pub(crate) fn new(view: &RunView) -> RunJson {
        let record = &view.record;
        RunJson {
            id: record.id.to_string(),
            definition: record.definition.clone(),
            version: record.version,
            key: record.key.clone(),
            status: view.status,
            queue: record.queue.clone(),
            priority: record.priority,
            attempt: view.attempt,
            created_at: When(record.created_at),
            started_at: view.began_at.map(When),
            wanted_at: view.wanted_at.map(When),
            due_at: view.due_at.map(When),
            expires_at: view.expires_at.map(When),
            finished_at: view.finished_at.map(When),
            node: view.node.map(|node| node.to_string()),
            tenant: record.tenant.clone(),
            owner: record.owner.clone(),
            reason: view.reason.clone(),
            unserved: is_unserved(view),
            cancel_reason: view.cancel_reason.clone(),
            pause_reason: view.pause_reason.clone(),
            parent: record.parent.as_ref().map(|parent| parent.run.to_string()),
            tags: view.tags.iter().cloned().collect(),
            doing: view.doing.iter().map(DoingJson::new).collect(),
            waiting_for: None,
            input: raw(Some(&record.input)),
            output: raw(view.ended.as_ref().and_then(|ended| ended.output.as_ref())),
            error: failure(view).map(ErrorJson::new),
            failure: failure_of(view),
            omitted: Vec::new(),
            previews: None,
        }
    }

    /// The same, with no more than the beginnings of payloads that are longer than this.
    pub(crate) fn in_part(mut self, most: usize) -> RunJson {
        let mut previews = PreviewJson::instead("input", &mut self.input, most).unwrap_or_default();
        previews.extend(PreviewJson::instead("output", &mut self.output, most).unwrap_or_default());
        RunJson { previews: Some(previews).filter(|previews| !previews.is_empty()), ..self }
    }

    /// The same, with what it waits for.
    pub(crate) fn waits_for(self, wait: Option<Wait>) -> RunJson {
        RunJson { waiting_for: wait.map(WaitJson::new), ..self }
    }

    /// A run among others: without payloads that are large.
    pub(crate) fn brief(view: &RunView) -> RunJson {
        let mut run = RunJson::new(view);
        for (name, payload) in [("input", &mut run.input), ("output", &mut run.output)] {
            if payload.as_ref().is_some_and(|json| json.get().len() > BRIEF) {
                *payload = None;
                run.omitted.push(name);
            }
        }
        run
    }
}

impl ErrorJson {
    pub(crate) fn new(mut detail: FailureDoc) -> ErrorJson {
        // An error is a value of the user's, like any other.
        if let FailureDoc::Own(own) = &mut detail
            && let Ok(value) = RawValue::from_string(shown(own.value.get()).into_owned())
        {
            own.value = value;
        }
        ErrorJson { message: detail.message(), detail }
    }
}
