//! Runs: listed, counted, started, looked at, deleted.

use std::time::Duration;

use axum::http::header;
use outlast::{Client, Error, Filter, RunId, RunView, Status};
use outlast_core::check_key;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::{Millis, Time, coded};
use super::code::Code;
use super::guard::traceparent;
use super::problem::Problem;
use super::query::{Param, Query, number, text, texts};
use super::route::{Answer, Call, Reply};
use crate::explain::ExplainedJson;
use crate::list::filter;
use crate::shapes::{EntryJson, ErrorJson, LogJson, RunJson, StepJson, raw};
use crate::story::{Story, failure};

/// Which runs: the same words as behind `outlast list`.
macro_rules! filters {
    ($($more:expr),* $(,)?) => {
        &[
            texts("status", "In this status; several are any of them"),
            text("def", "Of this definition"),
            text("queue", "In this queue"),
            text("key", "With this key"),
            texts("tag", "With this tag: NAME=VALUE"),
            text("attr.", "With this tag: attr.NAME=VALUE"),
            text("parent", "Started by this run"),
            text("since", "Started at or after: a time, or 2h for two hours ago"),
            text("until", "Started before"),
            text("q", "With this id, or this key"),
            $($more),*
        ]
    };
}

pub(crate) const LIST: &[Param] = filters![
    text("sort", "newest (unless said) or oldest"),
    text("cursor", "The next_cursor of the page before"),
    number("limit", "At most so many: 1 to 500, 50 unless said"),
];
pub(crate) const COUNT: &[Param] =
    filters![number("cap", "Count no more than this: 1 to 100000, 10000 unless said")];
pub(crate) const HISTORY: &[Param] = &[
    number("after", "Behind this position"),
    number("limit", "At most so many: 1 to 1000, 200 unless said"),
];
pub(crate) const LOGS: &[Param] = &[
    number("after", "Without the first so many lines"),
    number("limit", "At most so many: 1 to 1000, 500 unless said"),
    text("level", "At least so urgent: error, warn, info, debug or trace"),
];
pub(crate) const RESULT: &[Param] = &[text("wait", "Wait so long for the end: 30s, at most 60s")];
pub(crate) const REASON: &[Param] = &[text("reason", "Why, for the audit log")];

/// A page of runs.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunPage {
    items: Vec<RunJson>,
    /// Where the next page begins; `null` at the end.
    next_cursor: Option<String>,
}

/// How many there are.
#[derive(Serialize, ToSchema)]
pub(crate) struct Count {
    count: u64,
    /// Whether there may be more.
    capped: bool,
}

/// A run to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRun {
    /// The workflow or job.
    definition: String,
    /// What it is called with; kept as it was sent.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// The same key never starts twice.
    #[serde(default)]
    key: Option<String>,
    /// The queue, when not the definition's own.
    #[serde(default)]
    queue: Option<String>,
    /// What it belongs to in its queue.
    #[serde(default)]
    group: Option<String>,
    /// From 0 (most urgent) to 9.
    #[serde(default)]
    priority: Option<u8>,
    /// Start so many milliseconds later.
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    delay_ms: Option<Millis>,
    /// Start at this time.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "date-time")]
    at: Option<Time>,
    /// How long it may take until it ends, in milliseconds.
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    timeout_ms: Option<Millis>,
    /// Searchable attributes.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    tags: Tags,
    /// The version of the code, when not the one that new runs take.
    #[serde(default)]
    version: Option<u32>,
}

/// Names with values, each once.
#[derive(Default)]
struct Tags(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tags, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Tags;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tags, A::Error> {
                let mut tags: Vec<(String, String)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if tags.iter().any(|(known, _)| *known == name) {
                        return Err(coded(Code::DUPLICATE_KEY, format_args!("{name:?} is there twice")));
                    }
                    // More than can be are not gathered first.
                    if tags.len() >= outlast::Limits::TAGS {
                        let most = outlast::Limits::TAGS;
                        return Err(coded(Code::INVALID_ARGUMENT, format_args!("at most {most} tags")));
                    }
                    tags.push((name, value));
                }
                Ok(Tags(tags))
            }
        }
        from.deserialize_map(Read)
    }
}

