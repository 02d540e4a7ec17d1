//! The one way from a request to a handler: who asks, whether they may, what they sent, whether it was answered before,
//! and what the audit log says of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{FromRequestParts, OriginalUri, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, Method, Response, header};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::SemaphorePermit;

use super::access::{self, Caller, Scope};
use super::code::Code;
use super::problem::{Names, Problem};
use super::query::Query;
use super::reply::Answer;
use super::route::{Call, Notes, Route, scope_word};
use super::strangers::too_many;
use super::{Inner, audit, body, bound, replies};
use crate::redact::{hidden_at, hiding};

/// Answers a request to one path, which has these routes.
pub(crate) async fn answer(api: Arc<Inner>, routes: Arc<[Route]>, request: Request) -> Response<Body> {
    let names = request.extensions().get::<Names>().cloned().unwrap_or_default();
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    let Some(route) = routes.iter().find(|route| route.method == method) else {
        let with_head = |route: &Route| match route.method {
            // What can be got can be asked for without its body.
            Method::GET => "GET, HEAD".to_owned(),
            ref other => other.to_string(),
        };
        let allowed: Vec<String> = routes.iter().map(with_head).collect();
        let allowed = allowed.join(", ");
        let problem = Problem::new(Code::METHOD_NOT_ALLOWED, format!("this address knows {allowed}"));
        let allow = HeaderValue::from_str(&allowed).unwrap_or(HeaderValue::from_static("GET"));
        return problem.with(header::ALLOW, allow).answer(&names);
    };
    let began = Instant::now();
    let response = match through(api, route, request, names.clone()).await {
        Ok(reply) => reply.into_response(),
        Err(problem) => problem.answer(&names),
    };
    let status = response.status().as_u16().to_string();
    metrics::counter!("outlast_requests_total", "action" => route.action, "status" => status).increment(1);
    // How long somebody waits for an end says nothing about us.
    if !route.patient {
        metrics::histogram!("outlast_request_seconds", "action" => route.action)
            .record(began.elapsed().as_secs_f64());
    }
    response
}

/// From a request to what its handler gives: who asks, what they sent, whether it was answered before.
async fn through(api: Arc<Inner>, route: &Route, request: Request, names: Names) -> Answer {
    let (mut parts, sent) = request.into_parts();
    let caller = identify(&api, route, &parts.headers, names.ip).await?;
    let path = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .map_err(|_| Problem::new(Code::INVALID_UTF8, "the path is not UTF-8"))?;
    let path: Vec<(String, String)> =
        path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Some((name, _)) = path.iter().find(|(_, value)| value.chars().any(char::is_control)) {
        let detail = format!("{name} in the path has a control character");
        return Err(Problem::new(Code::INVALID_CHARACTER, detail));
    }
    if let Err(problem) = allow(route, &caller) {
        // Whoever tries what they may not is in the log; whoever only looked is not.
        if !route.looks {
            let status = (problem.code.status, None);
            audit::note(&api, route, (caller, names, path), Notes::default(), status).await?;
        }
        return Err(problem);
    }
    let query = Query::read(parts.uri.query(), route.query)?;
    let within = if route.patient { api.longest_wait + PATIENCE } else { api.request_timeout };
    let work = async {
        let _held = hold_room(&api, route, &parts.headers).await;
        let body = read_body(&api, route, &parts.headers, sent).await?;
        let original = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        let base = original.path().strip_suffix(parts.uri.path()).unwrap_or_default().to_owned();
        let notes = Arc::new(Mutex::new(Notes { kept: !route.looks, ..Notes::default() }));
        let call = Call {
            api: api.clone(),
            caller: caller.clone(),
            query,
            headers: parts.headers,
            base,
            names: names.clone(),
            seed: None,
            done: None,
            path,
            body,
            notes: notes.clone(),
        };
        perform(&api, route, call, notes).await
    };
    match tokio::time::timeout(within, work).await {
        Ok(answer) => answer,
        Err(_) => {
            let detail = format!("it took longer than {} s: it may have been done", within.as_secs());
            Err(Problem::new(Code::TIMEOUT, detail))
        }
    }
}

/// What a patient request gets beyond what it waits for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks who asks, and whether not too often.
async fn identify(
    api: &Inner,
    route: &Route,
    headers: &HeaderMap,
    ip: Option<IpAddr>,
) -> Result<Caller, Problem> {
    if route.scope == Scope::Public {
        return Ok(Caller { role: access::Role::Viewer, ..Caller::local() });
    }
    let caller = match api.door.asks(&api.client).await? {
        true => match access::authenticate(api, &route.method, headers).await {
            Ok(caller) => caller,
            Err(problem) => return Err(api.strangers.turned_away(&api.pace, ip, problem)),
        },
        false => Caller::local(),
    };
    match api.pace.take(&caller.account()) {
        Ok(()) => Ok(caller),
        Err(wait) => Err(too_many(&caller.actor, wait)),
    }
}

