//! What every request passes before it is routed: a name for it, the host that is meant, other sites, and panics.
//!
//! Whoever can be reached on this machine alone can still be reached by any page in a browser on it. So the host has to be
//! ours (against names that are bent to this machine), and whatever is not known to be safe has to come from ourselves:
//! methods are let through by a list of safe ones, and not stopped by a list of others.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use axum::middleware::Next;
use futures_util::FutureExt;
use tracing::Instrument;

use super::Hosts;
use super::code::Code;
use super::problem::{Names, Problem};
use super::proxy::{Peer, Proxy};
use super::serve::Origin;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Said of every answer that does not say otherwise.
const SAID: &[(&str, &str)] = &[
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// What requests are held against.
pub(super) struct Guard {
    pub(super) hosts: Hosts,
    /// Who is believed when they say for whom they ask.
    pub(super) proxy: Option<Arc<Proxy>>,
}

/// Lets a request through, or answers it.
pub(super) async fn guard(guard: Arc<Guard>, mut request: Request, next: Next) -> Response<Body> {
    let peer = peer(&request);
    let told = guard.proxy.as_ref().and_then(|proxy| proxy.sift(&mut request, peer));
    let names = Names {
        request: request_id(request.headers()),
        trace: trace_id(request.headers()),
        path: outlast_core::shorten(request.uri().path(), 200),
        ip: told.or(match peer {
            Peer::Address(address) => Some(address),
            Peer::Socket | Peer::Unknown => None,
        }),
    };
    request.extensions_mut().insert(names.clone());
    let span = tracing::info_span!(
        "outlast.request",
        otel.kind = "server",
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        request.id = names.request,
        http.response.status_code = tracing::field::Empty,
    );
    #[cfg(feature = "otlp")]
    crate::otlp::adopt(&span, request.headers());
    let passed = check_host(&guard.hosts, &request).and_then(|()| check_site(&request));
    let mut response = match passed {
        Err(problem) => problem.answer(&names),
        Ok(()) => match AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await {
            Ok(response) => response,
            Err(_) => Problem::internal("a handler panicked").answer(&names),
        },
    };
    span.record("http.response.status_code", response.status().as_u16());
    let headers = response.headers_mut();
    for (name, value) in SAID {
        headers.entry(*name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(&names.request) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// Where a request came from: as our server saw it, or as another told whoever mounts the router.
fn peer(request: &Request) -> Peer {
    let told = request.extensions().get::<ConnectInfo<SocketAddr>>();
    match (request.extensions().get::<Origin>(), told) {
        (Some(Origin(Some(from))), _) => Peer::Address(from.to_canonical()),
        (Some(Origin(None)), _) => Peer::Socket,
        (None, Some(ConnectInfo(from))) => Peer::Address(from.ip().to_canonical()),
        (None, None) => Peer::Unknown,
    }
}

/// The id that the caller gave, where it can be shown anywhere; else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let given = headers.get(REQUEST_ID).and_then(|given| given.to_str().ok());
    match given.filter(|given| (1..=64).contains(&given.len()) && given.bytes().all(plain)) {
        Some(given) => given.to_owned(),
        None => format!("req_{:016x}", fastrand::u64(..)),
    }
}

/// The trace that the caller named (W3C trace context).
fn trace_id(headers: &HeaderMap) -> Option<String> {
    traceparent(headers).and_then(|text| text.split('-').nth(1).map(str::to_owned))
}

/// The caller's `traceparent`, if it is one.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_some = |part: &str| part.bytes().any(|byte| byte != b'0');
    match parts[..] {
        [version, trace, span, flags]
            if is_hex(version, 2)
                && version != "ff"
                && is_hex(trace, 32)
                && is_some(trace)
                && is_hex(span, 16)
                && is_some(span)
                && is_hex(flags, 2) =>
        {
            Some(text.to_owned())
        }
        _ => None,
    }
}

/// The caller's `tracestate`, if it is one: at most 512 visible characters.
pub(crate) fn tracestate(headers: &HeaderMap) -> Option<String> {
    let parts: Vec<&str> =
        headers.get_all("tracestate").iter().map(|part| part.to_str()).collect::<Result<_, _>>().ok()?;
    let state = parts.join(",");
    let is_plain = state.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    ((1..=512).contains(&state.len()) && is_plain).then_some(state)
}

/// The host, without its port. What is said twice, or has another end than a port, is given as it is: nobody is called so.
fn host_of(request: &Request) -> Option<String> {
    let mut sent =
        request.headers().get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let (first, second) = (sent.next(), sent.next());
    if let (Some(first), Some(second)) = (first, second) {
        return Some(format!("{first}, {second}"));
    }
    let named = request.uri().authority().map(|authority| authority.as_str());
    let host = named.or(first)?.to_ascii_lowercase();
    // An address of IPv6 has colons of its own.
    let end = if host.starts_with('[') { host.find(']').map(|at| at + 1) } else { host.find(':') };
    let (name, port) = host.split_at(end.unwrap_or(host.len()));
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    Some(match port.is_empty() || port.strip_prefix(':').is_some_and(is_port) {
        true => name.to_owned(),
        false => host,
    })
}

fn check_host(hosts: &Hosts, request: &Request) -> Result<(), Problem> {
    let refused = |said: String| {
        let detail = format!("{said}: allow a name with --host NAME");
        Err(Problem::new(Code::HOST_NOT_ALLOWED, detail))
    };
    match (hosts, host_of(request)) {
        (Hosts::Any, _) => Ok(()),
        (Hosts::Only(names), Some(host)) if names.contains(&host) => Ok(()),
        (_, Some(host)) => refused(format!("this is not {:?}", outlast_core::shorten(&host, 80))),
        (_, None) => refused("the request names no host".to_owned()),
    }
}

/// Whether a request that may change something comes from a page of another site.
fn check_site(request: &Request) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let cross = |found: &str| {
        let detail =
            format!("a page of another site asks ({found}): only pages of this one, and programs, may");
        Err(Problem::new(Code::CROSS_SITE, detail))
    };
    let headers = request.headers();
    let named = request.uri().authority().map(|authority| authority.as_str());
    match page_of(headers, named) {
        Page::Own | Page::Unsaid => Ok(()),
        Page::Other(found) => cross(&found),
    }
}

/// Refuses a request with a cookie that could change something and does not say that it comes from a page of ours:
/// browsers say it, and nobody else has cookies.
pub(super) fn is_own_page(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD) || page_of(headers, None) == Page::Own {
        return Ok(());
    }
    let detail =
        "a cookie opens this only for pages of this site, which say so (Origin): programs send a token";
    Err(Problem::new(Code::CROSS_SITE, detail))
}

/// Where a request says that it comes from.
#[derive(Debug, PartialEq, Eq)]
enum Page {
    Own,
    Other(String),
    /// It is no browser's, or an old one's.
    Unsaid,
}

fn page_of(headers: &HeaderMap, named: Option<&str>) -> Page {
    if let Some(site) = headers.get(FETCH_SITE) {
        return match site.to_str().unwrap_or_default() {
            "same-origin" | "none" => Page::Own,
            other => Page::Other(format!("Sec-Fetch-Site: {}", outlast_core::shorten(other, 40))),
        };
    }
    // Browsers that do not say the site say the origin.
    let Some(origin) = headers.get(header::ORIGIN) else { return Page::Unsaid };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(named).unwrap_or_default();
    match origin.split_once("://") {
        Some((_, from)) if !host.is_empty() && from.eq_ignore_ascii_case(host) => Page::Own,
        _ => Page::Other(format!("Origin: {}", outlast_core::shorten(origin, 80))),
    }
}
