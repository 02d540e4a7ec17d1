//! Users' own transactions: our transitions inside a transaction of the user's own driver.
//!
//! Whatever a [`Verb`] does happens when the user commits and never happened when they roll back. The
//! statements and the transitions are those of our own drivers; an adapter only sends the one and runs the
//! other, each behind a feature of its driver's name. Locks are waited for, in order, for as long as the
//! user's own settings say, and held until the user's transaction ends: our batches pass over them. Whoever ends a turn
//! holds back those who would take over from a dead node: from there on the transaction has our bounds.

use async_trait::async_trait;
use outlast_core::{Error, ShardCount};

use crate::{
    Committed, Control, Controlled, Delivered, Delivery, DynStore, KvEntry, KvList, KvName, KvPage, KvWrite,
    KvWritten, NewRun, Started, StoreError, TurnEnd, Tx, UserTx, reads, transitions,
};

/// Something to do inside a user's transaction.
#[async_trait]
pub trait Verb: Sync {
    /// What it answers.
    type Answer: Send;

    /// Does it in a transaction of the user's own driver.
    async fn run(&self, tx: &mut dyn Tx, shards: ShardCount) -> Result<Self::Answer, StoreError>;

    /// Whether nodes have reason to look once it is committed: not where no run has to do with it.
    fn is_about_runs(&self) -> bool {
        true
    }

    /// Whether it locks the row of the node for the rest of the transaction: while it is held, nobody takes over from a
    /// node that has died, so the database must not hold it for one that is silent.
    fn takes_fence(&self) -> bool {
        false
    }

    /// Does it in a transaction that we gave to the user.
    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<Self::Answer, StoreError>;
}

/// A transaction in which verbs can be done.
pub trait Adapter: Send {
    /// Does it. After an error the transaction is good for nothing but to be rolled back.
    ///
    /// With `notify` the nodes that listen hear of it when the user commits, if it is about runs and where the
    /// database has to be asked for that.
    fn perform<V: Verb + ?Sized>(
        self,
        store: &DynStore,
        verb: &V,
        notify: bool,
    ) -> impl Future<Output = Result<V::Answer, Error>> + Send;
}

#[async_trait]
impl Verb for [NewRun] {
    type Answer = Vec<Started>;

    async fn run(&self, tx: &mut dyn Tx, _shards: ShardCount) -> Result<Vec<Started>, StoreError> {
        transitions::start(tx, self, None).await
    }

    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<Vec<Started>, StoreError> {
        tx.start(self).await
    }
}

#[async_trait]
impl Verb for TurnEnd {
    type Answer = Committed;

    fn takes_fence(&self) -> bool {
        true
    }

    async fn run(&self, tx: &mut dyn Tx, shards: ShardCount) -> Result<Committed, StoreError> {
        transitions::end_turn(tx, self, shards).await
    }

    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<Committed, StoreError> {
        tx.end(self).await
    }
}

#[async_trait]
impl Verb for [Delivery] {
    type Answer = Vec<Delivered>;

    async fn run(&self, tx: &mut dyn Tx, shards: ShardCount) -> Result<Vec<Delivered>, StoreError> {
        transitions::deliver(tx, self, shards).await
    }

    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<Vec<Delivered>, StoreError> {
        tx.deliver(self).await
    }
}

#[async_trait]
impl Verb for Control {
    type Answer = Controlled;

    fn takes_fence(&self) -> bool {
        self.takes_from_node()
    }

    async fn run(&self, tx: &mut dyn Tx, shards: ShardCount) -> Result<Controlled, StoreError> {
        transitions::control(tx, self, shards).await
    }

    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<Controlled, StoreError> {
        tx.control(self).await
    }
}

#[async_trait]
impl Verb for [KvWrite] {
    type Answer = Vec<KvWritten>;

    fn is_about_runs(&self) -> bool {
        false
    }

    async fn run(&self, tx: &mut dyn Tx, shards: ShardCount) -> Result<Vec<KvWritten>, StoreError> {
        transitions::kv_write(tx, self, shards).await
    }

    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<Vec<KvWritten>, StoreError> {
        tx.kv_write(self).await
    }
}

#[async_trait]
impl Verb for KvName {
    type Answer = Option<KvEntry>;

    fn is_about_runs(&self) -> bool {
        false
    }

    async fn run(&self, tx: &mut dyn Tx, shards: ShardCount) -> Result<Option<KvEntry>, StoreError> {
        reads::kv_get(tx, self, shards).await
    }

    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<Option<KvEntry>, StoreError> {
        tx.kv_get(self).await
    }
}

#[async_trait]
impl Verb for KvList {
    type Answer = KvPage;

    fn is_about_runs(&self) -> bool {
        false
    }

    async fn run(&self, tx: &mut dyn Tx, shards: ShardCount) -> Result<KvPage, StoreError> {
        reads::kv_list(tx, self, shards).await
    }

    async fn run_in_ours(&self, tx: &mut dyn UserTx) -> Result<KvPage, StoreError> {
        tx.kv_list(self).await
    }
}

/// The verbs in an SQLite transaction of rusqlite.
#[cfg(feature = "rusqlite")]
pub mod rusqlite {
    pub use crate::sqlite::{definitions, perform};
}

/// Refuses a transaction of one database for a store on the other.
#[cfg(any(feature = "sqlx", feature = "tokio-postgres", feature = "rusqlite"))]
pub(crate) fn check_database(
    store: &dyn crate::Store,
    name: &str,
    transaction: &str,
) -> Result<(), StoreError> {
    match store.name() {
        known if known == name => Ok(()),
        other => Err(StoreError::Address(format!(
            "Outlast's runs live in {other} here, and a transaction of {transaction} cannot reach them: \
             open both on the same database"
        ))),
    }
}

/// What is said where the transaction has none of our tables.
#[cfg(any(feature = "sqlx", feature = "tokio-postgres", feature = "rusqlite"))]
pub(crate) fn no_tables(said: &str) -> StoreError {
    StoreError::Schema(format!(
        "this transaction is on a database without Outlast's tables: begin it on the one that Outlast has \
         opened ({said})"
    ))
}

/// What is said to whoever has not begun.
#[cfg(any(feature = "sqlx", feature = "rusqlite"))]
pub(crate) fn no_transaction(remedy: &str) -> StoreError {
    StoreError::Statement(format!("no transaction is open on this connection: {remedy}").into())
}
