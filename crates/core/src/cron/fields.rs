//! The text of a cron expression: what is accepted, and what is said of the rest.
//!
//! `croner` reads more than can be answered for: names in the wrong field, empty lists, `7L` (which it never finds).
//! What is accepted here is handed on in its plainest form, numbers alone. Steps become lists unless they come out
//! even, so that the English of `*/7 * * * *` does not claim that it fires every seven minutes.

use croner::CronPattern;
use croner::errors::CronError;
use croner::parser::CronParser;

use super::Cron;
use crate::Error;

pub(super) struct Fields {
    /// What was read, with one space between fields.
    pub(super) text: String,
    /// Whether minute and hour are given as they are, without `*` and steps.
    pub(super) fixed: bool,
    /// Six fields of numbers.
    plain: String,
    last_working_day: bool,
}

impl Fields {
    pub(super) fn parse(text: &str) -> Result<Fields, Error> {
        let wrong = |field: &str, remedy: String| Error::invalid_cron(text, field, remedy);
        if text.len() > Cron::LONGEST {
            let remedy = format!("{} bytes, at most {} are allowed", text.len(), Cron::LONGEST);
            return Err(wrong("expression", remedy));
        }
        let text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        let long = match text.strip_prefix('@') {
            Some(name) => in_full(name).ok_or_else(|| {
                let names = NICKNAMES.map(|(name, _)| format!("@{name}")).join(", ");
                wrong("expression", format!("no such name, allowed are {names}"))
            })?,
            None => &text,
        };
        let mut given: Vec<&str> = long.split(' ').collect();
        match given.len() {
            5 => given.insert(0, "0"),
            6 => {}
            _ if text.is_empty() => return Err(wrong("expression", format!("empty, write {SHAPE}"))),
            n => return Err(wrong("expression", format!("{n} fields given, write {SHAPE}"))),
        }
        let read = |(field, given): (&Field, &&str)| {
            field
                .read(given)
                .map_err(|remedy| wrong(field.name, format!("{remedy}; values are {}", field.allowed)))
        };
        let sets = FIELDS.iter().zip(&given).map(read).collect::<Result<Vec<_>, _>>()?;

        let [_, minute, hour, date, _, weekday] = &sets[..] else { unreachable!("six were read") };
        let stepped = |days: &Set, others: &Set| days.step.is_some() && !days.all && !others.all;
        if stepped(date, weekday) || stepped(weekday, date) {
            let remedy = "programs disagree on what a step means beside another kind of day: \
                          write the days as a list (a date then needs to match only one of the kinds)";
            return Err(wrong("day-of-week", remedy.into()));
        }
        let fixed = !minute.goes_on && !hour.goes_on;
        let last_working_day = date.marked.iter().any(|mark| mark == "LW");
        let plain =
            FIELDS.iter().zip(&sets).map(|(field, set)| set.plain(field)).collect::<Vec<_>>().join(" ");
        Ok(Fields { text, fixed, plain, last_working_day })
    }

    pub(super) fn pattern(&self) -> Result<CronPattern, CronError> {
        CronParser::new().parse(&self.plain).map(|cron| cron.pattern)
    }

    /// When it fires, in English, without the full stop.
    pub(super) fn english(&self, pattern: &CronPattern) -> String {
        let text = pattern.describe();
        let text = text.trim_end_matches('.').replace("At every", "Every");
        match self.last_working_day {
            true => {
                text.replace("the last day of the month", "the last day from Monday to Friday of the month")
            }
            false => text,
        }
    }
}

const SHAPE: &str = "five (minute hour day-of-month month day-of-week) or six (second first)";

const NICKNAMES: [(&str, &str); 7] = [
    ("hourly", "0 * * * *"),
    ("daily", "0 0 * * *"),
    ("midnight", "0 0 * * *"),
    ("weekly", "0 0 * * 0"),
    ("monthly", "0 0 1 * *"),
    ("yearly", "0 0 1 1 *"),
    ("annually", "0 0 1 1 *"),
];

fn in_full(nickname: &str) -> Option<&'static str> {
    NICKNAMES.iter().find(|(name, _)| *name == nickname).map(|(_, long)| *long)
}

struct Field {
    name: &'static str,
    low: u8,
    high: u8,
    /// The names of its values, from the lowest.
    names: &'static [&'static str],
    allowed: &'static str,
}

const FIELDS: [Field; 6] = [
    Field { name: "second", low: 0, high: 59, names: &[], allowed: "0-59" },
    Field { name: "minute", low: 0, high: 59, names: &[], allowed: "0-59" },
    Field { name: "hour", low: 0, high: 23, names: &[], allowed: "0-23" },
    Field { name: "day-of-month", low: 1, high: 31, names: &[], allowed: "1-31, L, LW and 1W-31W" },
    Field {
        name: "month",
        low: 1,
        high: 12,
        names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
        allowed: "1-12 and JAN-DEC",
    },
    Field {
        name: "day-of-week",
        low: 0,
        high: 7,
        names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
        allowed: "0-7 (0 and 7 are Sunday) and SUN-SAT, with #1-#5 or L after one of them",
    },
];

