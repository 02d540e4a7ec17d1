//! Sums for charts: how many runs there are, how they ended, how long they took, and failures that are alike.
//!
//! What has ended is summed up once, minute by minute, by whichever server comes first (`keep_summing`); nothing here
//! looks at runs that have ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use outlast::{Filter, QueueView, Status, Timestamp};
use outlast_store::{Access, Accessed, DepthPoint, FailureAsk, FailureGroup, Measure, Roll, SeriesPoint};
use serde::Serialize;
use utoipa::ToSchema;

use super::Inner;
use super::code::Code;
use super::problem::Problem;
use super::query::{Param, number, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use super::sums::{depths, floor, micros, points};
use crate::shapes::millis;
use crate::when::When;

/// How often what has ended is summed up, and how many at once.
const EVERY: Duration = Duration::from_secs(5);
const BATCH: u32 = 1000;
/// What ended later is summed up the next time: it may not be visible yet.
const BEHIND: Duration = Duration::from_secs(10);
/// How long sums are kept.
pub(super) const KEEP: Duration = Duration::from_secs(31 * 86_400);
/// The longest time that can be asked for, and the one that is meant unless said.
const LONGEST: Duration = Duration::from_secs(31 * 86_400);
const USUAL: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);
/// The most spans of a series.
const SPANS: u64 = 120;
/// How long a span can be, in minutes.
const STEPS: [u64; 10] = [1, 2, 5, 10, 15, 30, 60, 120, 360, 1440];
/// No more unfinished runs than this are counted.
const CAP: u32 = 10_000;

pub(crate) const RANGE: &[Param] =
    &[text("range", "The last so long: 15m, 1h (unless said), 24h, 7d"), text("def", "Of this definition")];
pub(crate) const SERIES: &[Param] = &[
    text("range", "The last so long: 15m, 1h (unless said), 24h, 7d"),
    text("def", "Of this definition"),
    text("queue", "Of this queue"),
];
pub(crate) const ERRORS: &[Param] = &[
    text("range", "Seen in the last so long: 1h (unless said), 24h, 7d"),
    text("def", "Of this definition"),
    text("fingerprint", "This group alone"),
    number("limit", "At most so many: 1 to 500, 50 unless said"),
];

/// How things stand, and how runs ended lately.
#[derive(Serialize, ToSchema)]
pub(crate) struct Summary {
    range_ms: u64,
    /// Unfinished ones, counted up to 10,000 each.
    running: u64,
    /// To begin or to be tried again, due, and not taken; those in line that are due later too, where `scheduled` is `null`.
    queued: u64,
    /// In line, and due later; `null` for one definition, and for a token of one tenant.
    scheduled: Option<u64>,
    waiting: u64,
    /// Paused, blocked, or with an undo that gave up: they need somebody.
    stopped: u64,
    /// Since when the one that has been due for longest waits; `null` where nobody does, or for a token of one tenant.
    oldest_due_at: Option<When>,
    /// Those that ended in the range, as far as they have been summed up: all but the last seconds.
    completed: u64,
    failed: u64,
    cancelled: u64,
    p50_ms: Option<u64>,
    p95_ms: Option<u64>,
    /// How long they stood in line before a node first took them.
    wait_p50_ms: Option<u64>,
    wait_p95_ms: Option<u64>,
}

/// How runs ended, span by span.
#[derive(Serialize, ToSchema)]
pub(crate) struct Series {
    step_ms: u64,
    points: Vec<Point>,
    /// Of the whole range: how long runs stood in line before a node first took them.
    wait_p50_ms: Option<u64>,
    wait_p95_ms: Option<u64>,
}

/// How runs ended in one span.
#[derive(Serialize, ToSchema)]
pub(crate) struct Point {
    at: When,
    completed: u64,
    failed: u64,
    cancelled: u64,
    /// From start to end; half of them took less. About: it is within a factor of two.
    p50_ms: Option<u64>,
    p95_ms: Option<u64>,
    /// How long they had stood in line before a node first took them, from when they were wanted. About, too.
    wait_p50_ms: Option<u64>,
    wait_p95_ms: Option<u64>,
    /// How many were due and not taken, at most: looked at once a minute. `null` where nobody looked, for one definition, and
    /// for a token of one tenant.
    queued: Option<u64>,
    /// How many nodes worked on, at most.
    running: Option<u64>,
    /// How long the one that was due first had been in line, at most.
    queue_wait_ms: Option<u64>,
}

