//! Runs, entries, queues, schedules, nodes and definitions as JSON: the shapes that programs rely on.
//!
//! Names are in snake_case, times in RFC 3339 (UTC), ids are texts. Fields may be added; none changes.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast::{
    CatchUp, DefinitionCard, Doing, Entry, FailureDoc, LogLine, LostNode, NodeView, Op, Overlap, Phase,
    QueueRules, QueueState, QueueView, Rate, RunView, ScheduleView, Status, Timestamp,
};
use outlast_core::{Payload, Wait, WaitOn};
use outlast_store::{RateView, RunKind, failure_of};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::redact::shown;
use crate::schedule_commands::Plan;
use crate::story::{Attempt, Operation, failure};

/// The largest payload that is shown of a run among others: 4 KiB.
const BRIEF: usize = 4 << 10;

/// A list: one document.
#[derive(Serialize)]
pub(crate) struct Items<T> {
    pub(crate) items: Vec<T>,
    /// Whether there are more than the limit let through.
    pub(crate) more: bool,
}

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
    created_at: String,
    due_at: Option<String>,
    expires_at: Option<String>,
    finished_at: Option<String>,
    node: Option<String>,
    tenant: String,
    owner: Option<String>,
    reason: Option<String>,
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
}

/// A step that runs, or how far a job is.
#[derive(Serialize, ToSchema)]
#[schema(as = Doing)]
struct DoingJson {
    name: String,
    attempt: u32,
    percent: Option<u8>,
    message: Option<String>,
}

/// What a run waits for.
#[derive(Serialize, ToSchema)]
#[schema(as = Wait)]
struct WaitJson {
    /// `event`, `promise`, `child`, `sleep`, `retry` or `stop`.
    #[schema(value_type = String)]
    on: WaitOn,
    name: String,
    since: String,
    /// Until when at most.
    until: Option<String>,
    /// The run whose end it waits for.
    run: Option<String>,
    /// The attempt that comes.
    attempt: Option<u32>,
}

