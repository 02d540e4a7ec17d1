//! Deleting one run: what stands against it, in the same words for the API and for commands.

use outlast::{Client, Error, RunId, Status};

/// Deletes a run that has ended or never began; says why not, where it stays.
pub(crate) async fn delete(client: &Client, run: RunId, reason: &str) -> Result<Option<String>, Error> {
    if client.delete_run(run, reason).await? {
        return Ok(None);
    }
    Ok(Some(match client.status(run).await?.status {
        status if status.is_final() => {
            format!("{run} stands for its kind for a while, or was tried again: it stays until that is over")
        }
        Status::Ready => format!("{run} has begun, or has a journal already: cancel or kill it first"),
        status => unended(run, status),
    }))
}

/// Why a run stays that has not ended.
pub(crate) fn unended(run: RunId, status: Status) -> String {
    format!("{run} is {status}: cancel or kill it first")
}
