//! How a run ended, as the news that its parent gets: [`Ended`] to JSON and back.
//!
//! Two writers send it (the engine when a run ends, the store when a cancellation ends one that never
//! began) and one reader takes it, so the shape stands here once.

use outlast_core::{Error, Payload, Status};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::Ended;

/// The shape. A missing `output` is none; `null` is the output of a run that returned nothing.
#[derive(Serialize, Deserialize)]
struct Doc {
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    output: Option<Box<RawValue>>,
    /// The output in hex, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    codec: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Box<RawValue>>,
}

impl Ended {
    /// This end as the body of a [`crate::NewsKind::Child`]. JSON outputs keep their exact bytes.
    ///
    /// ```
    /// use outlast_core::{Payload, Status};
    /// use outlast_store::Ended;
    /// let output = Some(Payload { codec: None, bytes: "[1.0]".into() });
    /// let end = Ended { status: Status::Completed, output, error: None };
    /// assert_eq!(end.to_payload().json(), Some(r#"{"status":"completed","output":[1.0]}"#));
    /// assert_eq!(Ended::from_payload(&end.to_payload()).unwrap(), end);
    /// ```
    pub fn to_payload(&self) -> Payload {
        let output = self.output.as_ref().and_then(Payload::json).and_then(exact);
        let hex = self.output.as_ref().filter(|_| output.is_none()).map(|payload| hex(&payload.bytes));
        let codec = self.output.as_ref().and_then(|payload| payload.codec.clone());
        // What is not JSON is still worth telling: as a JSON string.
        let error = self
            .error
            .as_deref()
            .and_then(|text| exact(text).or_else(|| serde_json::value::to_raw_value(text).ok()));
        let doc = Doc { status: self.status, output, hex, codec, error };
        Payload { codec: None, bytes: serde_json::to_vec(&doc).unwrap_or_default().into() }
    }

    /// The end that [`Ended::to_payload`] wrote.
    pub fn from_payload(payload: &Payload) -> Result<Ended, Error> {
        let what = "the end of a child";
        let doc: Doc = payload.decode(what)?;
        let bytes = match (doc.output, doc.hex) {
            (Some(output), _) => Some(output.get().to_owned().into_bytes()),
            (None, Some(hex)) => {
                Some(unhex(&hex).ok_or_else(|| Error::invalid(what, &hex, "pairs of hex digits"))?)
            }
            (None, None) => None,
        };
        Ok(Ended {
            status: doc.status,
            output: bytes.map(|bytes| Payload { codec: doc.codec, bytes: bytes.into() }),
            error: doc.error.map(|error| error.get().to_owned()),
        })
    }
}

/// `text` as raw JSON, if that keeps every byte: space around a value would get lost.
fn exact(text: &str) -> Option<Box<RawValue>> {
    let raw = RawValue::from_string(text.to_owned()).ok()?;
    (raw.get().len() == text.len()).then_some(raw)
}

/// Tells `null` from nothing.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_returns_as_it_went() {
        let plain = |text: &'static str| Some(Payload { codec: None, bytes: text.into() });
        let packed = Payload { codec: Some("pack".into()), bytes: vec![0, 255, 16].into() };
        for output in [None, plain("null"), plain(" 1 "), plain(r#""a\u0000""#), plain("9e999"), Some(packed)]
        {
            for error in [None, Some(r#"{"outlast":"shutting_down"}"#.to_owned())] {
                let end = Ended { status: Status::Failed, output: output.clone(), error };
                assert_eq!(Ended::from_payload(&end.to_payload()).unwrap(), end);
            }
        }
    }
}
