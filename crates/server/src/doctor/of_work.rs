//! Whether the work goes on: nodes, schedules, queues, and runs that stand still.

use std::time::Duration;

use outlast::{Client, Filter, QueueCard, QueueState, QueueView, RunView, Status, Timestamp, Timetable};

use super::{CheckJson, lasting};
use crate::fault::Fault;
use crate::output::{call, quoted};
use crate::words::count;

/// What is due for longer than this should have been acted on.
const LATE: Duration = Duration::from_secs(60);
/// How many names are told.
const TOLD: usize = 3;
/// How many runs are counted one by one.
const MOST: u32 = 500;

pub(super) async fn judge(client: &Client, now: Timestamp) -> Result<Vec<CheckJson>, Fault> {
    let nodes = client.nodes().await?.len();
    let mut checks = vec![match nodes {
        0 => CheckJson::warn(
            "nodes",
            "no node is up: nothing is worked on",
            format!("start one: `{}`", call("serve")),
        ),
        _ => CheckJson::ok("nodes", format!("{} up", count(nodes, "node"))),
    }];
    checks.extend(schedules(client, now).await?);
    checks.push(queues(client, now).await?);
    checks.push(runs(client).await?);
    Ok(checks)
}

/// Runs that go on only when somebody does something: no code fits them, no node serves their queue, or their undo failed.
async fn runs(client: &Client) -> Result<CheckJson, Fault> {
    let mut found = Vec::new();
    for (status, what) in [(Status::Blocked, "blocked"), (Status::UndoFailed, "left half undone")] {
        let filter = Filter { statuses: vec![status], oldest_first: true, ..Filter::default() };
        let runs = client.list(&filter, None, MOST).await?.runs;
        let Some(first) = runs.first() else { continue };
        let more = if runs.len() >= MOST as usize { " or more" } else { "" };
        let (id, why) = (first.record.id, client.explain(first.record.id).await?.why);
        found.push(format!("{}{more} {what}, the first {id}: {why}", count(runs.len(), "run")));
    }
    Ok(match found.is_empty() {
        true => CheckJson::ok("runs", "none is blocked or left half undone"),
        false => {
            let fix = format!("`{}` says what a run needs", call("explain ID"));
            CheckJson::warn("runs", found.join("; "), fix)
        }
    })
}

async fn schedules(client: &Client, now: Timestamp) -> Result<[CheckJson; 2], Fault> {
    let views = client.schedules().await?;
    let unknown =
        views.iter().filter(|view| Timetable::parse(&view.card.timetable, &view.card.zone).is_err());
    let unknown: Vec<&str> = unknown.map(|view| view.name.as_str()).collect();
    let zones = match unknown.as_slice() {
        [] => CheckJson::ok("time_zones", "every schedule's zone is known (tzdata is in the program)"),
        names => CheckJson::fail(
            "time_zones",
            format!("the times of {} cannot be read: {}", count(names.len(), "schedule"), told(names)),
            "set them anew with a zone that exists, or use a newer program",
        ),
    };
    let is_late = |due: Timestamp| now.since(due) > LATE;
    let late = views.iter().filter(|view| !view.is_paused && view.card.due_at.is_some_and(is_late));
    let late: Vec<&str> = late.map(|view| view.name.as_str()).collect();
    let late = match late.as_slice() {
        [] => CheckJson::ok("schedules", format!("none of {} is late", views.len())),
        names => CheckJson::warn(
            "schedules",
            format!("{} more than a minute late: {}", count(names.len(), "schedule"), told(names)),
            "a node that is up fires them: start one, and see whether it can reach the database",
        ),
    };
    Ok([zones, late])
}

