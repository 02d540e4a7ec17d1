//! Users' own transactions on PostgreSQL, through sqlx or tokio-postgres.
//!
//! Values travel in the same binary format as on our own connections. Isolation, timeouts and the end of
//! the transaction are the user's, until it takes a fence: from there on our bounds hold for the rest of it, unless the
//! user's own are narrower.

#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use std::collections::BTreeSet;

use ::tokio_postgres::error::SqlState;
use async_trait::async_trait;

use super::error::meaning_of;
use super::listen::written;
use super::tx::{Ask, Sending};
use crate::adapters::{Verb, check_database, no_tables};
use crate::render::Dialect;
use crate::rows::cells;
use crate::user_tx::failed_before;
use crate::{
    Call, Cell, Clock, FENCED_TIMEOUT_MS, LOCK_TIMEOUT_MS, Row, Signal, Sql, Store, StoreError, Tx, Type,
};

/// A user's connection, inside a transaction.
#[async_trait]
trait Wire: Send {
    /// Runs statements in order and gives each one's rows.
    async fn exchange(&mut self, asks: &[Ask]) -> Result<Vec<Vec<Row>>, StoreError>;
}

/// Does something in a user's transaction, and leaves word for those who listen.
async fn perform<V: Verb + ?Sized>(
    wire: impl Wire,
    store: &dyn Store,
    verb: &V,
    notify: bool,
) -> Result<V::Answer, StoreError> {
    check_database(store, "postgres", "PostgreSQL")?;
    let bounds = cells![i64::from(FENCED_TIMEOUT_MS), i64::from(LOCK_TIMEOUT_MS)];
    let ahead = verb.takes_fence().then(|| BOUNDS.with(bounds));
    let mut tx = UsersTx { wire, clock: store.clock(), signals: Vec::new(), ahead };
    let answer = verb.run(&mut tx, store.shards()).await?;
    if notify && verb.is_about_runs() {
        // Claims pass over what we hold until the user commits: then there is reason to look again.
        if tx.signals.is_empty() {
            tx.signals.push(Signal::Due);
        }
        // Sent by nobody in particular, so that this process hears it too.
        let hints: BTreeSet<String> = tx.signals.iter().map(written).collect();
        tx.flight(vec![NOTIFY.with([Cell::Texts(hints.into_iter().collect())])]).await?;
    }
    Ok(answer)
}

struct UsersTx<'s, W> {
    wire: W,
    clock: &'s Clock,
    signals: Vec<Signal>,
    /// Rides ahead of the first flight.
    ahead: Option<Call>,
}

#[async_trait]
impl<W: Wire> Tx for UsersTx<'_, W> {
    async fn flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        let ahead = self.ahead.take();
        let rest = usize::from(ahead.is_some());
        let sending = Sending::of(ahead.into_iter().chain(calls).collect(), self.clock)?;
        let answers = self.wire.exchange(&sending.asks).await?;
        Ok(sending.in_order(answers).split_off(rest))
    }

    async fn last_flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.flight(calls).await
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn is_users(&self) -> bool {
        true
    }

    fn signal(&mut self, signal: Signal) {
        self.signals.push(signal);
    }
}

/// The meaning of what the server said to one of our statements in a transaction that the user began, in
/// a database and with a role of their choice.
fn users_meaning(state: &SqlState, message: &str) -> StoreError {
    match state.code() {
        "3F000" | "42P01" => no_tables(message),
        "42501" => StoreError::Schema(format!(
            "{message}: grant this transaction's role `usage` on the schema outlast and `select, insert, \
             update, delete` on its tables"
        )),
        "25006" => StoreError::Statement(message.to_owned().into()),
        "25P02" => failed_before(),
        _ => meaning_of(state, message),
    }
}

static NOTIFY: Sql = Sql::new("users_notify", "select pg_notify('outlast', hint) from unnest({p1}) as hint")
    .takes(&[Type::Texts]);

// As `set local`, which a pooler may rely on; 0 means none.
static BOUNDS: Sql = Sql::new(
    "users_bounds",
    "select set_config(s.name, b.most::text, true)
       from (values ('statement_timeout', {p1}), ('idle_in_transaction_session_timeout', {p1}),
                    ('lock_timeout', {p2})) as b (name, most)
            join pg_settings as s on s.name = b.name and s.setting::bigint not between 1 and b.most",
)
.takes(&[Type::Int, Type::Int]);
