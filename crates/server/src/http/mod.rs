//! The HTTP API: an axum router that can be mounted anywhere, and the server of the `outlast` binary.
//!
//! ```no_run
//! use outlast::prelude::*;
//! use outlast_server::http::Api;
//!
//! # async fn example(app: App) -> Result<(), AnyError> {
//! // Beside your own routes, and behind your own layers.
//! let api = Api::new(app.client().clone()).router().await?;
//! let router: axum::Router = axum::Router::new().nest("/ops", api);
//! # Ok(()) }
//! ```
//!
//! [`serve()`] answers with the limits of the `outlast` binary. Under axum's own `serve` the audit log knows from which address
//! a request came if it is told: `router.into_make_service_with_connect_info::<SocketAddr>()`.
//!
//! The dashboard comes with it, unless the feature `embed` is off, or [`Api::without_dashboard`] says so.
//!
//! Who may ask is said by tokens (`outlast token create`); [`Api::without_tokens`] leaves that to whoever mounts it. The
//! table of routes is in `routes`; what can be answered when something is not done is in `code`.
//!
#![doc = include_str!("codes.md")]

mod access;
mod answer;
mod audit;
mod body;
mod bound;
mod bulks;
mod chain;
mod code;
mod compress;
mod cursor;
#[cfg(feature = "embed")]
mod dashboard;
mod eye;
mod guard;
mod health;
mod idle;
mod live;
mod logs;
mod news;
mod openapi;
mod openmetrics;
mod pace;
mod pages;
mod payloads;
mod policy;
#[cfg(feature = "embed")]
mod preload;
mod problem;
mod prompt;
mod proxy;
mod query;
mod queues;
mod replies;
mod reply;
mod route;
mod routes;
mod run_actions;
mod runs;
mod schedules;
mod serve;
mod sessions;
mod set_schedule;
mod shared;
mod start;
mod stats;
mod strangers;
mod sums;
mod system;
mod tls;
mod tokens;
#[cfg(feature = "embed")]
mod ui_proxy;

pub(crate) use self::access::{DEFAULT_AGE, Role, TokenAsk, Tokens, create as create_token, tokens};
pub(crate) use self::answer::may;
pub(crate) use self::audit::{AuditJson, token_name};
pub(crate) use self::bound::Queues;
pub(crate) use self::chain::{ChainJson, LINES as CHAIN_LINES, look as look_at_chain, read_link, write_link};
pub(crate) use self::code::Code;
#[cfg(feature = "otlp")]
pub(crate) use self::guard::traceparent;
pub(crate) use self::health::metrics_alone;
pub(crate) use self::policy::parse_origin;
pub use self::proxy::Proxy;
pub(crate) use self::run_actions::event_name;
#[cfg(unix)]
pub use self::serve::serve_unix;
pub(crate) use self::serve::{LOOPBACK, bind};
pub use self::serve::{serve, serve_tls};
pub(crate) use self::sessions::first_ticket;
pub(crate) use self::stats::ErrorGroupJson;
pub use self::tls::Tls;
pub(crate) use self::tokens::{TokenJson, parse_token_name};
#[cfg(feature = "embed")]
pub(crate) use self::ui_proxy::parse as parse_ui_proxy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware;
use axum::routing::any;
use bytes::Bytes;
use metrics_exporter_prometheus::PrometheusHandle;
use outlast::{Client, Error, Limits};
use outlast_store::{Access, Accessed};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;

use self::access::Door;
use self::cursor::Signer;
use self::guard::Guard;
use self::live::Live;
use self::pace::Pace;
use self::problem::{Names, Problem};
use self::route::Route;
use self::strangers::Strangers;
use self::system::LastChecks;
use crate::config::ShownSetting;
use crate::redact::Redact;

/// How many large files are read at once.
const FILES: usize = 2;

/// The HTTP API of one client, about to be mounted.
#[must_use = "nothing is served until its router is mounted"]
pub struct Api {
    client: Client,
    door: Door,
    hosts: Hosts,
    proxy: Option<Proxy>,
    body_limit: usize,
    request_timeout: Duration,
    longest_wait: Duration,
    pace: (u32, u32),
    metrics: Option<PrometheusHandle>,
    secure: bool,
    keep_audit: Duration,
    redact: Redact,
    settings: Vec<ShownSetting>,
    #[cfg_attr(not(feature = "embed"), allow(dead_code, reason = "only the dashboard shows it"))]
    environment: Option<String>,
    #[cfg_attr(not(feature = "embed"), allow(dead_code, reason = "only the dashboard asks it"))]
    codec: Option<String>,
    stopping: CancellationToken,
    #[cfg(feature = "embed")]
    dashboard: bool,
    #[cfg(feature = "embed")]
    ui_proxy: Option<axum::http::uri::Authority>,
}

