//! The JSON of the API read back into the views that a client on the database gives.
//!
//! A server may be newer than this program: fields that we do not know are passed over.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::when::When;
use bytes::Bytes;
use outlast::{
    CatchUp, DefinitionCard, Doing, Entry, LogLine, NodeView, Op, Overlap, Phase, QueueCard, QueueRules,
    QueueState, QueueView, Rate, RunId, RunView, ScheduleView, Status, Timestamp,
};
use outlast_core::{NodeId, Payload};
use outlast_store::{
    Ended, FailureGroup, Parent, RateView, RunKind, RunRecord, ScheduleCard, TokenCard, TokenView,
};
use serde::Deserialize;
use serde_json::value::RawValue;

fn time(when: Option<When>) -> Option<Timestamp> {
    when.map(|When(time)| time)
}

fn payload(json: Option<Box<RawValue>>) -> Option<Payload> {
    json.map(|json| Payload { codec: None, bytes: Bytes::from(json.get().to_owned()) })
}

/// A list, with whatever says that it goes on.
#[derive(Deserialize)]
pub(super) struct Items<T> {
    pub(super) items: Vec<T>,
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RunDoc {
    pub(super) id: RunId,
    definition: String,
    version: u32,
    key: Option<String>,
    status: Status,
    queue: String,
    priority: u8,
    attempt: u32,
    created_at: When,
    /// Not in the answers of servers of before this was recorded.
    #[serde(default)]
    started_at: Option<When>,
    #[serde(default)]
    wanted_at: Option<When>,
    due_at: Option<When>,
    expires_at: Option<When>,
    finished_at: Option<When>,
    node: Option<NodeId>,
    tenant: String,
    owner: Option<String>,
    reason: Option<String>,
    cancel_reason: Option<String>,
    pause_reason: Option<String>,
    parent: Option<RunId>,
    tags: BTreeMap<String, String>,
    doing: Vec<DoingDoc>,
    input: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    error: Option<ErrorDoc>,
    /// What was left away because it is large.
    #[serde(default)]
    pub(super) omitted: Vec<String>,
}

#[derive(Deserialize)]
struct DoingDoc {
    name: String,
    attempt: u32,
    percent: Option<u8>,
    message: Option<String>,
    since: Option<When>,
}

#[derive(Deserialize)]
struct ErrorDoc {
    detail: Box<RawValue>,
}

impl From<RunDoc> for RunView {
    fn from(doc: RunDoc) -> RunView {
        let ended = doc.status.is_final().then(|| Ended {
            status: doc.status,
            output: payload(doc.output),
            error: doc.error.map(|error| error.detail.get().to_owned()),
        });
        let doing = |doing: DoingDoc| Doing {
            name: doing.name,
            attempt: doing.attempt,
            saved: None,
            percent: doing.percent,
            message: doing.message,
            since: doing.since.map_or_else(Timestamp::default, |since| since.0),
        };
        RunView {
            record: RunRecord {
                id: doc.id,
                // Nothing that commands show depends on it, and the API does not say it.
                kind: RunKind::Workflow,
                tenant: doc.tenant,
                definition: doc.definition,
                version: doc.version,
                key: doc.key,
                queue: doc.queue,
                priority: doc.priority,
                created_at: doc.created_at.0,
                input: payload(doc.input).unwrap_or_default(),
                owner: doc.owner,
                roles: Vec::new(),
                trace: None,
                parent: doc.parent.map(|run| Parent { run, op: None }),
            },
            status: doc.status,
            due_at: time(doc.due_at),
            node: doc.node,
            epoch: 0,
            attempt: doc.attempt,
            reason: doc.reason,
            cancel_reason: doc.cancel_reason,
            pause_reason: doc.pause_reason,
            expires_at: time(doc.expires_at),
            group: None,
            began_at: time(doc.started_at),
            wanted_at: time(doc.wanted_at),
            finished_at: time(doc.finished_at),
            ended,
            tags: doc.tags.into_iter().collect(),
            doing: doc.doing.into_iter().map(doing).collect(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct EntryDoc {
    pos: u32,
    op: Op,
    phase: Phase,
    name: String,
    at: When,
    took_us: Option<u64>,
    body: Option<Box<RawValue>>,
}

impl From<EntryDoc> for Entry {
    fn from(doc: EntryDoc) -> Entry {
        let EntryDoc { pos, op, phase, name, at, took_us, body } = doc;
        let took = took_us.map(Duration::from_micros);
        Entry { pos, op, phase, name: name.into(), at: at.0, took, body: payload(body) }
    }
}

/// Lines, and what to ask behind for more.
#[derive(Deserialize)]
pub(super) struct LogPage {
    pub(super) items: Vec<LogDoc>,
    pub(super) next_after: u64,
}

#[derive(Deserialize)]
pub(super) struct LogDoc {
    at: When,
    level: String,
    message: String,
    #[serde(default)]
    step: Option<String>,
}

impl From<LogDoc> for LogLine {
    fn from(doc: LogDoc) -> LogLine {
        LogLine { epoch: 0, n: 0, at: doc.at.0, level: doc.level, message: doc.message, step: doc.step }
    }
}

#[derive(Deserialize)]
pub(super) struct QueueDoc {
    name: String,
    state: QueueState,
    since: Option<When>,
    due: u64,
    later: u64,
    /// Older servers say nothing of these.
    #[serde(default)]
    queued: u64,
    #[serde(default)]
    scheduled: u64,
    running: u64,
    waiting: u64,
    oldest_due_at: Option<When>,
    rules: RulesDoc,
    #[serde(default)]
    rate_state: Option<RateStateDoc>,
    own_rules: bool,
    changes: i64,
}

#[derive(Deserialize)]
struct RulesDoc {
    limit: Option<u32>,
    per_node: Option<u32>,
    per_group: Option<u32>,
    rate: Option<RateDoc>,
    rate_per_group: Option<RateDoc>,
    fair: bool,
    ordered: bool,
}

#[derive(Deserialize)]
struct RateDoc {
    count: u32,
    per_ms: u64,
}

#[derive(Deserialize)]
struct RateStateDoc {
    used: u32,
    free: u32,
    freer_at: Option<When>,
}

impl From<QueueDoc> for QueueView {
    fn from(doc: QueueDoc) -> QueueView {
        let rate = |rate: RateDoc| Rate::new(rate.count, Duration::from_millis(rate.per_ms));
        let rules = QueueRules {
            limit: doc.rules.limit,
            per_node: doc.rules.per_node,
            per_group: doc.rules.per_group,
            rate: doc.rules.rate.map(rate),
            rate_per_group: doc.rules.rate_per_group.map(rate),
            fair: doc.rules.fair,
            ordered: doc.rules.ordered,
        };
        let queue = QueueCard {
            name: doc.name,
            rules,
            is_own: doc.own_rules,
            state: doc.state,
            since: time(doc.since),
            changes: doc.changes,
        };
        QueueView {
            queue,
            due: doc.due,
            later: doc.later,
            queued: doc.queued,
            scheduled: doc.scheduled,
            running: doc.running,
            waiting: doc.waiting,
            oldest: time(doc.oldest_due_at),
            rate: doc.rate_state.map(|rate| RateView {
                used: rate.used,
                free: rate.free,
                freer_at: time(rate.freer_at),
            }),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ScheduleDoc {
    name: String,
    definition: String,
    input: Option<Box<RawValue>>,
    expression: String,
    zone: String,
    paused: bool,
    next_at: Option<When>,
    last_at: Option<When>,
    last_run: Option<RunId>,
    overlap: Overlap,
    catch_up: CatchUp,
    jitter_ms: u64,
    queue: Option<String>,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    priority: Option<u8>,
    #[serde(default)]
    tenant: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    started: u64,
    skipped: u64,
}

impl From<ScheduleDoc> for ScheduleView {
    fn from(doc: ScheduleDoc) -> ScheduleView {
        // As `Plan` reads them.
        let options = serde_json::json!({
            "overlap": doc.overlap,
            "catch_up": doc.catch_up,
            "queue": doc.queue,
            "group": doc.group,
            "priority": doc.priority,
            "tenant": doc.tenant,
            "tags": doc.tags.into_iter().collect::<Vec<_>>(),
            "jitter_us": doc.jitter_ms.saturating_mul(1000),
        });
        let next_at = time(doc.next_at);
        ScheduleView {
            name: doc.name,
            card: ScheduleCard {
                timetable: doc.expression,
                zone: doc.zone,
                definition: doc.definition,
                input: payload(doc.input).unwrap_or_default(),
                options: options.to_string(),
                next_at,
                due_at: next_at,
            },
            is_paused: doc.paused,
            waiting: Vec::new(),
            last_at: time(doc.last_at),
            last_run: doc.last_run,
            started: doc.started,
            skipped: doc.skipped,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct NodeDoc {
    id: NodeId,
    name: String,
    host: String,
    pid: u32,
    joined_at: When,
    lease_until: When,
    holds: u64,
    #[serde(default)]
    queues: Vec<String>,
    #[serde(default)]
    codes: Vec<String>,
    #[serde(default)]
    slots: u32,
    #[serde(default)]
    about: serde_json::Value,
}

impl From<NodeDoc> for NodeView {
    fn from(doc: NodeDoc) -> NodeView {
        NodeView {
            id: doc.id,
            name: doc.name,
            host: doc.host,
            pid: doc.pid,
            joined_at: doc.joined_at.0,
            lease_until: doc.lease_until.0,
            holds: doc.holds,
            queues: doc.queues,
            codes: doc.codes,
            slots: doc.slots,
            about: doc.about.to_string(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct DefinitionDoc {
    name: String,
    version: u32,
    kind: String,
    active: bool,
    queue: String,
    priority: u8,
    options: serde_json::Value,
}

impl From<DefinitionDoc> for DefinitionCard {
    fn from(doc: DefinitionDoc) -> DefinitionCard {
        DefinitionCard {
            name: doc.name,
            version: doc.version,
            kind: if doc.kind == "job" { RunKind::Job } else { RunKind::Workflow },
            active: doc.active,
            signature: String::new(),
            queue: doc.queue,
            priority: doc.priority,
            options: doc.options.to_string(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct FailureDoc {
    fingerprint: String,
    definition: String,
    tenant: String,
    #[serde(default)]
    tenants: Vec<String>,
    message: String,
    runs: u64,
    #[serde(default)]
    step: Option<String>,
    #[serde(default)]
    versions: Vec<u32>,
    #[serde(default)]
    points: Vec<u64>,
    first_at: When,
    last_at: When,
    last_run: RunId,
}

impl From<FailureDoc> for FailureGroup {
    fn from(doc: FailureDoc) -> FailureGroup {
        let FailureDoc {
            fingerprint,
            definition,
            tenant,
            tenants,
            message,
            step,
            versions,
            runs,
            points,
            first_at,
            last_at,
            last_run,
        } = doc;
        let (first_at, last_at) = (first_at.0, last_at.0);
        FailureGroup {
            fingerprint,
            tenant,
            tenants,
            definition,
            message,
            step,
            versions,
            runs,
            first_at,
            last_at,
            last_run,
            lately: points,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct TokenDoc {
    id: String,
    subject: String,
    role: String,
    tenant: Option<String>,
    #[serde(default)]
    queues: Option<Vec<String>>,
    created_by: String,
    created_at: When,
    expires_at: When,
    used_at: Option<When>,
    revoked_at: Option<When>,
    /// Of a new one alone.
    #[serde(default)]
    pub(super) secret: Option<String>,
}

impl From<TokenDoc> for TokenView {
    fn from(doc: TokenDoc) -> TokenView {
        TokenView {
            card: TokenCard {
                id: crate::http::parse_token_name(&doc.id).unwrap_or_default(),
                // Nobody is told it.
                hash: Bytes::new(),
                subject: doc.subject,
                role: doc.role,
                tenant: doc.tenant,
                queues: doc.queues,
                by: doc.created_by,
                expires_at: doc.expires_at.0,
            },
            created_at: doc.created_at.0,
            used_at: time(doc.used_at),
            revoked_at: time(doc.revoked_at),
        }
    }
}
