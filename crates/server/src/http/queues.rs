//! Queues: what stands in them, and what people do to them.
//!
//! How often a queue was changed is its ETag: whoever sends it back with If-Match changes only what they looked at.

use axum::http::header;
use outlast::{QueueCard, QueueRules, QueueView, Rate};
use outlast_store::GroupView;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::body::{Millis, Object, whole};
use super::code::Code;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::Call;
use crate::queue_commands::known;
use crate::shapes::QueueJson;
use crate::standing;

/// All queues.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueuePage {
    items: Vec<QueueJson>,
}

/// The groups of a queue that run most.
#[derive(Serialize, ToSchema)]
pub(crate) struct GroupPage {
    /// At most twenty, the busiest first; none of which nothing runs.
    items: Vec<GroupJson>,
    /// How many runs of one group may be in hand at once; `null` where nothing limits that.
    limit: Option<u32>,
}

/// A group of a queue: runs with the same key.
#[derive(Serialize, ToSchema)]
#[schema(as = Group)]
struct GroupJson {
    name: String,
    /// How many of its runs nodes have in hand.
    running: u64,
    /// How many are in line, due now or later.
    in_line: u64,
}

/// How many groups are told.
const GROUPS: u32 = 20;

/// What a queue allows from now on, whatever code says. What is left away is not limited.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// So many runs at once, on all nodes together.
    #[serde(default, deserialize_with = "slots")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    limit: Option<u32>,
    /// So many at once on one node.
    #[serde(default, deserialize_with = "slots")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    per_node: Option<u32>,
    /// So many at once of one group.
    #[serde(default, deserialize_with = "slots")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    per_group: Option<u32>,
    /// So many begin in any such span.
    #[serde(default)]
    #[schema(value_type = Option<RateLimit>)]
    rate: Option<Object<RateLimit>>,
    /// The same for each group.
    #[serde(default)]
    #[schema(value_type = Option<RateLimit>)]
    rate_per_group: Option<Object<RateLimit>>,
    /// Groups take turns.
    #[serde(default)]
    fair: bool,
    /// The runs of a group run one after another.
    #[serde(default)]
    ordered: bool,
    /// Why; for the audit log.
    #[serde(default)]
    reason: Option<String>,
}

/// So many in any span of so long.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RateLimit {
    #[serde(deserialize_with = "begins")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    count: u32,
    #[schema(value_type = u64, minimum = 1, maximum = 3_162_240_000_000i64)]
    per_ms: Millis,
}

/// The numbers that limits and rates may have.
const SLOTS: &str = "1 to 1,000,000";

fn slots<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let found = Option::<serde_json::Number>::deserialize(from)?;
    found.map(|found| whole("a limit", SLOTS, &found)).transpose()
}

fn begins<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    whole("a rate", SLOTS, &serde_json::Number::deserialize(from)?)
}

impl Limits {
    fn rules(self) -> QueueRules {
        let rate = |Object(rate): Object<RateLimit>| Rate::new(rate.count, rate.per_ms.0);
        QueueRules {
            limit: self.limit,
            per_node: self.per_node,
            per_group: self.per_group,
            rate: self.rate.map(rate),
            rate_per_group: self.rate_per_group.map(rate),
            fair: self.fair,
            ordered: self.ordered,
        }
    }
}

pub(crate) async fn list(call: Call) -> Answer {
    let views = call.api.client.queues().await?;
    let own = views.iter().filter(|view| call.caller.sees_queue(&view.queue.name));
    Reply::json(&QueuePage { items: own.map(QueueJson::new).collect() })
}

/// The queue that the path names, if it is one of whoever asks.
pub(super) async fn named(call: &Call) -> Result<QueueCard, Problem> {
    let name = call.part("name");
    call.caller.may_use(name)?;
    match known(&call.api.client, name).await {
        // Which others there are is not for whoever is bound to some.
        Err(fault) if fault.code() == "not_found" && call.caller.queues.is_some() => {
            Err(Problem::not_found(format_args!("queue {name:?}")))
        }
        other => Ok(other?),
    }
}

