//! A transaction of the user's: the same on both databases.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use outlast_core::{Entry, NodeId, RunId};

use crate::{
    Committed, Control, Controlled, Delivered, Delivery, KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten,
    NewRun, Started, StoreError, TurnEnd,
};

/// A value that goes into or comes out of a user's statement.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// SQL's null.
    Null,
    /// A truth value (on SQLite 0 or 1).
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Bytes),
}

/// A row that came out: values in the order of the columns.
pub type ValueRow = Vec<Value>;

/// A begun transaction. Dropped without [`UserTx::commit`], nothing of it happened.
#[async_trait]
pub trait UserTx: Send {
    /// Runs a statement with `$1`, `$2` … bound to `params`; gives the number of rows changed.
    async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, StoreError>;

    /// Runs a query; gives its rows.
    async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<ValueRow>, StoreError>;

    /// Starts runs; they exist when the transaction commits.
    async fn start(&mut self, runs: &[NewRun]) -> Result<Vec<Started>, StoreError>;

    /// Delivers messages; they arrive when the transaction commits.
    async fn deliver(&mut self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError>;

    /// Cancels or purges; it happens when the transaction commits.
    async fn control(&mut self, control: &Control) -> Result<Controlled, StoreError>;

    /// Changes values that handlers keep; others see it when the transaction commits, and who writes the same ones waits
    /// for that.
    async fn kv_write(&mut self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError>;

    /// The value under a name, as this transaction sees it.
    async fn kv_get(&mut self, name: &KvName) -> Result<Option<KvEntry>, StoreError>;

    /// Values whose keys begin alike, as this transaction sees them.
    async fn kv_list(&mut self, ask: &KvList) -> Result<KvPage, StoreError>;

    /// Records a journal entry of a held run under its fence, as the last thing before the commit. Any
    /// answer but [`Committed::Done`] means: roll back. An entry that an earlier transaction recorded is
    /// not `Done`: what belongs to it was committed then.
    async fn record(
        &mut self,
        node: NodeId,
        run: RunId,
        epoch: i64,
        entry: &Entry,
    ) -> Result<Committed, StoreError>;

    /// Ends the turn of a run in hand, as [`crate::Store::commit`] does; it has ended when the transaction commits. Any
    /// answer but [`Committed::Done`] means: roll back.
    async fn end(&mut self, turn: &TurnEnd) -> Result<Committed, StoreError>;

    /// Makes all of it happen.
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;

    /// Makes none of it happen.
    async fn rollback(self: Box<Self>) -> Result<(), StoreError>;
}

/// How long a user's transaction may wait between two statements.
pub(crate) const USER_IDLE: Duration = Duration::from_secs(5);
/// How long a user's transaction may last (SQLite), or one of its statements (PostgreSQL).
pub(crate) const USER_LIMIT: Duration = Duration::from_secs(30);

/// Refuses what would end our transaction behind our back.
pub(crate) fn check_statement(sql: &str) -> Result<(), StoreError> {
    let mut words = sql.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    let second = words.next().unwrap_or_default().to_ascii_lowercase();
    let ends = match first.as_str() {
        "begin" | "start" | "commit" | "end" | "abort" => true,
        "rollback" => second != "to",
        "prepare" => second == "transaction",
        _ => false,
    };
    match ends {
        true => Err(StoreError::Statement(
            format!("`{first}` is not for statements: end the transaction with its own commit or rollback")
                .into(),
        )),
        false => Ok(()),
    }
}

/// The answer to everything after an error, on both databases: half a transaction must not commit.
pub(crate) fn failed_before() -> StoreError {
    StoreError::Statement(
        "an earlier statement of this transaction failed: roll it back and begin again".into(),
    )
}

/// The answer to whoever took too long.
pub(crate) fn rolled_back() -> StoreError {
    let (idle, limit) = (USER_IDLE.as_secs(), USER_LIMIT.as_secs());
    let why = format!(
        "the transaction was idle for {idle} s, or open for {limit} s, and has been rolled back so that \
         others can go on: do slow work before it"
    );
    StoreError::Statement(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_end_the_transaction_are_refused() {
        for sql in
            ["commit", " COMMIT;", "rollback", "begin", "end", "Rollback work", "prepare transaction 'x'"]
        {
            assert!(check_statement(sql).is_err(), "{sql}");
        }
        for sql in ["select 1", "insert into commit values (1)", "rollback to s", "savepoint s", ""] {
            assert!(check_statement(sql).is_ok(), "{sql}");
        }
    }
}
