//! Whether the server is there, whether it can do anything, which it is, and what it measures.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::Guard;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::Call;
use super::{Hosts, guarded, nothing_here, openmetrics};

/// How long the database may take to be called reachable.
const REACH: Duration = Duration::from_secs(1);

/// That the process is alive.
#[derive(Serialize, ToSchema)]
pub(crate) struct Alive {
    status: &'static str,
}

/// Whether it can serve.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ready {
    ready: bool,
    checks: Vec<Check>,
}

/// One thing that has to be so.
#[derive(Serialize, ToSchema)]
pub(crate) struct Check {
    name: &'static str,
    ok: bool,
    /// What to do, where it is not so.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
}

/// Which server this is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Version {
    version: &'static str,
    /// `sqlite` or `postgres`.
    store: &'static str,
    api: &'static str,
}

pub(crate) async fn alive(_call: Call) -> Answer {
    Reply::json(&Alive { status: "ok" })
}

/// It answers only once the database was opened, its schema compared, and its key read: whoever is answered has begun.
pub(crate) async fn started(_call: Call) -> Answer {
    Reply::json(&Alive { status: "ok" })
}

/// The database has to answer in time. The schema was compared when it was opened, and may have been changed since. Whether it
/// can be written to is told by what is written anyway: nodes renew their lease every few seconds.
pub(crate) async fn ready(call: Call) -> Answer {
    let reached = tokio::time::timeout(REACH, call.api.client.store().upkeep()).await;
    let away = match &reached {
        Ok(Ok(_)) => None,
        Ok(Err(_)) => Some("it cannot be asked: `outlast doctor` says why"),
        Err(_) => Some("it does not answer within a second"),
    };
    let upkeep = reached.ok().and_then(Result::ok);
    let fits = upkeep.as_ref().is_some_and(|upkeep| upkeep.schema_fits);
    let writes = upkeep.as_ref().is_some_and(|upkeep| upkeep.takes_writes);
    let is_reached = upkeep.is_some();
    let told = |why| if is_reached { why } else { "not known until the database answers" };
    let unfit = told("it is not of this version any more: `outlast migrate status`");
    let unwritten = told("it has no room left, or may only be read: `outlast doctor` and the log say more");
    let is_up = !call.api.stopping.is_cancelled();
    let checks = vec![
        Check { name: "database", ok: is_reached, detail: away },
        Check { name: "schema", ok: fits, detail: (!fits).then_some(unfit) },
        Check { name: "writes", ok: writes, detail: (!writes).then_some(unwritten) },
        Check { name: "not_stopping", ok: is_up, detail: (!is_up).then_some("the server is about to stop") },
    ];
    let ready = checks.iter().all(|check| check.ok);
    Ok(Reply::json(&Ready { ready, checks })?.status(if ready { 200 } else { 503 }))
}

pub(crate) async fn version(call: Call) -> Answer {
    let store = call.api.client.store().name();
    Reply::json(&Version { version: env!("CARGO_PKG_VERSION"), store, api: "v1" })
}

/// What this process measures, as whoever asks wants it: OpenMetrics, or the text of Prometheus.
pub(crate) async fn metrics(call: Call) -> Answer {
    let Some(metrics) = &call.api.metrics else {
        return Err(Problem::not_found("recorder of metrics in this process: give Api::metrics one"));
    };
    let (kind, text) = measured(metrics, &call.headers);
    Ok(Reply::text(kind, text).with(header::VARY, "accept"))
}

fn measured(metrics: &PrometheusHandle, headers: &HeaderMap) -> (&'static str, String) {
    metrics.run_upkeep();
    openmetrics::answer(headers, metrics.render())
}

/// The metrics alone, for an address of their own, where nobody is asked who they are.
pub(crate) fn metrics_alone(metrics: PrometheusHandle, hosts: Option<Vec<String>>) -> Router {
    let text = move |headers: HeaderMap| {
        let metrics = metrics.clone();
        async move {
            let (kind, text) = measured(&metrics, &headers);
            ([(header::CONTENT_TYPE, kind), (header::VARY, "accept")], text)
        }
    };
    let hosts = hosts.map_or(Hosts::Any, |names| Hosts::Only(names.into_iter().collect()));
    guarded(Router::new().route("/metrics", get(text)).fallback(nothing_here), Guard { hosts, proxy: None })
}
