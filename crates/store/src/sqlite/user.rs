//! A user's own transaction on SQLite: a conversation with the writer thread.
//!
//! While it lasts, nobody else writes. So the thread waits for the next statement only so long, and for
//! the end of it all only so long, and then rolls back: a stuck user costs the engine seconds, not its
//! life.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use outlast_core::{Entry, NodeId, RunId};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Sqlite;
use super::error::users_meaning;
use super::inline::InlineSession;
use super::tx::{SqliteTx, finish};
use super::writer::{Task, Writer};
use crate::user_tx::{USER_IDLE, USER_LIMIT, check_statement, failed_before, rolled_back};
use crate::{
    Committed, Control, Controlled, Delivered, Delivery, KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten,
    NewRun, Started, StoreError, TurnEnd, UserTx, Value, ValueRow, reads, transitions,
};

/// The thread's end of a user's transaction.
pub(super) struct Session {
    begun: oneshot::Sender<Result<(), StoreError>>,
    commands: Receiver<Command>,
    _place: OwnedSemaphorePermit,
}

enum Command {
    Do(Box<dyn FnOnce(&mut SqliteTx<'_>) + Send>),
    Commit(oneshot::Sender<Result<(), StoreError>>),
    RollBack(oneshot::Sender<Result<(), StoreError>>),
}

impl Session {
    /// Has the writer to itself until it commits, rolls back, goes away or takes too long.
    pub(super) fn serve(self, writer: &mut Writer) {
        if self.begun.is_closed() {
            return;
        }
        let began = writer.begin();
        let failed = began.is_err();
        if self.begun.send(began).is_err() || failed {
            return writer.roll_back();
        }

        let mut signals = Vec::new();
        let until = Instant::now() + USER_LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.commands.recv_timeout(USER_IDLE.min(left)) {
                Ok(Command::Do(work)) => {
                    let mut tx = SqliteTx {
                        connection: &mut writer.connection,
                        clock: &writer.clock,
                        is_users: true,
                        signals: Vec::new(),
                    };
                    work(&mut tx);
                    signals.append(&mut tx.signals);
                }
                Ok(Command::Commit(reply)) => {
                    // A full disk, or the user's own `rollback`, has ended it already.
                    let committed = match writer.connection.is_autocommit() {
                        true => Err(failed_before()),
                        false => writer.commit(),
                    };
                    if committed.is_ok() {
                        writer.send(signals);
                    }
                    writer.roll_back();
                    let _ = reply.send(committed);
                    return;
                }
                Ok(Command::RollBack(reply)) => {
                    writer.roll_back();
                    let _ = reply.send(Ok(()));
                    return;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return writer.roll_back(),
            }
        }
    }
}

/// The user's end.
pub(super) struct SqliteUserTx {
    /// Keeps the writer thread alive.
    store: Arc<Sqlite>,
    line: Line,
    failed: bool,
}

/// How the user's end reaches the connection.
enum Line {
    Thread(Sender<Command>),
    Inline(Arc<InlineSession>),
}

/// Waits for the writer and begins.
pub(super) async fn begin(store: Arc<Sqlite>) -> Result<Box<dyn UserTx>, StoreError> {
    if let Some(inline) = &store.inline {
        let line = Line::Inline(inline.begin().await?);
        return Ok(Box::new(SqliteUserTx { store, line, failed: false }));
    }
    let (commands, receiver) = mpsc::channel();
    let (begun, answer) = oneshot::channel();
    let place = store.place().await?;
    store.send(Task::Session(Session { begun, commands: receiver, _place: place }))?;
    answer.await.map_err(|_| rolled_back())??;
    Ok(Box::new(SqliteUserTx { store, line: Line::Thread(commands), failed: false }))
}

impl SqliteUserTx {
    /// Has the writer thread do something, and hears the answer.
    async fn ask<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.failed {
            return Err(failed_before());
        }
        let answer = match &self.line {
            Line::Inline(session) => session.ask(work),
            Line::Thread(commands) => {
                let (reply, answer) = oneshot::channel();
                let work = move |tx: &mut SqliteTx<'_>| drop(reply.send(work(tx)));
                match commands.send(Command::Do(Box::new(work))) {
                    Ok(()) => answer.await.unwrap_or_else(|_| Err(rolled_back())),
                    Err(_) => Err(rolled_back()),
                }
            }
        };
        self.failed = answer.is_err();
        answer
    }
}

/// Has the writer thread end it.
async fn end(
    commands: &Sender<Command>,
    command: impl FnOnce(oneshot::Sender<Result<(), StoreError>>) -> Command,
) -> Result<(), StoreError> {
    let (reply, answer) = oneshot::channel();
    commands.send(command(reply)).map_err(|_| rolled_back())?;
    answer.await.unwrap_or_else(|_| Err(rolled_back()))
}

#[async_trait]
impl UserTx for SqliteUserTx {
    async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
        check_statement(sql)?;
        let (sql, params) = (sql.to_owned(), params.to_vec());
        self.ask(move |tx| {
            let before = tx.connection.total_changes();
            let mut statement = prepare(tx.connection, &sql, &params)?;
            let mut rows = statement.raw_query();
            while rows.next().map_err(users_meaning)?.is_some() {}
            // Without a change of its own, a statement leaves the last one's count.
            Ok(if tx.connection.total_changes() == before { 0 } else { tx.connection.changes() })
        })
        .await
    }

