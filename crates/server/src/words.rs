//! Times, durations and values as people say them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use outlast::Timestamp;
use outlast_core::{Payload, check_name};

use crate::output::{TimeStyle, manner};

/// What was given for a duration and is none: of a kind of its own, which has its word.
#[derive(Debug)]
pub(crate) struct NoDuration(String);

impl fmt::Display for NoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoDuration {}

/// Reads a duration.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, NoDuration> {
    outlast_core::parse_duration(text).map_err(NoDuration)
}

/// Reads a duration in which something can happen: how long to wait, how much later to begin.
pub(crate) fn parse_span(text: &str) -> Result<Duration, NoDuration> {
    match parse_duration(text)? {
        Duration::ZERO => Err(NoDuration(format!("it is at least 1ms, not {text:?}"))),
        span => Ok(span),
    }
}

/// Reads a whole number within a range.
pub(crate) fn parse_number<N>(text: &str, range: RangeInclusive<N>) -> Result<N, String>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    let number = text.parse().ok().filter(|number| range.contains(number));
    let (from, to) = (range.start(), range.end());
    number.ok_or_else(|| format!("a whole number from {from} to {to}, not {text:?}"))
}

/// The words of a filter. What stands in quotes behind a colon is one value, spaces and all; in it a backslash makes a quote or another
/// backslash what it is: `queue:"night shift" status:failed`.
pub(crate) fn filter_words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let colon = rest[..end].find(':').filter(|colon| rest[colon + 1..].starts_with('"'));
        let (word, behind) = match colon {
            None => (rest[..end].to_owned(), &rest[end..]),
            Some(colon) => {
                let (field, quoted) = rest.split_at(colon + 1);
                let (value, behind) =
                    unquoted(quoted).ok_or_else(|| format!("{quoted} has no quote at its end"))?;
                (format!("{field}{value}"), behind)
            }
        };
        words.push(word);
        rest = behind.trim_start();
    }
    Ok(words)
}

