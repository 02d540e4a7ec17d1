//! What can go wrong with a call to another service, and what to do about it.
//!
//! The error is stored with a run like any other, so it holds words and numbers, never a URL (whose path and
//! query may be secret) nor a body.

use std::time::Duration;

use outlast_core::{Error, Timestamp};
use serde::{Deserialize, Serialize};

use super::ranges::Rule;

/// Why a call to another service gave no answer, or not the one wanted.
///
/// It can be the error of a step or job itself, and goes into your own error or [`AnyError`](crate::AnyError) with
/// `?`. [`is_retryable`](HttpError::is_retryable) and [`retry_after`](HttpError::retry_after) are made for the
/// methods of those names:
///
/// ```
/// use outlast::http::HttpError;
/// use outlast::prelude::*;
/// async fn notify(job: JobCtx, url: String) -> Result<(), HttpError> {
///     job.http().post(&url).json(&"done").send().await?.error_for_status()?;
///     Ok(())
/// }
/// let notify = Job::new("notify", notify)
///     .retry_if(HttpError::is_retryable)
///     .retry_after(HttpError::retry_after);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HttpError {
    /// The egress guard refused it: see [`Egress`](super::Egress).
    #[error("egress_denied: {target:?} must not be called: {rule}")]
    Denied {
        /// The host, with the address that its name leads to.
        target: String,
        /// The rule that refused it.
        rule: Rule,
    },
    /// The request cannot be made.
    #[error("the request cannot be sent: {detail}")]
    Invalid {
        /// What is wrong, and the remedy.
        detail: String,
    },
    /// No connection, or one that broke.
    #[error("{host} cannot be reached: {detail}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// What the network said.
        detail: String,
    },
    /// No answer, or not all of it, in time.
    #[error("{host} has not answered within {after_ms} ms")]
    TimedOut {
        /// Host and port.
        host: String,
        /// How long it was allowed.
        after_ms: u64,
    },
    /// The host has failed too often in a row, and is left alone for a while.
    #[error("{host} has failed too often and is called again from {until}")]
    Open {
        /// Host and port.
        host: String,
        /// When it is tried again.
        until: Timestamp,
        /// How long that was from then.
        after_ms: u64,
    },
    /// The answer has more bytes than it may.
    #[error("the answer of {host} has more than {limit} bytes: raise max_body if that is right")]
    TooLarge {
        /// Host and port.
        host: String,
        /// The limit.
        limit: u64,
    },
    /// The host leads from one place to the next.
    #[error("{host} redirects once more after {limit} redirects")]
    TooManyRedirects {
        /// Host and port of the last one.
        host: String,
        /// The limit.
        limit: u32,
    },
    /// An answer that says no: see [`Response::error_for_status`](super::Response::error_for_status).
    #[error("{host} answered with status {status}")]
    Status {
        /// Host and port.
        host: String,
        /// The status.
        status: u16,
        /// What its `Retry-After` said, on 429 and 503.
        retry_after_ms: Option<u64>,
    },
    /// A body that is not what was asked for.
    #[error("the answer of {host} cannot be decoded as {wanted}: {detail}")]
    Undecodable {
        /// Host and port.
        host: String,
        /// The type asked for.
        wanted: String,
        /// What the decoder said.
        detail: String,
    },
    /// Not the call, but its run: cancelled, or the answer is larger than what a journal takes.
    #[error(transparent)]
    Outlast(#[from] Error),
}

impl HttpError {
    /// Whether the same call may work in a while.
    pub fn is_retryable(&self) -> bool {
        match self {
            HttpError::Unreachable { .. } | HttpError::TimedOut { .. } | HttpError::Open { .. } => true,
            HttpError::Status { status, .. } => is_retryable(*status),
            HttpError::Outlast(error) => {
                matches!(error, Error::TimedOut { .. } | Error::Store { retryable: true, .. })
            }
            _ => false,
        }
    }

    /// How long to wait before the next call, where somebody said so: the service, or the circuit breaker.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            HttpError::Status { retry_after_ms, .. } => retry_after_ms.map(Duration::from_millis),
            HttpError::Open { after_ms, .. } => Some(Duration::from_millis(*after_ms)),
            _ => None,
        }
    }

    /// The stable word for this kind of error, as in [`Error::code`].
    pub fn code(&self) -> &'static str {
        match self {
            HttpError::Denied { .. } => "egress_denied",
            HttpError::Invalid { .. } => "invalid_argument",
            HttpError::Unreachable { .. } => "unreachable",
            HttpError::TimedOut { .. } => "timeout",
            HttpError::Open { .. } => "circuit_open",
            HttpError::TooLarge { .. } => "payload_too_large",
            HttpError::TooManyRedirects { .. } => "too_many_redirects",
            HttpError::Status { .. } => "http_status",
            HttpError::Undecodable { .. } => "undecodable",
            HttpError::Outlast(error) => error.code(),
        }
    }

    pub(super) fn invalid(detail: impl Into<String>) -> HttpError {
        HttpError::Invalid { detail: detail.into() }
    }

    /// Whether the host is to blame: the circuit breaker counts these.
    pub(super) fn is_of_the_host(&self) -> bool {
        matches!(self, HttpError::Unreachable { .. } | HttpError::TimedOut { .. })
    }
}

/// Whether an answer of this status may be another one in a while.
pub(super) fn is_retryable(status: u16) -> bool {
    match status {
        408 | 425 | 429 => true,
        // Not implemented, and a version that is not spoken: they stay what they are.
        501 | 505 => false,
        500..=599 => true,
        _ => false,
    }
}
