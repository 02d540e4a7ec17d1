//! Starts runs: what is asked for, and whether it is there already.

use axum::http::header;
use outlast::{Error, RunId};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::{Millis, Time, coded, whole};
use super::code::Code;
use super::guard::{traceparent, tracestate};
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::Call;
use super::runs::visible;
use crate::standing;

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
    #[serde(default, deserialize_with = "priority")]
    #[schema(maximum = 9)]
    priority: Option<u8>,
    /// Start so many milliseconds later.
    #[serde(default)]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3_162_240_000_000i64)]
    delay_ms: Option<Millis>,
    /// Start at this time.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "date-time")]
    at: Option<Time>,
    /// How long it may take until it ends, in milliseconds.
    #[serde(default)]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3_162_240_000_000i64)]
    timeout_ms: Option<Millis>,
    /// Searchable attributes.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    tags: Tags,
    /// The version of the code, when not the one that new runs take.
    #[serde(default)]
    #[schema(minimum = 1)]
    version: Option<u32>,
    /// Why; for the audit log.
    #[serde(default)]
    reason: Option<String>,
    /// Only say whether a run would be started.
    #[serde(default)]
    dry_run: bool,
}

pub(super) fn priority<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let found = Option::<serde_json::Number>::deserialize(from)?;
    found.map(|found| whole("a priority", "0 (most urgent) to 9", &found)).transpose()
}

/// Names with values, each once.
#[derive(Default)]
pub(super) struct Tags(pub(super) Vec<(String, String)>);

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

/// What would become of a start: nothing was started.
#[derive(Serialize, ToSchema)]
pub(crate) struct StartPlan {
    dry_run: bool,
    /// The run that is there already, to which its key belongs; `null`: one would be started.
    run: Option<String>,
}

/// Starts a run.
pub(crate) async fn start(call: Call) -> Answer {
    let ask: StartRun = call.json()?;
    if ask.dry_run {
        call.only_asks();
    }
    call.because(ask.reason.as_deref());
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
        let state = tracestate(&call.headers);
        start = start.trace(state.map_or(trace.clone(), |state| format!("{trace};{state}")));
    }
    if let Some((time, random)) = call.seed.map(seed_parts) {
        start = start.seed(time, random);
    }
    call.to(&ask.definition);
    let start = start.prepared().await?;
    call.caller.may_use(start.queue()).map_err(|problem| problem.at("/queue"))?;
    // What stands for its kind elsewhere would be given, or replaced: so it is looked at first.
    if ask.dry_run || call.caller.queues.is_some() {
        let run = taken(&call, start.rehearse().await).await?;
        if let Some(run) = run {
            reached(&call, run).await?;
        }
        if ask.dry_run {
            return Reply::json(&StartPlan { dry_run: true, run: run.map(|run| run.to_string()) });
        }
    }
    let run = taken(&call, start.start().await).await?;
    if !run.created() {
        reached(&call, run.id()).await?;
    }
    call.to(run.id());
    call.is_now(|| json!({ "created": run.created(), "definition": ask.definition, "input": standing::hash(input.as_bytes()) }));
    let location = call.address(&format!("/runs/{}", run.id()));
    let started = Started { id: run.id().to_string(), created: run.created() };
    let reply = Reply::json(&started)?.status(if run.created() { 201 } else { 200 });
    Ok(reply.with(header::LOCATION, location))
}

/// The time and the randomness of which a seed was made.
pub(super) fn seed_parts(seed: uuid::Uuid) -> (outlast::Timestamp, u64) {
    let (high, low) = seed.as_u64_pair();
    let millis = i64::try_from(high >> 16).unwrap_or_default();
    (outlast::Timestamp::from_micros(millis * 1000), low)
}

/// Refuses a run that is there already, and of which whoever asks may not know: not even its id is told.
async fn reached(call: &Call, run: RunId) -> Result<(), Problem> {
    match visible(&call.api.client, &call.caller, run).await {
        Err(problem) if problem.code == Code::NOT_FOUND => {
            let detail = "a run with this key, or of this kind, is in a queue that this token does not reach: use another key, or a \
                          token that reaches it";
            Err(Problem::new(Code::FORBIDDEN, detail))
        }
        other => other.map(drop),
    }
}

/// What a start gives; of a key that belongs to a run with another input, also since when.
async fn taken<T>(call: &Call, started: Result<T, Error>) -> Result<T, Problem> {
    if let Err(Error::KeyConflict { run, .. } | Error::AlreadyExists { run, .. }) = &started {
        reached(call, *run).await?;
    }
    let Err(Error::KeyConflict { key, run }) = started else { return Ok(started?) };
    let client = &call.api.client;
    let since =
        client.status(run).await.map(|view| format!(" at {}", view.record.created_at)).unwrap_or_default();
    let detail =
        format!("key {key:?} belongs to {run}, which was started{since} with another input: use another key");
    Err(Problem::new(Code::IDEMPOTENCY_CONFLICT, detail))
}
