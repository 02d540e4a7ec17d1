//! The plainest reading of an expression.
//!
//! It knows nothing of offsets or bits: it walks through the calendar day by day, asks each item of the expression
//! whether it means that day and time, and leaves the way to a moment to `jiff`.

use std::collections::BTreeSet;
use std::fmt;

use jiff::civil::{Date, DateTime, Weekday, time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// One item of a field's list.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    All,
    One(i8),
    Range(i8, i8),
    Step(i8),
    RangeStep(i8, i8, i8),
    LastDay,
    LastWorkingDay,
    Nearest(i8),
    Nth(i8, i8),
    Last(i8),
}

/// An expression before it is written down.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    pub(crate) second: Vec<Item>,
    pub(crate) minute: Vec<Item>,
    pub(crate) hour: Vec<Item>,
    pub(crate) day: Vec<Item>,
    pub(crate) month: Vec<Item>,
    pub(crate) weekday: Vec<Item>,
}

impl Expression {
    /// Reads what the tests above write.
    pub(crate) fn read(text: &str) -> Expression {
        let field = |field: &str| field.split(',').map(Item::read).collect::<Vec<_>>();
        let mut fields: Vec<Vec<Item>> = text.split(' ').map(field).collect();
        if fields.len() == 5 {
            fields.insert(0, vec![Item::One(0)]);
        }
        let [second, minute, hour, day, month, weekday] = fields.try_into().unwrap();
        Expression { second, minute, hour, day, month, weekday }
    }

    pub(crate) fn is_fixed(&self) -> bool {
        let plain = |item: &Item| matches!(item, Item::One(_) | Item::Range(..));
        self.minute.iter().chain(&self.hour).all(plain)
    }

    pub(crate) fn means(&self, shown: DateTime) -> bool {
        self.means_date(shown.date())
            && names(&self.hour, shown.hour(), 0)
            && names(&self.minute, shown.minute(), 0)
            && names(&self.second, shown.second(), 0)
    }

    fn means_date(&self, date: Date) -> bool {
        let all = |items: &[Item]| items.iter().any(|item| matches!(item, Item::All | Item::Step(1)));
        let by_day = self.day.iter().any(|item| item.means_day(date));
        let by_weekday = self.weekday.iter().any(|item| item.means_weekday(date));
        let day = match (all(&self.day), all(&self.weekday)) {
            (true, true) => true,
            (false, true) => by_day,
            (true, false) => by_weekday,
            (false, false) => by_day || by_weekday,
        };
        day && names(&self.month, date.month(), 1)
    }

    /// The times that it names on a date.
    pub(crate) fn on(&self, date: Date) -> Vec<DateTime> {
        if !self.means_date(date) {
            return Vec::new();
        }
        let named =
            |items: &[Item], end: i8| (0..end).filter(|value| names(items, *value, 0)).collect::<Vec<_>>();
        let (hours, minutes, seconds) =
            (named(&self.hour, 24), named(&self.minute, 60), named(&self.second, 60));
        let mut times = Vec::new();
        for hour in hours {
            for &minute in &minutes {
                times.extend(seconds.iter().map(|second| date.to_datetime(time(hour, minute, *second, 0))));
            }
        }
        times
    }

    /// The moments at which it fires after one and up to another.
    pub(crate) fn plainly(&self, rules: &TimeZone, after: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        // A skipped time fires up to a day after its own.
        let first = rules.to_datetime(after).date().checked_sub(1.day()).unwrap();
        let last = rules.to_datetime(to).date().checked_add(1.day()).unwrap();
        let dates = first.series(1.day()).take_while(|date| *date <= last);
        let mut moments = BTreeSet::new();
        for time in dates.flat_map(|date| self.on(date)) {
            let ambiguous = rules.to_ambiguous_timestamp(time);
            match ambiguous.offset() {
                _ if self.is_fixed() => moments.extend(ambiguous.compatible()),
                AmbiguousOffset::Gap { .. } => {}
                AmbiguousOffset::Unambiguous { .. } => moments.extend(ambiguous.unambiguous()),
                AmbiguousOffset::Fold { .. } => {
                    moments.extend([ambiguous.earlier(), ambiguous.later()].into_iter().flatten())
                }
            }
        }
        moments.into_iter().filter(|time| *time > after && *time <= to).collect()
    }

