//! SQLite: one file, one writer thread, a few readers, nothing to install.
//!
//! Every write goes through the queue of the one thread that owns the writing connection
//! ([`writer`]); reads have connections of their own ([`readers`]). In memory there is only the one
//! connection, and reads queue up with the writes. The simulator works without the thread ([`inline`]).

#[cfg(feature = "rusqlite")]
mod adapter;
mod connection;
mod error;
mod identity;
mod inline;
mod readers;
mod tx;
mod user;
mod vitals;
mod writer;

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use outlast_core::ShardCount;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};

#[cfg(feature = "rusqlite")]
pub use self::adapter::{definitions, perform};
use self::identity::Identity;
use self::inline::Inline;
pub use self::inline::SharedMemory;
use self::readers::Readers;
pub(crate) use self::vitals::copy;
use self::writer::{Queued, Task, Writer};
use crate::migrate::Found;
use crate::refused_writes::RefusedWrites;
use crate::store::SIGNALS;
use crate::{Clock, OpenOptions, Signal, StoreError, TxKind, UserTx, Work, places, transitions};

/// How many jobs may wait for the writer; others wait for a place.
const QUEUE: usize = 1024;

/// An open SQLite database.
pub(crate) struct Sqlite {
    pub(crate) shards: ShardCount,
    pub(crate) clock: Clock,
    pub(crate) signals: broadcast::Sender<Signal>,
    file: Option<PathBuf>,
    readers: Option<Arc<Readers>>,
    places: Arc<Semaphore>,
    /// `None` once the store closes, which is how the thread learns of it.
    tasks: Mutex<Option<Sender<Task>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The owner's lock, held as long as this is open.
    owner: Mutex<Option<File>>,
    /// Instead of the thread: what is asked is done on the spot.
    inline: Option<Inline>,
    pub(crate) refused_writes: RefusedWrites,
}

impl Sqlite {
    /// Opens a file (or memory) and brings its schema up to date. May block: see [`open`].
    fn open_now(file: Option<PathBuf>, options: &OpenOptions) -> Result<Sqlite, StoreError> {
        let connection = connection::writer(file.as_deref(), options)?;
        let place =
            file.as_deref().map_or("the database in memory".into(), |file| file.display().to_string());
        let shards = connection::migrate(&connection, options, &place)?;

        let (tasks, receiver) = mpsc::channel();
        let signals = broadcast::Sender::new(SIGNALS);
        let identity = file.as_deref().map(|file| Arc::new(Identity::of(file)));
        let writer = Writer {
            connection,
            identity: identity.clone(),
            clock: options.clock.clone(),
            signals: signals.clone(),
            tasks: receiver,
            held: None,
            seen: None,
            looked: Instant::now(),
        };
        let thread = thread::Builder::new().name("outlast-sqlite".to_owned()).spawn(move || writer.work());
        let thread = thread.map_err(|error| StoreError::Unavailable(error.into()))?;

        let reader = |identity| {
            let file = file.clone()?;
            Some(Arc::new(Readers::new(file, identity, options.read_only, options.clock.clone())))
        };
        let readers = identity.and_then(reader);
        Ok(Sqlite {
            shards,
            clock: options.clock.clone(),
            signals,
            file,
            readers,
            places: Arc::new(Semaphore::new(QUEUE)),
            tasks: Mutex::new(Some(tasks)),
            thread: Mutex::new(Some(thread)),
            owner: Mutex::default(),
            inline: None,
            refused_writes: RefusedWrites::default(),
        })
    }

    /// One without a thread.
    fn inline(
        shards: ShardCount,
        clock: Clock,
        signals: broadcast::Sender<Signal>,
        inline: Inline,
    ) -> Sqlite {
        Sqlite {
            shards,
            clock,
            signals,
            file: None,
            readers: None,
            places: Arc::new(Semaphore::new(QUEUE)),
            tasks: Mutex::default(),
            thread: Mutex::default(),
            owner: Mutex::default(),
            inline: Some(inline),
            refused_writes: RefusedWrites::default(),
        }
    }

    /// Whether several nodes may run work here.
    pub(crate) fn is_shared(&self) -> bool {
        self.inline.is_some()
    }

