//! Calls what users wrote: within its time, and a panic is a failure with its message.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use outlast_core::{Error, FailureDoc};

use super::drive::panic_message;
use crate::definition::Outcome;

/// Has the work done that `call` gives; its error, when it gives none.
pub(super) async fn guarded<W>(
    what: &str,
    limit: Option<Duration>,
    call: impl FnOnce() -> Result<W, Error>,
) -> Result<Outcome, Error>
where
    W: Future<Output = Outcome>,
{
    let panicked = |panic: Box<dyn Any + Send>| {
        let error = Error::Panicked { what: what.to_owned(), message: panic_message(&*panic) };
        Err(FailureDoc::Outlast(error))
    };
    let work = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(work) => AssertUnwindSafe(work?).catch_unwind(),
        Err(panic) => return Ok(panicked(panic)),
    };
    let Some(limit) = limit else { return Ok(work.await.unwrap_or_else(panicked)) };
    Ok(match tokio::time::timeout(limit, work).await {
        Ok(done) => done.unwrap_or_else(panicked),
        Err(_) => {
            let after_ms = limit.as_millis() as u64;
            Err(FailureDoc::Outlast(Error::TimedOut { what: what.to_owned(), after_ms }))
        }
    })
}