/// A run that was started, or was there already.
#[derive(Serialize, ToSchema)]
pub(crate) struct Started {
    id: String,
    /// Whether this request made it; `false` when its key belonged to one already.
    created: bool,
}

/// How a run ended, or that it has not.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunResult {
    id: String,
    #[schema(value_type = String)]
    status: Status,
    finished_at: Option<String>,
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Box<RawValue>>,
    error: Option<ErrorJson>,
}

/// What a run did, operation by operation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Steps {
    items: Vec<StepJson>,
}

/// What a run recorded, entry by entry.
#[derive(Serialize, ToSchema)]
pub(crate) struct History {
    items: Vec<EntryJson>,
    /// The position to ask behind for more; `null` at the end.
    next_after: Option<u32>,
}

/// What a run's handlers logged.
#[derive(Serialize, ToSchema)]
pub(crate) struct Logs {
    items: Vec<LogJson>,
    /// How many lines to ask behind for more.
    next_after: u32,
}

/// The run that the path names, if whoever asks may know of it.
pub(crate) async fn find(call: &Call) -> Result<RunView, Problem> {
    let run = call.api.client.find(call.run()?).await?;
    let view = visible(&call.api.client, &call.caller, run).await?;
    call.to(run);
    call.of_tenant(&view.record.tenant);
    Ok(view)
}