/// Failures that are alike.
#[derive(Serialize, ToSchema)]
#[schema(as = ErrorGroup)]
pub(crate) struct ErrorGroupJson {
    pub(crate) fingerprint: String,
    definition: String,
    /// Whose the last one is.
    tenant: String,
    /// Whose they are: what fails alike with several tenants is one group for whoever sees all of them.
    tenants: Vec<String>,
    /// What the last one said.
    message: String,
    /// The step that failed in the last one, if one did.
    step: Option<String>,
    /// The versions of the definition in which runs failed like this, the newest first.
    versions: Vec<u32>,
    /// How many failed like this, as long as it is remembered.
    runs: u64,
    /// How many of them within the range, in whole minutes.
    runs_in_range: u64,
    /// The same, in at most thirty spans of the range, the oldest first.
    points: Vec<u64>,
    first_at: When,
    last_at: When,
    last_run: String,
}

/// Groups of failures, the last first.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorPage {
    items: Vec<ErrorGroupJson>,
}

/// How things stand.
pub(crate) async fn summary(call: Call) -> Answer {
    let (client, range) = (&call.api.client, range(&call)?);
    let definition = call.query.one("def").map(str::to_owned);
    let count = async |statuses: &[Status]| {
        let definition = definition.clone();
        let filter = Filter { statuses: statuses.to_vec(), definition, ..Filter::default() };
        Ok::<u64, Problem>(client.count(&call.caller.within(filter)?, CAP).await?)
    };
    let points = points(&call, range, range, MINUTE).await?;
    let mut all = SeriesPoint::default();
    for point in points {
        all.completed += point.completed;
        all.failed += point.failed;
        all.cancelled += point.cancelled;
        all.times.extend(point.times);
        all.waits.extend(point.waits);
    }
    let queues = match call.caller.tenant {
        Some(_) => None,
        None => {
            let mut views = client.queues().await?;
            views.retain(|view| call.caller.sees_queue(&view.queue.name));
            Some(views)
        }
    };
    let oldest = queues.iter().flatten().filter_map(|view| view.oldest).min();
    // Queues tell no definition from another.
    let views = queues.filter(|_| definition.is_none());
    let sum = |of: fn(&QueueView) -> u64| {
        views.as_ref().map(|views| views.iter().map(of).sum::<u64>().min(CAP.into()))
    };
    let queued = match sum(|view| view.queued) {
        Some(queued) => queued,
        None => count(&[Status::Ready]).await?,
    };
    Reply::json(&Summary {
        range_ms: millis(range),
        running: count(&[Status::Running, Status::Undoing]).await?,
        queued,
        scheduled: sum(|view| view.scheduled),
        waiting: count(&[Status::Waiting]).await?,
        stopped: count(&[Status::Paused, Status::Blocked, Status::UndoFailed]).await?,
        oldest_due_at: oldest.map(When),
        completed: all.completed,
        failed: all.failed,
        cancelled: all.cancelled,
        p50_ms: quantile(&all.times, 0.5),
        p95_ms: quantile(&all.times, 0.95),
        wait_p50_ms: quantile(&all.waits, 0.5),
        wait_p95_ms: quantile(&all.waits, 0.95),
    })
}

/// How runs ended, span by span; spans in which nothing did are there too.
pub(crate) async fn series(call: Call) -> Answer {
    let range = range(&call)?;
    let minutes = range.as_secs().div_ceil(60);
    let step = STEPS.into_iter().find(|step| minutes / step <= SPANS).unwrap_or(STEPS[STEPS.len() - 1]);
    let step = Duration::from_secs(step * 60);
    let found = points(&call, range, step, step).await?;
    let depths = depths(&call, range, step).await?;
    let now = call.api.client.store().now().await?;
    let mut points = Vec::new();
    let mut at = floor(now.micros() - micros(range), micros(step));
    while at <= now.micros() {
        let known = found.iter().find(|point| point.at.micros() == at).cloned();
        let depth = depths.iter().find(|depth| depth.at.micros() == at);
        let point = SeriesPoint { at: Timestamp::from_micros(at), ..known.unwrap_or_default() };
        points.push(Point::new(point, depth));
        at += micros(step);
    }
    let waits: Vec<(u32, u64)> = found.into_iter().flat_map(|point| point.waits).collect();
    let [wait_p50_ms, wait_p95_ms] = [0.5, 0.95].map(|share| quantile(&waits, share));
    Reply::json(&Series { step_ms: millis(step), points, wait_p50_ms, wait_p95_ms })
}

/// Failures that are alike.
pub(crate) async fn errors(call: Call) -> Answer {
    let range = range(&call)?;
    let store = call.api.client.store();
    let until = store.now().await?;
    let since = Timestamp::from_micros(until.micros() - micros(range));
    let ask = FailureAsk {
        tenant: call.caller.tenant.clone(),
        definition: call.query.one("def").map(str::to_owned),
        fingerprint: call.query.one("fingerprint").map(str::to_owned),
        since,
        until,
        limit: call.query.number("limit", 1..=500, 50)?,
    };
    let groups = store.failures(&ask).await?;
    Reply::json(&ErrorPage { items: groups.into_iter().map(ErrorGroupJson::new).collect() })
}

