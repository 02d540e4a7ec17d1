//! `outlast schedule`: when runs start by themselves, and everything that can be done about it.

use std::time::{Duration, SystemTime};

use outlast::{CatchUp, Overlap, Schedule, ScheduleView, Timestamp, Timetable};
use outlast_core::{check_count, distance, duration_text};
use outlast_store::ScheduleCard;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::backend::{Backend, ScheduleAsk};
use crate::bulk::agree;
use crate::cli::{AddArgs, BackfillArgs, Consent, NextArgs, ScheduleCommand};
use crate::fault::{Exit, Fault};
use crate::list;
use crate::output::{Column, DIM, Format, Row, call, note, painted, print, print_one, table};
use crate::run_commands::{given, note_without_node};
use crate::shapes::ScheduleJson;
use crate::when::When;
use crate::words::{ahead, clock, count, in_zone};

/// The most times of one backfill.
pub(crate) const BACKFILL: usize = 10_000;

/// What can be done about the run before, by the words for it.
const OVERLAPS: [(&str, Overlap); 4] = [
    ("skip", Overlap::Skip),
    ("queue", Overlap::Queue),
    ("allow", Overlap::Allow),
    ("cancel-previous", Overlap::CancelPrevious),
];

/// What can be done about times that passed, by the words for it.
const CATCH_UPS: [(&str, CatchUp); 3] =
    [("last", CatchUp::Last), ("skip", CatchUp::Skip), ("all", CatchUp::All)];

/// Reads what happens when the run before has not ended.
pub(crate) fn parse_overlap(text: &str) -> Result<Overlap, String> {
    let found = OVERLAPS.iter().find(|(word, _)| *word == text).map(|(_, overlap)| *overlap);
    found.ok_or_else(|| format!("skip, queue, allow or cancel-previous, not {text:?}"))
}

/// Reads what happens with times that passed while no node was up.
pub(crate) fn parse_catch_up(text: &str) -> Result<CatchUp, String> {
    let found = CATCH_UPS.iter().find(|(word, _)| *word == text).map(|(_, catch_up)| *catch_up);
    found.ok_or_else(|| format!("last, skip or all, not {text:?}"))
}

pub(crate) fn overlap_word(overlap: Overlap) -> &'static str {
    OVERLAPS.iter().find(|(_, known)| *known == overlap).map_or("", |(word, _)| word)
}

pub(crate) fn catch_up_word(catch_up: CatchUp) -> &'static str {
    CATCH_UPS.iter().find(|(_, known)| *known == catch_up).map_or("", |(word, _)| word)
}

/// What a schedule's card says, for people. What cannot be read is left away.
pub(crate) struct Plan {
    timetable: Option<Timetable>,
    pub(crate) options: PlanOptions,
}

/// The options of a schedule: all of them, so that one that is set again is as it was.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlanOptions {
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) queue: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) tenant: String,
    pub(crate) owner: Option<String>,
    pub(crate) roles: Vec<String>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) jitter_us: u64,
}

impl Plan {
    pub(crate) fn read(card: &ScheduleCard) -> Plan {
        Plan {
            timetable: Timetable::parse(&card.timetable, &card.zone).ok(),
            options: PlanOptions::read(card).unwrap_or_default(),
        }
    }

    /// Its times in English.
    pub(crate) fn words(&self) -> String {
        self.timetable.as_ref().map(words).unwrap_or_default()
    }
}

impl PlanOptions {
    pub(crate) fn read(card: &ScheduleCard) -> serde_json::Result<PlanOptions> {
        serde_json::from_str(&card.options)
    }

    pub(crate) fn jitter(&self) -> Duration {
        Duration::from_micros(self.jitter_us)
    }

    /// A schedule with all of them.
    pub(crate) fn apply(self, schedule: Schedule) -> Schedule {
        let jitter = self.jitter();
        let PlanOptions {
            overlap,
            catch_up,
            queue,
            group,
            priority,
            tenant,
            owner,
            roles,
            tags,
            jitter_us: _,
        } = self;
        let mut schedule = schedule.overlap(overlap).catch_up(catch_up).jitter(jitter).tenant(tenant);
        schedule = queue.into_iter().fold(schedule, Schedule::queue);
        schedule = group.into_iter().fold(schedule, Schedule::group);
        schedule = priority.into_iter().fold(schedule, Schedule::priority);
        schedule = owner.into_iter().fold(schedule, Schedule::owner);
        schedule = roles.into_iter().fold(schedule, Schedule::role);
        tags.into_iter().fold(schedule, |schedule, (name, value)| schedule.tag(name, value))
    }
}

