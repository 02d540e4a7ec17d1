//! How runs ended, summed up, and failures that are alike.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_core::{ShardCount, Timestamp};

use crate::rows::{ReadRow, cells, micros};
use crate::transitions::{ACCESS_HOME, Flight, MINUTE, Place};
use crate::{
    Cell, DepthAsk, DepthPoint, FailureAsk, FailureGroup, Row, SeriesAsk, SeriesPoint, Sql, StoreError, Tx,
    Type,
};

/// Sums by span, oldest first; spans in which nothing ended are left out.
pub(crate) async fn series(
    tx: &mut dyn Tx,
    ask: &SeriesAsk,
    shards: ShardCount,
) -> Result<Vec<SeriesPoint>, StoreError> {
    let step = micros(ask.step).max(1);
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for shard in 0..shards.max(1) {
        let values = || {
            cells![
                shard,
                ask.from,
                ask.to,
                step,
                ask.tenant.clone(),
                ask.definition.clone(),
                ask.queue.clone()
            ]
        };
        places.push([&SERIES_SUMS, &SERIES_TIMES, &SERIES_WAITS].map(|sql| flight.add(sql.with(values()))));
    }
    let mut answers = flight.send_last(tx).await?;
    let mut points: BTreeMap<i64, SeriesPoint> = BTreeMap::new();
    let mut times: BTreeMap<(i64, u32), u64> = BTreeMap::new();
    let mut waits: BTreeMap<(i64, u32), u64> = BTreeMap::new();
    for [sums, spent, waited] in places {
        for row in answers.take(sums) {
            let point = points.entry(row.int(0)?).or_default();
            point.completed += row.number::<u64>(1)?;
            point.failed += row.number::<u64>(2)?;
            point.cancelled += row.number::<u64>(3)?;
        }
        for (place, spans) in [(spent, &mut times), (waited, &mut waits)] {
            for row in answers.take(place) {
                *spans.entry((row.int(0)?, row.number(1)?)).or_default() += row.number::<u64>(2)?;
            }
        }
    }
    for ((at, bucket), runs) in times {
        points.entry(at).or_default().times.push((bucket, runs));
    }
    for ((at, bucket), runs) in waits {
        points.entry(at).or_default().waits.push((bucket, runs));
    }
    let point = |(at, point)| SeriesPoint { at: Timestamp::from_micros(at), ..point };
    Ok(points.into_iter().map(point).collect())
}

/// How long queues were, span by span, oldest first; spans in which nobody looked are left out.
pub(crate) async fn depths(tx: &mut dyn Tx, ask: &DepthAsk) -> Result<Vec<DepthPoint>, StoreError> {
    let mut flight = Flight::default();
    let step = micros(ask.step).max(1);
    let found = flight.add(DEPTHS.with(cells![ACCESS_HOME, ask.from, ask.to, step, ask.queue.clone()]));
    let rows = flight.send_last(tx).await?.take(found);
    let point = |row: &Row| {
        Ok(DepthPoint {
            at: row.time(0)?,
            due: row.number(1)?,
            running: row.number(2)?,
            oldest: Duration::from_micros(row.number(3)?),
        })
    };
    rows.iter().map(point).collect::<Result<_, StoreError>>()
}

