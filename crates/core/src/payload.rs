//! Payloads: bytes with the name of the codec that made them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

use crate::finite::Finite;
use crate::{Error, Limits};

/// What a user's value is while Outlast holds it. Bytes return exactly as they went in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The codec's name; `None` means JSON.
    pub codec: Option<String>,
    /// The encoded value.
    pub bytes: Bytes,
}

impl Payload {
    /// `value` as JSON, within `limits`. `what` names it in an error.
    ///
    /// NaN and the infinities are refused: JSON cannot hold them. So is what is nested too deeply to be read
    /// again.
    pub fn encode<T: Serialize + ?Sized>(
        what: impl Display,
        value: &T,
        limits: &Limits,
    ) -> Result<Payload, Error> {
        let bytes = to_json(value).map_err(|refused| Error::Invalid {
            what: what.to_string(),
            value: std::any::type_name::<T>().into(),
            remedy: match refused.is_io() {
                true => refused.to_string(),
                false => format!("a value that can be written as JSON: {refused}"),
            },
        })?;
        Payload { codec: None, bytes: bytes.into() }.within(what, limits)
    }

    /// One text for all JSON that means the same: members in the order of their names, no space in between, strings with
    /// the fewest escapes. Numbers stay as they are written, since `1.0` may be another thing than `1`. `None` for other
    /// codecs, and for what is no JSON.
    pub fn canonical(&self) -> Option<String> {
        let text = std::str::from_utf8(&self.bytes).ok().filter(|_| self.codec.is_none())?;
        if deepest(&self.bytes) > Limits::DEPTH {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        write_canonical(serde_json::from_str(text).ok()?, &mut out)?;
        Some(out)
    }

    /// Whether both say the same, however they are written.
    pub fn means_the_same(&self, other: &Payload) -> bool {
        self == other || self.canonical().is_some_and(|text| other.canonical() == Some(text))
    }

    /// JSON text as it is, if it is JSON, not nested too deeply, and within `limits`.
    pub fn from_json(what: impl Display, text: impl Into<Bytes>, limits: &Limits) -> Result<Payload, Error> {
        let payload = Payload { codec: None, bytes: text.into() }.within(&what, limits)?;
        // `Value` stops at that depth by itself; numbers of any size pass.
        serde_json::from_slice::<serde_json::Value>(&payload.bytes).map_err(|refused| {
            let remedy =
                if deepest(&payload.bytes) > Limits::DEPTH { too_deep() } else { refused.to_string() };
            Error::invalid(&what.to_string(), String::from_utf8_lossy(&payload.bytes), remedy)
        })?;
        Ok(payload)
    }

    /// The value again. `what` names it in an error.
    pub fn decode<T: DeserializeOwned>(&self, what: impl Display) -> Result<T, Error> {
        let failed = |detail: String| Error::Undecodable {
            what: what.to_string(),
            wanted: std::any::type_name::<T>().into(),
            detail,
        };
        if let Some(codec) = &self.codec {
            return Err(failed(format!("it was written with codec {codec:?}, which is not known here")));
        }
        serde_json::from_slice(&self.bytes).map_err(|refused| failed(refused.to_string()))
    }

    /// The JSON text, when it is JSON.
    pub fn json(&self) -> Option<&str> {
        self.codec.is_none().then(|| std::str::from_utf8(&self.bytes).ok()).flatten()
    }

    fn within(self, what: impl Display, limits: &Limits) -> Result<Payload, Error> {
        let limit = limits.largest_payload();
        if self.bytes.len() > limit {
            return Err(Error::TooLarge {
                what: what.to_string(),
                size: self.bytes.len() as u64,
                limit: limit as u64,
            });
        }
        Ok(self)
    }
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    let (mut bytes, mut null) = (Vec::with_capacity(128), false);
    let watch = Watch { null: &mut null, depth: 0 };
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, watch))?;
    // A float that is no number is written as null: only values that wrote one are looked through.
    if null {
        value.serialize(Finite)?;
    }
    Ok(bytes)
}

/// Writes compact JSON, notes whether a null was in it and stops where it cannot be read again. That is the
/// only error it ever gives.
struct Watch<'a> {
    null: &'a mut bool,
    depth: usize,
}

impl Watch<'_> {
    fn enter(&mut self, levels: usize) -> io::Result<()> {
        self.depth += levels;
        if self.depth > Limits::DEPTH { Err(io::Error::other(too_deep())) } else { Ok(()) }
    }
}

impl Formatter for Watch<'_> {
    fn write_null<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        *self.null = true;
        writer.write_all(b"null")
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter(1)?;
        writer.write_all(b"[")
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter(1)?;
        writer.write_all(b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }

    fn write_raw_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, json: &str) -> io::Result<()> {
        let levels = deepest(json.as_bytes());
        self.enter(levels)?;
        self.depth -= levels;
        writer.write_all(json.as_bytes())
    }
}

fn too_deep() -> String {
    format!("at most {} levels of nesting", Limits::DEPTH)
}

