//! What is asked for, as bodies and parameters of the HTTP API.

use outlast::{Bulk, Filter, QueueRules, Rate};
use serde_json::json;
use serde_json::value::RawValue;

use super::wire::Body;
use crate::backend::{BulkAsk, ForkAsk, RepairAsk, ScheduleAsk, StartAsk, Version};
use crate::fault::Fault;
use crate::shapes::millis;
use crate::words::filter_word;

/// A filter as the words of the command line, which are the API's parameters too.
pub(super) fn words(filter: &Filter) -> Vec<(&'static str, String)> {
    let mut words: Vec<(&'static str, String)> =
        filter.statuses.iter().map(|status| ("status", status.word().to_owned())).collect();
    let mut add = |name, value: Option<String>| words.extend(value.map(|value| (name, value)));
    add("def", filter.definition.clone());
    add("queue", filter.queue.clone());
    add("key", filter.key.clone());
    add("parent", filter.parent.map(|run| run.to_string()));
    add("node", filter.node.map(|node| node.to_string()));
    add("version", filter.version.map(|version| version.to_string()));
    add("owner", filter.owner.clone());
    add("stuck", filter.stuck_since.map(|time| time.to_string()));
    add("ended", filter.ended_since.map(|time| time.to_string()));
    add("since", filter.since.map(|time| time.to_string()));
    add("until", filter.until.map(|time| time.to_string()));
    words.extend(filter.tags.iter().map(|(name, value)| ("tag", format!("{name}={value}"))));
    words
}

pub(super) fn start_body(ask: StartAsk) -> Body {
    let tags: serde_json::Map<String, serde_json::Value> =
        ask.tags.into_iter().map(|(name, value)| (name, value.into())).collect();
    Body::default()
        .put("definition", &ask.definition)
        .put("input", &ask.input)
        .maybe("key", &ask.key)
        .maybe("queue", &ask.queue)
        .maybe("priority", &ask.priority)
        .maybe("delay_ms", &ask.delay.map(millis))
        .maybe("at", &ask.at.map(|at| at.to_string()))
        .put("tags", &tags)
}

pub(super) fn message_body(name: &str, data: &RawValue) -> Body {
    Body::default().put("name", name).put("data", data)
}

/// The whole of it, as on a database: nothing of one that is there stays.
pub(super) fn schedule_body(ask: &ScheduleAsk) -> Body {
    let jitter = Some(millis(ask.jitter)).filter(|millis| *millis > 0);
    Body::default()
        .put("replace", &true)
        .put("definition", &ask.definition)
        .put("expression", &ask.expression)
        .put("zone", &ask.zone)
        .put("input", &ask.input)
        .put("overlap", &ask.overlap)
        .put("catch_up", &ask.catch_up)
        .maybe("jitter_ms", &jitter)
        .maybe("queue", &ask.queue)
}

pub(super) fn repair_body(ask: &RepairAsk) -> (&'static str, Body) {
    let body = Body::default().maybe("reason", &ask.reason);
    match &ask.replace {
        Some((step, result)) => ("replace", body.put("step", step).put("result", result)),
        None => ("retry", body.maybe("from", &ask.from).maybe("input", &ask.input)),
    }
}

pub(super) fn fork_body(ask: &ForkAsk) -> Body {
    let body = Body::default()
        .maybe("from", &ask.from)
        .put("from_start", &ask.from_start)
        .maybe("input", &ask.input)
        .maybe("reason", &ask.reason);
    match ask.version {
        None => body,
        Some(Version::Latest) => body.put("latest", &true),
        Some(Version::Number(number)) => body.put("version", &number),
    }
}

pub(super) fn rules_body(rules: &QueueRules) -> Body {
    let rate = |rate: Rate| json!({ "count": rate.count, "per_ms": millis(rate.per) });
    Body::default()
        .maybe("limit", &rules.limit)
        .maybe("per_node", &rules.per_node)
        .maybe("per_group", &rules.per_group)
        .maybe("rate", &rules.rate.map(rate))
        .maybe("rate_per_group", &rules.rate_per_group.map(rate))
        .put("fair", &rules.fair)
        .put("ordered", &rules.ordered)
}

pub(super) fn bulk_body(ask: &BulkAsk) -> Result<Body, Fault> {
    let words = words(&ask.filter).into_iter().map(|(name, value)| filter_word(name, &value));
    let body = Body::default()
        .put("op", ask.op.word())
        .put("filter", &words.collect::<Vec<_>>().join(" "))
        .put("all", &ask.all)
        .maybe("reason", &ask.why());
    let raw = |text: &String| RawValue::from_string(text.clone()).ok();
    Ok(match &ask.op {
        Bulk::Cancel { .. } | Bulk::Kill { .. } | Bulk::Delete { .. } | Bulk::Pause { .. } | Bulk::Resume => {
            body
        }
        Bulk::Retry { from } => body.maybe("from", from),
        Bulk::Fork { from, input, latest, .. } => {
            body.maybe("from", from).maybe("input", &input.as_ref().and_then(raw)).put("latest", latest)
        }
        Bulk::Replace { step, result, .. } => body.put("step", step).maybe("result", &raw(result)),
        other => return Err(Fault::usage(format!("a server cannot be asked to {} many runs", other.word()))),
    })
}