/// Failures that are alike, the last first.
pub(crate) async fn failures(
    tx: &mut dyn Tx,
    ask: &FailureAsk,
    shards: ShardCount,
) -> Result<Vec<FailureGroup>, StoreError> {
    // First which ones, and then all of them: a group that failed lately in one shard, or with one tenant, has others elsewhere.
    let named = Cell::Texts(failed_lately(tx, ask, shards).await?);
    let mut flight = Flight::default();
    let of_group = |shard: u16| cells![shard, ask.tenant.clone(), named.clone()];
    let places: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(FAILURES.with(of_group(shard)))).collect();
    let from = ask.since.micros() - ask.since.micros().rem_euclid(MINUTE);
    let range = (ask.until.micros() - from).max(0);
    let step = (range / FailureGroup::SPANS as i64).max(MINUTE);
    let last = usize::try_from(range / step).unwrap_or(0).min(FailureGroup::SPANS - 1);
    let spans = |shard: u16| cells![shard, from, step, ask.tenant.clone(), named.clone()];
    let counted: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(FAILURE_SPANS.with(spans(shard)))).collect();
    let versions: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(FAILURE_VERSIONS.with(of_group(shard)))).collect();
    let mut answers = flight.send_last(tx).await?;
    // Whoever looks at several tenants sees what they have in common: the same in each is one failure.
    let mut groups: BTreeMap<String, FailureGroup> = BTreeMap::new();
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let found = read(&row)?;
        let group = match groups.remove(&found.fingerprint) {
            None => found,
            Some(other) => together(other, found),
        };
        groups.insert(group.fingerprint.clone(), group);
    }
    for row in counted.into_iter().flat_map(|place| answers.take(place)) {
        let Some(group) = groups.get_mut(&row.text(0)?) else { continue };
        group.lately[row.number::<usize>(1)?.min(last)] += row.number::<u64>(2)?;
    }
    for row in versions.into_iter().flat_map(|place| answers.take(place)) {
        let Some(group) = groups.get_mut(&row.text(0)?) else { continue };
        group.versions.push(row.number(1)?);
    }
    let mut groups: Vec<FailureGroup> = groups.into_values().collect();
    for group in &mut groups {
        group.versions.sort_by(|a, b| b.cmp(a));
        group.versions.dedup();
        group.tenants.sort();
        group.tenants.dedup();
    }
    groups.iter_mut().for_each(|group| group.lately.truncate(last + 1));
    groups.sort_by(|a, b| (b.last_at, &b.fingerprint).cmp(&(a.last_at, &a.fingerprint)));
    Ok(groups)
}

/// What those have in common that failed last, of those that were asked for.
async fn failed_lately(
    tx: &mut dyn Tx,
    ask: &FailureAsk,
    shards: ShardCount,
) -> Result<Vec<String>, StoreError> {
    let mut flight = Flight::default();
    let values = |shard: u16| {
        let FailureAsk { tenant, definition, fingerprint, since, limit, .. } = ask.clone();
        cells![shard, since, tenant, definition, fingerprint, limit]
    };
    let places: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(FAILED_LATELY.with(values(shard)))).collect();
    let mut answers = flight.send(tx).await?;
    let mut last: BTreeMap<String, Timestamp> = BTreeMap::new();
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let at = last.entry(row.text(0)?).or_default();
        *at = row.time(1)?.max(*at);
    }
    let mut named: Vec<(Timestamp, String)> = last.into_iter().map(|(name, at)| (at, name)).collect();
    named.sort_by(|a, b| b.cmp(a));
    named.truncate(ask.limit as usize);
    Ok(named.into_iter().map(|(_, name)| name).collect())
}

/// The same failures of two shards or tenants.
fn together(mut a: FailureGroup, mut b: FailureGroup) -> FailureGroup {
    let (runs, first_at) = (a.runs + b.runs, a.first_at.min(b.first_at));
    let mut tenants = std::mem::take(&mut a.tenants);
    tenants.append(&mut b.tenants);
    let last = if a.last_at > b.last_at { a } else { b };
    FailureGroup { runs, first_at, tenants, ..last }
}

fn read(row: &Row) -> Result<FailureGroup, StoreError> {
    Ok(FailureGroup {
        tenant: row.text(0)?,
        tenants: vec![row.text(0)?],
        fingerprint: row.text(1)?,
        definition: row.text(2)?,
        message: row.text(3)?,
        runs: row.number(4)?,
        first_at: row.time(5)?,
        last_at: row.time(6)?,
        last_run: row.run(7)?,
        lately: vec![0; FailureGroup::SPANS],
        step: row.opt_text(8)?,
        versions: Vec::new(),
    })
}

pub(super) static STATEMENTS: &[&Sql] = &[
    &SERIES_SUMS,
    &SERIES_TIMES,
    &SERIES_WAITS,
    &DEPTHS,
    &FAILED_LATELY,
    &FAILURES,
    &FAILURE_SPANS,
    &FAILURE_VERSIONS,
];

