//! Sums up how runs ended, minute by minute, and groups failures that are alike.
//!
//! Whoever does it locks the shard's mark, goes on from there in the order of ends, adds what it finds and moves the mark,
//! in one transaction: so each end counts once, whoever does it and however often. Ending a run costs nothing more.

use std::collections::BTreeMap;

use outlast_core::{FailureDoc, RunId, Status, Timestamp, fingerprint, shorten};

use super::flight::Flight;
use crate::rows::{ReadRow, cells, micros, plain};
use crate::{Cell, Roll, Row, RunView, Sql, StoreError, Tx, Type};

/// A minute in microseconds.
pub(crate) const MINUTE: i64 = 60_000_000;
/// How much of a message is kept.
const MESSAGE: usize = 1_000;

/// What sums are kept for: minute, tenant, definition, queue.
type Key = (i64, String, String, String);
/// What failures that are alike are counted by: minute, tenant, fingerprint.
type Minute = (i64, String, String);

/// What versions of failures that are alike are known by: tenant, fingerprint, version.
type Version = (String, String, i64);

/// What failures are alike in, and what is said of them.
struct Alike {
    definition: String,
    message: String,
    step: Option<String>,
    runs: i64,
    first_at: Timestamp,
    last_at: Timestamp,
    last_run: RunId,
}

/// Sums up at most `ask.limit` ends; gives their number.
pub(crate) async fn roll(tx: &mut dyn Tx, ask: &Roll) -> Result<u32, StoreError> {
    let mut flight = Flight::default();
    flight.add(ROLLED_MAKE.with(cells![ask.shard, uuid::Uuid::nil()]));
    let mark = flight.add(ROLLED_LOCK.with(cells![ask.shard]));
    let mark = flight.send(tx).await?.take(mark);
    let Some(mark) = mark.first() else {
        // Somebody else does it.
        Flight::default().send_last(tx).await?;
        return Ok(0);
    };
    let mut flight = Flight::default();
    let from = cells![ask.shard, mark.int(0)?, mark.id(1)?, micros(ask.behind), ask.limit];
    let ended = flight.add(ROLL_LOOK.with(from));
    let ended = flight.send(tx).await?.take(ended);
    let Some(last) = ended.last() else {
        Flight::default().send_last(tx).await?;
        return Ok(0);
    };

    let mut ends = Ends::default();
    let mut alike = BTreeMap::new();
    let (mut minutes, mut versions) = (BTreeMap::new(), BTreeMap::new());
    for row in &ended {
        ends.count(row)?;
        if row.status(2)? == Status::Failed {
            add_failure(row, &mut alike, &mut minutes, &mut versions)?;
        }
    }
    let sums =
        ends.sums.into_iter().map(|((minute, tenant, definition, queue), [completed, failed, cancelled])| {
            cells![minute, tenant, definition, queue, completed, failed, cancelled]
        });
    let spans = |spans: BTreeMap<(Key, i64), i64>| -> Vec<Vec<Cell>> {
        let row = |(((minute, tenant, definition, queue), bucket), runs)| {
            cells![minute, tenant, definition, queue, bucket, runs]
        };
        spans.into_iter().map(row).collect()
    };
    let alike = alike.into_iter().map(
        |((tenant, fingerprint), Alike { definition, message, step, runs, first_at, last_at, last_run })| {
            cells![tenant, fingerprint, definition, message, step, runs, first_at, last_at, last_run]
        },
    );
    let minutes = minutes.into_iter().map(|((minute, tenant, fingerprint), runs): (Minute, i64)| {
        cells![minute, tenant, fingerprint, runs]
    });
    let versions =
        versions.into_iter().map(|((tenant, fingerprint, version), last_at): (Version, Timestamp)| {
            cells![tenant, fingerprint, version, last_at]
        });
    let mut flight = Flight::default();
    flight.each(&ROLL_SUMS, sums.collect(), cells![ask.shard]);
    flight.each(&ROLL_TIMES, spans(ends.times), cells![ask.shard]);
    flight.each(&ROLL_WAITS, spans(ends.waits), cells![ask.shard]);
    flight.each(&ROLL_FAILURES, alike.collect(), cells![ask.shard]);
    flight.each(&ROLL_FAILURE_MINUTES, minutes.collect(), cells![ask.shard]);
    flight.each(&ROLL_FAILURE_VERSIONS, versions.collect(), cells![ask.shard]);
    flight.add(ROLLED_MOVE.with(cells![ask.shard, last.int(1)?, last.id(0)?]));
    for sql in [
        &ROLLUPS_FORGET,
        &ROLLUP_TIMES_FORGET,
        &ROLLUP_WAITS_FORGET,
        &FAILURES_FORGET,
        &FAILURE_MINUTES_FORGET,
        &FAILURE_VERSIONS_FORGET,
    ] {
        flight.add(sql.with(cells![ask.shard, micros(ask.keep)]));
    }
    flight.send_last(tx).await?;
    Ok(u32::try_from(ended.len()).unwrap_or(u32::MAX))
}