pub(crate) async fn get(call: Call) -> Answer {
    let card = named(&call).await?;
    told(&call, card).await
}

/// Its groups that run most.
pub(crate) async fn groups(call: Call) -> Answer {
    let QueueCard { name, rules, .. } = named(&call).await?;
    let found = call.api.client.store().queue_groups(&name, GROUPS).await?;
    let shape = |GroupView { name, running, in_line }| GroupJson { name, running, in_line };
    let limit = if rules.ordered { Some(1) } else { rules.per_group };
    Reply::json(&GroupPage { items: found.into_iter().map(shape).collect(), limit })
}

/// The queue that is to be changed.
async fn found(call: &Call) -> Result<QueueCard, Problem> {
    let card = named(call).await?;
    call.was(|| standing::queue(&card));
    Ok(card)
}

pub(crate) async fn pause(call: Call) -> Answer {
    call.reason()?;
    let before = found(&call).await?;
    meant(&call, &before)?;
    let card = match call.done {
        Some(_) => before,
        None => call.api.client.pause_queue(&before.name).await?,
    };
    told(&call, card).await
}

pub(crate) async fn resume(call: Call) -> Answer {
    call.reason()?;
    let before = found(&call).await?;
    meant(&call, &before)?;
    let card = match call.done {
        Some(_) => before,
        None => call.api.client.resume_queue(&before.name).await?,
    };
    told(&call, card).await
}

pub(crate) async fn drain(call: Call) -> Answer {
    call.reason()?;
    let before = found(&call).await?;
    meant(&call, &before)?;
    let card = match call.done {
        Some(_) => before,
        None => call.api.client.drain_queue(&before.name).await?,
    };
    told(&call, card).await
}

/// Sets rules of people's own.
pub(crate) async fn limit(call: Call) -> Answer {
    let limits: Limits = call.json()?;
    call.because(limits.reason.as_deref());
    set(&call, Some(limits.rules())).await
}

/// Back to what code says.
pub(crate) async fn reset(call: Call) -> Answer {
    call.because(call.query.one("reason"));
    set(&call, None).await
}

async fn set(call: &Call, rules: Option<QueueRules>) -> Answer {
    let (client, before) = (&call.api.client, found(call).await?);
    let card = match meant(call, &before)? {
        None => client.set_queue_rules(&before.name, rules).await?,
        Some(changes) => client.set_queue_rules_at(&before.name, changes, rules).await?.ok_or_else(moved)?,
    };
    told(call, card).await
}

/// How often the queue had been changed when whoever asks looked at it, if they say so; refused if it is another by now.
fn meant(call: &Call, before: &QueueCard) -> Result<Option<i64>, Problem> {
    let sent = call.headers.get(header::IF_MATCH).filter(|sent| *sent != "*");
    let seen = sent.map(|tag| tag.to_str().ok().and_then(read_tag).ok_or_else(moved)).transpose()?;
    match seen {
        // Whoever does again what was done has changed it already.
        Some(changes) if changes != before.changes && call.done.is_none() => Err(moved()),
        seen => Ok(seen),
    }
}

fn moved() -> Problem {
    let detail = "somebody changed the queue since that ETag: look at it again";
    Problem::new(Code::PRECONDITION_FAILED, detail)
}

fn read_tag(tag: &str) -> Option<i64> {
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// Says how a queue stands.
async fn told(call: &Call, card: QueueCard) -> Answer {
    call.to(&card.name);
    call.is_now(|| standing::queue(&card));
    let found = call.api.client.queues().await?.into_iter().find(|view| view.queue.name == card.name);
    let tag = format!("\"{}\"", card.changes);
    // What we did is what we say, whatever others have done since.
    let view = QueueView { queue: card, ..found.unwrap_or_default() };
    Ok(Reply::json(&QueueJson::new(&view))?.with(header::ETAG, tag))
}
