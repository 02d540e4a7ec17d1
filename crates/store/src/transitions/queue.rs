//! Queues with rules: what code declares, and what people change.
//!
//! A queue has a row in the shard of its name when somebody said something about it. What people said holds until
//! they take it back, whatever code is deployed meanwhile.

use std::collections::BTreeMap;

use outlast_core::{QueueRules, QueueState, ShardCount, shard_of_key};

use super::flight::Flight;
use crate::rows::{ReadRow, cells};
use crate::{Cell, QueueCard, QueueChange, Row, Signal, Sql, StoreError, Tx, Type};

/// What a row that was just made counts.
const FIRST: i64 = 1;

/// The shard in which a queue has its row.
pub(crate) fn home(queue: &str, shards: ShardCount) -> u16 {
    shard_of_key("", "queue", queue, shards.max(1))
}

/// Adds what makes the rules that code says hold, where people have said nothing else.
pub(crate) fn add_declared(flight: &mut Flight, rules: &[(String, QueueRules)], shards: ShardCount) {
    // In order, so that nodes which start together do not wait for each other in a circle.
    let mut homes: BTreeMap<u16, BTreeMap<&str, Vec<Cell>>> = BTreeMap::new();
    for (queue, rules) in rules {
        let row = cells![&**queue, written(rules)];
        homes.entry(home(queue, shards)).or_default().insert(queue, row);
    }
    for (shard, rows) in homes {
        flight.each(&QUEUES_DECLARE, rows.into_values().collect(), cells![shard, state(QueueState::Open)]);
    }
}

/// Does what people ask of a queue; says what it does now.
pub(crate) async fn change(
    tx: &mut dyn Tx,
    name: &str,
    change: &QueueChange,
    shards: ShardCount,
) -> Result<QueueCard, StoreError> {
    let shard = home(name, shards);
    let mut flight = Flight::default();
    flight.add(QUEUES_MAKE.with(cells![shard, name, written(&QueueRules::default())]));
    let to = |to: QueueState| QUEUES_STATE.with(cells![shard, name, state(to)]);
    flight.add(match change {
        QueueChange::Pause => to(QueueState::Paused),
        QueueChange::Resume => to(QueueState::Open),
        QueueChange::Drain => to(QueueState::Draining),
        QueueChange::Rules(rules) => QUEUES_RULES.with(cells![shard, name, rules.as_ref().map(written)]),
        QueueChange::RulesAt { changes, rules } => {
            QUEUES_RULES_AT.with(cells![shard, name, rules.as_ref().map(written), (*changes).max(FIRST)])
        }
    });
    let row = flight.add(QUEUE_LOOK.with(cells![shard, name]));
    let rows = flight.send_last(tx).await?.take(row);
    tx.signal(Signal::Queues);
    tx.signal(Signal::Due);
    rows.first().map_or_else(|| Ok(QueueCard::default()), read_counted)
}

/// A queue from the columns that [`QUEUE_LOOK`] gives.
pub(crate) fn read_counted(row: &Row) -> Result<QueueCard, StoreError> {
    Ok(QueueCard { changes: row.int(5)?, ..read(row)? })
}

/// The same without how often it was changed.
pub(crate) fn read(row: &Row) -> Result<QueueCard, StoreError> {
    let unreadable =
        |what: &str, text: &str| StoreError::Refused(format!("a queue's {what} is {text:?}").into());
    let own = row.opt_text(2)?;
    let rules = own.clone().map_or_else(|| row.text(1), Ok)?;
    let state = match row.int(3)? {
        0 => QueueState::Open,
        1 => QueueState::Paused,
        2 => QueueState::Draining,
        other => return Err(unreadable("state", &other.to_string())),
    };
    Ok(QueueCard {
        name: row.text(0)?,
        rules: serde_json::from_str(&rules).map_err(|_| unreadable("rules", &rules))?,
        is_own: own.is_some(),
        state,
        since: row.opt_time(4)?,
        changes: 0,
    })
}

fn written(rules: &QueueRules) -> String {
    serde_json::to_string(rules).unwrap_or_default()
}

fn state(state: QueueState) -> i64 {
    match state {
        QueueState::Open => 0,
        QueueState::Paused => 1,
        QueueState::Draining => 2,
    }
}

pub(crate) static STATEMENTS: &[&Sql] =
    &[&QUEUES_DECLARE, &QUEUES_MAKE, &QUEUES_STATE, &QUEUES_RULES, &QUEUES_RULES_AT, &QUEUE_LOOK];

// What is there already is not touched: whoever claims from the queue holds its row.
static QUEUES_DECLARE: Sql = Sql::new(
    "queues_declare",
    "insert into outlast.queues as q (shard, name, rules, state, changed_at, served, used)
     select {p1}, b.name, b.rules, {p2}, {now}, '', '' from {batch}
      where not exists (select 1 from outlast.queues as o
                         where o.shard = {p1} and o.name = b.name and o.rules = b.rules)
     on conflict (shard, name) do update set rules = excluded.rules, changed_at = excluded.changed_at,
            changes = q.changes + 1
        where q.rules <> excluded.rules",
)
.rows(&[("name", Type::Text), ("rules", Type::Text)])
.takes(&[Type::Int, Type::Int]);

static QUEUES_MAKE: Sql = Sql::new(
    "queues_make",
    "insert into outlast.queues (shard, name, rules, state, changed_at, served, used)
     values ({p1}, {p2}, {p3}, 0, {now}, '', '') on conflict do nothing",
)
.takes(&[Type::Int, Type::Text, Type::Text]);

// Who pauses what is paused changes nothing; and what is drained again keeps the time from which on it waits.
static QUEUES_STATE: Sql = Sql::new(
    "queues_state",
    "update outlast.queues set state = {p3}, since = case when {p3} = 0 then null else {now} end,
            changed_at = {now}, changes = changes + 1
      where shard = {p1} and name = {p2} and state <> {p3}",
)
.takes(&[Type::Int, Type::Text, Type::Int]);

static QUEUES_RULES: Sql = Sql::new(
    "queues_rules",
    "update outlast.queues set own_rules = {p3}, changed_at = {now}, changes = changes + 1
      where shard = {p1} and name = {p2} and coalesce(own_rules, '') <> coalesce({p3}, '')",
)
.takes(&[Type::Int, Type::Text, Type::Text]);

static QUEUES_RULES_AT: Sql = Sql::new(
    "queues_rules_at",
    "update outlast.queues set own_rules = {p3}, changed_at = {now}, changes = changes + 1
      where shard = {p1} and name = {p2} and changes = {p4} and coalesce(own_rules, '') <> coalesce({p3}, '')",
)
.takes(&[Type::Int, Type::Text, Type::Text, Type::Int]);

static QUEUE_LOOK: Sql = Sql::new(
    "queue_look",
    "select q.name, q.rules, q.own_rules, q.state, q.since, q.changes from outlast.queues as q
      where q.shard = {p1} and q.name = {p2}",
)
.takes(&[Type::Int, Type::Text]);