/// A run, unless it is another tenant's: then it is as if there were none.
pub(crate) async fn visible(client: &Client, caller: &Caller, run: RunId) -> Result<RunView, Problem> {
    let unknown = || Problem::from(Error::UnknownRun { run: run.to_string() });
    match client.status(run).await {
        Ok(view) if caller.sees(&view.record.tenant) => Ok(view),
        Ok(_) => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

/// What a query asks for, within what the caller may see.
async fn asked(call: &Call) -> Result<Filter, Problem> {
    let now = call.api.client.store().now().await?;
    let mut filter = filter(&words(&call.query)?, now)?;
    filter.tenant = call.caller.tenant.clone();
    Ok(filter)
}

/// Parameters as the words of the command line's filters.
fn words(query: &Query) -> Result<Vec<String>, Problem> {
    let mut words: Vec<String> = query.all("status").map(|status| format!("status:{status}")).collect();
    for name in ["def", "queue", "key", "parent", "since", "until"] {
        words.extend(query.one(name).map(|value| format!("{name}:{value}")));
    }
    words.extend(query.all("tag").map(|tag| format!("tag:{tag}")));
    words.extend(query.begun("attr.").map(|(name, value)| format!("tag:{name}={value}")));
    if let Some(q) = query.one("q") {
        check_key(q)?;
        words.push(format!("key:{q}"));
    }
    Ok(words)
}

/// Runs that fit, newest first.
pub(crate) async fn list(call: Call) -> Answer {
    let (client, signer) = (&call.api.client, &call.api.signer);
    let limit = call.query.number("limit", 1..=500, 50)?;
    // An id needs no list.
    if let Some(run) = call.query.one("q").and_then(|q| q.parse::<RunId>().ok()) {
        let found = visible(client, &call.caller, run).await.ok();
        return Reply::json(&RunPage {
            items: found.iter().map(RunJson::brief).collect(),
            next_cursor: None,
        });
    }
    let mut filter = asked(&call).await?;
    filter.oldest_first = match call.query.one("sort") {
        None | Some("newest") => false,
        Some("oldest") => true,
        Some(other) => {
            let detail = format!("sort is newest or oldest, not {other:?}");
            return Err(Problem::new(Code::INVALID_ARGUMENT, detail));
        }
    };
    let what = format!("runs\n{:?}\n{}", filter.tenant, filter.oldest_first);
    let after = call.query.one("cursor").map(|text| signer.read_run(text, &what)).transpose()?;
    let page = client.list(&filter, after, limit).await?;
    let next_cursor = page.next.map(|next| signer.write_run(next, &what));
    Reply::json(&RunPage { items: page.runs.iter().map(RunJson::brief).collect(), next_cursor })
}

/// How many runs fit, up to a cap.
pub(crate) async fn count(call: Call) -> Answer {
    let cap = call.query.number("cap", 1..=100_000, 10_000)?;
    let filter = asked(&call).await?;
    let count = call.api.client.count(&filter, cap).await?;
    Reply::json(&Count { count, capped: count >= u64::from(cap) })
}

/// Starts a run.
pub(crate) async fn start(call: Call) -> Answer {
    let ask: StartRun = call.json()?;
    let client = &call.api.client;
    if ask.delay_ms.is_some() && ask.at.is_some() {
        let detail = "delay_ms and at both say when: leave one away";
        return Err(Problem::new(Code::INVALID_ARGUMENT, detail).at("/at"));
    }
    if ask.version == Some(0) {
        return Err(Problem::new(Code::INVALID_ARGUMENT, "versions begin with 1").at("/version"));
    }
    let input = ask.input.as_ref().map_or("null", |input| input.get());
    let mut start = client.start_by_name(&ask.definition, input).owner(&call.caller.actor);
    if let Some(tenant) = &call.caller.tenant {
        start = start.tenant(tenant);
    }
    if let Some(key) = ask.key {
        start = start.key(key);
    }
    if let Some(queue) = ask.queue {
        start = start.queue(queue);
    }
    if let Some(group) = ask.group {
        start = start.group(group);
    }
    if let Some(priority) = ask.priority {
        start = start.priority(priority);
    }
    if let Some(Millis(delay)) = ask.delay_ms {
        start = start.delay(delay);
    }
    if let Some(Time(at)) = ask.at {
        start = start.at(at);
    }
    if let Some(Millis(timeout)) = ask.timeout_ms {
        start = start.timeout(timeout);
    }
    if let Some(version) = ask.version {
        start = start.version(version);
    }
    for (name, value) in ask.tags.0 {
        start = start.tag(name, value);
    }
    if let Some(trace) = traceparent(&call.headers) {
        start = start.trace(trace);
    }
    if let Some((time, random)) = call.seed.map(seed_parts) {
        start = start.seed(time, random);
    }
    call.to(&ask.definition);
    let run = match start.await {
        Ok(run) => run,
        Err(Error::KeyConflict { key, run }) => return Err(conflict(client, key, run).await),
        Err(error) => return Err(error.into()),
    };
    call.to(run.id());
    let location = call.address(&format!("/runs/{}", run.id()));
    let started = Started { id: run.id().to_string(), created: run.created() };
    let reply = Reply::json(&started)?.status(if run.created() { 201 } else { 200 });
    Ok(reply.with(header::LOCATION, location))
}

/// The time and the randomness of which a seed was made.
fn seed_parts(seed: uuid::Uuid) -> (outlast::Timestamp, u64) {
    let (high, low) = seed.as_u64_pair();
    let millis = i64::try_from(high >> 16).unwrap_or_default();
    (outlast::Timestamp::from_micros(millis * 1000), low)
}

/// A key that belongs to a run with another input, and since when.
async fn conflict(client: &Client, key: String, run: RunId) -> Problem {
    let since =
        client.status(run).await.map(|view| format!(" at {}", view.record.created_at)).unwrap_or_default();
    let detail =
        format!("key {key:?} belongs to {run}, which was started{since} with another input: use another key");
    Problem::new(Code::IDEMPOTENCY_CONFLICT, detail)
}

/// One run.
pub(crate) async fn get(call: Call) -> Answer {
    Reply::json(&RunJson::new(&find(&call).await?))
}

/// What it did, operation by operation.
pub(crate) async fn steps(call: Call) -> Answer {
    let view = find(&call).await?;
    let story = Story::read(&call.api.client, &view).await?;
    let items = story.operations.into_iter().map(|operation| StepJson::new(operation, view.finished_at));
    Reply::json(&Steps { items: items.collect() })
}

/// What it recorded, entry by entry.
pub(crate) async fn history(call: Call) -> Answer {
    let run = find(&call).await?.record.id;
    let after = call.query.number("after", 0..=u32::MAX, 0)?;
    let limit = call.query.number("limit", 1..=1000, 200)?;
    let entries = call.api.client.journal(run, after, limit).await?;
    let next_after = entries.last().filter(|_| entries.len() == limit as usize).map(|entry| entry.pos);
    Reply::json(&History { items: entries.iter().map(EntryJson::new).collect(), next_after })
}

/// What its handlers logged.
pub(crate) async fn logs(call: Call) -> Answer {
    const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
    let run = find(&call).await?.record.id;
    let after = call.query.number("after", 0..=100_000, 0)?;
    let limit = call.query.number("limit", 1..=1000, 500)?;
    let least = match call.query.one("level") {
        None => LEVELS.len() - 1,
        Some(level) => LEVELS.iter().position(|known| *known == level).ok_or_else(|| {
            let detail = format!("level is one of {}, not {level:?}", LEVELS.join(", "));
            Problem::new(Code::INVALID_ARGUMENT, detail)
        })?,
    };
    let lines = call.api.client.logs(run, after + limit).await?;
    let next_after = u32::try_from(lines.len()).unwrap_or(u32::MAX).max(after);
    let is_urgent = |line: &&outlast::LogLine| LEVELS[..=least].contains(&line.level.as_str());
    let items = lines.iter().skip(after as usize).filter(is_urgent).map(LogJson::new).collect();
    Reply::json(&Logs { items, next_after })
}

/// Why it is not progressing.
pub(crate) async fn explain(call: Call) -> Answer {
    let run = find(&call).await?.record.id;
    let explained = call.api.client.explain(run).await?;
    Reply::json(&ExplainedJson { explained: &explained, text: explained.why.to_string() })
}

/// A run with its journal, as a file that `outlast show --file` and `outlast check` read.
pub(crate) async fn export(call: Call) -> Answer {
    let run = find(&call).await?.record.id;
    Ok(Reply::text("application/json", call.api.client.export(run).await?.to_json()))
}

/// How it ended; waits for that if asked to.
pub(crate) async fn result(call: Call) -> Answer {
    let wait = call.query.duration("wait", call.api.longest_wait)?;
    let mut view = find(&call).await?;
    if !view.status.is_final() && !wait.is_zero() {
        view = until_ended(&call, view, wait).await?;
    }
    let status = if view.status.is_final() { 200 } else { 202 };
    let ended = view.ended.as_ref();
    let result = RunResult {
        id: view.record.id.to_string(),
        status: view.status,
        finished_at: view.finished_at.map(|time| time.to_string()),
        output: raw(ended.and_then(|ended| ended.output.as_ref())),
        error: failure(&view).map(ErrorJson::new),
    };
    Ok(Reply::json(&result)?.status(status))
}

/// How often a waiting request looks without any hint.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The run once it has ended, or when the time or the server is over.
async fn until_ended(call: &Call, view: RunView, wait: Duration) -> Result<RunView, Problem> {
    let (client, run) = (&call.api.client, view.record.id);
    // Listening before looking, so that an end in between is not missed.
    let mut signals = client.store().signals();
    let over = tokio::time::sleep(wait);
    tokio::pin!(over);
    loop {
        let view = client.status(run).await?;
        if view.status.is_final() {
            return Ok(view);
        }
        tokio::select! {
            // A hint, a missed hint or the clock: all mean to look again.
            _ = tokio::time::timeout(LOOK_EVERY, signals.recv()) => {}
            () = &mut over => return Ok(view),
            () = call.api.stopping.cancelled() => return Ok(view),
        }
    }
}

/// Deletes a run that has ended.
pub(crate) async fn delete(call: Call) -> Answer {
    call.because(call.query.one("reason"));
    let view = find(&call).await?;
    let run = view.record.id;
    if !view.status.is_final() {
        let detail = format!("{run} is {}: cancel or kill it first", view.status);
        return Err(Problem::new(Code::CONFLICT, detail));
    }
    match call.api.client.purge_run(run).await? {
        true => Ok(Reply::nothing()),
        false => {
            let detail = format!(
                "{run} stands for its kind for a while, or was tried again: it stays until that is over"
            );
            Err(Problem::new(Code::CONFLICT, detail))
        }
    }
}
