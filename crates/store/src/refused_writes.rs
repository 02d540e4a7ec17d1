//! Whether the database takes what is written: for whoever asks whether to send us work.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{StoreError, TxKind, postgres};

/// For how long a refused write counts: longer than a node lets pass between two of them, renewals and commits that it tries
/// again. Small writes may find room where others do not, so that one that worked does not say that all is well.
const COUNTS: Duration = Duration::from_secs(5);

/// When the database last refused to write, for want of room or because it may not.
#[derive(Debug, Default)]
pub(crate) struct RefusedWrites(Mutex<Option<Instant>>);

impl RefusedWrites {
    /// Notes how a transaction ended, and gives that.
    pub(crate) fn noting<T>(&self, kind: TxKind, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &answer
            && kind != TxKind::Read
            && is_refusal(error)
        {
            *self.0.lock() = Some(Instant::now());
        }
        answer
    }

    /// Whether there was one a moment ago.
    pub(crate) fn are_recent(&self) -> bool {
        self.0.lock().is_some_and(|at| at.elapsed() < COUNTS)
    }
}

fn is_refusal(error: &StoreError) -> bool {
    match error {
        // A file that was open is found to be read-only; a server that lets nobody in is found by those who read, too.
        StoreError::Full(_) | StoreError::Address(_) => true,
        StoreError::Unavailable(error) if error.is::<rusqlite::Error>() => true,
        StoreError::Unavailable(error) | StoreError::Refused(error) => postgres::is_want_of_leave(error),
        _ => false,
    }
}