    /// Whether a time that clocks skipped is made up for at this moment.
    pub(crate) fn skipped(&self, rules: &TimeZone, at: Timestamp) -> bool {
        let meant = rules.to_offset(at - 25.hours()).to_datetime(at);
        let ambiguous = rules.to_ambiguous_timestamp(meant);
        matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. }) && self.means(meant)
    }
}

fn names(items: &[Item], value: i8, low: i8) -> bool {
    items.iter().any(|item| item.names(value, low))
}

impl Item {
    fn read(text: &str) -> Item {
        let number = |text: &str| text.parse().unwrap();
        let bounds = |range: &str| range.split_once('-').map(|(low, high)| (number(low), number(high)));
        match text.split_once('/') {
            _ if text == "*" => Item::All,
            Some(("*", step)) => Item::Step(number(step)),
            Some((range, step)) => {
                let (low, high) = bounds(range).unwrap();
                Item::RangeStep(low, high, number(step))
            }
            None => {
                bounds(text).map_or_else(|| Item::One(number(text)), |(low, high)| Item::Range(low, high))
            }
        }
    }

    fn names(&self, value: i8, lowest: i8) -> bool {
        match *self {
            Item::All => true,
            Item::One(one) => value == one,
            Item::Range(low, high) => (low..=high).contains(&value),
            Item::Step(step) => (value - lowest) % step == 0,
            Item::RangeStep(low, high, step) => (low..=high).contains(&value) && (value - low) % step == 0,
            _ => false,
        }
    }

    fn means_day(&self, date: Date) -> bool {
        let working = |date: &Date| !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
        let month = || date.first_of_month().series(1.day()).take(date.days_in_month() as usize);
        match *self {
            Item::LastDay => date == date.last_of_month(),
            Item::LastWorkingDay => month().filter(working).last() == Some(date),
            Item::Nearest(day) if day > date.days_in_month() => false,
            Item::Nearest(day) => {
                month().filter(working).min_by_key(|near| (near.day() - day).abs()) == Some(date)
            }
            _ => self.names(date.day(), 1),
        }
    }

    fn means_weekday(&self, date: Date) -> bool {
        let weekday = |day: i8| Weekday::from_sunday_zero_offset(day % 7).unwrap();
        match *self {
            Item::Nth(day, nth) => date.nth_weekday_of_month(nth, weekday(day)).ok() == Some(date),
            Item::Last(day) => date.nth_weekday_of_month(-1, weekday(day)).unwrap() == date,
            _ => {
                let sunday_first = date.weekday().to_sunday_zero_offset();
                self.names(sunday_first, 0) || sunday_first == 0 && self.names(7, 0)
            }
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS: [&str; 8] = ["SUN", "Mon", "tue", "3", "4", "FRI", "SAT", "7"];
        let day = |day: i8| DAYS[day as usize];
        match *self {
            Item::All => write!(f, "*"),
            Item::One(one) => write!(f, "{one}"),
            Item::Range(low, high) => write!(f, "{low}-{high}"),
            Item::Step(step) => write!(f, "*/{step}"),
            Item::RangeStep(low, high, step) => write!(f, "{low}-{high}/{step}"),
            Item::LastDay => write!(f, "L"),
            Item::LastWorkingDay => write!(f, "LW"),
            Item::Nearest(day) => write!(f, "{day}W"),
            Item::Nth(weekday, nth) => write!(f, "{}#{nth}", day(weekday)),
            Item::Last(weekday) => write!(f, "{}L", day(weekday)),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[Item]| items.iter().map(Item::to_string).collect::<Vec<_>>().join(",");
        let fields = [&self.second, &self.minute, &self.hour, &self.day, &self.month, &self.weekday];
        write!(f, "{}", fields.map(|items| list(items)).join(" "))
    }
}
