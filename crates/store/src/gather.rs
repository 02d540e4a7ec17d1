//! One transaction for everybody who asks at the same time.
//!
//! While one transaction is on its way, the calls that come meanwhile wait for the next and share it: one
//! commit for hundreds of callers, as the committer does for runs and SQLite's writer for everybody. A lone
//! call goes at once. Where very many wait already, more wait for a place among them, and not for long. Only for calls that wait for nobody's locks: one that does would hold up the others.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{StoreError, places};

#[cfg(test)]
mod tests;

/// The most calls that share a transaction.
const MOST: usize = 500;
/// How many calls may wait for their answer; more wait for a place.
const QUEUE: usize = 4 * MOST;

/// Calls of one kind, with the answer that each waits for.
pub(crate) struct Gather<Call, Answer> {
    gathered: Mutex<Gathered<Call, Answer>>,
    places: Arc<Semaphore>,
    /// Where the work is done: a caller's own runtime may stop while others wait.
    runtime: Handle,
}

struct Gathered<Call, Answer> {
    waiting: Vec<Waiting<Call, Answer>>,
    /// Whether somebody works through them.
    worked: bool,
}

struct Waiting<Call, Answer> {
    call: Call,
    tell: Tell<Answer>,
}

/// Where an answer goes, with the place that it makes free.
struct Tell<Answer> {
    told: oneshot::Sender<Result<Answer, StoreError>>,
    _place: OwnedSemaphorePermit,
}

impl<Answer> Tell<Answer> {
    fn send(self, answer: Result<Answer, StoreError>) {
        // Nobody listens when the caller was dropped; what happened has happened.
        let _ = self.told.send(answer);
    }
}

impl<Call, Answer> Gather<Call, Answer> {
    /// Nothing yet; the work will be done on this runtime.
    pub(crate) fn on(runtime: Handle) -> Self {
        let gathered = Mutex::new(Gathered { waiting: Vec::new(), worked: false });
        Gather { gathered, places: Arc::new(Semaphore::new(QUEUE)), runtime }
    }
}

impl<Call, Answer> Gather<Call, Answer>
where
    Call: Clone + Send + Sync + 'static,
    Answer: Send + 'static,
{
    /// Does `call` together with others. `work` does many, in one transaction, and answers in their order.
    ///
    /// A call whose caller stopped waiting before its transaction began does not happen.
    pub(crate) async fn call<Work>(self: &Arc<Self>, call: Call, work: Work) -> Result<Answer, StoreError>
    where
        Work: Fn(Arc<[Call]>) -> BoxFuture<'static, Result<Vec<Answer>, StoreError>> + Send + 'static,
    {
        let closing = || StoreError::Unavailable("the store is closing".into());
        let place = places::place(&self.places).await?;
        let (tell, told) = oneshot::channel();
        let tell = Tell { told: tell, _place: place };
        let first = {
            let mut gathered = self.gathered.lock();
            gathered.waiting.push(Waiting { call, tell });
            !std::mem::replace(&mut gathered.worked, true)
        };
        if first {
            // A task of its own: the first caller may stop waiting, the others go on.
            self.runtime.spawn(Working { gather: self.clone(), over: false }.all(work));
        }
        told.await.unwrap_or_else(|_| Err(closing()))
    }

    fn take(&self) -> Vec<Waiting<Call, Answer>> {
        let mut gathered = self.gathered.lock();
        gathered.waiting.retain(|waiting| !waiting.tell.told.is_closed());
        let count = gathered.waiting.len().min(MOST);
        if count == 0 {
            gathered.worked = false;
        }
        gathered.waiting.drain(..count).collect()
    }
}

/// Who works through the calls. Whoever waits when it ends early is told so, and the next call begins anew.
struct Working<Call, Answer> {
    gather: Arc<Gather<Call, Answer>>,
    over: bool,
}

impl<Call, Answer> Drop for Working<Call, Answer> {
    fn drop(&mut self) {
        if !self.over {
            let mut gathered = self.gather.gathered.lock();
            gathered.worked = false;
            gathered.waiting.clear();
        }
    }
}

impl<Call, Answer> Working<Call, Answer>
where
    Call: Clone + Send + Sync + 'static,
    Answer: Send + 'static,
{
    async fn all<Work>(mut self, work: Work)
    where
        Work: Fn(Arc<[Call]>) -> BoxFuture<'static, Result<Vec<Answer>, StoreError>> + Send + 'static,
    {
        loop {
            let (calls, tell): (Vec<Call>, Vec<_>) =
                self.gather.take().into_iter().map(|waiting| (waiting.call, waiting.tell)).unzip();
            if calls.is_empty() {
                // From here on another may be at work.
                self.over = true;
                return;
            }
            let calls: Arc<[Call]> = calls.into();
            match work(calls.clone()).await {
                Ok(answers) => {
                    for (tell, answer) in tell.into_iter().zip(answers) {
                        tell.send(Ok(answer));
                    }
                }
                Err(error) if error.is_retryable() || calls.len() == 1 => {
                    for tell in tell {
                        tell.send(Err(error.again()));
                    }
                }
                // One of them cannot be done: it must not fail the others.
                Err(_) => {
                    for (call, tell) in calls.iter().zip(tell) {
                        let alone = work([call.clone()].into()).await;
                        tell.send(alone.map(|mut answers| answers.remove(0)));
                    }
                }
            }
        }
    }
}
