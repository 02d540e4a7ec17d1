//! Durations as people say them: `2.days()` in code, `2h30m` in text.

use std::time::Duration;

use crate::Limits;

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

/// From the largest to the smallest; with their milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration: `30s`, `10m`, `2h30m`, `1d`, `500ms`; at most what the engine takes.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        let unsigned = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let below_zero = unsigned.is_some_and(|rest| parse_duration(rest).is_ok());
        let sign = if below_zero { " and is at least 0" } else { "" };
        format!("a duration looks like 30s, 10m, 2h30m or 1d{sign}, not {text:?}")
    };
    let long = || format!("{text} is too long: a duration is at most 100 years, which is 36600d");
    let mut rest = text;
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = match &rest[..digits] {
            "" => return Err(wrong()),
            count => count.parse().map_err(|_| long())?,
        };
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..letters]).ok_or_else(wrong)?;
        millis = count.checked_mul(*unit).and_then(|more| millis.checked_add(more)).ok_or_else(long)?;
        rest = &rest[letters..];
    }
    match Duration::from_millis(millis) {
        _ if text.is_empty() => Err(wrong()),
        duration if duration > Limits::DURATION => Err(long()),
        duration => Ok(duration),
    }
}

/// A duration as [`parse_duration`] reads it, in whole milliseconds: `2h30m`.
pub fn duration_text(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in UNITS {
        if rest >= millis {
            text += &format!("{}{unit}", rest / millis);
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let seconds = |text: &str| parse_duration(text).unwrap().as_secs_f64();
        assert_eq!(seconds("30s"), 30.0);
        assert_eq!(seconds("10m"), 600.0);
        assert_eq!(seconds("2h30m"), 9_000.0);
        assert_eq!(seconds("1d"), 86_400.0);
        assert_eq!(seconds("1s500ms"), 1.5);
    }

    #[test]
    fn what_is_no_duration_is_told_the_shape_that_works() {
        for text in ["", "10", "m", "10x", "-5s", "1.5h", "10 m", "5ö", &"-".repeat(1 << 20)] {
            let told = parse_duration(text).unwrap_err();
            assert!(told.contains("30s, 10m, 2h30m or 1d"), "{text}: {told}");
        }
    }

    #[test]
    fn what_takes_too_long_is_told_how_long_it_may() {
        for text in ["36601d", "9999999999999999d", "99999999999999999999d", "18446744073709551615ms1ms"] {
            assert!(parse_duration(text).unwrap_err().contains("at most 100 years"), "{text}");
        }
        assert_eq!(parse_duration("36600d"), Ok(Limits::DURATION));
    }

    #[test]
    fn a_duration_is_read_back_from_its_text() {
        for (millis, text) in [
            (0, "0s"),
            (999, "999ms"),
            (90_000, "1m30s"),
            (86_400_000, "1d"),
            (93_784_005, "1d2h3m4s5ms"),
            (Limits::DURATION.as_millis() as u64, "36600d"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(duration_text(duration), text);
            assert_eq!(parse_duration(text), Ok(duration));
        }
    }
}
