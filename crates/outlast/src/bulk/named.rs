//! The runs that a bulk goes through, page by page: those that a filter fits, or those that were named.

use outlast_core::Error;
use outlast_store::{Cursor, Filter, RunView, failure_of};

use super::BulkAsk;
use crate::Client;

/// Where a page ends: behind a run, or behind so many that were named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) run: Option<Cursor>,
    pub(super) named: usize,
}

/// A page, and where it ends if there is another.
pub(super) struct Runs {
    pub(super) views: Vec<RunView>,
    /// Those that were named, and are not there.
    pub(super) missing: Vec<outlast_core::RunId>,
    pub(super) next: Option<Behind>,
}

/// The next page.
pub(super) async fn page(
    client: &Client,
    ask: &BulkAsk,
    filter: &Filter,
    behind: Behind,
    limit: u32,
) -> Result<Runs, Error> {
    if ask.runs.is_empty() {
        let page = client.list(filter, behind.run, limit).await?;
        let next = page.next.map(|run| Behind { run: Some(run), named: 0 });
        let mut views = page.runs;
        // What a failure says is no column that a database could look for.
        views.retain(|view| ask.failure.is_none() || failure_of(view) == ask.failure);
        return Ok(Runs { views, missing: Vec::new(), next });
    }
    let end = (behind.named + limit as usize).min(ask.runs.len());
    let (mut views, mut missing) = (Vec::new(), Vec::new());
    for run in &ask.runs[behind.named.min(end)..end] {
        match client.status(*run).await {
            Ok(view) if fits(&view, filter) => views.push(view),
            // Another tenant's is as good as none, and so is one of a queue that is out of reach.
            Ok(view) if !is_of(&view, filter) => missing.push(*run),
            Ok(_) => {}
            Err(Error::UnknownRun { .. }) => missing.push(*run),
            Err(error) => return Err(error),
        }
    }
    let next = (end < ask.runs.len()).then_some(Behind { run: None, named: end });
    Ok(Runs { views, missing, next })
}

fn is_of(view: &RunView, filter: &Filter) -> bool {
    filter.tenant.as_ref().is_none_or(|tenant| *tenant == view.record.tenant)
        && (filter.queues.is_empty() || filter.queues.contains(&view.record.queue))
}

/// Of a run that was named only tenant, queues and status are looked at.
fn fits(view: &RunView, filter: &Filter) -> bool {
    is_of(view, filter) && (filter.statuses.is_empty() || filter.statuses.contains(&view.status))
}
