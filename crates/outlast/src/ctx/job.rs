//! The context of a job.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{Error, Payload, RunId, Timestamp, shorten};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{BatchCtx, missing_state};
use crate::definition::Definition;
use crate::engine::job::JobTurn;
use crate::in_tx::InTx;
use crate::{Client, Start, StartMany};

/// The longest message of [`JobCtx::progress`], in bytes.
const PROGRESS: usize = 1000;

/// What a job is given. Cheap to clone.
#[derive(Clone)]
pub struct JobCtx {
    job: Arc<JobTurn>,
    attempt: u32,
    /// Whom this attempt has sent its key.
    #[cfg(feature = "http")]
    keyed: crate::http::Keyed,
}

impl JobCtx {
    pub(crate) fn new(job: Arc<JobTurn>, attempt: u32) -> JobCtx {
        JobCtx {
            job,
            attempt,
            #[cfg(feature = "http")]
            keyed: crate::http::Keyed::default(),
        }
    }

    /// The run's id.
    pub fn run_id(&self) -> RunId {
        self.job.record.id
    }

    /// The same for every attempt of this job and for no other: pass it on to whatever must not happen
    /// twice.
    #[doc(alias = "idempotency")]
    pub fn key(&self) -> String {
        self.job.record.id.to_string()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whose run it is; empty for nobody's in particular.
    pub fn tenant(&self) -> &str {
        &self.job.record.tenant
    }

    /// Who started it.
    pub fn owner(&self) -> Option<&str> {
        self.job.record.owner.as_deref()
    }

    /// The roles with which it acts.
    pub fn roles(&self) -> &[String] {
        &self.job.record.roles
    }

    /// The W3C trace context (`traceparent`) with which the run was started: its own, or its parent's.
    pub fn trace(&self) -> Option<&str> {
        self.job.record.trace.as_deref().map(|trace| trace.split(';').next().unwrap_or(trace))
    }

    /// The `tracestate` that came with it.
    pub fn trace_state(&self) -> Option<&str> {
        self.job.record.trace.as_deref()?.split_once(';').map(|(_, state)| state)
    }

    /// A value that was registered with [`Outlast::state`](crate::Outlast::state). Without one the run is
    /// blocked until a node that has it appears.
    pub fn state<T: Any + Send + Sync>(&self) -> Arc<T> {
        let found = self.job.engine.states.get(&TypeId::of::<T>()).cloned();
        match found.and_then(|state| state.downcast::<T>().ok()) {
            Some(state) => state,
            None => {
                let reason = missing_state::<T>();
                self.job.misfits(&reason);
                std::panic::resume_unwind(Box::new(reason))
            }
        }
    }

    /// Says that another attempt makes no sense: if this one fails, the run has failed.
    pub fn last_attempt(&self) {
        self.job.give_up();
    }

    /// Tells how far the job is: for whoever looks at the run. Nothing waits for it, and of what is told in quick
    /// succession the last is kept.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn import(job: JobCtx, lines: Vec<String>) -> Result<(), AnyError> {
    ///     let done: usize = job.saved()?.unwrap_or(0);
    ///     for (at, line) in lines.iter().enumerate().skip(done) {
    ///         println!("{line}");
    ///         job.progress((at * 100 / lines.len()) as u8, line)?;
    ///         job.save(&(at + 1))?;
    ///     }
    ///     Ok(())
    /// }
    /// let import = Job::new("import", import);
    /// ```
    pub fn progress(&self, percent: u8, message: &str) -> Result<(), Error> {
        if percent > 100 {
            return Err(Error::invalid("percent", percent, "0 to 100"));
        }
        let message = shorten(message, PROGRESS);
        self.job.tell(|doing| (doing.percent, doing.message) = (Some(percent), Some(message)));
        Ok(())
    }

    /// Saves where the work stands: the next attempt gets it from [`JobCtx::saved`], also when this process dies.
    /// What was saved just before a process dies may be lost; what was saved before that is not. If the job is asked to
    /// stop, what it saved last is kept as the output of its run.
    pub fn save<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let payload = Payload::encode("what a job saves", value, &self.job.engine.limits)?;
        self.job.tell(|doing| doing.saved = Some(payload));
        Ok(())
    }

