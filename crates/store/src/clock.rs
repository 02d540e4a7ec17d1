//! The clock of a store: the database's, shifted (tests) or standing still (tests).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use outlast_core::Timestamp;
use tokio::sync::watch;

/// Judges what time it is. In production it adds nothing to the database's clock; a test moves it.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Added to the base, in microseconds.
    shift: AtomicI64,
    /// The time that stands still, when it does.
    stopped_at: Option<Timestamp>,
    moved: watch::Sender<i64>,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::with(None)
    }
}

impl Clock {
    fn with(stopped_at: Option<Timestamp>) -> Clock {
        Clock(Arc::new(Inner { shift: AtomicI64::new(0), stopped_at, moved: watch::Sender::new(0) }))
    }

    /// A clock that stands at `time` until it is moved (for a store in memory).
    pub fn stopped_at(time: Timestamp) -> Clock {
        Clock::with(Some(time))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let now = self.0.shift.fetch_add(micros, Ordering::SeqCst) + micros;
        self.0.moved.send_replace(now);
    }

    /// What is added to the database's clock, in microseconds.
    pub fn shift(&self) -> i64 {
        self.0.shift.load(Ordering::SeqCst)
    }

    /// Whether time passes only by [`Clock::advance`].
    pub fn is_stopped(&self) -> bool {
        self.0.stopped_at.is_some()
    }

    /// Now, for a store whose machine is this one.
    pub fn local_now(&self) -> Timestamp {
        let base = self.0.stopped_at.unwrap_or_else(|| SystemTime::now().into());
        Timestamp::from_micros(base.micros().saturating_add(self.shift()))
    }

    /// Tells when somebody moved the clock.
    pub fn moves(&self) -> watch::Receiver<i64> {
        self.0.moved.subscribe()
    }
}
