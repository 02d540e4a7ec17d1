//! Cron expressions: which moments they name in a time zone.
//!
//! The calendar part is `croner`'s: which days a text names, and how to say so in English. The way from a clock on
//! the wall to a moment is ours, because that is where days with 23 or 25 hours go wrong. Nothing here reads a clock
//! or a file: the zones are part of the program.

mod civil;
mod fields;
mod notes;
mod zone;

use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};

use self::civil::Civil;
use self::fields::Fields;
use crate::{Error, Timestamp};

/// A cron expression in a time zone.
///
/// Five fields (minute, hour, day of month, month, day of week), or six with the seconds first: `*`, numbers, names
/// (`JAN`, `MON`), lists, ranges, steps (`*/15`, `9-17/2`); or `@hourly`, `@daily`, `@midnight`, `@weekly`,
/// `@monthly`, `@yearly`, `@annually`. Days of the month may be `L` (the last), `LW` (the last from Monday to
/// Friday) and `15W` (the one from Monday to Friday that is nearest to the 15th within its month); days of the week
/// `FRI#2` (the second) and `FRIL` (the last). With both kinds of day a date needs to match only one.
///
/// When clocks change, what counts is whether minute and hour have a `*` or a step:
///
/// - Without, the times are **fixed**: each fires exactly once per date. One that clocks skip fires as much later as
///   they were moved (02:30 becomes 03:30; if the expression names that too, both are one). One that comes twice
///   fires the first time.
/// - With one, it is an **interval**, which fires whenever clocks show a time that matches: skipped times are left
///   out and repeated ones fire again, so that `*/15 * * * *` goes on every 15 minutes. Only a shift that is no
///   multiple of the interval makes one longer or shorter, such as the half hour of Lord Howe Island for `0 * * * *`.
///
/// ```
/// use outlast_core::{Cron, Timestamp};
/// let cron = Cron::parse("30 2 * * *", "America/New_York")?;
/// let night: Timestamp = "2027-03-14T05:00:00Z".parse()?;
/// assert_eq!(cron.next_after(night), Some("2027-03-14T07:30:00Z".parse()?)); // 03:30: there is no 02:30
/// # Ok::<_, outlast_core::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Cron(Arc<Parsed>);

struct Parsed {
    text: String,
    zone: String,
    rules: TimeZone,
    civil: Civil,
    fixed: bool,
    english: String,
}

/// Accepts the name of a time zone.
pub(crate) fn check_zone(zone: &str) -> Result<(), Error> {
    zone::find(zone).map(drop)
}

/// What is kept of a timetable, wherever it is kept.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) text: String,
    pub(crate) zone: String,
}

impl Cron {
    /// The longest expression, in bytes.
    pub const LONGEST: usize = 200;

    /// Reads an expression for a zone of the IANA database, such as `Europe/Berlin` or `UTC`.
    ///
    /// Refused is also what would not fire for eight years or more, such as the 30th of February.
    pub fn parse(text: &str, zone: &str) -> Result<Cron, Error> {
        let fields = Fields::parse(text)?;
        let rules = zone::find(zone)?;
        let wrong = |field: &str, remedy: String| Error::invalid_cron(&fields.text, field, remedy);
        let pattern = fields.pattern().map_err(|refused| wrong("expression", refused.to_string()))?;
        let civil = Civil::new(&pattern).map_err(|refused| wrong("expression", refused.to_string()))?;
        let rare =
            |field: &str, why: &str| wrong(field, format!("it never fires in the next 8 years: {why}"));
        match civil.longest_pause() {
            civil::NEVER => return Err(rare("day-of-month", "no month that it names has such a day")),
            8.. => return Err(rare("day-of-week", "such a day can be missing for longer than that")),
            _ => {}
        }
        let english = fields.english(&pattern);
        let (text, zone, fixed) = (fields.text.clone(), zone.to_owned(), fields.fixed);
        let cron = Cron(Arc::new(Parsed { text, zone, rules, civil, fixed, english }));
        match cron.first_from(SOME_TIME) {
            Some(_) => Ok(cron),
            None => Err(rare("hour", &format!("clocks in {} always skip what it names", cron.zone()))),
        }
    }

    /// The expression, as [`Cron::parse`] reads it.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The name of the time zone.
    pub fn zone(&self) -> &str {
        &self.0.zone
    }