/// How runs ended, and by the power of two of microseconds how long they took and stood in line.
#[derive(Default)]
struct Ends {
    sums: BTreeMap<Key, [i64; 3]>,
    times: BTreeMap<(Key, i64), i64>,
    waits: BTreeMap<(Key, i64), i64>,
}

impl Ends {
    fn count(&mut self, row: &Row) -> Result<(), StoreError> {
        let (at, made) = (row.int(1)?, row.int(7)?);
        let key = (minute(at), row.text(4)?, row.text(5)?, row.text(6)?);
        let place = match row.status(2)? {
            Status::Completed => 0,
            Status::Failed => 1,
            _ => 2,
        };
        self.sums.entry(key.clone()).or_default()[place] += 1;
        // Whoever ended before a node took it stood in line and was never served: it says nothing of how long that takes.
        if let Some(began) = row.opt_int(9)? {
            let waited = began - made.max(row.opt_int(10)?.unwrap_or(made));
            *self.waits.entry((key.clone(), power(waited))).or_default() += 1;
        }
        *self.times.entry((key, power(at - made))).or_default() += 1;
        Ok(())
    }
}

/// The power of two of a span.
fn power(span: i64) -> i64 {
    i64::from(span.max(1).ilog2())
}

/// Adds one failure to those that are like it.
fn add_failure(
    row: &Row,
    alike: &mut BTreeMap<(String, String), Alike>,
    minutes: &mut BTreeMap<Minute, i64>,
    versions: &mut BTreeMap<Version, Timestamp>,
) -> Result<(), StoreError> {
    let (run, finished_at) = (row.run(0)?, row.time(1)?);
    let (tenant, definition) = (row.text(4)?, row.text(5)?);
    let failure = failure_doc(row.opt_text(3)?.as_deref());
    let fingerprint = fingerprint(&definition, failure.as_ref());
    *minutes.entry((minute(finished_at.micros()), tenant.clone(), fingerprint.clone())).or_default() += 1;
    versions.insert((tenant.clone(), fingerprint.clone(), row.int(8)?), finished_at);
    let group = alike.entry((tenant, fingerprint)).or_insert_with(|| Alike {
        definition,
        message: String::new(),
        step: None,
        runs: 0,
        first_at: finished_at,
        last_at: finished_at,
        last_run: run,
    });
    group.runs += 1;
    let message = failure.as_ref().map(FailureDoc::message).unwrap_or_default();
    group.message = plain(&shorten(&message, MESSAGE));
    group.step = failure.as_ref().and_then(FailureDoc::step).map(plain);
    (group.last_at, group.last_run) = (finished_at, run);
    Ok(())
}

/// The beginning of a time's minute.
fn minute(at: i64) -> i64 {
    at - at.rem_euclid(MINUTE)
}

fn failure_doc(error: Option<&str>) -> Option<FailureDoc> {
    error.and_then(|error| serde_json::from_str(error).ok())
}

