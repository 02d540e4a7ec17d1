//! What time it is by the database's clock, without asking it each time.
//!
//! Each answer of the store that carries its time says what that was between a question and its answer. Since
//! then the local monotonic clock is used, with bounds: a timer counts as due only by the lower bound (never
//! early), and a deadline is set by the upper bound. Of all answers those count that leave least open.

use std::time::Duration;

use outlast_core::Timestamp;
use outlast_store::Clock;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How far two clocks may drift apart: a thousandth.
const DRIFT: f64 = 0.001;

pub(crate) struct EngineClock {
    clock: Clock,
    /// The store's machine is this one: its clock can be read directly.
    local: bool,
    bounds: Mutex<Bounds>,
}

#[derive(Clone, Copy)]
struct Base {
    /// The database's time, without the clock's shift.
    micros: i64,
    asked: Instant,
    answered: Instant,
}

impl Base {
    fn at_least(&self, at: Instant) -> i64 {
        self.micros + at.saturating_duration_since(self.answered).mul_f64(1.0 - DRIFT).as_micros() as i64
    }

    fn at_most(&self, at: Instant) -> i64 {
        self.micros + at.saturating_duration_since(self.asked).mul_f64(1.0 + DRIFT).as_micros() as i64
    }
}

/// What was told and leaves least open: in one direction, and in the other.
struct Bounds {
    low: Base,
    high: Base,
}

impl Bounds {
    /// Takes over what was told just now. If that contradicts all before, the database's clock was set.
    fn told(&mut self, new: Base) {
        let at = new.answered;
        let was_set = new.at_least(at) > self.high.at_most(at) || new.at_most(at) < self.low.at_least(at);
        if was_set || new.at_least(at) >= self.low.at_least(at) {
            self.low = new;
        }
        if was_set || new.at_most(at) <= self.high.at_most(at) {
            self.high = new;
        }
    }
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
        EngineClock { clock, local, bounds: Mutex::new(Bounds { low: base, high: base }) }
    }

    /// The store is about to be asked something that it answers with its time.
    pub(crate) fn asks(&self) -> Asked {
        Asked { at: Instant::now(), shift: self.clock.shift() }
    }

    /// Takes over what the store said: `now` was true at some moment between `asked` and this one. Nobody knows
    /// which shift is in it if a test moved the clock meanwhile.
    pub(crate) fn told(&self, now: Timestamp, asked: Asked) {
        if asked.shift == self.clock.shift() {
            let answered = Instant::now();
            let micros = now.micros() - asked.shift;
            self.bounds.lock().told(Base { micros, asked: asked.at, answered });
        }
    }

    /// The database's time is not before this.
    pub(crate) fn at_least(&self) -> Timestamp {
        self.bound(|bounds, at| bounds.low.at_least(at))
    }

    /// The database's time is not after this.
    pub(crate) fn at_most(&self) -> Timestamp {
        self.bound(|bounds, at| bounds.high.at_most(at))
    }

    fn bound(&self, bound: impl Fn(&Bounds, Instant) -> i64) -> Timestamp {
        if self.local {
            return self.clock.local_now();
        }
        let micros = bound(&self.bounds.lock(), Instant::now());
        Timestamp::from_micros(micros + self.clock.shift())
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

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// One moment for all: between two looks at a clock a test may stand still.
    static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// What the database said `ago`, in an answer that took so long.
    fn told(micros: i64, ago: Duration, took: Duration) -> Base {
        let answered = NOW.checked_sub(ago).unwrap();
        Base { micros, asked: answered.checked_sub(took).unwrap(), answered }
    }

    /// The bounds, in milliseconds, after these were told.
    fn bounds(first: Base, then: Base) -> (i64, i64) {
        let mut bounds = Bounds { low: first, high: first };
        bounds.told(then);
        (bounds.low.at_least(then.answered) / 1000, bounds.high.at_most(then.answered) / 1000)
    }

    #[test]
    fn a_slow_answer_takes_nothing_from_a_quick_one() {
        let quick = told(1_000_000, MS * 100, MS);
        assert_eq!(bounds(quick, told(1_085_000, Duration::ZERO, MS * 20)), (1_099, 1_101));
        assert_eq!(bounds(quick, told(1_100_500, Duration::ZERO, MS * 20)), (1_100, 1_101));
    }

    #[test]
    fn what_was_told_long_ago_counts_less_and_less() {
        let old = told(1_000_000, Duration::from_secs(60), MS);
        assert_eq!(bounds(old, told(61_000_000, Duration::ZERO, MS * 20)), (61_000, 61_020));
    }

    #[test]
    fn it_is_never_before_what_was_told_just_now() {
        let quick = told(1_000_000, MS * 100, MS);
        assert_eq!(bounds(quick, told(1_101_000, Duration::ZERO, MS)).0, 1_101);
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let quick = told(1_000_000, MS * 100, MS);
        assert_eq!(bounds(quick, told(900_000, Duration::ZERO, MS * 20)), (900, 920));
        assert_eq!(bounds(quick, told(9_000_000, Duration::ZERO, MS * 20)), (9_000, 9_020));
    }
}
