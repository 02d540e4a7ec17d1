//! Schedules: when runs start by themselves, and what people do about it.
//!
//! What a schedule says is its ETag: whoever sends it back with If-Match replaces or deletes only what they looked at. It is
//! looked at right before: of two who send at the very same moment both may be let through, and the later one counts.

use axum::http::header;
use outlast::{ScheduleView, Timetable};
use outlast_core::check_count;
use outlast_store::ScheduleCard;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::body::Time;
use super::code::Code;
use super::problem::Problem;
use super::query::{Param, number, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use super::set_schedule::{SetSchedule, Wanted};
use super::start::seed_parts;
use crate::schedule_commands::{BACKFILL, NextJson, Plan};
use crate::shapes::ScheduleJson;
use crate::standing;

/// All schedules.
#[derive(Serialize, ToSchema)]
pub(crate) struct SchedulePage {
    items: Vec<ScheduleJson>,
}

/// A run that was started beside the times of its schedule.
#[derive(Serialize, ToSchema)]
pub(crate) struct Triggered {
    id: String,
}

/// Times in the past for each of which a run shall have been started.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backfill {
    /// From this time on.
    #[schema(value_type = String, format = "date-time")]
    from: Time,
    /// Until before this time.
    #[schema(value_type = String, format = "date-time")]
    to: Time,
    /// Why; for the audit log.
    #[serde(default)]
    reason: Option<String>,
    /// Only say how many times there are.
    #[serde(default)]
    dry_run: bool,
}

/// What was started for times in the past.
#[derive(Serialize, ToSchema)]
pub(crate) struct Backfilled {
    /// How many times there are.
    times: usize,
    /// The runs of those that had none.
    started: Vec<String>,
}

/// A schedule that was set, and when it fires next.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleSet {
    schedule: ScheduleJson,
    next: NextJson,
}

pub(crate) const NEXT: &[Param] = &[number("n", "So many times: 1 to 1000, 5 unless said")];

/// The schedule that the path names, if whoever asks may know of it.
pub(super) async fn find(call: &Call) -> Result<ScheduleView, Problem> {
    let name = call.part("name");
    let views = call.api.client.schedules().await?;
    let found = views.into_iter().find(|view| view.name == name && sees(call, view));
    let view = found.ok_or_else(|| Problem::not_found(format_args!("schedule {name:?}")))?;
    call.to(&view.name);
    call.of_tenant(&Plan::read(&view.card).options.tenant);
    call.was(|| standing::schedule(&view));
    Ok(view)
}

fn sees(call: &Call, view: &ScheduleView) -> bool {
    call.caller.sees(&Plan::read(&view.card).options.tenant)
}

pub(crate) async fn list(call: Call) -> Answer {
    let views = call.api.client.schedules().await?;
    let items = views.iter().filter(|view| sees(&call, view)).map(ScheduleJson::new).collect();
    Reply::json(&SchedulePage { items })
}

pub(crate) async fn get(call: Call) -> Answer {
    let view = find(&call).await?;
    Ok(Reply::json(&ScheduleJson::new(&view))?.with(header::ETAG, tag(&view)))
}

/// What it says, wherever it stands in time.
fn tag(view: &ScheduleView) -> String {
    let ScheduleCard { timetable, zone, definition, input, options, .. } = &view.card;
    let mut said = Sha256::new();
    for part in
        [timetable.as_bytes(), zone.as_bytes(), definition.as_bytes(), &input.bytes, options.as_bytes()]
    {
        said.update((part.len() as u64).to_be_bytes());
        said.update(part);
    }
    said.update([u8::from(view.is_paused)]);
    let tag: String = said.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{tag}\"")
}

/// Refuses a change of something else than what was looked at.
fn check_tag(call: &Call, view: Option<&ScheduleView>) -> Result<(), Problem> {
    let is_meant = match call.headers.get(header::IF_MATCH) {
        None => true,
        // Whoever does again what was done has changed it already.
        Some(_) if call.done.is_some() => true,
        Some(any) if any == "*" => view.is_some(),
        Some(sent) => view.is_some_and(|view| sent.as_bytes() == tag(view).as_bytes()),
    };
    let detail = "somebody changed the schedule since that ETag, or there is none: look at it again";
    is_meant.then_some(()).ok_or_else(|| Problem::new(Code::PRECONDITION_FAILED, detail))
}

/// Sets a schedule, whosever one of this name is: so a token of one tenant may not.
pub(crate) async fn set(call: Call) -> Answer {
    let ask: SetSchedule = call.json()?;
    let is_dry = ask.dry_run;
    if is_dry {
        call.only_asks();
    }
    call.because(ask.reason.as_deref());
    let (client, name) = (&call.api.client, call.part("name"));
    let before = client.schedules().await?.into_iter().find(|view| view.name == name);
    check_tag(&call, before.as_ref())?;
    if let Some(before) = &before {
        call.was(|| standing::schedule(before));
    }
    let wanted = ask.upon(before.as_ref(), name, &call.caller.actor)?;
    let Wanted { schedule, definition, expression, zone, input, tenant } = wanted;
    if !tenant.is_empty() {
        call.of_tenant(&tenant);
    }
    let now = client.store().now().await?;
    if is_dry {
        client.rehearse_schedule(schedule, &definition, input).await?;
        let table = Timetable::parse(&expression, &zone)?;
        return Reply::json(&NextJson::new(&table, &table.upcoming(now, 5), Vec::new(), now));
    }
    let view = client.schedule_by_name(schedule, &definition, input).await?;
    call.is_now(|| standing::schedule(&view));
    let table = Timetable::parse(&view.card.timetable, &view.card.zone)?;
    let next = NextJson::new(&table, &table.upcoming(now, 5), Vec::new(), now);
    let set = ScheduleSet { schedule: ScheduleJson::new(&view), next };
    Ok(Reply::json(&set)?.with(header::ETAG, tag(&view)))
}

