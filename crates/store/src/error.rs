//! What a store says when it cannot do what it was asked.

use outlast_core::RunId;

/// An error of the driver underneath.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;

/// Why a store could not answer. Tells the caller what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Out of reach for now: the same call may work in a moment.
    #[error("the database is unavailable: {0}")]
    Unavailable(#[source] DriverError),
    /// Another transaction got in the way: begin this one again at once.
    #[error("the transaction met a conflict: {0}")]
    Conflict(#[source] DriverError),
    /// No room left where the database lives: a person has to make some; then the same call works.
    #[error("the database has no room left: {0}")]
    Full(#[source] DriverError),
    /// The address does not name a database that can be used; says why.
    #[error("{0}")]
    Address(String),
    /// The schema there is not ours, or of another version; names both.
    #[error("{0}")]
    Schema(String),
    /// Another process owns this file.
    #[error("{file} is in use by process {pid}: stop it, or connect to it as a client")]
    Owned {
        /// The file.
        file: String,
        /// The owner.
        pid: String,
    },
    /// Written by a version we do not know: a person has to look.
    #[error("run {run} holds an entry this version cannot read: {detail}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        detail: String,
    },
    /// The user's own statement in a transaction was refused.
    #[error("the statement was refused: {0}")]
    Statement(#[source] DriverError),
    /// The database refused one of our own statements: a bug, or a schema changed by hand.
    #[error("the database refused a statement: {0}")]
    Refused(#[source] DriverError),
}

impl StoreError {
    /// Whether the same call may work in a moment.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Unavailable(_) | StoreError::Conflict(_) | StoreError::Full(_))
    }

    /// Whether the database refuses what it was given, and will do so whenever it is asked.
    pub fn is_final(&self) -> bool {
        match self {
            StoreError::Refused(error) => crate::postgres::is_about_values(error),
            _ => false,
        }
    }

    /// The same error again, for everybody else who shared the transaction.
    pub fn again(&self) -> StoreError {
        match self {
            StoreError::Unavailable(error) => StoreError::Unavailable(error.to_string().into()),
            StoreError::Conflict(error) => StoreError::Conflict(error.to_string().into()),
            StoreError::Full(error) => StoreError::Full(error.to_string().into()),
            StoreError::Address(why) => StoreError::Address(why.clone()),
            StoreError::Schema(why) => StoreError::Schema(why.clone()),
            StoreError::Statement(error) => StoreError::Statement(error.to_string().into()),
            StoreError::Refused(error) => StoreError::Refused(error.to_string().into()),
            other => StoreError::Refused(other.to_string().into()),
        }
    }
}

impl From<StoreError> for outlast_core::Error {
    fn from(error: StoreError) -> outlast_core::Error {
        outlast_core::Error::Store { retryable: error.is_retryable(), detail: error.to_string() }
    }
}
