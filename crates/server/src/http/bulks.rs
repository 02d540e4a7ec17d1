//! Bulks: one thing done to all runs that fit a filter. Each is a run itself, which any node does.

use axum::http::header;
use outlast::{Bulk, BulkCall, BulkReport, Filter, RunId, RunView, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::access::Caller;
use super::code::Code;
use super::pages::{CURSOR, LIMIT, Pages, page};
use super::problem::Problem;
use super::query::{Param, texts};
use super::reply::{Answer, Reply};
use super::route::Call;
use super::run_actions::Reason;
use super::runs::find_where;
use crate::list::filter;
use crate::standing;
use crate::when::When;
use crate::words::filter_words;

/// The definition of which bulks are runs.
pub(super) const DEFINITION: &str = "outlast.bulk";
/// What of a filter is a time.
const TIMES: [&str; 4] = ["since", "until", "stuck_since", "ended_since"];

/// One thing to do to many runs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBulk {
    /// `cancel`, `kill`, `pause`, `resume`, `retry`, `fork`, `replace` or `delete`.
    op: String,
    /// Which runs, in the words of `outlast list`: `status:failed def:mail since:2h`. A value with spaces stands in quotes:
    /// `queue:"night shift"`.
    #[serde(default)]
    filter: String,
    /// These runs, instead of a filter: at least one, at most 1000.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>)]
    ids: Option<Vec<String>>,
    /// Of those that fit, the ones that failed like this: the fingerprint of a group of `/errors`.
    #[serde(default)]
    failure: Option<String>,
    /// All of them, where there is no filter.
    #[serde(default)]
    all: bool,
    /// Why; has to be said where something ends or is held back, and where a result is replaced.
    #[serde(default)]
    reason: Option<String>,
    /// Of a retry or a fork: from this step on.
    #[serde(default)]
    from: Option<String>,
    /// Of a fork: with this input instead of each run's own.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// Of a fork: with the version that new runs take.
    #[serde(default)]
    latest: bool,
    /// Of a replacement: which step.
    #[serde(default)]
    step: Option<String>,
    /// Of a replacement: what counts as its result.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    /// Only say what would happen to each run.
    #[serde(default)]
    dry_run: bool,
}

/// A bulk.
#[derive(Serialize, ToSchema)]
#[schema(as = Bulk)]
pub(crate) struct BulkJson {
    id: String,
    #[schema(value_type = String)]
    status: Status,
    /// What is done to which runs.
    #[schema(value_type = Option<serde_json::Value>)]
    ask: Option<Value>,
    by: Option<String>,
    created_at: When,
    finished_at: Option<When>,
    percent: Option<u8>,
    message: Option<String>,
    done: u64,
    skipped: u64,
    failed: u64,
    /// The first hundred that failed.
    failures: Vec<BulkFailureJson>,
}

/// A run for which it could not be done.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkFailure)]
struct BulkFailureJson {
    run: String,
    reason: String,
}

/// A page of bulks.
#[derive(Serialize, ToSchema)]
pub(crate) struct BulkPage {
    items: Vec<BulkJson>,
    /// Where the next page begins; `null` at the end.
    next_cursor: Option<String>,
    /// Where the page before begins; `null` on the first.
    prev_cursor: Option<String>,
}

/// What a bulk would do: nothing was changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct BulkPreview {
    /// The first five hundred.
    runs: Vec<PlannedJson>,
    /// To how many something would happen.
    acts: u64,
    /// How many would stay as they are.
    stays: u64,
    /// Whether that is all: only the first 10,000 are counted.
    is_all: bool,
}

/// What would happen to a run.
#[derive(Serialize, ToSchema)]
#[schema(as = Planned)]
struct PlannedJson {
    run: String,
    definition: String,
    key: Option<String>,
    #[schema(value_type = String)]
    status: Status,
    #[schema(value_type = serde_json::Value)]
    does: outlast::What,
}

pub(crate) const LIST: &[Param] =
    &[texts("status", "In this status; several are any of them"), CURSOR, LIMIT];