/// The fingerprint of the failures that a run's is alike to, if it failed: that of its [`FailureGroup`](crate::FailureGroup).
pub fn failure_of(view: &RunView) -> Option<String> {
    let error = view.ended.as_ref().filter(|_| view.status == Status::Failed)?.error.as_deref();
    Some(fingerprint(&view.record.definition, failure_doc(error).as_ref()))
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &ROLLED_MAKE,
    &ROLLED_LOCK,
    &ROLL_LOOK,
    &ROLL_SUMS,
    &ROLL_TIMES,
    &ROLL_WAITS,
    &ROLL_FAILURES,
    &ROLL_FAILURE_MINUTES,
    &ROLL_FAILURE_VERSIONS,
    &ROLLED_MOVE,
    &ROLLUPS_FORGET,
    &ROLLUP_TIMES_FORGET,
    &ROLLUP_WAITS_FORGET,
    &FAILURES_FORGET,
    &FAILURE_MINUTES_FORGET,
    &FAILURE_VERSIONS_FORGET,
];

static ROLLED_MAKE: Sql = Sql::new(
    "rolled_make",
    "insert into outlast.rolled (shard, finished_at, run) values ({p1}, 0, {p2}) on conflict do nothing",
)
.takes(&[Type::Int, Type::Id]);

static ROLLED_LOCK: Sql = Sql::new(
    "rolled_lock",
    "select m.finished_at, m.run from outlast.rolled as m where m.shard = {p1} {skip_locked}",
)
.takes(&[Type::Int]);

static ROLL_LOOK: Sql = Sql::new(
    "roll_look",
    "select z.run, z.finished_at, z.status, z.error, r.tenant, r.definition, r.queue, r.created_at, r.version, z.began_at, r.wanted_at
       from (select o.run, o.finished_at, o.status, o.error, o.began_at from outlast.results as o
              where o.shard = {p1} and (o.finished_at, o.run) > ({p2}, {p3}) and o.finished_at <= {now} - {p4}
              order by o.finished_at, o.run limit {p5}) as z
            cross join lateral (
                select r.tenant, r.definition, r.queue, r.created_at, r.version, r.wanted_at
                  from outlast.runs as r where r.shard = {p1} and r.id = z.run offset 0) as r
      order by z.finished_at, z.run",
)
.on_sqlite(
    "select z.run, z.finished_at, z.status, z.error, r.tenant, r.definition, r.queue, r.created_at, r.version, z.began_at, r.wanted_at
       from (select o.run, o.finished_at, o.status, o.error, o.began_at from outlast.results as o
              where o.shard = {p1} and (o.finished_at, o.run) > ({p2}, {p3}) and o.finished_at <= {now} - {p4}
              order by o.finished_at, o.run limit {p5}) as z
       join outlast.runs as r on r.shard = {p1} and r.id = z.run
      order by z.finished_at, z.run",
)
.takes(&[Type::Int, Type::Int, Type::Id, Type::Int, Type::Int])
.by("results_by_time");

static ROLL_SUMS: Sql = Sql::new(
    "roll_sums",
    "insert into outlast.rollups as u (shard, minute, tenant, definition, queue, completed, failed, cancelled)
     select {p1}, b.minute, b.tenant, b.definition, b.queue, b.completed, b.failed, b.cancelled from {batch} where true
     on conflict (shard, minute, tenant, definition, queue) do update
        set completed = u.completed + excluded.completed, failed = u.failed + excluded.failed,
            cancelled = u.cancelled + excluded.cancelled",
)
.rows(&[
    ("minute", Type::Int),
    ("tenant", Type::Text),
    ("definition", Type::Text),
    ("queue", Type::Text),
    ("completed", Type::Int),
    ("failed", Type::Int),
    ("cancelled", Type::Int),
])
.takes(&[Type::Int]);

macro_rules! roll_spans {
    ($table:literal) => {
        concat!(
            "insert into outlast.",
            $table,
            " as u (shard, minute, tenant, definition, queue, bucket, runs)
             select {p1}, b.minute, b.tenant, b.definition, b.queue, b.bucket, b.runs from {batch} where true
             on conflict (shard, minute, tenant, definition, queue, bucket) do update set runs = u.runs + excluded.runs"
        )
    };
}

const SPANS: &[(&str, Type)] = &[
    ("minute", Type::Int),
    ("tenant", Type::Text),
    ("definition", Type::Text),
    ("queue", Type::Text),
    ("bucket", Type::Int),
    ("runs", Type::Int),
];