/// What stands between the quote with which this begins and the one that ends it, and what comes behind.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// A word of a filter that [`filter_words`] reads back, whatever its value is.
pub(crate) fn filter_word(field: &str, value: &str) -> String {
    if !value.contains(|letter: char| letter.is_whitespace() || letter == '"' || letter == '\\') {
        return format!("{field}:{value}");
    }
    format!("{field}:\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// How long something took: `310 ms`, `2.4 s`, `3 m 10 s`, `2 h 5 m`, `3 d 4 h`.
pub(crate) fn took(duration: Duration) -> String {
    let (millis, seconds) = (duration.as_millis(), duration.as_secs());
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match seconds {
        0 if millis < 995 => format!("{millis} ms"),
        0..=9 => format!("{:.1}", duration.as_secs_f64()).trim_end_matches(".0").to_owned() + " s",
        10..=59 => format!("{seconds} s"),
        60..=3_599 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..=86_399 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// A time on the clock on the wall; with its date when it is not within a day of `now`. Or as `--time` says.
pub(crate) fn clock(time: Timestamp, now: Timestamp) -> String {
    if let Some(said) = spelled(time) {
        return said;
    }
    let near = time.since(now).max(now.since(time)) < Duration::from_secs(20 * 3_600);
    local(time, if near { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" })
}

/// A time in full, where `--time` asks for that.
fn spelled(time: Timestamp) -> Option<String> {
    match manner().time {
        TimeStyle::Relative => None,
        TimeStyle::Local => Some(local(time, "%Y-%m-%d %H:%M:%S")),
        TimeStyle::Utc => Some(in_zone_as(time, "UTC", "%Y-%m-%d %H:%M:%S")),
        TimeStyle::Rfc3339 => Some(time.exact()),
    }
}

/// How long ago something was.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    if let Some(said) = spelled(time) {
        return said;
    }
    match now.since(time) {
        past if past < Duration::from_secs(1) => "just now".to_owned(),
        past => format!("{} ago", took(Duration::from_secs(past.as_secs()))),
    }
}

/// How long until something is.
pub(crate) fn ahead(time: Timestamp, now: Timestamp) -> String {
    if let Some(said) = spelled(time) {
        return said;
    }
    match time.since(now) {
        Duration::ZERO => "now".to_owned(),
        // Rounded up: what is to come is not yet here.
        left => format!("in {}", took(Duration::from_secs((left + Duration::from_millis(999)).as_secs()))),
    }
}

/// One, or so many: `1 run`, `3 runs`.
pub(crate) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// At most `most` characters of one line of text.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let line = anstream::adapter::strip_str(text).to_string();
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(most) {
        None => line,
        Some(_) => line.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A payload as JSON text, or what can be said of it.
pub(crate) fn json_of(payload: &Payload) -> String {
    match (payload.json(), &payload.codec) {
        (Some(""), _) => "null".to_owned(),
        (Some(json), _) => json.to_owned(),
        (None, Some(codec)) => format!("({} bytes of {codec})", payload.bytes.len()),
        (None, None) => format!("({} bytes)", payload.bytes.len()),
    }
}

/// A time as clocks show it in a zone that the program knows, whatever zones the machine has.
pub(crate) fn in_zone(time: Timestamp, zone: &str) -> String {
    in_zone_as(time, zone, "%a %Y-%m-%d %H:%M:%S %Z")
}

fn in_zone_as(time: Timestamp, zone: &str, format: &str) -> String {
    let zone = TimeZoneDatabase::bundled().get(zone);
    match (jiff::Timestamp::from_microsecond(time.micros()), zone) {
        (Ok(time), Ok(zone)) => time.to_zoned(zone).strftime(format).to_string(),
        _ => time.to_string(),
    }
}

fn local(time: Timestamp, format: &str) -> String {
    match jiff::Timestamp::from_microsecond(time.micros()) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime(format).to_string(),
        Err(_) => time.to_string(),
    }
}

/// Who sits there, as the system calls them, for people who look at it later.
pub(crate) fn user() -> Option<String> {
    let named = |name: &str| std::env::var(name).ok().filter(|user| check_name("by", user).is_ok());
    named("USER").or_else(|| named("LOGNAME"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_quotes_may_have_anything_in_it() {
        let read = |text: &str| filter_words(text).unwrap();
        assert_eq!(read("  status:failed   def:mail "), ["status:failed", "def:mail"]);
        assert_eq!(read(r#"queue:"night shift" status:ready"#), ["queue:night shift", "status:ready"]);
        assert_eq!(read(r#"key:"a \"b\" \\ c" x"#), [r#"key:a "b" \ c"#, "x"]);
        // Where no value begins it is a letter like others.
        assert_eq!(read(r#"key:5"x key:a:"b"#), [r#"key:5"x"#, r#"key:a:"b"#]);
        assert!(read("").is_empty());
        assert!(filter_words(r#"queue:"night"#).unwrap_err().contains("no quote at its end"));
        assert!(filter_words(r#"queue:"night\"#).is_err());
        for value in ["plain", "two words", r#"a "b" \c"#, "tab\there", r#"""#] {
            assert_eq!(read(&filter_word("key", value)), [format!("key:{value}")], "{value}");
        }
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let shown = |millis| took(Duration::from_millis(millis));
        assert_eq!(shown(0), "0 ms");
        assert_eq!(shown(999), "1 s");
        assert_eq!(shown(2_440), "2.4 s");
        assert_eq!(shown(59_900), "59 s");
        assert_eq!(shown(190_000), "3 m 10 s");
        assert_eq!(shown(7_200_000), "2 h");
        assert_eq!(shown(90_061_000), "1 d 1 h");
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
        assert_eq!(shorten("two\nlines", 20), "two lines");
        assert_eq!(shorten("\u{1b}[2Jgone\u{1b}]0;title\u{7}!", 20), "gone!");
    }
}
