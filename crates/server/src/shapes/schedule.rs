//! A schedule: when it fires, and what it started.

use std::collections::BTreeMap;

use outlast::{CatchUp, Overlap, ScheduleView};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{millis, raw};
use crate::schedule_commands::Plan;
use crate::when::When;

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
    next_at: Option<When>,
    last_at: Option<When>,
    last_run: Option<String>,
    #[schema(value_type = String)]
    overlap: Overlap,
    #[schema(value_type = String)]
    catch_up: CatchUp,
    jitter_ms: u64,
    queue: Option<String>,
    group: Option<String>,
    priority: Option<u8>,
    /// Whose its runs are; empty: nobody's.
    tenant: String,
    tags: BTreeMap<String, String>,
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
            next_at: view.card.next_at.filter(|_| !view.is_paused).map(When),
            last_at: view.last_at.map(When),
            last_run: view.last_run.map(|run| run.to_string()),
            overlap: plan.options.overlap,
            catch_up: plan.options.catch_up,
            jitter_ms: millis(plan.options.jitter()),
            queue: plan.options.queue,
            group: plan.options.group,
            priority: plan.options.priority,
            tenant: plan.options.tenant,
            tags: plan.options.tags.into_iter().collect(),
            started: view.started,
            skipped: view.skipped,
        }
    }
}
