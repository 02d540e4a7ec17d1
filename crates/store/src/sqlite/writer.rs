//! The writer: one thread, one connection, one fsync for everybody who waits.
//!
//! The thread takes all jobs that have queued up while it was busy, and those that come while it runs them, commits
//! once and then answers them all. When one of them fails, all are rolled back and run again, each in a savepoint,
//! so that it takes only its own with it: savepoints have SQLite copy every page, and jobs seldom fail. A user's
//! own transaction gets the thread to itself until it ends, within bounds ([`super::user`]). Between jobs the
//! thread looks whether another process has written: only the writing connection can tell foreign commits from
//! our own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, broadcast, oneshot};

use super::connection::wait_for;
use super::error::meaning;
use super::identity::Identity;
use super::tx::{SqliteTx, finish};
use super::user::Session;
use crate::{Clock, Signal, StoreError, Work};

/// How many jobs share a transaction at most.
const GROUP: usize = 512;
/// How often those who came while others ran are let in before the commit.
const ROUNDS: u32 = 4;
/// How often the thread looks for foreign commits while somebody listens.
const LOOK: Duration = Duration::from_millis(20);

/// What the thread is asked to do.
pub(super) enum Task {
    /// A transition.
    Job(Box<dyn Job>),
    /// A user's own transaction.
    Session(Session),
    /// Somebody has begun to listen.
    Look,
}

/// A transition whose answer's type is out of sight.
pub(super) trait Job: Send {
    /// Whether somebody still waits for the answer.
    fn is_wanted(&self) -> bool;
    /// Whether it waits for locks, as the transitions ask.
    fn is_users(&self) -> bool;
    /// Does it. After an error nothing of it may stay.
    fn run(&mut self, tx: &mut SqliteTx<'_>) -> Result<(), &StoreError>;
    /// Answers: what the run gave, or the failure of the transaction that they all shared.
    fn settle(self: Box<Self>, shared: Option<&StoreError>);
}

/// A transition in the queue.
pub(super) struct Queued<T> {
    pub(super) work: Work<T>,
    pub(super) is_users: bool,
    pub(super) answer: Option<Result<T, StoreError>>,
    pub(super) reply: oneshot::Sender<Result<T, StoreError>>,
    /// Its place in the queue, free again once it is answered.
    pub(super) _place: OwnedSemaphorePermit,
}

impl<T: Send> Job for Queued<T> {
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn is_users(&self) -> bool {
        self.is_users
    }

    fn run(&mut self, tx: &mut SqliteTx<'_>) -> Result<(), &StoreError> {
        match self.answer.insert(finish((self.work)(tx))) {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn settle(self: Box<Self>, shared: Option<&StoreError>) {
        let answer = match (self.answer, shared) {
            (Some(Err(own)), _) => Err(own),
            (_, Some(shared)) => Err(shared.again()),
            (Some(answer), None) => answer,
            (None, None) => Err(StoreError::Unavailable("the store is closing".into())),
        };
        // Nobody listens when the caller was dropped; what happened has happened.
        let _ = self.reply.send(answer);
    }
}

/// The thread's belongings.
pub(super) struct Writer {
    pub(super) connection: Connection,
    /// Of a file.
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) clock: Clock,
    pub(super) signals: broadcast::Sender<Signal>,
    pub(super) tasks: Receiver<Task>,
    /// Taken from the queue, and not part of the group it ended.
    pub(super) held: Option<Task>,
    /// What SQLite said about foreign commits, and when we asked.
    pub(super) seen: Option<i64>,
    pub(super) looked: Instant,
}

impl Writer {
    /// Works until the store is dropped and everything in the queue is done.
    pub(super) fn work(mut self) {
        self.look();
        while let Some(task) = self.next() {
            match task {
                Task::Job(first) => {
                    let mut group = vec![first];
                    self.gather(&mut group);
                    self.run(group);
                }
                Task::Session(session) => session.serve(&mut self),
                Task::Look => self.look(),
            }
            if self.looked.elapsed() >= LOOK {
                self.look();
            }
        }
    }

