//! When a schedule is due: by a cron expression, at even intervals, or once.
//!
//! All three have a text, so that a person can write them and a table can keep them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cron::{Stored, check_zone};
use crate::{Cron, Error, Limits, Timestamp, duration_text, parse_duration};

/// When a schedule is due.
///
/// ```
/// use outlast_core::{Timestamp, Timetable};
/// let noon: Timestamp = "2027-06-01T12:00:00Z".parse()?;
/// let next = |text| Timetable::parse(text, "Europe/Berlin").map(|table| table.next_after(noon));
/// assert_eq!(next("30 2 * * *")?, Some("2027-06-02T00:30:00Z".parse()?));
/// assert_eq!(next("every 15m")?, Some("2027-06-01T12:15:00Z".parse()?));
/// assert_eq!(next("at 2027-07-01T00:00:00Z")?, Some("2027-07-01T00:00:00Z".parse()?));
/// # Ok::<_, outlast_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub enum Timetable {
    /// By a cron expression.
    Cron(Cron),
    /// At `from` and then every `every`, whatever clocks do. It never drifts: each time is a multiple away from
    /// `from`.
    Every {
        /// From one time to the next: 1 s to 100 years, in whole milliseconds.
        every: Duration,
        /// The first time.
        from: Timestamp,
    },
    /// Once.
    Once(Timestamp),
}

/// The shortest interval.
const SHORTEST: Duration = Duration::from_secs(1);

impl Timetable {
    /// Reads a cron expression; `every 15m` or `@every 15m`, also with `from 2027-01-01T00:00:00Z` (else counted
    /// from 1970, so that a quarter of an hour begins when it does on a clock); or `at 2027-01-01T00:00:00Z`.
    ///
    /// The zone has to be one that there is, also where it does not matter.
    pub fn parse(text: &str, zone: &str) -> Result<Timetable, Error> {
        let words: Vec<&str> = text.split_ascii_whitespace().take(5).collect();
        let table = match words[..] {
            // It says what is too long.
            _ if text.len() > Cron::LONGEST => return Cron::parse(text, zone).map(Timetable::Cron),
            ["every" | "@every", every] => Timetable::every(text, every, Timestamp::default())?,
            ["every" | "@every", every, "from", from] => Timetable::every(text, every, from.parse()?)?,
            ["every" | "@every", ..] => return Err(wrong_every(text, "write it like every 15m")),
            ["at", time] => Timetable::Once(time.parse()?),
            ["at", ..] => {
                return Err(Error::invalid_cron(text, "at", "write it like at 2027-03-14T01:30:00Z"));
            }
            _ => return Cron::parse(text, zone).map(Timetable::Cron),
        };
        check_zone(zone)?;
        table.check()?;
        Ok(table)
    }

    /// The text from which [`Timetable::parse`] reads the same again.
    pub fn to_text(&self) -> String {
        match self {
            Timetable::Cron(cron) => cron.text().to_owned(),
            Timetable::Every { every, from } if *from == Timestamp::default() => {
                format!("every {}", duration_text(*every))
            }
            Timetable::Every { every, from } => format!("every {} from {from}", duration_text(*every)),
            Timetable::Once(time) => format!("at {time}"),
        }
    }

    /// The time zone that it depends on; `UTC` when it depends on none.
    pub fn zone(&self) -> &str {
        match self {
            Timetable::Cron(cron) => cron.zone(),
            Timetable::Every { .. } | Timetable::Once(_) => "UTC",
        }
    }

