//! What SQLite's refusals mean to a caller.

use rusqlite::ErrorCode;

use crate::StoreError;

/// The meaning of an error of one of our own statements.
pub(super) fn meaning(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Conflict(error.into()),
        Some(ErrorCode::DiskFull) => StoreError::Full(error.into()),
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::FileLockingProtocolFailed) => {
            StoreError::Unavailable(error.into())
        }
        Some(ErrorCode::NotADatabase) => {
            StoreError::Address("the file is not an SQLite database: name another file".to_owned())
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Schema(format!(
            "the database file is damaged ({error}): restore it from a backup, or recover it with \
             `sqlite3 .recover`"
        )),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::Address(format!(
                "the database file, or the folder it is in, cannot be written to ({error}): check \
                 their permissions"
            ))
        }
        _ => StoreError::Refused(error.into()),
    }
}

/// The meaning of an error of the user's own statement: theirs, unless the database itself is in trouble.
pub(super) fn users_meaning(error: rusqlite::Error) -> StoreError {
    match meaning(error) {
        StoreError::Refused(error) => StoreError::Statement(error),
        other => other,
    }
}

/// Whether waiting helps: somebody else has the lock.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
