//! Calls to other services: `ctx.http()` in a workflow, `s.http()` in a step, `job.http()` in a job.
//!
//! A call goes out to a stranger, with data of strangers, on behalf of a run that may repeat it. So there is
//! a guard against inner addresses ([`Egress`]), a circuit breaker per host, a bound for time and size, and an
//! idempotency key that all attempts share.
//!
//! ```
//! use outlast::http::HttpError;
//! use outlast::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize)]
//! struct Charge { cents: u64 }
//! #[derive(Deserialize)]
//! struct Receipt { id: String }
//!
//! async fn pay(ctx: Ctx, cents: u64) -> Result<String, HttpError> {
//!     let answer = ctx.http().post("https://api.example.com/charges").json(&Charge { cents });
//!     let answer = answer.retry(Retry::times(5)).send().await?.error_for_status()?;
//!     Ok(answer.json::<Receipt>()?.id)
//! }
//! let pay = Workflow::new("pay", pay);
//! ```
//!
//! | called on | is |
//! | --- | --- |
//! | [`Ctx`] | a step of its own, named after method and host (`http POST api.example.com`): its answer is recorded, and a replay gets that |
//! | [`StepCtx`](crate::StepCtx), [`JobCtx`](crate::JobCtx) | a plain call: what the step or job makes of the answer is what is recorded |

mod breaker;
mod client;
mod error;
mod exchange;
mod guard;
mod ranges;
mod response;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashSet;
use outlast_core::{Failure, Limits, Retry, shorten};
use outlast_store::RunRecord;
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;

pub(crate) use self::client::Outbound;
pub use self::error::HttpError;
use self::exchange::{Call, exchange};
pub use self::guard::Egress;
use self::guard::{authority, host_of};
pub use self::ranges::Rule;
pub use self::response::Response;
use crate::Ctx;
use crate::engine::Engine;
pub use reqwest::StatusCode;
pub use reqwest::header::HeaderMap;

/// How long a call may take unless told, from the lookup of its host to the last byte of the answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer's body unless told.
const MAX_BODY: usize = 8 << 20;
/// The longest host in a step's name.
const HOST_IN_NAME: usize = 120;
/// The most hosts that are given the attempt's own key.
const KEYED: usize = 1000;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Calls other services: see [`Ctx::http`](crate::Ctx::http), [`StepCtx::http`](crate::StepCtx::http) and
/// [`JobCtx::http`](crate::JobCtx::http). Cheap to clone.
#[derive(Clone)]
pub struct Http<M = Direct> {
    engine: Arc<Engine>,
    timeout: Duration,
    /// The trace that the run belongs to.
    trace: HeaderMap,
    mode: M,
}

/// A call within a step or job: made when it is sent, recorded by nobody.
#[derive(Clone)]
pub struct Direct {
    key: String,
    keyed: Keyed,
}

/// A call of a workflow: a step of its own.
#[derive(Clone)]
pub struct Recorded {
    ctx: Ctx,
    retry: Option<Retry>,
}

/// The hosts to which one attempt has sent its own key.
#[derive(Clone, Default)]
pub(crate) struct Keyed(Arc<Mutex<HashSet<String>>>);

impl Keyed {
    /// Whether the key is still free for this host.
    fn take(&self, host: &str) -> bool {
        let mut hosts = self.0.lock();
        hosts.len() < KEYED && hosts.insert(host.to_owned())
    }
}

impl Http<Direct> {
    pub(crate) fn direct(
        engine: &Arc<Engine>,
        record: &RunRecord,
        key: String,
        keyed: Keyed,
    ) -> Http<Direct> {
        Http::new(engine, record, Direct { key, keyed })
    }
}

impl Http<Recorded> {
    pub(crate) fn recorded(engine: &Arc<Engine>, record: &RunRecord, ctx: Ctx) -> Http<Recorded> {
        Http::new(engine, record, Recorded { ctx, retry: None })
    }
}

impl<M: Clone> Http<M> {
    fn new(engine: &Arc<Engine>, record: &RunRecord, mode: M) -> Http<M> {
        let code = outlast_store::code(&record.definition, record.version);
        let timeout = engine.registry.get(&code).and_then(|definition| definition.options.http_timeout);
        let trace = trace_headers(record.trace.as_deref());
        Http { engine: engine.clone(), timeout: timeout.unwrap_or(TIMEOUT), trace, mode }
    }

    /// Asks for what is there.
    pub fn get(&self, url: &str) -> Request<M> {
        self.request(Method::GET, url)
    }

    /// Gives something to be worked on.
    pub fn post(&self, url: &str) -> Request<M> {
        self.request(Method::POST, url)
    }

