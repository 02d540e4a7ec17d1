//! What stands behind the question mark: names that a route knows, each read once.

use std::time::Duration;

use super::body::nearest;
use super::code::Code;
use super::problem::Problem;
use crate::words::{parse_duration, parse_number};

/// A parameter that a route knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
}

/// What its value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// Can be there several times.
    Texts,
    Number,
}

/// A parameter with text.
pub(crate) const fn text(name: &'static str, about: &'static str) -> Param {
    Param { name, about, kind: Kind::Text }
}

/// A parameter that can be there several times.
pub(crate) const fn texts(name: &'static str, about: &'static str) -> Param {
    Param { name, about, kind: Kind::Texts }
}

/// A parameter with a whole number.
pub(crate) const fn number(name: &'static str, about: &'static str) -> Param {
    Param { name, about, kind: Kind::Number }
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads them; what a route does not know is refused.
    pub(crate) fn read(raw: Option<&str>, known: &[Param]) -> Result<Query, Problem> {
        let raw = raw.unwrap_or_default();
        check_utf8(raw)?;
        let pairs: Vec<(String, String)> = form_urlencoded::parse(raw.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        for (name, value) in &pairs {
            let is_known = |param: &&Param| {
                // `tag.` stands for all names that begin with it.
                param.name == name || (param.name.ends_with('.') && name.starts_with(param.name))
            };
            let Some(param) = known.iter().find(is_known) else {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                let detail = format!("there is no parameter {name:?}{}", nearest(name, &names));
                return Err(Problem::new(Code::UNKNOWN_FIELD, detail));
            };
            if value.contains('\0') {
                let detail = format!("{name} has a NUL in it");
                return Err(Problem::new(Code::INVALID_CHARACTER, detail));
            }
            let times = pairs.iter().filter(|(other, _)| other == name).count();
            if times > 1 && param.kind != Kind::Texts {
                return Err(Problem::new(Code::DUPLICATE_KEY, format!("{name} is there {times} times")));
            }
        }
        Ok(Query(pairs))
    }

    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Those whose names begin like this: the rest of the name, and the value.
    pub(crate) fn begun<'q>(&'q self, prefix: &'q str) -> impl Iterator<Item = (&'q str, &'q str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// A whole number within a range.
    pub(crate) fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, Problem> {
        let Some(text) = self.one(name) else { return Ok(default) };
        parse_number(text, range)
            .map_err(|remedy| Problem::new(Code::INVALID_ARGUMENT, format!("{name} is {remedy}")))
    }

    /// How long: 30s.
    pub(crate) fn duration(&self, name: &str, most: Duration) -> Result<Duration, Problem> {
        let Some(text) = self.one(name) else { return Ok(Duration::ZERO) };
        match parse_duration(text) {
            Ok(duration) if duration <= most => Ok(duration),
            _ => {
                let most = outlast_core::duration_text(most);
                let shown = outlast_core::shorten(text, 80);
                let detail = format!("{name} looks like 30s and is at most {most}, not {shown:?}");
                Err(Problem::new(Code::INVALID_DURATION, detail))
            }
        }
    }
}

/// Refuses percent signs that are no UTF-8.
fn check_utf8(raw: &str) -> Result<(), Problem> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'%' => {
                let pair = rest.clone().take(2).collect::<Vec<u8>>();
                if let (Some(high), Some(low)) = (hex(pair.first().copied()), hex(pair.get(1).copied())) {
                    bytes.push((high * 16 + low) as u8);
                    rest.nth(1);
                } else {
                    bytes.push(b'%');
                }
            }
            other => bytes.push(other),
        }
    }
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(()),
        Err(wrong) => {
            let detail = format!("the query is not UTF-8: byte {} is wrong", wrong.valid_up_to());
            Err(Problem::new(Code::INVALID_UTF8, detail))
        }
    }
}