const RANGE: &[Type] = &[Type::Int, Type::Int, Type::Int, Type::Int, Type::Text, Type::Text, Type::Text];

macro_rules! range_text {
    ($select:literal, $table:literal, $by:literal) => {
        concat!(
            "select u.minute - u.minute % {p4}, ",
            $select,
            " from outlast.",
            $table,
            " as u where u.shard = {p1} and u.minute >= {p2} and u.minute < {p3}
              and ({p5} is null or u.tenant = {p5}) and ({p6} is null or u.definition = {p6})
              and ({p7} is null or u.queue = {p7})
             group by ",
            $by
        )
    };
}

static SERIES_SUMS: Sql = Sql::new(
    "series_sums",
    range_text!(
        "cast(sum(u.completed) as bigint), cast(sum(u.failed) as bigint), cast(sum(u.cancelled) as bigint)",
        "rollups",
        "1"
    ),
)
.takes(RANGE);

static SERIES_TIMES: Sql =
    Sql::new("series_times", range_text!("u.bucket, cast(sum(u.runs) as bigint)", "rollup_times", "1, 2"))
        .takes(RANGE);

static SERIES_WAITS: Sql =
    Sql::new("series_waits", range_text!("u.bucket, cast(sum(u.runs) as bigint)", "rollup_waits", "1, 2"))
        .takes(RANGE);

// The queue without a name stands for the look itself: a queue that is not there was empty then.
static DEPTHS: Sql = Sql::new(
    "depths",
    "select m.minute - m.minute % {p4}, max(m.due), max(m.running), max(m.oldest)
       from (select d.minute as minute, cast(sum(d.due) as bigint) as due,
                    cast(sum(d.running) as bigint) as running, max(d.oldest) as oldest
               from outlast.depths as d
              where d.shard = {p1} and d.minute >= {p2} and d.minute < {p3}
                and ({p5} is null or d.queue = {p5} or d.queue = '')
              group by d.minute) as m
      group by 1 order by 1",
)
.takes(&[Type::Int, Type::Int, Type::Int, Type::Int, Type::Text]);

static FAILED_LATELY: Sql = Sql::new(
    "failed_lately",
    "select f.fingerprint, max(f.last_at) from outlast.failures as f
      where f.shard = {p1} and f.last_at >= {p2} and ({p3} is null or f.tenant = {p3})
        and ({p4} is null or f.definition = {p4}) and ({p5} is null or f.fingerprint = {p5})
      group by 1 order by 2 desc limit {p6}",
)
.takes(&[Type::Int, Type::Int, Type::Text, Type::Text, Type::Text, Type::Int]);

static FAILURES: Sql = Sql::new(
    "failures",
    "select f.tenant, f.fingerprint, f.definition, f.message, f.runs, f.first_at, f.last_at, f.last_run, f.step
       from outlast.failures as f
      where f.shard = {p1} and ({p2} is null or f.tenant = {p2}) and f.fingerprint {in:p3}",
)
.takes(&[Type::Int, Type::Text, Type::Texts]);

static FAILURE_SPANS: Sql = Sql::new(
    "failure_spans",
    "select m.fingerprint, (m.minute - {p2}) / {p3}, cast(sum(m.runs) as bigint)
       from outlast.failure_minutes as m
      where m.shard = {p1} and m.minute >= {p2} and ({p4} is null or m.tenant = {p4})
        and m.fingerprint {in:p5}
      group by 1, 2",
)
.takes(&[Type::Int, Type::Int, Type::Int, Type::Text, Type::Texts]);

static FAILURE_VERSIONS: Sql = Sql::new(
    "failure_versions",
    "select v.fingerprint, v.version from outlast.failure_versions as v
      where v.shard = {p1} and ({p2} is null or v.tenant = {p2}) and v.fingerprint {in:p3}",
)
.takes(&[Type::Int, Type::Text, Type::Texts]);
