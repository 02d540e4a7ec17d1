//! What PostgreSQL's refusals mean to a caller.

use std::error::Error as _;
use std::fmt;

use tokio_postgres::error::SqlState;

use crate::StoreError;

/// An error with its SQLSTATE, shown as the server's own words.
#[derive(Debug)]
pub(super) struct PgError {
    code: Option<SqlState>,
    text: String,
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for PgError {}

/// The meaning of an error of one of our own statements.
pub(super) fn meaning(error: &tokio_postgres::Error) -> StoreError {
    match error.as_db_error() {
        Some(said) => meaning_of(said.code(), said.message()),
        None => {
            let (code, text) = (None, chain(error));
            match error.source().is_some_and(|cause| cause.is::<std::io::Error>()) || error.is_closed() {
                true => StoreError::Unavailable(PgError { code, text }.into()),
                // Not from the server, and not its loss: a value we could not encode or decode.
                false => StoreError::Refused(PgError { code, text }.into()),
            }
        }
    }
}

/// The meaning of what the server said. Its detail stays out, which may quote what is stored.
pub(super) fn meaning_of(state: &SqlState, message: &str) -> StoreError {
    let text = format!("{message} ({})", state.code());
    let (class, state, code) = (state.code().get(..2).unwrap_or_default(), state.code(), Some(state.clone()));
    match (class, state) {
        ("40", _) | (_, "55P03" | "57014") => StoreError::Conflict(PgError { code, text }.into()),
        // A statement was prepared before somebody migrated: it works on a new connection.
        (_, "0A000") if text.contains("cached plan") => StoreError::Conflict(PgError { code, text }.into()),
        (_, "53100") => StoreError::Full(PgError { code, text }.into()),
        // Too few or too many values for a statement: no fault of the connection.
        (_, "08P01") => StoreError::Refused(PgError { code, text }.into()),
        // 57P0x: shutting down, starting; 25006: a standby; 25P03: we slept for too long.
        // 58, XX: the server's own files or memory are in trouble.
        ("08" | "53" | "57" | "58" | "XX", _) | (_, "25006" | "25P03") => {
            StoreError::Unavailable(PgError { code, text }.into())
        }
        ("28", _) => {
            StoreError::Address(format!("PostgreSQL does not let us in: {text}. Check user and password"))
        }
        (_, "3D000") => {
            StoreError::Address(format!("{text}: create it first, with `createdb` or `create database`"))
        }
        _ => StoreError::Refused(PgError { code, text }.into()),
    }
}

/// The meaning of an error of the user's own statement: theirs, unless the database itself is in trouble.
pub(super) fn users_meaning(error: &tokio_postgres::Error) -> StoreError {
    match (meaning(error), error.as_db_error()) {
        (StoreError::Refused(_), Some(said)) => {
            let more = [said.detail(), said.hint()].into_iter().flatten();
            let more: String = more.map(|line| format!("; {line}")).collect();
            StoreError::Statement(format!("{}{more}", said.message()).into())
        }
        (StoreError::Refused(error), None) => StoreError::Statement(error),
        (other, _) => other,
    }
}

/// Whether an error says only that the transaction had failed before.
pub(super) fn is_aftermath(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION)
}

/// Whether the same transaction may succeed when it is begun again at once.
pub(super) fn is_worth_repeating(error: &StoreError) -> bool {
    match error {
        // Not the server's word: a transition found that it has to begin again.
        StoreError::Conflict(error) if !error.is::<PgError>() => true,
        _ => matches!(conflict(error), Some("40001" | "40P01" | "0A000")),
    }
}

/// Whether a statement was prepared for a schema that has changed since.
pub(super) fn is_stale(error: &StoreError) -> bool {
    conflict(error) == Some("0A000")
}

/// Whether a statement that writes what nobody has written yet found that somebody has.
pub(crate) fn is_duplicate(error: &StoreError) -> bool {
    let StoreError::Refused(error) = error else { return false };
    let said = error.downcast_ref::<PgError>();
    said.is_some_and(|said| said.code == Some(SqlState::UNIQUE_VIOLATION))
}

/// Whether an error is about the values of a statement, and not about the database as it is just now (a table or a
/// right that is missing while somebody restores it).
pub(crate) fn is_about_values(error: &crate::DriverError) -> bool {
    let code = error.downcast_ref::<PgError>().and_then(|said| said.code.as_ref());
    code.is_none_or(|code| matches!(code.code().get(..2), Some("22" | "23" | "54")))
}

/// Whether a server was asked to write that only reads (a standby, or one that was told so), or that does not let our role.
pub(crate) fn is_want_of_leave(error: &crate::DriverError) -> bool {
    let code = error.downcast_ref::<PgError>().and_then(|said| said.code.as_ref());
    matches!(code, Some(&SqlState::READ_ONLY_SQL_TRANSACTION | &SqlState::INSUFFICIENT_PRIVILEGE))
}

fn conflict(error: &StoreError) -> Option<&str> {
    let StoreError::Conflict(error) = error else { return None };
    error.downcast_ref::<PgError>()?.code.as_ref().map(SqlState::code)
}

/// Whether somebody else made the same thing at the same time.
pub(super) fn is_race(error: &tokio_postgres::Error) -> bool {
    let code = error.code().map(SqlState::code);
    matches!(code, Some("40001" | "40P01" | "23505" | "42P06" | "42P07" | "42710"))
}

/// An error with all its causes: the driver shows only the outermost.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
