//! What a request may bring: how much of it is read, and how JSON becomes what a handler wants.
//!
//! Payloads inside stay the text that was sent ([`RawValue`]): no number is rounded and no key is moved. So their depth
//! is counted here, because serde_json counts it only for what it takes apart.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use outlast::{Limits, Timestamp};
use outlast_core::distance;
use serde::de::{self, DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};

use super::code::Code;
use super::problem::Problem;

/// How much of a body that is too large is taken all the same: whoever is still sending does not hear the answer.
const SWALLOWED: usize = 16 << 20;

/// How large a body is, as it says of itself.
pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a body of at most `limit` bytes: what is larger is refused, by what it says of itself or by what it is, and
/// nothing of it is kept. `remedy` says what to do with one.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    remedy: &str,
) -> Result<Bytes, Problem> {
    let too_large = |size: &str| {
        let end = if remedy.is_empty() { String::new() } else { format!(": {remedy}") };
        let detail = format!("the body is too large: {size}, the limit is {limit} bytes{end}");
        Problem::new(Code::PAYLOAD_TOO_LARGE, detail)
    };
    if let Some(said) = announced(headers).filter(|said| *said > limit as u64) {
        // Whoever asks before they send has sent nothing, and whoever reads would ask for it.
        if !headers.contains_key(header::EXPECT) {
            swallow(body).await;
        }
        return Err(too_large(&format!("{said} bytes")));
    }
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let detail = format!("the body is encoded ({encoding:?}): send it as it is");
        return Err(Problem::new(Code::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let mut body = body;
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(Code::INVALID_JSON, "the body ended before its end"))?;
        if let Ok(data) = frame.into_data() {
            if read.len() + data.len() > limit {
                drop(read);
                swallow(body).await;
                return Err(too_large(&format!("more than {limit} bytes")));
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(read.freeze())
}

/// Takes what is still to come, within bounds.
async fn swallow(mut body: Body) {
    let mut room = SWALLOWED;
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        match room.checked_sub(size) {
            Some(left) => room = left,
            None => return,
        }
    }
}

/// Refuses a body that does not say that it is JSON.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get(header::CONTENT_TYPE).and_then(|said| said.to_str().ok()).unwrap_or_default();
    let kind = said.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let found = if said.is_empty() { "nothing".to_owned() } else { format!("{said:?}") };
            let detail = format!("say Content-Type: application/json, and send JSON; it says {found}");
            Err(Problem::new(Code::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

/// Reads JSON, or says where it is wrong.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let text = text(body)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|wrong| {
        let pointer = pointer(wrong.path());
        refused(wrong.inner(), pointer)
    })?;
    json.end().map_err(|wrong| refused(&wrong, String::new()))?;
    Ok(value)
}

/// A body as text, which is JSON of a depth that can be read, if it is any.
pub(crate) fn text(body: &[u8]) -> Result<&str, Problem> {
    let text = std::str::from_utf8(body).map_err(|wrong| {
        let at = wrong.valid_up_to();
        Problem::new(Code::INVALID_UTF8, format!("the body is not UTF-8: byte {at} is wrong"))
    })?;
    check_depth(text)?;
    Ok(text)
}

/// What is an object and nothing else: of itself serde takes a list of the fields' values too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        struct Read<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map)).map(Object)
            }
        }
        from.deserialize_map(Read(std::marker::PhantomData))
    }
}

/// Refuses JSON that is nested so deeply that it could not be read again.
fn check_depth(text: &str) -> Result<(), Problem> {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    match deepest > Limits::DEPTH {
        true => {
            let detail =
                format!("the JSON is nested {deepest} deep: at most {} levels are read", Limits::DEPTH);
            Err(Problem::new(Code::JSON_TOO_DEEP, detail))
        }
        false => Ok(()),
    }
}

