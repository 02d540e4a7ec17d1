//! How far the work beside the runs is: for whoever asks whether charts can be believed.

use outlast_core::ShardCount;

use crate::rows::{ReadRow, cells};
use crate::transitions::{Flight, NOW, Place};
use crate::{Sql, StoreError, Tx, Type, Upkeep};

/// How far what has ended is summed up.
pub(crate) async fn upkeep(tx: &mut dyn Tx, shards: ShardCount) -> Result<Upkeep, StoreError> {
    let mut flight = Flight::default();
    let now = flight.add(NOW.with([]));
    let unsummed: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(UPKEEP_UNSUMMED.with(cells![shard]))).collect();
    let mut answers = flight.send_last(tx).await?;
    let mut upkeep = Upkeep::default();
    if let Some(row) = answers.take(now).first() {
        upkeep.now = row.time(0)?;
    }
    for row in unsummed.into_iter().flat_map(|place| answers.take(place)) {
        upkeep.unsummed_since = [upkeep.unsummed_since, row.opt_time(0)?].into_iter().flatten().min();
    }
    Ok(upkeep)
}

pub(super) static STATEMENTS: &[&Sql] = &[&UPKEEP_UNSUMMED];

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
