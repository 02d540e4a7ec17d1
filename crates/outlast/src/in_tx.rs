//! Your own transactions: Outlast's verbs beside your rows, in a transaction of whatever driver you use.

use outlast_store::DynStore;
use outlast_store::adapters::{Adapter, Verb};

use crate::{Error, Tx};

/// A transaction in which runs can be started, sent to, settled and cancelled, and values read and written: when it
/// commits, all of that happened; when it rolls back, none of it did.
///
/// | a transaction of | with the feature | is given as |
/// | --- | --- | --- |
/// | Outlast itself: [`Client::transaction`](crate::Client::transaction) | | `&tx` |
/// | [sqlx](https://docs.rs/sqlx) 0.9 on PostgreSQL | `sqlx` | `&mut *tx` |
/// | [tokio-postgres](https://docs.rs/tokio-postgres) 0.7 | `tokio-postgres` | `&tx` |
///
/// [rusqlite](https://docs.rs/rusqlite) blocks, and its transactions stay on their thread: with the
/// feature `rusqlite` there are verbs for it that block too, `Start::in_tx_blocking` and friends.
///
/// The transaction must be on the database that Outlast has opened. It waits for whoever else is busy with
/// the same run or key, and holds them until it ends: keep it short. After an error, or when the future
/// was dropped before it ended, roll back. On commit PostgreSQL tells the nodes at once: see
/// [`Outlast::notify_in_tx`](crate::Outlast::notify_in_tx). The trait is sealed: these are all there are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction that Outlast knows",
    note = "give `&tx` of Outlast or tokio-postgres, or `&mut *tx` of sqlx, with the feature of that name",
    note = "for rusqlite there are methods that end in `_blocking`"
)]
pub trait InTx: Adapter {}

impl InTx for &Tx {}

impl Adapter for &Tx {
    async fn perform<V: Verb + ?Sized>(self, _: &DynStore, verb: &V, _: bool) -> Result<V::Answer, Error> {
        self.perform_in_ours(verb).await
    }
}

/// ```no_run
/// use outlast::prelude::*;
///
/// # async fn order(pool: sqlx::PgPool, app: App, checkout: Workflow<i64, (), AnyError>) -> Result<(), AnyError> {
/// let mut tx = pool.begin().await?;
/// sqlx::query("insert into orders (id) values ($1)").bind(42_i64).execute(&mut *tx).await?;
/// app.start(checkout, 42).key("order-42").in_tx(&mut *tx).await?;
/// app.send_in_tx(&mut *tx, Target::key("stock", "shelf-7"), "sold", &42).await?;
/// tx.commit().await?; // now, and not before, there are an order, its run and an event
/// # Ok(()) }
/// ```
#[cfg(feature = "sqlx")]
#[cfg_attr(docsrs, doc(cfg(feature = "sqlx")))]
impl InTx for &mut sqlx::PgConnection {}

/// ```no_run
/// use outlast::prelude::*;
///
/// # async fn order(
/// #     mut postgres: tokio_postgres::Client, app: App, checkout: Workflow<i64, (), AnyError>,
/// # ) -> Result<(), AnyError> {
/// let tx = postgres.transaction().await?;
/// tx.execute("insert into orders (id) values ($1)", &[&42_i64]).await?;
/// app.start(checkout, 42).key("order-42").in_tx(&tx).await?;
/// app.send_in_tx(&tx, Target::key("stock", "shelf-7"), "sold", &42).await?;
/// tx.commit().await?; // now, and not before, there are an order, its run and an event
/// # Ok(()) }
/// ```
#[cfg(feature = "tokio-postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio-postgres")))]
impl InTx for &tokio_postgres::Transaction<'_> {}
