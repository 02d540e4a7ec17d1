//! The short way of a start on PostgreSQL: one statement, which is a transaction by itself.
//!
//! Runs without keys and tags, as most are. Only whoever has just written a run's record gives it a place in
//! line: a repeat writes no record and so neither a second place nor one for a run that has ended since. What
//! comes back incomplete goes the long way, which finds out why.

use std::collections::{HashMap, HashSet};

use outlast_core::NodeId;

use super::flight::Flight;
use super::start::{place, places, record_row};
use crate::rows::{ReadRow, cells};
use crate::{Cell, Hold, NewRun, Signal, Sql, Started, StoreError, Tx, Type, code};

/// Starts all runs of these calls, or says `None`: then nothing is known of them.
pub(crate) async fn start_short(
    tx: &mut dyn Tx,
    calls: &[(&[NewRun], Option<Hold>)],
) -> Result<Option<Vec<Vec<Started>>>, StoreError> {
    let all = || calls.iter().flat_map(|(runs, hold)| runs.iter().map(|run| (run, *hold)));
    let shards: HashSet<u16> = all().map(|(run, _)| run.id.shard()).collect();
    let is_plain = |run: &NewRun| run.key.is_none() && run.tags.is_empty();
    let mut flight = Flight::default();
    let (Some(shard), 1) = (shards.iter().next(), shards.len()) else { return nothing(tx).await };
    if !all().all(|(run, _)| is_plain(run)) {
        return nothing(tx).await;
    }
    let nodes: HashSet<NodeId> = all().filter_map(|(_, hold)| Some(hold?.node)).collect();
    let nodes = Cell::Ids(nodes.into_iter().map(|node| node.uuid()).collect());
    let row = |(run, hold): (&NewRun, Option<Hold>)| {
        let code = code(&run.definition, run.version);
        record_row(run).into_iter().chain(place(run, hold)).chain(cells![code]).collect()
    };
    let params = places(*shard).into_iter().chain(cells![nodes]).collect();
    let placed = flight.each(&START, all().map(row).collect(), params);

    let mut held = HashMap::new();
    for row in flight.send_last(tx).await?.take_any(placed) {
        held.insert(row.run(0)?, row.int(1)? == 1);
    }
    if all().any(|(run, _)| !held.contains_key(&run.id)) {
        return Ok(None);
    }
    if held.values().any(|held| !held) {
        tx.signal(Signal::Due);
    }
    let created = |run: &NewRun| Started::Created { id: run.id, held: held[&run.id] };
    Ok(Some(calls.iter().map(|(runs, _)| runs.iter().map(created).collect()).collect()))
}

async fn nothing<T>(tx: &mut dyn Tx) -> Result<Option<T>, StoreError> {
    Flight::default().send_last(tx).await.map(|_| None)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&START];

static START: Sql = Sql::new(
    "start",
    "with fence as materialized (
         select n.id from outlast.nodes as n where n.shard = {p1} and n.id {in:p4} {key_share}
     ), new as (
         insert into outlast.runs (shard, id, tenant, definition, version, kind, queue, priority, created_at,
             owner, roles, trace, parent, parent_op, codec, input)
         select {p1}, b.id, b.tenant, b.definition, b.version, b.kind, b.queue, b.priority, {now}, b.owner,
                b.roles, b.trace, b.parent, b.parent_op, b.codec, b.input
           from {batch} where true on conflict do nothing returning id
     )
     insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, node, claim,
         epoch, news, expires_at, queue, code)
     select {p1}, b.id, case when n.id is null then {p2} else {p3} end, b.kind, b.priority, 1, 0,
            case when n.id is null then coalesce(b.due_at, {now} + b.delay) end, n.id,
            case when n.id is not null then b.claim end, case when n.id is null then 0 else 1 end, 0,
            {now} + b.timeout, b.queue, b.code
       from {batch} left join fence as n on n.id = b.node
      where b.id in (select r.id from new as r)
     on conflict do nothing returning id, case when node is null then 0 else 1 end",
)
.on_sqlite("")
.rows(&[
    ("id", Type::Id),
    ("tenant", Type::Text),
    ("definition", Type::Text),
    ("version", Type::Int),
    ("kind", Type::Int),
    ("key", Type::Text),
    ("queue", Type::Text),
    ("priority", Type::Int),
    ("owner", Type::Text),
    ("roles", Type::Text),
    ("trace", Type::Text),
    ("parent", Type::Id),
    ("parent_op", Type::Text),
    ("codec", Type::Text),
    ("input", Type::Bytes),
    ("due_at", Type::Int),
    ("delay", Type::Int),
    ("node", Type::Id),
    ("claim", Type::Int),
    ("timeout", Type::Int),
    ("code", Type::Text),
])
.takes(&[Type::Int, Type::Int, Type::Int, Type::Ids]);
