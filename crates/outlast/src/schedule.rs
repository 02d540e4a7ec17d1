//! Schedules: code that runs at times.

use std::collections::HashSet;
use std::time::Duration;

use outlast_core::{
    Error, Payload, RunId, Timestamp, Timetable, check_count, check_key, check_name, check_named,
    duration_text,
};
use outlast_store::{
    Control, Controlled, NewRun, RunKind, ScheduleCard, ScheduleChange, ScheduleView, Started,
};
use serde::{Deserialize, Serialize};

use crate::Client;
use crate::client::repeated;
use crate::definition::{Definition, check_duration};
use crate::draft::StartOptions;
use crate::registry::Registry;

/// The longest name of a schedule: its runs have it in their keys.
const NAME: usize = 150;
/// In how many of the next times the two are looked for that are closest to each other.
const TIMES: usize = 100;
/// The most runs of one backfill.
const BACKFILL: usize = 10_000;

/// When a schedule starts runs: given to [`Outlast::schedule`](crate::Outlast::schedule) or [`Client::schedule`].
///
/// Each of its times starts one run, whatever number of nodes is up; the time is in the run's key, `nightly:` and the
/// time in UTC. A fixed time that clocks skip fires as much later as they were moved (02:30 becomes 03:30), one
/// that comes twice fires the first time only; intervals (`*/15 * * * *`) go on in real time.
///
/// ```
/// use outlast::prelude::*;
/// use outlast::{CatchUp, Overlap};
/// Schedule::cron("nightly", "30 2 * * *").zone("Europe/Berlin").overlap(Overlap::Queue);
/// Schedule::every("poll", 15.minutes()).jitter(30.seconds()).catch_up(CatchUp::Skip);
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    name: String,
    times: Times,
    zone: String,
    options: ScheduleOptions,
}

#[derive(Debug, Clone)]
enum Times {
    Text(String),
    Every(Duration),
    Once(Timestamp),
}

/// What happens when a time comes and the run of the time before has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The time passes without a run.
    #[default]
    Skip,
    /// The run starts when the one before has ended: one after another, none is left out that came while a node was up,
    /// however long it waits and whoever is up by then. Of those that came while none was, the catch-up policy says
    /// which ones wait.
    Queue,
    /// Both run.
    Allow,
    /// The one before is asked to stop. Of several times that are acted on together the last starts a run.
    CancelPrevious,
}

/// What happens with times that passed while no node was up for more than a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// The last of them starts a run.
    #[default]
    Last,
    /// They start none. A time counts as missed when it is late by more than a minute.
    Skip,
    /// Each starts a run, as far as the overlap policy lets it.
    All,
}

