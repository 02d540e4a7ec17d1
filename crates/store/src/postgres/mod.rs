//! PostgreSQL: many nodes on one database.
//!
//! Transactions are short, pipelined ([`tx`]) and bounded at both ends: the server cuts them off, and
//! we give up on a server that does not answer. Connections carry no state from one transaction to
//! the next but the statements they know ([`pool`]). Hints between processes are apart ([`listen`]).

#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
mod adapters;
mod cells;
mod error;
pub(crate) use error::{is_about_values, is_duplicate, is_want_of_leave};
mod listen;
mod migrate;
mod pool;
mod server;
mod statistics;
mod tls;
mod tx;
mod user;
mod vitals;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use outlast_core::ShardCount;
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use tracing::Instrument;

use self::error::is_worth_repeating;
use self::listen::Hints;
use self::pool::{Pool, Target};
use self::statistics::NextLook;
use self::tx::{PgTx, Session};
use self::user::PgUserTx;
use crate::migrate::Found;
use crate::refused_writes::RefusedWrites;
use crate::store::SIGNALS;
use crate::{CONFLICT_TRIES, Clock, OpenOptions, Signal, StoreError, TxKind, UserTx, Work};

/// An open PostgreSQL database.
pub(crate) struct Postgres {
    pub(crate) shards: ShardCount,
    pub(crate) clock: Clock,
    pool: Arc<Pool>,
    hints: Arc<Hints>,
    /// Whether a transition waits until others have its hints.
    tells_first: bool,
    /// Where the tasks run, also when somebody subscribes outside of it.
    runtime: Handle,
    carrier: AbortHandle,
    listener: OnceLock<AbortHandle>,
    next_look: NextLook,
    pub(crate) refused_writes: Arc<RefusedWrites>,
}

/// Opens a database and brings its schema up to date.
pub(crate) async fn open(url: &str, options: OpenOptions) -> Result<Arc<Postgres>, StoreError> {
    let target = Target::read(url)?;
    let place = target.place();
    let pool = Arc::new(Pool::new(target));
    let shards = migrate::migrate(&pool, &options, &place).await?;
    pool.look_for_pooler().await?;
    pool.look_at_durability().await?;

    let mut postgres = Postgres::on(Handle::current(), pool, shards, options.clock);
    postgres.tells_first = options.tells_first;
    Ok(Arc::new(postgres))
}

/// Brings a schema up to date, or as far as the options say.
pub(crate) async fn migrate_at(url: &str, options: &OpenOptions) -> Result<(), StoreError> {
    let target = Target::read(url)?;
    let place = target.place();
    migrate::migrate(&Arc::new(Pool::new(target)), options, &place).await.map(drop)
}

/// Takes a schema back to a file of its own, or only looks whether it can be.
pub(crate) async fn revert_at(url: &str, to: i64, dry_run: bool) -> Result<(), StoreError> {
    let target = Target::read(url)?;
    let place = target.place();
    migrate::revert(&Arc::new(Pool::new(target)), to, dry_run, &place).await
}

/// What there is of a schema.
pub(crate) async fn look_at(url: &str) -> Result<(Found, String), StoreError> {
    let target = Target::read(url)?;
    let place = target.place();
    let lease = Arc::new(Pool::new(target)).lease().await?;
    let found = migrate::look(lease.client(), &place).await?;
    Ok((found, place))
}

impl Postgres {
    fn on(runtime: Handle, pool: Arc<Pool>, shards: ShardCount, clock: Clock) -> Postgres {
        let hints = Arc::new(Hints::new(broadcast::Sender::new(SIGNALS)));
        let carrier = runtime.spawn(Arc::clone(&hints).carry(Arc::clone(&pool))).abort_handle();
        Postgres {
            shards,
            clock,
            pool,
            hints,
            tells_first: false,
            runtime,
            carrier,
            listener: OnceLock::new(),
            next_look: NextLook::default(),
            refused_writes: Arc::default(),
        }
    }

    /// The same database through a few connections of its own, on another runtime.
    pub(crate) fn apart(&self, runtime: &Handle) -> Postgres {
        let pool = Arc::new(self.pool.apart(runtime));
        let mut apart = Postgres::on(runtime.clone(), pool, self.shards, self.clock.clone());
        apart.refused_writes = Arc::clone(&self.refused_writes);
        apart
    }

    /// Runs the work of a transition, from the start again after a conflict.
    ///
    /// It goes on when the caller does not wait for it any more: a transaction that was begun ends, and
    /// its connection comes back.
    pub(crate) async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        kind: TxKind,
        work: Work<T>,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(self);
        self.beside(async move { store.transact_here(kind, work).await }).await
    }

    /// Does something to its end, also when the caller does not wait for it any more.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.runtime.spawn(work).await.unwrap_or_else(|error| match error.is_panic() {
            true => Err(StoreError::Refused("a transition panicked".into())),
            false => Err(StoreError::Unavailable("the store is closing".into())),
        })
    }

    /// The same for a caller that is a task of its own and waits to the end: one hop less.
    pub(crate) async fn transact_here<T>(&self, kind: TxKind, work: Work<T>) -> Result<T, StoreError> {
        let span = tracing::debug_span!("outlast.transaction", ?kind);
        let done = AssertUnwindSafe(self.repeat(kind, work)).catch_unwind().instrument(span).await;
        let done = done.unwrap_or_else(|_| Err(StoreError::Refused("a transition panicked".into())));
        self.refused_writes.noting(kind, done)
    }

    async fn repeat<T>(&self, kind: TxKind, mut work: Work<T>) -> Result<T, StoreError> {
        for attempt in 1.. {
            let error = match self.once(kind, &mut work).await {
                Err(error) if is_worth_repeating(&error) && attempt < CONFLICT_TRIES => error,
                answer => return answer,
            };
            tracing::debug!(%error, attempt, "a transaction begins again");
            let pause = Duration::from_millis(2 << attempt).mul_f64(fastrand::f64());
            tokio::time::sleep(pause).await;
        }
        unreachable!("attempts are counted for ever")
    }

    async fn once<T>(&self, kind: TxKind, work: &mut Work<T>) -> Result<T, StoreError> {
        let mut session = Session::new(self.pool.lease().await?, kind);
        let mut tx = PgTx {
            session: &mut session,
            clock: &self.clock,
            is_users: kind == TxKind::Plain,
            is_ours: true,
        };
        match work(&mut tx).await {
            Ok(answer) => {
                let signals = session.commit().await?;
                self.hints.send(signals);
                if self.tells_first {
                    self.hints.tell(&self.pool).await;
                }
                Ok(answer)
            }
            Err(error) => {
                session.roll_back().await;
                Err(error)
            }
        }
    }

    /// Begins a user's own transaction.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<Box<dyn UserTx>, StoreError> {
        Ok(Box::new(PgUserTx::begin(Arc::clone(self)).await?))
    }

    /// Subscribes, and listens to other processes from now on: not through a pooler, which would keep what it is told to listen to
    /// on a server's connection that others get next.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Signal> {
        let receiver = self.hints.local.subscribe();
        if self.pool.is_unnamed() {
            return receiver;
        }
        self.listener.get_or_init(|| {
            let hearing = Arc::clone(&self.hints).hear(self.pool.server.clone());
            self.runtime.spawn(hearing).abort_handle()
        });
        receiver
    }

    /// Whether hints of other processes arrive. A pooler may have passed on the one that was sent to try it, and none
    /// after that.
    pub(crate) fn hears_others(&self) -> bool {
        self.hints.hears() && !self.pool.is_unnamed()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.carrier.abort();
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

#[cfg(test)]
mod tests;
