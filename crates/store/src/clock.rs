//! The clock of a store: the database's, shifted (tests), standing still (tests) or tokio's own (the simulator).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use outlast_core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Judges what time it is. In production it adds nothing to the database's clock; a test moves it.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Added to the base, in microseconds.
    shift: AtomicI64,
    base: Base,
    /// How wrong the machine's own clock is, in microseconds: only a simulated one is.
    off_by: i64,
    moved: watch::Sender<i64>,
    /// Time and randomness of the last id.
    last_id: Mutex<(i64, u64)>,
}

/// What the shift is added to.
#[derive(Debug, Clone, Copy)]
enum Base {
    /// The machine's clock.
    Machine,
    /// A time that stands still.
    Stopped(Timestamp),
    /// A time that was at a moment, and passes as tokio's does.
    Runtime(Timestamp, Instant),
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::with(Base::Machine, 0)
    }
}

impl Clock {
    fn with(base: Base, off_by: i64) -> Clock {
        let shift = AtomicI64::new(0);
        Clock(Arc::new(Inner {
            shift,
            base,
            off_by,
            moved: watch::Sender::new(0),
            last_id: Mutex::default(),
        }))
    }

    /// A clock that stands at `time` until it is moved (for a store in memory).
    pub fn stopped_at(time: Timestamp) -> Clock {
        Clock::with(Base::Stopped(time), 0)
    }

    /// A clock that says `time` now and goes on as tokio's does: where that is paused, time is virtual.
    #[doc(hidden)]
    pub fn of_runtime(time: Timestamp) -> Clock {
        Clock::with(Base::Runtime(time, Instant::now()), 0)
    }

    /// The clock of another machine that uses the same database, and whose own is wrong by so many microseconds.
    #[doc(hidden)]
    pub fn elsewhere(&self, off_by: i64) -> Clock {
        Clock::with(self.0.base, off_by)
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
        matches!(self.0.base, Base::Stopped(_))
    }

    /// Now, for a store whose machine is this one.
    pub fn local_now(&self) -> Timestamp {
        let base = match self.0.base {
            Base::Machine => Timestamp::from(SystemTime::now()),
            Base::Stopped(time) => time,
            Base::Runtime(time, since) => time + since.elapsed(),
        };
        Timestamp::from_micros(base.micros().saturating_add(self.shift()))
    }

    /// What the machine's own clock says, be it wrong: good enough to put what is made together near each other.
    pub(crate) fn machine_now(&self) -> Timestamp {
        let now = match self.0.base {
            Base::Machine | Base::Stopped(_) => Timestamp::from(SystemTime::now()),
            Base::Runtime(..) => self.local_now(),
        };
        Timestamp::from_micros(now.micros().saturating_add(self.0.off_by))
    }

    /// Time and randomness for an id that is greater than all before it of this process: so that runs of one call
    /// stand in line in its order. The time is for locality in the index: a wrong clock does no harm.
    pub fn next_id(&self) -> (Timestamp, u64) {
        let millis = self.machine_now().micros() / 1000;
        let mut last = self.0.last_id.lock();
        *last = match millis > last.0 {
            // One bit less than there is room for, so that those that follow have room too.
            true => (millis, fastrand::u64(..) >> 3),
            false => (last.0, last.1 + fastrand::u64(1..1 << 24)),
        };
        (Timestamp::from_micros(last.0 * 1000), last.1)
    }

    /// Tells when somebody moved the clock.
    pub fn moves(&self) -> watch::Receiver<i64> {
        self.0.moved.subscribe()
    }
}
