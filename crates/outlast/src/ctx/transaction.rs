//! Transactional steps: the user's rows and the step's record in one commit.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast_core::{Entry, Failure, Op, Payload, Phase, Retry, Timestamp};
use outlast_store::{Committed, StoreError};

use super::StepCtx;
use super::place::{Place, Placed};
use super::policy::Policy;
use super::undo::{Undo, undo_options};
use super::work::{Work, guarded};
use super::{Ctx, limits_of};
use crate::definition::{Stored, StoredError};
use crate::engine::turn::{BodyEnd, Turn};
use crate::tx::Tx;

/// How often a transaction that met a conflict or lost its connection is begun again. What cannot even begin, because
/// the database is away, waits for it.
const TRIES: u32 = 10;
/// The pause before that, at first and at most.
const BEGIN_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A transactional step: see [`Ctx::transaction`].
#[must_use = "a transaction does nothing unless awaited"]
pub struct TransactionStep<'a, T, E> {
    place: Place,
    call: Call<'a, E>,
    policy: Policy<E>,
    attempt: u32,
    /// How often this attempt was begun.
    tries: u32,
    /// The pause before it is begun again.
    pause: Duration,
    body: Body<'a, E>,
    result: PhantomData<fn() -> T>,
}

/// Calls the closure for an attempt, of the transaction with this name. Its own type is erased as a step's is.
type Call<'a, E> = Box<dyn FnMut(Tx, Arc<Turn>, Arc<str>) -> BoxFuture<'a, Attempt<E>> + Send + 'a>;

enum Body<'a, E> {
    None,
    /// Waits for the database.
    Begins(BoxFuture<'a, Result<Tx, StoreError>>),
    /// The closure runs, then the commit.
    Works(Work<'a, Attempt<E>>),
}

/// How an attempt came out.
enum Attempt<E> {
    Recorded(Entry),
    Failed(Failure<E>),
    /// The database was not there: nothing was even begun.
    NotBegun(StoreError),
    /// The database went away or was in the way: nothing happened, begin again.
    Again(StoreError),
    /// The run is no longer ours: the turn is being dropped.
    Lost,
}

impl<'a, T: Stored, E: StoredError> TransactionStep<'a, T, E> {
    #[track_caller]
    pub(super) fn new<F, Fut>(ctx: &Ctx, name: &str, mut work: F) -> Self
    where
        F: FnMut(Tx) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        let call: Call<'a, E> = Box::new(move |tx, turn, name| {
            let called = catch_unwind(AssertUnwindSafe(|| work(tx.clone())));
            Box::pin(one_attempt(turn, tx, name, called))
        });
        let place = Place::new(ctx, Op::Transaction, name);
        let policy = Policy::default();
        TransactionStep {
            place,
            call,
            policy,
            attempt: 0,
            tries: 0,
            pause: BEGIN_AGAIN.0,
            body: Body::None,
            result: PhantomData,
        }
    }

    /// Tries again when the closure returns an error. What it wrote is rolled back each time.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = retry;
        self
    }

    undo_options!();

    fn begin_again(&mut self) {
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(BEGIN_AGAIN.1);
        self.begin(pause);
    }

    fn begin(&mut self, pause: Duration) {
        let turn = self.place.turn.clone();
        self.body = Body::Begins(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let inner = turn.engine.store.begin().await?;
            Ok(Tx::new(inner, &turn.record.tenant, turn.limits))
        }));
    }

    /// What follows; `None` to poll again.
    fn came_out(&mut self, attempt: Attempt<E>) -> Option<BodyEnd> {
        match attempt {
            Attempt::Recorded(entry) => Some(BodyEnd::Recorded(entry)),
            Attempt::Failed(failure) => Some(self.failed(failure)),
            // What nobody could begin says nothing about what it would do. The turn is dropped if the lease ends.
            // Nor does a disk without room, for which a person makes some.
            Attempt::NotBegun(error) if error.is_retryable() => {
                self.begin_again();
                None
            }
            Attempt::Again(StoreError::Full(_)) => {
                self.begin_again();
                None
            }
            Attempt::Again(error) if self.tries < TRIES && error.is_retryable() => {
                self.tries += 1;
                self.begin_again();
                None
            }
            Attempt::NotBegun(error) | Attempt::Again(error) => {
                Some(self.failed(Failure::Outlast(error.into())))
            }
            Attempt::Lost => {
                self.body = Body::Works(Work::new(Box::pin(std::future::pending())));
                None
            }
        }
    }

    fn failed(&self, failure: Failure<E>) -> BodyEnd {
        let limits = limits_of(&self.place.turn);
        self.policy.after(&what(&self.place.full_name()), self.attempt, failure, None, limits)
    }
}

