//! The times that an expression names on a calendar and a clock, without a zone.

use croner::errors::CronError;
use croner::{CronComponent, CronPattern, Weekday};
use jiff::civil::{Date, DateTime, Time};

/// The parsed fields as bits, so that the next match is found without walking through seconds or days.
#[derive(Debug)]
pub(super) struct Civil {
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    /// The days of a month that has 28, 29, 30 or 31 of them and begins on a Sunday, Monday…
    days: [[u64; 7]; 4],
}

/// The [pause](Civil::longest_pause) of what names no day.
pub(super) const NEVER: usize = 800;

impl Civil {
    pub(super) fn new(pattern: &CronPattern) -> Result<Civil, CronError> {
        // Which days of a month match depends on nothing but its length and the weekday on which it begins.
        let months = [(2023, 2), (2024, 2), (2023, 4), (2023, 1)];
        let mut days = [[0; 7]; 4];
        for ((length, (year, month)), days) in (28..).zip(months).zip(&mut days) {
            for (begin, days) in (0..).zip(days) {
                for day in 1..=length {
                    let weekday = Weekday::from_days_from_sunday(begin + day - 1);
                    *days |= u64::from(pattern.day_match(year, month, day, weekday)?) << day;
                }
            }
        }
        let bits =
            |field: &CronComponent| field.values().into_iter().fold(0, |bits, value| bits | 1 << value);
        Ok(Civil {
            seconds: bits(&pattern.seconds),
            minutes: bits(&pattern.minutes),
            hours: bits(&pattern.hours),
            months: bits(&pattern.months),
            days,
        })
    }

    /// The first match that is not before `from`; `None` where the calendar ends.
    pub(super) fn first_from(&self, from: DateTime) -> Option<DateTime> {
        let date = self.date_from(from.date())?;
        if date == from.date()
            && let Some(time) = self.time_from(from.time())
        {
            return Some(date.to_datetime(time));
        }
        let date = if date == from.date() { self.date_from(date.tomorrow().ok()?)? } else { date };
        Some(date.to_datetime(self.time_from(Time::midnight())?))
    }

    /// The most years in a row in which it names no day; [`NEVER`] when it names none at all.
    pub(super) fn longest_pause(&self) -> usize {
        let (mut pause, mut longest) = (0, 0);
        // The calendar repeats itself after 400 years.
        for year in (2000..2400).chain(2000..2400) {
            let named = self.date_within(Date::constant(year, 1, 1), year).is_some();
            pause = if named { 0 } else { pause + 1 };
            longest = longest.max(pause);
        }
        longest
    }

    fn date_from(&self, from: Date) -> Option<Date> {
        self.date_within(from, from.year().saturating_add(10).min(Date::MAX.year()))
    }

    fn date_within(&self, from: Date, last_year: i16) -> Option<Date> {
        let (mut year, mut month, mut day) = (from.year(), from.month(), from.day());
        while year <= last_year {
            if has(self.months, month) {
                let begin = Date::new(year, month, 1).ok()?;
                let lengths = &self.days[usize::from(begin.days_in_month().unsigned_abs()) - 28];
                let days = lengths[begin.weekday().to_sunday_zero_offset() as usize];
                if let Some(day) = next(days, day) {
                    return Date::new(year, month, day).ok();
                }
            }
            (year, month, day) = if month == 12 { (year + 1, 1, 1) } else { (year, month + 1, 1) };
        }
        None
    }

    fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute) = (from.hour(), from.minute());
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = next(self.seconds, from.second())
            {
                return Time::new(hour, minute, second, 0).ok();
            }
            if let Some(minute) = next(self.minutes, minute + 1) {
                return Time::new(hour, minute, next(self.seconds, 0)?, 0).ok();
            }
        }
        Time::new(next(self.hours, hour + 1)?, next(self.minutes, 0)?, next(self.seconds, 0)?, 0).ok()
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits >> value & 1 == 1
}

/// The lowest value in the set that is not below `from`.
fn next(bits: u64, from: i8) -> Option<i8> {
    match bits >> from {
        0 => None,
        rest => Some(from + rest.trailing_zeros() as i8),
    }
}
