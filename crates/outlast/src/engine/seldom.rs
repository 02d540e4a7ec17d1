//! Trouble is told once and then seldom: a database that is away for an hour must not fill a disk with lines
//! that all say so.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long the same thing is not said again.
const QUIET: Duration = Duration::from_secs(10);

/// One thing to say.
#[derive(Default)]
pub(crate) struct Seldom(Mutex<Said>);

#[derive(Default)]
struct Said {
    last: Option<Instant>,
    kept: u64,
}

impl Seldom {
    /// Whether to say it now; if so, how often it happened unsaid since the last time.
    pub(crate) fn say(&self) -> Option<u64> {
        let mut said = self.0.lock();
        if said.last.is_some_and(|last| last.elapsed() < QUIET) {
            said.kept += 1;
            return None;
        }
        said.last = Some(Instant::now());
        Some(std::mem::take(&mut said.kept))
    }
}

/// What an engine has to say about the database.
#[derive(Default)]
pub(crate) struct Troubles {
    pub(crate) commit: Seldom,
    pub(crate) claim: Seldom,
    pub(crate) load: Seldom,
    pub(crate) renew: Seldom,
    pub(crate) sweep: Seldom,
}
