//! Runs: listed, counted, looked at, waited for, deleted.

use std::time::Duration;

use outlast::{Client, Error, Filter, RunExport, RunId, RunView, Status};
use outlast_core::check_key;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Caller;
use super::bulks;
use super::code::Code;
use super::pages::{CURSOR, Found, LIMIT, Pages, found, page};
use super::payloads::{PREVIEW, enough};
use super::problem::Problem;
use super::query::{Param, Query, number, text, texts};
use super::reply::{Answer, Reply};
use super::route::Call;
use crate::deletion;
use crate::explain::ExplainedJson;
use crate::list::filter;
use crate::redact::hides;
use crate::shapes::{EntryJson, ErrorJson, RunJson, StepJson, raw};
use crate::standing;
use crate::story::{Operation, Story, failure};
use crate::when::When;

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
            text("node", "In the hands of this node: its id"),
            number("version", "Of this version of their definition"),
            text("owner", "Started by this person or program"),
            text("stuck", "In line for longer than this, such as 5m, or unfinished after more than three attempts"),
            text("since", "Started at or after: a time, or 2h for two hours ago"),
            text("until", "Started before"),
            text("ended", "Ended at or after: a time, or 2h for two hours ago"),
            text("failure", "Failed like this: the fingerprint of a group of failures, among the first 10,000 that fit otherwise"),
            text("q", "With this id, or this key"),
            $($more),*
        ]
    };
}

pub(crate) const LIST: &[Param] = filters![text("sort", "newest (unless said) or oldest"), CURSOR, LIMIT,];
pub(crate) const COUNT: &[Param] =
    filters![number("cap", "Count no more than this: 1 to 100000, 10000 unless said")];
pub(crate) const GET: &[Param] = &[PREVIEW];
pub(crate) const HISTORY: &[Param] = &[
    number("after", "Behind this position"),
    number("limit", "At most so many: 1 to 1000, 200 unless said"),
    PREVIEW,
];
pub(crate) const STEPS: &[Param] = &[
    number("after", "Behind so many operations"),
    number("limit", "At most so many: 1 to 10000, 10000 unless said"),
    PREVIEW,
];
pub(crate) const RESULT: &[Param] = &[text("wait", "Wait so long for the end: 30s, at most 60s")];
pub(crate) const REASON: &[Param] = &[text("reason", "Why, for the audit log")];

/// A page of runs.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunPage {
    items: Vec<RunJson>,
    /// Where the next page begins; `null` at the end.
    next_cursor: Option<String>,
    /// Where the page before begins; `null` on the first.
    prev_cursor: Option<String>,
}

/// How many there are.
#[derive(Serialize, ToSchema)]
pub(crate) struct Count {
    count: u64,
    /// Whether there may be more.
    capped: bool,
}

/// How a run ended, or that it has not.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunResult {
    id: String,
    #[schema(value_type = String)]
    status: Status,
    finished_at: Option<When>,
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Box<RawValue>>,
    error: Option<ErrorJson>,
}

/// What a run did, operation by operation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Steps {
    items: Vec<StepJson>,
    /// How many operations there are.
    total: usize,
    /// How many to ask behind for more; `null` at the end.
    next_after: Option<usize>,
}

/// What a run recorded, entry by entry.
#[derive(Serialize, ToSchema)]
pub(crate) struct History {
    items: Vec<EntryJson>,
    /// The position to ask behind for more; `null` at the end.
    next_after: Option<u32>,
}

/// The run that the path names, if whoever asks may know of it.
pub(crate) async fn find(call: &Call) -> Result<RunView, Problem> {
    find_where(call, Caller::sees_run).await
}

/// The same where something else says who may know of it.
pub(crate) async fn find_where(
    call: &Call,
    sees: impl FnOnce(&Caller, &RunView) -> bool,
) -> Result<RunView, Problem> {
    let run = call.api.client.find(call.run()?).await?;
    let view = call.api.client.status(run).await?;
    if !sees(&call.caller, &view) {
        // Named as one that is not there: whoever knows a key is not told the id, nor that it is one.
        let run = match call.part("id").rsplit_once('/') {
            Some((definition, key)) => format!("{definition} with key {key:?}"),
            None => run.to_string(),
        };
        return Err(Error::UnknownRun { run }.into());
    }
    call.to(run);
    call.of_tenant(&view.record.tenant);
    call.was(|| standing::run(&view));
    Ok(view)
}

