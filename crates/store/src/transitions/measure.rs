//! Notes how long the lines of queues are, once a minute, for charts that never look at runs.
//!
//! Whoever puts the minute's first row counts; for all others it has been done. What is counted is the agenda: unfinished
//! runs alone.

use outlast_core::{ShardCount, Status};

use super::access::HOME;
use super::claim::NOW;
use super::flight::{Flight, Place};
use crate::reads::{QUEUE_COUNTS, add_counts};
use crate::rows::{ReadRow, cells, micros};
use crate::{Measure, Sql, StoreError, Tx, Type};

/// Notes one minute; gives whether this call did it.
pub(crate) async fn measure(tx: &mut dyn Tx, ask: &Measure, shards: ShardCount) -> Result<bool, StoreError> {
    let mut flight = Flight::default();
    let mark = flight.add(DEPTHS_MARK.with(cells![HOME, ask.minute]));
    if flight.send(tx).await?.take(mark).is_empty() {
        Flight::default().send_last(tx).await?;
        return Ok(false);
    }
    let mut flight = Flight::default();
    let now = flight.add(NOW.with(cells![]));
    let counts: Vec<Place> = (0..shards.max(1))
        .map(|shard| flight.add(QUEUE_COUNTS.with(cells![shard, Status::Running, Status::Ready])))
        .collect();
    let mut answers = flight.send(tx).await?;
    let now = answers.take(now).first().map_or(Ok(ask.minute), |row| row.time(0))?;
    let mut views = std::collections::BTreeMap::new();
    for row in counts.into_iter().flat_map(|place| answers.take(place)) {
        add_counts(&row, &mut views)?;
    }
    let rows = views.into_values().map(|view| {
        let oldest = view.oldest.map_or(0, |oldest| micros(now.since(oldest)));
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        cells![view.queue.name, number(view.due), number(view.running), oldest]
    });
    let mut flight = Flight::default();
    flight.each(&DEPTHS_PUT, rows.collect(), cells![HOME, ask.minute]);
    flight.add(DEPTHS_FORGET.with(cells![HOME, micros(ask.keep)]));
    flight.send_last(tx).await?;
    Ok(true)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&DEPTHS_MARK, &DEPTHS_PUT, &DEPTHS_FORGET];

// No queue has an empty name: this row says that somebody looked.
static DEPTHS_MARK: Sql = Sql::new(
    "depths_mark",
    "insert into outlast.depths (shard, minute, queue, due, running, oldest) values ({p1}, {p2}, '', 0, 0, 0)
     on conflict do nothing returning minute",
)
.takes(&[Type::Int, Type::Int]);

static DEPTHS_PUT: Sql = Sql::new(
    "depths_put",
    "insert into outlast.depths (shard, minute, queue, due, running, oldest)
     select {p1}, {p2}, b.queue, b.due, b.running, b.oldest from {batch} where true on conflict do nothing",
)
.rows(&[("queue", Type::Text), ("due", Type::Int), ("running", Type::Int), ("oldest", Type::Int)])
.takes(&[Type::Int, Type::Int]);

static DEPTHS_FORGET: Sql =
    Sql::new("depths_forget", "delete from outlast.depths where shard = {p1} and minute < {now} - {p2}")
        .takes(&[Type::Int, Type::Int]);
