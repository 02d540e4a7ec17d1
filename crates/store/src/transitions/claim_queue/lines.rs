//! Which queues have somebody in line: one look at all of them, so that a claim, with its locks and counts, is made only
//! where it may bring something.
//!
//! Where looks from the front have become slow most begin where the last one found nobody before: see [`WholeLook`].

use std::collections::{BTreeMap, HashMap};

use outlast_core::{ShardCount, Timestamp};
use parking_lot::Mutex;

use super::floors::{Firsts, Floors};
use crate::rows::{ReadRow, cells};
use crate::transitions::claim::NOW;
use crate::transitions::flight::Flight;
use crate::whole_look::{AGAIN, ahead};
use crate::{Cell, Dialect, Lines, Sql, StoreError, Tx, Type, WholeLook};

/// What a process remembers of the lines of its queues.
#[derive(Debug, Default)]
pub(crate) struct LineMemory {
    kept: Mutex<Option<Kept>>,
    /// Every look counts as slow.
    slow_looks: bool,
}

#[derive(Debug, Clone)]
struct Kept {
    whole: WholeLook,
    /// The database's time of the last look.
    at: Timestamp,
    floors: HashMap<String, Floors>,
}

impl LineMemory {
    pub(crate) fn new(slow_looks: bool) -> LineMemory {
        LineMemory { slow_looks, ..LineMemory::default() }
    }

    fn recall(&self, queues: &[String]) -> Option<Kept> {
        let kept = self.kept.lock().clone()?;
        let knows_all = queues.iter().all(|queue| kept.floors.contains_key(queue));
        (knows_all && kept.whole.is_slow() && kept.whole.is_recent()).then_some(kept)
    }
}

/// Those of `queues` in which somebody is due, or will be, and since or from when.
pub(crate) async fn lines(
    tx: &mut dyn Tx,
    queues: &[String],
    shards: ShardCount,
    memory: &LineMemory,
) -> Result<Lines, StoreError> {
    let recalled = memory.recall(queues).filter(|_| tx.dialect() == Dialect::Postgres);
    let rows = rows(queues, recalled.as_ref());
    let mut flight = Flight::default();
    let began = flight.add(NOW.with([]));
    let ahead = ahead(recalled.is_some());
    let look = |shard| flight.each(&LINES, rows.clone(), cells![shard, ahead]);
    let found: Vec<_> = (0..shards.max(1)).filter_map(look).collect();
    let over = flight.add(NOW.with([]));
    let mut answers = flight.send_last(tx).await?;

    let mut time = |place| answers.take(place).first().map_or(Ok(Timestamp::default()), |row| row.time(0));
    let (now, over) = (time(began)?, time(over)?);
    let (mut due, mut firsts) = (BTreeMap::<String, Timestamp>::new(), HashMap::<String, Firsts>::new());
    for row in found.into_iter().flat_map(|place| answers.take(place)) {
        let (queue, first) = (row.text(0)?, row.time(2)?);
        firsts
            .entry(queue.clone())
            .or_insert_with(Firsts::of_all)
            .found(row.number(1)?, Some(first.micros()));
        due.entry(queue).and_modify(|due| *due = first.min(*due)).or_insert(first);
    }
    if tx.dialect() == Dialect::Sqlite {
        return Ok(Lines { due: due.into_iter().collect(), look_again: None });
    }
    let mut whole = match &recalled {
        // Time went back, in a test or after a failover: nothing that is remembered counts.
        Some(kept) if now < kept.at => {
            *memory.kept.lock() = None;
            return Ok(Lines {
                due: queues.iter().map(|queue| (queue.clone(), now)).collect(),
                look_again: None,
            });
        }
        Some(kept) => kept.whole,
        None if memory.slow_looks => WholeLook::endless(),
        None => WholeLook::over(over.since(now)),
    };
    let nobody = Firsts::of_all();
    let back = whole.next(now);
    let floor = |queue: &String| firsts.get(queue).unwrap_or(&nobody).floors(back);
    let floors = queues.iter().map(|queue| (queue.clone(), floor(queue))).collect();
    *memory.kept.lock() = Some(Kept { whole, at: now, floors });
    let look_again = recalled.map(|kept| kept.whole.left().min(AGAIN));
    Ok(Lines { due: due.into_iter().collect(), look_again })
}

/// Every priority of every queue, and where a look begins there.
fn rows(queues: &[String], recalled: Option<&Kept>) -> Vec<Vec<Cell>> {
    let front = Floors::default();
    let mut rows = Vec::new();
    for queue in queues {
        let floors = recalled.and_then(|kept| kept.floors.get(queue)).unwrap_or(&front);
        rows.extend(floors.lines().into_iter().map(|line| [cells![&**queue], line].concat()));
    }
    rows
}

pub(super) static STATEMENTS: &[&Sql] = &[&LINES];

static LINES: Sql = Sql::new(
    "lines",
    "select b.queue, b.priority, c.due_at from {batch} cross join lateral (
         select a.due_at from outlast.agenda as a
          where a.shard = {p1} and a.queue = b.queue and a.priority = b.priority and a.due_at >= b.since
            and a.due_at <= {now} + {p2}
          order by a.due_at limit 1) as c",
)
.on_sqlite(
    "select {b:queue}, {b:priority}, a.due_at from outlast.agenda as a
      where a.shard = {p1} and a.queue = {b:queue} and a.priority = {b:priority} and a.due_at >= {b:since}
        and a.due_at <= {now} + {p2}
      order by a.due_at limit 1",
)
.rows(&[("queue", Type::Text), ("priority", Type::Int), ("since", Type::Int)])
.takes(&[Type::Int, Type::Int])
.by("agenda_due");