    async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<ValueRow>, StoreError> {
        check_statement(sql)?;
        let (sql, params) = (sql.to_owned(), params.to_vec());
        self.ask(move |tx| {
            let mut statement = prepare(tx.connection, &sql, &params)?;
            rows_of(&mut statement)
        })
        .await
    }

    async fn start(&mut self, runs: &[NewRun]) -> Result<Vec<Started>, StoreError> {
        let runs = runs.to_vec();
        self.ask(move |tx| finish(transitions::start(tx, &runs, None))).await
    }

    async fn deliver(&mut self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        let (messages, shards) = (messages.to_vec(), self.store.shards);
        self.ask(move |tx| finish(transitions::deliver(tx, &messages, shards))).await
    }

    async fn control(&mut self, control: &Control) -> Result<Controlled, StoreError> {
        let (control, shards) = (control.clone(), self.store.shards);
        self.ask(move |tx| finish(transitions::control(tx, &control, shards))).await
    }

    async fn kv_write(&mut self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        let (writes, shards) = (writes.to_vec(), self.store.shards);
        self.ask(move |tx| finish(transitions::kv_write(tx, &writes, shards))).await
    }

    async fn kv_get(&mut self, name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        let (name, shards) = (name.clone(), self.store.shards);
        self.ask(move |tx| finish(reads::kv_get(tx, &name, shards))).await
    }

    async fn kv_list(&mut self, ask: &KvList) -> Result<KvPage, StoreError> {
        let (ask, shards) = (ask.clone(), self.store.shards);
        self.ask(move |tx| finish(reads::kv_list(tx, &ask, shards))).await
    }

    async fn record(
        &mut self,
        node: NodeId,
        run: RunId,
        epoch: i64,
        entry: &Entry,
    ) -> Result<Committed, StoreError> {
        let entry = entry.clone();
        self.ask(move |tx| finish(transitions::record(tx, node, run, epoch, &entry))).await
    }

    async fn end(&mut self, turn: &TurnEnd) -> Result<Committed, StoreError> {
        let (turn, shards) = (turn.clone(), self.store.shards);
        self.ask(move |tx| finish(transitions::end_turn(tx, &turn, shards))).await
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        if self.failed {
            return Err(failed_before());
        }
        match &self.line {
            Line::Inline(session) => session.commit(),
            Line::Thread(commands) => end(commands, Command::Commit).await,
        }
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        let ended = match &self.line {
            Line::Inline(session) => {
                session.roll_back();
                Ok(())
            }
            Line::Thread(commands) => end(commands, Command::RollBack).await,
        };
        match ended {
            // Rolled back by somebody quicker.
            Ok(()) | Err(StoreError::Statement(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Prepares a user's statement and binds `$1` … in it.
fn prepare<'c>(connection: &'c Connection, sql: &str, params: &[Value]) -> Result<Statement<'c>, StoreError> {
    let mut statement = connection.prepare(sql).map_err(users_meaning)?;
    let mut highest = 0;
    for place in 1..=statement.parameter_count() {
        let named = statement.parameter_name(place).and_then(|name| name.get(1..)?.parse::<usize>().ok());
        let number = named.unwrap_or(place);
        let Some(value) = number.checked_sub(1).and_then(|at| params.get(at)) else {
            return Err(count(number, params.len()));
        };
        highest = highest.max(number);
        statement.raw_bind_parameter(place, Bound(value)).map_err(users_meaning)?;
    }
    if highest != params.len() {
        return Err(count(highest, params.len()));
    }
    Ok(statement)
}

/// What a statement whose parameters are bound gives.
pub(super) fn rows_of(statement: &mut Statement<'_>) -> Result<Vec<ValueRow>, StoreError> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut out = Vec::new();
    while let Some(row) = rows.next().map_err(users_meaning)? {
        let values = (0..columns).map(|at| row.get_ref(at).map(value)).collect::<Result<_, _>>();
        out.push(values.map_err(users_meaning)?);
    }
    Ok(out)
}

fn count(wanted: usize, given: usize) -> StoreError {
    StoreError::Statement(
        format!("the statement has {wanted} parameters, and {given} values were given").into(),
    )
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Float(value),
        ValueRef::Text(value) => Value::Text(String::from_utf8_lossy(value).into_owned()),
        ValueRef::Blob(value) => Value::Bytes(Bytes::copy_from_slice(value)),
    }
}

/// A user's value on its way into a statement.
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Bool(value) => ValueRef::Integer((*value).into()),
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Float(value) => ValueRef::Real(*value),
            Value::Text(value) => ValueRef::Text(value.as_bytes()),
            Value::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}