/// What serde says, in our words.
fn refused(wrong: &serde_json::Error, pointer: String) -> Problem {
    let said = wrong.to_string();
    let place = format!(", at line {} column {}", wrong.line(), wrong.column());
    let said = said.split(" at line ").next().unwrap_or_default().to_owned();
    if !wrong.is_data() {
        return Problem::new(Code::INVALID_JSON, format!("the body is not JSON: {said}{place}"));
    }
    // What our own readers say has its code before it.
    if let Some((code, said)) = said.split_once(MARK)
        && let Some(code) = Code::of(code)
    {
        return Problem::new(code, format!("{said}{place}")).at(pointer);
    }
    if let Some(rest) = said.strip_prefix("unknown field `") {
        let name = rest.split('`').next().unwrap_or_default();
        let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
        let detail = format!("there is no field {name:?}{}{place}", nearest(name, &known));
        return Problem::new(Code::UNKNOWN_FIELD, detail).at(pointer);
    }
    if let Some(rest) = said.strip_prefix("duplicate field `") {
        let name = rest.split('`').next().unwrap_or_default();
        return Problem::new(Code::DUPLICATE_KEY, format!("{name:?} is there twice{place}")).at(pointer);
    }
    Problem::new(Code::INVALID_ARGUMENT, format!("{said}{place}")).at(pointer)
}

/// The name that was probably meant, or all that there are.
pub(crate) fn nearest(name: &str, known: &[&str]) -> String {
    let mut close: Vec<&&str> =
        known.iter().filter(|known| distance(known, name) <= name.len().max(known.len()) / 2).collect();
    close.sort_by_key(|known| distance(known, name));
    match (close.first(), known) {
        (Some(close), _) => format!("; did you mean {close}?"),
        (None, []) => "; there are none".to_owned(),
        (None, known) => format!(": there are {}", known.join(", ")),
    }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let part = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    };
    path.iter().map(part).collect()
}

/// Stands between a code and what is said.
const MARK: char = '\u{1f}';

/// An error with a code of its own.
pub(crate) fn coded<E: de::Error>(code: Code, detail: impl std::fmt::Display) -> E {
    E::custom(format!("{}{MARK}{detail}", code.word))
}

/// A whole number, or words about which ones can be meant: serde's own only say which fit into its type.
pub(crate) fn whole<T: TryFrom<u64>, E: de::Error>(
    what: &str,
    range: &str,
    found: &serde_json::Number,
) -> Result<T, E> {
    let number = found.as_u64().and_then(|number| T::try_from(number).ok());
    let wrong = || format!("{what} is a whole number from {range}, not {found}");
    number.ok_or_else(|| coded(Code::INVALID_ARGUMENT, wrong()))
}

/// Whole milliseconds: from 1 to a hundred years.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) Duration);

/// The most that a duration can be.
const MOST_MS: u64 = Limits::DURATION.as_secs() * 1000;

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Millis, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Millis;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("whole milliseconds")
            }

            fn visit_u64<E: de::Error>(self, millis: u64) -> Result<Millis, E> {
                match millis {
                    1..=MOST_MS => Ok(Millis(Duration::from_millis(millis))),
                    _ => Err(refused_duration(&millis)),
                }
            }

            fn visit_i64<E: de::Error>(self, millis: i64) -> Result<Millis, E> {
                Err(refused_duration(&millis))
            }

            fn visit_f64<E: de::Error>(self, millis: f64) -> Result<Millis, E> {
                Err(refused_duration(&millis))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
                Err(refused_duration(&format_args!("{text:?}")))
            }
        }
        from.deserialize_any(Read)
    }
}

fn refused_duration<E: de::Error>(found: &dyn std::fmt::Display) -> E {
    coded(
        Code::INVALID_DURATION,
        format_args!("a duration is whole milliseconds from 1 to {MOST_MS}, not {found}"),
    )
}

/// A time of the years 1970 to 9999, with its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        parse_time(&text).map(Time).map_err(|detail| coded(Code::INVALID_TIMESTAMP, detail))
    }
}

