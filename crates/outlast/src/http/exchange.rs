//! One call from its first byte to its last: guard, circuit breaker, redirects, time and size.
//!
//! Redirects are followed here and not by the client, so that each hop meets the guard and the breaker of its
//! own host, and so that nothing that was meant for one origin reaches another.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use outlast_core::Timestamp;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, USER_AGENT};
use reqwest::{Method, StatusCode, Url};
use tokio::time::{Instant, timeout_at};

use super::client::Outbound;
use super::guard::authority;
use super::{HttpError, IDEMPOTENCY_KEY, Response};

/// The most redirects that are followed.
const REDIRECTS: u32 = 3;

/// What may be told to another origin than the one it was meant for. Anything else may be a secret.
const HARMLESS: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];

/// A request, ready to be sent any number of times.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) timeout: Duration,
    pub(super) max_body: usize,
}

/// What one host answered.
enum Answer {
    Final(Response),
    Redirect(StatusCode, Url),
}

/// Sends the call, follows redirects and reads the answer, all within the call's time.
pub(super) async fn exchange(
    outbound: &Outbound,
    now: impl Fn() -> Timestamp,
    mut call: Call,
) -> Result<Response, HttpError> {
    let deadline = Instant::now() + call.timeout;
    for _ in 0..=REDIRECTS {
        match hop(outbound, &now, &call, deadline).await? {
            Answer::Final(response) => return Ok(response),
            Answer::Redirect(status, next) => call.turn_to(status, next),
        }
    }
    Err(HttpError::TooManyRedirects { host: authority(&call.url), limit: REDIRECTS })
}

async fn hop(
    outbound: &Outbound,
    now: impl Fn() -> Timestamp,
    call: &Call,
    deadline: Instant,
) -> Result<Answer, HttpError> {
    outbound.egress.check_url(&call.url)?;
    let host = authority(&call.url);
    let client = outbound.client()?;
    let asked = now();
    outbound.breakers.ask(&host, asked).map_err(|until| {
        let after_ms = until.since(asked).as_millis() as u64;
        HttpError::Open { host: host.clone(), until, after_ms }
    })?;
    let answer = match timeout_at(deadline, ask(client, call, &host)).await {
        Ok(answer) => answer,
        Err(_) => Err(HttpError::TimedOut { host: host.clone(), after_ms: call.timeout.as_millis() as u64 }),
    };
    match &answer {
        Ok(Answer::Final(response)) if response.status.is_server_error() => {
            outbound.breakers.failed(&host, now())
        }
        Err(error) if error.is_of_the_host() => outbound.breakers.failed(&host, now()),
        // Nobody was asked.
        Err(HttpError::Denied { .. }) => {}
        Ok(_) | Err(_) => outbound.breakers.answered(&host),
    }
    answer
}

/// Sends the request to its host, and reads the answer up to its bound.
async fn ask(client: &reqwest::Client, call: &Call, host: &str) -> Result<Answer, HttpError> {
    let mut request = client.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
    if let Some(body) = &call.body {
        request = request.body(body.clone());
    }
    let failed = |error| told(error, host);
    let mut answer = request.send().await.map_err(failed)?;
    let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
    if let Some(next) = location(status, &headers, &call.url) {
        return Ok(Answer::Redirect(status, next));
    }
    let too_large = || HttpError::TooLarge { host: host.to_owned(), limit: call.max_body as u64 };
    if answer.content_length().is_some_and(|length| length > call.max_body as u64) {
        return Err(too_large());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if chunk.len() > call.max_body - body.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer::Final(Response { host: host.to_owned(), status, headers, body: body.freeze() }))
}

/// Where an answer leads to.
fn location(status: StatusCode, headers: &HeaderMap, url: &Url) -> Option<Url> {
    let location = match status.as_u16() {
        301 | 302 | 303 | 307 | 308 => headers.get(LOCATION)?,
        _ => return None,
    };
    url.join(location.to_str().ok()?).ok()
}

impl Call {
    /// Goes on at `next`, as browsers do: 303 asks for another page, 301 and 302 after a POST too.
    fn turn_to(&mut self, status: StatusCode, next: Url) {
        let asks = match status.as_u16() {
            303 => true,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        if asks {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(CONTENT_TYPE);
            self.headers.remove(IDEMPOTENCY_KEY);
        }
        if next.origin() != self.url.origin() {
            let (old, mut kept) = (std::mem::take(&mut self.headers), HeaderMap::new());
            for name in HARMLESS.iter().chain([&IDEMPOTENCY_KEY]) {
                old.get(name).map(|value| kept.insert(name.clone(), value.clone()));
            }
            self.headers = kept;
        }
        self.url = next;
    }
}

/// What the client reports, in words without the URL.
fn told(error: reqwest::Error, host: &str) -> HttpError {
    let error = error.without_url();
    let causes: Vec<&(dyn std::error::Error + 'static)> =
        std::iter::successors(std::error::Error::source(&error), |cause| cause.source()).collect();
    // The guard's verdict about what the name leads to comes back through the client.
    if let Some(denied) = causes.iter().find_map(|cause| cause.downcast_ref::<HttpError>()) {
        return denied.clone();
    }
    if error.is_builder() {
        return HttpError::invalid(error.to_string());
    }
    // The last cause says most: "connection refused", "unknown issuer".
    let detail = causes.last().map_or_else(|| error.to_string(), |cause| cause.to_string());
    HttpError::Unreachable { host: host.to_owned(), detail }
}