/// A run, unless it is another tenant's or of a queue out of reach: then it is as if there were none.
pub(crate) async fn visible(client: &Client, caller: &Caller, run: RunId) -> Result<RunView, Problem> {
    let unknown = || Problem::from(Error::UnknownRun { run: run.to_string() });
    match client.status(run).await {
        Ok(view) if caller.sees_run(&view) => Ok(view),
        Ok(_) => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

/// What a query asks for, within what the caller may see.
async fn asked(call: &Call) -> Result<Filter, Problem> {
    let now = call.api.client.store().now().await?;
    let mut filter = filter(&words(&call.query)?, now)?;
    if call.query.one("failure").is_some() && filter.statuses.is_empty() {
        filter.statuses = vec![Status::Failed];
    }
    call.caller.within(filter)
}

/// Parameters as the words of the command line's filters.
fn words(query: &Query) -> Result<Vec<String>, Problem> {
    let mut words: Vec<String> = query.all("status").map(|status| format!("status:{status}")).collect();
    for name in
        ["def", "queue", "key", "parent", "node", "version", "owner", "stuck", "since", "until", "ended"]
    {
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

/// What an id in `q` names, if one is there: that needs no list.
async fn named(call: &Call) -> Option<Option<RunView>> {
    let run = call.query.one("q")?.parse::<RunId>().ok()?;
    Some(visible(&call.api.client, &call.caller, run).await.ok())
}

/// Runs that fit, newest first.
pub(crate) async fn list(call: Call) -> Answer {
    if let Some(found) = named(&call).await {
        let found: Vec<RunView> = found.into_iter().collect();
        let items = told(&call, &found).await?;
        return Reply::json(&RunPage { items, next_cursor: None, prev_cursor: None });
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
    // As they were sent: two hours ago is another time on the next page.
    let who = (&filter.tenant, &filter.queues);
    let failure = call.query.one("failure");
    let what = format!("runs\n{who:?}\n{}\n{failure:?}\n{:?}", filter.oldest_first, words(&call.query)?);
    let Pages { runs, next_cursor, prev_cursor } = page(&call, filter, &what).await?;
    Reply::json(&RunPage { items: told(&call, &runs).await?, next_cursor, prev_cursor })
}

/// Runs of a list, each with what it waits for.
async fn told(call: &Call, runs: &[RunView]) -> Result<Vec<RunJson>, Problem> {
    let mut waits = call.api.client.store().waited_for(runs).await?;
    Ok(runs.iter().map(|view| RunJson::brief(view).waits_for(waits.remove(&view.record.id))).collect())
}

/// How many runs fit, up to a cap.
pub(crate) async fn count(call: Call) -> Answer {
    let cap = call.query.number("cap", 1..=100_000, 10_000)?;
    if let Some(found) = named(&call).await {
        return Reply::json(&Count { count: found.is_some().into(), capped: false });
    }
    let filter = asked(&call).await?;
    if let Some(failure) = call.query.one("failure") {
        let Found { runs, next } = found(&call.api.client, &filter, Some(failure), None, cap).await?;
        return Reply::json(&Count { count: runs.len() as u64, capped: next.is_some() });
    }
    let count = call.api.client.count(&filter, cap).await?;
    Reply::json(&Count { count, capped: count >= u64::from(cap) })
}

/// One run.
pub(crate) async fn get(call: Call) -> Answer {
    let most = enough(&call)?;
    // A bulk is in a queue of its own, and somebody's all the same.
    let sees = |caller: &Caller, view: &RunView| caller.sees_run(view) || bulks::is_theirs(caller, view);
    Reply::json(&RunJson::new(&find_where(&call, sees).await?).in_part(most))
}

/// What it did, operation by operation.
pub(crate) async fn steps(call: Call) -> Answer {
    let view = find(&call).await?;
    let after = call.query.number("after", 0..=u32::MAX, 0)? as usize;
    let limit = call.query.number("limit", 1..=10_000, 10_000)? as usize;
    let most = enough(&call)?;
    let mut story = Story::read(&call.api.client, &view).await?;
    story.add_doing(&view);
    let operations = shown(story);
    let total = operations.len();
    let page = operations.into_iter().skip(after).take(limit);
    let step = |operation| StepJson::new(operation, view.finished_at).in_part(most);
    let items: Vec<StepJson> = page.map(step).collect();
    let next_after = Some(after + items.len()).filter(|next| !items.is_empty() && *next < total);
    Reply::json(&Steps { items, total, next_after })
}

/// The operations that are for people.
fn shown(story: Story) -> Vec<Operation> {
    story.operations.into_iter().filter(Operation::is_shown).collect()
}

/// What it recorded, entry by entry.
pub(crate) async fn history(call: Call) -> Answer {
    let run = find(&call).await?.record.id;
    let after = call.query.number("after", 0..=u32::MAX, 0)?;
    let limit = call.query.number("limit", 1..=1000, 200)?;
    let most = enough(&call)?;
    let entries = call.api.client.journal(run, after, limit).await?;
    let next_after = entries.last().filter(|_| entries.len() == limit as usize).map(|entry| entry.pos);
    let items = entries.iter().map(|entry| EntryJson::new(entry).in_part(most)).collect();
    Reply::json(&History { items, next_after })
}

/// What a run last saved under a name.
#[derive(Serialize, ToSchema)]
pub(crate) struct SavedValue {
    name: String,
    /// As the workflow saved it; `null` also where it is encrypted.
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Box<RawValue>>,
    saved_at: When,
}

/// What it last saved under a name.
pub(crate) async fn query(call: Call) -> Answer {
    let (run, name) = (find(&call).await?.record.id, call.part("name"));
    let Some(saved) = call.api.client.saved(run, name).await? else {
        return Err(Problem::not_found(format_args!("saved value {name:?} of {run}")));
    };
    let value = raw(saved.body.as_ref());
    Reply::json(&SavedValue { name: name.to_owned(), value, saved_at: When(saved.at) })
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
    if hides() {
        let detail = "an export has the run as it is, and this server hides some of it from all but admins: ask as an admin";
        return Err(Problem::new(Code::FORBIDDEN, detail));
    }
    Ok(Reply::text("application/json", call.api.client.export(run).await?.to_json()))
}

/// A file that `/runs/{id}/export` or `outlast export` made.
#[derive(ToSchema)]
pub(crate) struct ExportedRun {
    /// The version of the format.
    #[allow(dead_code, reason = "only the document reads it")]
    outlast_run: u32,
    #[allow(dead_code, reason = "only the document reads it")]
    #[schema(value_type = serde_json::Value)]
    run: (),
    #[allow(dead_code, reason = "only the document reads it")]
    #[schema(value_type = Vec<serde_json::Value>)]
    journal: (),
}

/// What such a file tells: the same that is told of a run that is here.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReadRun {
    run: RunJson,
    steps: Vec<StepJson>,
    history: Vec<EntryJson>,
}

/// Reads an exported run for whoever has the file and not the database.
pub(crate) async fn read(call: Call) -> Answer {
    call.text()?;
    let file = call.body.clone().unwrap_or_default();
    // A large one takes a while, in which this thread has others to answer.
    let read = move || RunExport::from_json(std::str::from_utf8(&file).unwrap_or_default());
    let export = tokio::task::spawn_blocking(read)
        .await
        .map_err(Problem::internal)?
        .map_err(|error| Problem::new(Code::INVALID_ARGUMENT, error.to_string()))?;
    let view = export.view();
    let mut story = Story::of(&view);
    for entry in export.entries() {
        story.add(entry);
    }
    let steps = shown(story).into_iter().map(|operation| StepJson::new(operation, view.finished_at));
    Reply::json(&ReadRun {
        run: RunJson::new(&view),
        steps: steps.collect(),
        history: export.entries().iter().map(EntryJson::new).collect(),
    })
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
        finished_at: view.finished_at.map(When),
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

/// Deletes a run that has ended, or never began.
pub(crate) async fn delete(call: Call) -> Answer {
    let reason = call.query.one("reason");
    call.because(reason);
    let run = find(&call).await?.record.id;
    match deletion::delete(&call.api.client, run, reason.unwrap_or_default()).await? {
        None => Ok(Reply::nothing()),
        Some(why) => Err(Problem::new(Code::CONFLICT, why)),
    }
}
