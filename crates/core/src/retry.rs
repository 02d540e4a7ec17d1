//! When a failed attempt is tried again.

use std::time::Duration;

use crate::{Error, Limits};

/// The pause after the first failure, unless one is given.
const FIRST: Duration = Duration::from_secs(1);

/// How often, and after what pause, a failed attempt is tried again.
///
/// ```
/// use outlast_core::{DurationExt, Retry};
/// let retry = Retry::times(5).first(200.millis()).at_most(1.minute());
/// assert!(retry.pause(1, 1.0) == Some(200.millis()) && retry.pause(5, 1.0).is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    attempts: u32,
    first: Duration,
    factor: f64,
    at_most: Duration,
    jitter: bool,
}

impl Retry {
    /// One attempt, no other.
    pub const fn never() -> Retry {
        Retry::times(1)
    }

    /// At most `attempts` attempts in all, with exponential pauses: 1 s, 2 s, 4 s … 10 min, each
    /// shortened at random (full jitter).
    pub const fn times(attempts: u32) -> Retry {
        Retry { attempts, first: FIRST, factor: 2.0, at_most: Duration::from_secs(600), jitter: true }
    }

    /// The same pause every time, exactly.
    pub const fn fixed(attempts: u32, pause: Duration) -> Retry {
        Retry { attempts, first: pause, factor: 1.0, at_most: pause, jitter: false }
    }

    /// The pause after the first failure.
    pub const fn first(mut self, pause: Duration) -> Retry {
        self.first = pause;
        self
    }

    /// By how much each pause is longer than the one before.
    pub const fn factor(mut self, factor: f64) -> Retry {
        self.factor = factor;
        self
    }

    /// The longest pause.
    pub const fn at_most(mut self, pause: Duration) -> Retry {
        self.at_most = pause;
        self
    }

    /// Pauses exactly as computed, not shortened at random.
    pub const fn without_jitter(mut self) -> Retry {
        self.jitter = false;
        self
    }

    /// How many attempts there are in all.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The pause after failed attempt number `attempt` (from 1), or `None` when it was the last.
    /// `random` is from 0 to 1.
    pub fn pause(&self, attempt: u32, random: f64) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let power = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.first.as_secs_f64() * self.factor.powi(power);
        let longest = self.at_most.as_secs_f64();
        let seconds = if seconds.is_finite() { seconds.min(longest) } else { longest };
        let share = if self.jitter { random.clamp(0.0, 1.0) } else { 1.0 };
        Some(Duration::from_secs_f64(seconds * share))
    }

    /// Accepts a policy that makes sense, or says what range does.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str, value: String, remedy: &str| Err(Error::invalid(what, value, remedy));
        if !(1..=1_000_000).contains(&self.attempts) {
            return wrong("number of attempts", self.attempts.to_string(), "1 to 1,000,000");
        }
        if !(1.0..=1000.0).contains(&self.factor) {
            return wrong("retry factor", self.factor.to_string(), "1 to 1000");
        }
        // Where only the longest is said, the first is no longer than that.
        if self.first > self.at_most && self.first != FIRST {
            let remedy = format!("at most the longest pause, {:?}: see Retry::at_most", self.at_most);
            return wrong("first pause", format!("{:?}", self.first), &remedy);
        }
        if self.first > Limits::DURATION || self.at_most > Limits::DURATION {
            return wrong("retry pause", format!("{:?}", self.at_most), "at most 100 years");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DurationExt;

    #[test]
    fn pauses_grow_to_their_bound_and_never_overflow() {
        let retry = Retry::times(1_000_000).without_jitter();
        assert_eq!(retry.pause(1, 0.0), Some(1.second()));
        assert_eq!(retry.pause(4, 0.0), Some(8.seconds()));
        assert_eq!(retry.pause(999_999, 0.0), Some(10.minutes()));
        assert_eq!(retry.pause(1_000_000, 0.0), None);
    }

    #[test]
    fn jitter_takes_any_share_of_the_pause() {
        assert_eq!(Retry::times(3).pause(2, 0.25), Some(500.millis()));
        assert_eq!(Retry::times(3).pause(2, 0.0), Some(Duration::ZERO));
    }

    #[test]
    fn policies_without_sense_are_refused() {
        for retry in [
            Retry::times(0),
            Retry::times(2).factor(0.1),
            Retry::times(2).factor(f64::NAN),
            Retry::times(2).first(1.hour()),
            Retry::fixed(2, 1.minute()).at_most(1.second()),
        ] {
            assert!(retry.check().is_err(), "{retry:?}");
        }
        for retry in [Retry::times(2).first(1.hour()).at_most(1.hour()), Retry::times(2).at_most(5.millis())]
        {
            assert!(retry.check().is_ok(), "{retry:?}");
        }
    }
}
