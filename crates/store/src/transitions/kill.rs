//! Ends a run at once, whatever it is doing: nobody is asked, and nothing is undone.
//!
//! A run that a node holds is taken from it. Whatever that node is writing holds its row, so this waits for it there;
//! what it writes later finds neither the run nor its epoch. The node's row is the last that is waited for, behind the
//! run and those who hear of its end: whoever waits for a run with a node's row in hand would hold up everything that
//! the node does.

use outlast_core::RunId;

use super::agenda::{AgendaRow, by_shard};
use super::control::{end, lock_families, unfinished};
use super::flight::Flight;
use super::leave::NODE_LOCK;
use crate::rows::cells;
use crate::{Controlled, Signal, StoreError, Tx};

/// Ends the run as cancelled; its parent and whoever else listens hear of it. One that has ended stays as it is.
pub(super) async fn kill(tx: &mut dyn Tx, run: RunId, reason: &str) -> Result<Controlled, StoreError> {
    lock_families(tx, &by_shard([run])).await?;
    let (row, listeners) = match unfinished(tx, run).await? {
        Ok(found) => found,
        Err(answer) => return Flight::default().send_last(tx).await.map(|_| answer),
    };
    if let Some(node) = row.node {
        let mut flight = Flight::default();
        flight.add(NODE_LOCK.with(cells![run.shard(), node]));
        flight.send(tx).await?;
        tx.signal(Signal::Taken(run));
    }
    // A turn that is about to end the run in the same way must not take this for its own doing.
    let row = AgendaRow { epoch: row.epoch + 1, ..row };
    let (flight, controlled) = end(tx, &row, &format!("killed: {reason}"), &listeners).await?;
    flight.send_last(tx).await.map(|_| controlled)
}
