//! What is done to runs: events, promises, cancel, kill, pause, resume, another time, retry, fork, another result.

use axum::http::header;
use outlast::{Error, RepairPlan, RunId, RunView, Status, Target};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::body::Time;
use super::bulks;
use super::code::Code;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::Call;
use super::runs::find;
use crate::standing;

/// Something for a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    /// What the run waits for.
    name: String,
    /// The value; kept as it was sent.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<Box<RawValue>>,
    /// Why; for the audit log.
    #[serde(default)]
    reason: Option<String>,
    /// Only refuse what would be refused.
    #[serde(default)]
    dry_run: bool,
}

/// Why something is done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// For the run, for whoever looks at it later, and for the audit log.
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// When it goes on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Due {
    /// At this time instead of now; not of one whose code waits for a time.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "date-time")]
    at: Option<Time>,
    /// Only if it would go on at this time by itself, as `explain` told it: whoever looked does not change another.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "date-time")]
    seen: Option<Time>,
    #[serde(default)]
    reason: Option<String>,
}

/// Another try.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    /// From this step on, instead of where the run went wrong.
    #[serde(default)]
    from: Option<String>,
    /// What a job is called with from now on.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    #[serde(default)]
    reason: Option<String>,
    /// Only say what would run again.
    #[serde(default)]
    dry_run: bool,
}

/// Another run that goes on from a step of this one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// From this step on, instead of where the run went wrong.
    #[serde(default)]
    from: Option<String>,
    /// From the beginning.
    #[serde(default)]
    from_start: bool,
    /// With another input.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// With this version of the code.
    #[serde(default)]
    #[schema(minimum = 1)]
    version: Option<u32>,
    /// With the version that new runs take.
    #[serde(default)]
    latest: bool,
    #[serde(default)]
    reason: Option<String>,
    /// Only say what would run again.
    #[serde(default)]
    dry_run: bool,
}

/// The same again, as another run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rerun {
    /// With another input.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// With this version of the code.
    #[serde(default)]
    #[schema(minimum = 1)]
    version: Option<u32>,
    /// With the version that new runs take.
    #[serde(default)]
    latest: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Another result for a step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replace {
    step: String,
    /// What counts as its result.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    reason: String,
    /// Only say what would run again.
    #[serde(default)]
    dry_run: bool,
}

/// How a run stands after something was asked of it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Acted {
    id: String,
    #[schema(value_type = String)]
    status: Status,
    /// Whether this request changed something; `false` when it was so before.
    changed: bool,
    /// The id of the event that was sent: the same whenever it is sent with the same idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
}

/// A message that is kept until a run with its key is started.
#[derive(Serialize, ToSchema)]
pub(crate) struct Kept {
    kept: bool,
    /// The id of the event that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
}

/// What would run again.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlanJson {
    run: String,
    #[schema(value_type = String)]
    status: Status,
    /// How many recorded results stay.
    kept: usize,
    /// What ran before and would run again.
    again: Vec<String>,
    /// How many messages would arrive again.
    messages: usize,
    /// How many children it would wait for again.
    children: usize,
}

/// A fork.
#[derive(Serialize, ToSchema)]
pub(crate) struct Forked {
    id: String,
    fork_of: String,
}

impl PlanJson {
    fn new(plan: RepairPlan) -> PlanJson {
        let RepairPlan { run, status, kept, again, messages, children, .. } = plan;
        PlanJson { run: run.to_string(), status, kept, again, messages, children }
    }
}

/// Says how the run stands now.
async fn acted(call: &Call, run: RunId, changed: bool) -> Answer {
    let view = call.api.client.status(run).await?;
    call.is_now(|| standing::run(&view));
    Reply::json(&Acted { id: run.to_string(), status: view.status, changed, event: None })
}

/// The reason that was given, for the audit log too; else words that say by whom.
fn reason(call: &Call, given: Option<String>) -> String {
    call.because(given.as_deref());
    given.filter(|given| !given.is_empty()).unwrap_or_else(|| format!("asked for by {}", call.caller.actor))
}

fn data(given: Option<Box<RawValue>>) -> Result<Box<RawValue>, Problem> {
    given.map_or_else(|| RawValue::from_string("null".to_owned()).map_err(Problem::internal), Ok)
}

/// Whom a message is for: a run that is there, or the one that a key of a known definition will have.
async fn addressed(call: &Call) -> Result<Target, Problem> {
    let (target, text) = (call.run()?, call.part("id"));
    match call.api.client.find(target.clone()).await {
        // In which queue a run will be that is not there yet nobody knows.
        Err(Error::UnknownRun { .. }) if text.contains('/') && call.caller.queues.is_none() => {
            let (definition, _) = text.rsplit_once('/').unwrap_or_default();
            call.api.client.definition(definition).await?;
            call.to(text);
            Ok(target)
        }
        _ => Ok(find(call).await?.record.id.into()),
    }
}

