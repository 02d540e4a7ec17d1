//! Steps: side effects, recorded once.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast_core::{Error, Failure, Op, Payload, Retry};
use outlast_store::Doing;
use tokio::time::Instant;
use tracing::Instrument;

use super::place::{Place, Placed};
use super::policy::Policy;
use super::undo::{Undo, undo_options};
use super::work::{Work, guarded};
use super::{Ctx, StepCtx, limits_of};
use crate::definition::{Stored, StoredError};
use crate::engine::turn::BodyEnd;
use crate::verdict::Source;

/// A step: see [`Ctx::step`].
#[must_use = "a step does nothing unless awaited"]
pub struct Step<'a, T, E> {
    place: Place,
    begin: Begin<'a, E>,
    policy: Policy<E>,
    body: Option<Work<'a, BodyEnd>>,
    result: PhantomData<fn() -> T>,
}

/// Calls the closure for an attempt. Its own type is erased: where a future holds steps whose types borrow
/// for some lifetime, the compiler cannot show that it is `Send`, and `join!` would not compile.
type Begin<'a, E> = Box<dyn FnMut(StepCtx, Policy<E>) -> BoxFuture<'a, BodyEnd> + Send + 'a>;

impl<'a, T: Stored, E: StoredError> Step<'a, T, E> {
    #[track_caller]
    pub(super) fn new<F, Fut>(ctx: &Ctx, name: &str, work: F) -> Self
    where
        F: FnMut(StepCtx) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        Step::in_place(Place::new(ctx, Op::Step, name), work)
    }

    pub(super) fn in_place<F, Fut>(place: Place, mut work: F) -> Self
    where
        F: FnMut(StepCtx) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        let begin = move |step: StepCtx, policy| -> BoxFuture<'a, BodyEnd> {
            let (name, attempt) = (step.name(), step.attempt());
            let span = tracing::info_span!("outlast.step", step.name = %name, attempt, otel.name = %name);
            let called = span.in_scope(|| catch_unwind(AssertUnwindSafe(|| work(step.clone()))));
            Box::pin(one_attempt(step, policy, called, span))
        };
        let policy = Policy::default();
        Step { place, begin: Box::new(begin), policy, body: None, result: PhantomData }
    }

    /// The same for a step.
    pub(super) fn made_at(mut self, source: Source) -> Self {
        self.place.source = source;
        self
    }

    /// Tries again when an attempt fails. A long pause frees the run's slot.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = retry;
        self
    }

    /// Tries again only after errors for which this holds; all others are terminal.
    pub fn retry_if(mut self, holds: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.policy.retry_if = Some(Arc::new(holds));
        self
    }

    /// Errors that know themselves when another attempt makes sense: their pause instead of the policy's.
    pub fn retry_after(mut self, pause: impl Fn(&E) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.policy.retry_after = Some(Arc::new(pause));
        self
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(timeout);
        self
    }

    /// Counts an attempt as failed when its body has not called [`StepCtx::beat`] for this long.
    pub fn heartbeat(mut self, within: Duration) -> Self {
        self.policy.heartbeat = Some(within);
        self
    }

    undo_options!();

    fn start(&mut self, attempt: u32, saved: Option<Payload>) -> Work<'a, BodyEnd> {
        let step = StepCtx::new(&self.place, attempt, saved);
        Work::new((self.begin)(step, self.policy.clone()))
    }
}

/// One attempt, once its closure was called: the body, its result as bytes, what follows a failure.
async fn one_attempt<T: Stored, E: StoredError>(
    step: StepCtx,
    policy: Policy<E>,
    called: std::thread::Result<impl Future<Output = Result<T, E>>>,
    span: tracing::Span,
) -> BodyEnd {
    let what = Named(step.name());
    let done = guarded(&what, async {
        let work = called.unwrap_or_else(|panic| resume_unwind(panic)).instrument(span);
        let value = watched(&step, &policy, work).await?.map_err(Failure::Own)?;
        Ok(Payload::encode(format_args!("the result of {what}"), &value, limits_of(step.turn()))?)
    });
    match done.await {
        Ok(payload) => BodyEnd::Done(payload),
        Err(failure) => {
            metrics::counter!("outlast_failed_step_attempts_total").increment(1);
            let saved = step.saved_last();
            policy.after(&what.to_string(), step.attempt(), failure, saved, limits_of(step.turn()))
        }
    }
}

/// A step in an error: words that hardly ever have to be made.
struct Named<'a>(&'a str);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {:?}", self.0)
    }
}

/// Runs a body within its timeout and heartbeat, and announces it when it takes a while.
async fn watched<E, W: Future>(step: &StepCtx, policy: &Policy<E>, work: W) -> Result<W::Output, Error> {
    let mut work = std::pin::pin!(work);
    // Most bodies are done at once or soon: no timer for those.
    if let Some(done) = std::future::poll_fn(|cx| Poll::Ready(ready(work.as_mut().poll(cx)))).await {
        return Ok(done);
    }
    let began = Instant::now();
    let what = || Named(step.name()).to_string();
    let mut announced = false;
    loop {
        let silence = policy.heartbeat.map(|within| step.heard_at() + within);
        let deadline = policy.timeout.map(|timeout| began + timeout);
        let announce = (!announced).then_some(began + Doing::ANNOUNCED_AFTER);
        let next = [silence, deadline, announce].into_iter().flatten().min();
        let tick = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            () = tick => {}
        }
        let now = Instant::now();
        if let Some(timeout) = policy.timeout.filter(|timeout| now >= began + *timeout) {
            return Err(Error::TimedOut { what: what(), after_ms: timeout.as_millis() as u64 });
        }
        if let Some(within) = policy.heartbeat.filter(|within| now >= step.heard_at() + *within) {
            let what = format!("the heartbeat of {}", what());
            return Err(Error::TimedOut { what, after_ms: within.as_millis() as u64 });
        }
        if !announced && now >= began + Doing::ANNOUNCED_AFTER {
            announced = true;
            step.announce();
        }
    }
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl<T: Stored, E: StoredError> Future for Step<'_, T, E> {
    type Output = Result<T, Failure<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if !this.place.is_asked() {
            this.policy.check()?;
        }
        match this.place.poll(cx)? {
            Placed::Handed(handed) => {
                this.body = None;
                return this.place.taken(handed);
            }
            Placed::Start(attempt, saved) => {
                let (turn, name) = (this.place.turn.clone(), this.place.log_name());
                this.body = Some(turn.in_body(name, || this.start(attempt, saved)));
            }
            Placed::Pending => {}
            Placed::Left => return Poll::Pending,
        }
        if let Some(body) = &mut this.body
            && let Poll::Ready(end) = this.place.turn.in_body(this.place.log_name(), || body.poll_unpin(cx))
        {
            this.body = None;
            this.place.ended(end);
        }
        Poll::Pending
    }
}
