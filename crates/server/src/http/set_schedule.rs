//! Setting a schedule: what somebody asks for, upon what is there.
//!
//! Whoever changes the time of a schedule has not said that its tags, its tenant or an input that they may not even see
//! shall go. So what is not sent stays, `null` takes it away, and `replace` begins anew.

use outlast::{CatchUp, Error, Overlap, Schedule, ScheduleView};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::Millis;
use super::code::Code;
use super::problem::Problem;
use super::start::{Tags, priority};
use crate::schedule_commands::PlanOptions;

/// A schedule to set. Where there is one of this name, what is left away stays as it is there, and `null` takes it away.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetSchedule {
    /// The workflow or job that it starts. A new one needs it.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    definition: Option<String>,
    /// When: `30 2 * * *`, `@daily`, `every 15m` or `at 2027-03-14T01:30:00Z`. A new one needs it.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    expression: Option<String>,
    /// The time zone in which it is meant: UTC unless said.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    zone: Option<Option<String>>,
    /// The input of its runs.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// When the run before has not ended: `skip` (unless said), `queue`, `allow` or `cancel_previous`.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    overlap: Option<Option<Overlap>>,
    /// Of times that passed while no node was up for more than a minute: `last` (unless said), `skip` (none that is more
    /// than a minute late) or `all`. After less than a minute none counts as missed: each is acted on as `overlap` says.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    catch_up: Option<Option<CatchUp>>,
    /// Act on each time up to so many milliseconds later.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3_162_240_000_000i64)]
    jitter_ms: Option<Option<Millis>>,
    /// The queue of its runs, when not the definition's own.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    queue: Option<Option<String>>,
    /// What its runs belong to in their queue.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    group: Option<Option<String>>,
    /// The priority of its runs, from 0 (most urgent) to 9, when not the definition's own.
    #[serde(default, deserialize_with = "sent_priority")]
    #[schema(value_type = Option<u8>, maximum = 9)]
    priority: Option<Option<u8>>,
    /// Searchable attributes of its runs: all of them.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    tags: Option<Option<Tags>>,
    /// Whose its runs are.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>)]
    tenant: Option<Option<String>>,
    /// Nothing stays of one that is there: what is left away is as in a new one, and whoever asks is its owner.
    #[serde(default)]
    replace: bool,
    /// Why; for the audit log.
    #[serde(default)]
    pub(super) reason: Option<String>,
    /// Only say when it would start runs.
    #[serde(default)]
    pub(super) dry_run: bool,
}

/// What was sent, also where that is `null`.
fn sent<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn sent_priority<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u8>>, D::Error> {
    priority(from).map(Some)
}

/// A schedule as it shall be.
pub(super) struct Wanted {
    pub(super) schedule: Schedule,
    pub(super) definition: String,
    pub(super) expression: String,
    pub(super) zone: String,
    pub(super) input: String,
    pub(super) tenant: String,
}

impl SetSchedule {
    /// What is asked for upon what is there. A new one belongs to whoever asks, as one does that starts something else
    /// from now on; any other stays with whom it was.
    pub(super) fn upon(
        self,
        before: Option<&ScheduleView>,
        name: &str,
        actor: &str,
    ) -> Result<Wanted, Problem> {
        let card = before.filter(|_| !self.replace).map(|view| &view.card);
        let mut options = match card {
            Some(card) => PlanOptions::read(card)
                .map_err(|error| Error::misconfigured(format!("the options of {name:?}: {error}")))?,
            None => PlanOptions { owner: Some(actor.to_owned()), ..PlanOptions::default() },
        };
        let missing = |what: &str| {
            let detail =
                format!("{what} is missing: a schedule that is new, or replaced as a whole, needs one");
            Problem::new(Code::INVALID_ARGUMENT, detail)
        };
        let definition = self.definition.or_else(|| card.map(|card| card.definition.clone()));
        let definition = definition.ok_or_else(|| missing("definition"))?;
        let expression = self.expression.or_else(|| card.map(|card| card.timetable.clone()));
        let expression = expression.ok_or_else(|| missing("expression"))?;
        let zone = self.zone.unwrap_or_else(|| card.map(|card| card.zone.clone()));
        let zone = zone.unwrap_or_else(|| "UTC".to_owned());
        let input = match (self.input, card) {
            (Some(input), _) => input.get().to_owned(),
            (None, Some(card)) => card.input.json().map(str::to_owned).ok_or_else(|| {
                Problem::new(Code::CONFLICT, "its input is no JSON: send another").at("/input")
            })?,
            (None, None) => "null".to_owned(),
        };
        // It was given its roles, and its owner's name, for what it starts, with what and for whom: what somebody has it start
        // now is theirs.
        let other = |tenant: &Option<String>| tenant.as_deref().unwrap_or_default() != options.tenant;
        let is_other = self.tenant.as_ref().is_some_and(other)
            || card.is_some_and(|card| card.definition != definition || card.input.json() != Some(&*input));
        if is_other {
            options.roles.clear();
            options.owner = Some(actor.to_owned());
        }
        put(&mut options.overlap, self.overlap.map(Option::unwrap_or_default));
        put(&mut options.catch_up, self.catch_up.map(Option::unwrap_or_default));
        put(&mut options.queue, self.queue);
        put(&mut options.group, self.group);
        put(&mut options.priority, self.priority);
        put(&mut options.tenant, self.tenant.map(Option::unwrap_or_default));
        put(&mut options.tags, self.tags.map(|tags| tags.unwrap_or_default().0));
        let micros = |Millis(jitter): Millis| u64::try_from(jitter.as_micros()).unwrap_or(u64::MAX);
        put(&mut options.jitter_us, self.jitter_ms.map(|jitter| jitter.map(micros).unwrap_or_default()));
        let schedule = Schedule::cron(name, &expression).zone(&zone);
        let tenant = options.tenant.clone();
        Ok(Wanted { schedule: options.apply(schedule), definition, expression, zone, input, tenant })
    }
}

fn put<T>(place: &mut T, sent: Option<T>) {
    if let Some(sent) = sent {
        *place = sent;
    }
}
