//! Bulk operations: one thing done to all runs that fit a filter.
//!
//! A bulk is a run itself, of a job that every node knows (`work`): so it survives crashes, is taken over, tells how far
//! it is, is listed, shown and cancelled like any other. What can be done to many runs, and what that would do to each,
//! is in `op` alone; `preview` says it without doing it.

mod named;
mod op;
mod preview;
mod work;

use outlast_core::{AnyError, Error, Retry, RunId};
use outlast_store::Filter;
use serde::{Deserialize, Serialize};

pub use self::op::{Bulk, What};
pub use self::preview::{Planned, Preview};
use crate::{Client, Job, RunHandle};

/// The job that does it.
const NAME: &str = "outlast.bulk";
/// Its queue, which every node serves.
pub(crate) const QUEUE: &str = "outlast";
/// How often it is tried while the database is out of reach, with pauses of at most half a minute: most of an hour.
const ATTEMPTS: u32 = 100;
/// How many runs can be named one by one.
const MOST_RUNS: usize = 1000;

/// What a bulk is asked to do: the input of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkAsk {
    /// What is done.
    pub op: Bulk,
    /// To which runs.
    pub filter: Filter,
    /// To these alone, of those that the filter fits; none: to all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunId>,
    /// To those alone that failed like this: the fingerprint of a group of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why, where the operation itself has no place for it: for people who look at the bulk, and at what it repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of a bulk: the output of its run. Of one that was cancelled, how far it had come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BulkReport {
    /// To how many runs it was done.
    pub done: u64,
    /// For how many there was nothing to do (any more).
    pub skipped: u64,
    /// For how many it could not be done.
    pub failed: u64,
    /// The first hundred of those.
    pub failures: Vec<BulkFailure>,
}

/// A run for which it could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkFailure {
    /// The run.
    pub run: RunId,
    /// Why not.
    pub reason: String,
}

/// The job that a bulk is a run of.
pub type BulkJob = Job<BulkAsk, BulkReport, AnyError>;

/// A bulk that was started: [`RunHandle::result`] waits for its report, [`BulkRun::report`] says how far it is,
/// [`RunHandle::cancel`] stops it after the runs in hand.
pub type BulkRun = RunHandle<BulkJob>;

/// The definition that every node registers by itself.
pub(crate) fn job() -> BulkJob {
    // Before all others: whoever stops a flood of runs must not stand in line behind it.
    let retry = Retry::times(ATTEMPTS).at_most(std::time::Duration::from_secs(30));
    Job::new(NAME, work::work).queue(QUEUE).priority(0).retry(retry)
}

/// A bulk about to be started or previewed: see [`Client::bulk`].
#[must_use = "nothing happens until .start() or .preview() is called"]
pub struct BulkCall {
    client: Client,
    op: Bulk,
    filter: Filter,
    runs: Vec<RunId>,
    failure: Option<String>,
    is_all: bool,
    reason: Option<String>,
    by: Option<String>,
    tenant: String,
    queues: Vec<String>,
    key: Option<String>,
}

impl Client {
    /// Does one thing to all runs that fit a filter, durably: the bulk is a run itself, which any node takes over, and
    /// which reports its progress. It goes through those that were there when it was started, oldest first. What cannot
    /// be done to one run is in its report and holds nobody up.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// use outlast::{Bulk, Filter};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # async fn mail(_job: JobCtx, to: String) -> Result<(), AnyError> { Err(AnyError::new("down")) }
    /// # let mail = Job::new("mail", mail).retry(Retry::times(1));
    /// # let app = Outlast::open("sqlite::memory:").await?.job(mail.clone()).run().await?;
    /// # let _ = app.start(mail, "ada".to_owned()).await?.result().await;
    /// let failed = Filter { definition: Some("mail".into()), ..Filter::default() };
    /// let preview = app.bulk(Bulk::retry()).filter(failed.clone()).preview().await?;
    /// assert_eq!(preview.acts, 1);
    ///
    /// let bulk = app.bulk(Bulk::retry()).filter(failed).by("ann").start().await?;
    /// let report = bulk.result().await?;
    /// assert_eq!((report.done, report.failed), (1, 0));
    /// # Ok::<(), AnyError>(()) }).unwrap();
    /// ```
    pub fn bulk(&self, op: Bulk) -> BulkCall {
        let client = self.clone();
        BulkCall {
            client,
            op,
            filter: Filter::default(),
            runs: Vec::new(),
            failure: None,
            is_all: false,
            reason: None,
            by: None,
            tenant: String::new(),
            queues: Vec::new(),
            key: None,
        }
    }

    /// A bulk that was started before.
    pub fn bulk_run(&self, run: RunId) -> BulkRun {
        self.handle(&job(), run)
    }
}

impl BulkCall {
    /// To which runs. Where it names no status, those are meant to which the operation is usually done: unfinished ones
    /// are cancelled, failed ones tried again.
    pub fn filter(mut self, filter: Filter) -> BulkCall {
        self.filter = filter;
        self
    }

