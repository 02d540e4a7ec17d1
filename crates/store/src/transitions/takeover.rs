//! Takes runs from a node that is gone: what sweep and leave share.
//!
//! The node's row is locked for update first, which waits for (or passes over) its batches under way
//! and keeps new ones out. A run that someone else has locked is passed over; as long as one is left,
//! the node's row stays and the next sweep goes on. Nothing can go wrong meanwhile: a freed run has no
//! node and another epoch, so nothing that the old one writes fits it.

use std::time::Duration;

use outlast_core::crashes::{self, Held};
use outlast_core::{NodeId, RunId, Status};

use super::flight::{Answers, Flight, Place};
use crate::rows::{ReadRow, cells, micros, small};
use crate::{Cell, Row, Sql, StoreError, Type};

/// How long it is known that a node was lost: the next morning somebody asks.
pub(crate) const LOST_FOR: Duration = Duration::from_secs(86_400);

/// A run of a node that is gone, locked.
pub(crate) struct Taken {
    run: RunId,
    node: NodeId,
    crashes: u32,
    held: Held,
}

/// How a node went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It said good-bye.
    Left,
    /// It said nothing any more.
    Died,
}

/// Locks runs of `nodes`, at most `limit`.
pub(crate) fn add_locks(flight: &mut Flight, shard: u16, nodes: &[NodeId], limit: u32) -> Option<Place> {
    (!nodes.is_empty()).then(|| flight.add(HELD_LOCK.with(cells![shard, node_ids(nodes), limit])))
}

/// Frees the runs that were locked, and removes nodes that hold nothing any more; the rows at the place given
/// back are those.
pub(crate) fn add_free(
    flight: &mut Flight,
    shard: u16,
    nodes: &[NodeId],
    runs: &[Taken],
    gone: Gone,
) -> Option<Place> {
    if nodes.is_empty() {
        return None;
    }
    let free = |taken: &Taken| match gone {
        Gone::Left => cells![taken.run, small(taken.crashes), 0],
        Gone::Died => {
            let crashes = crashes::after_death(taken.crashes, taken.held);
            cells![taken.run, small(crashes), micros(crashes::pause(crashes))]
        }
    };
    flight.each(
        &FREE,
        runs.iter().map(free).collect(),
        cells![shard, node_ids(nodes), Status::Ready, Status::Paused],
    );
    if gone == Gone::Died {
        let freed = |node: &NodeId| runs.iter().filter(|taken| taken.node == *node).count() as i64;
        let lost = nodes.iter().map(|node| cells![*node, freed(node)]).collect();
        flight.each(&LOST_PUT, lost, cells![shard]);
        flight.add(LOST_FORGET.with(cells![shard, micros(LOST_FOR)]));
    }
    Some(flight.add(NODES_REMOVE.with(cells![shard, node_ids(nodes)])))
}

/// The runs at `place`.
pub(crate) fn runs(answers: &mut Answers, place: Option<Place>) -> Result<Vec<Taken>, StoreError> {
    let taken = |row: &Row| {
        let held = match (row.int(2)?, row.int(3)?) {
            (1, _) => Held::WentOn,
            (_, 1) => Held::Alone,
            _ => Held::AmongOthers,
        };
        let node = NodeId::from_uuid(row.id(4)?);
        Ok(Taken { run: row.run(0)?, node, crashes: row.number(1)?, held })
    };
    answers.take_any(place).iter().map(taken).collect()
}

/// The nodes at `place`.
pub(crate) fn nodes(answers: &mut Answers, place: Option<Place>) -> Result<Vec<NodeId>, StoreError> {
    answers.take_any(place).iter().map(|row| row.id(0).map(NodeId::from_uuid)).collect()
}

fn node_ids(nodes: &[NodeId]) -> Cell {
    Cell::Ids(nodes.iter().map(|node| node.uuid()).collect())
}

pub(crate) static STATEMENTS: &[&Sql] = &[&HELD_LOCK, &FREE, &LOST_PUT, &LOST_FORGET, &NODES_REMOVE];

// Who never waits needs no order; asked for one, both databases read all runs in it.
static HELD_LOCK: Sql = Sql::new(
    "takeover_lock",
    "select a.id, a.crashes,
            case when a.epoch = (select j.epoch from outlast.journal as j where j.shard = {p1} and j.run = a.id
                                  order by j.pos desc limit 1) then 1 else 0 end,
            case when a.epoch = a.alone then 1 else 0 end, a.node
       from outlast.agenda as a where a.shard = {p1} and a.node {in:p2} limit {p3} {skip_locked}",
)
.takes(&[Type::Int, Type::Ids, Type::Int])
.by("agenda_node");

static FREE: Sql = Sql::new(
    "takeover_free",
    "update outlast.agenda as a set node = null, claim = null, epoch = a.epoch + 1, crashes = b.crashes,
            status = case when a.pause_asked is null then {p3} else {p4} end,
            due_at = case when a.pause_asked is not null then null
                          when a.expires_at < {now} + b.pause then a.expires_at else {now} + b.pause end,
            resume_at = case when a.pause_asked is not null then {now} + b.pause end,
            reason = a.pause_asked, pause_asked = null
       from {batch} where a.shard = {p1} and a.id = b.run and a.node {in:p2}",
)
.rows(&[("run", Type::Id), ("crashes", Type::Int), ("pause", Type::Int)])
.takes(&[Type::Int, Type::Ids, Type::Int, Type::Int]);

// A node of which not all could be taken is still there the next time: then there are more of the same.
static LOST_PUT: Sql = Sql::new(
    "lost_put",
    "insert into outlast.lost as l (shard, id, name, host, pid, joined_at, lost_at, freed)
     select {p1}, n.id, n.name, n.host, n.pid, n.joined_at, {now}, b.freed
       from {batch} join outlast.nodes as n on n.shard = {p1} and n.id = b.node where true
     on conflict (shard, id) do update set freed = l.freed + excluded.freed",
)
.rows(&[("node", Type::Id), ("freed", Type::Int)])
.takes(&[Type::Int]);

static LOST_FORGET: Sql =
    Sql::new("lost_forget", "delete from outlast.lost where shard = {p1} and lost_at < {now} - {p2}")
        .takes(&[Type::Int, Type::Int]);

static NODES_REMOVE: Sql = Sql::new(
    "takeover_remove",
    "delete from outlast.nodes as n where n.shard = {p1} and n.id {in:p2}
        and not exists (select 1 from outlast.agenda as a where a.shard = {p1} and a.node = n.id)
     returning id",
)
.takes(&[Type::Int, Type::Ids]);
