//! An answer: status, headers and a body that was read within its bound, in a form that a journal keeps.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::HttpError;

/// The longest pause that a service's `Retry-After` can ask for: a day. What is longer is cut.
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(86_400);

/// What a service answered, with its whole body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Kept", into = "Kept")]
pub struct Response {
    pub(super) host: String,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Response {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// A header's value, when it is there and plain text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// The body as text; bytes that are no UTF-8 become U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The body, which has to be JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HttpError> {
        serde_json::from_slice(&self.body).map_err(|refused| HttpError::Undecodable {
            host: self.host.clone(),
            wanted: std::any::type_name::<T>().to_owned(),
            detail: refused.to_string(),
        })
    }

    /// The same answer, or an error when its status is 400 or more.
    pub fn error_for_status(self) -> Result<Response, HttpError> {
        match self.status.is_client_error() || self.status.is_server_error() {
            true => Err(self.status_error()),
            false => Ok(self),
        }
    }

    pub(super) fn status_error(&self) -> HttpError {
        let retry_after_ms = self.retry_after().map(|pause| pause.as_millis() as u64);
        HttpError::Status { host: self.host.clone(), status: self.status.as_u16(), retry_after_ms }
    }

    /// How long the service wants to be left alone.
    fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return None;
        }
        let asked = self.header(RETRY_AFTER.as_str())?.trim();
        let pause = match asked.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                // By the service's own clock, where it says what that is.
                let date = |text: &str| httpdate::parse_http_date(text).ok();
                let now = self.header(DATE.as_str()).and_then(date).unwrap_or_else(SystemTime::now);
                date(asked)?.duration_since(now).unwrap_or_default()
            }
        };
        Some(pause.min(RETRY_AFTER_AT_MOST))
    }
}

/// A response as a journal keeps it: people can read its headers, and its body if that is text.
#[derive(Serialize, Deserialize)]
struct Kept {
    host: String,
    status: u16,
    headers: Vec<(String, String)>,
    #[serde(flatten)]
    body: KeptBody,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptBody {
    Text(String),
    Base64(String),
}

impl From<Response> for Kept {
    fn from(response: Response) -> Kept {
        // Values are bytes, each of which is a character here: nothing is lost.
        let text = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
        let headers = &response.headers;
        let body = match std::str::from_utf8(&response.body) {
            Ok(text) => KeptBody::Text(text.to_owned()),
            Err(_) => KeptBody::Base64(BASE64_STANDARD.encode(&response.body)),
        };
        Kept {
            status: response.status.as_u16(),
            headers: headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body,
            host: response.host,
        }
    }
}

impl TryFrom<Kept> for Response {
    type Error = String;

    fn try_from(kept: Kept) -> Result<Response, String> {
        let wrong = |what: &str| format!("the recorded {what} is none");
        let mut headers = HeaderMap::with_capacity(kept.headers.len());
        for (name, value) in &kept.headers {
            let bytes: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
            let value = bytes.ok().and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
            let name = name.parse::<HeaderName>().ok();
            let (name, value) = name.zip(value).ok_or_else(|| wrong("header"))?;
            headers.append(name, value);
        }
        let body = match kept.body {
            KeptBody::Text(text) => Bytes::from(text),
            KeptBody::Base64(text) => BASE64_STANDARD.decode(text).map_err(|_| wrong("body"))?.into(),
        };
        let status = StatusCode::from_u16(kept.status).map_err(|_| wrong("status"))?;
        Ok(Response { host: kept.host, status, headers, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&'static str, &[u8])], body: &[u8]) -> Response {
        let value = |value: &[u8]| HeaderValue::from_bytes(value).unwrap();
        let mut map = HeaderMap::new();
        for (name, bytes) in headers {
            map.append(*name, value(bytes));
        }
        let status = StatusCode::from_u16(status).unwrap();
        Response { host: "a.example:80".into(), status, headers: map, body: body.to_vec().into() }
    }

    #[test]
    fn a_response_returns_from_a_journal_as_it_went_in() {
        let headers: [(&str, &[u8]); 3] =
            [("set-cookie", b"a=1"), ("set-cookie", b"b=2"), ("x", b"gr\xfc\xdfe")];
        for body in [&b"{\"a\":1}"[..], b"", b"\xff\x00\xfe"] {
            let response = response(207, &headers, body);
            let json = serde_json::to_string(&response).unwrap();
            assert_eq!(serde_json::from_str::<Response>(&json).unwrap(), response, "{json}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date_and_is_never_longer_than_a_day() {
        let after = |status, headers: &[(&'static str, &[u8])]| {
            response(status, headers, b"").error_for_status().unwrap_err().retry_after()
        };
        assert_eq!(after(429, &[("retry-after", b"120")]), Some(Duration::from_secs(120)));
        assert_eq!(after(503, &[("retry-after", b" 3 ")]), Some(Duration::from_secs(3)));
        assert_eq!(after(429, &[("retry-after", b"999999999999")]), Some(RETRY_AFTER_AT_MOST));
        let date: [(&str, &[u8]); 2] =
            [("date", b"Wed, 21 Oct 2026 07:28:00 GMT"), ("retry-after", b"Wed, 21 Oct 2026 07:29:30 GMT")];
        assert_eq!(after(503, &date), Some(Duration::from_secs(90)));
        assert_eq!(after(503, &[("retry-after", b"Wed, 21 Oct 1998 07:29:30 GMT")]), Some(Duration::ZERO));
        for nothing in [&b"soon"[..], b"-1", b"1.5", b""] {
            assert_eq!(after(429, &[("retry-after", nothing)]), None);
        }
        assert_eq!(after(500, &[("retry-after", b"120")]), None, "only where it means that");
    }

    #[test]
    fn a_status_is_an_error_from_400_on_and_says_whether_to_try_again() {
        assert!(response(204, &[], b"").error_for_status().is_ok());
        assert!(response(304, &[], b"").error_for_status().is_ok());
        for (status, again) in
            [(400, false), (404, false), (408, true), (429, true), (500, true), (501, false), (503, true)]
        {
            let error = response(status, &[], b"secret").error_for_status().unwrap_err();
            assert_eq!((error.is_retryable(), error.code()), (again, "http_status"), "{status}");
            assert_eq!(error.to_string(), format!("a.example:80 answered with status {status}"));
        }
    }

    #[test]
    fn a_body_is_read_as_what_it_is() {
        let json = response(200, &[], b"[1,2]");
        assert_eq!(json.json::<Vec<u8>>().unwrap(), [1, 2]);
        let error = json.json::<String>().unwrap_err();
        assert!(!error.is_retryable() && error.to_string().contains("alloc::string::String"), "{error}");
        assert_eq!(response(200, &[], b"a\xff").text(), "a\u{fffd}");
    }
}
