//! What the transitions need of a database: transactions made of flights of statements.
//!
//! A flight is a list of statements that do not need each other's answers in between; on PostgreSQL
//! it travels in one round trip. `begin` rides with the first flight of a transaction and `commit`
//! with the last, when the transition says which is the last. The transitions are written once, over
//! [`Tx`]; drivers and adapters for users' own transactions implement it.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use outlast_core::Timestamp;

use crate::{Call, Dialect, Row, Signal, StoreError};

/// A transaction, as the transitions see it.
#[async_trait]
pub trait Tx: Send {
    /// Runs statements in order and gives each one's rows (`returning` and `select`; for others none).
    async fn flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError>;

    /// The last flight: like [`Tx::flight`], with the commit behind it where we own the transaction.
    /// In a user's own transaction it is a flight like any other. Every transition that succeeds ends
    /// with one, with no statements when there is nothing left to do but to commit.
    async fn last_flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError>;

    /// Whose texts it runs, for the few transitions that are told in another way on each database.
    fn dialect(&self) -> Dialect;

    /// Whether locks are waited for (a user's transaction, a client's call), or rows that others have
    /// locked are passed over (the engine's batches).
    fn is_users(&self) -> bool;

    /// Notes a hint to send once the transaction has committed. Also called after the last flight, whose
    /// answers may be what the hint is about: hints go out when the transition has returned.
    fn signal(&mut self, signal: Signal);

    /// The machine's own time, for ids: only for locality in the index, a wrong clock does no harm.
    fn machine_now(&self) -> Timestamp {
        Timestamp::from(std::time::SystemTime::now())
    }
}

/// The work of one transition: called again from the start after a conflict.
pub type Work<T> = Box<dyn for<'t> FnMut(&'t mut dyn Tx) -> BoxFuture<'t, Result<T, StoreError>> + Send>;

/// Which locks and timeouts a transaction needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxKind {
    /// Holds a fence: statement and idle timeouts below the lease.
    Fenced,
    /// Anything else that writes.
    Plain,
    /// Perhaps one statement, which is a transaction by itself and needs no bounds: it ends without us, and
    /// waits only for transactions that are bounded. Otherwise as if it held a fence.
    Single,
    /// Reads only, on one snapshot.
    Read,
}

/// The number of milliseconds after which a fenced transaction is cut off by the database: below the
/// lease, so that a stopped process cannot hold up its own takeover.
pub const FENCED_TIMEOUT_MS: u32 = 5_000;
/// How long a transition waits for somebody else's lock.
pub const LOCK_TIMEOUT_MS: u32 = 2_000;
/// How often a transaction is begun again after a conflict (40001, 40P01, busy).
pub const CONFLICT_TRIES: u32 = 5;
