//! Forgets groups of queues about which nothing has to be remembered any more.
//!
//! A group whose last run has ended, and whose rate has run out, is as good as one that never was. One that is still
//! needed is asked about again after a while.

use std::collections::{BTreeMap, BTreeSet};

use outlast_core::RunId;

use super::agenda::by_shard;
use super::flight::{Flight, Place};
use crate::rows::{ReadRow, cells, ids, micros};
use crate::{Sql, StoreError, Sweep, Tx, Type};

/// How long after it was needed a group is looked at.
pub(crate) const GROUP_REST: std::time::Duration = std::time::Duration::from_secs(600);

/// Forgets at most `ask.limit` groups of one shard.
pub(crate) async fn forget(tx: &mut dyn Tx, ask: &Sweep) -> Result<(), StoreError> {
    let mut flight = Flight::default();
    let old = flight.add(GROUPS_OLD.with(cells![ask.shard, micros(GROUP_REST), ask.limit]));
    let old = flight.send(tx).await?.take(old);
    if old.is_empty() {
        Flight::default().send_last(tx).await?;
        return Ok(());
    }
    let mut heads: BTreeMap<RunId, ()> = BTreeMap::new();
    for row in &old {
        heads.extend(row.opt_id(2)?.map(|head| (RunId::from_uuid(head), ())));
    }
    let mut flight = Flight::default();
    let places: Vec<Place> = by_shard(heads.into_keys())
        .into_iter()
        .map(|(shard, heads)| flight.add(UNFINISHED.with(cells![shard, ids(&heads)])))
        .collect();
    let mut unfinished = BTreeSet::new();
    if !places.is_empty() {
        let mut answers = flight.send(tx).await?;
        for row in places.into_iter().flat_map(|place| answers.take(place)) {
            unfinished.insert(row.run(0)?);
        }
    }
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    for row in &old {
        let head = row.opt_id(2)?;
        let cells = cells![row.text(0)?, row.text(1)?, head];
        let is_needed = head.is_some_and(|head| unfinished.contains(&RunId::from_uuid(head)));
        if is_needed { kept.push(cells) } else { gone.push(cells) }
    }
    let mut flight = Flight::default();
    flight.each(&GROUPS_FORGET, gone, cells![ask.shard]);
    flight.each(&GROUPS_KEEP, kept, cells![ask.shard]);
    flight.send_last(tx).await?;
    Ok(())
}

pub(crate) static STATEMENTS: &[&Sql] = &[&GROUPS_OLD, &UNFINISHED, &GROUPS_FORGET, &GROUPS_KEEP];

static GROUPS_OLD: Sql = Sql::new(
    "groups_old",
    "select g.queue, g.name, g.head from outlast.groups as g
      where g.shard = {p1} and g.used_until < {now} - {p2} order by g.used_until limit {p3} {skip_locked}",
)
.takes(&[Type::Int, Type::Int, Type::Int]);

static UNFINISHED: Sql = Sql::new(
    "groups_unfinished",
    "select a.id from outlast.agenda as a where a.shard = {p1} and a.id {in:p2}",
)
.takes(&[Type::Int, Type::Ids]);

const GROUP: &[(&str, Type)] = &[("queue", Type::Text), ("name", Type::Text), ("head", Type::Id)];

static GROUPS_FORGET: Sql = Sql::new(
    "groups_forget",
    "delete from outlast.groups where shard = {p1}
        and (queue, name) in (select b.queue, b.name from {batch} where true)",
)
.rows(GROUP)
.takes(&[Type::Int]);

static GROUPS_KEEP: Sql = Sql::new(
    "groups_keep",
    "update outlast.groups as g set used_until = {now} from {batch}
      where g.shard = {p1} and g.queue = b.queue and g.name = b.name",
)
.rows(GROUP)
.takes(&[Type::Int]);