/// How deeply JSON is nested.
fn deepest(json: &[u8]) -> usize {
    let (mut depth, mut most, mut in_text) = (0usize, 0, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => drop(bytes.next()),
            b'[' | b'{' if !in_text => {
                depth += 1;
                most = most.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

fn write_canonical(value: &RawValue, out: &mut String) -> Option<()> {
    let text = value.get().trim_ascii();
    match text.as_bytes().first()? {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            out.push('{');
            for (nth, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if nth > 0 { "," } else { "" });
                out.push_str(&serde_json::to_string(&name).ok()?);
                out.push(':');
                write_canonical(value, out)?;
            }
            out.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            out.push('[');
            for (nth, value) in items.into_iter().enumerate() {
                out.push_str(if nth > 0 { "," } else { "" });
                write_canonical(value, out)?;
            }
            out.push(']');
        }
        b'"' => out.push_str(&serde_json::to_string(&serde_json::from_str::<String>(text).ok()?).ok()?),
        _ => out.push_str(text),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_json_returns_exactly_as_it_went_in() {
        let limits = Limits::default();
        for text in [r#""a\u0000b""#, "12345678901234567890123", r#"{"b":1,"a":[1.0,2e3]}"#, "null"] {
            assert_eq!(Payload::from_json("input", text, &limits).unwrap().json(), Some(text));
        }
    }

    #[test]
    fn json_that_means_the_same_is_known_however_it_is_written() {
        let json = |text: &str| Payload { codec: None, bytes: Bytes::from(text.to_owned()) };
        let one = json(r#"{"a":[1,{"x":"é","y":null}],"b":12345678901234567890123}"#);
        let same = json("{ \"b\" : 12345678901234567890123,\n \"a\": [1, {\"y\":null,\"x\":\"\\u00e9\"}] }");
        assert!(one.means_the_same(&same));
        assert_eq!(one.canonical(), same.canonical());
        for other in
            [r#"{"a":[1,{"x":"é","y":null}],"b":12345678901234567890124}"#, "1", "1.0", r#""1""#, "no"]
        {
            assert!(!one.means_the_same(&json(other)) && !json("1 ").means_the_same(&json("1.0")), "{other}");
        }
        let packed = Payload { codec: Some("packed".into()), bytes: Bytes::from_static(b"1") };
        assert!(packed.canonical().is_none() && !packed.means_the_same(&json("1")));
    }

    #[test]
    fn floats_that_json_cannot_hold_are_refused_wherever_they_are() {
        #[derive(Serialize)]
        enum Deep {
            Field { at: Option<(f32, ())> },
        }
        fn json<T: Serialize>(value: &T) -> Result<String, Error> {
            Payload::encode("the result", value, &Limits::default()).map(|it| it.json().unwrap().to_owned())
        }
        assert_eq!(
            json(&f64::NAN).unwrap_err().to_string(),
            "invalid the result \"f64\": a value that can be written as JSON: \
             JSON has no number for NaN and the infinities"
        );
        let map = |value: f64| std::collections::BTreeMap::from([(1u8, vec![None, Some(value)])]);
        let deep = |value: f32| Deep::Field { at: Some((value, ())) };
        assert!(json(&map(f64::INFINITY)).is_err() && json(&deep(f32::NEG_INFINITY)).is_err());
        assert_eq!(json(&map(0.5)).unwrap(), r#"{"1":[null,0.5]}"#);
        assert_eq!(json(&deep(1.0)).unwrap(), r#"{"Field":{"at":[1.0,null]}}"#);
    }

    #[test]
    fn what_can_be_written_can_be_read_however_deep_and_what_is_deeper_is_refused() {
        use serde_json::value::RawValue;
        let text = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let nested =
            |depth: usize| (1..depth).fold(serde_json::json!([]), |inner, _| serde_json::json!([inner]));
        let raw = |depth: usize| vec![("]}\"[", RawValue::from_string(text(depth)).unwrap())];
        let limits = Limits::default();

        let deep = Payload::encode("the result", &nested(Limits::DEPTH), &limits).unwrap();
        assert_eq!(deep.decode::<serde_json::Value>("it").unwrap(), nested(Limits::DEPTH));
        assert_eq!(Payload::from_json("input", text(Limits::DEPTH), &limits).unwrap(), deep);
        let in_raw = Payload::encode("the result", &raw(Limits::DEPTH - 2), &limits).unwrap();
        in_raw.decode::<serde_json::Value>("it").unwrap();

        let remedy = "at most 127 levels of nesting";
        let refused = [
            Payload::encode("the result", &nested(Limits::DEPTH + 1), &limits),
            Payload::encode("the result", &raw(Limits::DEPTH - 1), &limits),
            Payload::from_json("the result", text(Limits::DEPTH + 1), &limits),
        ];
        for refused in refused.map(Result::unwrap_err) {
            assert!(matches!(&refused, Error::Invalid { remedy: said, .. } if said == remedy), "{refused}");
        }
        // Brackets in texts nest nothing, nor do those that are closed.
        let wide = (vec!["[".repeat(500)], vec![vec![(); 0]; 500]);
        Payload::encode("the result", &wide, &limits).unwrap();
        assert_eq!(deepest(br#"{"a\\":[1,"[[\"[",{}],"b":[]}"#), 3);
    }

    #[test]
    fn what_is_no_json_or_too_deep_or_too_large_is_refused() {
        let limits = Limits::default();
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in ["", "{", "1 2", "\u{feff}1", deep.as_str()] {
            assert!(Payload::from_json("input", text.to_owned(), &limits).is_err(), "{text}");
        }
        let large = "x".repeat(2 << 20);
        let refused = Payload::encode("input", &large, &limits).unwrap_err();
        assert_eq!(refused.to_string(), "input is too large: 2097154, the limit is 1048576");
    }
}