    /// Puts something where nothing, or something else, was.
    pub fn put(&self, url: &str) -> Request<M> {
        self.request(Method::PUT, url)
    }

    /// Changes what is there.
    pub fn patch(&self, url: &str) -> Request<M> {
        self.request(Method::PATCH, url)
    }

    /// Removes what is there.
    pub fn delete(&self, url: &str) -> Request<M> {
        self.request(Method::DELETE, url)
    }

    fn request(&self, method: Method, url: &str) -> Request<M> {
        let url = Url::parse(url).map_err(|error| HttpError::invalid(format!("the URL is none: {error}")));
        let host = url.as_ref().ok().and_then(host_of).unwrap_or("?");
        // `[::1]` and other hosts need not be names; a host of 120 bytes is rare enough to be cut.
        let name = format!("http {method} {}", shorten(host, HOST_IN_NAME));
        let call = url.map(|url| Call {
            method,
            url,
            headers: self.trace.clone(),
            body: None,
            timeout: self.timeout.min(Limits::DURATION),
            max_body: MAX_BODY,
        });
        Request { engine: self.engine.clone(), mode: self.mode.clone(), name, call }
    }
}

/// A call that is being put together. What is wrong with it is told when it is sent.
#[must_use = "a request does nothing unless it is sent"]
pub struct Request<M = Direct> {
    engine: Arc<Engine>,
    mode: M,
    name: String,
    call: Result<Call, HttpError>,
}

impl<M> Request<M> {
    /// Sets a header. Across origins redirects carry only `Accept`, `Accept-Language`, `Content-Type`, `User-Agent`
    /// and the idempotency key: any other may be a secret.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.change(|call| {
            let wrong = || HttpError::invalid(format!("{name:?} and what it is set to make no header"));
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            call.headers.insert(name, value.parse().map_err(|_| wrong())?);
            Ok(())
        })
    }

    /// Shows a token: `Authorization: Bearer …`.
    pub fn bearer(self, token: &str) -> Self {
        self.change(|call| {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| HttpError::invalid("the token cannot be part of a header"))?;
            value.set_sensitive(true);
            call.headers.insert(AUTHORIZATION, value);
            Ok(())
        })
    }

    /// Adds `name=value` to the query, with whatever needs it escaped.
    pub fn query(self, name: &str, value: impl Display) -> Self {
        self.change(|call| {
            call.url.query_pairs_mut().append_pair(name, &value.to_string());
            Ok(())
        })
    }

    /// Sends a value as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.change(|call| {
            let body = serde_json::to_vec(value).map_err(|error| {
                HttpError::invalid(format!("the body cannot be written as JSON: {error}"))
            })?;
            call.body = Some(body.into());
            let json = HeaderValue::from_static("application/json");
            call.headers.entry(CONTENT_TYPE).or_insert(json);
            Ok(())
        })
    }

    /// Sends these bytes.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        self.change(|call| {
            call.body = Some(body.into());
            Ok(())
        })
    }

    /// How long it may take, redirects and the whole answer included: 30 s, or the `http_timeout` of the
    /// definition, unless told here.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|call| {
            call.timeout = timeout.min(Limits::DURATION);
            Ok(())
        })
    }

    /// The most bytes of an answer's body: 8 MiB unless told, and in a workflow never more than a payload may have. A
    /// larger answer is an error as soon as that is known, and is not read to its end.
    pub fn max_body(self, bytes: usize) -> Self {
        self.change(|call| {
            call.max_body = bytes;
            Ok(())
        })
    }

    /// By what the service knows this call again, in the header `Idempotency-Key`.
    ///
    /// A POST or PATCH has one unless told: the run and the step, the same for every attempt. Other methods do no
    /// harm when repeated, and have none unless told. One attempt has one such key for each host: a second POST
    /// to the same host, which the service would take for the first, needs a key of its own.
    ///
    /// ```
    /// # use outlast::http::HttpError;
    /// # use outlast::prelude::*;
    /// async fn import(job: JobCtx, lines: Vec<String>) -> Result<(), HttpError> {
    ///     for (at, line) in lines.iter().enumerate() {
    ///         let key = format!("{}/{at}", job.key());
    ///         let call = job.http().post("https://api.example.com/lines").idempotency_key(&key);
    ///         call.json(line).send().await?.error_for_status()?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn idempotency_key(self, key: &str) -> Self {
        self.change(|call| {
            call.headers.insert(IDEMPOTENCY_KEY, header_of_key(key)?);
            Ok(())
        })
    }

    fn change(mut self, change: impl FnOnce(&mut Call) -> Result<(), HttpError>) -> Self {
        if let Ok(call) = &mut self.call
            && let Err(wrong) = change(call)
        {
            self.call = Err(wrong);
        }
        self
    }
}