    /// The same, and waits until it is durable: what comes after is done only if a later attempt will know of it.
    pub async fn save_now<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let payload = Payload::encode("what a job saves", value, &self.job.engine.limits)?;
        let told = self.job.tell(|doing| doing.saved = Some(payload));
        let is_durable = match told {
            Some(told) => self.job.until_durable(told).await,
            None => false,
        };
        match is_durable {
            true => Ok(()),
            false => {
                let detail = format!("run {} is no longer this process's", self.job.record.id);
                Err(Error::Store { detail, retryable: true })
            }
        }
    }

    /// What this attempt or an earlier one saved last.
    pub fn saved<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.job.saved().map(|saved| saved.decode("what a job saved")).transpose()
    }

    /// Says when another attempt makes sense: if this one fails, the next comes after this long, instead of the
    /// pause that the job's policy has. The number of attempts stays what it is.
    pub fn retry_after(&self, pause: Duration) {
        self.job.ask_pause(pause);
    }

    /// Tries again after this long, without spending an attempt: for work whose time has not come. Returns from the
    /// job at once: `return job.snooze(5.minutes()).await`.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn report(job: JobCtx, ready: bool) -> Result<(), AnyError> {
    ///     if !ready {
    ///         return job.snooze(5.minutes()).await;
    ///     }
    ///     Ok(())
    /// }
    /// let report = Job::new("report", report);
    /// ```
    pub async fn snooze<O, E>(&self, pause: Duration) -> Result<O, E> {
        self.job.snooze(pause);
        std::future::pending().await
    }

    /// Why someone asked this job to stop, if they did.
    pub fn cancel_requested(&self) -> Option<String> {
        self.job.cancel.borrow().clone()
    }

    /// Waits until someone asks this job to stop; gives the reason.
    pub async fn cancelled(&self) -> String {
        super::stop_asked(&self.job.cancel).await
    }

    /// Completes the job inside a transaction of yours: when that commits, the job has completed with this output, and
    /// what else it wrote is there; when it rolls back, neither. What the handler returns afterwards counts only if the
    /// transaction did not commit.
    ///
    /// Call it last: until the transaction ends, it holds the run. If the run is no longer this process's, it says so, and
    /// the transaction must roll back.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn pay(job: JobCtx, amount: i64) -> Result<(), AnyError> {
    ///     let done = job.clone();
    ///     job.client().transaction(async move |tx: Tx| {
    ///         tx.execute("insert into payments (amount) values ($1)", (amount,)).await?;
    ///         done.complete_in(&tx, &()).await?;
    ///         Ok::<_, AnyError>(())
    ///     }).await
    /// }
    /// let pay = Job::new("pay", pay);
    /// ```
    pub async fn complete_in<T: Serialize>(&self, tx: impl InTx, output: &T) -> Result<(), Error> {
        self.job.complete_in(tx, output).await
    }

    /// The same inside an SQLite transaction of rusqlite, which blocks as it does: see
    /// [`Start::in_tx_blocking`](crate::Start::in_tx_blocking) for how to begin one.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// use rusqlite::TransactionBehavior::Immediate;
    ///
    /// async fn pay(job: JobCtx, cents: i64) -> Result<(), AnyError> {
    ///     let done = job.clone();
    ///     let paid = tokio::task::spawn_blocking(move || {
    ///         let mut connection = rusqlite::Connection::open("shop.db")?;
    ///         let tx = connection.transaction_with_behavior(Immediate)?;
    ///         tx.execute("insert into payments (cents) values (?1)", [cents])?;
    ///         done.complete_in_blocking(&tx, &())?;
    ///         Ok::<_, AnyError>(tx.commit()?)
    ///     });
    ///     paid.await?
    /// }
    /// let pay = Job::new("pay", pay);
    /// ```
    #[cfg(feature = "rusqlite")]
    #[cfg_attr(docsrs, doc(cfg(feature = "rusqlite")))]
    pub fn complete_in_blocking<T: Serialize>(
        &self,
        tx: &rusqlite::Connection,
        output: &T,
    ) -> Result<(), Error> {
        self.job.complete_in_blocking(tx, output)
    }

    pub(crate) fn turn(&self) -> &Arc<JobTurn> {
        &self.job
    }

    /// When the run was started.
    pub(crate) fn started_at(&self) -> Timestamp {
        self.job.record.created_at
    }

    /// Whether this process is about to stop: who can hands its work back.
    pub(crate) fn is_stopping(&self) -> bool {
        self.job.engine.stop.is_cancelled()
    }

    /// This job as a batch of one.
    pub(crate) fn alone(&self) -> BatchCtx {
        BatchCtx::new(vec![self.job.clone()])
    }

    /// Calls other services: see [`http`](crate::http).
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn notify(job: JobCtx, url: String) -> Result<(), AnyError> {
    ///     job.http().post(&url).bearer("token").json(&"done").send().await?.error_for_status()?;
    ///     Ok(())
    /// }
    /// let notify = Job::new("notify", notify).http_timeout(5.seconds());
    /// ```
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn http(&self) -> crate::http::Http {
        crate::http::Http::direct(&self.job.engine, &self.job.record, self.key(), self.keyed.clone())
    }

    /// Starts another run, which acts for whoever this one acts for: with its tenant, its owner, its roles and its trace,
    /// where nothing else is said of it. This job does not hear of its end, and nothing becomes of it when this job fails.
    ///
    /// It is there as soon as `.await` returns: an attempt that is made again starts another, unless the run has a key.
    ///
    /// ```
    /// use outlast::prelude::*;
    /// async fn thumbnail(_job: JobCtx, _image: u32) -> Result<(), AnyError> { Ok(()) }
    /// async fn import(job: JobCtx, images: Vec<u32>) -> Result<(), AnyError> {
    ///     for image in images {
    ///         let key = format!("{}-{image}", job.key());
    ///         job.start(Job::new("thumbnail", thumbnail), image).key(key).await?;
    ///     }
    ///     Ok(())
    /// }
    /// let import = Job::new("import", import);
    /// ```
    pub fn start<D: Definition>(&self, definition: D, input: D::Input) -> Start<D> {
        self.client().start(definition, input).act_for(&self.job.record)
    }

    /// The same for many runs of one definition, in one transaction: see [`Client::start_many`].
    pub fn start_many<D: Definition>(
        &self,
        definition: D,
        inputs: impl IntoIterator<Item = D::Input>,
    ) -> StartMany<D> {
        self.client().start_many(definition, inputs).act_for(&self.job.record)
    }

    /// To send, settle and cancel, and to look at other runs. It acts as the program itself: a run that is started with it
    /// has no tenant, no owner and no role but what is said of it. [`JobCtx::start`] passes on those of this one.
    pub fn client(&self) -> &Client {
        &self.job.engine.client
    }
}
