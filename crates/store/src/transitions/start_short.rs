//! The short way of a start: on PostgreSQL one statement, which is a transaction by itself, on SQLite two or three a run.
//!
//! Runs without keys and tags, as most are. Only whoever has just written a run's record gives it a place in
//! line: a repeat writes no record and so neither a second place nor one for a run that has ended since. What
//! was not new goes the long way, which finds out why.

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast_core::NodeId;

use super::agenda::fence;
use super::flight::Flight;
use super::start::{PLACE, RECORD, agenda_row, place, places, record_row, wanted_at};
use crate::rows::{ReadRow, cells};
use crate::{Cell, Due, Hold, NewRun, Signal, Sql, Started, StoreError, Tx, Type, code};

/// Starts all runs of these calls, or says `None`: then nothing is known of them.
pub(crate) async fn start_short(
    tx: &mut dyn Tx,
    calls: &[(&[NewRun], Option<Hold>)],
) -> Result<Option<Vec<Vec<Started>>>, StoreError> {
    let all = || calls.iter().flat_map(|(runs, hold)| runs.iter().map(|run| (run, *hold)));
    let shards: HashSet<u16> = all().map(|(run, _)| run.id.shard()).collect();
    let mut flight = Flight::default();
    let (Some(shard), 1) = (shards.iter().next(), shards.len()) else { return nothing(tx).await };
    if !all().all(|(run, _)| is_plain(run)) {
        return nothing(tx).await;
    }
    let nodes: HashSet<NodeId> = all().filter_map(|(_, hold)| Some(hold?.node)).collect();
    let nodes = Cell::Ids(nodes.into_iter().map(|node| node.uuid()).collect());
    let row = |(run, hold): (&NewRun, Option<Hold>)| {
        let mut row = record_row(run);
        // The record has when it is due already.
        row.extend(place(run, hold).into_iter().skip(2));
        row.push(Cell::from(code(&run.definition, run.version)));
        row
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

/// Starts runs row by row, unless one of them is not new or not plain: then go on the long way.
pub(crate) async fn start_rows(
    tx: &mut dyn Tx,
    runs: &[NewRun],
    hold: Option<Hold>,
) -> Result<Option<Vec<Started>>, StoreError> {
    if !runs.iter().all(is_plain_row) {
        return Ok(None);
    }
    let mut shards: BTreeMap<u16, Vec<&NewRun>> = BTreeMap::new();
    for run in runs {
        shards.entry(run.id.shard()).or_default().push(run);
    }
    if !take_keys(tx, &shards).await? {
        return Ok(None);
    }
    let mut flight = Flight::default();
    let mut asked = Vec::new();
    for (shard, runs) in &shards {
        let fenced = hold.map(|hold| flight.add(fence(*shard, hold.node)));
        let new =
            flight.each(&START_RECORD, runs.iter().map(|run| record_row(run)).collect(), cells![*shard]);
        asked.push((*shard, runs, fenced, new));
    }
    let mut answers = flight.send(tx).await?;
    let (mut flight, mut held) = (Flight::default(), HashSet::new());
    for (shard, runs, fenced, new) in asked {
        let new = answers.take_any(new).first().map_or(Ok(0), |row| row.int(0))?;
        if new as usize != runs.len() {
            return Ok(None);
        }
        let hold = hold.filter(|_| !answers.take_any(fenced).is_empty());
        if hold.is_some() {
            held.extend(runs.iter().filter(|run| run.due == Due::Now).map(|run| run.id));
        }
        flight.each(&START_PLACE, runs.iter().map(|run| agenda_row(run, hold)).collect(), places(shard));
    }
    flight.send_last(tx).await?;
    if held.len() < runs.len() {
        tx.signal(Signal::Due);
    }
    let created = |run: &NewRun| Started::Created { id: run.id, held: held.contains(&run.id) };
    Ok(Some(runs.iter().map(created).collect()))
}

/// Takes the keys of runs that have some. `false` if one is taken already, or reserved: those that were not are as if an
/// earlier try had taken them.
async fn take_keys(tx: &mut dyn Tx, shards: &BTreeMap<u16, Vec<&NewRun>>) -> Result<bool, StoreError> {
    let mut flight = Flight::default();
    let mut taken = Vec::new();
    for (shard, runs) in shards {
        let keyed = runs.iter().filter(|run| run.key.is_some());
        let keys = keyed.map(|run| cells![run.id, &*run.tenant, &*run.definition, run.key.clone()]);
        let keys: Vec<Vec<Cell>> = keys.collect();
        let count = keys.len();
        taken.extend(flight.each(&START_KEY, keys, cells![*shard]).map(|place| (place, count)));
    }
    if taken.is_empty() {
        return Ok(true);
    }
    let mut answers = flight.send(tx).await?;
    let mut all = true;
    for (place, count) in taken {
        let new = answers.take(place).first().map_or(Ok(0), |row| row.int(0))?;
        all &= new as usize == count;
    }
    Ok(all)
}

/// Row by row a key is one row more. Whoever has a parent may have to hear that it ended meanwhile.
fn is_plain_row(run: &NewRun) -> bool {
    run.tags.is_empty() && (run.key.is_none() || run.parent.is_none())
}

fn is_plain(run: &NewRun) -> bool {
    run.key.is_none() && run.tags.is_empty()
}

async fn nothing<T>(tx: &mut dyn Tx) -> Result<Option<T>, StoreError> {
    Flight::default().send_last(tx).await.map(|_| None)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&START, &START_KEY, &START_RECORD, &START_PLACE];

static START: Sql = Sql::new(
    "start",
    concat!(
        "with b as materialized (select * from {batch}), fence as materialized (
         select n.id from outlast.nodes as n where n.shard = {p1} and n.id {in:p4} {key_share}
     ), new as (
         insert into outlast.runs (shard, id, tenant, definition, version, kind, queue, priority, created_at,
             owner, roles, trace, parent, parent_op, codec, input, group_key, stops_with_parent, wanted_at)
         select {p1}, b.id, b.tenant, b.definition, b.version, b.kind, b.queue, b.priority, {now}, b.owner,
                b.roles, b.trace, b.parent, b.parent_op, b.codec, b.input, b.group_key,
                b.stops_with_parent, ",
        wanted_at!("b.due_at", "b.delay"),
        "
           from b
     )
     insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, node, claim,
         epoch, news, expires_at, queue, group_key, code, began_at)
     select {p1}, b.id, case when n.id is null then {p2} else {p3} end, b.kind, b.priority, 1, 0,
            case when n.id is null then coalesce(b.due_at, {now} + b.delay) end, n.id,
            case when n.id is not null then b.claim end, case when n.id is null then 0 else 1 end, 0,
            {now} + b.timeout, b.queue, b.group_key, b.code, case when n.id is not null then {now} end
       from b left join fence as n on n.id = b.node
     returning id, case when node is null then 0 else 1 end",
    ),
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
    ("group_key", Type::Text),
    ("unique_key", Type::Text),
    ("stops_with_parent", Type::Int),
    ("due_at", Type::Int),
    ("delay", Type::Int),
    ("node", Type::Id),
    ("claim", Type::Int),
    ("timeout", Type::Int),
    ("code", Type::Text),
])
// Runs that start at the same time are mostly of one definition.
.alike(&[
    "tenant",
    "definition",
    "version",
    "kind",
    "key",
    "queue",
    "priority",
    "owner",
    "roles",
    "parent",
    "parent_op",
    "codec",
    "unique_key",
    "stops_with_parent",
    "due_at",
    "delay",
    "node",
    "timeout",
    "code",
])
.takes(&[Type::Int, Type::Int, Type::Int, Type::Ids]);

