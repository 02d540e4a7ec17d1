//! Renews a node's lease and compares what it holds with what it knows.

use std::collections::{BTreeMap, HashMap};

use outlast_core::{RunId, ShardCount, Status};

use super::agenda;
use super::flight::{Flight, Place};
use super::join::long_lease;
use crate::rows::{ReadRow, cells, ids, micros};
use crate::{Dialect, Known, Renew, Renewed, Signal, Sql, StoreError, Tx, Type};

/// What a renewal found.
pub(crate) struct Look {
    /// What the node has to hear.
    pub(crate) renewed: Renewed,
    /// The runs that it holds by a settled claim without knowing them: they were handed out in a reply that got lost.
    pub(crate) strangers: Vec<RunId>,
    /// The smallest number of the claims by which it holds something.
    first: Option<i64>,
}

impl Look {
    /// From which claim on the next renewal looks. A node numbers its claims upwards: whatever it holds later it holds now, or
    /// takes by a claim that is not settled. Only a claim that nobody heard of may still take something with a smaller
    /// number, and waits for the next look at everything.
    pub(crate) fn next(&self, ask: &Renew) -> i64 {
        self.first.unwrap_or(i64::MAX).min(ask.settled.saturating_add(1))
    }
}

/// Renews the lease in every shard, and looks at what the node holds by claims from `from` on.
pub(crate) async fn renew(
    tx: &mut dyn Tx,
    ask: &Renew,
    from: Option<i64>,
    shards: ShardCount,
) -> Result<Look, StoreError> {
    let from = from.unwrap_or(i64::MIN);
    let mut flight = Flight::default();
    let mut places = Vec::new();
    for shard in 0..shards.max(1) {
        let (lease, long) = (micros(ask.lease), micros(long_lease(ask.lease)));
        let renewed = flight.add(NODES_RENEW.with(cells![shard, ask.node, lease, from, long]));
        let held = match tx.dialect() {
            Dialect::Sqlite => {
                flight.add(NODES_EXTEND.with(cells![shard, ask.node, lease]));
                flight.add(HELD_BY.with(cells![shard, ask.node]))
            }
            Dialect::Postgres => renewed,
        };
        places.push((renewed, held));
    }
    let mut answers = flight.send_last(tx).await?;

    let mut renewed = Renewed { alive: true, ..Renewed::default() };
    let mut held: HashMap<RunId, Held> = HashMap::new();
    for (lease, runs) in places {
        let rows = answers.take(lease);
        renewed.alive &= !rows.is_empty();
        if let Some(row) = rows.first() {
            renewed.now = row.time(0)?;
            renewed.rules_changes += row.opt_int(6)?.unwrap_or(0);
            renewed.next_fire = [renewed.next_fire, row.opt_time(7)?].into_iter().flatten().min();
            renewed.next_lapse = [renewed.next_lapse, row.opt_time(8)?].into_iter().flatten().min();
        }
        for row in if lease == runs { rows } else { answers.take(runs) } {
            // Who holds nothing is told so by a row without a run.
            if row.opt_id(1)?.is_some() {
                let pauses = row.int(5)? == 1;
                let (epoch, news, claim) = (row.int(2)?, row.int(3)?, row.int(4)?);
                held.insert(row.run(1)?, Held { epoch, news, claim, pauses });
            }
        }
    }

    let first = held.values().map(|row| row.claim).min();
    let ours = |known: &Known| held.get(&known.run).filter(|row| row.epoch == known.epoch);
    renewed.lost = ask.known.iter().filter(|known| ours(known).is_none()).map(|known| known.run).collect();
    let told = ask.known.iter().filter(|known| ours(known).is_some_and(|row| row.news > known.seen));
    renewed.news = told.map(|known| known.run).collect();
    let pausing = ask.known.iter().filter(|known| ours(known).is_some_and(|row| row.pauses));
    renewed.pausing = pausing.map(|known| known.run).collect();
    for known in &ask.known {
        held.remove(&known.run);
    }
    let strangers = held.into_iter().filter(|(_, row)| row.claim <= ask.settled).map(|(run, _)| run);
    Ok(Look { renewed, strangers: strangers.collect(), first })
}

struct Held {
    epoch: i64,
    news: i64,
    claim: i64,
    pauses: bool,
}

