//! Durations as people say them: `2.days()`, `30.minutes()`.

use std::time::Duration;

/// Adds `2.days()` and friends to the integers, giving plain [`std::time::Duration`]s.
///
/// ```
/// use outlast_core::DurationExt;
/// assert_eq!(2.hours(), std::time::Duration::from_secs(7200));
/// ```
pub trait DurationExt: Sized {
    /// This many whole seconds.
    fn whole_seconds(self) -> u64;

    /// This many seconds.
    fn seconds(self) -> Duration {
        Duration::from_secs(self.whole_seconds())
    }
    /// This many milliseconds.
    fn millis(self) -> Duration {
        Duration::from_millis(self.whole_seconds())
    }
    /// This many minutes.
    fn minutes(self) -> Duration {
        Duration::from_secs(self.whole_seconds().saturating_mul(60))
    }
    /// One minute: `1.minute()`.
    fn minute(self) -> Duration {
        self.minutes()
    }
    /// One second: `1.second()`.
    fn second(self) -> Duration {
        self.seconds()
    }
    /// This many hours.
    fn hours(self) -> Duration {
        Duration::from_secs(self.whole_seconds().saturating_mul(3600))
    }
    /// One hour: `1.hour()`.
    fn hour(self) -> Duration {
        self.hours()
    }
    /// This many days of 24 hours.
    fn days(self) -> Duration {
        Duration::from_secs(self.whole_seconds().saturating_mul(86_400))
    }
    /// One day: `1.day()`.
    fn day(self) -> Duration {
        self.days()
    }
}

impl DurationExt for u64 {
    fn whole_seconds(self) -> u64 {
        self
    }
}

impl DurationExt for u32 {
    fn whole_seconds(self) -> u64 {
        self.into()
    }
}

impl DurationExt for i32 {
    /// A negative count has no duration: it becomes zero.
    fn whole_seconds(self) -> u64 {
        u64::try_from(self).unwrap_or(0)
    }
}
