//! Schedules: all of them, and those whose time has come.

use outlast_core::{ShardCount, Timestamp};

use crate::rows::{ReadRow, cells};
use crate::transitions::{Flight, Place, read_schedule, schedule_columns};
use crate::{ScheduleView, Sql, StoreError, Tx, Type};

/// All schedules, by name.
pub(crate) async fn schedules(tx: &mut dyn Tx, shards: ShardCount) -> Result<Vec<ScheduleView>, StoreError> {
    let mut flight = Flight::default();
    let places: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(SCHEDULES_ALL.with(cells![shard]))).collect();
    let mut answers = flight.send_last(tx).await?;
    let rows = places.into_iter().flat_map(|place| answers.take(place));
    let mut schedules = rows.map(|row| read_schedule(&row)).collect::<Result<Vec<_>, _>>()?;
    schedules.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(schedules)
}

/// Those that are due after the first of each shard, and when the next of the others is.
pub(crate) async fn schedules_due(
    tx: &mut dyn Tx,
    skip: u32,
    limit: u32,
    shards: ShardCount,
) -> Result<(Vec<ScheduleView>, Option<Timestamp>), StoreError> {
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for shard in 0..shards.max(1) {
        let due = flight.add(SCHEDULES_DUE.with(cells![shard, limit, skip]));
        places.push((due, flight.add(SCHEDULES_NEXT.with(cells![shard]))));
    }
    let mut answers = flight.send_last(tx).await?;
    let (mut due, mut next) = (Vec::new(), None);
    for (rows, later) in places {
        for row in answers.take(rows) {
            due.push(read_schedule(&row)?);
        }
        for row in answers.take(later) {
            next = [next, row.opt_time(0)?].into_iter().flatten().min();
        }
    }
    Ok((due, next))
}

pub(super) static STATEMENTS: &[&Sql] = &[&SCHEDULES_ALL, &SCHEDULES_DUE, &SCHEDULES_NEXT];

static SCHEDULES_ALL: Sql =
    Sql::new("schedules_all", concat!(schedule_columns!(), "order by s.name")).takes(&[Type::Int]);

static SCHEDULES_DUE: Sql = Sql::new(
    "schedules_due",
    concat!(
        schedule_columns!(),
        "and s.due_at is not null and s.due_at <= {now} order by s.due_at, s.name limit {p2} offset {p3}"
    ),
)
.takes(&[Type::Int, Type::Int, Type::Int]);

static SCHEDULES_NEXT: Sql = Sql::new(
    "schedules_next",
    "select min(s.due_at) from outlast.schedules as s
      where s.shard = {p1} and s.due_at is not null and s.due_at > {now}",
)
.takes(&[Type::Int]);
