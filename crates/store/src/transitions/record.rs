//! Records one entry of a held run inside a user's transaction.

use outlast_core::{Entry, NodeId, RunId};

use super::agenda::fence;
use super::commit::{JOURNAL_RECORD, entry_row};
use super::flight::Flight;
use crate::rows::cells;
use crate::{Committed, StoreError, Tx};

/// Records `entry` under the run's fence, as the last thing before the user's commit.
///
/// The fence is held until then, so nobody takes the run in between. Any answer but
/// [`Committed::Done`] means that the transaction must not commit: also when an earlier try has recorded
/// the entry, because the user's rows were written with that one.
pub(crate) async fn record(
    tx: &mut dyn Tx,
    node: NodeId,
    run: RunId,
    epoch: i64,
    entry: &Entry,
) -> Result<Committed, StoreError> {
    let shard = run.shard();
    let mut flight = Flight::default();
    let fenced = flight.add(fence(shard, node));
    let recorded = flight.each(&JOURNAL_RECORD, vec![entry_row(run, epoch, entry)], cells![shard, node]);
    let mut answers = flight.send_last(tx).await?;

    let fenced = !answers.take(fenced).is_empty();
    let recorded = answers.take_any(recorded).first().map_or(Ok(0), |row| row.int(0))? > 0;
    Ok(if fenced && recorded { Committed::Done } else { Committed::LeaseLost })
}