    fn next(&mut self) -> Option<Task> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            if self.signals.receiver_count() == 0 {
                return self.tasks.recv().ok();
            }
            match self.tasks.recv_timeout(LOOK) {
                Ok(task) => return Some(task),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Adds what is in the queue to a group.
    fn gather(&mut self, group: &mut Vec<Box<dyn Job>>) {
        while group.len() < GROUP && self.held.is_none() {
            match self.tasks.try_recv() {
                Ok(Task::Job(job)) if job.is_wanted() => group.push(job),
                Ok(Task::Job(_) | Task::Look) => {}
                Ok(session @ Task::Session(_)) => {
                    self.held = Some(session);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
    }

    pub(super) fn run(&mut self, mut group: Vec<Box<dyn Job>>) {
        group.retain(|job| job.is_wanted());
        if group.is_empty() {
            return;
        }
        let _span = tracing::debug_span!("outlast.commit", jobs = group.len()).entered();
        let mut signals = Vec::new();
        let done = self.run_all(&mut group, &mut signals);
        let shared = done.and_then(|()| self.commit()).err();
        if shared.is_some() {
            self.roll_back();
        }
        // Hints first: whoever hears its answer may look at once for what others heard.
        if shared.is_none() {
            self.send(signals);
        }
        for job in group {
            job.settle(shared.as_ref());
        }
    }

    /// Does a job that only reads, where nobody else is at work.
    pub(super) fn read(&mut self, mut job: Box<dyn Job>) {
        if !job.is_wanted() {
            return;
        }
        let Writer { connection, clock, .. } = self;
        let mut tx = SqliteTx { connection, clock, is_users: job.is_users(), signals: Vec::new() };
        // Its answer says what went wrong.
        let _ = job.run(&mut tx);
        job.settle(None);
    }

    /// Runs each job and what comes meanwhile, again with savepoints if one of them fails. An error here is
    /// everybody's: the transaction is gone.
    fn run_all(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        signals: &mut Vec<Signal>,
    ) -> Result<(), StoreError> {
        self.begin()?;
        let mut ran = self.run_each(group, signals, false);
        for _ in 1..ROUNDS {
            let before = group.len();
            if ran.is_ok() {
                self.gather(group);
            }
            if group.len() == before {
                break;
            }
            ran = self.run_each(&mut group[before..], signals, false);
        }
        match ran {
            Err(_) if group.len() > 1 => {
                self.roll_back();
                signals.clear();
                self.begin()?;
                self.run_each(group, signals, true)
            }
            done => done,
        }
    }

    /// Runs each job. An error is a job's own unless each has a savepoint: then it is everybody's.
    fn run_each(
        &mut self,
        group: &mut [Box<dyn Job>],
        signals: &mut Vec<Signal>,
        savepoints: bool,
    ) -> Result<(), StoreError> {
        for job in group {
            if savepoints {
                self.execute("savepoint job")?;
            }
            let mut tx = SqliteTx {
                connection: &mut self.connection,
                clock: &self.clock,
                is_users: job.is_users(),
                signals: Vec::new(),
            };
            let ran = job.run(&mut tx);
            let noted = tx.signals;
            match ran {
                Ok(()) => signals.extend(noted),
                // A full disk makes SQLite roll back everything, not only what failed.
                Err(error) if !savepoints || self.connection.is_autocommit() => return Err(error.again()),
                Err(_) => self.execute("rollback to job")?,
            }
            if savepoints {
                self.execute("release job")?;
            }
        }
        Ok(())
    }

    /// Begins a transaction that may write, when whoever else writes has finished.
    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        if let Some(identity) = &self.identity {
            identity.check()?;
        }
        wait_for(|| self.connection.prepare_cached("begin immediate")?.raw_execute()).map(drop)
    }

    /// Makes it durable.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        wait_for(|| self.connection.prepare_cached("commit")?.raw_execute()).map(drop)
    }

    /// Ends a transaction if one is open.
    pub(super) fn roll_back(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("rollback")
        {
            tracing::warn!(%error, "SQLite could not roll back");
        }
    }

    /// Tells everybody who listens in this process.
    pub(super) fn send(&self, signals: Vec<Signal>) {
        let mut is_due = false;
        for signal in signals {
            // A whole group of starts needs to be said once.
            if signal == Signal::Due && std::mem::replace(&mut is_due, true) {
                continue;
            }
            // An error only says that nobody listens.
            let _ = self.signals.send(signal);
        }
    }

    fn execute(&mut self, sql: &str) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(meaning)?;
        statement.raw_execute().map(drop).map_err(meaning)
    }

    /// Looks whether another process (or program) has committed since the last look.
    fn look(&mut self) {
        self.looked = Instant::now();
        let version = self.connection.prepare_cached("pragma data_version");
        let version = version.and_then(|mut pragma| pragma.query_row([], |row| row.get::<_, i64>(0)));
        // Not now, then at the next look: a hint may be late.
        let Ok(version) = version else { return };
        if self.seen.replace(version).is_some_and(|seen| seen != version) {
            let _ = self.signals.send(Signal::Anything);
        }
    }
}
