//! How often and how long a step is tried.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{Error, Failure, FailureDoc, Limits, Payload, Retry};

use super::work::panicked;
use crate::definition::StoredError;
use crate::engine::turn::BodyEnd;

type RetryIf<E> = Arc<dyn Fn(&E) -> bool + Send + Sync>;
type RetryAfter<E> = Arc<dyn Fn(&E) -> Option<Duration> + Send + Sync>;

/// How often and how long a step is tried.
pub(super) struct Policy<E> {
    pub(super) retry: Retry,
    pub(super) timeout: Option<Duration>,
    pub(super) heartbeat: Option<Duration>,
    pub(super) retry_if: Option<RetryIf<E>>,
    pub(super) retry_after: Option<RetryAfter<E>>,
}

impl<E> Clone for Policy<E> {
    fn clone(&self) -> Self {
        let (retry_if, retry_after) = (self.retry_if.clone(), self.retry_after.clone());
        Policy { retry_if, retry_after, ..*self }
    }
}

impl<E> Default for Policy<E> {
    fn default() -> Self {
        Policy { retry: Retry::never(), timeout: None, heartbeat: None, retry_if: None, retry_after: None }
    }
}

impl<E: StoredError> Policy<E> {
    /// What follows a failed attempt. The user's code has a say in it, and may panic here as well.
    pub(super) fn after(
        &self,
        what: &str,
        attempt: u32,
        failure: Failure<E>,
        saved: Option<Payload>,
        limits: &Limits,
    ) -> BodyEnd {
        let judge = AssertUnwindSafe(|| {
            let (doc, again) = (FailureDoc::new(&failure, limits), self.allows(&failure));
            let asked = self.asks(&failure);
            drop(failure);
            (doc, again, asked)
        });
        let (failure, again, asked) = catch_unwind(judge)
            .unwrap_or_else(|panic| (FailureDoc::Outlast(panicked(what, &*panic)), true, None));
        match self.retry.pause(attempt, fastrand::f64()).filter(|_| again) {
            Some(pause) => BodyEnd::Again { failure, pause: asked.unwrap_or(pause), saved },
            None => BodyEnd::Failed(failure),
        }
    }

    /// Whether another attempt makes sense.
    fn allows(&self, failure: &Failure<E>) -> bool {
        match failure {
            Failure::Own(error) => self.retry_if.as_ref().is_none_or(|retry_if| retry_if(error)),
            Failure::Outlast(error) => {
                matches!(error, Error::TimedOut { .. } | Error::Panicked { .. } | Error::Store { .. })
            }
        }
    }

    /// The pause that the error itself asks for.
    fn asks(&self, failure: &Failure<E>) -> Option<Duration> {
        match failure {
            Failure::Own(error) => self.retry_after.as_ref()?(error).map(|pause| pause.min(Limits::DURATION)),
            Failure::Outlast(_) => None,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.retry.check()?;
        for (what, duration) in [("timeout", self.timeout), ("heartbeat", self.heartbeat)] {
            crate::definition::check_duration(what, duration.unwrap_or_default())?;
        }
        Ok(())
    }
}