/// Times in English. An interval that is counted from 1970 is the one on every clock: no need to say it.
fn words(table: &Timetable) -> String {
    match table {
        Timetable::Every { every, from } if *from == Timestamp::default() => {
            format!("Every {}", duration_text(*every))
        }
        other => other.describe(),
    }
}

/// When a schedule starts its next run.
pub(crate) fn coming(view: &ScheduleView, now: Timestamp) -> String {
    match view.card.next_at {
        _ if view.is_paused => "paused".to_owned(),
        Some(next) => clock(next, now),
        None => "never again".to_owned(),
    }
}

/// Does what was asked about schedules.
pub(crate) async fn schedule(
    client: &Backend,
    command: ScheduleCommand,
    consent: Consent,
    format: Format,
) -> Result<(), Fault> {
    match command {
        ScheduleCommand::List => list::schedules(&client.schedules().await?, format, client.now().await?),
        ScheduleCommand::Next(args) => next_of_schedule(client, &args, format).await,
        ScheduleCommand::Add(args) => add(client, args, format).await,
        ScheduleCommand::Pause(args) => {
            find(client, &args.name).await?;
            told(client, &client.pause_schedule(&args.name, args.reason.as_deref()).await?, format).await
        }
        ScheduleCommand::Resume(args) => {
            find(client, &args.name).await?;
            told(client, &client.resume_schedule(&args.name, args.reason.as_deref()).await?, format).await
        }
        ScheduleCommand::Trigger(args) => trigger(client, &args.name, args.reason.as_deref(), format).await,
        ScheduleCommand::Delete(args) => delete(client, &args.name, format).await,
        ScheduleCommand::Backfill(args) => backfill(client, &args, consent, format).await,
    }
}

/// The schedule of this name; else names that look alike.
pub(crate) async fn find(client: &Backend, name: &str) -> Result<ScheduleView, Fault> {
    let views = client.schedules().await?;
    let mut known: Vec<String> = views.iter().map(|view| view.name.clone()).collect();
    if let Some(view) = views.into_iter().find(|view| view.name == name) {
        return Ok(view);
    }
    known.retain(|known| distance(known, name) <= name.len().max(known.len()) / 2);
    known.sort_by_key(|known| distance(known, name));
    known.truncate(3);
    let message = match known.is_empty() {
        true => {
            let list = call("list schedules");
            format!("there is no schedule {name:?}: `{list}` shows those that are there")
        }
        false => format!("there is no schedule {name:?}; did you mean {}?", known.join(" or ")),
    };
    Err(Fault::new(Exit::NotFound, "not_found", message))
}

/// Says how a schedule stands.
async fn told(client: &Backend, view: &ScheduleView, format: Format) -> Result<(), Fault> {
    let now = client.now().await?;
    print_one(format, &ScheduleJson::new(view), &view.name, || {
        let what =
            format!("{} starts {}: {}", view.name, view.card.definition, Plan::read(&view.card).words());
        match view.card.next_at {
            _ if view.is_paused => format!("{what}; paused"),
            Some(next) => format!("{what}; next {} ({})", ahead(next, now), clock(next, now)),
            None => format!("{what}; never again"),
        }
    })
}

async fn add(client: &Backend, args: AddArgs, format: Format) -> Result<(), Fault> {
    let ask = schedule_ask(args)?;
    let before = client.schedules().await?.into_iter().find(|view| view.name == ask.name);
    let view = client.set_schedule(ask).await?;
    told(client, &view, format).await?;
    if format == Format::Text {
        match before {
            Some(before) if before.card.is_same(&view.card) => {
                note("it was there already, and says the same")
            }
            Some(_) => note("it replaces the one that was there"),
            None => {}
        }
    }
    Ok(())
}