fn what(name: &str) -> String {
    format!("transaction {name:?}")
}

/// One attempt, once its closure was called: the body, its result as bytes, the record and the commit.
async fn one_attempt<T: Stored, E: StoredError>(
    turn: Arc<Turn>,
    tx: Tx,
    name: Arc<str>,
    called: std::thread::Result<impl Future<Output = Result<T, E>>>,
) -> Attempt<E> {
    let what = what(&name);
    let done = guarded(&what, async {
        let work = called.unwrap_or_else(|panic| resume_unwind(panic));
        let value = work.await.map_err(Failure::Own)?;
        Ok(Payload::encode(format_args!("the result of {what}"), &value, limits_of(&turn))?)
    });
    let done = done.await;
    // Whatever the closure made of it: nothing of this transaction can happen any more.
    if let Some(error) = tx.trouble() {
        return Attempt::Again(error);
    }
    match done {
        Ok(payload) => record(&turn, &tx, name, payload).await,
        Err(failure) => Attempt::Failed(failure),
    }
}

/// Takes the position and the fence just before the commit; the run's other entries wait for it.
async fn record<E>(turn: &Arc<Turn>, tx: &Tx, name: Arc<str>, payload: Payload) -> Attempt<E> {
    let mut inner = match tx.take().await {
        Ok(inner) => inner,
        Err(error) => return Attempt::Failed(Failure::Outlast(error)),
    };
    let pos = turn.reserve().await;
    let mut reserved = Reserved(Some(turn.clone()));
    let took = turn.took(&name);
    let entry = Entry {
        pos,
        op: Op::Transaction,
        phase: Phase::Done,
        name,
        at: Timestamp::default(),
        took,
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
        Err(error) => match found(turn, &entry).await {
            None => return Attempt::Again(error),
            Some(found) if found.name == entry.name && found.body == entry.body => {}
            // Another node has the run since, and recorded there what it did itself: ours did not happen.
            Some(_) => {
                turn.lose();
                return Attempt::Lost;
            }
        },
    }
    // Reserved until it is handed over: nothing may come in between.
    reserved.0 = None;
    Attempt::Recorded(entry)
}

/// What the journal holds at an entry's position; asked until there is an answer.
async fn found(turn: &Turn, entry: &Entry) -> Option<Entry> {
    loop {
        match turn.engine.store.journal(turn.id(), entry.pos - 1, 1).await {
            Ok(found) => return found.into_iter().find(|found| found.pos == entry.pos),
            Err(error) => {
                if let Some(unsaid) = turn.engine.troubles.commit.say() {
                    let run = turn.id();
                    tracing::warn!(%error, %run, unsaid, "whether a transaction was committed is not known yet");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
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

impl<T: Stored, E: StoredError> Future for TransactionStep<'_, T, E> {
    type Output = Result<T, Failure<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if !this.place.is_asked() {
            this.policy.check()?;
        }
        match this.place.poll(cx)? {
            Placed::Handed(handed) => {
                this.body = Body::None;
                return this.place.taken(handed);
            }
            Placed::Start(attempt, _) => {
                (this.attempt, this.tries, this.pause) = (attempt, 1, BEGIN_AGAIN.0);
                this.begin(Duration::ZERO);
            }
            Placed::Pending => {}
            Placed::Left => return Poll::Pending,
        }
        loop {
            match &mut this.body {
                Body::None => return Poll::Pending,
                Body::Begins(begins) => match std::task::ready!(begins.as_mut().poll(cx)) {
                    Ok(tx) => {
                        let name = this.place.full_name();
                        let turn = this.place.turn.clone();
                        let called = turn.clone().in_body(name.clone(), || (this.call)(tx, turn, name));
                        this.body = Body::Works(Work::new(called));
                    }
                    Err(error) => {
                        if let Some(end) = this.came_out(Attempt::NotBegun(error)) {
                            this.body = Body::None;
                            this.place.ended(end);
                        }
                    }
                },
                Body::Works(works) => {
                    let name = this.place.full_name();
                    let attempt = std::task::ready!(this.place.turn.in_body(name, || works.poll_unpin(cx)));
                    if let Some(end) = this.came_out(attempt) {
                        this.body = Body::None;
                        this.place.ended(end);
                    }
                }
            }
        }
    }
}
