//! Places in a queue of bounded length: who finds none waits, and hears that the database cannot keep up when that takes too long.
//!
//! So overload shows to whoever calls, as an error after which the same call may work in a moment, and not as memory that grows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::timeout;

use crate::StoreError;

/// How long a call waits for a place.
const PATIENCE: Duration = Duration::from_secs(10);

/// A place among the calls that wait for the database.
pub(crate) async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, StoreError> {
    let closing = || StoreError::Unavailable("the store is closing".into());
    match Arc::clone(places).try_acquire_owned() {
        Ok(place) => return Ok(place),
        Err(TryAcquireError::Closed) => return Err(closing()),
        Err(TryAcquireError::NoPermits) => {}
    }
    match timeout(PATIENCE, Arc::clone(places).acquire_owned()).await {
        Ok(place) => place.map_err(|_| closing()),
        Err(_) => {
            let why = format!(
                "more calls wait for the database than it works off: there was no place among them for {PATIENCE:?}. \
                 Call again later, or fewer at a time"
            );
            Err(StoreError::Unavailable(why.into()))
        }
    }
}