/// Says how the run stands that was sent something; 202 while there is none.
async fn told(call: &Call, to: Target, sent: Value, event: Option<String>) -> Answer {
    match call.api.client.find(to).await {
        Ok(run) => {
            let view = call.api.client.status(run).await?;
            let status = view.status;
            call.is_now(|| with(standing::run(&view), sent));
            Reply::json(&Acted { id: run.to_string(), status, changed: true, event })
        }
        Err(Error::UnknownRun { .. }) => {
            call.is_now(|| with(json!({ "kept": true }), sent));
            Ok(Reply::json(&Kept { kept: true, event })?.status(202))
        }
        Err(error) => Err(error.into()),
    }
}

/// Says how the run stands that was sent nothing.
async fn untold(call: &Call, to: Target) -> Answer {
    match call.api.client.find(to).await {
        Ok(run) => acted(call, run, false).await,
        Err(Error::UnknownRun { .. }) => Ok(Reply::json(&Kept { kept: false, event: None })?.status(202)),
        Err(error) => Err(error.into()),
    }
}

/// How something stands, and what it was sent.
fn with(mut stands: Value, sent: Value) -> Value {
    stands["sent"] = sent;
    stands
}

/// How people name an event that was sent.
pub(crate) fn event_name(id: Uuid) -> String {
    format!("evt_{}", id.simple())
}

/// Sends an event.
pub(crate) async fn send(call: Call) -> Answer {
    let Message { name, data: given, reason, dry_run } = call.json()?;
    if dry_run {
        call.only_asks();
    }
    call.because(reason.as_deref());
    let to = addressed(&call).await?;
    let (client, data) = (&call.api.client, data(given)?);
    if dry_run {
        client.rehearse_send(to.clone(), &name, &data).await?;
        return untold(&call, to).await;
    }
    let id = call.seed.unwrap_or_else(|| Uuid::from_u128(fastrand::u128(..)));
    client.send_as(id, to.clone(), &name, &data).await?;
    let sent =
        json!({ "event": event_name(id), "name": name, "data": standing::hash(data.get().as_bytes()) });
    told(&call, to, sent, Some(event_name(id))).await
}

/// Settles a promise.
pub(crate) async fn settle(call: Call) -> Answer {
    let Message { name, data: given, reason, dry_run } = call.json()?;
    if dry_run {
        call.only_asks();
    }
    call.because(reason.as_deref());
    let of = addressed(&call).await?;
    let data = data(given)?;
    if dry_run {
        call.api.client.rehearse_settle(of.clone(), &name, &data).await?;
        return untold(&call, of).await;
    }
    call.api.client.settle(of.clone(), &name, &data).await?;
    let sent = json!({ "promise": name, "data": standing::hash(data.get().as_bytes()) });
    told(&call, of, sent, None).await
}

/// Asks it to stop. One that has ended stays as it is.
pub(crate) async fn cancel(call: Call) -> Answer {
    let Reason { reason: given } = call.json()?;
    let run = find(&call).await?.record.id;
    let reason = reason(&call, given);
    let changed = match call.done {
        Some(changed) => changed,
        None => call.api.client.cancel(run, &reason).await?,
    };
    acted(&call, run, changed).await
}

/// Ends it at once, without undo.
pub(crate) async fn kill(call: Call) -> Answer {
    let Reason { reason: given } = call.json()?;
    let run = find(&call).await?.record.id;
    let reason = reason(&call, given);
    let changed = match call.done {
        Some(changed) => changed,
        None => call.api.client.kill(run, &reason).await?,
    };
    acted(&call, run, changed).await
}

/// Holds it back.
pub(crate) async fn pause(call: Call) -> Answer {
    let Reason { reason: given } = call.json()?;
    let run = find(&call).await?.record.id;
    let reason = reason(&call, given);
    let changed = match call.done {
        Some(changed) => changed,
        None => call.api.client.pause(run, &reason).await?,
    };
    acted(&call, run, changed).await
}

/// Lets it go on.
pub(crate) async fn resume(call: Call) -> Answer {
    let Reason { reason: given } = call.json()?;
    let run = find(&call).await?.record.id;
    call.because(given.as_deref());
    let changed = match call.done {
        Some(changed) => changed,
        None => call.api.client.resume(run).await?,
    };
    acted(&call, run, changed).await
}

