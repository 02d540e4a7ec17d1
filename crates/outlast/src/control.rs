//! What people do to a run without its code being asked: kill it, hold it back, let it go on, have it sooner.

use std::sync::atomic::{AtomicU32, Ordering};

use outlast_core::{Error, Explained, RunId, Timestamp, check_reason};
use outlast_store::{Address, Control, Controlled};

use crate::client::{cancelled, repeated};
use crate::in_tx::InTx;
use crate::{Client, Target};

impl Client {
    /// Ends a run at once as cancelled, in whatever state it is: its code is not asked, and nothing is undone. `true`
    /// when this ended it; `false` when the run had ended before.
    ///
    /// What a node that holds it has done stays done: what it was just writing is written, whatever it would write later
    /// is refused, and it drops the run as soon as it hears of it. A body that does not yield runs on until it does.
    /// To let the run end by itself, and undo what it did, [`cancel`](Client::cancel) it.
    pub async fn kill(&self, run: impl Into<Target>, reason: &str) -> Result<bool, Error> {
        self.stop(self.kill_control(run.into(), reason)?).await
    }

    /// Ends a run at once when the transaction commits; Outlast's own or your driver's, see [`InTx`]. A node that holds
    /// the run writes nothing until then, for any of its runs: keep the transaction short. The database ends it where
    /// it is silent for more than 5 seconds.
    pub async fn kill_in_tx(
        &self,
        tx: impl InTx,
        run: impl Into<Target>,
        reason: &str,
    ) -> Result<bool, Error> {
        let control = self.kill_control(run.into(), reason)?;
        let answer = self.perform(tx, &control).await?;
        cancelled(&control, answer)
    }

    /// Ends a run at once when the transaction commits.
    #[cfg(feature = "rusqlite")]
    #[cfg_attr(docsrs, doc(cfg(feature = "rusqlite")))]
    pub fn kill_in_tx_blocking(
        &self,
        tx: &rusqlite::Connection,
        run: impl Into<Target>,
        reason: &str,
    ) -> Result<bool, Error> {
        let control = self.kill_control(run.into(), reason)?;
        let answer = self.perform_blocking(tx, &control)?;
        cancelled(&control, answer)
    }

    /// Holds a run back until somebody [resumes](Client::resume) it. `true` when it is paused by this, or was before;
    /// `false` when it had ended.
    ///
    /// A run that nobody works on is paused at once. One that runs is asked: bodies of steps that have begun finish and are
    /// recorded, nothing new begins, and then it is paused; a job finishes its attempt, and its result counts. Events
    /// and whatever else comes for a paused run are kept for it, and its timers fire once it is resumed. The
    /// run's timeout goes on to count: when it is over, the pause ends with the run. A cancel ends the pause too.
    pub async fn pause(&self, run: impl Into<Target>, reason: &str) -> Result<bool, Error> {
        let run = run.into().check()?;
        let control = Control::Pause { run: run.clone(), reason: check_reason(reason)?.to_owned() };
        match repeated(|| self.store().control(&control)).await? {
            Controlled::Paused { .. } => Ok(true),
            Controlled::Asked { run } => {
                // Where this process has the run, nothing new of it begins from here on: the hint may lie behind others.
                if let Some(engine) = self.engine() {
                    engine.pause(run);
                }
                Ok(true)
            }
            Controlled::Final { .. } => Ok(false),
            Controlled::GaveUp { run } => Err(gave_up(run)),
            _ => Err(Error::UnknownRun { run: Target::shown(&run) }),
        }
    }

    /// Lets a run go on that is paused, or was asked to pause. It is due now, or, if it was paused before its time, then.
    /// `true` when it was paused or about to be; `false` when it was not, or has ended.
    pub async fn resume(&self, run: impl Into<Target>) -> Result<bool, Error> {
        let run = run.into().check()?;
        let control = Control::Resume { run: run.clone() };
        let tries = AtomicU32::new(0);
        let ask = || {
            tries.fetch_add(1, Ordering::Relaxed);
            self.store().control(&control)
        };
        match repeated(ask).await? {
            // The try whose reply got lost may be what resumed it.
            Controlled::Resumed { by_this, .. } => Ok(by_this || tries.into_inner() > 1),
            Controlled::Final { .. } => Ok(false),
            _ => Err(Error::UnknownRun { run: Target::shown(&run) }),
        }
    }

    /// Has a run go on now, or at another time, that would go on later by itself: one that is to begin later, or whose next
    /// attempt comes later. A workflow that sleeps, or pauses before a step's next attempt, goes on now as if that were
    /// over, which its journal records; for that there is only now. `true` when this changed it; `false` when there was
    /// nothing to change: the run has ended, is due, runs, or waits for something else.
    ///
    /// A crash leaves both or neither: the time as it was, or as it was asked for. Where a run's own timeout is sooner,
    /// that counts.
    pub async fn make_due(&self, run: impl Into<Target>, at: Option<Timestamp>) -> Result<bool, Error> {
        let told = self.explain(run).await?;
        self.make_due_as(&told, at).await
    }

    /// The same for a run as somebody saw it: one that goes on at another time by now is left alone.
    pub async fn make_due_as(&self, told: &Explained, at: Option<Timestamp>) -> Result<bool, Error> {
        let Some(later) = told.why.later() else { return Ok(false) };
        let (run, seen) = (told.run, later.check(at)?.at());
        let control = Control::Due { run: Address::Run(run), seen, at };
        let tries = AtomicU32::new(0);
        let ask = || {
            tries.fetch_add(1, Ordering::Relaxed);
            self.store().control(&control)
        };
        match repeated(ask).await? {
            // The try whose reply got lost may be what changed it.
            Controlled::Due { by_this, .. } => Ok(by_this || tries.into_inner() > 1),
            Controlled::Final { .. } => Ok(false),
            _ => Err(Error::UnknownRun { run: run.to_string() }),
        }
    }

    fn kill_control(&self, run: Target, reason: &str) -> Result<Control, Error> {
        Ok(Control::Kill { run: run.check()?, reason: check_reason(reason)?.to_owned() })
    }
}

/// Why a run whose undo gave up is not paused.
pub(crate) fn gave_up(run: RunId) -> Error {
    let should =
        "one that has not given up: its undo failed, and it stands still until it is tried again or killed";
    Error::invalid("run to pause", run, should)
}
