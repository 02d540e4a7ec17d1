//! What a call would be answered: it is made in a transaction that is rolled back. So whatever stands against it is found by the
//! very code that would refuse it, and nothing is changed.

use outlast_core::{Error, RunId, Status};
use outlast_store::adapters::Verb;
use outlast_store::{Delivery, NewsKind, RunView};
use serde::Serialize;

use crate::client::{Client, Target, delivered, repeated};
use crate::control::gave_up;
use crate::draft::started;
use crate::start::Start;

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
        let (client, run) = self.prepare().await?;
        let answers = client.undone(std::slice::from_ref(&run)).await?;
        let (id, created) = started(&run, answers.into_iter().next())?;
        Ok((!created).then_some(id))
    }
}