impl WaitJson {
    fn new(wait: Wait) -> WaitJson {
        let Wait { on, name, since, until, run, attempt } = wait;
        let (until, run) = (until.map(|time| time.to_string()), run.map(|run| run.to_string()));
        WaitJson { on, name, since: since.to_string(), until, run, attempt }
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
    at: String,
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
}

/// What a handler logged.
#[derive(Serialize, ToSchema)]
#[schema(as = Log)]
pub(crate) struct LogJson {
    at: String,
    level: String,
    message: String,
    /// The step that logged it, with its occurrence when it is not the first of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

impl DoingJson {
    fn new(doing: &Doing) -> DoingJson {
        DoingJson {
            name: doing.name.clone(),
            attempt: doing.attempt,
            percent: doing.percent,
            message: doing.message.clone(),
        }
    }
}

impl RunJson {
    pub(crate) fn new(view: &RunView) -> RunJson {
        let record = &view.record;
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
        RunJson {
            id: record.id.to_string(),
            definition: record.definition.clone(),
            version: record.version,
            key: record.key.clone(),
            status: view.status,
            queue: record.queue.clone(),
            priority: record.priority,
            attempt: view.attempt,
            created_at: record.created_at.to_string(),
            due_at: text(view.due_at),
            expires_at: text(view.expires_at),
            finished_at: text(view.finished_at),
            node: view.node.map(|node| node.to_string()),
            tenant: record.tenant.clone(),
            owner: record.owner.clone(),
            reason: view.reason.clone(),
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
        }
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

impl EntryJson {
    pub(crate) fn new(entry: &Entry) -> EntryJson {
        EntryJson {
            pos: entry.pos,
            op: entry.op,
            phase: entry.phase,
            name: entry.name.to_string(),
            at: entry.at.to_string(),
            body: raw(entry.body.as_ref()),
        }
    }
}

impl LogJson {
    pub(crate) fn new(line: &LogLine) -> LogJson {
        LogJson {
            at: line.at.to_string(),
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
    began_at: String,
    ended_at: Option<String>,
    /// When a sleep or a wait is over.
    until: Option<String>,
    /// The child that was started.
    child: Option<String>,
    attempts: Vec<AttemptJson>,
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    error: Option<ErrorJson>,
}

/// An attempt that failed.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
struct AttemptJson {
    number: u32,
    began_at: String,
    failed_at: String,
    next_at: String,
    error: ErrorJson,
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
            began_at: attempt.began.to_string(),
            failed_at: attempt.failed_at.to_string(),
            next_at: attempt.next_at.to_string(),
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
            began_at: operation.began.to_string(),
            ended_at: ended_at.map(|time| time.to_string()),
            until: operation.until.map(|time| time.to_string()),
            child: operation.child.map(|run| run.to_string()),
            attempts: operation.attempts.into_iter().map(attempt).collect(),
            result,
            error,
        }
    }
}

/// A node.
#[derive(Serialize, ToSchema)]
#[schema(as = Node)]
pub(crate) struct NodeJson {
    pub(crate) id: String,
    name: String,
    host: String,
    pid: u32,
    joined_at: String,
    lease_until: String,
    holds: u64,
    /// The queues that it takes from; none: it may take from all.
    queues: Vec<String>,
    /// The code that it knows: `order@2`.
    codes: Vec<String>,
    /// How many runs it takes at once; 0 where it does not say.
    slots: u32,
    /// What it says of itself: `version`, `language`, `target`, `build`, `lease_ms`, `retention_ms`.
    about: serde_json::Value,
}

/// A node that said nothing any more.
#[derive(Serialize, ToSchema)]
#[schema(as = LostNode)]
pub(crate) struct LostNodeJson {
    id: String,
    name: String,
    host: String,
    pid: u32,
    joined_at: String,
    lost_at: String,
    /// How many runs others took over from it.
    freed: u64,
}

impl LostNodeJson {
    pub(crate) fn new(node: LostNode) -> LostNodeJson {
        let LostNode { id, name, host, pid, joined_at, lost_at, freed } = node;
        let (id, joined_at, lost_at) = (id.to_string(), joined_at.to_string(), lost_at.to_string());
        LostNodeJson { id, name, host, pid, joined_at, lost_at, freed }
    }
}

impl NodeJson {
    pub(crate) fn new(node: &NodeView) -> NodeJson {
        NodeJson {
            id: node.id.to_string(),
            name: node.name.clone(),
            host: node.host.clone(),
            pid: node.pid,
            joined_at: node.joined_at.to_string(),
            lease_until: node.lease_until.to_string(),
            holds: node.holds,
            queues: node.queues.clone(),
            codes: node.codes.clone(),
            slots: node.slots,
            about: serde_json::from_str(&node.about).unwrap_or_else(|_| serde_json::json!({})),
        }
    }
}

/// A queue.
#[derive(Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueJson {
    pub(crate) name: String,
    #[schema(value_type = String)]
    state: QueueState,
    since: Option<String>,
    due: u64,
    later: u64,
    running: u64,
    waiting: u64,
    oldest_due_at: Option<String>,
    rules: RulesJson,
    /// How its rate stands; `null` where it has none.
    rate_state: Option<RateStateJson>,
    /// Whether people set the rules, and not code.
    own_rules: bool,
    /// How often it was changed.
    changes: i64,
}

/// What a queue allows.
#[derive(Serialize, ToSchema)]
#[schema(as = Rules)]
struct RulesJson {
    limit: Option<u32>,
    per_node: Option<u32>,
    per_group: Option<u32>,
    rate: Option<RateJson>,
    rate_per_group: Option<RateJson>,
    fair: bool,
    ordered: bool,
}

/// So many in any span of so long.
#[derive(Serialize, ToSchema)]
#[schema(as = Rate)]
struct RateJson {
    count: u32,
    per_ms: u64,
}

/// How a rate stands.
#[derive(Serialize, ToSchema)]
#[schema(as = RateState)]
struct RateStateJson {
    /// How many began within its span.
    used: u32,
    /// How many more may begin now.
    free: u32,
    /// When more may begin than now.
    freer_at: Option<String>,
}

impl RateStateJson {
    fn new(RateView { used, free, freer_at }: RateView) -> RateStateJson {
        RateStateJson { used, free, freer_at: freer_at.map(|time| time.to_string()) }
    }
}

impl QueueJson {
    pub(crate) fn new(view: &QueueView) -> QueueJson {
        QueueJson {
            name: view.queue.name.clone(),
            state: view.queue.state,
            since: view.queue.since.map(|time| time.to_string()),
            due: view.due,
            later: view.later,
            running: view.running,
            waiting: view.waiting,
            oldest_due_at: view.oldest.map(|time| time.to_string()),
            rules: RulesJson::new(&view.queue.rules),
            rate_state: view.rate.map(RateStateJson::new),
            own_rules: view.queue.is_own,
            changes: view.queue.changes,
        }
    }
}

impl RulesJson {
    fn new(rules: &QueueRules) -> RulesJson {
        let rate = |rate: Rate| RateJson { count: rate.count, per_ms: millis(rate.per) };
        RulesJson {
            limit: rules.limit,
            per_node: rules.per_node,
            per_group: rules.per_group,
            rate: rules.rate.map(rate),
            rate_per_group: rules.rate_per_group.map(rate),
            fair: rules.fair,
            ordered: rules.ordered,
        }
    }
}

/// A schedule.
#[derive(Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleJson {
    pub(crate) name: String,
    definition: String,
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    expression: String,
    zone: String,
    description: String,
    paused: bool,
    next_at: Option<String>,
    last_at: Option<String>,
    last_run: Option<String>,
    #[schema(value_type = String)]
    overlap: Overlap,
    #[schema(value_type = String)]
    catch_up: CatchUp,
    jitter_ms: u64,
    queue: Option<String>,
    started: u64,
    skipped: u64,
}

impl ScheduleJson {
    pub(crate) fn new(view: &ScheduleView) -> ScheduleJson {
        let plan = Plan::read(&view.card);
        ScheduleJson {
            name: view.name.clone(),
            definition: view.card.definition.clone(),
            input: raw(Some(&view.card.input)),
            expression: view.card.timetable.clone(),
            zone: view.card.zone.clone(),
            description: plan.words(),
            paused: view.is_paused,
            next_at: view.card.next_at.filter(|_| !view.is_paused).map(|time| time.to_string()),
            last_at: view.last_at.map(|time| time.to_string()),
            last_run: view.last_run.map(|run| run.to_string()),
            overlap: plan.options.overlap,
            catch_up: plan.options.catch_up,
            jitter_ms: millis(plan.options.jitter()),
            queue: plan.options.queue,
            started: view.started,
            skipped: view.skipped,
        }
    }
}

/// Whole milliseconds.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A definition.
#[derive(Serialize, ToSchema)]
#[schema(as = Definition)]
pub(crate) struct DefinitionJson {
    pub(crate) name: String,
    version: u32,
    #[schema(value_type = String)]
    kind: &'static str,
    active: bool,
    queue: String,
    priority: u8,
    /// Retries, timeouts and the like, as its code says them.
    options: serde_json::Value,
}

impl DefinitionJson {
    pub(crate) fn new(card: &DefinitionCard) -> DefinitionJson {
        DefinitionJson {
            name: card.name.clone(),
            version: card.version,
            kind: kind(card),
            active: card.active,
            queue: card.queue.clone(),
            priority: card.priority,
            options: serde_json::from_str(&card.options).unwrap_or_default(),
        }
    }
}

/// The word for what a definition is.
pub(crate) fn kind(card: &DefinitionCard) -> &'static str {
    match card.kind {
        RunKind::Workflow => "workflow",
        RunKind::Job => "job",
    }
}

/// JSON exactly as it was stored, as far as whoever asks may see it; other codecs show nothing.
pub(crate) fn raw(payload: Option<&Payload>) -> Option<Box<RawValue>> {
    RawValue::from_string(shown(payload?.json()?).into_owned()).ok()
}
