//! Questions to the database itself, where they are more than one call of the client.

use outlast::{
    BulkCall, Client, ForkRun, RepairRun, RunId, RunView, Schedule, ScheduleView, Start, Timestamp, Untyped,
};
use outlast_store::{Access, Accessed, FailureAsk, FailureGroup, TokenView};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::noted::Change;
use super::{BulkAsk, ForkAsk, MadeToken, RepairAsk, ScheduleAsk, StartAsk, Version, Which};
use crate::deletion;
use crate::errors::RANGE;
use crate::fault::{Exit, Fault};
use crate::http;
use crate::words::user;

pub(super) async fn run(client: &Client, which: &Which) -> Result<RunView, Fault> {
    let run = client.find(which.target()).await?;
    Ok(client.status(run).await?)
}

pub(super) async fn start(client: &Client, ask: StartAsk) -> Result<(RunId, bool), Fault> {
    let run = to_start(client, ask).await?;
    Ok((run.id(), run.created()))
}

/// A run that is about to be started, or only asked about.
pub(super) fn to_start(client: &Client, ask: StartAsk) -> Start<Untyped> {
    let start = client.start_by_name(&ask.definition, ask.input.get());
    // Whoever has the database says who they are, as a token does for a server.
    let mut start = user().into_iter().fold(start, |start, user| start.owner(user));
    if let Some(key) = ask.key {
        start = start.key(key);
    }
    if let Some(queue) = ask.queue {
        start = start.queue(queue);
    }
    if let Some(priority) = ask.priority {
        start = start.priority(priority);
    }
    if let Some(delay) = ask.delay {
        start = start.delay(delay);
    }
    if let Some(at) = ask.at {
        start = start.at(at);
    }
    for (name, value) in ask.tags {
        start = start.tag(name, value);
    }
    start
}

/// A change of a run that is there, or of one whose key has none yet.
pub(super) async fn change_of(client: &Client, action: &'static str, which: &Which) -> Change {
    match client.find(which.target()).await {
        Ok(run) => Change::of_run(client, action, run).await,
        Err(_) => Change::new(action, which.part()),
    }
}

pub(super) async fn send(
    client: &Client,
    to: &Which,
    name: &str,
    data: &RawValue,
    key: Option<&str>,
) -> Result<String, Fault> {
    let id = match key {
        None => Uuid::from_u128(fastrand::u128(..)),
        Some(key) => {
            let what = format!("{}\n{name}\n{key}", to.part());
            Uuid::new_v5(&Uuid::NAMESPACE_URL, what.as_bytes())
        }
    };
    client.send_as(id, to.target(), name, data).await?;
    Ok(http::event_name(id))
}

pub(super) async fn failures(client: &Client, limit: u32) -> Result<Vec<FailureGroup>, Fault> {
    let until = client.store().now().await?;
    let range = i64::try_from(RANGE.as_micros()).unwrap_or(i64::MAX);
    let since = Timestamp::from_micros(until.micros().saturating_sub(range));
    Ok(client
        .store()
        .failures(&FailureAsk { tenant: None, definition: None, fingerprint: None, since, until, limit })
        .await?)
}

pub(super) async fn delete(client: &Client, run: RunId, reason: &str) -> Result<(), Fault> {
    match deletion::delete(client, run, reason).await? {
        None => Ok(()),
        Some(why) => Err(Fault::new(Exit::Conflict, "conflict", why)),
    }
}

pub(super) fn repair(client: &Client, run: RunId, ask: &RepairAsk) -> RepairRun {
    let mut repair = user().into_iter().fold(client.repair(run), |repair, user| repair.by(user));
    repair = ask.from.iter().fold(repair, |repair, step| repair.from(step));
    repair = ask.input.iter().fold(repair, |repair, input| repair.input(input));
    repair = ask.replace.iter().fold(repair, |repair, (step, result)| repair.replace(step, result));
    ask.reason.iter().fold(repair, |repair, reason| repair.reason(reason))
}

pub(super) fn fork(client: &Client, run: RunId, ask: &ForkAsk) -> ForkRun {
    let mut fork = user().into_iter().fold(client.fork(run), |fork, user| fork.by(user));
    fork = match (&ask.from, ask.from_start) {
        (Some(step), _) => fork.from(step),
        (None, true) => fork.from_start(),
        (None, false) => fork,
    };
    fork = ask.input.iter().fold(fork, |fork, input| fork.input(input));
    fork = match ask.version {
        None => fork,
        Some(Version::Latest) => fork.active_version(),
        Some(Version::Number(number)) => fork.version(number),
    };
    ask.reason.iter().fold(fork, |fork, reason| fork.reason(reason))
}

pub(super) fn bulk(client: &Client, ask: &BulkAsk) -> BulkCall {
    let bulk = client.bulk(ask.op.clone()).filter(ask.filter.clone());
    let bulk = user().into_iter().fold(bulk, |bulk, user| bulk.by(user));
    let bulk = ask.reason.iter().fold(bulk, |bulk, reason| bulk.because(reason));
    if ask.all { bulk.all() } else { bulk }
}

pub(super) async fn set_schedule(client: &Client, ask: ScheduleAsk) -> Result<ScheduleView, Fault> {
    Ok(client.schedule_by_name(schedule(&ask), &ask.definition, ask.input.get()).await?)
}

/// A schedule as it is asked for.
pub(super) fn schedule(ask: &ScheduleAsk) -> Schedule {
    let mut schedule = Schedule::cron(&ask.name, &ask.expression)
        .zone(&ask.zone)
        .overlap(ask.overlap)
        .catch_up(ask.catch_up)
        .jitter(ask.jitter);
    schedule = user().into_iter().fold(schedule, |schedule, user| schedule.owner(user));
    ask.queue.iter().fold(schedule, |schedule, queue| schedule.queue(queue))
}

pub(super) async fn create_token(client: &Client, ask: http::TokenAsk) -> Result<MadeToken, Fault> {
    let by = user().unwrap_or_else(|| "command line".to_owned());
    let is_first = http::tokens(client).await? == http::Tokens::Never;
    let (view, secret) = http::create_token(client, ask, &by).await?;
    Ok(MadeToken { view, secret: secret.shown().to_owned(), is_first })
}

pub(super) async fn revoke_token(client: &Client, name: &str) -> Result<TokenView, Fault> {
    let revoked = match http::parse_token_name(name) {
        None => None,
        Some(token) => match client.store().access(&Access::Revoke { token }).await? {
            Accessed::Token(view) => view,
            _ => None,
        },
    };
    // An error, so that the audit log has it as one.
    revoked.ok_or_else(|| Fault::new(Exit::NotFound, "not_found", format!("there is no token {name:?}")))
}
