//! Looks for what changed, for all streams of live updates at once.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use outlast::{Error, Filter, LogPlace, RunId, RunView, Timestamp};
use serde_json::json;

use super::live::{Hub, Topic};
use super::news::News;
use crate::shapes::QueueJson;
use crate::watch::OPEN;
use crate::when::When;

/// How far back a look goes for new runs: transactions of other processes become visible late.
const OVERLAP: Duration = Duration::from_secs(2);
/// The most runs of one look.
const MOST: u32 = 200;

/// What was seen last.
#[derive(Default)]
pub(super) struct Eye {
    /// Runs that were started before this have been seen.
    seen_to: Option<Timestamp>,
    runs: HashMap<RunId, Seen>,
    positions: HashMap<RunId, (Seen, u32)>,
    /// The newest line of each log.
    logs: HashMap<RunId, LogPlace>,
    queues: Option<BTreeMap<String, String>>,
}

/// What of a run is compared.
type Seen = (outlast::Status, i64, Option<Timestamp>, u32, String);

fn seen(view: &RunView) -> Seen {
    let doing: Vec<String> = view
        .doing
        .iter()
        .map(|step| format!("{} {} {:?} {:?}", step.name, step.attempt, step.percent, step.message))
        .collect();
    (view.status, view.epoch, view.due_at, view.attempt, doing.join(","))
}

/// A run, in few words.
fn told(view: &RunView) -> serde_json::Value {
    json!({
        "id": view.record.id,
        "status": view.status,
        "definition": view.record.definition,
        "queue": view.record.queue,
        "attempt": view.attempt,
        "finished_at": view.finished_at.map(When),
    })
}

impl Eye {
    pub(super) async fn look(&mut self, hub: &Hub, topics: &[Topic]) -> Result<(), Error> {
        match topics.contains(&Topic::Runs) {
            true => self.look_at_runs(hub).await?,
            false => (self.seen_to, self.runs) = Default::default(),
        }
        match topics.contains(&Topic::Queues) {
            true => self.look_at_queues(hub).await?,
            false => self.queues = None,
        }
        self.positions.retain(|run, _| topics.contains(&Topic::Run(*run)));
        self.logs.retain(|run, _| topics.contains(&Topic::Logs(*run)));
        for topic in topics {
            match topic {
                Topic::Run(run) => self.look_at_run(hub, *run).await?,
                Topic::Logs(run) => self.look_at_logs(hub, *run).await?,
                Topic::Runs | Topic::Queues => {}
            }
        }
        Ok(())
    }

    /// New runs, and those that have moved.
    async fn look_at_runs(&mut self, hub: &Hub) -> Result<(), Error> {
        let client = &hub.client;
        let now = client.store().now().await?;
        let open = Filter { statuses: OPEN.to_vec(), ..Filter::default() };
        let mut views = client.list(&open, None, MOST).await?.runs;
        let is_first = self.seen_to.is_none();
        if let Some(seen_to) = self.seen_to {
            let since = Timestamp::from_micros(seen_to.micros() - OVERLAP.as_micros() as i64);
            let new = Filter { since: Some(since), ..Filter::default() };
            views.extend(client.list(&new, None, MOST).await?.runs);
            // One that has more than so many newer ones before it is not looked at while it is open.
            let ended = Filter { ended_since: Some(since), ..Filter::default() };
            views.extend(client.list(&ended, None, MOST).await?.runs);
        }
        // Those that are open no more.
        let gone: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(run, seen)| !seen.0.is_final() && !views.iter().any(|view| view.record.id == **run))
            .map(|(run, _)| *run)
            .collect();
        // Each is looked at once more: how it ended is told, and of one that only has too many newer ones before it no more
        // is heard here.
        for run in gone {
            let was = self.runs.get(&run).cloned();
            match client.status(run).await {
                Ok(view) if view.status.is_final() || Some(&seen(&view)) != was.as_ref() => views.push(view),
                Ok(_) | Err(Error::UnknownRun { .. }) => {
                    self.runs.remove(&run);
                }
                // The next look finds all of it once more: nothing has been noted yet.
                Err(other) => return Err(other),
            }
        }
        self.seen_to = Some(now);
        let mut changed: BTreeMap<String, Vec<(String, serde_json::Value)>> = BTreeMap::new();
        for view in &views {
            let now_seen = seen(view);
            if self.runs.get(&view.record.id) != Some(&now_seen) {
                self.runs.insert(view.record.id, now_seen);
                if !is_first {
                    let told = (view.record.queue.clone(), told(view));
                    changed.entry(view.record.tenant.clone()).or_default().push(told);
                }
            }
        }
        // What has ended and is not new any more does not move again by itself.
        let listed: std::collections::HashSet<RunId> = views.iter().map(|view| view.record.id).collect();
        self.runs.retain(|run, seen| !seen.0.is_final() || listed.contains(run));
        for (tenant, changed) in changed {
            hub.tell(Topic::Runs, News::of_runs(tenant, changed));
        }
        Ok(())
    }

    async fn look_at_run(&mut self, hub: &Hub, run: RunId) -> Result<(), Error> {
        let view = match hub.client.status(run).await {
            Ok(view) => view,
            Err(Error::UnknownRun { .. }) => return Ok(()),
            Err(other) => return Err(other),
        };
        let before = self.positions.get(&run).cloned();
        let mut position = before.as_ref().map_or(0, |(_, position)| *position);
        // The journal is behind what was seen, or began anew.
        loop {
            let page = hub.client.journal(run, position, 1000).await?;
            position = page.last().map_or(position, |entry| entry.pos);
            if page.len() < 1000 {
                break;
            }
        }
        let now = (seen(&view), position);
        if before.as_ref() != Some(&now) {
            self.positions.insert(run, now);
            if before.is_some() {
                let mut told = told(&view);
                told["position"] = position.into();
                hub.tell(Topic::Run(run), News::of_run(&view.record, told));
            }
        }
        Ok(())
    }

    /// That there are new lines, and behind which: what they say is for whoever reads them.
    async fn look_at_logs(&mut self, hub: &Hub, run: RunId) -> Result<(), Error> {
        let end = hub.client.log_end(run).await?;
        if let Some(before) = self.logs.get(&run).filter(|before| **before != end) {
            let record = match hub.client.status(run).await {
                Ok(view) => view.record,
                Err(Error::UnknownRun { .. }) => return Ok(()),
                Err(other) => return Err(other),
            };
            let told = json!({ "id": run, "after": before.number(), "next_after": end.number() });
            hub.tell(Topic::Logs(run), News::of_run(&record, told));
        }
        self.logs.insert(run, end);
        Ok(())
    }

    async fn look_at_queues(&mut self, hub: &Hub) -> Result<(), Error> {
        let views = hub.client.queues().await?;
        let now: BTreeMap<String, String> = views
            .iter()
            .filter_map(|view| {
                Some((view.queue.name.clone(), serde_json::to_string(&QueueJson::new(view)).ok()?))
            })
            .collect();
        if let Some(before) = &self.queues {
            let changed: Vec<(String, serde_json::Value)> = views
                .iter()
                .filter(|view| before.get(&view.queue.name) != now.get(&view.queue.name))
                .filter_map(|view| {
                    Some((view.queue.name.clone(), serde_json::to_value(QueueJson::new(view)).ok()?))
                })
                .collect();
            let gone: Vec<String> = before.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
            if !changed.is_empty() || !gone.is_empty() {
                hub.tell(Topic::Queues, News::of_queues(changed, gone));
            }
        }
        self.queues = Some(now);
        Ok(())
    }
}