/// Which hosts a request may mean.
#[derive(Debug, Clone)]
pub(crate) enum Hosts {
    Any,
    Only(Vec<String>),
}

/// What all handlers share.
pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) door: Door,
    /// Who says for whom they ask.
    pub(crate) proxy: Option<Arc<Proxy>>,
    pub(crate) body_limit: usize,
    /// Whoever sends a file that is larger than that holds one of these while it is read: each takes several times its size.
    pub(crate) files: Semaphore,
    pub(crate) request_timeout: Duration,
    pub(crate) longest_wait: Duration,
    pub(crate) pace: Pace,
    pub(crate) strangers: Strangers,
    pub(crate) signer: Signer,
    pub(crate) metrics: Option<PrometheusHandle>,
    /// Whether browsers reach it by TLS.
    pub(crate) secure: bool,
    pub(crate) keep_audit: Duration,
    /// What all but admins do not see.
    pub(crate) redact: Option<Arc<Redact>>,
    pub(crate) openapi: Bytes,
    pub(crate) live: Live,
    pub(crate) settings: Vec<ShownSetting>,
    pub(crate) checks: LastChecks,
    pub(crate) stopping: CancellationToken,
}

impl Api {
    /// The API of this client. Every request needs a token, may mean any host, and may bring 1 MiB.
    pub fn new(client: Client) -> Api {
        Api {
            client,
            door: Door::Guarded,
            hosts: Hosts::Any,
            proxy: None,
            body_limit: 1 << 20,
            request_timeout: Duration::from_secs(30),
            longest_wait: Duration::from_secs(60),
            pace: (500, 1000),
            metrics: None,
            secure: false,
            keep_audit: Duration::from_secs(400 * 86_400),
            redact: Redact::default(),
            settings: Vec::new(),
            environment: None,
            codec: None,
            stopping: CancellationToken::new(),
            #[cfg(feature = "embed")]
            dashboard: true,
            #[cfg(feature = "embed")]
            ui_proxy: None,
        }
    }

    /// The API alone: where its pages would be there is nothing.
    #[cfg(feature = "embed")]
    pub fn without_dashboard(mut self) -> Api {
        self.dashboard = false;
        self
    }

    /// Takes the dashboard's pages from the server of whoever changes them, `http://localhost:5173`, instead of the binary.
    #[cfg(feature = "embed")]
    pub fn ui_proxy(mut self, url: &str) -> Result<Api, Error> {
        self.ui_proxy = Some(ui_proxy::parse(url).map_err(Error::misconfigured)?);
        Ok(self)
    }

    /// Asks for no token: whoever reaches it may do everything. For a machine that only its user reaches, or behind layers
    /// that have looked already.
    pub fn without_tokens(mut self) -> Api {
        self.door = Door::Open;
        self
    }

    /// Asks for no token until somebody has made one; then for good.
    pub(crate) fn until_token(mut self) -> Api {
        self.door = Door::until_token();
        self
    }

    /// Believes a proxy that says in headers who asks; others still need a token, and what they say in those headers is
    /// taken away. From it, `X-Forwarded-For` says from which address somebody asks, for the audit log.
    pub fn proxy(mut self, proxy: Proxy) -> Api {
        self.proxy = Some(proxy);
        self.door = Door::Guarded;
        self
    }

    /// Only requests that mean one of these hosts are answered: against pages that reach this machine under another name.
    pub fn hosts<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Api {
        self.hosts = Hosts::Only(names.into_iter().map(|name| name.into().to_ascii_lowercase()).collect());
        self
    }

    /// The most bytes of a body: at most 4 MiB.
    pub fn body_limit(mut self, bytes: usize) -> Api {
        self.body_limit = bytes.min(Limits::HARD_PAYLOAD);
        self
    }

    /// How many requests an account may send each second, after a burst.
    pub fn pace(mut self, per_second: u32, burst: u32) -> Api {
        self.pace = (per_second, burst);
        self
    }

    /// Serves what this process measures at `/metrics`.
    pub fn metrics(mut self, metrics: PrometheusHandle) -> Api {
        self.metrics = Some(metrics);
        self
    }

    /// Browsers reach it by TLS: they are told to send the cookie of a session by nothing else.
    pub fn secure(mut self) -> Api {
        self.secure = true;
        self
    }

