//! Schedules: set, paused, resumed, deleted; and fired, once for each time.
//!
//! When a schedule is due is decided outside, by whoever finds that its time has come. What is decided counts only if
//! the schedule still stands where it stood: of any number of nodes one starts the run.

use std::collections::BTreeMap;

use outlast_core::{RunId, ShardCount, Timestamp, shard_of_key};

use super::control::cancel;
use super::flight::Flight;
use super::keys;
use super::start::{name_of, start};
use crate::rows::{ReadRow, cells, payload_cells};
use crate::{
    Fire, Fired, Row, ScheduleCard, ScheduleChange, ScheduleView, Signal, Sql, StoreError, Tx, Type,
};

/// The shard in which a schedule has its row.
fn home(name: &str, shards: ShardCount) -> u16 {
    shard_of_key("", "schedule", name, shards.max(1))
}

/// Does what people and code ask of a schedule; says how it stands now, or nothing when there is none.
pub(crate) async fn change(
    tx: &mut dyn Tx,
    name: &str,
    change: &ScheduleChange,
    shards: ShardCount,
) -> Result<Option<ScheduleView>, StoreError> {
    let shard = home(name, shards);
    let mut flight = Flight::default();
    let locked = flight.add(SCHEDULE_LOCK.with(cells![shard, name]));
    let rows = flight.send(tx).await?.take(locked);
    let old = rows.first().map(read).transpose()?;
    let mut flight = Flight::default();
    match change {
        // What stays the same keeps its place in time.
        ScheduleChange::Put(card) if old.as_ref().is_some_and(|old| old.card.is_same(card)) => {}
        ScheduleChange::Put(card) => {
            let (codec, input) = payload_cells(Some(&card.input));
            // Nor does it lose its place, and what has come meanwhile, because its runs are to be others.
            let (next_at, due_at, waiting) = match &old {
                Some(old) if old.card.has_same_times(card) => {
                    (old.card.next_at, old.card.due_at, line_text(&old.waiting))
                }
                _ => (card.next_at, card.due_at, String::new()),
            };
            flight.add(SCHEDULE_PUT.with(cells![
                shard,
                name,
                &*card.timetable,
                &*card.zone,
                &*card.definition,
                codec,
                input,
                &*card.options,
                next_at,
                due_at,
                waiting,
            ]));
        }
        ScheduleChange::Pause => {
            flight.add(SCHEDULE_PAUSE.with(cells![shard, name]));
        }
        ScheduleChange::Resume { next_at, due_at } => {
            flight.add(SCHEDULE_RESUME.with(cells![shard, name, *next_at, *due_at]));
        }
        ScheduleChange::Delete => {
            flight.add(SCHEDULE_DELETE.with(cells![shard, name]));
        }
    }
    let look = flight.add(SCHEDULE_LOOK.with(cells![shard, name]));
    let rows = flight.send_last(tx).await?.take(look);
    tx.signal(Signal::Schedules);
    match change {
        ScheduleChange::Delete => Ok(old),
        _ => rows.first().map(read).transpose(),
    }
}

/// Starts what a schedule's time asks for, unless somebody else has, and moves it on.
pub(crate) async fn fire(tx: &mut dyn Tx, ask: &Fire, shards: ShardCount) -> Result<Fired, StoreError> {
    let shard = home(&ask.name, shards);
    let mut flight = Flight::default();
    let moved = flight.add(SCHEDULE_MOVE.with(cells![
        shard,
        &*ask.name,
        ask.at,
        ask.next_at,
        ask.due_at,
        ask.runs.last().map(|run| run.id.uuid()),
        ask.runs.len() as i64,
        i64::from(ask.skipped),
        ask.last_at,
        line_text(&ask.waited),
        line_text(&ask.waiting),
    ]));
    if flight.send(tx).await?.take(moved).is_empty() {
        Flight::default().send_last(tx).await?;
        return Ok(Fired::Lost);
    }
    // With the start of the next: whoever dies in between leaves neither or both.
    if let Some((run, reason)) = &ask.stops {
        let (flight, _) = cancel(tx, *run, reason).await?;
        flight.send(tx).await?;
    }
    note_last_run(tx, ask, shard).await?;
    Ok(Fired::Done(start(tx, &ask.runs, None).await?))
}

/// The time may have its run already, by a backfill, or an id that a message to it reserved: then that one is the last.
async fn note_last_run(tx: &mut dyn Tx, ask: &Fire, shard: u16) -> Result<(), StoreError> {
    let Some((run, name)) = ask.runs.last().and_then(|run| Some((run, name_of(run)?))) else { return Ok(()) };
    let mut flight = Flight::default();
    let locks = keys::add_reserve(&mut flight, &BTreeMap::from([(name.clone(), run.id)]), true, true);
    let held = keys::held(&keys::found(&mut flight.send(tx).await?, &locks)?, &name)?.run;
    if held != run.id {
        let mut flight = Flight::default();
        flight.add(SCHEDULE_RUN.with(cells![shard, &*ask.name, held]));
        flight.send(tx).await?;
    }
    Ok(())
}

fn line_text(line: &[(Timestamp, Timestamp)]) -> String {
    let spans = line.iter().map(|(first, last)| format!("{}:{}", first.micros(), last.micros()));
    spans.collect::<Vec<_>>().join(",")
}

