//! Undoing a job that was asked to stop.
//!
//! The request lies in the run's inbox until the run has ended: whoever has the run next, after whatever crash, finds
//! it there and undoes anew. What failed is in the run's record, by which it is counted.

use std::sync::Arc;

use outlast_core::{AttemptNote, Error, FailureDoc, Op, Status};
use outlast_store::Next;

use super::guarded::guarded;
use super::job::{Cut, JobTurn, Past};
use super::run::{finish, job_ctx};
use crate::definition::Outcome;
use crate::registry::Registered;

/// What the attempts of an undo are called in a run's record. A job may have this name too.
const NAME: &str = "undo";

/// Ends a run that was asked to stop, undoing first what its job may have done.
pub(super) async fn cancel(
    job: &Arc<JobTurn>,
    definition: &Arc<Registered>,
    reason: String,
    attempt: u32,
    past: Past,
) {
    let cancelled = || {
        let failure = FailureDoc::Outlast(Error::Cancelled { reason: reason.clone() });
        // How far it had come, for whoever asks later or tries it again.
        finish(&job.record, Status::Cancelled, job.saved(), Some(&failure))
    };
    // Said first, so that everybody sees what it is at.
    if definition.undo.is_some() && !past.undoing {
        return job.end(Next::Undo, vec![past.begins_undo()]).await;
    }
    let (engine, began) = (&job.engine, tokio::time::Instant::now());
    let outcome = tokio::select! {
        biased;
        outcome = undo(job, definition, past.undos + 1) => outcome,
        cut = job.cut_short() => match cut {
            Cut::Lost => return,
            Cut::Snoozed(after) => return job.end(Next::Retry { after, attempt }, Vec::new()).await,
        },
        () = engine.abort.cancelled() => return,
    };
    let Some(Err(failure)) = outcome else {
        let (next, sends) = cancelled();
        return job.end_with(next, sends).await;
    };
    let number = past.undos + 1;
    let pause = job.pause_after(definition, number);
    let next_at = engine.clock.at_most() + pause.unwrap_or_default();
    let gave_up = pause.is_none();
    let note = AttemptNote {
        attempt: number,
        failure: failure.clone(),
        next_at,
        saved: None,
        gave_up,
        node: Some(engine.node()),
    };
    let entry = past.next(Op::Undo, NAME, &note, began.elapsed());
    let next = match pause {
        Some(after) => Next::Retry { after, attempt },
        None => Next::GiveUp { reason: format!("its undo failed {number} times: {}", failure.message()) },
    };
    job.end(next, vec![entry]).await;
}

/// Calls what undoes the job, if there is something.
async fn undo(job: &Arc<JobTurn>, definition: &Registered, number: u32) -> Option<Outcome> {
    let call = definition.undo.as_ref()?;
    let what = format!("the undo of job {:?}", definition.options.name);
    let call = || call(job_ctx(job, number), &job.record.input, job.engine.limits);
    let done = guarded(&what, definition.options.timeout, call).await;
    Some(done.unwrap_or_else(|undecodable| Err(FailureDoc::Outlast(undecodable))))
}