/// Has it go on now, or at another time.
pub(crate) async fn due(call: Call) -> Answer {
    let Due { at, seen, reason } = call.json()?;
    let run = find(&call).await?.record.id;
    call.because(reason.as_deref());
    if let Some(changed) = call.done {
        return acted(&call, run, changed).await;
    }
    let told = call.api.client.explain(run).await?;
    let is_seen = seen.is_none_or(|Time(seen)| told.why.later().is_some_and(|later| later.at() == seen));
    let changed = is_seen && call.api.client.make_due_as(&told, at.map(|Time(at)| at)).await?;
    acted(&call, run, changed).await
}

/// Refuses to have a bulk do something else: what it may reach was looked at when it was made, and stands in its input.
fn check_input(view: &RunView, input: Option<&RawValue>) -> Result<(), Problem> {
    match input {
        Some(_) if view.record.definition == bulks::DEFINITION => {
            let detail = "a bulk does what it was made for: make another (POST /api/v1/bulk)";
            Err(Problem::new(Code::INVALID_ARGUMENT, detail).at("/input"))
        }
        _ => Ok(()),
    }
}

/// Tries it again.
pub(crate) async fn retry(call: Call) -> Answer {
    let Retry { from, input, reason, dry_run } = call.json()?;
    if dry_run {
        call.only_asks();
    }
    let view = find(&call).await?;
    check_input(&view, input.as_deref())?;
    let run = view.record.id;
    call.because(reason.as_deref());
    if let Some(changed) = call.done {
        return acted(&call, run, changed).await;
    }
    let mut repair = call.api.client.repair(run).by(&call.caller.actor);
    if let Some(from) = from {
        repair = repair.from(from);
    }
    if let Some(input) = &input {
        repair = repair.input(input);
    }
    if let Some(reason) = reason {
        repair = repair.reason(reason);
    }
    if dry_run {
        return Reply::json(&PlanJson::new(repair.rehearse().await?));
    }
    let changed = repair.await?;
    acted(&call, run, changed).await
}

/// Gives a step another result.
pub(crate) async fn replace(call: Call) -> Answer {
    let Replace { step, result, reason, dry_run } = call.json()?;
    if dry_run {
        call.only_asks();
    }
    let run = find(&call).await?.record.id;
    call.because(Some(&reason));
    if let Some(changed) = call.done {
        return acted(&call, run, changed).await;
    }
    let result = data(result)?;
    let repair = call.api.client.repair(run).by(&call.caller.actor).replace(step, &result).reason(reason);
    if dry_run {
        return Reply::json(&PlanJson::new(repair.rehearse().await?));
    }
    let changed = repair.await?;
    acted(&call, run, changed).await
}

/// Starts another run from a step of it.
pub(crate) async fn fork(call: Call) -> Answer {
    let ask: Fork = call.json()?;
    if ask.dry_run {
        call.only_asks();
    }
    forked(call, ask).await
}

/// Starts another run that does all of it again.
pub(crate) async fn rerun(call: Call) -> Answer {
    let Rerun { input, version, latest, reason } = call.json()?;
    let ask = Fork { from: None, from_start: true, input, version, latest, reason, dry_run: false };
    forked(call, ask).await
}

async fn forked(call: Call, ask: Fork) -> Answer {
    let view: RunView = find(&call).await?;
    check_input(&view, ask.input.as_deref())?;
    let run = view.record.id;
    for (both, names) in [
        (ask.from.is_some() && ask.from_start, "from and from_start"),
        (ask.version.is_some() && ask.latest, "version and latest"),
    ] {
        if both {
            let detail = format!("{names} say two things: leave one away");
            return Err(Problem::new(Code::INVALID_ARGUMENT, detail));
        }
    }
    call.because(ask.reason.as_deref());
    let mut fork = call.api.client.fork(run).by(&call.caller.actor);
    if let Some(from) = ask.from {
        fork = fork.from(from);
    }
    if ask.from_start {
        fork = fork.from_start();
    }
    if let Some(input) = &ask.input {
        fork = fork.input(input);
    }
    if let Some(version) = ask.version {
        fork = fork.version(version);
    }
    if ask.latest {
        fork = fork.active_version();
    }
    if let Some(reason) = ask.reason {
        fork = fork.reason(reason);
    }
    if ask.dry_run {
        return Reply::json(&PlanJson::new(fork.rehearse().await?));
    }
    if let Some(seed) = call.seed {
        fork = fork.once_for(RunId::from_uuid(seed));
    }
    let id = fork.await?;
    call.is_now(|| with(standing::run(&view), json!({ "fork": id.to_string() })));
    let location = call.address(&format!("/runs/{id}"));
    let forked = Forked { id: id.to_string(), fork_of: run.to_string() };
    Ok(Reply::json(&forked)?.status(201).with(header::LOCATION, location))
}
