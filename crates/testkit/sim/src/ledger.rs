//! The ledger: what bodies did, written beside the engine and its database, so that no fault touches it.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Which body it was: the run's label with its life, the act's name, whether it undid it, and the attempt.
pub(crate) type Body = (String, String, bool, u32);

/// One time that a body ran.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    /// On which node.
    pub(crate) node: usize,
    pub(crate) began: Duration,
    /// When it had come to its end, if it did.
    pub(crate) ended: Option<Duration>,
    /// What it returned, or would have: another one each time.
    pub(crate) value: u64,
    /// What its run had seen before: the same each time.
    pub(crate) basis: u64,
}

/// What all bodies did.
#[derive(Debug)]
pub(crate) struct Ledger {
    start: Instant,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) bodies: BTreeMap<Body, Vec<Execution>>,
    /// When each sleep was asked for first, and when it was over first.
    pub(crate) sleeps: BTreeMap<(String, String), (Duration, Option<Duration>)>,
    values: u64,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger { start: Instant::now(), notes: Mutex::default() }
    }

    /// How long the schedule has been going on.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A body begins; gives the value that it shall return.
    pub(crate) fn begins(&self, body: &Body, node: usize, basis: u64) -> u64 {
        let began = self.now();
        let mut notes = self.notes.lock();
        notes.values += 1;
        let value = notes.values;
        let execution = Execution { node, began, ended: None, value, basis };
        notes.bodies.entry(body.clone()).or_default().push(execution);
        value
    }

    /// It has come to its end.
    pub(crate) fn ends(&self, body: &Body, value: u64) {
        let now = self.now();
        let mut notes = self.notes.lock();
        let executions = notes.bodies.get_mut(body).into_iter().flatten();
        executions.filter(|execution| execution.value == value).for_each(|done| done.ended = Some(now));
    }

    /// A run begins to sleep, perhaps once more.
    pub(crate) fn sleeps(&self, run: &str, act: &str) {
        let now = self.now();
        self.notes.lock().sleeps.entry((run.to_owned(), act.to_owned())).or_insert((now, None));
    }

    /// It woke up.
    pub(crate) fn woke(&self, run: &str, act: &str) {
        let now = self.now();
        if let Some((_, woke @ None)) = self.notes.lock().sleeps.get_mut(&(run.to_owned(), act.to_owned())) {
            *woke = Some(now);
        }
    }

    /// All that is written.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Notes) -> T) -> T {
        look(&self.notes.lock())
    }
}