    /// To these runs, in this order: at most a thousand. Where the filter names no status, all are meant to which the
    /// operation can be done.
    pub fn runs(mut self, runs: impl IntoIterator<Item = RunId>) -> BulkCall {
        self.runs.extend(runs);
        self
    }

    /// Of those that fit, to the ones alone that failed alike: with the fingerprint that
    /// [`FailureGroup`](outlast_store::FailureGroup) has. All that fit are looked at, so the filter should name the definition.
    pub fn failure(mut self, fingerprint: impl Into<String>) -> BulkCall {
        self.failure = Some(fingerprint.into());
        self
    }

    /// To all of them, where there is no filter: without this an empty one is refused.
    pub fn all(mut self) -> BulkCall {
        self.is_all = true;
        self
    }

    /// Why, for people who look at it later: for operations that do not say so themselves, as a retry and a resume.
    pub fn because(mut self, reason: impl Into<String>) -> BulkCall {
        self.reason = Some(reason.into());
        self
    }

    /// Who asks for it: the owner of its run.
    pub fn by(mut self, who: impl Into<String>) -> BulkCall {
        self.by = Some(who.into());
        self
    }

    /// Whose bulk it is: only they see it, and it does something to their runs alone.
    pub fn tenant(mut self, tenant: impl Into<String>) -> BulkCall {
        self.tenant = tenant.into();
        self
    }

    /// It does something to runs in these queues alone, whatever the filter says and whichever runs are named.
    pub fn queues(mut self, queues: impl IntoIterator<Item = String>) -> BulkCall {
        self.queues.extend(queues);
        self
    }

    /// An idempotency key: the same bulk with the same key is never started twice.
    pub fn key(mut self, key: impl Into<String>) -> BulkCall {
        self.key = Some(key.into());
        self
    }

    /// Starts it; returns as soon as it is durable.
    pub async fn start(self) -> Result<BulkRun, Error> {
        let ask = self.ask()?;
        let mut start = self.client.start(job(), ask).tenant(self.tenant);
        if let Some(by) = self.by {
            start = start.owner(by);
        }
        if let Some(key) = self.key {
            start = start.key(key);
        }
        start.await
    }

    /// Says what it would do, run by run, and does nothing.
    pub async fn preview(self) -> Result<Preview, Error> {
        preview::preview(&self.client, &self.ask()?).await
    }

    /// What is asked, or what is wrong with it.
    fn ask(&self) -> Result<BulkAsk, Error> {
        let everything = Filter { oldest_first: self.filter.oldest_first, ..Filter::default() };
        if self.runs.len() > MOST_RUNS {
            let remedy = format!("at most {MOST_RUNS}: use a filter");
            return Err(Error::invalid("runs", self.runs.len(), remedy));
        }
        if self.filter == everything && self.runs.is_empty() && self.failure.is_none() && !self.is_all {
            let remedy = "one that names something, or all() where every run is meant";
            return Err(Error::invalid("filter", "(empty)", remedy));
        }
        let mut filter = Filter { oldest_first: true, ..self.filter.clone() };
        if !self.tenant.is_empty() {
            filter.tenant = Some(self.tenant.clone());
        }
        if !self.queues.is_empty() {
            filter.queues.clone_from(&self.queues);
        }
        if filter.statuses.is_empty() {
            let is_named = !self.runs.is_empty();
            filter.statuses = if is_named { outlast_core::Status::ALL.to_vec() } else { self.op.usual() };
        }
        if self.failure.is_some() {
            filter.statuses.retain(|status| *status == outlast_core::Status::Failed);
        }
        filter.statuses.retain(|status| self.op.fits(*status));
        if filter.statuses.is_empty() {
            let all = outlast_core::Status::ALL.into_iter().filter(|status| self.op.fits(*status));
            let all = all.map(|status| status.word()).collect::<Vec<_>>().join(", ");
            let remedy = format!("{all}: there is nothing to {} in others", self.op.word());
            return Err(Error::invalid("filter", "status", remedy));
        }
        self.op.check()?;
        if let Some(reason) = &self.reason {
            outlast_core::check_name("reason", reason)?;
        }
        let mut runs = self.runs.clone();
        let mut known = std::collections::HashSet::new();
        runs.retain(|run| known.insert(*run));
        let (failure, reason) = (self.failure.clone(), self.reason.clone());
        Ok(BulkAsk { op: self.op.clone(), filter, runs, failure, reason })
    }
}

impl BulkRun {
    /// How far it is, or how far it had come when it was cancelled.
    pub async fn report(&self) -> Result<BulkReport, Error> {
        let view = self.status().await?;
        let output = view.ended.and_then(|ended| ended.output);
        let saved = output.or_else(|| view.doing.into_iter().next().and_then(|doing| doing.saved));
        let what = format_args!("the report of {}", self.id());
        saved.map_or_else(|| Ok(BulkReport::default()), |saved| saved.decode(what))
    }
}
