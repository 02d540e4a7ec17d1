//! The audit log: who changed what through the API. A line for every change that somebody asked for who may, whatever
//! became of it.
//!
//! The answer waits for its line. So whoever was told that something is done finds it in the log.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use outlast_store::{Access, AuditList, AuditNote, AuditView};

use super::Inner;
use super::access::Caller;
use super::problem::{Names, Problem};
use super::query::{Param, number, text};
use super::reply::{Answer, Reply};
use super::route::{Call, Notes, Route};
use super::runs::find;
use super::{queues, schedules};
use crate::when::When;

/// Notes what a request changed, or was refused to change.
pub(super) async fn note(
    api: &Inner,
    route: &Route,
    (caller, names, path): (Caller, Names, Vec<(String, String)>),
    notes: Notes,
    (status, seed): (u16, Option<Uuid>),
) -> Result<(), Problem> {
    // Whoever answers a request again that had its line has written it.
    let id = seed.map(|seed| Uuid::new_v5(&seed, format!("{} {status}", route.action).as_bytes()));
    let target = notes.target.or_else(|| path.into_iter().next().map(|(_, value)| value));
    let note = AuditNote {
        id: id.unwrap_or_else(|| Uuid::from_u128(fastrand::u128(..))),
        tenant: notes.tenant.or(caller.tenant).unwrap_or_default(),
        actor: caller.actor,
        token: caller.token,
        action: route.action.to_owned(),
        target: outlast_core::shorten(&target.unwrap_or_default(), 200),
        reason: notes.reason.map(|reason| outlast_core::shorten(&reason, 1000)),
        request: names.request,
        status,
        ip: names.ip.map(|ip| ip.to_string()),
        before: notes.before,
        after: notes.after,
    };
    api.client.store().access(&Access::Note(note)).await?;
    Ok(())
}

/// Notes that somebody logged in or out.
pub(super) async fn note_session(call: &Call, caller: Caller, action: &str) -> Result<(), Problem> {
    let note = AuditNote {
        id: Uuid::from_u128(fastrand::u128(..)),
        tenant: caller.tenant.unwrap_or_default(),
        target: caller.token.map(token_name).unwrap_or_default(),
        actor: caller.actor,
        token: caller.token,
        action: action.to_owned(),
        reason: None,
        request: call.names.request.clone(),
        status: 204,
        ip: call.names.ip.map(|ip| ip.to_string()),
        before: None,
        after: None,
    };
    call.api.client.store().access(&Access::Note(note)).await?;
    Ok(())
}

/// A line of the audit log.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Audit)]
pub(crate) struct AuditJson {
    pub(crate) id: String,
    pub(crate) at: When,
    pub(crate) actor: String,
    token: Option<String>,
    pub(crate) action: String,
    pub(crate) target: String,
    pub(crate) reason: Option<String>,
    request_id: String,
    pub(crate) status: u16,
    tenant: String,
    /// From which address it was asked for; `null` for commands on the database. A proxy's, where there is one.
    ip: Option<String>,
    /// How what was changed stood before; of what people sent there is only the hash.
    #[schema(value_type = Option<serde_json::Value>)]
    before: Option<Box<RawValue>>,
    /// How it stood afterwards.
    #[schema(value_type = Option<serde_json::Value>)]
    after: Option<Box<RawValue>>,
    /// Its place in the chain; `null` until it has one.
    place: Option<i64>,
}

/// Lines of the audit log.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditPage {
    items: Vec<AuditJson>,
    /// Where the next page begins; `null` at the end.
    next_cursor: Option<String>,
}

pub(crate) const QUERY: &[Param] = &[
    text("target", "Only what was done to this"),
    text("cursor", "The next_cursor of the page before"),
    number("limit", "At most so many: 1 to 500, 50 unless said"),
];

/// The log, newest first.
pub(crate) async fn list(call: Call) -> Answer {
    let what = format!("audit\n{:?}\n{:?}", call.caller.tenant, call.query.one("target"));
    let before = call.query.one("cursor").map(|text| call.api.signer.read(text, &what)).transpose()?;
    let limit = call.query.number("limit", 1..=500, 50)?;
    let target = call.query.one("target").map(str::to_owned);
    let ask = AuditList { tenant: call.caller.tenant.clone(), target, before, limit, kind: None };
    let lines = call.api.client.store().audit(&ask).await?;
    let last = lines.last().filter(|_| lines.len() == limit as usize);
    let next_cursor = last.map(|last| call.api.signer.write(last.at, last.note.id, &what));
    Reply::json(&AuditPage { items: lines.into_iter().map(AuditJson::new).collect(), next_cursor })
}

/// The most that is told of one run, queue or schedule.
const ACTIONS: u32 = 200;

/// What somebody asked of a run, a queue or a schedule.
#[derive(Serialize, ToSchema)]
#[schema(as = Action)]
pub(crate) struct ActionJson {
    at: When,
    actor: String,
    /// As in the audit log: `run.cancel`.
    action: String,
    reason: Option<String>,
    /// What it was answered: 200 and the like where it was done.
    status: u16,
}

/// What was asked of one of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct ActionPage {
    items: Vec<ActionJson>,
}

/// What was asked of one run, for everybody who may look at it.
pub(crate) async fn of_run(call: Call) -> Answer {
    let run = find(&call).await?.record.id;
    // Of a bulk, which is a run, also what was asked of the bulk.
    actions(&call, None, run.to_string()).await
}

/// What was asked of one queue.
pub(crate) async fn of_queue(call: Call) -> Answer {
    let name = queues::named(&call).await?.name;
    actions(&call, Some("queue"), name).await
}

/// What was asked of one schedule.
pub(crate) async fn of_schedule(call: Call) -> Answer {
    let name = schedules::find(&call).await?.name;
    actions(&call, Some("schedule"), name).await
}

async fn actions(call: &Call, kind: Option<&str>, target: String) -> Answer {
    let (tenant, kind) = (call.caller.tenant.clone(), kind.map(str::to_owned));
    let ask = AuditList { tenant, target: Some(target), kind, before: None, limit: ACTIONS };
    let lines = call.api.client.store().audit(&ask).await?;
    let action = |AuditView { note, at, .. }| {
        let AuditNote { actor, action, reason, status, .. } = note;
        ActionJson { at: When(at), actor, action, reason, status }
    };
    Reply::json(&ActionPage { items: lines.into_iter().map(action).collect() })
}

impl AuditJson {
    pub(crate) fn new(line: AuditView) -> AuditJson {
        let AuditNote {
            id,
            tenant,
            actor,
            token,
            action,
            target,
            reason,
            request,
            status,
            ip,
            before,
            after,
        } = line.note;
        // What somebody wrote by hand may be no JSON, and is shown all the same.
        let raw = |text: String| {
            RawValue::from_string(text).or_else(|_| RawValue::from_string("\"unreadable\"".to_owned())).ok()
        };
        AuditJson {
            id: id.to_string(),
            at: When(line.at),
            actor,
            token: token.map(token_name),
            action,
            target,
            reason,
            request_id: request,
            status,
            tenant,
            ip,
            before: before.and_then(raw),
            after: after.and_then(raw),
            place: line.place,
        }
    }
}

/// How people name a token.
pub(crate) fn token_name(id: Uuid) -> String {
    format!("tok_{}", id.simple())
}
