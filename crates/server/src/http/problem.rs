//! Problem documents (RFC 9457): how every request that was not done is answered.
//!
//! Each names the thing, the limit and the remedy in `detail`, and has a `code` for programs. What went wrong inside is
//! told to the log alone; the document has the request's id, under which the log has it.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use outlast::Error;
use outlast_store::StoreError;
use serde::Serialize;

use super::code::Code;
use crate::fault::{Exit, Fault};

/// Where codes are explained: `codes.md` is there, with an anchor for each.
const DOCS: &str = "https://docs.rs/outlast-server/latest/outlast_server/http/index.html#";

/// Why a request was not done.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
    more: Box<More>,
}

/// What few problems have.
#[derive(Debug, Default)]
struct More {
    /// Which part of what was sent, as JSON pointers.
    errors: Vec<FieldError>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The log has it; nobody else is told.
    cause: Option<String>,
}

/// What is wrong with a part of what was sent.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct FieldError {
    /// Where, as a JSON pointer into the body.
    pointer: String,
    /// What is wrong there.
    detail: String,
}

/// The document.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemJson {
    /// A stable address that explains the code.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    /// What is wrong with what, and what to do.
    detail: String,
    /// The path that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// The stable word for programs.
    code: String,
    /// The request, as the log names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// The trace that the caller named.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

/// How a request is named in its answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(crate) request: String,
    pub(crate) trace: Option<String>,
    pub(crate) path: String,
    /// From which address it came, for the audit log; a proxy's, where there is one.
    pub(crate) ip: Option<IpAddr>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), more: Box::default() }
    }

    /// Something that went wrong here, which only the log is told.
    pub(crate) fn internal(cause: impl ToString) -> Problem {
        let detail =
            "nothing that you sent is wrong: the log of the server has the reason under this request's id";
        Problem::new(Code::INTERNAL, detail).caused_by(cause.to_string())
    }

    fn caused_by(mut self, cause: String) -> Problem {
        self.more.cause = Some(cause);
        self
    }

    /// There is no such thing.
    pub(crate) fn not_found(what: impl std::fmt::Display) -> Problem {
        Problem::new(Code::NOT_FOUND, format!("there is no {what}"))
    }

    /// With the part of the body that is wrong.
    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Problem {
        let detail = self.detail.clone();
        self.more.errors.push(FieldError { pointer: pointer.into(), detail });
        self
    }

    pub(crate) fn with(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Problem {
        self.more.headers.push((name, value.into()));
        self
    }

    /// The answer.
    pub(crate) fn answer(self, names: &Names) -> Response<Body> {
        if let Some(cause) = &self.more.cause {
            tracing::error!(request = %names.request, cause = %cause, "a request went wrong");
        }
        let document = ProblemJson {
            kind: format!("{DOCS}{}", self.code.word),
            title: self.code.title.to_owned(),
            status: self.code.status,
            detail: self.detail,
            instance: Some(names.path.clone()).filter(|path| !path.is_empty()),
            code: self.code.word.to_owned(),
            request_id: Some(names.request.clone()).filter(|id| !id.is_empty()),
            trace_id: names.trace.clone(),
            errors: self.more.errors,
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        for (name, value) in self.more.headers {
            headers.insert(name, value);
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        self.answer(&Names::default())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let detail = error.to_string();
        let code = match &error {
            Error::Store { retryable: true, .. } => {
                // What the database said may name things that are nobody's business.
                let detail_for_all = "the database is out of reach: try again in a moment";
                let problem = Problem::new(Code::UNAVAILABLE, detail_for_all).caused_by(detail);
                return problem.with(header::RETRY_AFTER, 1);
            }
            Error::Store { .. } | Error::Misconfigured { .. } | Error::Panicked { .. } => {
                return Problem::internal(detail);
            }
            // It reads them when it comes to that: whoever asks again at once finds it as full.
            Error::InboxFull { .. } => {
                return Problem::new(Code::INBOX_FULL, detail).with(header::RETRY_AFTER, 5);
            }
            Error::MissingRole { .. } => Code::FORBIDDEN,
            other => match Code::of(other.code()) {
                Some(code) => code,
                None => return Problem::internal(detail),
            },
        };
        Problem::new(code, detail)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        Error::from(error).into()
    }
}

/// What the command line's own readers say.
impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        let code = Code::of(fault.code()).unwrap_or(match fault.exit {
            Exit::NotFound => Code::NOT_FOUND,
            Exit::Conflict => Code::CONFLICT,
            Exit::Unreachable => Code::UNAVAILABLE,
            Exit::Usage => Code::INVALID_ARGUMENT,
            _ => return Problem::internal(fault.message()),
        });
        Problem::new(code, fault.message())
    }
}