/// Everything about a schedule that is not its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ScheduleOptions {
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) jitter_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<(String, String)>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Schedule {
    fn new(name: impl Into<String>, times: Times) -> Schedule {
        Schedule { name: name.into(), times, zone: "UTC".into(), options: ScheduleOptions::default() }
    }

    /// At the times of a cron expression: five fields, or six with seconds first; names (`MON`, `JAN`) and `@daily` and
    /// the like. In UTC unless [`Schedule::zone`] says otherwise.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> Schedule {
        Schedule::new(name, Times::Text(expression.into()))
    }

    /// At every so much: `every(15.minutes())` on the quarters of the hour.
    pub fn every(name: impl Into<String>, every: Duration) -> Schedule {
        Schedule::new(name, Times::Every(every))
    }

    /// Once, at this time. Code that declares it goes on doing so when the time is past: then it starts nothing, on a new
    /// database neither.
    pub fn once(name: impl Into<String>, time: impl Into<Timestamp>) -> Schedule {
        Schedule::new(name, Times::Once(time.into()))
    }

    /// The time zone in which the expression is meant: `Europe/Berlin`.
    pub fn zone(mut self, zone: impl Into<String>) -> Schedule {
        self.zone = zone.into();
        self
    }

    /// What happens when the run of the time before has not ended: the time is skipped, unless told otherwise.
    pub fn overlap(mut self, overlap: Overlap) -> Schedule {
        self.options.overlap = overlap;
        self
    }

    /// What happens with times that passed while no node was up: the last of them starts a run, unless told otherwise.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Schedule {
        self.options.catch_up = catch_up;
        self
    }

    /// Acts on each time up to this much later, by a span that is the same on every node: so that not everybody's nightly
    /// jobs begin at once. It has to be shorter than the time from one to the next.
    pub fn jitter(mut self, jitter: Duration) -> Schedule {
        self.options.jitter_us = u64::try_from(jitter.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// The queue of its runs, when not the definition's own.
    pub fn queue(mut self, queue: impl Into<String>) -> Schedule {
        self.options.queue = Some(queue.into());
        self
    }

    /// What its runs belong to in their queue: see [`Queue`](crate::Queue).
    pub fn group(mut self, group: impl Into<String>) -> Schedule {
        self.options.group = Some(group.into());
        self
    }

    /// The priority of its runs, from 0 (most urgent) to 9, when not the definition's own.
    pub fn priority(mut self, priority: u8) -> Schedule {
        self.options.priority = Some(priority);
        self
    }

    /// Whose its runs are.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Schedule {
        self.options.tenant = tenant.into();
        self
    }

    /// Who its runs say started them.
    pub fn owner(mut self, owner: impl Into<String>) -> Schedule {
        self.options.owner = Some(owner.into());
        self
    }

    /// A role with which its runs act.
    pub fn role(mut self, role: impl Into<String>) -> Schedule {
        self.options.roles.push(role.into());
        self
    }

    /// A searchable attribute of its runs.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Schedule {
        self.options.tags.push((name.into(), value.into()));
        self
    }

    /// What it says, for runs of this definition; refuses what makes no sense.
    pub(crate) fn card(
        self,
        client: &Client,
        definition: &str,
        input: Payload,
    ) -> Result<(String, ScheduleCard), Error> {
        check_schedule_name(&self.name)?;
        let text = match self.times {
            Times::Text(text) => text,
            Times::Every(every) => as_text(Timetable::Every { every, from: Timestamp::from_micros(0) })?,
            Times::Once(time) => as_text(Timetable::Once(time))?,
        };
        // The zone has to be one also where it does not matter.
        let timetable = Timetable::parse(&text, &self.zone)?;
        check_duration("jitter", Duration::from_micros(self.options.jitter_us))?;
        let mut probe = client.draft(definition, 1, RunKind::Job, "default", 5, input.clone());
        client.apply(&mut probe, self.options.starts(&self.name, Timestamp::from_micros(0)))?;
        let card = ScheduleCard {
            timetable: timetable.to_text(),
            zone: timetable.zone().to_owned(),
            definition: definition.to_owned(),
            input,
            options: serde_json::to_string(&self.options).unwrap_or_default(),
            next_at: None,
            due_at: None,
        };
        Ok((self.name, card))
    }
}

/// Accepts the name of a schedule.
#[doc(hidden)]
pub fn check_schedule_name(name: &str) -> Result<(), Error> {
    let what_can_be = |_| {
        let remedy = format!("1 to {NAME} letters, digits, '.', '_', ':' or '-'");
        Error::invalid("schedule", name.escape_debug(), remedy)
    };
    check_key(name).map_err(what_can_be)?;
    check_named("schedule", name)?;
    check_count("bytes in the name of a schedule", name.len(), NAME)
}

fn as_text(timetable: Timetable) -> Result<String, Error> {
    timetable.check().map(|()| timetable.to_text())
}

impl ScheduleOptions {
    /// How the run of a time is started.
    pub(crate) fn starts(&self, name: &str, at: Timestamp) -> StartOptions {
        let mut tags = self.tags.clone();
        tags.push(("schedule".to_owned(), name.to_owned()));
        StartOptions {
            key: Some(format!("{name}:{at}")),
            queue: self.queue.clone(),
            group: self.group.clone(),
            priority: self.priority,
            tenant: self.tenant.clone(),
            owner: self.owner.clone(),
            roles: self.roles.clone(),
            tags,
            ..StartOptions::default()
        }
    }

