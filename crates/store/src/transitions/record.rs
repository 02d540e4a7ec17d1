//! Records one entry of a held run inside a user's transaction.

use outlast_core::{Entry, NodeId, RunId};

use super::agenda::{self, by_shard, fence};
use super::commit::{JOURNAL_ADD, entry_row};
use super::flight::Flight;
use crate::rows::cells;
use crate::{Committed, Sql, StoreError, Tx, Type};

/// Records `entry` under the run's fence, as the last thing before the user's commit.
///
/// The fence is held until then, so nobody takes the run in between. Any answer but
/// [`Committed::Done`] means that the transaction must not commit.
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
    let looks = agenda::add_looks(&mut flight, &by_shard([run]));
    flight.each(&JOURNAL_ADD, vec![entry_row(run, epoch, entry)], cells![shard, node]);
    let there = flight.add(JOURNAL_HAS.with(cells![shard, run, entry.pos, epoch]));
    let mut answers = flight.send_last(tx).await?;

    let rows = agenda::found(&mut answers, &looks)?;
    let held = rows.get(&run).is_some_and(|row| row.node == Some(node) && row.epoch == epoch);
    let fenced = !answers.take(fenced).is_empty();
    let there = !answers.take(there).is_empty();
    Ok(if fenced && held && there { Committed::Done } else { Committed::LeaseLost })
}

pub(crate) static STATEMENTS: &[&Sql] = &[&JOURNAL_HAS];

static JOURNAL_HAS: Sql = Sql::new(
    "journal_has",
    "select j.pos from outlast.journal as j
      where j.shard = {p1} and j.run = {p2} and j.pos = {p3} and j.epoch = {p4}",
)
.takes(&[Type::Int, Type::Id, Type::Int, Type::Int]);