    /// Runs the work of a transition, on the writer or, when it only reads, on a reader.
    pub(crate) async fn transact<T: Send + 'static>(
        &self,
        kind: TxKind,
        work: Work<T>,
    ) -> Result<T, StoreError> {
        if let (TxKind::Read, Some(readers)) = (kind, &self.readers) {
            return readers.read(work).await;
        }
        let (reply, answer) = oneshot::channel();
        let is_users = kind == TxKind::Plain;
        let _place = self.place().await?;
        let job = Box::new(Queued { work, is_users, answer: None, reply, _place });
        match &self.inline {
            Some(inline) => inline.run(job, kind),
            None => self.send(Task::Job(job))?,
        }
        self.refused_writes.noting(kind, answer.await.unwrap_or_else(|_| Err(closing())))
    }

    /// Begins a user's own transaction.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<Box<dyn UserTx>, StoreError> {
        user::begin(Arc::clone(self)).await
    }

    /// Subscribes, and has the writer look for foreign commits from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Signal> {
        let receiver = self.signals.subscribe();
        let _ = self.send(Task::Look);
        receiver
    }

    /// Takes the file for this process, and ends the leases of whoever had it before: with the lock
    /// in our hands we know that they are dead.
    pub(crate) async fn own(&self) -> Result<(), StoreError> {
        let Some(file) = &self.file else { return Ok(()) };
        let taken = {
            let mut owner = self.owner.lock();
            match *owner {
                Some(_) => false,
                None => {
                    *owner = Some(lock(file)?);
                    true
                }
            }
        };
        if taken {
            let work: Work<()> = Box::new(|tx| Box::pin(transitions::end_leases(tx)));
            let expired = self.transact(TxKind::Plain, work);
            if let Err(error) = expired.await {
                // Not ours then: the next try must end the leases again.
                self.owner.lock().take();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for a place in the queue.
    async fn place(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        places::place(&self.places).await
    }

    fn send(&self, task: Task) -> Result<(), StoreError> {
        let tasks = self.tasks.lock();
        tasks.as_ref().and_then(|tasks| tasks.send(task).ok()).ok_or_else(closing)
    }
}

/// Opens a database without blocking the caller's thread.
pub(crate) async fn open(file: Option<PathBuf>, options: OpenOptions) -> Result<Sqlite, StoreError> {
    let opening = tokio::task::spawn_blocking(move || Sqlite::open_now(file, &options));
    opening.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.into())))
}

/// Brings a file's schema up to date, or as far as the options say.
pub(crate) async fn migrate(file: PathBuf, options: OpenOptions) -> Result<(), StoreError> {
    let work = tokio::task::spawn_blocking(move || {
        let connection = connection::writer(Some(&file), &options)?;
        connection::migrate(&connection, &options, &file.display().to_string()).map(drop)
    });
    work.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.into())))
}

/// Takes a file's schema back to a file of its own, or only looks whether it can be.
pub(crate) async fn revert(file: PathBuf, to: i64, dry_run: bool) -> Result<(), StoreError> {
    let work = tokio::task::spawn_blocking(move || {
        if !file.exists() {
            return Ok(());
        }
        let connection = connection::writer(Some(&file), &OpenOptions::default())?;
        connection::revert(&connection, to, dry_run, &file.display().to_string())
    });
    work.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.into())))
}

/// What there is of a schema in a file, which may not exist.
pub(crate) async fn look_at(file: PathBuf) -> Result<(Found, String), StoreError> {
    let work = tokio::task::spawn_blocking(move || {
        let place = file.display().to_string();
        match file.exists() {
            true => Ok((connection::look(&connection::reader(&file, true)?)?, place)),
            false => Ok((Found::Nothing, place)),
        }
    });
    work.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.into())))
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.tasks.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // It panics only by a bug of ours, which it has told already.
            let _ = thread.join();
        }
    }
}

fn closing() -> StoreError {
    StoreError::Unavailable("the store is closing".into())
}

/// Locks the file beside the database; whoever has it wrote its pid into it.
fn lock(database: &Path) -> Result<File, StoreError> {
    // However the file is reached, it has one owner.
    let real = database.canonicalize().unwrap_or_else(|_| database.to_owned());
    let mut name = real.into_os_string();
    name.push("-owner");
    let unavailable = |error: std::io::Error| {
        let place = Path::new(&name).display();
        StoreError::Unavailable(format!("cannot lock {place}: {error}").into())
    };
    let opened = File::options().read(true).write(true).create(true).truncate(false).open(&name);
    let mut file = opened.map_err(unavailable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = match pid.trim() {
                "" => "unknown".to_owned(),
                pid => pid.to_owned(),
            };
            return Err(StoreError::Owned { file: database.display().to_string(), pid });
        }
        Err(TryLockError::Error(error)) => return Err(unavailable(error)),
    }
    file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(unavailable)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