static ROLL_TIMES: Sql = Sql::new("roll_times", roll_spans!("rollup_times")).rows(SPANS).takes(&[Type::Int]);

static ROLL_WAITS: Sql = Sql::new("roll_waits", roll_spans!("rollup_waits")).rows(SPANS).takes(&[Type::Int]);

static ROLL_FAILURES: Sql = Sql::new(
    "roll_failures",
    "insert into outlast.failures as u (shard, tenant, fingerprint, definition, message, step, runs, first_at, last_at, last_run)
     select {p1}, b.tenant, b.fingerprint, b.definition, b.message, b.step, b.runs, b.first_at, b.last_at, b.last_run
       from {batch} where true
     on conflict (shard, tenant, fingerprint) do update
        set message = excluded.message, step = excluded.step, runs = u.runs + excluded.runs, last_at = excluded.last_at,
            last_run = excluded.last_run",
)
.rows(&[
    ("tenant", Type::Text),
    ("fingerprint", Type::Text),
    ("definition", Type::Text),
    ("message", Type::Text),
    ("step", Type::Text),
    ("runs", Type::Int),
    ("first_at", Type::Int),
    ("last_at", Type::Int),
    ("last_run", Type::Id),
])
.takes(&[Type::Int]);

static ROLL_FAILURE_MINUTES: Sql = Sql::new(
    "roll_failure_minutes",
    "insert into outlast.failure_minutes as u (shard, minute, tenant, fingerprint, runs)
     select {p1}, b.minute, b.tenant, b.fingerprint, b.runs from {batch} where true
     on conflict (shard, minute, tenant, fingerprint) do update set runs = u.runs + excluded.runs",
)
.rows(&[("minute", Type::Int), ("tenant", Type::Text), ("fingerprint", Type::Text), ("runs", Type::Int)])
.takes(&[Type::Int]);

static ROLL_FAILURE_VERSIONS: Sql = Sql::new(
    "roll_failure_versions",
    "insert into outlast.failure_versions (shard, tenant, fingerprint, version, last_at)
     select {p1}, b.tenant, b.fingerprint, b.version, b.last_at from {batch} where true
     on conflict (shard, tenant, fingerprint, version) do update set last_at = excluded.last_at",
)
.rows(&[("tenant", Type::Text), ("fingerprint", Type::Text), ("version", Type::Int), ("last_at", Type::Int)])
.takes(&[Type::Int]);

static ROLLED_MOVE: Sql =
    Sql::new("rolled_move", "update outlast.rolled set finished_at = {p2}, run = {p3} where shard = {p1}")
        .takes(&[Type::Int, Type::Int, Type::Id]);

static ROLLUPS_FORGET: Sql =
    Sql::new("rollups_forget", "delete from outlast.rollups where shard = {p1} and minute < {now} - {p2}")
        .takes(&[Type::Int, Type::Int]);

static ROLLUP_TIMES_FORGET: Sql = Sql::new(
    "rollup_times_forget",
    "delete from outlast.rollup_times where shard = {p1} and minute < {now} - {p2}",
)
.takes(&[Type::Int, Type::Int]);

static ROLLUP_WAITS_FORGET: Sql = Sql::new(
    "rollup_waits_forget",
    "delete from outlast.rollup_waits where shard = {p1} and minute < {now} - {p2}",
)
.takes(&[Type::Int, Type::Int]);

static FAILURES_FORGET: Sql =
    Sql::new("failures_forget", "delete from outlast.failures where shard = {p1} and last_at < {now} - {p2}")
        .takes(&[Type::Int, Type::Int]);

static FAILURE_MINUTES_FORGET: Sql = Sql::new(
    "failure_minutes_forget",
    "delete from outlast.failure_minutes where shard = {p1} and minute < {now} - {p2}",
)
.takes(&[Type::Int, Type::Int]);

static FAILURE_VERSIONS_FORGET: Sql = Sql::new(
    "failure_versions_forget",
    "delete from outlast.failure_versions where shard = {p1} and last_at < {now} - {p2}",
)
.takes(&[Type::Int, Type::Int]);