/// Queues in which runs are due and nobody works on them: because nothing of it runs, or because somebody holds it.
async fn queues(client: &Client, now: Timestamp) -> Result<CheckJson, Fault> {
    let views = client.queues().await?;
    let found: Vec<(String, String)> =
        [stuck(client, &views, now).await?, held(client, &views, now).await?].into_iter().flatten().collect();
    if found.is_empty() {
        let due: u64 = views.iter().map(|view| view.due).sum();
        return Ok(CheckJson::ok("queues", format!("{due} due, and no queue stands still")));
    }
    let (details, fixes): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    Ok(CheckJson::warn("queues", details.join("; "), fixes.join("; ")))
}

/// Open queues in which runs have been due for a while and none of them runs, and what to do.
async fn stuck(
    client: &Client,
    views: &[QueueView],
    now: Timestamp,
) -> Result<Option<(String, String)>, Fault> {
    let oldest = |oldest: Option<Timestamp>| oldest.map(|oldest| now.since(oldest)).unwrap_or_default();
    let is_stuck = |view: &&QueueView| {
        view.due > 0
            && view.running == 0
            && oldest(view.oldest) > LATE
            && view.queue.state == QueueState::Open
    };
    let stuck: Vec<_> = views.iter().filter(is_stuck).collect();
    let Some(first) = stuck.first() else { return Ok(None) };
    let names: Vec<&str> = stuck.iter().map(|view| view.queue.name.as_str()).collect();
    // One of its runs knows why.
    let filter = Filter {
        queue: Some(first.queue.name.clone()),
        statuses: vec![Status::Ready],
        oldest_first: true,
        ..Filter::default()
    };
    let run = client.list(&filter, None, 1).await?.runs.pop();
    let why = match run {
        Some(run) => format!("; the first: {}", client.explain(run.record.id).await?.why),
        None => String::new(),
    };
    let waiting = lasting(oldest(first.oldest), "at most");
    let detail = format!("nothing of {} runs though runs are due ({waiting}){why}", told(&names));
    Ok(Some((detail, "start a node that serves the queue and knows the code".to_owned())))
}

/// Queues that somebody paused or drains while runs are due that nobody takes until they are resumed, and how to do that.
async fn held(
    client: &Client,
    views: &[QueueView],
    now: Timestamp,
) -> Result<Option<(String, String)>, Fault> {
    let (mut held, mut fixes) = (Vec::new(), Vec::new());
    for view in views.iter().filter(|view| view.due > 0) {
        let QueueCard { name, state, since, .. } = &view.queue;
        let due = match (state, since) {
            (QueueState::Open, _) | (QueueState::Draining, None) => continue,
            (QueueState::Paused, _) => format!("{} due", view.due),
            (QueueState::Draining, Some(since)) => match left_behind(client, name, *since, now).await? {
                0 => continue,
                count @ MOST.. => format!("{count} or more due that came later"),
                count => format!("{count} due that came later"),
            },
        };
        let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
        held.push(format!("queue {name} is {}{since} ({due})", state.word()));
        fixes.push(format!("`{}`", call(&format!("queue resume {}", quoted(name)))));
    }
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    fixes.truncate(TOLD);
    Ok((!held.is_empty()).then(|| (told(&held), fixes.join(", "))))
}

/// How many runs of a queue that is drained are due and were started after that began; no more than [`MOST`] are counted.
async fn left_behind(client: &Client, queue: &str, since: Timestamp, now: Timestamp) -> Result<u32, Fault> {
    let filter = Filter {
        queue: Some(queue.to_owned()),
        statuses: vec![Status::Ready],
        since: Some(since),
        oldest_first: true,
        ..Filter::default()
    };
    let runs = client.list(&filter, None, MOST).await?.runs;
    let is_left = |run: &&RunView| run.record.created_at > since && run.due_at.is_some_and(|at| at <= now);
    Ok(u32::try_from(runs.iter().filter(is_left).count()).unwrap_or(MOST))
}

fn told(names: &[&str]) -> String {
    match names.len() > TOLD {
        true => format!("{} and {} more", names[..TOLD].join(", "), names.len() - TOLD),
        false => names.join(", "),
    }
}
