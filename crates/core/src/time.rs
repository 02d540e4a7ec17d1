//! Points in time as the database keeps them: whole microseconds since 1970, UTC.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A point in time, in microseconds since 1970 (UTC), no later than the year 9999.
///
/// ```
/// use outlast_core::Timestamp;
/// let time: Timestamp = "2027-03-14T01:30:00Z".parse().unwrap();
/// assert_eq!(time.to_string(), "2027-03-14T01:30:00Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment that can be named: the end of the year 9999.
    pub const MAX: Timestamp = Timestamp(253_402_300_799_999_999);

    /// From microseconds since 1970; clamped to what can be named.
    pub fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros.clamp(0, Self::MAX.0))
    }

    /// Microseconds since 1970.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// How long from `earlier` to this; zero when it is not later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// So long before this, or 1970.
    pub fn before(self, by: Duration) -> Timestamp {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_sub(micros))
    }

    /// For programs: RFC 3339 in UTC, always with six digits of microseconds, so that texts sort as times do. The last
    /// hours of the year 9999, which have no such text, are as the last that has one.
    ///
    /// ```
    /// # use outlast_core::Timestamp;
    /// let time: Timestamp = "2027-03-14T01:30:00Z".parse().unwrap();
    /// assert_eq!(time.exact(), "2027-03-14T01:30:00.000000Z");
    /// ```
    pub fn exact(self) -> String {
        format!("{:.6}", self.to_jiff().unwrap_or(jiff::Timestamp::MAX))
    }

    /// In the calendar's terms; `None` for the last hours of the year 9999, which calendars leave to zones.
    pub(crate) fn to_jiff(self) -> Option<jiff::Timestamp> {
        jiff::Timestamp::from_microsecond(self.0).ok()
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_add(micros))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::default() + since
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Timestamp {
        Timestamp::from_micros(time.as_microsecond())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_jiff() {
            Some(time) => time.fmt(f),
            None => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Timestamp, crate::Error> {
        let refused = |remedy: &str| crate::Error::invalid("time", text, remedy);
        let time: jiff::Timestamp = text.parse().map_err(|_| match is_written(text) {
            true => refused("one that can be named in every zone: until 9999-12-30T22:00:00Z"),
            false => refused("write it like 2027-03-14T01:30:00Z, with its zone"),
        })?;
        match time.as_microsecond() {
            0.. => Ok(time.into()),
            _ => Err(refused("one since 1970, with which time begins here")),
        }
    }
}

/// Whether a date, a time of day and a zone are written as they should be, whether there is such a moment or not.
fn is_written(text: &str) -> bool {
    let parts = jiff::fmt::temporal::Pieces::parse(text);
    parts.is_ok_and(|parts| parts.time().is_some() && parts.offset().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_text_has_all_its_digits_and_can_be_read_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_500_000, "1970-01-01T00:00:01.500000Z"),
            (1_000_001, "1970-01-01T00:00:01.000001Z"),
            (Timestamp::MAX.micros(), "9999-12-30T22:00:00.999999Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).exact(), text);
            assert_eq!(text.parse::<Timestamp>().unwrap().exact(), text);
        }
    }

    #[test]
    fn a_time_before_all_others_is_refused_and_not_taken_for_the_first() {
        assert_eq!("1970-01-01T00:00:00Z".parse::<Timestamp>().unwrap().micros(), 0);
        for text in ["0001-12-31T00:00:00Z", "1969-12-31T23:59:59.999999Z"] {
            let refused = text.parse::<Timestamp>().unwrap_err().to_string();
            assert!(refused.contains("since 1970"), "{refused}");
        }
    }

    #[test]
    fn a_time_that_is_well_written_and_too_late_is_told_how_late_one_may_be() {
        assert!("9999-12-30T22:00:00Z".parse::<Timestamp>().is_ok());
        for text in ["9999-12-31T23:59:59Z", "9999-12-30T23:00:00-05:00"] {
            let refused = text.parse::<Timestamp>().unwrap_err().to_string();
            assert!(refused.contains("until 9999-12-30T22:00:00Z"), "{refused}");
        }
        for text in ["9999-12-31T23:59:59", "9999-12-31", "2026-02-30T00:00:00Z", "infinity", "soon"] {
            let refused = text.parse::<Timestamp>().unwrap_err().to_string();
            assert!(refused.contains("write it like 2027-03-14T01:30:00Z"), "{refused}");
        }
    }
}
