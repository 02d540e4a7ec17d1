//! Takes runs from a node that is gone: what sweep and leave share.
//!
//! The node's row is locked for update first, which waits for (or passes over) its batches under way
//! and keeps new ones out. A run that someone else has locked is passed over; as long as one is left,
//! the node's row stays and the next sweep goes on. Nothing can go wrong meanwhile: a freed run has no
//! node and another epoch, so nothing that the old one writes fits it.

use outlast_core::{NodeId, RunId, Status};

use super::flight::{Answers, Flight, Place};
use crate::rows::{ReadRow, cells, ids};
use crate::{Cell, Sql, StoreError, Type};

/// Locks runs of `nodes`, at most `limit`.
pub(crate) fn add_locks(flight: &mut Flight, shard: u16, nodes: &[NodeId], limit: u32) -> Option<Place> {
    (!nodes.is_empty()).then(|| flight.add(HELD_LOCK.with(cells![shard, node_ids(nodes), limit])))
}

/// Frees the runs that were locked, counts `crashes` for each, and removes nodes that hold nothing any
/// more; the rows at the place given back are those.
pub(crate) fn add_free(
    flight: &mut Flight,
    shard: u16,
    nodes: &[NodeId],
    runs: &[RunId],
    crashes: u32,
) -> Option<Place> {
    if nodes.is_empty() {
        return None;
    }
    if !runs.is_empty() {
        flight.add(FREE.with(cells![shard, ids(runs), node_ids(nodes), Status::Ready, crashes]));
    }
    Some(flight.add(NODES_REMOVE.with(cells![shard, node_ids(nodes)])))
}

/// The runs at `place`.
pub(crate) fn runs(answers: &mut Answers, place: Option<Place>) -> Result<Vec<RunId>, StoreError> {
    answers.take_any(place).iter().map(|row| row.run(0)).collect()
}

/// The nodes at `place`.
pub(crate) fn nodes(answers: &mut Answers, place: Option<Place>) -> Result<Vec<NodeId>, StoreError> {
    answers.take_any(place).iter().map(|row| row.id(0).map(NodeId::from_uuid)).collect()
}

fn node_ids(nodes: &[NodeId]) -> Cell {
    Cell::Ids(nodes.iter().map(|node| node.uuid()).collect())
}

pub(crate) static STATEMENTS: &[&Sql] = &[&HELD_LOCK, &FREE, &NODES_REMOVE];

// Who never waits needs no order; asked for one, both databases read all runs in it.
static HELD_LOCK: Sql = Sql::new(
    "takeover_lock",
    "select a.id from outlast.agenda as a where a.shard = {p1} and a.node {in:p2} limit {p3} {skip_locked}",
)
.takes(&[Type::Int, Type::Ids, Type::Int])
.by("agenda_node");

static FREE: Sql = Sql::new(
    "takeover_free",
    "update outlast.agenda set node = null, claim = null, status = {p4}, due_at = {now},
            epoch = epoch + 1, crashes = crashes + {p5}
      where shard = {p1} and id {in:p2} and node {in:p3}",
)
.takes(&[Type::Int, Type::Ids, Type::Ids, Type::Int, Type::Int]);

static NODES_REMOVE: Sql = Sql::new(
    "takeover_remove",
    "delete from outlast.nodes as n where n.shard = {p1} and n.id {in:p2}
        and not exists (select 1 from outlast.agenda as a where a.shard = {p1} and a.node = n.id)
     returning id",
)
.takes(&[Type::Int, Type::Ids]);