    /// When a time of a schedule is acted on: later by a span that depends on both alone.
    pub(crate) fn acts_at(&self, name: &str, at: Timestamp) -> Timestamp {
        if self.jitter_us == 0 {
            return at;
        }
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes().chain(at.micros().to_be_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        at + Duration::from_micros((hash ^ (hash >> 32)) % (self.jitter_us + 1))
    }
}

/// What a schedule's card says, read.
pub(crate) struct Plan {
    pub(crate) timetable: Timetable,
    pub(crate) options: ScheduleOptions,
}

impl Plan {
    pub(crate) fn read(card: &ScheduleCard) -> Result<Plan, Error> {
        let timetable = Timetable::parse(&card.timetable, &card.zone)?;
        let options = serde_json::from_str(&card.options)
            .map_err(|error| Error::misconfigured(format!("a schedule's options cannot be read: {error}")))?;
        Ok(Plan { timetable, options })
    }

    /// Accepts jitter that leaves each time to itself: whoever acts on one later than the next has come acts on both.
    fn check_jitter(&self, now: Timestamp) -> Result<(), Error> {
        let jitter = Duration::from_micros(self.options.jitter_us);
        let times = self.timetable.upcoming(now, TIMES);
        let shortest = times.windows(2).map(|pair| pair[1].since(pair[0])).min();
        match shortest {
            Some(shortest) if jitter >= shortest => {
                let remedy = format!("less than {}, as its times are that close", duration_text(shortest));
                Err(Error::invalid("jitter", duration_text(jitter), remedy))
            }
            _ => Ok(()),
        }
    }

    /// The time after `after`, and when it is acted on.
    pub(crate) fn next(&self, name: &str, after: Timestamp) -> (Option<Timestamp>, Option<Timestamp>) {
        let next = self.timetable.next_after(after);
        (next, next.map(|at| self.options.acts_at(name, at)))
    }
}

impl Client {
    /// Sets a schedule: from now on it starts runs of `definition` with `input`. One of this name is replaced; if it
    /// says the same already, it keeps its place in time.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(app: App, report: Job<String, (), AnyError>) -> Result<(), AnyError> {
    /// app.schedule(Schedule::cron("weekly", "0 8 * * MON").zone("Europe/Berlin"), &report, &"sales".into()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn schedule<D: Definition>(
        &self,
        schedule: Schedule,
        definition: &D,
        input: &D::Input,
    ) -> Result<ScheduleView, Error> {
        let name = definition.options().name;
        let payload = Payload::encode(format_args!("the input of {name}"), input, self.limits())?;
        let (schedule, card) = schedule.card(self, name, payload)?;
        self.check_new_schedule(&schedule, &card).await?;
        self.put_schedule(schedule, card).await
    }

    /// The same by the name of the definition, with JSON, for callers without the code. Some node must have registered
    /// the definition.
    pub async fn schedule_by_name(
        &self,
        schedule: Schedule,
        definition: &str,
        input: impl Into<String>,
    ) -> Result<ScheduleView, Error> {
        let (name, card) = self.said_by_name(schedule, definition, input.into()).await?;
        self.put_schedule(name, card).await
    }

    /// Refuses what [`Client::schedule_by_name`] would refuse; sets nothing.
    #[doc(hidden)]
    pub async fn rehearse_schedule(
        &self,
        schedule: Schedule,
        definition: &str,
        input: impl Into<String>,
    ) -> Result<(), Error> {
        self.said_by_name(schedule, definition, input.into()).await.map(drop)
    }

    async fn said_by_name(
        &self,
        schedule: Schedule,
        definition: &str,
        input: String,
    ) -> Result<(String, ScheduleCard), Error> {
        let card = self.definition(definition).await?;
        let payload = Payload::from_json("input", input, self.limits())?;
        // What is wrong with its times is told first.
        let (name, said) = schedule.card(self, definition, payload.clone())?;
        self.check_input(&card, &payload)?;
        self.check_new_schedule(&name, &said).await?;
        Ok((name, said))
    }

    /// Accepts one that somebody asks for now: code that declares a time goes on saying so when it is past.
    async fn check_new_schedule(&self, name: &str, card: &ScheduleCard) -> Result<(), Error> {
        let now = repeated(|| self.store().now()).await?;
        let plan = Plan::read(card)?;
        if plan.timetable.next_after(now).is_none() {
            // One that was there with these times keeps its place, and may well be over.
            let old = self.schedules().await?.into_iter().find(|view| view.name == name);
            if old.is_none_or(|old| old.card.timetable != card.timetable) {
                let remedy = "one that has a time to come: all of this one are past";
                return Err(Error::invalid("schedule", name, remedy));
            }
        }
        plan.check_jitter(now)
    }

