//! A node stops for good.

use outlast_core::{NodeId, ShardCount};

use super::flight::Flight;
use super::takeover::{self, Gone};
use crate::rows::cells;
use crate::{Signal, Sql, StoreError, Tx, Type};

/// What the node still holds becomes due at once, and its rows go. A run that someone has locked at
/// this moment follows when the lease has run out.
pub(crate) async fn leave(tx: &mut dyn Tx, node: NodeId, shards: ShardCount) -> Result<(), StoreError> {
    let mut flight = Flight::default();
    let mut locks = Vec::new();
    for shard in 0..shards.max(1) {
        flight.add(NODE_LOCK.with(cells![shard, node]));
        locks.push((shard, takeover::add_locks(&mut flight, shard, &[node], i32::MAX as u32)));
    }
    let mut answers = flight.send(tx).await?;

    let mut flight = Flight::default();
    for (shard, place) in locks {
        let runs = takeover::runs(&mut answers, place)?;
        if !runs.is_empty() {
            tx.signal(Signal::Due);
        }
        takeover::add_free(&mut flight, shard, &[node], &runs, Gone::Left);
    }
    flight.send_last(tx).await?;
    Ok(())
}

pub(crate) static STATEMENTS: &[&Sql] = &[&NODE_LOCK];

/// Against every write of the node.
pub(super) static NODE_LOCK: Sql = Sql::new(
    "node_lock",
    "select n.id from outlast.nodes as n where n.shard = {p1} and n.id = {p2} {for_update}",
)
.takes(&[Type::Int, Type::Id]);