/// Deletes it. Its runs stay; one that code declares is there again when that code is started.
pub(crate) async fn delete(call: Call) -> Answer {
    call.because(call.query.one("reason"));
    let view = find(&call).await?;
    check_tag(&call, Some(&view))?;
    let name = view.name;
    call.api.client.delete_schedule(&name).await?;
    Ok(Reply::nothing())
}

pub(crate) async fn pause(call: Call) -> Answer {
    call.reason()?;
    let view = find(&call).await?;
    check_tag(&call, Some(&view))?;
    match call.done {
        Some(_) => stands(&call, &view),
        None => stands(&call, &call.api.client.pause_schedule(&view.name).await?),
    }
}

pub(crate) async fn resume(call: Call) -> Answer {
    call.reason()?;
    let view = find(&call).await?;
    check_tag(&call, Some(&view))?;
    match call.done {
        Some(_) => stands(&call, &view),
        None => stands(&call, &call.api.client.resume_schedule(&view.name).await?),
    }
}

/// Says how it stands after something was done to it.
fn stands(call: &Call, view: &ScheduleView) -> Answer {
    call.is_now(|| standing::schedule(view));
    Reply::json(&ScheduleJson::new(view))
}

/// Starts a run of it now.
pub(crate) async fn trigger(call: Call) -> Answer {
    call.reason()?;
    let view = find(&call).await?;
    check_tag(&call, Some(&view))?;
    let name = view.name;
    let run = match call.seed.map(seed_parts) {
        Some((time, random)) => call.api.client.trigger_schedule_as(&name, time, random).await?,
        None => call.api.client.trigger_schedule(&name).await?,
    };
    call.is_now(|| json!({ "started": run.to_string() }));
    Ok(Reply::json(&Triggered { id: run.to_string() })?.status(201))
}

/// The times that are to come.
pub(crate) async fn next(call: Call) -> Answer {
    let count = call.query.number("n", 1..=1000, 5)?;
    let view = find(&call).await?;
    let table = Timetable::parse(&view.card.timetable, &view.card.zone)?;
    let now = call.api.client.store().now().await?;
    let times = table.upcoming(now, count as usize);
    let notes = match view.is_paused {
        true => vec!["it is paused: none of these starts a run until it is resumed".to_owned()],
        false => Vec::new(),
    };
    Reply::json(&NextJson::new(&table, &times, notes, now))
}

/// Starts a run for each time in the past that has none.
pub(crate) async fn backfill(call: Call) -> Answer {
    let Backfill { from: Time(from), to: Time(to), reason, dry_run } = call.json()?;
    if dry_run {
        call.only_asks();
    }
    call.because(reason.as_deref());
    let view = find(&call).await?;
    if from >= to {
        let detail = format!("from {from} to {to} there is no time: to must be after from");
        return Err(Problem::new(Code::INVALID_ARGUMENT, detail).at("/to"));
    }
    let table = Timetable::parse(&view.card.timetable, &view.card.zone)?;
    let until = to.min(call.api.client.store().now().await?);
    let times = table.fire_times(from, until, BACKFILL + 1).len();
    check_count("times in this range", times, BACKFILL)?;
    let client = &call.api.client;
    let runs = match call.seed.map(seed_parts) {
        _ if dry_run => Vec::new(),
        Some(seed) => client.backfill_as(&view.name, (from, to), seed).await?,
        None => client.backfill(&view.name, from, to).await?,
    };
    call.is_now(|| json!({ "from": from.exact(), "to": to.exact(), "started": runs.len() }));
    let started = runs.iter().map(ToString::to_string).collect();
    Reply::json(&Backfilled { times, started })
}

/// An expression that nobody has set: when it would fire.
pub(crate) async fn preview(call: Call) -> Answer {
    let (Some(expression), zone) = (call.query.one("expression"), call.query.one("zone").unwrap_or("UTC"))
    else {
        return Err(Problem::new(
            Code::INVALID_ARGUMENT,
            "say expression=30 2 * * *, and zone=Europe/Berlin",
        ));
    };
    let table = Timetable::parse(expression, zone)?;
    let count = call.query.number("n", 1..=1000, 5)?;
    let now = call.api.client.store().now().await?;
    Reply::json(&NextJson::new(&table, &table.upcoming(now, count as usize), Vec::new(), now))
}

pub(crate) const PREVIEW: &[Param] = &[
    text("expression", "30 2 * * *, @daily, every 15m"),
    text("zone", "The time zone in which it is meant, UTC unless said"),
    number("n", "So many times: 1 to 1000, 5 unless said"),
];