/// Reads a time.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let wrong = || {
        let shown = outlast_core::shorten(text, 80);
        format!(
            "a time looks like 2027-03-14T01:30:00Z, with its zone, from 1970 to 9999-12-30T22:00:00Z, not {shown:?}"
        )
    };
    text.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Ask {
        #[allow(dead_code)]
        definition: String,
        input: Box<RawValue>,
        #[serde(default)]
        #[allow(dead_code)]
        delay_ms: Option<Millis>,
    }

    fn code(body: &[u8]) -> (&'static str, String) {
        let problem = parse::<Ask>(body).unwrap_err();
        (problem.code.word, problem.detail)
    }

    #[test]
    fn a_payload_stays_the_text_that_was_sent() {
        let ask: Ask = parse(br#"{"definition":"x","input":{"b":1, "a":12345678901234567890123}}"#).unwrap();
        assert_eq!(ask.input.get(), r#"{"b":1, "a":12345678901234567890123}"#);
    }

    #[test]
    fn what_is_no_json_is_told_where() {
        for body in [
            &b"{"[..],
            b"",
            b"{\"definition\":\"x\",\"input\":1}}",
            b"\xef\xbb\xbf{}",
            b"nope",
            b"{\"definition\":NaN}",
        ] {
            let (code, detail) = code(body);
            assert_eq!(code, "invalid_json", "{detail}");
            assert!(detail.contains("line 1 column"), "{detail}");
        }
        assert_eq!(code(b"{\"a\":\"\xff\"}").0, "invalid_utf8");
    }

    #[test]
    fn fields_that_are_not_there_or_there_twice_are_named() {
        let (code_word, detail) = code(br#"{"definitoin":"x","input":1}"#);
        assert_eq!(code_word, "unknown_field");
        assert!(detail.contains("did you mean definition?"), "{detail}");
        assert_eq!(code(br#"{"definition":"x","definition":"y","input":1}"#).0, "duplicate_key");
        let (code_word, detail) = code(br#"{"input":1}"#);
        assert_eq!((code_word, detail.contains("missing field `definition`")), ("invalid_argument", true));
    }

    #[test]
    fn a_list_of_values_is_no_object() {
        for body in [&br#"["x", 1, null]"#[..], b"[]", b"null", b"7", br#""x""#] {
            let (code, detail) = code(body);
            assert_eq!((code, detail.contains("expected an object")), ("invalid_argument", true), "{detail}");
        }
    }

    #[test]
    fn what_is_deeper_than_can_be_read_again_is_refused_also_in_payloads() {
        let deep = |levels: usize| {
            format!(r#"{{"definition":"x","input":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
        };
        assert!(parse::<Ask>(deep(126).as_bytes()).is_ok());
        assert_eq!(code(deep(127).as_bytes()).0, "json_too_deep");
        assert_eq!(code(deep(20_000).as_bytes()).0, "json_too_deep");
        let in_text = format!(r#"{{"definition":"{}\"","input":1}}"#, "[".repeat(500));
        assert!(parse::<Ask>(in_text.as_bytes()).is_ok());
    }

    #[test]
    fn durations_and_times_have_a_range() {
        for delay in ["0", "-1", "1.5", "1e300", "\"10m\"", "\"PT1H\"", "3162240000001"] {
            let (code, detail) =
                code(format!(r#"{{"definition":"x","input":1,"delay_ms":{delay}}}"#).as_bytes());
            assert_eq!(code, "invalid_duration", "{delay}: {detail}");
        }
        for time in ["+294277-01-01T00:00:00Z", "infinity", "2027-03-14T01:30:00", "2026-02-30T00:00:00Z", ""]
        {
            assert!(parse_time(time).is_err(), "{time}");
        }
        assert!(parse_time("9999-12-30T00:00:00Z").is_ok());
    }
}
