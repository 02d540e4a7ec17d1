//! For users' tests: a store in memory, a clock that moves only when told, and a look at what was recorded.
//!
//! ```
//! use outlast::prelude::*;
//! use outlast::testing;
//!
//! async fn remind(ctx: Ctx, who: String) -> Result<String, AnyError> {
//!     ctx.sleep(30.days()).await?;
//!     Ok(ctx.step("mail", |_| async { Ok::<_, AnyError>(format!("dear {who}")) }).await?)
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let remind = Workflow::new("remind", remind);
//! let test = testing::start(|app| app.workflow(remind.clone())).await?;
//! let run = test.app().start(remind, "you".to_owned()).await?;
//!
//! test.advance(29.days()).await?;
//! assert!(test.steps(run.id()).await?.is_empty());
//! test.advance(1.days()).await?;
//! assert_eq!(run.result().await?, "dear you");
//! assert_eq!(test.steps(run.id()).await?, ["mail"]);
//! # Ok::<(), AnyError>(()) }).unwrap();
//! ```

use std::time::Duration;

use outlast_core::{AnyError, Entry, Error, Op, Phase, RunId, Timestamp};
use outlast_store::{Clock, DynStore, OpenOptions};

#[doc(hidden)]
pub use crate::engine::Process;
use crate::{App, Ctx, Outlast, Workflow};

/// The most timers that one [`Test::advance`] lets pass: more means a loop that never ends.
const TIMERS: u32 = 1_000_000;

/// Where a stopped clock begins: the start of 2030.
const BEGINNING: i64 = 1_893_456_000_000_000;

/// An engine on a store in memory, with a clock that stands still until [`Test::advance`].
pub struct Test {
    app: App,
    clock: Clock,
}

/// Starts an engine for a test, on a store in memory. `with` registers what it shall know.
pub async fn start(with: impl FnOnce(Outlast) -> Outlast) -> Result<Test, Error> {
    let clock = Clock::stopped_at(Timestamp::from_micros(BEGINNING));
    let options = OpenOptions { clock: clock.clone(), ..OpenOptions::default() };
    let store = outlast_store::open("sqlite::memory:", options).await?;
    start_on(store, with).await
}

/// The same on any store whose clock the test may move.
#[doc(hidden)]
pub async fn start_on(store: DynStore, with: impl FnOnce(Outlast) -> Outlast) -> Result<Test, Error> {
    let clock = store.clock().clone();
    let app = with(Outlast::on(store).settings(|settings| settings.verify = 1)).run().await?;
    Ok(Test { app, clock })
}

/// Runs a workflow made of `body` to its end, letting all time pass that it waits for. For examples and
/// small tests; panics when it fails.
pub fn check<F, Fut>(body: F)
where
    F: Fn(Ctx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), AnyError>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ran = runtime.map_err(AnyError::from).and_then(|runtime| {
        runtime.block_on(async move {
            let workflow = Workflow::new("check", move |ctx: Ctx, ()| body(ctx));
            let test = start(|app| app.workflow(workflow.clone())).await?;
            let run = test.app().start(workflow, ()).await?;
            test.advance(Duration::from_secs(366 * 86_400)).await?;
            Ok(run.result().await?)
        })
    });
    if let Err(error) = ran {
        panic!("the workflow failed: {error}");
    }
}

/// Code that did not repeat itself fails the test, also one that never looked.
impl Drop for Test {
    fn drop(&mut self) {
        if let Some(what) = self.diverged().filter(|_| !std::thread::panicking()) {
            panic!("{what}");
        }
    }
}

impl Test {
    /// The engine.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// The time by which the store judges.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.app.store().now().await?)
    }

    /// Waits until nothing runs but jobs that gather for a batch, and nothing is due but what its queue holds back.
    pub async fn settle(&self) -> Result<(), Error> {
        self.settled().await.map(drop)
    }

    async fn settled(&self) -> Result<Option<Timestamp>, Error> {
        let gathered = self.quiet().await?;
        match self.diverged() {
            Some(what) => Err(Error::misconfigured(what)),
            None => Ok(gathered),
        }
    }

    /// Which workflows did not repeat themselves, if any.
    fn diverged(&self) -> Option<String> {
        let diverged = self.app.engine().verified.diverged();
        (!diverged.is_empty()).then(|| format!("the code does not repeat itself: {}", diverged.join("; ")))
    }

    /// Waits until nothing is due; gives when the first of the jobs that gather for a batch are handed over.
    async fn quiet(&self) -> Result<Option<Timestamp>, Error> {
        let engine = self.app.engine();
        // Whoever waits may have done something since, for which a queue held others back.
        engine.queues.note_change();
        loop {
            let changed = engine.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some((quiet, gathered)) = engine.at_rest() {
                match self.app.store().next_due().await? {
                    Some(due) if due <= self.now().await? && engine.queues.holds_back().is_none() => {
                        engine.nudge();
                    }
                    // A turn that came and went since may have made something due.
                    _ if engine.at_rest() == Some((quiet, gathered)) => return Ok(gathered),
                    _ => continue,
                }
            }
            changed.await;
        }
    }

    /// Lets time pass: every timer on the way fires at its own time, in order. Takes milliseconds.
    pub async fn advance(&self, by: Duration) -> Result<(), Error> {
        self.settle().await?;
        let target = self.now().await? + by;
        for _ in 0..TIMERS {
            let before = self.now().await?;
            let gathered = self.settled().await?;
            // What nobody takes stays due. What became due since we looked is not passed over: it comes next.
            let due = self.app.store().next_due().await?.filter(|due| *due > before);
            let now = self.now().await?;
            let due = due.into_iter().chain(gathered).min();
            let due = due.or_else(|| self.app.engine().queues.holds_back().flatten());
            match due {
                Some(due) if due <= target => self.pass(due.since(now)),
                _ => {
                    self.pass(target.since(self.now().await?));
                    return self.settle().await;
                }
            }
        }
        Err(Error::TooLarge {
            what: "the number of timers".into(),
            size: u64::from(TIMERS) + 1,
            limit: TIMERS.into(),
        })
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        // What its queue held back until now is held back no longer, before anybody has looked.
        self.app.engine().queues.note_change();
    }

    /// Does at once what a node does every few seconds beside its runs: it frees those of dead nodes, blocks what nobody
    /// will take, and deletes what is kept no longer ([`Outlast::retention`]).
    pub async fn sweep(&self) {
        self.app.engine().sweep_now().await;
    }

    /// Ends the engine as a dying process would: nothing is finished, nothing handed back. Returns when
    /// nothing of it is left that could still write.
    #[doc(hidden)]
    pub async fn kill(self) {
        let engine = self.app.engine().clone();
        engine.halt();
        engine.tasks.close();
        let _ = tokio::time::timeout(Duration::from_secs(10), engine.tasks.wait()).await;
    }

    /// Everything a run has recorded.
    pub async fn journal(&self, run: RunId) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        loop {
            let after = entries.last().map_or(0, |entry: &Entry| entry.pos);
            let page = self.app.journal(run, after, 1000).await?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }

    /// The names of the steps and transactions that a run has completed, in order.
    pub async fn steps(&self, run: RunId) -> Result<Vec<String>, Error> {
        let done = |entry: &Entry| {
            matches!(entry.op, Op::Step | Op::Transaction)
                && matches!(entry.phase, Phase::Done | Phase::Failed)
        };
        Ok(self.journal(run).await?.into_iter().filter(done).map(|entry| entry.name.to_string()).collect())
    }
}