    /// How long lines of the audit log are kept: 400 days unless said.
    pub fn keep_audit(mut self, keep: Duration) -> Api {
        self.keep_audit = keep;
        self
    }

    /// Hides the values of fields with these names, in payloads and errors and at any depth, from all but admins. What
    /// handlers log and what errors say in words is not looked at.
    pub fn redact<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Api {
        self.redact = Redact::new(names);
        self
    }

    /// What the dashboard calls this installation, at the top of every page: `production`, so that nobody takes it for
    /// another. Whoever reaches the dashboard sees it.
    pub fn environment(mut self, name: impl Into<String>) -> Api {
        self.environment = Some(name.into()).filter(|name| !name.is_empty());
        self
    }

    /// Whom the dashboard may ask to decode payloads: an origin, such as `https://codec.example.com`. Which address there, each browser
    /// says for itself. Without it no page asks anybody but this server.
    pub fn codec_origin(mut self, origin: &str) -> Result<Api, Error> {
        self.codec = Some(policy::parse_origin(origin).map_err(Error::misconfigured)?);
        Ok(self)
    }

    /// What the server goes by, as it may be shown.
    pub(crate) fn settings(mut self, settings: Vec<ShownSetting>) -> Api {
        self.settings = settings;
        self
    }

    /// When this is cancelled, whoever waits for something is answered at once and streams end: for a graceful shutdown.
    pub fn stopping(mut self, stopping: CancellationToken) -> Api {
        self.stopping = stopping;
        self
    }

    /// The router. The key with which cursors are signed is in the database, and made if there is none.
    pub async fn router(self) -> Result<Router, Error> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|error| Error::misconfigured(error.to_string()))?;
        let key: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = match self.client.store().access(&Access::Key(key)).await? {
            Accessed::Key(key) => key,
            _ => return Err(Error::misconfigured("the store gave no key to sign with")),
        };
        let routes = routes::all();
        let proxy = self.proxy.map(Arc::new);
        let inner = Arc::new(Inner {
            live: Live::new(self.client.clone(), self.stopping.clone()),
            client: self.client,
            door: self.door,
            proxy: proxy.clone(),
            body_limit: self.body_limit,
            files: Semaphore::new(FILES),
            request_timeout: self.request_timeout,
            longest_wait: self.longest_wait,
            pace: Pace::new(self.pace.0, self.pace.1),
            strangers: Strangers::default(),
            signer: Signer::new(&key),
            metrics: self.metrics,
            secure: self.secure,
            keep_audit: self.keep_audit,
            settings: self.settings,
            checks: LastChecks::default(),
            redact: Some(self.redact).filter(|redact| !redact.is_empty()).map(Arc::new),
            openapi: document().into(),
            stopping: self.stopping,
        });
        tokio::spawn(stats::keep_summing(Arc::downgrade(&inner)));
        let mut paths: BTreeMap<&str, Vec<Route>> = BTreeMap::new();
        for route in routes {
            paths.entry(route.path).or_default().push(route);
        }
        let mut router = Router::new();
        for (path, routes) in paths {
            let (inner, routes) = (inner.clone(), Arc::<[Route]>::from(routes));
            let answer = move |request: Request| answer::answer(inner.clone(), routes.clone(), request);
            router = router.route(path, any(answer));
        }
        router = router.fallback(nothing_here);
        #[cfg(feature = "embed")]
        if self.dashboard {
            router = match self.ui_proxy {
                Some(from) => ui_proxy::add(router, from),
                None => {
                    let told = dashboard::Told { environment: self.environment, codec: self.codec };
                    dashboard::add(router, told)
                }
            };
        }
        let router = router.layer(CompressionLayer::new().compress_when(compress::Texts));
        Ok(guarded(router, Guard { hosts: self.hosts, proxy }))
    }
}

/// A router whose requests have a name, mean one of these hosts and come from no other site.
fn guarded(router: Router, guard: Guard) -> Router {
    let guard = Arc::new(guard);
    let guard = move |request, next| guard::guard(guard.clone(), request, next);
    router.layer(middleware::from_fn(guard))
}

async fn nothing_here(request: Request) -> axum::response::Response {
    let names = request.extensions().get::<Names>().cloned().unwrap_or_default();
    let path = outlast_core::shorten(request.uri().path(), 80);
    Problem::new(Code::NOT_FOUND, format!("there is nothing at {path:?}: /openapi.json has what there is"))
        .answer(&names)
}

/// The OpenAPI document, as it is served and as `outlast openapi` prints it.
pub fn document() -> String {
    let document = openapi::document(&routes::all());
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}
