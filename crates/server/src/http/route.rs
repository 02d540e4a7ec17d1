//! The table of routes, and the one way from a request to a handler.
//!
//! A route is made by [`route`], which takes the scope: there is no route without one. A handler is given a [`Call`],
//! which only [`admit`] makes, after it has looked who asks and what they may do. So there is no way past it, streams
//! included; a test walks the table over HTTP and looks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, OriginalUri, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use outlast::{RunId, Target};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use uuid::Uuid;

use super::access::{self, Caller, Scope};
use super::code::Code;
use super::openapi::{Docs, schema_of};
use super::problem::{Names, Problem};
use super::query::{Param, Query};
use super::{Inner, audit, body, replies};

/// What a handler gives.
pub(crate) type Answer = Result<Reply, Problem>;
type Handler = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

/// One thing that can be asked for.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// With its prefix: `/api/v1/runs/{id}`.
    pub(crate) path: &'static str,
    pub(crate) scope: Scope,
    /// What it is called in the audit log and in the OpenAPI document: `run.cancel`.
    pub(crate) action: &'static str,
    /// Whether it concerns what all tenants share: then a token that is bound to one may not.
    pub(crate) shared: bool,
    /// Whether it may take longer than others: it waits for something.
    pub(crate) patient: bool,
    pub(crate) query: &'static [Param],
    pub(crate) docs: Docs,
    handler: Handler,
}

/// A route.
pub(crate) fn route<F>(
    method: Method,
    path: &'static str,
    scope: Scope,
    action: &'static str,
    handler: fn(Call) -> F,
) -> Route
where
    F: Future<Output = Answer> + Send + 'static,
{
    let handler: Handler = Arc::new(move |call| Box::pin(handler(call)));
    let docs = Docs::default();
    Route { method, path, scope, action, shared: false, patient: false, query: &[], docs, handler }
}

impl Route {
    /// With these parameters behind the question mark.
    pub(crate) fn query(mut self, query: &'static [Param]) -> Route {
        self.query = query;
        self
    }

    /// About what all tenants share.
    pub(crate) fn shared(mut self) -> Route {
        self.shared = true;
        self
    }

    /// May wait for something.
    pub(crate) fn patient(mut self) -> Route {
        self.patient = true;
        self
    }

    /// What it does, for the documentation.
    pub(crate) fn about(mut self, about: &'static str) -> Route {
        self.docs.about = about;
        self
    }

    /// Takes a body of this shape.
    pub(crate) fn takes<T: ToSchema>(mut self) -> Route {
        self.docs.request = Some(schema_of::<T>());
        self
    }

    /// The body may be left away.
    pub(crate) fn may_take<T: ToSchema>(mut self) -> Route {
        self.docs.optional = true;
        self.takes::<T>()
    }

    /// Gives this shape, with this status.
    pub(crate) fn gives<T: ToSchema>(mut self, status: u16) -> Route {
        self.docs.answers.push((status, Some(schema_of::<T>())));
        self
    }

    /// Gives a status without a body, or with one that is no JSON.
    pub(crate) fn gives_other(mut self, status: u16, kind: &'static str) -> Route {
        self.docs.answers.push((status, None));
        self.docs.kind = kind;
        self
    }

    fn takes_body(&self) -> bool {
        self.docs.request.is_some()
    }
}

/// A request that may be answered.
pub(crate) struct Call {
    pub(crate) api: Arc<Inner>,
    pub(crate) caller: Caller,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    /// Where the API is mounted, for addresses in answers.
    pub(crate) base: String,
    pub(crate) names: Names,
    /// What new things are made of, so that whoever does this request again makes the same.
    pub(crate) seed: Option<Uuid>,
    pub(crate) path: Vec<(String, String)>,
    body: Option<Bytes>,
    notes: Arc<Mutex<Notes>>,
}

