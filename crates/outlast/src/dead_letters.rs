//! Jobs that failed or were cancelled, and undos that gave up, and are tried again.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt;
use outlast_core::{Change, Error, Payload, RunId, Status};
use outlast_store::{Address, Control, Controlled, Filter, RunKind, RunView, code};
use serde::Serialize;

use crate::client::repeated;
use crate::in_tx::InTx;
use crate::{Client, Target};

impl Client {
    /// Makes a job that failed or was cancelled ready to be tried again, from its first attempt on: the same run, with the
    /// same key, and with its errors so far before it. `true` when it is ready by this call; `false` when it had not ended,
    /// or is ready again already.
    ///
    /// A workflow that started it has heard of the failure and may have gone on because of it: it hears nothing further.
    /// The run stands in line with the group it was started with. If it was the only one of its kind until it ended, it is
    /// so again; while another is, it cannot be tried again: [`Error::AlreadyExists`]. Periods of `within` and `throttle`,
    /// and the wait of `debounce`, are about starts: a retry is none. Workflows cannot be tried again yet, and what has
    /// completed never can: [`Error::NotRetryable`].
    ///
    /// A run whose undo gave up, workflow or job, goes on to undo, with as many attempts again.
    pub async fn retry(&self, run: impl Into<Target>) -> Result<bool, Error> {
        self.retry_as(run.into(), None).await
    }

    /// The same with another input, which stays the run's from then on: whoever starts one with its key must have the new
    /// one too. It is checked where this process has the code. A run that has not ended keeps the input it has.
    ///
    /// The run goes on for its owner and with its roles, whoever calls this: who may retry with an input may do what the
    /// run may. Let only those do it who have its roles.
    pub async fn retry_with<T: Serialize + ?Sized>(
        &self,
        run: impl Into<Target>,
        input: &T,
    ) -> Result<bool, Error> {
        let input = Payload::encode("the input", input, self.limits())?;
        self.retry_as(run.into(), Some(input)).await
    }

    async fn retry_as(&self, run: Target, input: Option<Payload>) -> Result<bool, Error> {
        let view = self.status(self.find(run).await?).await?;
        let code = code(&view.record.definition, view.record.version);
        let known = self.engine().and_then(|engine| engine.registry.get(&code));
        if let (Some(definition), Some(input)) = (known, &input) {
            definition.check_input(input)?;
        }
        if view.status == Status::UndoFailed && input.is_some() {
            return Err(Error::invalid(
                "input",
                "a new one",
                "none: what is undone is what the run did with its own",
            ));
        }
        match view.status.is_final() || view.status == Status::UndoFailed {
            true => self.retry_end(view.record.id, view.epoch, input).await,
            false => Ok(false),
        }
    }

    /// Tries again what ended in this epoch. Naming it makes the call one that can be repeated: whatever happens to the
    /// run between two of them, it is tried again once.
    pub(crate) async fn retry_end(
        &self,
        run: RunId,
        epoch: i64,
        input: Option<Payload>,
    ) -> Result<bool, Error> {
        let control = Control::Retry { run: Address::Run(run), epoch: Some(epoch), input };
        let tries = AtomicU32::new(0);
        let ask = || {
            tries.fetch_add(1, Ordering::Relaxed);
            self.store().control(&control)
        };
        let answer = repeated(ask).await?;
        // The try whose reply got lost may be what made it ready.
        Ok(retried(&control, answer)? || tries.into_inner() > 1)
    }

    /// Tries all jobs again that fit the filter and failed, or were cancelled if the filter says so, oldest first. Gives
    /// how many. Those that somebody else tries again meanwhile are left alone, and so are those for whose kind another
    /// stands, and those that fail after this was called. If an error ends it early, some have been tried again, and calling it anew does the rest.
    pub async fn retry_all(&self, filter: &Filter) -> Result<u64, Error> {
        const PAGE: u32 = 100;
        const AT_ONCE: usize = 16;
        let mut filter = filter.clone();
        if filter.statuses.is_empty() {
            filter.statuses.push(Status::Failed);
        }
        let again = |status: Status| status.after(Change::Revive).is_some() || status == Status::UndoFailed;
        filter.statuses.retain(|status| again(*status));
        if filter.statuses.is_empty() {
            return Err(Error::invalid(
                "filter",
                "status",
                "failed, cancelled or undo_failed: no others can be tried again",
            ));
        }
        // A list is newest first. Ids are all that is kept of it.
        let (mut ended, mut after) = (Vec::new(), None);
        loop {
            let page = self.list(&filter, after, PAGE).await?;
            let can = |view: &&RunView| view.record.kind == RunKind::Job || view.status == Status::UndoFailed;
            let runs = page.runs.iter().filter(can);
            ended.extend(runs.map(|view| (view.record.id, view.epoch)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let calls = ended.into_iter().rev().map(|(run, epoch)| async move {
            match self.retry_end(run, epoch, None).await {
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

    /// Makes a job ready to be tried again when the transaction commits, as [`Client::retry`] does; Outlast's own or your
    /// driver's, see [`InTx`].
    pub async fn retry_in_tx(&self, tx: impl InTx, run: impl Into<Target>) -> Result<bool, Error> {
        let control = Control::Retry { run: run.into().check()?, epoch: None, input: None };
        let answer = self.perform(tx, &control).await?;
        retried(&control, answer)
    }
}

fn retried(control: &Control, answer: Controlled) -> Result<bool, Error> {
    match (answer, control) {
        (Controlled::Retried { by_this, .. }, _) => Ok(by_this),
        (Controlled::Final { run, status, .. }, _) => {
            Err(Error::NotRetryable { run, reason: format!("it has {status}") })
        }
        (Controlled::Taken { definition, by }, _) => Err(Error::AlreadyExists { definition, run: by }),
        (Controlled::NoJob { run }, _) => {
            Err(Error::NotRetryable { run, reason: "it is a workflow, and only jobs can be".into() })
        }
        (_, Control::Retry { run, .. }) => Err(Error::UnknownRun { run: Target::shown(run) }),
        _ => Ok(false),
    }
}
