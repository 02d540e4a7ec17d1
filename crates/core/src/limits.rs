//! What is accepted from outside: names, keys, sizes. One place, so that every door says the same.

use std::time::Duration;

use crate::Error;

/// The limits that an application can raise or lower, with safe values to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of one payload (input, output, step result, event): 1 MiB.
    pub payload: usize,
    /// The most entries in one run's journal: 100,000. `continue_as_new` starts over.
    pub entries: u32,
}

impl Limits {
    /// No payload may ever be larger than this: 4 MiB.
    pub const HARD_PAYLOAD: usize = 4 << 20;
    /// The most levels of nesting in a payload: deeper JSON cannot be read again.
    pub const DEPTH: usize = 127;
    /// The longest message of an error, in bytes: 16 KiB. What is longer is cut.
    pub const MESSAGE: usize = 16 << 10;
    /// The most causes that an [`AnyError`](crate::AnyError) keeps.
    pub const CAUSES: usize = 16;
    /// The longest name of a definition, queue, step, event or promise, in bytes.
    pub const NAME: usize = 200;
    /// The longest duration: a hundred years.
    pub const DURATION: Duration = Duration::from_secs(100 * 366 * 86_400);
    /// The most tags that a run is started with, and the most that its code sets in one life.
    pub const TAGS: usize = 64;
    /// The most roles with which a run acts.
    pub const ROLES: usize = 64;
    /// The most unread messages of one run.
    pub const INBOX: u32 = 10_000;

    /// The most bytes of one payload, whatever an application asked for.
    pub(crate) fn largest_payload(&self) -> usize {
        self.payload.min(Limits::HARD_PAYLOAD)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { payload: 1 << 20, entries: 100_000 }
    }
}

/// Accepts so many things where there is a limit to their number.
pub fn check_count(what: &str, count: usize, limit: usize) -> Result<(), Error> {
    match count <= limit {
        true => Ok(()),
        false => Err(Error::TooLarge {
            what: format!("the number of {what}"),
            size: count as u64,
            limit: limit as u64,
        }),
    }
}

/// Accepts a name of a definition, queue, event, promise, tag…: 1 to 200 bytes, no control characters.
pub fn check_name<'a>(what: &str, name: &'a str) -> Result<&'a str, Error> {
    if name.is_empty() || name.len() > Limits::NAME || name.chars().any(char::is_control) {
        let remedy = format!("1 to {} bytes without control characters", Limits::NAME);
        return Err(Error::invalid(what, name.escape_debug(), remedy));
    }
    Ok(name)
}

/// Accepts a name that stands in addresses, of a definition, queue or schedule: like any name, but not `.` or `..`, which
/// whoever reads an address takes for a place in it.
pub fn check_named<'a>(what: &str, name: &'a str) -> Result<&'a str, Error> {
    match name {
        "." | ".." => {
            Err(Error::invalid(what, name, "more than dots: those mean another place in an address"))
        }
        _ => check_name(what, name),
    }
}

/// Accepts a name that a run gives to what it does: like any name, but `#` marks the occurrence.
pub fn check_operation_name<'a>(what: &str, name: &'a str) -> Result<&'a str, Error> {
    check_name(what, name)?;
    match name.contains('#') {
        true => Err(Error::invalid(what, name, "no '#': it marks the second call of one name")),
        false => Ok(name),
    }
}

/// Accepts a reason: a line that can be shown, whether or not somebody gave one.
pub fn check_reason(reason: &str) -> Result<&str, Error> {
    check_name("reason", if reason.is_empty() { "no reason given" } else { reason })
}

/// Accepts a W3C trace context: a `traceparent`, and perhaps a `tracestate` behind a `;`.
pub fn check_trace(trace: &str) -> Result<&str, Error> {
    const LONGEST: usize = 600;
    if trace.is_empty() || trace.len() > LONGEST || trace.chars().any(char::is_control) {
        let remedy = format!("1 to {LONGEST} bytes without control characters");
        return Err(Error::invalid("trace context", trace.escape_debug(), remedy));
    }
    Ok(trace)
}

/// Accepts an idempotency key: 1 to 200 of letters, digits and `.`, `_`, `:`, `-`.
pub fn check_key(key: &str) -> Result<&str, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    if key.is_empty() || key.len() > Limits::NAME || !key.bytes().all(plain) {
        let remedy = format!("1 to {} letters, digits, '.', '_', ':' or '-'", Limits::NAME);
        return Err(Error::invalid("key", key.escape_debug(), remedy));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_text_column_cannot_hold_are_refused() {
        for name in ["", "a\0b", "a\nb", &"x".repeat(201)] {
            assert!(check_name("queue", name).is_err(), "{name:?}");
        }
        assert_eq!(check_name("queue", "Grüße 📦").unwrap(), "Grüße 📦");
        assert!(check_operation_name("step name", "charge#2").is_err());
        assert!(check_named("queue", ".").is_err() && check_named("queue", "..").is_err());
        assert!(check_named("queue", "...").is_ok() && check_named("queue", ".mail").is_ok());
    }

    #[test]
    fn keys_are_plain_text_that_needs_no_quoting_anywhere() {
        for key in ["", "a/b", "a b", "ü", "a%2F", &"x".repeat(201), "a\0"] {
            assert!(check_key(key).is_err(), "{key:?}");
        }
        assert!(check_key("order-42:eu.1_a").is_ok());
    }
}
