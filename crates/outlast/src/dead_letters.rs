//! Runs that failed or were cancelled, and undos that gave up, and are tried again.

use futures_util::StreamExt;
use outlast_core::{Change, Error, Status};
use outlast_store::Filter;
use serde::Serialize;

use crate::in_tx::InTx;
use crate::repair::retried;
use crate::{Client, Target};

impl Client {
    /// Makes a run that failed or was cancelled ready to be tried again: the same run, with the same key, and with its
    /// errors so far before it. A job begins with its first attempt, a workflow goes on from where it went wrong, as
    /// [`Client::repair`] says. `true` when it is ready by this call; `false` when it had not ended, or is ready again already.
    ///
    /// A workflow that started it has heard of the failure and may have gone on because of it: it hears nothing further.
    /// The run stands in line with the group it was started with, and has no timeout any more. If it was the only one of its kind until it ended, it is
    /// so again; while another is, it cannot be tried again: [`Error::AlreadyExists`]. Periods of `within` and `throttle`,
    /// and the wait of `debounce`, are about starts: a retry is none. What has completed cannot be tried again:
    /// [`Error::NotRetryable`].
    ///
    /// A run whose undo gave up, workflow or job, goes on to undo, with as many attempts again. A blocked one is looked at
    /// once more, by a node that has its code: it goes on if that fits now, or is blocked anew. What a job had saved is there for
    /// its first attempt.
    pub async fn retry(&self, run: impl Into<Target>) -> Result<bool, Error> {
        self.repair(run).await
    }

    /// The same for a job with another input, which stays the run's from then on: whoever starts one with its key must
    /// have the new one too. It is checked where this process has the code. A run that has not ended keeps the input it has.
    ///
    /// The run goes on for its owner and with its roles, whoever calls this: who may retry with an input may do what the
    /// run may. Let only those do it who have its roles.
    pub async fn retry_with<T: Serialize + ?Sized>(
        &self,
        run: impl Into<Target>,
        input: &T,
    ) -> Result<bool, Error> {
        self.repair(run).input(input).await
    }

    /// Tries all runs again that fit the filter and failed, or were cancelled if the filter says so, oldest first. Gives
    /// how many. Those that somebody else tries again meanwhile are left alone, and so are those for whose kind another
    /// stands, and those that fail after this was called. If an error ends it early, some have been tried again, and calling it anew does the rest.
    pub async fn retry_all(&self, filter: &Filter) -> Result<u64, Error> {
        const PAGE: u32 = 100;
        const AT_ONCE: usize = 16;
        let mut filter = filter.clone();
        if filter.statuses.is_empty() {
            filter.statuses.push(Status::Failed);
        }
        let stands = |status: Status| matches!(status, Status::UndoFailed | Status::Blocked);
        let again = |status: Status| status.after(Change::Revive).is_some() || stands(status);
        filter.statuses.retain(|status| again(*status));
        if filter.statuses.is_empty() {
            return Err(Error::invalid(
                "filter",
                "status",
                "failed, cancelled, undo_failed or blocked: no others can be tried again",
            ));
        }
        // A list is newest first. Ids are all that is kept of it.
        let (mut ended, mut after) = (Vec::new(), None);
        loop {
            let page = self.list(&filter, after, PAGE).await?;
            ended.extend(page.runs.iter().map(|view| (view.record.id, view.epoch)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let calls = ended.into_iter().rev().map(|(run, epoch)| async move {
            match self.repair(run).only_in(epoch).await {
                // Purged meanwhile, or not to be tried again while another does the same.
                Err(Error::UnknownRun { .. } | Error::NotRetryable { .. } | Error::AlreadyExists { .. }) => {
                    Ok(false)
                }
                answer => answer,
            }
        });
        let mut answers = futures_util::stream::iter(calls).buffered(AT_ONCE);
        let mut count = 0;
        while let Some(answer) = answers.next().await {
            count += u64::from(answer?);
        }
        Ok(count)
    }

    /// Makes a run ready to be tried again when the transaction commits, as [`Client::retry`] does; Outlast's own or your
    /// driver's, see [`InTx`].
    pub async fn retry_in_tx(&self, tx: impl InTx, run: impl Into<Target>) -> Result<bool, Error> {
        let Some(control) = self.repair(run).control().await? else { return Ok(false) };
        let answer = self.perform(tx, &control).await?;
        retried(&control, answer)
    }
}