/// Looks whether they may. There is no other way to a handler.
fn allow(route: &Route, caller: &Caller) -> Result<(), Problem> {
    if !caller.role.may(route.scope) {
        let (role, action) = (caller.role.word(), route.action);
        let detail = format!(
            "{action} needs the scope {}, which the role {role} does not have",
            scope_word(route.scope)
        );
        return Err(Problem::new(Code::FORBIDDEN, detail));
    }
    if route.shared && caller.tenant.is_some() {
        let detail =
            format!("{} is about what all tenants share: a token of one tenant may not", route.action);
        return Err(Problem::new(Code::FORBIDDEN, detail));
    }
    bound::allow(route, caller)
}

/// The same for whoever only wants to know: whether somebody of this role, bound to this tenant and these queues, may ask
/// for this.
pub(crate) fn may(
    action: &str,
    role: access::Role,
    tenant: Option<String>,
    queues: Option<Vec<String>>,
) -> Result<(), Problem> {
    let routes = super::routes::all();
    let route = routes.iter().find(|route| route.action == action);
    let queues = queues.and_then(bound::Queues::kept);
    route.map_or(Ok(()), |route| allow(route, &Caller { role, tenant, queues, ..Caller::local() }))
}

/// Room for a file that is large, or may be. Whoever waits for it waits no longer than any request takes.
async fn hold_room<'a>(api: &'a Inner, route: &Route, headers: &HeaderMap) -> Option<SemaphorePermit<'a>> {
    route.file?;
    let is_small = body::announced(headers).is_some_and(|size| size <= api.body_limit as u64);
    if is_small { None } else { api.files.acquire().await.ok() }
}

async fn read_body(
    api: &Inner,
    route: &Route,
    headers: &HeaderMap,
    sent: Body,
) -> Result<Option<Bytes>, Problem> {
    if !route.takes_body() {
        return Ok(None);
    }
    // Told before anything is read, so that nobody sends a megabyte of something else.
    let is_announced = headers.contains_key(header::CONTENT_TYPE) || !route.docs.optional;
    if is_announced {
        body::check_type(headers)?;
    }
    let read = match route.file {
        None => body::read(headers, sent, api.body_limit, "").await?,
        Some(file) => body::read(headers, sent, file.bytes, file.remedy).await?,
    };
    match (read.is_empty(), is_announced) {
        (true, _) if route.docs.optional => Ok(None),
        (false, false) => body::check_type(headers).map(|()| Some(read)),
        _ => Ok(Some(read)),
    }
}

/// Calls the handler. What may change something goes on to its end, its line in the audit log included, also when
/// whoever asked has gone or time is over.
async fn perform(api: &Arc<Inner>, route: &Route, call: Call, notes: Arc<Mutex<Notes>>) -> Answer {
    if route.looks || route.scope == Scope::Public {
        return handle(api, route, call).await;
    }
    let (api, route) = (api.clone(), route.clone());
    let task = tokio::spawn(async move { change(&api, &route, call, notes).await });
    task.await.unwrap_or_else(|panicked| Err(Problem::internal(panicked)))
}

/// Calls the handler, whose answer shows what the caller may see.
async fn handle(api: &Inner, route: &Route, call: Call) -> Answer {
    let hidden = api.redact.clone().filter(|_| !call.caller.role.may(Scope::Admin));
    hiding(hidden, (route.handler)(call)).await
}

/// Calls a handler that may change something, once for each idempotency key, and notes what it did.
async fn change(api: &Inner, route: &Route, call: Call, notes: Arc<Mutex<Notes>>) -> Answer {
    let noted = |call: Call| async {
        let who = (call.caller.clone(), call.names.clone(), call.path.clone());
        let seed = call.seed;
        let answer = handle(api, route, call).await;
        let status = match &answer {
            Ok(reply) => reply.status,
            Err(problem) => problem.code.status,
        };
        let notes = std::mem::take(&mut *notes.lock());
        if notes.kept {
            audit::note(api, route, who, notes, (status, seed)).await?;
        }
        answer
    };
    let body = call.body.clone().unwrap_or_default();
    // Whoever was shown less than there is would write over it.
    if api.redact.is_some()
        && !call.caller.role.may(Scope::Admin)
        && let Some(at) = hidden_at(&body)
    {
        let detail =
            "\"[redacted]\" stands for a value that you may not see: send the value, or leave it away";
        return Err(Problem::new(Code::INVALID_ARGUMENT, detail).at(at));
    }
    match replies::key(&call.headers)? {
        Some(key) if route.method == Method::POST => replies::once(api, route, key, body, call, noted).await,
        _ => noted(call).await,
    }
}
