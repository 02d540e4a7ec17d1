//! Queues: what they do, and what stands in them.

use std::collections::BTreeMap;

use outlast_core::{Rate, ShardCount, Status, Timestamp, Window};

use crate::rows::{ReadRow, cells};
use crate::transitions::{Flight, NOW, Place, read_counted_queue};
use crate::{Cell, GroupView, QueueCard, QueueView, RateView, Row, Sql, StoreError, Tx, Type};

/// The queues that somebody said something about.
pub(crate) async fn queues(tx: &mut dyn Tx, shards: ShardCount) -> Result<Vec<QueueCard>, StoreError> {
    let mut flight = Flight::default();
    let places: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(QUEUES_ALL.with(cells![shard]))).collect();
    let mut answers = flight.send_last(tx).await?;
    let rows = places.into_iter().flat_map(|place| answers.take(place));
    let mut queues = rows.map(|row| read_counted_queue(&row)).collect::<Result<Vec<_>, _>>()?;
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(queues)
}

/// What stands in each queue.
pub(crate) async fn queue_views(tx: &mut dyn Tx, shards: ShardCount) -> Result<Vec<QueueView>, StoreError> {
    let mut flight = Flight::default();
    let now = flight.add(NOW.with([]));
    let rows: Vec<Place> =
        (0..shards.max(1)).map(|shard| flight.add(QUEUES_ALL.with(cells![shard]))).collect();
    let counts: Vec<Place> = (0..shards.max(1))
        .map(|shard| flight.add(QUEUE_COUNTS.with(cells![shard, Status::Running, Status::Ready])))
        .collect();
    let mut answers = flight.send_last(tx).await?;
    let now = answers.take(now).first().map_or(Ok(Timestamp::default()), |row| row.time(0))?;
    let mut views: BTreeMap<String, QueueView> = BTreeMap::new();
    for row in rows.into_iter().flat_map(|place| answers.take(place)) {
        let queue = read_counted_queue(&row)?;
        let rate = match queue.rules.rate {
            Some(rate) => Some(of_rate(rate, Window::parse(&row.text(6)?), now)),
            None => None,
        };
        views.insert(queue.name.clone(), QueueView { rate, queue, ..QueueView::default() });
    }
    for row in counts.into_iter().flat_map(|place| answers.take(place)) {
        add_counts(&row, &mut views)?;
    }
    Ok(views.into_values().collect())
}

/// The groups of a queue that run most. Those that run are as few as nodes have slots; only for them the line is counted.
pub(crate) async fn queue_groups(
    tx: &mut dyn Tx,
    queue: &str,
    limit: u32,
    shards: ShardCount,
) -> Result<Vec<GroupView>, StoreError> {
    let mut running: BTreeMap<String, u64> = BTreeMap::new();
    let mut flight = Flight::default();
    let held = |shard: u16| GROUPS_RUNNING.with(cells![shard, queue]);
    let places: Vec<Place> = (0..shards.max(1)).map(|shard| flight.add(held(shard))).collect();
    let mut answers = flight.send(tx).await?;
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        *running.entry(row.text(0)?).or_default() += row.number::<u64>(1)?;
    }
    let view = |(name, running)| GroupView { name, running, in_line: 0 };
    let mut groups: Vec<GroupView> = running.into_iter().map(view).collect();
    groups.sort_by(|a, b| b.running.cmp(&a.running).then_with(|| a.name.cmp(&b.name)));
    groups.truncate(limit as usize);

    let names = Cell::Texts(groups.iter().map(|group| group.name.clone()).collect());
    let mut flight = Flight::default();
    let line = |shard: u16| GROUPS_IN_LINE.with(cells![shard, queue, names.clone()]);
    let places: Vec<Place> = (0..shards.max(1)).map(|shard| flight.add(line(shard))).collect();
    let mut answers = flight.send_last(tx).await?;
    for row in places.into_iter().flat_map(|place| answers.take(place)) {
        let (name, count) = (row.text(0)?, row.number::<u64>(1)?);
        if let Some(group) = groups.iter_mut().find(|group| group.name == name) {
            group.in_line += count;
        }
    }
    Ok(groups)
}

fn of_rate(rate: Rate, mut window: Window, now: Timestamp) -> RateView {
    let free = window.free(rate, now);
    RateView { used: rate.count.saturating_sub(free), free, freer_at: window.freer_at(rate) }
}

/// Adds what stands in a queue of one shard.
pub(crate) fn add_counts(row: &Row, views: &mut BTreeMap<String, QueueView>) -> Result<(), StoreError> {
    let name = row.text(0)?;
    let queue = QueueCard { name: name.clone(), ..QueueCard::default() };
    let view = views.entry(name).or_insert_with(|| QueueView { queue, ..QueueView::default() });
    let count = |at: usize| row.int(at).map(|count| u64::try_from(count).unwrap_or_default());
    view.due += count(1)?;
    view.later += count(2)?;
    view.running += count(3)?;
    view.waiting += count(4)?;
    view.oldest = [view.oldest, row.opt_time(5)?].into_iter().flatten().min();
    view.queued += count(6)?;
    view.scheduled += count(7)?;
    Ok(())
}

pub(super) static STATEMENTS: &[&Sql] = &[&QUEUES_ALL, &QUEUE_COUNTS, &GROUPS_RUNNING, &GROUPS_IN_LINE];

static GROUPS_RUNNING: Sql = Sql::new(
    "groups_running",
    "select a.group_key, count(*) from outlast.agenda as a
      where a.shard = {p1} and a.node is not null and a.queue = {p2} and a.group_key is not null group by a.group_key",
)
.takes(&[Type::Int, Type::Text])
.by("agenda_node");

static GROUPS_IN_LINE: Sql = Sql::new(
    "groups_in_line",
    "select a.group_key, count(*) from outlast.agenda as a
      where a.shard = {p1} and a.queue = {p2} and a.due_at is not null and a.group_key {in:p3} group by a.group_key",
)
.takes(&[Type::Int, Type::Text, Type::Texts]);

static QUEUES_ALL: Sql = Sql::new(
    "queues_all",
    "select q.name, q.rules, q.own_rules, q.state, q.since, q.changes, q.used from outlast.queues as q
      where q.shard = {p1} order by q.name",
)
.takes(&[Type::Int]);

pub(crate) static QUEUE_COUNTS: Sql = Sql::new(
    "queue_counts",
    "select a.queue, count(case when a.due_at <= {now} then 1 end), count(case when a.due_at > {now} then 1 end),
            count(case when a.status = {p2} then 1 end),
            count(case when a.due_at is null and a.status <> {p2} then 1 end),
            min(case when a.due_at <= {now} then a.due_at end),
            count(case when a.due_at <= {now} and a.status = {p3} then 1 end),
            count(case when a.due_at > {now} and a.status = {p3} then 1 end)
       from outlast.agenda as a where a.shard = {p1} group by a.queue",
)
.takes(&[Type::Int, Type::Int, Type::Int]);
