//! What a route is, and what its handler is given.
//!
//! A route is made by [`route`], which takes the scope: there is no route without one. A handler is given a [`Call`], which
//! only `answer` makes, after it has looked who asks and what they may do. So there is no way past it, streams included; a
//! test walks the table over HTTP and looks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use outlast::{RunId, Target};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::access::{Caller, Scope};
use super::openapi::{Docs, schema_of};
use super::problem::{Names, Problem};
use super::query::{Param, Query};
use super::reply::Answer;
use super::run_actions::Reason;
use super::{Inner, body};
use crate::standing;

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
    /// Whether its handler keeps to the queues of whoever is bound to some: without this they may not.
    pub(crate) by_queue: bool,
    /// Whether it may take longer than others: it waits for something.
    pub(crate) patient: bool,
    /// Whether it only looks, whatever its method is: nothing of it is in the audit log.
    pub(crate) looks: bool,
    /// Its body may be a file, which is larger than what others are sent.
    pub(crate) file: Option<FileLimit>,
    pub(crate) query: &'static [Param],
    pub(crate) docs: Docs,
    pub(super) handler: Handler,
}

/// How large a file may be that a route is sent.
#[derive(Clone, Copy)]
pub(crate) struct FileLimit {
    pub(crate) bytes: usize,
    /// What to do with a larger one.
    pub(crate) remedy: &'static str,
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
    let (docs, looks) = (Docs::default(), method == Method::GET);
    let (shared, by_queue, patient, query) = (false, false, false, &[]);
    Route { method, path, scope, action, shared, by_queue, patient, looks, file: None, query, docs, handler }
}

/// A route that only looks.
pub(crate) fn get<F>(path: &'static str, scope: Scope, action: &'static str, handler: fn(Call) -> F) -> Route
where
    F: Future<Output = Answer> + Send + 'static,
{
    route(Method::GET, path, scope, action, handler)
}

/// A route that does something.
pub(crate) fn post<F>(path: &'static str, scope: Scope, action: &'static str, handler: fn(Call) -> F) -> Route
where
    F: Future<Output = Answer> + Send + 'static,
{
    route(Method::POST, path, scope, action, handler)
}

/// A route that takes something away.
pub(crate) fn delete<F>(
    path: &'static str,
    scope: Scope,
    action: &'static str,
    handler: fn(Call) -> F,
) -> Route
where
    F: Future<Output = Answer> + Send + 'static,
{
    route(Method::DELETE, path, scope, action, handler)
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

    /// Keeps to the queues of whoever is bound to some.
    pub(crate) fn by_queue(mut self) -> Route {
        self.by_queue = true;
        self
    }

    /// May wait for something.
    pub(crate) fn patient(mut self) -> Route {
        self.patient = true;
        self
    }

    /// Only looks at what it is sent.
    pub(crate) fn changes_nothing(mut self) -> Route {
        self.looks = true;
        self
    }

    /// Its body is a file of at most so many bytes; with larger ones something else has to be done.
    pub(crate) fn takes_file(mut self, bytes: usize, remedy: &'static str) -> Route {
        self.file = Some(FileLimit { bytes, remedy });
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

    /// The same answer as another type, where that is asked for.
    pub(crate) fn gives_also(mut self, kind: &'static str) -> Route {
        self.docs.also = Some(kind);
        self
    }

    /// Answers once: what it gives is kept nowhere.
    pub(crate) fn once(mut self) -> Route {
        self.docs.once = true;
        self
    }

    pub(super) fn takes_body(&self) -> bool {
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
    /// Whether this was done by somebody who could not answer any more, and whether it changed something then.
    pub(crate) done: Option<bool>,
    pub(crate) path: Vec<(String, String)>,
    pub(super) body: Option<Bytes>,
    pub(super) notes: Arc<Mutex<Notes>>,
}

/// What a handler says of what it did, for the audit log.
#[derive(Default)]
pub(crate) struct Notes {
    /// Whether there will be a line: whoever only looks pays for none.
    pub(crate) kept: bool,
    pub(crate) target: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
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

    /// Why it is asked for, where nothing else can be said; also for the audit log.
    pub(crate) fn reason(&self) -> Result<Reason, Problem> {
        let said: Reason = self.json()?;
        self.because(said.reason.as_deref());
        Ok(said)
    }

    /// The body as it was sent.
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        body::text(self.body.as_deref().unwrap_or_default())
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

    /// Nothing will be changed, and the audit log hears nothing: whoever only asked what would happen did nothing.
    pub(crate) fn only_asks(&self) {
        self.notes.lock().kept = false;
    }

    /// How it stood before, for the audit log.
    pub(crate) fn was(&self, stands: impl FnOnce() -> Value) {
        let mut notes = self.notes.lock();
        if notes.kept {
            notes.before = Some(standing::text(&stands()));
        }
    }

    /// How it stands now, for the audit log.
    pub(crate) fn is_now(&self, stands: impl FnOnce() -> Value) {
        let mut notes = self.notes.lock();
        if notes.kept {
            notes.after = Some(standing::text(&stands()));
        }
    }

    /// The address of something of the API.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.base)
    }
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

/// Has a call made of a seed, and told what became of it before.
pub(crate) fn seeded(call: Call, seed: Uuid, done: Option<bool>) -> Call {
    Call { seed: Some(seed), done, ..call }
}