/// What nobody can read waits no more.
fn read_line(text: &str) -> Vec<(Timestamp, Timestamp)> {
    let time = |text: &str| text.parse().ok().map(Timestamp::from_micros);
    let spans = text.split(',').filter_map(|span| span.split_once(':'));
    spans.filter_map(|(first, last)| Some((time(first)?, time(last)?))).collect()
}

/// A schedule from the columns that [`SCHEDULE_LOOK`] gives.
pub(crate) fn read(row: &Row) -> Result<ScheduleView, StoreError> {
    let time = |at: usize| -> Result<Option<Timestamp>, StoreError> { row.opt_time(at) };
    Ok(ScheduleView {
        name: row.text(0)?,
        card: ScheduleCard {
            timetable: row.text(1)?,
            zone: row.text(2)?,
            definition: row.text(3)?,
            input: row.payload(4)?.unwrap_or_default(),
            options: row.text(6)?,
            next_at: time(8)?,
            due_at: time(9)?,
        },
        is_paused: row.int(7)? == 1,
        waiting: read_line(&row.text(14)?),
        last_at: time(10)?,
        last_run: row.opt_id(11)?.map(RunId::from_uuid),
        started: u64::try_from(row.int(12)?).unwrap_or_default(),
        skipped: u64::try_from(row.int(13)?).unwrap_or_default(),
    })
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &SCHEDULE_LOCK,
    &SCHEDULE_LOOK,
    &SCHEDULE_PUT,
    &SCHEDULE_PAUSE,
    &SCHEDULE_RESUME,
    &SCHEDULE_DELETE,
    &SCHEDULE_MOVE,
    &SCHEDULE_RUN,
];

/// The columns of a schedule.
macro_rules! schedule_columns {
    () => {
        "select s.name, s.timetable, s.zone, s.definition, s.codec, s.input, s.options, s.paused, s.next_at, s.due_at,
                s.last_at, s.last_run, s.started, s.skipped, s.waiting
           from outlast.schedules as s where s.shard = {p1} "
    };
}
pub(crate) use schedule_columns;

static SCHEDULE_LOCK: Sql =
    Sql::new("schedule_lock", concat!(schedule_columns!(), "and s.name = {p2} {for_update}"))
        .takes(&[Type::Int, Type::Text]);

static SCHEDULE_LOOK: Sql = Sql::new("schedule_look", concat!(schedule_columns!(), "and s.name = {p2}"))
    .takes(&[Type::Int, Type::Text]);

// One that is paused stays so, whatever else is said of it.
static SCHEDULE_PUT: Sql = Sql::new(
    "schedule_put",
    "insert into outlast.schedules as s (shard, name, timetable, zone, definition, codec, input, options, paused,
         next_at, due_at, started, skipped, waiting, changed_at)
     values ({p1}, {p2}, {p3}, {p4}, {p5}, {p6}, {p7}, {p8}, 0, {p9}, {p10}, 0, 0, {p11}, {now})
     on conflict (shard, name) do update
        set timetable = excluded.timetable, zone = excluded.zone, definition = excluded.definition,
            codec = excluded.codec, input = excluded.input, options = excluded.options,
            next_at = excluded.next_at, due_at = case when s.paused = 1 then null else excluded.due_at end,
            waiting = excluded.waiting, changed_at = excluded.changed_at",
)
.takes(&[
    Type::Int,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Text,
    Type::Bytes,
    Type::Text,
    Type::Int,
    Type::Int,
    Type::Text,
]);

static SCHEDULE_PAUSE: Sql = Sql::new(
    "schedule_pause",
    "update outlast.schedules set paused = 1, due_at = null, changed_at = {now}
      where shard = {p1} and name = {p2} and paused = 0",
)
.takes(&[Type::Int, Type::Text]);

static SCHEDULE_RESUME: Sql = Sql::new(
    "schedule_resume",
    "update outlast.schedules set paused = 0, next_at = {p3}, due_at = {p4}, waiting = '', changed_at = {now}
      where shard = {p1} and name = {p2} and paused = 1",
)
.takes(&[Type::Int, Type::Text, Type::Int, Type::Int]);

static SCHEDULE_DELETE: Sql =
    Sql::new("schedule_delete", "delete from outlast.schedules where shard = {p1} and name = {p2}")
        .takes(&[Type::Int, Type::Text]);

static SCHEDULE_MOVE: Sql = Sql::new(
    "schedule_move",
    "update outlast.schedules set next_at = {p4}, due_at = {p5}, last_run = coalesce({p6}, last_run),
            started = started + {p7}, skipped = skipped + {p8}, last_at = coalesce({p9}, last_at),
            waiting = {p11}
      where shard = {p1} and name = {p2} and next_at = {p3} and waiting = {p10} and paused = 0 returning name",
)
.takes(&[
    Type::Int,
    Type::Text,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Id,
    Type::Int,
    Type::Int,
    Type::Int,
    Type::Text,
    Type::Text,
]);

static SCHEDULE_RUN: Sql = Sql::new(
    "schedule_run",
    "update outlast.schedules set last_run = {p3} where shard = {p1} and name = {p2}",
)
.takes(&[Type::Int, Type::Text, Type::Id]);
