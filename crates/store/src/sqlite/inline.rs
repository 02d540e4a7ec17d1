//! The simulator's SQLite: a database in memory that many nodes share, with no thread of its own.
//!
//! Calls are done where they are made, one after another in the order in which they came, so that one seed gives
//! one history. A user's transaction has the database to itself, as on the writer thread, and is bounded as there,
//! in tokio's time. Several nodes may run work: leases keep them apart, as on PostgreSQL.

use std::collections::VecDeque;
use std::sync::{Arc, Weak, mpsc};

use outlast_core::ShardCount;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{broadcast, oneshot};
use tokio::time::Instant;

use super::error::{meaning, users_meaning};
use super::tx::SqliteTx;
use super::user::rows_of;
use super::writer::{Job, Writer};
use super::{Sqlite, closing, connection};
use crate::store::SIGNALS;
use crate::user_tx::{USER_IDLE, USER_LIMIT, failed_before, rolled_back};
use crate::{Clock, DynStore, OpenOptions, Signal, SqlStore, StoreError, TxKind, ValueRow};

/// The tables with rows that come and go.
const TABLES: &str = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'
                         and name not in ('outlast_meta', 'outlast_migrations')";

/// A database in memory that simulated nodes share. It can be emptied and used again.
#[derive(Clone)]
pub struct SharedMemory {
    shards: ShardCount,
    inline: Inline,
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedMemory").field("shards", &self.shards).finish_non_exhaustive()
    }
}

impl SharedMemory {
    /// A new one, with our schema.
    pub fn new(shards: ShardCount) -> Result<SharedMemory, StoreError> {
        let options = OpenOptions { shards, ..OpenOptions::default() };
        let connection = connection::writer(None, &options)?;
        let shards = connection::migrate(&connection, &options, "the database in memory")?;
        // Nobody sends tasks: the group that is run is always the one that was handed over.
        let (_, tasks) = mpsc::channel();
        let writer = Writer {
            connection,
            identity: None,
            clock: Clock::default(),
            signals: broadcast::Sender::new(1),
            tasks,
            held: None,
            seen: None,
            looked: std::time::Instant::now(),
        };
        let line = Line { writer: Some(writer), waiting: VecDeque::new() };
        Ok(SharedMemory { shards, inline: Inline(Arc::new(Mutex::new(line))) })
    }

    /// Runs SQL as it is, outside of every transaction of ours.
    pub fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.inline.with(|writer| writer.connection.execute_batch(sql).map_err(meaning))
    }

    /// Deletes all rows; the schema stays.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.inline.with(|writer| {
            writer.begin()?;
            let cleared = clear(&writer.connection).map_err(meaning).and_then(|()| writer.commit());
            writer.roll_back();
            cleared
        })
    }

    /// What SQL gives, when nobody else is at work; the statement is remembered.
    pub async fn query(&self, sql: &str) -> Result<Vec<ValueRow>, StoreError> {
        let at_once = |line: &mut Line| {
            let connection = &line.writer.as_ref()?.connection;
            let statement = connection.prepare_cached(sql).map_err(users_meaning);
            Some(statement.and_then(|mut statement| rows_of(&mut statement)))
        };
        let answer = at_once(&mut self.inline.0.lock());
        if let Some(answer) = answer {
            return answer;
        }
        let session = self.inline.begin().await?;
        session.ask(|tx| rows_of(&mut *tx.connection.prepare_cached(sql).map_err(users_meaning)?))
    }

    /// Opens it, by this clock. The store that was opened before is of no more use.
    pub fn open(&self, clock: Clock) -> Result<DynStore, StoreError> {
        let signals = broadcast::Sender::new(SIGNALS);
        self.inline.with(|writer| {
            (writer.clock, writer.signals) = (clock.clone(), signals.clone());
            Ok(())
        })?;
        let database = Sqlite::inline(self.shards, clock, signals, self.inline.clone());
        Ok(Arc::new(SqlStore::on_sqlite(database)))
    }
}

/// Deletes all rows, in whichever transaction.
fn clear(connection: &Connection) -> rusqlite::Result<()> {
    let mut tables = connection.prepare_cached(TABLES)?;
    let names = tables.query_map([], |row| row.get::<_, String>(0))?;
    for name in names {
        connection.prepare_cached(&format!("delete from {}", name?))?.execute([])?;
    }
    Ok(())
}

/// The one connection, and whoever waits for it. What has been asked for is done when its turn comes, whether or not
/// whoever asked is there to hear of it: a process may have been stopped meanwhile.
#[derive(Clone)]
pub(super) struct Inline(Arc<Mutex<Line>>);

