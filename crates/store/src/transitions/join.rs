//! A node starts: its rows, its definitions, and the runs that waited for its code.

use std::collections::HashSet;
use std::time::Duration;

use outlast_core::{ShardCount, Status};

use super::flight::{Answers, Flight, Place};
use super::queue;
use super::sweep::{NODES_LIVE, live_codes};
use crate::rows::{self, cells, micros};
use crate::{Cell, DefinitionCard, Dialect, NodeCard, Signal, Sql, StoreError, Tx, Type, code};

/// How long the lease is that stands in a node's own row, for programs that know no other.
pub(super) fn long_lease(lease: Duration) -> Duration {
    lease.saturating_mul(12)
}

/// Gives the node its row in every shard, records its definitions, and makes blocked runs of its queues
/// due again that its code may fit.
///
/// An active version takes over from the others of its name, unless a newer one is active that a live node
/// knows: nodes of an older build that come or stay during a deploy take nothing back. Definitions live in
/// the first shard.
pub(crate) async fn join(tx: &mut dyn Tx, node: &NodeCard, shards: ShardCount) -> Result<(), StoreError> {
    let codes: Vec<String> = node.definitions.iter().map(|card| code(&card.name, card.version)).collect();
    let known = serde_json::json!(codes).to_string();
    let served = serde_json::json!(node.queues).to_string();
    let serves_all = i64::from(node.queues.is_empty());
    // In order, so that nodes which start together do not wait for each other in a circle.
    let mut cards: Vec<_> = node.definitions.iter().collect();
    cards.sort_by_key(|card| (&card.name, card.version));
    let mut flight = Flight::default();
    let places = add_definitions(&mut flight);
    let (recorded, live) = found_definitions(&mut flight.send(tx).await?, places)?;
    let newer = |card: &DefinitionCard| {
        recorded.iter().any(|old| {
            let served = old.active && live.contains(&code(&old.name, old.version));
            served && old.name == card.name && old.version > card.version
        })
    };
    let takes_over = |card: &&DefinitionCard| card.active && !newer(card);
    // What stands there already as it should is left alone: nodes come back often, and seldom with other code.
    let stands = |card: &DefinitionCard| {
        let same = DefinitionCard { active: takes_over(&card), ..card.clone() };
        let others = |old: &&DefinitionCard| old.name == card.name && old.version != card.version;
        let is_only = !same.active || !recorded.iter().filter(others).any(|old| old.active);
        is_only && recorded.contains(&same)
    };
    cards.retain(|card| !stands(card));
    let active: Vec<String> =
        cards.iter().copied().filter(takes_over).map(|card| card.name.clone()).collect();
    let definitions = cards.iter().map(|card| {
        cells![
            &*card.name,
            card.version,
            card.kind,
            i64::from(takes_over(card)),
            &*card.signature,
            &*card.queue,
            card.priority,
            &*card.options,
        ]
    });

    let mut flight = Flight::default();
    if !active.is_empty() {
        flight.add(DEFINITIONS_RETIRE.with(cells![0_u16, Cell::Texts(active)]));
    }
    flight.each(&DEFINITIONS_SET, definitions.collect(), cells![0_u16]);
    let mut unblocked = Vec::new();
    for shard in 0..shards.max(1) {
        let lease = match tx.dialect() {
            Dialect::Postgres => long_lease(node.lease),
            Dialect::Sqlite => node.lease,
        };
        flight.add(NODES_JOIN.with(cells![
            shard,
            node.id,
            &*node.name,
            &*node.host,
            node.pid,
            &*known,
            micros(lease),
            &*served,
            node.slots,
            &*node.about
        ]));
        flight.add(LEASES_JOIN.with(cells![shard, node.id, micros(node.lease)]));
        let (codes, queues) = (Cell::Texts(codes.clone()), Cell::Texts(node.queues.clone()));
        let blocked = cells![shard, codes, Status::Blocked, queues, serves_all];
        flight.add(BLOCKED_LOCK.with(blocked.clone()));
        unblocked.push(flight.add(UNBLOCK.with([blocked, cells![Status::Ready]].concat())));
    }
    queue::add_declared(&mut flight, &node.rules, shards);
    if !node.rules.is_empty() {
        tx.signal(Signal::Queues);
    }
    let mut answers = flight.send_last(tx).await?;
    // Nobody else has to look otherwise: the node itself claims as soon as it works.
    for place in unblocked {
        if answers.take(place).first().map_or(Ok(0), |row| row.int(0))? > 0 {
            tx.signal(Signal::Due);
        }
    }
    Ok(())
}

/// Adds looks at the recorded definitions and at what live nodes know.
pub(crate) fn add_definitions(flight: &mut Flight) -> (Place, Place) {
    (flight.add(DEFINITIONS.with(cells![0_u16])), flight.add(NODES_LIVE.with(cells![0_u16])))
}

