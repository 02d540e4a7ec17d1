//! The job behind a bulk: page by page through the runs that fit, with a mark that a later attempt goes on from.
//!
//! Before anything is done to the runs of a page, it is durable which those are, and in which epoch each was seen.
//! Whoever takes over after a crash does the same to the same runs, which changes nothing where it was done: so each is
//! handled exactly once, also if it fits the filter no more, or again.

use std::time::Duration;

use futures_util::StreamExt;
use outlast_core::{AnyError, Error, RunId};
use outlast_store::{Cursor, Filter};
use serde::{Deserialize, Serialize};

use super::named::{Behind, page};
use super::op::Doer;
use super::preview::COUNTED;
use super::{BulkAsk, BulkFailure, BulkReport};
use crate::registry::is_built_in;
use crate::{Client, JobCtx};

/// How many runs are looked up, and noted, at once.
const PAGE: u32 = 100;
/// How many are acted on at once.
const AT_ONCE: usize = 16;
/// How many failures are told one by one, and how long a reason may be.
const FAILURES: usize = 100;
const REASON: usize = 500;

/// Where a bulk stands.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Mark {
    #[serde(flatten)]
    report: BulkReport,
    /// About how many there are to handle.
    of: u64,
    /// The last run of the page in hand.
    after: Option<Cursor>,
    /// Of runs that were named: how many have been in hand.
    #[serde(default)]
    named: usize,
    /// Whether there is a page behind that.
    more: bool,
    /// What is left of the page in hand, with the epochs in which they were seen.
    in_hand: Vec<(RunId, i64)>,
}

/// Does what was asked to all runs that fit.
pub(super) async fn work(job: JobCtx, ask: BulkAsk) -> Result<BulkReport, AnyError> {
    let client = job.client().clone();
    // Those that were there when it was started: a page ends before the next microsecond.
    let began = job.started_at() + Duration::from_micros(1);
    let until = ask.filter.until.map_or(began, |until| until.min(began));
    let filter = Filter { until: Some(until), ..ask.filter.clone() };

    let saved: Option<Mark> = job.saved()?;
    let mut is_again = saved.is_some();
    let mut mark = match saved {
        Some(mark) => mark,
        None => {
            let of = match ask.runs.len() {
                0 => count(&client, &ask, &filter).await?,
                named => named as u64,
            };
            Mark { of, more: true, ..Mark::default() }
        }
    };
    loop {
        handle(&job, &ask, &mut mark, is_again).await?;
        is_again = false;
        if mark.in_hand.is_empty() && !mark.more {
            return Ok(mark.report);
        }
        if is_asked_to_stop(&job) {
            return stop(&job, &mark).await;
        }
        let behind = Behind { run: mark.after, named: mark.named };
        let page = page(&client, &ask, &filter, behind, PAGE).await?;
        for run in page.missing {
            mark.fail(run, &Error::UnknownRun { run: run.to_string() });
        }
        let own = page.views.iter().filter(|view| !is_built_in(&view.record.definition));
        let (acts, stays): (Vec<_>, Vec<_>) = own.partition(|view| ask.op.refuses(view).is_none());
        mark.report.skipped += stays.len() as u64;
        mark.in_hand = acts.iter().map(|view| (view.record.id, view.epoch)).collect();
        mark.more = page.next.is_some();
        let next = page.next.unwrap_or_default();
        (mark.after, mark.named) = (next.run, next.named);
        job.progress(mark.percent(), &mark.words())?;
        job.save_now(&mark).await?;
    }
}

/// Acts on the runs in hand, until somebody wants it to stop. Those that it did not come to are left in hand.
async fn handle(job: &JobCtx, ask: &BulkAsk, mark: &mut Mark, is_again: bool) -> Result<(), Error> {
    let client = job.client();
    let by = job.owner().map_or_else(|| format!("bulk {}", job.run_id()), str::to_owned);
    let doer = &Doer { run: job.run_id(), by, reason: ask.reason.clone() };
    let goes_on = |_: &(RunId, i64)| std::future::ready(!is_asked_to_stop(job));
    let act = |(run, epoch): (RunId, i64)| async move {
        let done = match ask.op.apply(client, doer, run, epoch).await {
            Ok(false) if is_again => was_done(client, ask, run).await,
            other => other,
        };
        (run, done)
    };
    let runs = futures_util::stream::iter(mark.in_hand.clone()).take_while(goes_on).map(act);
    let mut answers = std::pin::pin!(runs.buffer_unordered(AT_ONCE));
    let mut trouble = None;
    while let Some((run, done)) = answers.next().await {
        match done {
            Ok(true) => mark.report.done += 1,
            Ok(false) => mark.report.skipped += 1,
            // That is about the database, and not about this run: another attempt does it.
            Err(error @ (Error::Store { retryable: true, .. } | Error::ShuttingDown)) => {
                trouble = Some(error);
                continue;
            }
            Err(error) => mark.fail(run, &error),
        }
        mark.in_hand.retain(|(other, _)| *other != run);
    }
    trouble.map_or(Ok(()), Err)
}

/// Whether it shall end here: for good, or to go on elsewhere.
fn is_asked_to_stop(job: &JobCtx) -> bool {
    job.cancel_requested().is_some() || job.is_stopping()
}

/// Whether the attempt before this one did it.
async fn was_done(client: &Client, ask: &BulkAsk, run: RunId) -> Result<bool, Error> {
    match client.status(run).await {
        Ok(view) => Ok(ask.op.was_done(&view)),
        Err(Error::UnknownRun { .. }) => Ok(ask.op.deletes()),
        Err(error) => Err(error),
    }
}

/// Says how far it came. Asked to stop it has ended; where this process stops another goes on.
async fn stop(job: &JobCtx, mark: &Mark) -> Result<BulkReport, AnyError> {
    job.save_now(mark).await?;
    match job.cancel_requested() {
        Some(reason) => Err(AnyError::new(format!("stopped: {reason}"))),
        None => job.snooze(Duration::ZERO).await,
    }
}

/// How many runs fit, as far as they are counted.
async fn count(client: &Client, ask: &BulkAsk, filter: &Filter) -> Result<u64, Error> {
    let (mut runs, mut behind) = (0, Behind::default());
    loop {
        let page = page(client, ask, filter, behind, 500).await?;
        runs += page.views.iter().filter(|view| !is_built_in(&view.record.definition)).count() as u64;
        match page.next {
            Some(next) if runs < COUNTED => behind = next,
            _ => return Ok(runs),
        }
    }
}

impl Mark {
    fn fail(&mut self, run: RunId, error: &Error) {
        self.report.failed += 1;
        if self.report.failures.len() < FAILURES {
            let reason = outlast_core::shorten(&error.to_string(), REASON);
            self.report.failures.push(BulkFailure { run, reason });
        }
    }

    fn handled(&self) -> u64 {
        self.report.done + self.report.skipped + self.report.failed
    }

    /// Not all, as long as it goes on.
    fn percent(&self) -> u8 {
        (self.handled() * 100 / self.of.max(1)).min(99) as u8
    }

    fn words(&self) -> String {
        let about = if self.of >= COUNTED { format!("{COUNTED} or more") } else { format!("~{}", self.of) };
        format!("done {} of {about}, {} failed", self.handled(), self.report.failed)
    }
}