    /// The first time that it fires after this moment; `None` where the calendar ends, with the year 9999.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.first_from(after.micros().div_euclid(1_000_000) + 1)
    }

    /// All times that it fires after this moment, in order.
    pub fn iter_after(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }

    /// The next `n` times that it fires after this moment.
    pub fn upcoming(&self, after: Timestamp, n: usize) -> Vec<Timestamp> {
        self.iter_after(after).take(n).collect()
    }

    /// The first `most` of the times that it fires from `from` on and before `to`.
    pub fn fire_times(&self, from: Timestamp, to: Timestamp, most: usize) -> Vec<Timestamp> {
        let first = self.first_at(from);
        let all = std::iter::successors(first, |last| self.next_after(*last));
        all.take_while(|time| *time < to).take(most).collect()
    }

    /// When it fires, in English, with the zone.
    pub fn describe(&self) -> String {
        format!("{} ({})", self.0.english, self.zone())
    }

    /// For people: on which days of the year after this moment clocks change so that it matters, and what happens.
    pub fn notes(&self, after: Timestamp) -> Vec<String> {
        notes::of(&self.0, after)
    }

    /// The first time that it fires at this moment or later.
    pub(crate) fn first_at(&self, from: Timestamp) -> Option<Timestamp> {
        self.first_from((from.micros() + 999_999).div_euclid(1_000_000))
    }

    /// The first time that it fires at this second since 1970 or later.
    fn first_from(&self, second: i64) -> Option<Timestamp> {
        let mut from = jiff::Timestamp::from_second(second).ok()?;
        let give_up = second.saturating_add(LONGEST_SEARCH);
        // Between two changes of the zone's clocks, moments and what clocks show go in step.
        while from.as_second() < give_up {
            let stretch = Stretch::around(&self.0.rules, from)?;
            let found = self.0.first_in(&stretch, from);
            match stretch.until {
                Some(until) if found.is_none_or(|found| found >= until) => from = until,
                _ => return found.map(Timestamp::from),
            }
        }
        None
    }
}

/// A moment to try whether an expression fires at all: 2025-01-01. Any will do, but it has to be the same for all,
/// for what was accepted once is read again later.
const SOME_TIME: i64 = 1_735_689_600;

/// How many seconds ahead there can be a fire time: nothing accepted pauses for 8 years, unless clocks change at
/// just that time and hide it.
const LONGEST_SEARCH: i64 = 30 * 366 * 86_400;

impl Parsed {
    /// The first time from `from` on that is due in this stretch; perhaps one past its end.
    fn first_in(&self, stretch: &Stretch, from: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let shown = stretch.offset.to_datetime(from);
        let change = stretch.change.filter(|_| self.fixed);
        let Some((old, since)) = change else {
            return moment(stretch.offset, self.civil.first_from(shown)?);
        };
        let (left, reached) = (old.to_datetime(since), stretch.offset.to_datetime(since));
        // Turned back: what clocks show until they are where they have been before has fired the first time.
        let usual = self.civil.first_from(shown.max(left)).and_then(|time| moment(stretch.offset, time));
        // Turned forward: what was skipped fires when it would have, had clocks not been changed.
        let unchanged = old.to_datetime(from);
        let skipped = match unchanged < reached {
            true => self.civil.first_from(unchanged).filter(|time| *time < reached),
            false => None,
        };
        let late = skipped.and_then(|time| moment(old, time));
        usual.into_iter().chain(late).min()
    }
}

/// A time in which a zone keeps its offset.
struct Stretch {
    /// The offset before it, and the moment at which it began; unless that is long past.
    change: Option<(Offset, jiff::Timestamp)>,
    offset: Offset,
    until: Option<jiff::Timestamp>,
}

impl Stretch {
    fn around(rules: &TimeZone, time: jiff::Timestamp) -> Option<Stretch> {
        let mut stretch = Stretch { change: None, offset: rules.to_offset(time), until: None };
        // Found by going forward: `preceding` is wrong behind the last change that a zone had by no rule, such as
        // that of Ciudad Juárez in November 2022 (jiff 0.2.39).
        for change in rules.following(time.checked_sub(LONGEST_SHIFT).ok()?) {
            let at = change.timestamp();
            if at > time {
                stretch.until = Some(at);
                break;
            }
            let old = rules.to_offset(at.checked_sub(SignedDuration::from_secs(1)).ok()?);
            stretch.change = Some((old, at)).filter(|_| old != change.offset()).or(stretch.change);
        }
        Some(stretch)
    }
}

/// No zone has moved its clocks by more than a day.
const LONGEST_SHIFT: SignedDuration = SignedDuration::from_hours(25);

/// The moment at which clocks with this offset show this time; `None` past the end of the calendar.
fn moment(offset: Offset, shown: jiff::civil::DateTime) -> Option<jiff::Timestamp> {
    offset.to_timestamp(shown).ok()
}

impl PartialEq for Cron {
    fn eq(&self, other: &Cron) -> bool {
        (self.text(), self.zone()) == (other.text(), other.zone())
    }
}

impl Eq for Cron {}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cron").field(&self.text()).field(&self.zone()).finish()
    }
}

impl From<Cron> for Stored {
    fn from(cron: Cron) -> Stored {
        Stored { text: cron.text().to_owned(), zone: cron.zone().to_owned() }
    }
}

impl TryFrom<Stored> for Cron {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Cron, Error> {
        Cron::parse(&stored.text, &stored.zone)
    }
}

#[cfg(test)]
mod tests;
