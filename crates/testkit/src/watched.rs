//! A store that somebody watches: how often it was asked for what and when, and what happens to whoever asks
//! while the database is away or slow to give.
//!
//! It stands before a real store and changes nothing of what that does. Under tokio's paused clock
//! (`start_paused`) time passes only when everybody waits, and a call in the store counts as work: so minutes
//! pass in a moment, and no timer goes off because a database took its time.

mod calls;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use outlast_core::RunId;
use outlast_store::{DynStore, Signal, StoreError};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::death::{Death, Life};

/// Whoever asks more often is in a loop that never ends, and time that waits for it would never pass.
const MOST_CALLS: usize = 10_000;

/// A real store, and what was asked of it.
pub struct Watched {
    store: DynStore,
    name: &'static str,
    asked: Mutex<Vec<(&'static str, Instant)>>,
    is_away: AtomicBool,
    is_locked: AtomicBool,
    is_deaf: AtomicBool,
    /// Of which calls the next replies get lost, and how many.
    lost_replies: Mutex<HashMap<&'static str, u32>>,
    /// What is heard instead of the store's hints, once somebody wants it so.
    hints: OnceLock<broadcast::Sender<Signal>>,
    /// Who wants to hold the next answer about what is due.
    holds_next_due: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold the next runs that are loaded.
    holds_load: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold the next answer to a claim.
    holds_claim: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold the next answer to a renewal.
    holds_renew: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold the next answer to a write of a value.
    holds_kv_write: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold what people ask.
    holds_controls: Mutex<Option<HeldCalls>>,
    /// Who wants to hold commits.
    holds_commits: Mutex<Option<HeldCalls>>,
    seen: Mutex<HashMap<RunId, i64>>,
    /// Of the process that asks, which may be told to die at one of its writes.
    life: Arc<Life>,
}

/// The store has its answer; whoever asked gets it when they are let.
#[derive(Debug, Clone, Default)]
pub struct HeldAnswer {
    /// The answer is there.
    pub there: Arc<Notify>,
    /// It may go.
    pub go: Arc<Notify>,
}

/// What is asked does not reach the store until it is let.
#[derive(Debug, Clone)]
pub struct HeldCalls {
    /// How many are let through first.
    left: Arc<Mutex<usize>>,
    waiting: Arc<watch::Sender<usize>>,
    is_open: Arc<watch::Sender<bool>>,
}

impl HeldCalls {
    fn behind(first: usize) -> HeldCalls {
        HeldCalls { left: Arc::new(Mutex::new(first)), waiting: Arc::default(), is_open: Arc::default() }
    }