impl Request<Direct> {
    /// Sends it and reads the whole answer. An answer of any status is one: see
    /// [`Response::error_for_status`].
    ///
    /// Nothing is recorded, and nothing tried again: that is up to the step or job. Dropped before its end, the
    /// call may have happened.
    pub async fn send(self) -> Result<Response, HttpError> {
        let Direct { key, keyed } = self.mode;
        let call = self.call.and_then(|call| {
            let host = authority(&call.url);
            with_key(call, &key, || keyed.take(&host))
        });
        perform(&self.engine, call).await
    }
}

impl Request<Recorded> {
    /// Tries again when the host cannot be reached, takes too long, or answers with 408, 425, 429 or 5xx (not 501
    /// and 505): after the pause that `Retry-After` asks for, otherwise after the policy's. If the last attempt is
    /// answered like that too, it is [`HttpError::Status`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.mode.retry = Some(retry);
        self
    }

    /// Sends it, as a step that records status, headers and body of the answer: a replay gets them without
    /// calling anybody. An answer of any status is one: see [`Response::error_for_status`].
    ///
    /// A crash after the call, before its answer is stored, calls again with the same idempotency key. What is called
    /// from here on is a step like any other: its identity is fixed now, not when it is first awaited.
    #[track_caller]
    pub fn send(self) -> impl Future<Output = Result<Response, HttpError>> + Send + 'static {
        let Request { engine, mode: Recorded { ctx, retry }, name, call } = self;
        let largest = engine.limits.payload.min(Limits::HARD_PAYLOAD);
        let call = call.map(|call| Call { max_body: call.max_body.min(largest), ..call });
        let tries_again = retry.is_some();
        let step = ctx.step(&name, move |s| {
            let (engine, call) = (engine.clone(), call.clone());
            async move {
                let answer =
                    perform(&engine, call.and_then(|call| with_key(call, &s.key(), || true))).await?;
                match tries_again && error::is_retryable(answer.status.as_u16()) {
                    true => Err(answer.status_error()),
                    false => Ok(answer),
                }
            }
        });
        let step = step.retry(retry.unwrap_or(Retry::never()));
        let step = step.retry_if(HttpError::is_retryable).retry_after(HttpError::retry_after);
        async move {
            step.await.map_err(|failure| match failure {
                Failure::Own(error) => error,
                Failure::Outlast(error) => HttpError::Outlast(error),
            })
        }
    }
}

/// The trace with which a run was started, for those whom it calls.
fn trace_headers(trace: Option<&str>) -> HeaderMap {
    let mut parts = trace.into_iter().flat_map(|trace| trace.splitn(2, ';'));
    let mut headers = HeaderMap::new();
    for name in ["traceparent", "tracestate"] {
        if let Some(Ok(value)) = parts.next().map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

async fn perform(engine: &Engine, call: Result<Call, HttpError>) -> Result<Response, HttpError> {
    let answer = match call {
        Ok(call) => exchange(&engine.http, || engine.clock.at_least(), call).await,
        Err(wrong) => Err(wrong),
    };
    let outcome = answer.as_ref().map_or_else(HttpError::code, |_| "answered");
    metrics::counter!("outlast_http_calls_total", "outcome" => outcome).increment(1);
    answer
}

/// Gives the call the attempt's key, where one is needed, it has none of its own and the attempt's is free.
fn with_key(mut call: Call, key: &str, is_free: impl FnOnce() -> bool) -> Result<Call, HttpError> {
    let repeats_do_harm = [Method::POST, Method::PATCH].contains(&call.method);
    if !repeats_do_harm || call.headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(call);
    }
    if !is_free() {
        return Err(HttpError::invalid(format!(
            "it is the second {} to {} in one attempt, and would have the key of the first: give it one with \
             .idempotency_key(…)",
            call.method,
            authority(&call.url),
        )));
    }
    call.headers.insert(IDEMPOTENCY_KEY, header_of_key(key)?);
    Ok(call)
}

/// A key as a header has it: what is not plain ASCII is escaped as in a URL.
fn header_of_key(key: &str) -> Result<HeaderValue, HttpError> {
    let mut plain = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'%' => plain.push(char::from(byte)),
            _ => plain.push_str(&format!("%{byte:02X}")),
        }
    }
    match plain.is_empty() {
        true => Err(HttpError::invalid("an idempotency key cannot be empty")),
        false => HeaderValue::from_str(&plain).map_err(|error| HttpError::invalid(error.to_string())),
    }
}