    /// Accepts what can be kept as text and read again.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Timetable::Cron(_) => Ok(()),
            Timetable::Every { every, from } => {
                let whole = every.subsec_nanos().is_multiple_of(1_000_000);
                match (SHORTEST..=Limits::DURATION).contains(every) && whole {
                    true => check_time(*from),
                    false => {
                        let range =
                            format!("{} to {}", duration_text(SHORTEST), duration_text(Limits::DURATION));
                        Err(wrong_every(
                            &self.to_text(),
                            &format!("{range} in whole milliseconds are allowed"),
                        ))
                    }
                }
            }
            Timetable::Once(time) => check_time(*time),
        }
    }

    /// The first time after this moment, if there is one.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.first_at(after + Duration::from_micros(1)).filter(|next| *next > after)
    }

    /// The next `n` times after this moment.
    pub fn upcoming(&self, after: Timestamp, n: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last)).take(n).collect()
    }

    /// The first `most` of the times from `from` on and before `to`.
    pub fn fire_times(&self, from: Timestamp, to: Timestamp, most: usize) -> Vec<Timestamp> {
        let all = std::iter::successors(self.first_at(from), |last| self.next_after(*last));
        all.take_while(|time| *time < to).take(most).collect()
    }

    /// When it is due, in English.
    pub fn describe(&self) -> String {
        match self {
            Timetable::Cron(cron) => cron.describe(),
            Timetable::Every { every, from } => format!("Every {} from {from}", duration_text(*every)),
            Timetable::Once(time) => format!("Once, at {time}"),
        }
    }

    fn every(text: &str, every: &str, from: Timestamp) -> Result<Timetable, Error> {
        let every = parse_duration(every).map_err(|remedy| wrong_every(text, &remedy))?;
        Ok(Timetable::Every { every, from })
    }

    /// The first time at this moment or later.
    fn first_at(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Timetable::Cron(cron) => cron.first_at(time),
            Timetable::Every { every, from } => {
                let since = u128::from(u64::try_from(time.micros() - from.micros()).unwrap_or(0));
                // Checked to be a second at least; zero would never get on.
                let every = every.as_micros().max(1);
                let past = i64::try_from(since.div_ceil(every) * every).ok()?;
                let next = from.micros().checked_add(past)?;
                (next <= Timestamp::MAX.micros()).then(|| Timestamp::from_micros(next))
            }
            Timetable::Once(once) => (*once >= time).then_some(*once),
        }
    }
}

fn wrong_every(text: &str, remedy: &str) -> Error {
    Error::invalid_cron(text, "every", remedy)
}

/// The last hours of the year 9999 have no text.
fn check_time(time: Timestamp) -> Result<(), Error> {
    match time.to_jiff() {
        Some(_) => Ok(()),
        None => Err(Error::invalid("time", time, format!("at most {}", jiff::Timestamp::MAX))),
    }
}

impl From<Timetable> for Stored {
    fn from(table: Timetable) -> Stored {
        Stored { text: table.to_text(), zone: table.zone().to_owned() }
    }
}

