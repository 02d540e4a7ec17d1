//! Ends a run's turn inside a user's transaction.

use outlast_core::ShardCount;

use super::agenda::{self, by_shard, fence};
use super::commit::commit;
use super::flight::Flight;
use crate::{Address, Batch, Committed, StoreError, TurnEnd, Tx};

/// Ends the turn under its fence, which is held until the user's transaction ends: nobody takes the run in between.
///
/// Any answer but [`Committed::Done`] means that the transaction must not commit.
pub(crate) async fn end_turn(
    tx: &mut dyn Tx,
    turn: &TurnEnd,
    shards: ShardCount,
) -> Result<Committed, StoreError> {
    // A batch passes over what others have locked; a user waits, in the order in which everybody does.
    let told = turn.commit.sends.iter().filter_map(|message| match &message.to {
        Address::Run(run) => Some(*run),
        Address::Key { .. } => None,
    });
    let runs = by_shard(told.chain([turn.commit.run]));
    let mut flight = Flight::default();
    agenda::add_locks(&mut flight, &runs, true);
    flight.add(fence(turn.commit.run.shard(), turn.node));
    flight.send(tx).await?;
    let batch = Batch { node: turn.node, shard: turn.commit.run.shard(), runs: vec![turn.commit.clone()] };
    let answers = commit(tx, &batch, shards).await?;
    Ok(answers.first().copied().unwrap_or(Committed::LeaseLost))
}
