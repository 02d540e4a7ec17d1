//! Notes that a suspect runs alone.

use outlast_core::{NodeId, RunId};

use super::agenda::{self, by_shard};
use super::flight::Flight;
use crate::rows::cells;
use crate::{Sql, StoreError, Tx, Type};

/// Notes it for the turn that `epoch` names, and says whether it is noted: not if the node no longer has the run,
/// nor if somebody has locked it, because the claim loop does not wait for that.
pub(crate) async fn single_out(
    tx: &mut dyn Tx,
    node: NodeId,
    run: RunId,
    epoch: i64,
) -> Result<bool, StoreError> {
    let mut flight = Flight::default();
    let lock = agenda::add_locks(&mut flight, &by_shard([run]), false);
    let locked = agenda::found(&mut flight.send(tx).await?, &lock)?;
    let ours = locked.get(&run).is_some_and(|row| row.node == Some(node) && row.epoch == epoch);

    let mut flight = Flight::default();
    if ours {
        flight.add(SINGLE_OUT.with(cells![run.shard(), run]));
    }
    flight.send_last(tx).await?;
    Ok(ours)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&SINGLE_OUT];

static SINGLE_OUT: Sql =
    Sql::new("single_out", "update outlast.agenda set alone = epoch where shard = {p1} and id = {p2}")
        .takes(&[Type::Int, Type::Id]);