impl BulkJson {
    fn new(view: &RunView) -> BulkJson {
        let doing = view.doing.first();
        let output = view.ended.as_ref().and_then(|ended| ended.output.as_ref());
        let saved = output.or_else(|| doing.and_then(|doing| doing.saved.as_ref()));
        let report: BulkReport = saved.and_then(|saved| saved.decode("the report").ok()).unwrap_or_default();
        let failures = report.failures.into_iter();
        let failure = |failure: outlast::BulkFailure| BulkFailureJson {
            run: failure.run.to_string(),
            reason: failure.reason,
        };
        BulkJson {
            id: view.record.id.to_string(),
            status: view.status,
            ask: crate::shapes::raw(Some(&view.record.input)).and_then(|input| asked(&input)),
            by: view.record.owner.clone(),
            created_at: When(view.record.created_at),
            finished_at: view.finished_at.map(When),
            percent: doing.and_then(|doing| doing.percent),
            message: doing.and_then(|doing| doing.message.clone()),
            done: report.done,
            skipped: report.skipped,
            failed: report.failed,
            failures: failures.map(failure).collect(),
        }
    }
}

/// What was asked for, with times as everywhere: the run has them as the engine reads them.
fn asked(input: &RawValue) -> Option<Value> {
    let mut ask: Value = serde_json::from_str(input.get()).ok()?;
    let filter = ask.get_mut("filter").and_then(Value::as_object_mut);
    for (_, time) in filter.into_iter().flatten().filter(|(name, _)| TIMES.contains(&name.as_str())) {
        if let Some(micros) = time.as_i64() {
            *time = outlast::Timestamp::from_micros(micros).exact().into();
        }
    }
    Some(ask)
}

/// Does one thing to many runs, or says what it would do.
pub(crate) async fn create(call: Call) -> Answer {
    let ask: NewBulk = call.json()?;
    if ask.dry_run {
        call.only_asks();
    }
    call.because(ask.reason.as_deref());
    let named = ask.ids.as_ref().map_or(0, Vec::len);
    call.to(match named {
        0 => format!("{} {}", ask.op, ask.filter),
        count => format!("{} {count} runs", ask.op),
    });
    let dry_run = ask.dry_run;
    let asked =
        json!({ "op": ask.op, "filter": ask.filter, "failure": ask.failure, "all": ask.all, "runs": named });
    let bulk = prepare(&call, ask).await?;
    if dry_run {
        let preview = bulk.preview().await?;
        let run = |run: outlast::Planned| PlannedJson {
            run: run.run.to_string(),
            definition: run.definition,
            key: run.key,
            status: run.status,
            does: run.does,
        };
        let runs = preview.runs.into_iter().map(run).collect();
        let (acts, stays, is_all) = (preview.acts, preview.stays, preview.is_all);
        return Reply::json(&BulkPreview { runs, acts, stays, is_all });
    }
    let bulk = match call.seed {
        Some(seed) => bulk.key(format!("http-{}", seed.simple())),
        None => bulk,
    };
    let run = bulk.start().await?;
    call.to(run.id());
    call.is_now(|| asked);
    let location = call.address(&format!("/bulk/{}", run.id()));
    Ok(Reply::json(&BulkJson::new(&run.status().await?))?.status(202).with(header::LOCATION, location))
}

