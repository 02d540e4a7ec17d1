//! Ends the leases of those who had this database before.

use super::flight::Flight;
use crate::{Sql, StoreError, Tx};

/// Ends every lease, so that the next sweep frees what their nodes held. Only for a caller who knows
/// that they are dead: the owner of an SQLite file, who has their lock.
pub(crate) async fn end_leases(tx: &mut dyn Tx) -> Result<(), StoreError> {
    let mut flight = Flight::default();
    flight.add(END_LEASES.with([]));
    flight.send_last(tx).await.map(drop)
}

pub(crate) static STATEMENTS: &[&Sql] = &[&END_LEASES];

static END_LEASES: Sql =
    Sql::new("end_leases", "update outlast.nodes set lease_until = 0 where lease_until > 0");
