//! The installation: how it stands, what it goes by, and what may be wrong with it.

use std::time::Duration;

use outlast::{DefinitionCard, NodeView, Status, Timestamp};
use outlast_store::{Definitions, DynStore, PoolUse, TableSize};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::problem::Problem;
use super::query::{Param, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use crate::config::ShownSetting;
use crate::doctor::{self, CheckJson};
use crate::shapes::millis;
use crate::when::When;

/// The installation.
#[derive(Serialize, ToSchema)]
pub(crate) struct System {
    version: &'static str,
    /// `sqlite` or `postgres`.
    store: &'static str,
    shards: u16,
    /// The database's time, by which everything is judged.
    now: When,
    nodes: usize,
    /// Whether requests need tokens.
    tokens: bool,
    /// The newest file of the schema that this version knows.
    schema: i64,
    /// Whether hints of other processes arrive (`LISTEN` on PostgreSQL); without them everybody looks for work now and then.
    hears_others: bool,
    /// The connections of this process; `null` on SQLite.
    pool: Option<PoolJson>,
    /// How many runs nodes hold by their leases.
    held: u64,
    /// When the first lease ends, unless its node renews it.
    next_lease_end: Option<When>,
    /// When the first run ended that is in no sum yet; `null` when all are.
    unsummed_since: Option<When>,
    /// For how long what has ended is in the sums that charts are made of.
    keeps_sums_ms: u64,
    /// For how long lines of the audit log are kept.
    keeps_audit_ms: u64,
    /// For how long ended runs are kept where that is not for ever.
    retention: Vec<RetentionJson>,
    /// When the first of the runs that have ended is kept no longer, as far as the oldest of them tell: nodes delete it within
    /// a minute. Where that is long ago, they do not keep up.
    next_purge_at: Option<When>,
}

/// The connections of a process.
#[derive(Serialize, ToSchema)]
#[schema(as = Pool)]
pub(crate) struct PoolJson {
    size: usize,
    in_use: usize,
}

/// For how long ended runs are kept. Nodes look once a minute for what is kept no longer.
#[derive(Serialize, ToSchema)]
#[schema(as = RetentionOf)]
pub(crate) struct RetentionJson {
    /// A definition; `null`: all that do not say it themselves.
    definition: Option<String>,
    /// Milliseconds for each of `completed`, `failed` and `cancelled`; what is not there is kept for ever.
    keeps_ms: serde_json::Value,
}

/// How much room tables take.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tables {
    /// The largest first; none where the database is in memory.
    items: Vec<TableJson>,
}

/// How much room a table takes.
#[derive(Serialize, ToSchema)]
#[schema(as = Table)]
pub(crate) struct TableJson {
    name: String,
    /// With its indexes.
    bytes: u64,
}

pub(crate) async fn system(call: Call) -> Answer {
    let (client, store) = (&call.api.client, call.api.client.store());
    let (nodes, upkeep) = (client.nodes().await?, store.upkeep().await?);
    let cards = client.definitions().await?;
    Reply::json(&System {
        version: env!("CARGO_PKG_VERSION"),
        store: store.name(),
        shards: store.shards(),
        now: When(upkeep.now),
        nodes: nodes.len(),
        tokens: call.api.door.asks(client).await?,
        schema: outlast_store::newest_schema(),
        hears_others: store.hears_others(),
        pool: store.pool().map(|PoolUse { size, in_use }| PoolJson { size, in_use }),
        held: nodes.iter().map(|node| node.holds).sum(),
        next_lease_end: nodes.iter().map(|node| node.lease_until).min().map(When),
        unsummed_since: upkeep.unsummed_since.map(When),
        keeps_sums_ms: millis(super::stats::KEEP),
        keeps_audit_ms: millis(call.api.keep_audit),
        retention: retention(&nodes, &cards),
        next_purge_at: next_purge(store, &nodes, &cards).await?.map(When),
    })
}

/// What somebody says of how long ended runs are kept; all of it may be for ever.
fn said(text: &str) -> Option<serde_json::Map<String, Value>> {
    let found: Value = serde_json::from_str(text).ok()?;
    Some(found.get("retention_ms")?.as_object()?.clone())
}

