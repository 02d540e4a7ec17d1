//! Readers: a few connections that see one snapshot each and never hold up the writer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection::{reader, wait_for};
use super::identity::Identity;
use super::tx::{SqliteTx, finish};
use crate::{Clock, StoreError, Work};

/// How many read at the same time; the others wait.
const READERS: usize = 4;
/// How long a read waits for a lock (another process recovers or closes the file) in the middle.
const PATIENCE: Duration = Duration::from_secs(30);

/// The connections, opened when needed.
pub(super) struct Readers {
    file: PathBuf,
    identity: Arc<Identity>,
    read_only: bool,
    clock: Clock,
    free: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(file: PathBuf, identity: Arc<Identity>, read_only: bool, clock: Clock) -> Readers {
        let places = Arc::new(Semaphore::new(READERS));
        Readers { file, identity, read_only, clock, free: Mutex::default(), places }
    }

    /// Runs `work` on one snapshot, on a thread where it may block.
    pub(super) async fn read<T: Send + 'static>(self: &Arc<Self>, work: Work<T>) -> Result<T, StoreError> {
        let closing = || StoreError::Unavailable("the store is closing".into());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| closing())?;
        let readers = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || {
            let answer = readers.read_now(work);
            drop(place);
            answer
        });
        reading.await.map_err(|_| closing())?
    }

    fn read_now<T>(&self, mut work: Work<T>) -> Result<T, StoreError> {
        self.identity.check()?;
        let free = self.free.lock().pop();
        let mut connection = match free {
            Some(connection) => connection,
            None => reader(&self.file, self.read_only)?,
        };
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        let answer = loop {
            match self.snapshot(&mut connection, &mut work) {
                Err(StoreError::Conflict(_)) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(StoreError::Conflict(error)) => break Err(StoreError::Unavailable(error)),
                other => break other,
            }
        };
        // After an error a fresh connection is safer than this one.
        if answer.is_ok() {
            self.free.lock().push(connection);
        }
        answer
    }

    fn snapshot<T>(&self, connection: &mut Connection, work: &mut Work<T>) -> Result<T, StoreError> {
        wait_for(|| connection.prepare_cached("begin")?.raw_execute())?;
        let mut tx = SqliteTx { connection, clock: &self.clock, is_users: false, signals: Vec::new() };
        let answer = finish(work(&mut tx));
        wait_for(|| connection.prepare_cached("rollback")?.raw_execute())?;
        answer
    }
}