/// The recorded definitions, and the code that live nodes know.
pub(crate) fn found_definitions(
    answers: &mut Answers,
    (recorded, live): (Place, Place),
) -> Result<(Vec<DefinitionCard>, HashSet<String>), StoreError> {
    let recorded = answers.take(recorded).iter().map(rows::definition).collect::<Result<_, _>>()?;
    Ok((recorded, live_codes(&answers.take(live))?))
}

pub(crate) static STATEMENTS: &[&Sql] = &[
    &DEFINITIONS,
    &DEFINITIONS_RETIRE,
    &DEFINITIONS_SET,
    &NODES_JOIN,
    &LEASES_JOIN,
    &BLOCKED_LOCK,
    &UNBLOCK,
];

static DEFINITIONS: Sql = Sql::new(
    "definitions",
    "select d.name, d.version, d.kind, d.active, d.signature, d.queue, d.priority, d.options
       from outlast.definitions as d where d.shard = {p1} order by d.name, d.version",
)
.takes(&[Type::Int]);

static DEFINITIONS_RETIRE: Sql = Sql::new(
    "definitions_retire",
    "update outlast.definitions set active = 0 where shard = {p1} and name {in:p2} and active = 1",
)
.takes(&[Type::Int, Type::Texts]);

static DEFINITIONS_SET: Sql = Sql::new(
    "definitions_set",
    "insert into outlast.definitions (shard, name, version, kind, active, signature, queue, priority,
         options, recorded_at)
     select {p1}, b.name, b.version, b.kind, b.active, b.signature, b.queue, b.priority, b.options, {now}
       from {batch} where true
     on conflict (shard, name, version) do update
        set kind = excluded.kind, active = excluded.active, signature = excluded.signature,
            queue = excluded.queue, priority = excluded.priority, options = excluded.options,
            recorded_at = excluded.recorded_at",
)
.rows(&[
    ("name", Type::Text),
    ("version", Type::Int),
    ("kind", Type::Int),
    ("active", Type::Int),
    ("signature", Type::Text),
    ("queue", Type::Text),
    ("priority", Type::Int),
    ("options", Type::Text),
])
.takes(&[Type::Int]);

static NODES_JOIN: Sql = Sql::new(
    "nodes_join",
    "insert into outlast.nodes (shard, id, name, host, pid, codes, joined_at, lease_until, queues, slots, about)
     values ({p1}, {p2}, {p3}, {p4}, {p5}, {p6}, {now}, {now} + {p7}, {p8}, {p9}, {p10})
     on conflict (shard, id) do update
        set name = excluded.name, codes = excluded.codes, queues = excluded.queues,
            lease_until = excluded.lease_until, slots = excluded.slots, about = excluded.about",
)
.takes(&[
    Type::Int,
    Type::Id,
    Type::Text,
    Type::Text,
    Type::Int,
    Type::Text,
    Type::Int,
    Type::Text,
    Type::Int,
    Type::Text,
]);

static LEASES_JOIN: Sql = Sql::new(
    "leases_join",
    "insert into outlast.leases (shard, node, lease_until, late_at) values ({p1}, {p2}, {now} + {p3}, 0)
     on conflict (shard, node) do update set lease_until = excluded.lease_until",
)
.on_sqlite("")
.takes(&[Type::Int, Type::Id, Type::Int]);

// Locks are waited for here: a run that was passed over would stay blocked although its code is there.
static BLOCKED_LOCK: Sql = Sql::new(
    "blocked_lock",
    "select a.id from outlast.agenda as a
      where a.shard = {p1} and a.reason is not null and a.code {in:p2} and a.status = {p3}
        and ({p5} = 1 or a.queue {in:p4})
      order by a.id {for_update}",
)
// One writer has nothing to lock.
.on_sqlite("")
.takes(&[Type::Int, Type::Texts, Type::Int, Type::Texts, Type::Int])
.by("agenda_blocked");

static UNBLOCK: Sql = Sql::new(
    "unblock",
    "update outlast.agenda set status = {p6}, due_at = {now}, reason = null
      where shard = {p1} and reason is not null and code {in:p2} and status = {p3}
        and ({p5} = 1 or queue {in:p4})",
)
// Mostly none stands still: then SQLite need not make tables of the lists.
.on_sqlite(
    "update outlast.agenda set status = {p6}, due_at = {now}, reason = null
      where exists (select 1 from outlast.agenda as b where b.shard = {p1} and b.reason is not null)
        and shard = {p1} and reason is not null and code {in:p2} and status = {p3}
        and ({p5} = 1 or queue {in:p4})",
)
.takes(&[Type::Int, Type::Texts, Type::Int, Type::Texts, Type::Int, Type::Int])
.by("agenda_blocked")
.counted();