/// What nodes say of all runs, each thing once.
fn said_of_all(nodes: &[NodeView]) -> Vec<serde_json::Map<String, Value>> {
    let mut all: Vec<serde_json::Map<String, Value>> = Vec::new();
    for keeps in nodes.iter().filter_map(|node| said(&node.about)) {
        if !all.contains(&keeps) {
            all.push(keeps);
        }
    }
    all
}

/// What nodes say of all runs, where they say anything, and what definitions say of their own.
fn retention(nodes: &[NodeView], cards: &[DefinitionCard]) -> Vec<RetentionJson> {
    let all = said_of_all(nodes).into_iter().map(|keeps| (None, keeps));
    let own = cards.iter().filter(|card| card.active);
    let own = own.filter_map(|card| Some((Some(card.name.clone()), said(&card.options)?)));
    let is_something = |(_, keeps): &(Option<String>, serde_json::Map<String, Value>)| {
        keeps.values().any(|keep| !keep.is_null())
    };
    let shape = |(definition, keeps): (_, serde_json::Map<String, Value>)| RetentionJson {
        definition,
        keeps_ms: keeps.into(),
    };
    all.chain(own).filter(is_something).map(shape).collect()
}

/// When the first run is kept no longer: those of definitions that say so themselves, and those of all others.
async fn next_purge(
    store: &DynStore,
    nodes: &[NodeView],
    cards: &[DefinitionCard],
) -> Result<Option<Timestamp>, Problem> {
    let own: Vec<(String, serde_json::Map<String, Value>)> = cards
        .iter()
        .filter(|card| card.active)
        .filter_map(|card| Some((card.name.clone(), said(&card.options)?)))
        .collect();
    let named = own.iter().map(|(name, keeps)| (Definitions::Only(vec![name.clone()]), keeps.clone()));
    let rest = Definitions::Except(own.iter().map(|(name, _)| name.clone()).collect());
    let rest = said_of_all(nodes).into_iter().map(|keeps| (rest.clone(), keeps));
    let mut first: Option<Timestamp> = None;
    for (of, keeps) in named.chain(rest) {
        for status in [Status::Completed, Status::Failed, Status::Cancelled] {
            let Some(keep) = keeps.get(status.word()).and_then(Value::as_u64) else { continue };
            let Some(oldest) = store.oldest_ended(status, &of).await? else { continue };
            let gone = oldest + Duration::from_millis(keep);
            first = Some(first.map_or(gone, |first| first.min(gone)));
        }
    }
    Ok(first)
}

/// How much room tables take. On SQLite that reads the whole file.
pub(crate) async fn tables(call: Call) -> Answer {
    let sizes = call.api.client.store().table_sizes().await?;
    let items = sizes.into_iter().map(|TableSize { name, bytes }| TableJson { name, bytes });
    Reply::json(&Tables { items: items.collect() })
}

/// How the database and the work in it are doing.
#[derive(Serialize, ToSchema)]
pub(crate) struct Checks {
    items: Vec<CheckJson>,
    /// When that was looked at.
    looked_at: When,
}

pub(crate) const CHECKS: &[Param] = &[text(
    "max_age",
    "What was found within so long is good enough, such as 10m, at most 1d; looks anew unless said",
)];

/// What was found last, so that many who want to see it do not all have the database looked at.
#[derive(Default)]
pub(crate) struct LastChecks(Mutex<Option<(Timestamp, Vec<CheckJson>)>>);

/// The same that `outlast doctor` looks at.
pub(crate) async fn checks(call: Call) -> Answer {
    let max_age = call.query.duration("max_age", Duration::from_secs(86_400))?;
    let (client, now) = (&call.api.client, call.api.client.store().now().await?);
    // Whoever comes meanwhile waits, and has what was found.
    let mut last = call.api.checks.0.lock().await;
    let known = last.take().filter(|(at, _)| now.since(*at) < max_age);
    let (at, items) = match known {
        Some(known) => known,
        None => (now, doctor::checks(client).await),
    };
    *last = Some((at, items.clone()));
    Reply::json(&Checks { items, looked_at: When(at) })
}

/// What the server goes by.
#[derive(Serialize, ToSchema)]
pub(crate) struct Config {
    items: Vec<ShownSetting>,
}

/// The settings that count here, with where each comes from; none where a program has mounted the API itself.
pub(crate) async fn config(call: Call) -> Answer {
    Reply::json(&Config { items: call.api.settings.clone() })
}
