//! What time it is by the database's clock, without asking it each time.
//!
//! Each answer of the store that carries its time gives a new base. Between two of them the local
//! monotonic clock is used, with bounds: a timer counts as due only by the lower bound (never early),
//! and a deadline is set by the upper bound.

use std::time::{Duration, Instant};

use outlast_core::Timestamp;
use outlast_store::Clock;
use parking_lot::Mutex;

/// How far two clocks may drift apart: a thousandth.
const DRIFT: f64 = 0.001;

pub(crate) struct EngineClock {
    clock: Clock,
    /// The store's machine is this one: its clock can be read directly.
    local: bool,
    base: Mutex<Base>,
}

#[derive(Clone, Copy)]
struct Base {
    /// The database's time, without the clock's shift.
    micros: i64,
    asked: Instant,
    answered: Instant,
}

/// When the store was asked, and with which shift.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    shift: i64,
}

impl EngineClock {
    pub(crate) fn new(clock: Clock, local: bool) -> EngineClock {
        let base = Base { micros: 0, asked: Instant::now(), answered: Instant::now() };
        EngineClock { clock, local, base: Mutex::new(base) }
    }

    /// The store is about to be asked something that it answers with its time.
    pub(crate) fn asks(&self) -> Asked {
        Asked { at: Instant::now(), shift: self.clock.shift() }
    }

    /// Takes over what the store said: `now` was true at some moment between `asked` and this one. Nobody knows
    /// which shift is in it if a test moved the clock meanwhile.
    pub(crate) fn told(&self, now: Timestamp, asked: Asked) {
        if asked.shift == self.clock.shift() {
            let micros = now.micros() - asked.shift;
            *self.base.lock() = Base { micros, asked: asked.at, answered: Instant::now() };
        }
    }

    /// The database's time is not before this.
    pub(crate) fn at_least(&self) -> Timestamp {
        self.bound(|base| base.answered.elapsed().mul_f64(1.0 - DRIFT))
    }

    /// The database's time is not after this.
    pub(crate) fn at_most(&self) -> Timestamp {
        self.bound(|base| base.asked.elapsed().mul_f64(1.0 + DRIFT))
    }

    fn bound(&self, since: impl Fn(&Base) -> Duration) -> Timestamp {
        if self.local {
            return self.clock.local_now();
        }
        let base = *self.base.lock();
        Timestamp::from_micros(base.micros + self.clock.shift()) + since(&base)
    }

    /// How long to wait, in real time, until the database's clock says `time`.
    pub(crate) fn until(&self, time: Timestamp) -> Duration {
        time.since(self.at_least())
    }

    /// Whether time passes only when a test says so.
    pub(crate) fn is_stopped(&self) -> bool {
        self.clock.is_stopped()
    }
}