/// What one field names.
#[derive(Default)]
struct Set {
    /// A bit for every value.
    values: u64,
    /// With `L`, `W` or `#`.
    marked: Vec<String>,
    /// Whether a `*` in it names all there are.
    all: bool,
    /// The last step from a `*`.
    step: Option<u8>,
    /// Whether there is a `*` or a step in it.
    goes_on: bool,
    items: usize,
}

impl Set {
    /// The field as numbers.
    fn plain(&self, field: &Field) -> String {
        let even = |step: &u8| (field.high - field.low + 1).is_multiple_of(*step) && self.items == 1;
        match self.step.filter(even) {
            _ if self.all => "*".to_owned(),
            Some(step) if !field.is_day() => format!("*/{step}"),
            _ => {
                let values =
                    (0..64).filter(|value| self.values >> value & 1 == 1).map(|value| value.to_string());
                values.chain(self.marked.iter().cloned()).collect::<Vec<_>>().join(",")
            }
        }
    }
}

impl Field {
    fn read(&self, given: &str) -> Result<Set, String> {
        let mut set = Set::default();
        let given = given.to_ascii_uppercase();
        for item in given.split(',') {
            self.read_item(item, &mut set)?;
            set.items += 1;
        }
        let marked = |mark: &str| set.marked.iter().any(|has| has == mark);
        match marked("L") && marked("LW") {
            true => Err("L and LW do not go together".into()),
            false => Ok(set),
        }
    }

    fn read_item(&self, item: &str, set: &mut Set) -> Result<(), String> {
        if let Some(marked) = self.read_marked(item)? {
            set.marked.push(marked);
            return Ok(());
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.read_step(item, step)?)),
            None => (item, None),
        };
        let (low, high) = match range.split_once('-') {
            _ if range == "*" => (self.low, self.high),
            Some((low, high)) => self.read_range(low, high)?,
            None if step.is_some() => {
                let more = format!("{range}-{}", self.high);
                return Err(format!("a step needs a range, as in */5 or {more}/5, and {item:?} has none"));
            }
            None => (self.read_value(range)?, self.read_value(range)?),
        };
        set.goes_on |= range == "*" || step.is_some();
        match step {
            None | Some(1) => set.all |= range == "*",
            step if range == "*" => set.step = step,
            _ => {}
        }
        for value in (low..=high).step_by(step.unwrap_or(1).into()) {
            // 7 is another name of Sunday.
            set.values |= if self.is_weekday() { 1 << (value % 7) } else { 1 << value };
        }
        Ok(())
    }

    fn read_range(&self, low: &str, high: &str) -> Result<(u8, u8), String> {
        let (from, to) = (self.read_value(low)?, self.read_value(high)?);
        match (from, to) {
            // Sunday is at either end of the week.
            (1.., 0) if self.is_weekday() && high == "SUN" => Ok((from, 7)),
            (from, to) if from <= to => Ok((from, to)),
            _ => {
                let (first, last) = (self.low, self.high);
                Err(format!("{low}-{high} goes backwards, write {from}-{last},{first}-{to}"))
            }
        }
    }

    fn read_step(&self, item: &str, step: &str) -> Result<u8, String> {
        number(step)
            .filter(|step| (1..=self.high).contains(step))
            .ok_or_else(|| format!("the step of {item:?} is not in 1-{}", self.high))
    }

    fn read_value(&self, text: &str) -> Result<u8, String> {
        let named = self.names.iter().position(|name| *name == text);
        let value = named.map(|at| at as u8 + self.low).or_else(|| number(text));
        match value {
            Some(value) if (self.low..=self.high).contains(&value) => Ok(value),
            Some(value) => Err(format!("{value} is out of range")),
            None if text.is_empty() => Err("a value is missing".into()),
            None if text == "?" => Err("\"?\" is not known, write *".into()),
            None => Err(format!("{text:?} is no value")),
        }
    }

    /// `L`, `LW` and `15W` among the days of the month, `5L` and `5#2` among those of the week.
    fn read_marked(&self, item: &str) -> Result<Option<String>, String> {
        if self.is_day() && !self.is_weekday() {
            if matches!(item, "L" | "LW") {
                return Ok(Some(item.to_owned()));
            }
            if let Some(day) = item.strip_suffix('W') {
                return Ok(Some(format!("{}W", self.read_value(day)?)));
            }
        }
        if self.is_weekday() {
            if let Some(day) = item.strip_suffix('L') {
                return Ok(Some(format!("{}L", self.read_value(day)? % 7)));
            }
            if let Some((day, nth)) = item.split_once('#') {
                let nth = number(nth).filter(|nth| (1..=5).contains(nth));
                let nth = nth.ok_or_else(|| format!("{item:?} needs 1-5 after the #"))?;
                return Ok(Some(format!("{}#{nth}", self.read_value(day)? % 7)));
            }
        }
        Ok(None)
    }

    fn is_day(&self) -> bool {
        self.is_weekday() || self.name == "day-of-month"
    }

    fn is_weekday(&self) -> bool {
        self.name == "day-of-week"
    }
}

/// One or two digits.
fn number(text: &str) -> Option<u8> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}
