//! Transactional steps: the user's rows and the step's record in one commit.

use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast_core::{Entry, Error, Failure, Op, Payload, Phase, Retry, Timestamp};
use outlast_store::{Committed, StoreError};

use super::step::{Place, Placed, Policy};
use super::{Ctx, limits_of};
use crate::definition::{Stored, StoredError};
use crate::engine::drive::panic_message;
use crate::engine::turn::{BodyEnd, Turn};
use crate::tx::Tx;

/// How often a transaction that met a conflict or a lost connection is begun again at once.
const TRIES: u32 = 10;
/// The pause before that, times the number of the try.
const BEGIN_AGAIN: std::time::Duration = std::time::Duration::from_millis(10);

/// A transactional step: see [`Ctx::transaction`].
#[must_use = "a transaction does nothing unless awaited"]
pub struct TransactionStep<'a, F, T, E> {
    place: Place,
    work: F,
    policy: Policy<E>,
    attempt: u32,
    /// How often this attempt was begun.
    tries: u32,
    body: Body<'a, E>,
    result: PhantomData<fn() -> T>,
}

enum Body<'a, E> {
    None,
    /// Waits for the database.
    Begins(BoxFuture<'a, Result<Tx, StoreError>>),
    /// The closure runs, then the commit.
    Works(BoxFuture<'a, Attempt<E>>),
}

/// How an attempt came out.
enum Attempt<E> {
    Recorded(Entry),
    Failed(Failure<E>),
    /// The database was not there or in the way: nothing happened, begin again.
    Again(StoreError),
    /// The run is no longer ours: the turn is being dropped.
    Lost,
}

impl<'a, F, Fut, T, E> TransactionStep<'a, F, T, E>
where
    F: FnMut(Tx) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Stored,
    E: StoredError,
{
    pub(super) fn new(ctx: &Ctx, name: &str, work: F) -> Self {
        let place = Place::new(ctx, Op::Transaction, name);
        let policy = Policy::default();
        TransactionStep { place, work, policy, attempt: 0, tries: 0, body: Body::None, result: PhantomData }
    }

    /// Tries again when the closure returns an error. What it wrote is rolled back each time.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = retry;
        self
    }

    fn begin(&mut self) {
        self.tries += 1;
        let turn = self.place.turn.clone();
        let pause = if self.tries > 1 { BEGIN_AGAIN * self.tries } else { std::time::Duration::ZERO };
        self.body = Body::Begins(Box::pin(async move {
            tokio::time::sleep(pause).await;
            turn.engine.store.begin().await.map(Tx::new)
        }));
    }

    fn call(&mut self, tx: Tx) {
        let turn = self.place.turn.clone();
        let name = self.place.full_name().to_owned();
        let panicked = |name: &str, panic: Box<dyn std::any::Any + Send>| {
            let what = format!("transaction {name:?}");
            Attempt::Failed(Failure::Outlast(Error::Panicked { what, message: panic_message(&*panic) }))
        };
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| (self.work)(tx.clone())));
        let work = match called {
            Ok(work) => AssertUnwindSafe(work).catch_unwind(),
            Err(panic) => {
                let attempt = panicked(&name, panic);
                self.body = Body::Works(Box::pin(std::future::ready(attempt)));
                return;
            }
        };
        self.body = Body::Works(Box::pin(async move {
            let value = match work.await {
                Ok(Ok(value)) => value,
                Ok(Err(error)) => return Attempt::Failed(Failure::Own(error)),
                Err(panic) => return panicked(&name, panic),
            };
            let what = format!("the result of transaction {name:?}");
            match Payload::encode(&what, &value, limits_of(&turn)) {
                Ok(payload) => record(&turn, &tx, name, payload).await,
                Err(refused) => Attempt::Failed(Failure::Outlast(refused)),
            }
        }));
    }

    /// What follows; `None` to poll again.
    fn came_out(&mut self, attempt: Attempt<E>) -> Option<BodyEnd> {
        match attempt {
            Attempt::Recorded(entry) => Some(BodyEnd::Recorded(entry)),
            Attempt::Failed(failure) => Some(self.policy.after(self.attempt, &failure, None)),
            Attempt::Again(error) if self.tries < TRIES && error.is_retryable() => {
                self.begin();
                None
            }
            Attempt::Again(error) => {
                Some(self.policy.after(self.attempt, &Failure::Outlast(error.into()), None))
            }
            Attempt::Lost => {
                self.body = Body::Works(Box::pin(std::future::pending()));
                None
            }
        }
    }
}

/// Takes the position and the fence just before the commit; the run's other entries wait for it.
async fn record<E>(turn: &Arc<Turn>, tx: &Tx, name: String, payload: Payload) -> Attempt<E> {
    let mut inner = match tx.take().await {
        Ok(inner) => inner,
        Err(error) => return Attempt::Failed(Failure::Outlast(error)),
    };
    let pos = turn.reserve().await;
    let mut reserved = Reserved(Some(turn.clone()));
    let entry = Entry {
        pos,
        op: Op::Transaction,
        phase: Phase::Done,
        name,
        at: Timestamp::default(),
        body: Some(payload),
    };
    let epoch = turn.state().epoch;
    match inner.record(turn.engine.node(), turn.id(), epoch, &entry).await {
        Ok(Committed::Done) => {}
        Ok(_) => {
            turn.lose();
            return Attempt::Lost;
        }
        Err(error) => return Attempt::Again(error),
    }
    match inner.commit().await {
        Ok(()) => {}
        // It may have happened although its reply was lost: the journal knows.
        Err(_) if is_recorded(turn, &entry).await => {}
        Err(error) => return Attempt::Again(error),
    }
    // Reserved until it is handed over: nothing may come in between.
    reserved.0 = None;
    Attempt::Recorded(entry)
}

/// Whether an entry is in the journal; asked until there is an answer.
async fn is_recorded(turn: &Turn, entry: &Entry) -> bool {
    loop {
        match turn.engine.store.journal(turn.id(), entry.pos - 1, 1).await {
            Ok(found) => return found.iter().any(|found| found.pos == entry.pos && found.name == entry.name),
            Err(error) => {
                tracing::warn!(%error, run = %turn.id(), "whether a transaction was committed is not known yet");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

/// Gives the run's other entries free when the transaction failed or was dropped.
struct Reserved(Option<Arc<Turn>>);

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(turn) = &self.0 {
            turn.unreserve();
        }
    }
}

impl<'a, F, Fut, T, E> Future for TransactionStep<'a, F, T, E>
where
    F: FnMut(Tx) -> Fut + Send + Unpin + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Stored,
    E: StoredError,
{
    type Output = Result<T, Failure<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.policy.check()?;
        match this.place.poll(cx)? {
            Placed::Handed(handed) => {
                this.body = Body::None;
                return this.place.taken(handed);
            }
            Placed::Start(attempt, _) => {
                (this.attempt, this.tries) = (attempt, 0);
                this.begin();
            }
            Placed::Pending => {}
        }
        loop {
            match &mut this.body {
                Body::None => return Poll::Pending,
                Body::Begins(begins) => match std::task::ready!(begins.as_mut().poll(cx)) {
                    Ok(tx) => this.call(tx),
                    Err(error) => {
                        if let Some(end) = this.came_out(Attempt::Again(error)) {
                            this.body = Body::None;
                            this.place.ended(end);
                        }
                    }
                },
                Body::Works(works) => {
                    let attempt = std::task::ready!(works.as_mut().poll(cx));
                    if let Some(end) = this.came_out(attempt) {
                        this.body = Body::None;
                        this.place.ended(end);
                    }
                }
            }
        }
    }
}