/// What is asked when a schedule is set. Its name stands in an address: one that cannot be is asked for nowhere.
pub(crate) fn schedule_ask(args: AddArgs) -> Result<ScheduleAsk, Fault> {
    outlast::check_schedule_name(&args.name)?;
    Ok(ScheduleAsk {
        input: given("input", &args.input)?,
        name: args.name,
        expression: args.expression,
        zone: args.tz,
        definition: args.definition,
        overlap: args.overlap,
        catch_up: args.catch_up,
        jitter: args.jitter.unwrap_or_default(),
        queue: args.queue,
    })
}

async fn trigger(client: &Backend, name: &str, reason: Option<&str>, format: Format) -> Result<(), Fault> {
    find(client, name).await?;
    let run = client.trigger_schedule(name, reason).await?;
    note_without_node(client).await?;
    print_one(format, &json!({ "id": run }), run, || run.to_string())?;
    if format == Format::Text {
        note(&format!("started; look at it with `{}`", call(&format!("show {run}"))));
    }
    Ok(())
}

async fn delete(client: &Backend, name: &str, format: Format) -> Result<(), Fault> {
    find(client, name).await?;
    client.delete_schedule(name).await?;
    print_one(format, &json!({ "deleted": name }), name, || format!("{name} is deleted; its runs stay"))?;
    if format == Format::Text {
        note("if code declares it, it is there again when that code is started: pause it instead");
    }
    Ok(())
}

async fn backfill(
    client: &Backend,
    args: &BackfillArgs,
    consent: Consent,
    format: Format,
) -> Result<(), Fault> {
    let (view, times) = times(client, args).await?;
    if let ([first, .., last] | [first @ last], false) = (&times[..], consent.yes) {
        let (name, number, definition) = (&args.name, count(times.len(), "time"), &view.card.definition);
        let would = format!(
            "{name} has {number} from {first} to {last}, and a run of {definition} would be started for each that has none"
        );
        agree(would).await?;
    }
    let runs = client.backfill(&args.name, args.from, args.to).await?;
    note_without_node(client).await?;
    let answer = json!({ "times": times.len(), "started": runs });
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    print_one(format, &answer, ids.join("\n"), || match times.len() - runs.len() {
        0 => format!("{} started", count(runs.len(), "run")),
        had => format!("{} started; {} had one", count(runs.len(), "run"), count(had, "time")),
    })
}

/// A schedule, and its times in a range that lie in the past: those that are still to come start when they come.
pub(crate) async fn times(
    client: &Backend,
    args: &BackfillArgs,
) -> Result<(ScheduleView, Vec<Timestamp>), Fault> {
    let BackfillArgs { name, from, to } = args;
    let view = find(client, name).await?;
    if from >= to {
        return Err(Fault::usage(format!("from {from} to {to} there is no time: --to must be after --from")));
    }
    let table = Timetable::parse(&view.card.timetable, &view.card.zone)?;
    let times = table.fire_times(*from, (*to).min(client.now().await?), BACKFILL + 1);
    check_count("times in this range", times.len(), BACKFILL)?;
    Ok((view, times))
}

/// Whether this is an expression: every one has a space or an `@`, which no name can have.
pub(crate) fn is_expression(text: &str) -> bool {
    text.starts_with('@') || text.contains(char::is_whitespace)
}

/// The next times of an expression, by this machine's clock.
pub(crate) fn next_of_expression(args: &NextArgs, format: Format) -> Result<(), Fault> {
    let table = Timetable::parse(&args.what, args.tz.as_deref().unwrap_or("UTC"))?;
    print_next(&table, args.number, Vec::new(), Timestamp::from(SystemTime::now()), format)
}

/// The next times of a schedule, by the database's clock.
async fn next_of_schedule(client: &Backend, args: &NextArgs, format: Format) -> Result<(), Fault> {
    let view = find(client, &args.what).await?;
    if args.tz.is_some() {
        let zone = &view.card.zone;
        return Err(Fault::usage(format!("--tz is for expressions: {} has its zone, {zone}", args.what)));
    }
    let table = Timetable::parse(&view.card.timetable, &view.card.zone)?;
    let mut notes = Vec::new();
    if view.is_paused {
        notes.push("it is paused: none of these starts a run until it is resumed".to_owned());
    }
    match Plan::read(&view.card).options.jitter() {
        Duration::ZERO => {}
        jitter => notes.push(format!("each is acted on up to {} later", duration_text(jitter))),
    }
    print_next(&table, args.number, notes, client.now().await?, format)
}