/// What a handler says of what it did, for the audit log.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) target: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Call {
    /// A part of the path.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// How the path names a run: by its id, or as DEFINITION/KEY with the slash encoded (`order%2F4711`), which is the
    /// caller's own tenant's.
    pub(crate) fn run(&self) -> Result<Target, Problem> {
        let text = self.part("id");
        Ok(match text.rsplit_once('/') {
            Some((definition, key)) => {
                Target::key(definition, key).of_tenant(self.caller.tenant.as_deref().unwrap_or_default())
            }
            None => text.parse::<RunId>()?.into(),
        })
    }

    /// The body. One that was left away is an empty object, where that is allowed.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        body::parse(self.body.as_deref().unwrap_or(b"{}"))
    }

    /// What this was done to, for the audit log.
    pub(crate) fn to(&self, target: impl ToString) {
        self.notes.lock().target = Some(target.to_string());
    }

    /// Whose it is, for the audit log.
    pub(crate) fn of_tenant(&self, tenant: &str) {
        self.notes.lock().tenant = Some(tenant.to_owned());
    }

    /// Why, for the audit log and for whoever looks at the run later.
    pub(crate) fn because(&self, reason: Option<&str>) {
        self.notes.lock().reason = reason.map(str::to_owned);
    }

    /// The address of something of the API.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.base)
    }
}

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

    fn into_response(self) -> Response<Body> {
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

/// Answers a request to one path, which has these routes.
pub(crate) async fn answer(api: Arc<Inner>, routes: Arc<[Route]>, request: Request) -> Response<Body> {
    let names = request.extensions().get::<Names>().cloned().unwrap_or_default();
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    let Some(route) = routes.iter().find(|route| route.method == method) else {
        let allowed: Vec<&str> = routes.iter().map(|route| route.method.as_str()).collect();
        let allowed = allowed.join(", ");
        let problem = Problem::new(Code::METHOD_NOT_ALLOWED, format!("this address knows {allowed}"));
        let allow = HeaderValue::from_str(&allowed).unwrap_or(HeaderValue::from_static("GET"));
        return problem.with(header::ALLOW, allow).answer(&names);
    };
    match through(api, route, request, names.clone()).await {
        Ok(reply) => reply.into_response(),
        Err(problem) => problem.answer(&names),
    }
}

/// From a request to what its handler gives: who asks, what they sent, whether it was answered before.
async fn through(api: Arc<Inner>, route: &Route, request: Request, names: Names) -> Answer {
    let (mut parts, sent) = request.into_parts();
    let caller = admit(&api, route, &parts.headers).await?;
    let path = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .map_err(|_| Problem::new(Code::INVALID_UTF8, "the path is not UTF-8"))?;
    let path: Vec<(String, String)> =
        path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Some((name, _)) = path.iter().find(|(_, value)| value.chars().any(char::is_control)) {
        let detail = format!("{name} in the path has a control character");
        return Err(Problem::new(Code::INVALID_CHARACTER, detail));
    }
    let query = Query::read(parts.uri.query(), route.query)?;
    let within = if route.patient { api.longest_wait + PATIENCE } else { api.request_timeout };
    let work = async {
        let body = read_body(&api, route, &parts.headers, sent).await?;
        let original = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        let base = original.path().strip_suffix(parts.uri.path()).unwrap_or_default().to_owned();
        let notes = Arc::new(Mutex::new(Notes::default()));
        let call = Call {
            api: api.clone(),
            caller: caller.clone(),
            query,
            headers: parts.headers,
            base,
            names: names.clone(),
            seed: None,
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

/// Looks who asks, and whether they may. The only way to a handler.
async fn admit(api: &Inner, route: &Route, headers: &HeaderMap) -> Result<Caller, Problem> {
    if route.scope == Scope::Public {
        return Ok(Caller { role: access::Role::Viewer, ..Caller::local() });
    }
    let caller = match api.needs_tokens {
        true => access::authenticate(&api.client, headers).await?,
        false => Caller::local(),
    };
    if let Err(wait) = api.pace.take(&caller.account()) {
        let seconds = wait.as_secs() + 1;
        let detail = format!("{} sends too many requests: wait {seconds} s", caller.actor);
        let left = format!("\"default\";r=0;t={seconds}");
        let mut problem = Problem::new(Code::RATE_LIMITED, detail).with(header::RETRY_AFTER, seconds);
        if let Ok(left) = HeaderValue::from_str(&left) {
            problem = problem.with(HeaderName::from_static("ratelimit"), left);
        }
        return Err(problem);
    }
    if !caller.role.may(route.scope) {
        let (role, action) = (caller.role.word(), route.action);
        let detail =
            format!("{action} needs the scope {}, which a {role} does not have", scope_word(route.scope));
        return Err(Problem::new(Code::FORBIDDEN, detail));
    }
    if route.shared && caller.tenant.is_some() {
        let detail =
            format!("{} is about what all tenants share: a token of one tenant may not", route.action);
        return Err(Problem::new(Code::FORBIDDEN, detail));
    }
    Ok(caller)
}

pub(crate) fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::Public => "public",
        Scope::Read => "read",
        Scope::Start => "start",
        Scope::Operate => "operate",
        Scope::Admin => "admin",
    }
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
    let read = body::read(headers, sent, api.body_limit).await?;
    match (read.is_empty(), is_announced) {
        (true, _) if route.docs.optional => Ok(None),
        (false, false) => body::check_type(headers).map(|()| Some(read)),
        _ => Ok(Some(read)),
    }
}

/// Calls the handler. What may change something goes on to its end, its line in the audit log included, also when
/// whoever asked has gone or time is over.
async fn perform(api: &Arc<Inner>, route: &Route, call: Call, notes: Arc<Mutex<Notes>>) -> Answer {
    if route.method == Method::GET || route.scope == Scope::Public {
        return (route.handler)(call).await;
    }
    let (api, route) = (api.clone(), route.clone());
    let task = tokio::spawn(async move { change(&api, &route, call, notes).await });
    task.await.unwrap_or_else(|panicked| Err(Problem::internal(panicked)))
}

/// Calls a handler that may change something, once for each idempotency key, and notes what it did.
async fn change(api: &Inner, route: &Route, call: Call, notes: Arc<Mutex<Notes>>) -> Answer {
    let noted = |call: Call| async {
        let who = (call.caller.clone(), call.names.clone(), call.path.clone());
        let answer = (route.handler)(call).await;
        let status = match &answer {
            Ok(reply) => reply.status,
            Err(problem) => problem.code.status,
        };
        let notes = std::mem::take(&mut *notes.lock());
        audit::note(api, route, who, notes, status).await?;
        answer
    };
    let body = call.body.clone().unwrap_or_default();
    match replies::key(&call.headers)? {
        Some(key) if route.method == Method::POST => replies::once(api, route, key, body, call, noted).await,
        _ => noted(call).await,
    }
}

/// Has a call made of a seed.
pub(crate) fn seeded(call: Call, seed: Uuid) -> Call {
    Call { seed: Some(seed), ..call }
}
