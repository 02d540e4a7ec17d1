//! Whether the work goes on: nodes, schedules, queues.

use std::time::Duration;

use outlast::{Client, Filter, QueueState, Status, Timestamp, Timetable};

use super::{CheckJson, lasting};
use crate::fault::Fault;
use crate::output::call;
use crate::words::count;

/// What is due for longer than this should have been acted on.
const LATE: Duration = Duration::from_secs(60);
/// How many names are told.
const TOLD: usize = 3;

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
    Ok(checks)
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

/// Queues in which runs have been due for a while and none of them runs.
async fn queues(client: &Client, now: Timestamp) -> Result<CheckJson, Fault> {
    let views = client.queues().await?;
    let oldest = |oldest: Option<Timestamp>| oldest.map(|oldest| now.since(oldest)).unwrap_or_default();
    let is_stuck = |view: &&outlast::QueueView| {
        view.due > 0
            && view.running == 0
            && oldest(view.oldest) > LATE
            && view.queue.state == QueueState::Open
    };
    let stuck: Vec<_> = views.iter().filter(is_stuck).collect();
    let Some(first) = stuck.first() else {
        let due: u64 = views.iter().map(|view| view.due).sum();
        return Ok(CheckJson::ok("queues", format!("{due} due, and no queue stands still")));
    };
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
    Ok(CheckJson::warn("queues", detail, "start a node that serves the queue and knows the code"))
}

fn told(names: &[&str]) -> String {
    match names.len() > TOLD {
        true => format!("{} and {} more", names[..TOLD].join(", "), names.len() - TOLD),
        false => names.join(", "),
    }
}