/// The bulk that is asked for, within the caller's tenant and queues.
async fn prepare(call: &Call, ask: NewBulk) -> Result<BulkCall, Problem> {
    let missing = |what: &str| {
        let detail = format!("{} needs {what}", ask.op);
        Problem::new(Code::INVALID_ARGUMENT, detail).at(format!("/{what}"))
    };
    let reason = || ask.reason.clone().filter(|reason| !reason.is_empty()).ok_or_else(|| missing("reason"));
    let op = match ask.op.as_str() {
        "cancel" => Bulk::cancel(reason()?),
        "kill" => Bulk::kill(reason()?),
        "delete" => Bulk::delete(reason()?),
        "pause" => Bulk::pause(reason()?),
        "resume" => Bulk::resume(),
        "retry" => ask.from.clone().map_or_else(Bulk::retry, Bulk::retry_from),
        "fork" => Bulk::Fork {
            from: ask.from.clone(),
            input: ask.input.as_ref().map(|input| input.get().to_owned()),
            latest: ask.latest,
            reason: ask.reason.clone(),
        },
        "replace" => Bulk::Replace {
            step: ask.step.clone().ok_or_else(|| missing("step"))?,
            result: ask.result.as_ref().map_or("null", |result| result.get()).to_owned(),
            reason: reason()?,
        },
        other => {
            let detail =
                format!("op is cancel, kill, pause, resume, retry, fork, replace or delete, not {other:?}");
            return Err(Problem::new(Code::INVALID_ARGUMENT, detail).at("/op"));
        }
    };
    let bulk = call.api.client.bulk(op).by(&call.caller.actor);
    let bulk = match &call.caller.tenant {
        Some(tenant) => bulk.tenant(tenant),
        None => bulk,
    }
    .queues(call.caller.queue_names());
    // The others say it themselves.
    let has_no_place = matches!(ask.op.as_str(), "resume" | "retry");
    let given = ask.reason.iter().filter(|reason| has_no_place && !reason.is_empty());
    let bulk = given.fold(bulk, |bulk, reason| bulk.because(reason));
    let refuse = |detail: &str, at: &str| Err(Problem::new(Code::INVALID_ARGUMENT, detail).at(at));
    if let Some(ids) = &ask.ids {
        // Whoever chose nobody did not mean everybody.
        if ids.is_empty() {
            return refuse("ids is empty: name runs, or leave it away and say which by filter", "/ids");
        }
        if !ask.filter.trim().is_empty() || ask.failure.is_some() || ask.all {
            return refuse("ids and filter both say which runs: leave one away", "/ids");
        }
        let runs = ids.iter().map(|id| id.parse()).collect::<Result<Vec<RunId>, _>>();
        return Ok(bulk.runs(runs.map_err(|error| Problem::from(error).at("/ids"))?));
    }
    let words =
        filter_words(&ask.filter).map_err(|why| Problem::new(Code::INVALID_ARGUMENT, why).at("/filter"))?;
    if words.is_empty() && ask.failure.is_none() && !ask.all {
        return refuse("the filter is empty: say which runs, or all: true", "/filter");
    }
    let bulk = ask.failure.iter().fold(bulk, |bulk, failure| bulk.failure(failure));
    let wanted = filter(&words, call.api.client.store().now().await?)?;
    if let Some(queue) = &wanted.queue {
        call.caller.may_use(queue).map_err(|problem| problem.at("/filter"))?;
    }
    let bulk = bulk.filter(wanted);
    Ok(if ask.all { bulk.all() } else { bulk })
}

pub(crate) async fn list(call: Call) -> Answer {
    let statuses = call.query.all("status").map(str::parse).collect::<Result<Vec<Status>, _>>()?;
    let tenant = call.caller.tenant.clone();
    let what = format!("bulk\n{tenant:?}\n{statuses:?}");
    let filter = Filter { definition: Some(DEFINITION.to_owned()), tenant, statuses, ..Filter::default() };
    let Pages { runs, next_cursor, prev_cursor } = page(&call, filter, &what).await?;
    Reply::json(&BulkPage { items: runs.iter().map(BulkJson::new).collect(), next_cursor, prev_cursor })
}

/// The bulk that the path names.
async fn found(call: &Call) -> Result<RunView, Problem> {
    let view = find_where(call, |caller, view| caller.sees_run(view) || is_theirs(caller, view)).await?;
    match view.record.definition == DEFINITION {
        true => Ok(view),
        false => Err(Problem::not_found(format_args!("bulk {}", view.record.id))),
    }
}

/// Whether this is a bulk of which somebody may know: whoever is bound to queues, of one that reaches no others.
pub(super) fn is_theirs(caller: &Caller, view: &RunView) -> bool {
    let is_within = || {
        let ask: Result<outlast::BulkAsk, _> = view.record.input.decode("a bulk");
        ask.is_ok_and(|ask| {
            let mut queues = ask.filter.queues.iter();
            queues.len() > 0 && queues.all(|queue| caller.sees_queue(queue))
        })
    };
    let is_bulk = view.record.definition == DEFINITION;
    is_bulk && caller.sees(&view.record.tenant) && (caller.queues.is_none() || is_within())
}

pub(crate) async fn get(call: Call) -> Answer {
    Reply::json(&BulkJson::new(&found(&call).await?))
}

/// Stops it after the runs in hand. What it did stays.
pub(crate) async fn abort(call: Call) -> Answer {
    let Reason { reason } = call.reason()?;
    let run = found(&call).await?.record.id;
    let by = reason.unwrap_or_else(|| format!("aborted by {}", call.caller.actor));
    if call.done.is_none() {
        call.api.client.cancel(run, &by).await?;
    }
    let view = call.api.client.status(run).await?;
    call.is_now(|| standing::run(&view));
    Reply::json(&BulkJson::new(&view))
}