    /// Refuses what code declares and cannot be, before any of it is stored.
    pub(crate) async fn check_schedules(
        &self,
        schedules: &[(String, ScheduleCard)],
        registry: &Registry,
    ) -> Result<(), Error> {
        let mut names = HashSet::new();
        for (name, card) in schedules {
            if !names.insert(name) {
                return Err(Error::misconfigured(format!("schedule {name:?} is declared twice")));
            }
            if !registry.has(&card.definition) {
                let remedy = "register it with `.workflow(…)` or `.job(…)`";
                let what = format!("schedule {name:?} starts {:?}, which is not registered", card.definition);
                return Err(Error::misconfigured(format!("{what}: {remedy}")));
            }
        }
        if !schedules.is_empty() {
            let now = repeated(|| self.store().now()).await?;
            schedules.iter().try_for_each(|(_, card)| Plan::read(card)?.check_jitter(now))?;
        }
        Ok(())
    }

    pub(crate) async fn put_schedule(
        &self,
        name: String,
        mut card: ScheduleCard,
    ) -> Result<ScheduleView, Error> {
        let now = repeated(|| self.store().now()).await?;
        let plan = Plan::read(&card)?;
        plan.check_jitter(now)?;
        (card.next_at, card.due_at) = plan.next(&name, now);
        let view = self.change_schedule(&name, ScheduleChange::Put(card)).await?;
        view.ok_or_else(|| Error::misconfigured("the store gave no answer about a schedule"))
    }