/// The times of a timetable to come, as JSON.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = NextTimes)]
pub(crate) struct NextJson {
    expression: String,
    zone: String,
    description: String,
    times: Vec<When>,
    notes: Vec<String>,
}

impl NextJson {
    pub(crate) fn new(
        table: &Timetable,
        times: &[Timestamp],
        mut notes: Vec<String>,
        now: Timestamp,
    ) -> NextJson {
        if let Timetable::Cron(cron) = table {
            notes.extend(cron.notes(now));
        }
        if times.is_empty() {
            notes.push("no time is to come".to_owned());
        }
        NextJson {
            expression: table.to_text(),
            zone: table.zone().to_owned(),
            description: words(table),
            times: times.iter().copied().map(When).collect(),
            notes,
        }
    }
}

fn print_next(
    table: &Timetable,
    number: usize,
    notes: Vec<String>,
    now: Timestamp,
    format: Format,
) -> Result<(), Fault> {
    let times = table.upcoming(now, number);
    let answer = NextJson::new(table, &times, notes, now);
    let names = times.iter().map(|time| time.exact()).collect::<Vec<_>>().join("\n");
    if format != Format::Text {
        return print_one(format, &answer, names, String::new);
    }
    print(&next_text(&answer, &times, now))
}

fn next_text(answer: &NextJson, times: &[Timestamp], now: Timestamp) -> String {
    let columns = [
        Column { head: "TIME", spare: 0 },
        Column { head: "UTC", spare: 1 },
        Column { head: "FROM NOW", spare: 0 },
    ];
    let row = |time: &Timestamp| {
        // Where clocks show UTC anyway, once is enough.
        let utc = if answer.zone == "UTC" { String::new() } else { time.to_string() };
        Row {
            style: anstyle::Style::new(),
            cells: vec![in_zone(*time, &answer.zone), utc, ahead(*time, now)],
        }
    };
    let mut lines = vec![answer.description.clone()];
    if !times.is_empty() {
        lines.push(String::new());
        lines.push(table(&columns, &times.iter().map(row).collect::<Vec<_>>()));
    }
    if !answer.notes.is_empty() {
        lines.push(String::new());
        lines.extend(answer.notes.iter().map(|note| painted(DIM, note)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_never_taken_for_a_name() {
        for expression in ["30 2 * * *", "@daily", "every 15m", "at 2027-03-14T01:30:00Z"] {
            assert!(is_expression(expression), "{expression}");
        }
        assert!(!is_expression("nightly:2-b.c_d"));
    }

    #[test]
    fn the_days_on_which_clocks_change_are_explained() {
        let now: Timestamp = "2027-03-13T12:00:00Z".parse().unwrap();
        let table = Timetable::parse("30 2 * * *", "America/New_York").unwrap();
        let times = table.upcoming(now, 2);
        let Timetable::Cron(cron) = &table else { panic!("no cron") };
        let answer = NextJson {
            expression: table.to_text(),
            zone: table.zone().to_owned(),
            description: words(&table),
            times: Vec::new(),
            notes: cron.notes(now),
        };
        let text = next_text(&answer, &times, now);
        for part in [
            "At 02:30 (America/New_York)",
            "Sun 2027-03-14 03:30:00 EDT  2027-03-14T07:30:00Z  in 19 h 30 m",
            "Mon 2027-03-15 02:30:00 EDT  2027-03-15T06:30:00Z  in 1 d 18 h",
            "on 2027-03-14 02:30 does not exist in America/New_York: fires at 03:30",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }

    #[test]
    fn policies_are_written_as_they_are_read() {
        for (word, overlap) in OVERLAPS {
            assert_eq!((parse_overlap(word), overlap_word(overlap)), (Ok(overlap), word));
        }
        for (word, catch_up) in CATCH_UPS {
            assert_eq!((parse_catch_up(word), catch_up_word(catch_up)), (Ok(catch_up), word));
        }
        assert_eq!(parse_overlap("stop").unwrap_err(), "skip, queue, allow or cancel-previous, not \"stop\"");
    }
}