struct Line {
    /// `None` while a user's transaction has it.
    writer: Option<Writer>,
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Job(Box<dyn Job>, TxKind),
    Session(oneshot::Sender<Arc<InlineSession>>),
}

impl Inline {
    /// Does a job: now, or when those before it are over.
    pub(super) fn run(&self, job: Box<dyn Job>, kind: TxKind) {
        let mut line = self.0.lock();
        match &mut line.writer {
            Some(writer) => perform(writer, job, kind),
            None => line.waiting.push_back(Waiting::Job(job, kind)),
        }
    }

    /// Begins a user's transaction when nobody else is at work.
    pub(super) async fn begin(&self) -> Result<Arc<InlineSession>, StoreError> {
        let (tell, told) = oneshot::channel();
        {
            let mut line = self.0.lock();
            line.waiting.push_back(Waiting::Session(tell));
            if let Some(writer) = line.writer.take() {
                self.go_on(&mut line, writer);
            }
        }
        told.await.map_err(|_| closing())
    }

    /// Does what waits, until somebody has the connection for longer.
    fn go_on(&self, line: &mut Line, mut writer: Writer) {
        while let Some(next) = line.waiting.pop_front() {
            match next {
                Waiting::Job(job, kind) => perform(&mut writer, job, kind),
                Waiting::Session(tell) if tell.is_closed() || writer.begin().is_err() => {}
                Waiting::Session(tell) => {
                    let now = Instant::now();
                    let open = Open { writer, signals: Vec::new(), used: now, until: now + USER_LIMIT };
                    let session =
                        Arc::new(InlineSession { open: Mutex::new(Some(open)), inline: self.clone() });
                    tokio::spawn(bound(Arc::downgrade(&session)));
                    match tell.send(session) {
                        Ok(()) => return,
                        Err(session) => match session.open.lock().take() {
                            Some(open) => writer = open.writer,
                            None => return,
                        },
                    }
                    writer.roll_back();
                }
            }
        }
        line.writer = Some(writer);
    }

    /// The connection is free again.
    fn give_back(&self, writer: Writer) {
        self.go_on(&mut self.0.lock(), writer);
    }

    /// Uses the connection, if nobody else does.
    fn with<T>(&self, work: impl FnOnce(&mut Writer) -> Result<T, StoreError>) -> Result<T, StoreError> {
        work(self.0.lock().writer.as_mut().ok_or_else(closing)?)
    }
}

/// Does a job in a transaction of its own. One that only reads needs none: nobody else is at work.
fn perform(writer: &mut Writer, job: Box<dyn Job>, kind: TxKind) {
    match kind {
        TxKind::Read => writer.read(job),
        _ => writer.run(vec![job]),
    }
}

/// A user's transaction, until it ends or takes too long.
pub(super) struct InlineSession {
    open: Mutex<Option<Open>>,
    inline: Inline,
}

struct Open {
    writer: Writer,
    signals: Vec<Signal>,
    /// When it was last asked for something.
    used: Instant,
    until: Instant,
}

impl InlineSession {
    /// Does something in it.
    pub(super) fn ask<T>(
        &self,
        work: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut open = self.open.lock();
        let Some(open) = open.as_mut() else { return Err(rolled_back()) };
        open.used = Instant::now();
        let Writer { connection, clock, .. } = &mut open.writer;
        let mut tx = SqliteTx { connection, clock, is_users: true, signals: Vec::new() };
        let answer = work(&mut tx);
        open.signals.append(&mut tx.signals);
        answer
    }

    pub(super) fn commit(&self) -> Result<(), StoreError> {
        let Some(mut open) = self.open.lock().take() else { return Err(rolled_back()) };
        // The user's own `rollback` has ended it already.
        let committed = match open.writer.connection.is_autocommit() {
            true => Err(failed_before()),
            false => open.writer.commit(),
        };
        if committed.is_ok() {
            open.writer.send(open.signals);
        }
        open.writer.roll_back();
        self.inline.give_back(open.writer);
        committed
    }

    pub(super) fn roll_back(&self) {
        let open = self.open.lock().take();
        if let Some(mut open) = open {
            open.writer.roll_back();
            self.inline.give_back(open.writer);
        }
    }
}

impl Drop for InlineSession {
    fn drop(&mut self) {
        self.roll_back();
    }
}

/// Rolls a transaction back when it takes too long.
async fn bound(session: Weak<InlineSession>) {
    loop {
        let until = {
            let Some(session) = session.upgrade() else { return };
            let open = session.open.lock();
            let Some(open) = open.as_ref() else { return };
            open.until.min(open.used + USER_IDLE)
        };
        if until <= Instant::now() {
            if let Some(session) = session.upgrade() {
                session.roll_back();
            }
            return;
        }
        tokio::time::sleep_until(until).await;
    }
}