    /// Until so many wait.
    pub async fn until_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|waiting| *waiting >= count).await.expect("its sender is here");
    }

    /// Lets all of them go, and those that come later.
    pub fn let_go(&self) {
        self.is_open.send_replace(true);
    }

    async fn pass(&self) {
        let is_let = {
            let mut left = self.left.lock();
            let is_let = *left > 0;
            *left = left.saturating_sub(1);
            is_let
        };
        if !is_let {
            self.waiting.send_modify(|waiting| *waiting += 1);
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.expect("its sender is here");
        }
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Watched {
    /// Watches `store`.
    pub fn over(store: DynStore) -> Arc<Watched> {
        let name = store.name();
        Watched::called(name, store)
    }

    /// The same under the name of another database: engines share one that is not SQLite's with others.
    pub fn called(name: &'static str, store: DynStore) -> Arc<Watched> {
        Arc::new(Watched {
            store,
            name,
            asked: Mutex::default(),
            is_away: AtomicBool::new(false),
            is_locked: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            lost_replies: Mutex::default(),
            hints: OnceLock::new(),
            holds_next_due: Mutex::default(),
            holds_load: Mutex::default(),
            holds_claim: Mutex::default(),
            holds_renew: Mutex::default(),
            holds_kv_write: Mutex::default(),
            holds_controls: Mutex::default(),
            holds_commits: Mutex::default(),
            seen: Mutex::default(),
            life: Arc::default(),
        })
    }

    /// How much of a run's inbox whoever has it knew when it asked for more last.
    pub fn seen(&self, run: RunId) -> i64 {
        self.seen.lock().get(&run).copied().unwrap_or_default()
    }

    /// When `call` was made, in order, whatever became of it.
    pub fn times(&self, call: &str) -> Vec<Instant> {
        let asked = self.asked.lock();
        asked.iter().filter(|(name, _)| *name == call).map(|(_, at)| *at).collect()
    }

    /// How often `call` was made.
    pub fn count(&self, call: &str) -> usize {
        self.times(call).len()
    }

    /// From now on, until it comes back, the database cannot be reached.
    pub fn goes_away(&self) {
        self.is_away.store(true, Ordering::SeqCst);
    }

    /// It can be reached again.
    pub fn comes_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    /// The connection is cut after the next `count` of these calls: each happens, and nobody hears so.
    pub fn lose_replies(&self, call: &'static str, count: u32) {
        self.lost_replies.lock().insert(call, count);
    }

    /// Whether somebody's transaction holds all that is due: claims find nothing and say that something is.
    pub fn lock_what_is_due(&self, locked: bool) {
        self.is_locked.store(locked, Ordering::SeqCst);
    }

    /// Holds the next answer about what is due.
    pub fn hold_next_due(&self) -> HeldAnswer {
        self.holds_next_due.lock().insert(HeldAnswer::default()).clone()
    }

    /// Holds the next runs that are loaded.
    pub fn hold_load(&self) -> HeldAnswer {
        self.holds_load.lock().insert(HeldAnswer::default()).clone()
    }

    /// Holds the next answer to a claim, which has happened then.
    pub fn hold_claim(&self) -> HeldAnswer {
        self.holds_claim.lock().insert(HeldAnswer::default()).clone()
    }

    /// Holds the next answer to a renewal, which has happened then.
    pub fn hold_renew(&self) -> HeldAnswer {
        self.holds_renew.lock().insert(HeldAnswer::default()).clone()
    }

    /// Holds the next answer to a write of a value, which has happened then.
    pub fn hold_kv_write(&self) -> HeldAnswer {
        self.holds_kv_write.lock().insert(HeldAnswer::default()).clone()
    }

    /// Lets the next `first` through of what people ask, and holds all others before they reach the store.
    pub fn hold_controls(&self, first: usize) -> HeldCalls {
        self.holds_controls.lock().insert(HeldCalls::behind(first)).clone()
    }

    /// Holds all commits before they reach the store.
    pub fn hold_commits(&self) -> HeldCalls {
        self.holds_commits.lock().insert(HeldCalls::behind(0)).clone()
    }

    /// Whether it is known that hints of other processes do not arrive.
    pub fn is_deaf(&self, deaf: bool) {
        self.is_deaf.store(deaf, Ordering::SeqCst);
    }

    /// All hints get lost, and whoever begins to listen hears what is sent here.
    pub fn hints(&self) -> &broadcast::Sender<Signal> {
        self.hints.get_or_init(|| broadcast::Sender::new(16))
    }

    /// The process that asks through this dies at one of its writes.
    pub fn dies(&self, death: Death) {
        self.life.end_at(death);
    }

    /// Waits until the process has died, if it was told to.
    pub async fn died(&self) {
        self.life.over().await;
    }

    /// Whether it has: then it does nothing more.
    pub fn is_dead(&self) -> bool {
        self.life.is_over()
    }

    /// Waits until the process has died and what it sent before is through: a database goes on with what reached it.
    pub async fn settled(&self) {
        self.life.settled().await;
    }

    /// Nobody is left who could act on an answer: the calls of the dead end.
    pub fn bury(&self) {
        self.life.bury();
    }

    /// Notes a call and lets it through if the database is there. Time stands still until the answer.
    fn ask(&self, call: &'static str) -> Result<TimeStands, StoreError> {
        let count = {
            let mut asked = self.asked.lock();
            asked.push((call, Instant::now()));
            asked.len()
        };
        assert!(count <= MOST_CALLS, "{call}: the store was asked {count} times");
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("it is away".into())),
            false => Ok(TimeStands::still()),
        }
    }

    /// The answer to a call, if it arrives.
    fn reply<T>(&self, call: &str, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match self.lost_replies.lock().get_mut(call) {
            Some(left @ 1..) => {
                *left -= 1;
                Err(StoreError::Unavailable("the reply got lost".into()))
            }
            _ => answer,
        }
    }
}

/// Waits until whoever holds an answer lets it go.
async fn held(holds: &Mutex<Option<HeldAnswer>>) {
    let held = holds.lock().take();
    if let Some(held) = held {
        held.there.notify_one();
        held.go.notified().await;
    }
}

/// Waits until whoever holds such calls lets this one go.
async fn pass(holds: &Mutex<Option<HeldCalls>>) {
    let held = holds.lock().clone();
    if let Some(held) = held {
        held.pass().await;
    }
}

/// A paused clock does not move while this lives: tokio takes it for work on another thread.
struct TimeStands(#[allow(dead_code, reason = "held for its drop")] mpsc::Sender<()>);

impl TimeStands {
    fn still() -> TimeStands {
        let (open, closed) = mpsc::channel::<()>();
        spawn_blocking(move || closed.recv());
        TimeStands(open)
    }
}
