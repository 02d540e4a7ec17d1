//! What handlers give, and how it becomes an answer.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde::Serialize;

use super::problem::Problem;

/// What a handler gives.
pub(crate) type Answer = Result<Reply, Problem>;

/// What is answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: ReplyBody,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    Json(Bytes),
    /// Text of a kind of its own.
    Text(&'static str, Bytes),
    Stream(Body),
    Nothing,
}

impl Reply {
    /// A shape as JSON.
    pub(crate) fn json<T: Serialize>(value: &T) -> Answer {
        let body = serde_json::to_vec(value).map_err(Problem::internal)?;
        Ok(Reply { status: 200, headers: Vec::new(), body: ReplyBody::Json(body.into()) })
    }

    pub(crate) fn text(kind: &'static str, text: impl Into<Bytes>) -> Reply {
        Reply { status: 200, headers: Vec::new(), body: ReplyBody::Text(kind, text.into()) }
    }

    pub(crate) fn nothing() -> Reply {
        Reply { status: 204, headers: Vec::new(), body: ReplyBody::Nothing }
    }

    pub(crate) fn status(mut self, status: u16) -> Reply {
        self.status = status;
        self
    }

    pub(crate) fn with(mut self, name: HeaderName, value: impl AsRef<str>) -> Reply {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.push((name, value));
        }
        self
    }

    /// A stream of server-sent events, which nothing in between may gather.
    pub(crate) fn events(body: Body) -> Reply {
        let reply = Reply { status: 200, headers: Vec::new(), body: ReplyBody::Stream(body) };
        let reply = reply.with(header::CACHE_CONTROL, "no-cache");
        reply.with(HeaderName::from_static("x-accel-buffering"), "no")
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let (kind, body) = match self.body {
            ReplyBody::Json(body) => (Some("application/json"), Body::from(body)),
            ReplyBody::Text(kind, body) => (Some(kind), Body::from(body)),
            ReplyBody::Stream(body) => (Some("text/event-stream"), body),
            ReplyBody::Nothing => (None, Body::empty()),
        };
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(kind) = kind {
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
