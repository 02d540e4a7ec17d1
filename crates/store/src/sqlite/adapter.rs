//! Users' own transactions on SQLite, through rusqlite.
//!
//! A connection of rusqlite cannot be shared between threads, and a transition is a future that can. So
//! the transition runs beside the connection: what it asks for is handed over, done on the spot, and the
//! answer handed back, all in the caller's own thread.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use outlast_core::Error;
use parking_lot::Mutex;
use rusqlite::Connection;

use super::error::meaning;
use super::tx::run;
use crate::adapters::{Verb, check_database, no_tables, no_transaction};
use crate::render::Dialect;
use crate::{Call, Clock, DefinitionCard, DynStore, Row, Signal, Store, StoreError, Tx, reads};

/// Does something inside the transaction that is open on `connection`: all of it, or after an error none.
///
/// Whoever owns the file notices the user's commit by itself.
pub fn perform<V: Verb + ?Sized>(
    connection: &Connection,
    store: &DynStore,
    verb: &V,
) -> Result<V::Answer, Error> {
    let shards = store.shards();
    Ok(inside(connection, &**store, async |relay| verb.run(relay, shards).await)?)
}

/// The definitions that nodes have registered, as this transaction sees them.
pub fn definitions(connection: &Connection, store: &DynStore) -> Result<Vec<DefinitionCard>, Error> {
    Ok(inside(connection, &**store, async |relay| reads::definitions(relay).await)?)
}

/// Runs a transition in a savepoint: unlike PostgreSQL, SQLite would let the user commit half of it.
fn inside<T>(
    connection: &Connection,
    store: &dyn Store,
    work: impl AsyncFnOnce(&mut Relay<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    check_database(store, "sqlite", "SQLite")?;
    if connection.is_autocommit() {
        return Err(no_transaction("begin one, such as with `Connection::transaction_with_behavior`"));
    }
    connection.execute_batch("savepoint outlast").map_err(meaning)?;
    let done = drive(connection, store.clock(), work);
    if done.is_err() {
        // After a full disk there may be nothing left to go back to.
        let _ = connection.execute_batch("rollback to outlast");
    }
    let released = connection.execute_batch("release outlast").map_err(meaning);
    let answer = done.map_err(users_meaning)?;
    released.map(|()| answer)
}

/// Polls a transition to its end, and does in between what it asks for.
fn drive<T>(
    connection: &Connection,
    clock: &Clock,
    work: impl AsyncFnOnce(&mut Relay<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let desk = Desk::default();
    let mut relay = Relay(&desk);
    let mut work = pin!(work(&mut relay));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(answer) = work.as_mut().poll(&mut context) {
            return answer;
        }
        let Some(calls) = desk.asked.lock().take() else {
            let why = "a transition waited for something that is not the database";
            return Err(StoreError::Refused(why.into()));
        };
        let answer = calls.iter().map(|call| run(connection, clock, call)).collect();
        *desk.answered.lock() = Some(answer);
    }
}

type Answer = Result<Vec<Vec<Row>>, StoreError>;

/// Where a transition leaves what it asks for and finds the answer.
#[derive(Default)]
struct Desk {
    asked: Mutex<Option<Vec<Call>>>,
    answered: Mutex<Option<Answer>>,
}

/// The transition's side of the desk.
struct Relay<'d>(&'d Desk);

#[async_trait]
impl Tx for Relay<'_> {
    async fn flight(&mut self, calls: Vec<Call>) -> Answer {
        *self.0.asked.lock() = Some(calls);
        std::future::poll_fn(|_| self.0.answered.lock().take().map_or(Poll::Pending, Poll::Ready)).await
    }

    async fn last_flight(&mut self, calls: Vec<Call>) -> Answer {
        self.flight(calls).await
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn is_users(&self) -> bool {
        true
    }

    fn signal(&mut self, _: Signal) {}
}

/// The meaning of an error in a transaction that the user began, in a file of their choice.
fn users_meaning(error: StoreError) -> StoreError {
    match error {
        StoreError::Refused(said) if said.to_string().contains("no such table: outlast_") => {
            no_tables(&said.to_string())
        }
        other => other,
    }
}