    /// All schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<ScheduleView>, Error> {
        Ok(repeated(|| self.store().schedules()).await?)
    }

    /// One schedule.
    pub async fn schedule_named(&self, name: &str) -> Result<ScheduleView, Error> {
        let found = self.schedules().await?.into_iter().find(|view| view.name == name);
        found.ok_or_else(|| unknown(name))
    }

    /// The next times of a schedule, as its timetable says them.
    pub async fn next_fire_times(&self, name: &str, count: usize) -> Result<Vec<Timestamp>, Error> {
        check_count("fire times", count, 1000)?;
        let view = self.schedule_named(name).await?;
        let now = repeated(|| self.store().now()).await?;
        Ok(Plan::read(&view.card)?.timetable.upcoming(now, count))
    }

    /// The schedule starts nothing until it is resumed.
    pub async fn pause_schedule(&self, name: &str) -> Result<ScheduleView, Error> {
        self.change_schedule(name, ScheduleChange::Pause).await?.ok_or_else(|| unknown(name))
    }

    /// The schedule goes on with its next time; those that passed meanwhile, and those that waited for the end of the
    /// run before when it was paused, start nothing: see [`Client::backfill`].
    pub async fn resume_schedule(&self, name: &str) -> Result<ScheduleView, Error> {
        let view = self.schedule_named(name).await?;
        let now = repeated(|| self.store().now()).await?;
        let (next_at, due_at) = Plan::read(&view.card)?.next(name, now);
        let change = ScheduleChange::Resume { next_at, due_at };
        self.change_schedule(name, change).await?.ok_or_else(|| unknown(name))
    }

    /// Deletes a schedule. Its runs stay. One that code declares is there again when that code is started.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        self.change_schedule(name, ScheduleChange::Delete).await?.map(|_| ()).ok_or_else(|| unknown(name))
    }

    /// Starts a run of the schedule now, beside its times, whether it is paused or not.
    pub async fn trigger_schedule(&self, name: &str) -> Result<RunId, Error> {
        self.trigger(name, None).await
    }

    /// The same with an id that is made of this alone: whoever asks again with the same starts nothing new.
    #[doc(hidden)]
    pub async fn trigger_schedule_as(
        &self,
        name: &str,
        time: Timestamp,
        random: u64,
    ) -> Result<RunId, Error> {
        self.trigger(name, Some((time, random))).await
    }

    async fn trigger(&self, name: &str, seed: Option<(Timestamp, u64)>) -> Result<RunId, Error> {
        let view = self.schedule_named(name).await?;
        let plan = Plan::read(&view.card)?;
        let mut options = plan.options.starts(name, Timestamp::default());
        (options.key, options.seed) = (None, seed);
        let run = self.scheduled_run(&view, options).await?;
        Ok(self.start_run(run).await?.0)
    }

    /// Starts a run for each time of the schedule from `from` until before `to` that has none yet. All of them at once:
    /// overlap and jitter do not count. Those that are still to come start when they come. At most 10,000.
    pub async fn backfill(&self, name: &str, from: Timestamp, to: Timestamp) -> Result<Vec<RunId>, Error> {
        self.fill(name, (from, to), None).await
    }

    /// The same with runs whose ids are made of this: whoever does it again with the same is told of the same runs.
    #[doc(hidden)]
    pub async fn backfill_as(
        &self,
        name: &str,
        span: (Timestamp, Timestamp),
        seed: (Timestamp, u64),
    ) -> Result<Vec<RunId>, Error> {
        self.fill(name, span, Some(seed)).await
    }

    async fn fill(
        &self,
        name: &str,
        (from, to): (Timestamp, Timestamp),
        seed: Option<(Timestamp, u64)>,
    ) -> Result<Vec<RunId>, Error> {
        if from >= to {
            return Err(Error::invalid("range", format!("{from} to {to}"), "one that ends after it begins"));
        }
        let view = self.schedule_named(name).await?;
        let plan = Plan::read(&view.card)?;
        let now = repeated(|| self.store().now()).await?;
        let times = plan.timetable.fire_times(from, to.min(now), BACKFILL + 1);
        check_count("times in this range", times.len(), BACKFILL)?;
        let Some(first) = times.first() else { return Ok(Vec::new()) };
        let model = self.scheduled_run(&view, plan.options.starts(name, *first)).await?;
        let run = |at: &Timestamp| {
            let (mut run, mut options) = (model.clone(), plan.options.starts(name, *at));
            options.seed = seed.map(|(time, random)| (time, mixed(random, *at)));
            self.apply(&mut run, options).map(|()| run)
        };
        let runs = times.iter().map(run).collect::<Result<Vec<NewRun>, Error>>()?;
        // A time that has its run keeps it, also when the schedule gives its runs another input by now.
        let answers = repeated(|| self.store().start(&runs, None)).await?;
        let created = answers.into_iter().filter_map(|answer| match answer {
            Started::Created { id, .. } => Some(id),
            Started::Existing { .. } | Started::Conflict { .. } | Started::Taken { .. } => None,
        });
        Ok(created.collect())
    }

    /// A run as the schedule starts it.
    pub(crate) async fn scheduled_run(
        &self,
        view: &ScheduleView,
        options: StartOptions,
    ) -> Result<NewRun, Error> {
        let ScheduleCard { definition, input, .. } = &view.card;
        let mut run = self.draft(definition, 1, RunKind::Workflow, "default", 5, input.clone());
        self.resolve(&mut run, &options, self.definitions().await?)?;
        self.apply(&mut run, options)?;
        Ok(run)
    }

    async fn change_schedule(
        &self,
        name: &str,
        change: ScheduleChange,
    ) -> Result<Option<ScheduleView>, Error> {
        check_name("schedule", name)?;
        let control = Control::Schedule { name: name.to_owned(), change };
        match repeated(|| self.store().control(&control)).await? {
            Controlled::Schedule(view) => Ok(view),
            _ => Err(Error::misconfigured("the store gave no answer about a schedule")),
        }
    }
}

/// Randomness of its own for each time (the finalizer of splitmix64).
fn mixed(random: u64, at: Timestamp) -> u64 {
    let mut mixed = random.wrapping_add((at.micros() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn unknown(name: &str) -> Error {
    Error::invalid("schedule", name, "one that exists: `Client::schedules` gives their names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_the_same_everywhere_and_within_its_bound() {
        let options = ScheduleOptions { jitter_us: 5_000_000, ..ScheduleOptions::default() };
        let mut spans = Vec::new();
        for minute in 0..100 {
            let at = Timestamp::from_micros(minute * 60_000_000);
            let acts = options.acts_at("nightly", at);
            assert_eq!(acts, options.acts_at("nightly", at));
            assert!(acts >= at && acts <= at + Duration::from_secs(5));
            spans.push(acts.since(at));
        }
        spans.sort();
        spans.dedup();
        assert!(spans.len() > 90, "spread, not all alike: {}", spans.len());
        assert_eq!(ScheduleOptions::default().acts_at("x", Timestamp::from_micros(7)).micros(), 7);
    }
}
