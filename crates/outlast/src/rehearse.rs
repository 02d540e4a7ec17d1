//! What a call would be answered: it is made in a transaction that is rolled back. So whatever stands against it is found by the
//! very code that would refuse it, and nothing is changed.

use std::marker::PhantomData;

use outlast_core::{Error, RunId, Status};
use outlast_store::adapters::Verb;
use outlast_store::{Delivery, NewRun, NewsKind, RunView};
use serde::Serialize;

use crate::client::{Client, Target, delivered, repeated};
use crate::control::gave_up;
use crate::draft::started;
use crate::start::{RunHandle, Start};

impl Client {
    /// Does something, and takes it back.
    pub(crate) async fn undone<V: Verb + ?Sized>(&self, verb: &V) -> Result<V::Answer, Error> {
        let mut tx = repeated(|| self.store().begin()).await?;
        let answer = verb.run_in_ours(tx.as_mut()).await?;
        tx.rollback().await?;
        Ok(answer)
    }

    /// Refuses an event that [`Client::send`] would refuse; sends nothing.
    #[doc(hidden)]
    pub async fn rehearse_send<T: Serialize + ?Sized>(
        &self,
        to: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        self.undelivered(self.delivery(to.into(), NewsKind::Event, name, value)?).await
    }

    /// Refuses a value that [`Client::settle`] would refuse; settles nothing.
    #[doc(hidden)]
    pub async fn rehearse_settle<T: Serialize + ?Sized>(
        &self,
        of: impl Into<Target>,
        name: &str,
        value: &T,
    ) -> Result<(), Error> {
        self.undelivered(self.delivery(of.into(), NewsKind::Settled, name, value)?).await
    }

    /// Refuses a pause that [`Client::pause`] would refuse; pauses nothing. `false` when the run has ended.
    #[doc(hidden)]
    pub fn rehearse_pause(view: &RunView) -> Result<bool, Error> {
        match view.status {
            Status::UndoFailed => Err(gave_up(view.record.id)),
            status => Ok(!status.is_final()),
        }
    }

    async fn undelivered(&self, delivery: Delivery) -> Result<(), Error> {
        let answers = self.undone(std::slice::from_ref(&delivery)).await?;
        delivered(&delivery, answers.into_iter().next())
    }
}

impl<D: 'static> Start<D> {
    /// Refuses what a start would refuse, and starts nothing. Gives the run that is there already, if it would be given
    /// that one.
    #[doc(hidden)]
    pub async fn rehearse(self) -> Result<Option<RunId>, Error> {
        self.prepared().await?.rehearse().await
    }

    /// All of it but the start itself, for whoever has to look at it first.
    #[doc(hidden)]
    pub async fn prepared(self) -> Result<Prepared<D>, Error> {
        let (client, run) = self.prepare().await?;
        Ok(Prepared { client, run, kind: PhantomData })
    }
}

/// A run about to be started, of which everything is known: what is looked at is what is started.
#[doc(hidden)]
pub struct Prepared<D> {
    client: Client,
    run: NewRun,
    kind: PhantomData<fn() -> D>,
}

impl<D> Prepared<D> {
    /// The queue in which it will be: the one that was asked for, or the definition's own.
    pub fn queue(&self) -> &str {
        &self.run.queue
    }

    /// As [`Start::rehearse`].
    pub async fn rehearse(&self) -> Result<Option<RunId>, Error> {
        let answers = self.client.undone(std::slice::from_ref(&self.run)).await?;
        let (id, created) = started(&self.run, answers.into_iter().next())?;
        Ok((!created).then_some(id))
    }

    /// Starts it.
    pub async fn start(self) -> Result<RunHandle<D>, Error> {
        let (id, created) = self.client.start_run(self.run).await?;
        Ok(RunHandle::new(self.client, id, created))
    }
}
