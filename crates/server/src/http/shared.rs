//! What all share: nodes and definitions.

use std::time::Duration;

use outlast::{DefinitionCard, NodeView};
use outlast_store::{PoolUse, TableSize};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::nearest;
use super::code::Code;
use super::problem::Problem;
use super::query::{Param, text};
use super::reply::{Answer, Reply};
use super::route::Call;
use crate::doctor::{self, CheckJson};
use crate::shapes::{DefinitionJson, LostNodeJson, NodeJson};

/// The nodes that are up.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodePage {
    items: Vec<NodeJson>,
}

/// The nodes that were lost in the last day.
#[derive(Serialize, ToSchema)]
pub(crate) struct LostNodePage {
    items: Vec<LostNodeJson>,
}

/// What nodes know how to run.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionPage {
    items: Vec<DefinitionJson>,
}

/// Words that could follow.
#[derive(Serialize, ToSchema)]
pub(crate) struct Suggestions {
    items: Vec<String>,
}

/// The installation.
#[derive(Serialize, ToSchema)]
pub(crate) struct System {
    version: &'static str,
    /// `sqlite` or `postgres`.
    store: &'static str,
    shards: u16,
    /// The database's time, by which everything is judged.
    now: String,
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
    next_lease_end: Option<String>,
    /// When the first run ended that is in no sum yet; `null` when all are.
    unsummed_since: Option<String>,
    /// For how long what has ended is in the sums that charts are made of.
    keeps_sums_ms: u64,
    /// For how long lines of the audit log are kept.
    keeps_audit_ms: u64,
    /// For how long ended runs are kept where that is not for ever.
    retention: Vec<RetentionJson>,
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

pub(crate) const SUGGEST: &[Param] =
    &[text("field", "Of what: status, def or queue"), text("q", "How they begin")];

/// What a filter's field can be followed by.
pub(crate) async fn suggest(call: Call) -> Answer {
    let client = &call.api.client;
    let mut items: Vec<String> = match call.query.one("field") {
        Some("status") => outlast::Status::ALL.iter().map(|status| status.word().to_owned()).collect(),
        Some("def") => client.definitions().await?.into_iter().map(|card| card.name).collect(),
        Some("queue") => client.definitions().await?.into_iter().map(|card| card.queue).collect(),
        other => {
            let detail = format!("field is status, def or queue, not {:?}", other.unwrap_or_default());
            return Err(Problem::new(Code::INVALID_ARGUMENT, detail));
        }
    };
    let begin = call.query.one("q").unwrap_or_default();
    items.retain(|item| item.starts_with(begin));
    items.sort();
    items.dedup();
    items.truncate(50);
    Reply::json(&Suggestions { items })
}

pub(crate) async fn system(call: Call) -> Answer {
    let (client, store) = (&call.api.client, call.api.client.store());
    let (nodes, upkeep) = (client.nodes().await?, store.upkeep().await?);
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Reply::json(&System {
        version: env!("CARGO_PKG_VERSION"),
        store: store.name(),
        shards: store.shards(),
        now: upkeep.now.to_string(),
        nodes: nodes.len(),
        tokens: call.api.door.asks(client).await?,
        schema: outlast_store::newest_schema(),
        hears_others: store.hears_others(),
        pool: store.pool().map(|PoolUse { size, in_use }| PoolJson { size, in_use }),
        held: nodes.iter().map(|node| node.holds).sum(),
        next_lease_end: nodes.iter().map(|node| node.lease_until).min().map(|time| time.to_string()),
        unsummed_since: upkeep.unsummed_since.map(|time| time.to_string()),
        keeps_sums_ms: millis(super::stats::KEEP),
        keeps_audit_ms: millis(call.api.keep_audit),
        retention: retention(&nodes, &client.definitions().await?),
    })
}

/// What nodes say of all runs, where they say anything, and what definitions say of their own.
fn retention(nodes: &[NodeView], cards: &[DefinitionCard]) -> Vec<RetentionJson> {
    let said = |text: &str| -> Option<serde_json::Value> {
        let found: serde_json::Value = serde_json::from_str(text).ok()?;
        let keeps = found.get("retention_ms")?.as_object()?.clone();
        keeps.values().any(|keep| !keep.is_null()).then_some(keeps.into())
    };
    let mut all: Vec<serde_json::Value> = Vec::new();
    for keeps_ms in nodes.iter().filter_map(|node| said(&node.about)) {
        if !all.contains(&keeps_ms) {
            all.push(keeps_ms);
        }
    }
    let all = all.into_iter().map(|keeps_ms| RetentionJson { definition: None, keeps_ms });
    let own = cards.iter().filter(|card| card.active);
    let own = own.filter_map(|card| {
        Some(RetentionJson { definition: Some(card.name.clone()), keeps_ms: said(&card.options)? })
    });
    all.chain(own).collect()
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
}

/// The same that `outlast doctor` looks at.
pub(crate) async fn checks(call: Call) -> Answer {
    Reply::json(&Checks { items: doctor::checks(&call.api.client).await })
}

pub(crate) async fn nodes(call: Call) -> Answer {
    let nodes = call.api.client.nodes().await?;
    Reply::json(&NodePage { items: nodes.iter().map(NodeJson::new).collect() })
}

/// Those that others took over from.
pub(crate) async fn lost_nodes(call: Call) -> Answer {
    let nodes = call.api.client.lost_nodes().await?;
    Reply::json(&LostNodePage { items: nodes.into_iter().map(LostNodeJson::new).collect() })
}

pub(crate) async fn definitions(call: Call) -> Answer {
    let cards = call.api.client.definitions().await?;
    Reply::json(&DefinitionPage { items: cards.iter().map(DefinitionJson::new).collect() })
}

/// All versions of one.
pub(crate) async fn definition(call: Call) -> Answer {
    let name = call.part("name");
    let cards = call.api.client.definitions().await?;
    let names: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
    let versions: Vec<&DefinitionCard> = cards.iter().filter(|card| card.name == name).collect();
    if versions.is_empty() {
        let detail = format!("no workflow or job is called {name:?}{}", nearest(name, &names));
        return Err(Problem::new(Code::NOT_FOUND, detail));
    }
    Reply::json(&DefinitionPage { items: versions.into_iter().map(DefinitionJson::new).collect() })
}