static START_KEY: Sql = Sql::new("start_key", "")
    .on_sqlite(
        "insert into outlast.keys (shard, tenant, definition, key, run, started, news)
         values ({p1}, {b:tenant}, {b:definition}, {b:key}, {b:id}, 1, 0) on conflict do nothing",
    )
    .counted()
    .rows(&[("id", Type::Id), ("tenant", Type::Text), ("definition", Type::Text), ("key", Type::Text)])
    .takes(&[Type::Int]);

// Of one row each and with a single place where it may fail: SQLite then keeps nothing to undo.
static START_RECORD: Sql = Sql::new("start_record", "")
    .on_sqlite(
        concat!("insert into outlast.runs (shard, id, tenant, definition, version, kind, key, queue, priority, created_at,
             owner, roles, trace, parent, parent_op, codec, input, group_key, stops_with_parent, wanted_at)
         values ({p1}, {b:id}, {b:tenant}, {b:definition}, {b:version}, {b:kind}, {b:key}, {b:queue}, {b:priority},
             {now}, {b:owner}, {b:roles}, {b:trace}, {b:parent}, {b:parent_op}, {b:codec}, {b:input}, {b:group_key},
             {b:stops_with_parent}, ", wanted_at!("{b:due_at}", "{b:delay}"), ")
         on conflict do nothing"),
    )
    .counted()
    .rows(RECORD)
    .takes(&[Type::Int]);

static START_PLACE: Sql = Sql::new("start_place", "")
    .on_sqlite(
        "insert into outlast.agenda (shard, id, status, kind, priority, attempt, crashes, due_at, node, claim,
             epoch, news, expires_at, queue, group_key, code, began_at)
         values ({p1}, {b:id}, case when {b:node} is null then {p2} else {p3} end, {b:kind}, {b:priority}, 1, 0,
             case when {b:node} is null then coalesce({b:due_at}, {now} + {b:delay}) end, {b:node}, {b:claim},
             case when {b:node} is null then 0 else 1 end, 0, {now} + {b:timeout}, {b:queue}, {b:group_key}, {b:code},
             case when {b:node} is not null then {now} end)",
    )
    .rows(PLACE)
    .takes(&[Type::Int, Type::Int, Type::Int]);