/// Makes runs due again that the node holds without knowing, and says how many, and whether it has to be tried
/// again: not while the node writes, perhaps for one of these runs, which would come behind whoever has it next.
/// One that someone has locked at this moment waits for the next renewal, because a renewal must not wait.
pub(crate) async fn free_strangers(
    tx: &mut dyn Tx,
    ask: &Renew,
    strangers: &[RunId],
) -> Result<(u64, bool), StoreError> {
    let strangers = agenda::by_shard(strangers.iter().copied());
    let mut flight = Flight::default();
    let nodes: Vec<Place> =
        strangers.keys().map(|shard| flight.add(NODE_LOCK_FREE.with(cells![*shard, ask.node]))).collect();
    let locks = agenda::add_locks(&mut flight, &strangers, false);
    let mut answers = flight.send(tx).await?;
    let ours: HashMap<u16, bool> =
        strangers.keys().copied().zip(nodes.into_iter().map(|node| !answers.take(node).is_empty())).collect();
    let locked = agenda::found(&mut answers, &locks)?;

    let mut shards: BTreeMap<u16, Vec<RunId>> = BTreeMap::new();
    for row in locked.into_values().filter(|row| row.node == Some(ask.node) && ours[&row.id.shard()]) {
        shards.entry(row.id.shard()).or_default().push(row.id);
    }
    let mut last = Flight::default();
    let free = |(shard, runs): (u16, Vec<RunId>)| {
        last.add(STRANGERS.with(cells![
            shard,
            ids(&runs),
            ask.node,
            ask.settled,
            Status::Ready,
            Status::Paused
        ]))
    };
    let places: Vec<Place> = shards.into_iter().map(free).collect();
    let mut answers = last.send_last(tx).await?;
    let freed = places.into_iter().map(|place| answers.take(place).len() as u64).sum();
    if freed > 0 {
        tx.signal(Signal::Due);
    }
    Ok((freed, ours.values().any(|ours| !ours)))
}

pub(crate) static STATEMENTS: &[&Sql] = &[&NODES_RENEW, &NODES_EXTEND, &HELD_BY, &NODE_LOCK_FREE, &STRANGERS];

// A renewal that was held up must not take back what a later one gave. One statement on PostgreSQL, so that a renewal is one
// round trip without a transaction around it. The node's own row comes first, as it does for whoever takes it away.
static NODES_RENEW: Sql = Sql::new(
    "nodes_renew",
    "with kept as materialized (
         update outlast.nodes set lease_until = {now} + {p5}
          where shard = {p1} and id = {p2} and lease_until < {now} + {p5} / 2 returning id
     ), renewed as (
         update outlast.leases set lease_until = greatest(lease_until, {now} + {p3})
          where shard = {p1} and node = {p2} and (select count(*) from kept) < 2 returning node
     )
     select {now}, a.id, a.epoch, a.news, a.claim, case when a.pause_asked is null then 0 else 1 end,
            (select cast(sum(q.changes) as bigint) from outlast.queues as q where q.shard = {p1}),
            (select min(s.due_at) from outlast.schedules as s where s.shard = {p1} and s.due_at is not null),
            (select min(o.lease_until) from outlast.members as o where o.shard = {p1} and o.id <> {p2})
       from renewed as n left join outlast.agenda as a on a.shard = {p1} and a.node = {p2} and a.claim >= {p4}",
)
// SQLite makes a table of what an update returns, and has no way to spare.
.on_sqlite(
    "select {now}, null, null, null, null, null,
            (select cast(sum(q.changes) as bigint) from outlast.queues as q where q.shard = {p1}),
            (select min(s.due_at) from outlast.schedules as s where s.shard = {p1} and s.due_at is not null),
            (select min(o.lease_until) from outlast.members as o where o.shard = {p1} and o.id <> {p2})
       from outlast.nodes as n where n.shard = {p1} and n.id = {p2} and {p4} is not null and {p5} is not null",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int, Type::Int])
.by("agenda_node");

static NODES_EXTEND: Sql = Sql::new("nodes_extend", "")
    .on_sqlite(
        "update outlast.nodes set lease_until = max(lease_until, {now} + {p3}) where shard = {p1} and id = {p2}",
    )
    .takes(&[Type::Int, Type::Id, Type::Int]);

static HELD_BY: Sql = Sql::new("held_by", "")
    .on_sqlite(
        "select 0, a.id, a.epoch, a.news, a.claim, case when a.pause_asked is null then 0 else 1 end
           from outlast.agenda as a where a.shard = {p1} and a.node = {p2}",
    )
    .takes(&[Type::Int, Type::Id])
    .by("agenda_node");

// Whoever takes runs from a node that lives locks its row against the fence.
static NODE_LOCK_FREE: Sql = Sql::new(
    "node_lock_free",
    "select n.id from outlast.nodes as n where n.shard = {p1} and n.id = {p2} {skip_locked}",
)
.takes(&[Type::Int, Type::Id]);

static STRANGERS: Sql = Sql::new(
    "renew_strangers",
    "update outlast.agenda set node = null, claim = null, epoch = epoch + 1,
            status = case when pause_asked is null then {p5} else {p6} end,
            due_at = case when pause_asked is null then {now} end, reason = pause_asked, pause_asked = null
      where shard = {p1} and id {in:p2} and node = {p3} and claim <= {p4} returning id",
)
.takes(&[Type::Int, Type::Ids, Type::Id, Type::Int, Type::Int, Type::Int]);