impl TryFrom<Stored> for Timetable {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Timetable, Error> {
        Timetable::parse(&stored.text, &stored.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DurationExt;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn every_text_is_read_back_as_what_it_was() {
        let from = time("2027-01-01T00:00:30.25Z");
        let tables = [
            ("30 2 * * *", Timetable::Cron(Cron::parse("30 2 * * *", "Europe/Berlin").unwrap())),
            ("every 15m", Timetable::Every { every: 15.minutes(), from: Timestamp::default() }),
            ("every 1h30m from 2027-01-01T00:00:30.25Z", Timetable::Every { every: 90.minutes(), from }),
            ("every 36600d", Timetable::Every { every: Limits::DURATION, from: Timestamp::default() }),
            ("at 2027-01-01T00:00:30.25Z", Timetable::Once(from)),
        ];
        for (text, table) in tables {
            assert_eq!(table.to_text(), text);
            assert_eq!(Timetable::parse(text, "Europe/Berlin").unwrap(), table);
            let kept = serde_json::to_string(&table).unwrap();
            assert_eq!(serde_json::from_str::<Timetable>(&kept).unwrap(), table, "{kept}");
            table.check().unwrap();
        }
        assert_eq!(Timetable::parse("@every 15m", "UTC").unwrap().to_text(), "every 15m");
    }

    #[test]
    fn an_interval_stays_on_its_beat_however_late_it_is_asked() {
        let from = time("2027-01-01T00:00:00Z");
        let table = Timetable::Every { every: 7.minutes(), from };
        assert_eq!(table.next_after(Timestamp::default()), Some(from));
        assert_eq!(table.next_after(from), Some(from + 7.minutes()));
        assert_eq!(table.next_after(from + 6.minutes()), Some(from + 7.minutes()));
        let late = from + 1_000_000.days() + 1.millis();
        let beat = table.next_after(late).unwrap().since(from);
        assert!(beat.as_secs().is_multiple_of(420) && beat > late.since(from), "{beat:?}");
        assert_eq!(
            table.fire_times(from, from + 21.minutes(), 9),
            [from, from + 7.minutes(), from + 14.minutes()]
        );
        assert_eq!(table.upcoming(from, 2), [from + 7.minutes(), from + 14.minutes()]);
        assert_eq!(table.next_after(Timestamp::MAX), None);
    }

    #[test]
    fn once_is_once() {
        let at = time("2027-01-01T00:00:00Z");
        let table = Timetable::Once(at);
        assert_eq!(table.next_after(time("2026-12-31T23:59:59.999999Z")), Some(at));
        assert_eq!(table.next_after(at), None);
        assert_eq!(table.fire_times(at, Timestamp::MAX, 9), [at]);
        assert_eq!(table.fire_times(Timestamp::default(), at, 9), []);
        assert_eq!(Timetable::Once(Timestamp::MAX).next_after(Timestamp::MAX), None);
    }

    #[test]
    fn it_is_told_in_english() {
        let told = |text| Timetable::parse(text, "Europe/Berlin").unwrap().describe();
        assert_eq!(told("30 2 * * *"), "At 02:30 (Europe/Berlin)");
        assert_eq!(told("every 15m"), "Every 15m from 1970-01-01T00:00:00Z");
        assert_eq!(told("at 2027-01-01T00:00:00Z"), "Once, at 2027-01-01T00:00:00Z");
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_the_remedy() {
        let cases = [
            ("@every 0s", "invalid_cron", "every: 1s to 36600d in whole milliseconds are allowed"),
            ("every 999ms", "invalid_cron", "every: 1s to 36600d"),
            ("every 36601d", "invalid_cron", "at most 100 years"),
            ("every 15", "invalid_cron", "every: a duration looks like"),
            ("every", "invalid_cron", "every: write it like every 15m"),
            ("every 15m from", "invalid_cron", "every: write it like every 15m"),
            ("every 15m from noon", "invalid_timestamp", "write it like 2027"),
            ("at", "invalid_cron", "at: write it like at 2027"),
            ("at noon", "invalid_timestamp", "write it like 2027"),
            ("at 2027-02-30T00:00:00Z", "invalid_timestamp", "write it like 2027"),
            ("at 2027-01-01T00:00:00", "invalid_timestamp", "with its zone"),
            ("soon", "invalid_cron", "1 fields given, write five"),
        ];
        for (text, code, told) in cases {
            let error = Timetable::parse(text, "UTC").expect_err(text);
            assert_eq!(error.code(), code, "{text}");
            assert!(error.to_string().contains(told), "{text}: {error}");
        }
        let long = Timetable::parse(&format!("every {}", "9".repeat(10_000)), "UTC").unwrap_err().to_string();
        assert!(long.contains("at most 200 are allowed") && long.len() < 300, "{long}");
        assert_eq!(Timetable::parse("every 15m", "Mars/Base").unwrap_err().code(), "unknown_timezone");
        let uneven = Timetable::Every { every: Duration::new(1, 1), from: Timestamp::default() };
        assert!(uneven.check().is_err());
        assert!(Timetable::Once(Timestamp::MAX).check().is_err());
        // Not checked, but no reason to hang.
        let nothing = Timetable::Every { every: Duration::ZERO, from: Timestamp::default() };
        assert_eq!(nothing.upcoming(Timestamp::default(), 2).len(), 2);
    }
}
