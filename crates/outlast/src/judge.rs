//! What a job's own errors and functions say about another attempt, before the policy is asked.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::job::JobTurn;

/// What a job says of its own about another attempt.
pub(crate) struct Judge<E> {
    pub(crate) retry_if: Option<Says<E, bool>>,
    pub(crate) retry_after: Option<Says<E, Option<Duration>>>,
    pub(crate) backoff: Option<Backoff>,
}

/// What an error says.
type Says<E, T> = Arc<dyn Fn(&E) -> T + Send + Sync>;

/// A pause by the number of the failed attempt.
pub(crate) type Backoff = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

impl<E> Judge<E> {
    pub(crate) const fn new() -> Judge<E> {
        Judge { retry_if: None, retry_after: None, backoff: None }
    }

    /// Tells the runs that failed together what follows this error.
    pub(crate) fn judge(&self, jobs: &[Arc<JobTurn>], error: &E) {
        if self.retry_if.as_ref().is_some_and(|holds| !holds(error)) {
            jobs.iter().for_each(|job| job.give_up());
        }
        if let Some(pause) = self.retry_after.as_ref().and_then(|pause| pause(error)) {
            jobs.iter().for_each(|job| job.ask_pause(pause));
        }
    }
}

impl<E> Clone for Judge<E> {
    fn clone(&self) -> Self {
        Judge {
            retry_if: self.retry_if.clone(),
            retry_after: self.retry_after.clone(),
            backoff: self.backoff.clone(),
        }
    }
}
