//! Your own transactions: Outlast's verbs beside your rows, in a transaction of whatever driver you use.

use outlast_core::Error;
use outlast_store::adapters::{Adapter, Verb};
use outlast_store::{Delivery, DynStore, NewsKind};
use serde::Serialize;

use crate::client::{cancelled, delivered, repeated};
use crate::{Client, Target, Tx};

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

impl Client {
    /// Runs `work` in one transaction of Outlast's own database: its statements, and what
    /// [`Start::in_tx`](crate::Start::in_tx) and friends do, commit together or not at all.
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(app: App, ship: Workflow<u32, String, AnyError>) -> Result<(), AnyError> {
    /// let client = app.client().clone();
    /// app.transaction(async move |tx: Tx| {
    ///     tx.execute("insert into orders (id) values ($1)", (42i64,)).await?;
    ///     client.start(ship, 42).key("order-42").in_tx(&tx).await?;
    ///     Ok::<_, AnyError>(())
    /// }).await?;
    /// # Ok(()) }
    /// ```
    pub async fn transaction<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(Tx) -> Result<T, E>,
    ) -> Result<T, E> {
        let inner = repeated(|| self.store().begin()).await.map_err(Error::from)?;
        let tx = Tx::new(inner, "", *self.limits());
        let value = work(tx.clone()).await?;
        tx.take().await?.commit().await.map_err(Error::from)?;
        Ok(value)
    }

    /// Sends an event when the transaction commits; Outlast's own or your driver's, see [`InTx`].
    pub async fn send_in_tx<T: Serialize + ?Sized>(
        &self,
        tx: impl InTx,
        to: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        self.deliver_in_tx(tx, self.delivery(to.into(), NewsKind::Event, name, value)?).await
    }

    /// Settles a promise when the transaction commits; Outlast's own or your driver's, see [`InTx`].
    pub async fn settle_in_tx<T: Serialize + ?Sized>(
        &self,
        tx: impl InTx,
        of: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        self.deliver_in_tx(tx, self.delivery(of.into(), NewsKind::Settled, name, value)?).await
    }

    async fn deliver_in_tx(&self, tx: impl InTx, delivery: Delivery) -> Result<(), Error> {
        let answers = self.perform(tx, std::slice::from_ref(&delivery)).await?;
        delivered(&delivery, answers.into_iter().next())
    }

    /// Asks a run to stop when the transaction commits; Outlast's own or your driver's, see [`InTx`].
    pub async fn cancel_in_tx(
        &self,
        tx: impl InTx,
        run: impl Into<Target>,
        reason: &str,
    ) -> Result<bool, Error> {
        let control = self.cancel_control(run.into(), reason)?;
        let answer = self.perform(tx, &control).await?;
        cancelled(&control, answer)
    }

    pub(crate) async fn perform<V: Verb + ?Sized>(
        &self,
        tx: impl InTx,
        verb: &V,
    ) -> Result<V::Answer, Error> {
        tx.perform(self.store(), verb, self.notifies_in_tx()).await
    }
}

/// The verbs inside an SQLite transaction of rusqlite, which block as it does: see
/// [`Start::in_tx_blocking`](crate::Start::in_tx_blocking).
#[cfg(feature = "rusqlite")]
#[cfg_attr(docsrs, doc(cfg(feature = "rusqlite")))]
impl Client {
    /// Sends an event when the transaction commits.
    pub fn send_in_tx_blocking<T: Serialize + ?Sized>(
        &self,
        tx: &rusqlite::Connection,
        to: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        self.deliver_in_tx_blocking(tx, self.delivery(to.into(), NewsKind::Event, name, value)?)
    }

    /// Settles a promise when the transaction commits.
    pub fn settle_in_tx_blocking<T: Serialize + ?Sized>(
        &self,
        tx: &rusqlite::Connection,
        of: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        self.deliver_in_tx_blocking(tx, self.delivery(of.into(), NewsKind::Settled, name, value)?)
    }

    fn deliver_in_tx_blocking(&self, tx: &rusqlite::Connection, delivery: Delivery) -> Result<(), Error> {
        let answers = self.perform_blocking(tx, std::slice::from_ref(&delivery))?;
        delivered(&delivery, answers.into_iter().next())
    }

    /// Asks a run to stop when the transaction commits.
    pub fn cancel_in_tx_blocking(
        &self,
        tx: &rusqlite::Connection,
        run: impl Into<Target>,
        reason: &str,
    ) -> Result<bool, Error> {
        let control = self.cancel_control(run.into(), reason)?;
        let answer = self.perform_blocking(tx, &control)?;
        cancelled(&control, answer)
    }

    pub(crate) fn perform_blocking<V: Verb + ?Sized>(
        &self,
        tx: &rusqlite::Connection,
        verb: &V,
    ) -> Result<V::Answer, Error> {
        outlast_store::adapters::rusqlite::perform(tx, self.store(), verb)
    }
}