fn range(call: &Call) -> Result<Duration, Problem> {
    match (call.query.one("range"), call.query.duration("range", LONGEST)?) {
        (None, _) => Ok(USUAL),
        (Some(_), Duration::ZERO) => {
            Err(Problem::new(Code::INVALID_DURATION, "a range of no length has nothing in it: say 1h or so"))
        }
        (Some(_), range) => Ok(range),
    }
}

impl Point {
    fn new(point: SeriesPoint, depth: Option<&DepthPoint>) -> Point {
        Point {
            at: When(point.at),
            completed: point.completed,
            failed: point.failed,
            cancelled: point.cancelled,
            p50_ms: quantile(&point.times, 0.5),
            p95_ms: quantile(&point.times, 0.95),
            wait_p50_ms: quantile(&point.waits, 0.5),
            wait_p95_ms: quantile(&point.waits, 0.95),
            queued: depth.map(|depth| depth.due),
            running: depth.map(|depth| depth.running),
            queue_wait_ms: depth.map(|depth| millis(depth.oldest)),
        }
    }
}

impl ErrorGroupJson {
    pub(crate) fn new(group: FailureGroup) -> ErrorGroupJson {
        let FailureGroup {
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
            lately,
        } = group;
        ErrorGroupJson {
            fingerprint,
            definition,
            tenant,
            tenants,
            message,
            step,
            versions,
            runs,
            runs_in_range: lately.iter().sum(),
            points: lately,
            first_at: When(first_at),
            last_at: When(last_at),
            last_run: last_run.to_string(),
        }
    }
}

/// How long that part of them took at most, in milliseconds: as if those of a power of two were spread evenly over it.
fn quantile(times: &[(u32, u64)], part: f64) -> Option<u64> {
    let mut buckets = std::collections::BTreeMap::new();
    for (bucket, runs) in times {
        *buckets.entry(*bucket).or_insert(0) += runs;
    }
    let all: u64 = buckets.values().sum();
    let wanted = part * all as f64;
    let mut before = 0.0;
    for (bucket, runs) in buckets {
        let runs = runs as f64;
        if before + runs >= wanted && runs > 0.0 {
            let (from, within) = (2_f64.powi(bucket as i32), (wanted - before) / runs);
            // Whatever took less than a millisecond took one: nothing takes no time.
            return Some((from * (1.0 + within) / 1000.0).round().max(1.0) as u64);
        }
        before += runs;
    }
    None
}

/// Sums up what has ended, again and again, while the API is there.
pub(crate) async fn keep_summing(api: Weak<Inner>) {
    loop {
        let Some(inner) = api.upgrade() else { return };
        if let Err(error) = sum(&inner).await {
            tracing::debug!(%error, "what has ended was not summed up");
        }
        let stopping = inner.stopping.clone();
        drop(inner);
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stopping.cancelled() => return,
        }
    }
}

async fn sum(api: &Arc<Inner>) -> Result<(), outlast_store::StoreError> {
    let store = api.client.store();
    for shard in 0..store.shards().max(1) {
        let ask = Roll { shard, limit: BATCH, behind: BEHIND, keep: KEEP };
        while store.roll(&ask).await? == BATCH && !api.stopping.is_cancelled() {}
    }
    let minute = Timestamp::from_micros(floor(store.now().await?.micros(), micros(MINUTE)));
    // Whoever notes the minute does what is done once a minute.
    if store.measure(&Measure { minute, keep: KEEP }).await? {
        let forget = Access::Forget { keep: api.keep_audit, limit: BATCH };
        let is_full = |forgotten| forgotten == Accessed::Forgotten(BATCH);
        while is_full(store.access(&forget).await?) && !api.stopping.is_cancelled() {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_within_their_power_of_two() {
        assert_eq!(quantile(&[], 0.5), None);
        // From 1024 to 2048 microseconds, and from a second to two.
        assert_eq!(quantile(&[(10, 4)], 0.5), Some(2));
        assert_eq!(quantile(&[(20, 4)], 0.5), Some(1_573));
        assert_eq!(quantile(&[(3, 4)], 0.5), Some(1), "nothing takes no time");
        let most = quantile(&[(10, 90), (20, 10)], 0.95).unwrap();
        assert!((1_048..2_098).contains(&most), "{most}");
        assert_eq!(quantile(&[(10, 2), (10, 2)], 0.5), quantile(&[(10, 4)], 0.5));
    }
}
