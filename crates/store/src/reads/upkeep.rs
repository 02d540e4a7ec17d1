//! How far the work beside the runs is: for whoever asks whether charts can be believed, whether what is old goes, and
//! whether the schema still fits.

use outlast_core::{ShardCount, Status, Timestamp};

use crate::rows::{ReadRow, cells};
use crate::transitions::{Flight, NOW, Place};
use crate::{Definitions, Sql, StoreError, Tx, Type, Upkeep, newest_schema};

/// How far what has ended is summed up.
pub(crate) async fn upkeep(tx: &mut dyn Tx, shards: ShardCount) -> Result<Upkeep, StoreError> {
    let mut flight = Flight::default();
    let now = flight.add(NOW.with([]));
    let unsummed: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(UPKEEP_UNSUMMED.with(cells![shard]))).collect();
    let schema = flight.add(UPKEEP_SCHEMA.with([]));
    let mut answers = flight.send_last(tx).await?;
    let mut upkeep = Upkeep::default();
    if let Some(row) = answers.take(now).first() {
        upkeep.now = row.time(0)?;
    }
    if let Some(row) = answers.take(schema).first() {
        let (at, serves) = (row.int(0)?, row.int(1)?);
        upkeep.schema_fits = serves <= newest_schema() && newest_schema() <= at;
    }
    for row in unsummed.into_iter().flat_map(|place| answers.take(place)) {
        upkeep.unsummed_since = [upkeep.unsummed_since, row.opt_time(0)?].into_iter().flatten().min();
    }
    Ok(upkeep)
}

/// How many of the oldest are looked at for one that is wanted.
const FEW: u32 = 1_000;

/// When the first ended that a purge of these would take, among the oldest.
pub(crate) async fn oldest_ended(
    tx: &mut dyn Tx,
    status: Status,
    of: &Definitions,
    shards: ShardCount,
) -> Result<Option<Timestamp>, StoreError> {
    let mut flight = Flight::default();
    let look = |shard: u16| OLDEST_ENDED.with(cells![shard, status, FEW]);
    let places: Vec<Place> = (0..shards.max(1)).map(|shard| flight.add(look(shard))).collect();
    let mut answers = flight.send_last(tx).await?;
    let mut oldest: Option<Timestamp> = None;
    for place in places {
        for row in answers.take(place) {
            if of.has(&row.text(1)?) {
                let ended = row.time(0)?;
                oldest = Some(oldest.map_or(ended, |oldest| oldest.min(ended)));
                break;
            }
        }
    }
    Ok(oldest)
}

pub(super) static STATEMENTS: &[&Sql] = &[&UPKEEP_UNSUMMED, &OLDEST_ENDED, &UPKEEP_SCHEMA];

// A run that stands for its kind for a time is kept until that is over.
static OLDEST_ENDED: Sql = Sql::new(
    "oldest_ended",
    "select y.finished_at, u.definition
       from (select o.run, o.finished_at from outlast.results as o
              where o.shard = {p1} and o.status = {p2} order by o.finished_at, o.run limit {p3}) as y
       join outlast.runs as u on u.shard = {p1} and u.id = y.run
      where not exists (select 1 from outlast.uniques as q
                         where q.shard = {p1} and q.run = y.run and q.scope = 2 and q.until > {now})
      order by y.finished_at, y.run",
)
.takes(&[Type::Int, Type::Int, Type::Int])
.by("results_by_status");

// The first that ended behind the mark. Without a mark nobody has ever summed up, and nobody looks at sums.
static UPKEEP_UNSUMMED: Sql = Sql::new(
    "upkeep_unsummed",
    "select (select o.finished_at from outlast.results as o
              where o.shard = {p1} and (o.finished_at, o.run) > (m.finished_at, m.run)
              order by o.finished_at, o.run limit 1)
       from outlast.rolled as m where m.shard = {p1}",
)
.takes(&[Type::Int])
.by("results_by_time");

// The newest file that was applied, and the oldest program that all of them serve.
static UPKEEP_SCHEMA: Sql = Sql::new(
    "upkeep_schema",
    "select coalesce(max(m.number), 0),
            coalesce((select cast(s.value as bigint) from outlast.meta as s where s.name = 'serves'), 0)
       from outlast.migrations as m",
);
