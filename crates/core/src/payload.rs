//! Payloads: bytes with the name of the codec that made them.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

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
    pub fn encode<T: Serialize + ?Sized>(what: &str, value: &T, limits: &Limits) -> Result<Payload, Error> {
        let bytes = serde_json::to_vec(value).map_err(|refused| Error::Invalid {
            what: what.into(),
            value: std::any::type_name::<T>().into(),
            remedy: format!("a value that can be written as JSON: {refused}"),
        })?;
        Payload { codec: None, bytes: bytes.into() }.within(what, limits)
    }

    /// JSON text as it is, if it is JSON, not nested too deeply, and within `limits`.
    pub fn from_json(what: &str, text: impl Into<Bytes>, limits: &Limits) -> Result<Payload, Error> {
        let payload = Payload { codec: None, bytes: text.into() }.within(what, limits)?;
        // `Value` stops at a depth of 128 by itself; numbers of any size pass.
        serde_json::from_slice::<serde_json::Value>(&payload.bytes).map_err(|refused| {
            Error::invalid(what, String::from_utf8_lossy(&payload.bytes), refused.to_string())
        })?;
        Ok(payload)
    }

    /// The value again. `what` names it in an error.
    pub fn decode<T: DeserializeOwned>(&self, what: &str) -> Result<T, Error> {
        let failed = |detail: String| Error::Undecodable {
            what: what.into(),
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

    fn within(self, what: &str, limits: &Limits) -> Result<Payload, Error> {
        let limit = limits.payload.min(Limits::HARD_PAYLOAD);
        if self.bytes.len() > limit {
            return Err(Error::TooLarge {
                what: what.into(),
                size: self.bytes.len() as u64,
                limit: limit as u64,
            });
        }
        Ok(self)
    }
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
