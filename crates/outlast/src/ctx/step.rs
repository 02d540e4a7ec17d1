//! Steps: side effects, recorded once.

use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast_core::{Error, Failure, FailureDoc, Limits, Op, Payload, Retry, RunId};
use outlast_store::Doing;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::Instrument;

use super::undo::Undo;
use super::wait::payload_of;
use super::work::{Work, guarded, panicked};
use super::{Ctx, limits_of, missing_state};
use crate::Verdict;
use crate::definition::{Stored, StoredError};
use crate::engine::turn::{Ask, BodyEnd, Handed, Turn};
use crate::verdict::Source;

/// After how long a running step is shown to people.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(200);

/// What steps and transactions say of their undo.
macro_rules! undo_options {
    () => {
        /// What reverts this when the run fails or is cancelled, given what was recorded here. It runs after any number
        /// of crashes, on whatever node, as a durable step of its own, newest first among those of the run; a crash
        /// may run it again: pass `s.key()` on. It is tried ten times unless [`Self::undo_retry`] says otherwise.
        pub fn undo<F, Fut, U>(mut self, undo: F) -> Self
        where
            F: Fn(StepCtx, T) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<(), U>> + Send + 'static,
            U: StoredError,
        {
            self.place.undo = Some(Undo::with_value(undo));
            self
        }

        /// As [`Self::undo`], also when nobody knows whether this happened: it was begun, and no result was
        /// recorded. Then there is no value. Costs a record before the first attempt.
        pub fn undo_in_doubt<F, Fut, U>(mut self, undo: F) -> Self
        where
            F: Fn(StepCtx, Option<T>) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<(), U>> + Send + 'static,
            U: StoredError,
        {
            self.place.undo = Some(Undo::new(true, undo));
            self
        }

        /// How often the undo is tried, which is said first.
        pub fn undo_retry(mut self, retry: Retry) -> Self {
            if let Some(undo) = &mut self.place.undo {
                undo.retry = retry;
            }
            self
        }
    };
}
pub(super) use undo_options;

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

type RetryIf<E> = Arc<dyn Fn(&E) -> bool + Send + Sync>;
type RetryAfter<E> = Arc<dyn Fn(&E) -> Option<Duration> + Send + Sync>;

/// How often and how long a step is tried.
pub(super) struct Policy<E> {
    pub(super) retry: Retry,
    pub(super) timeout: Option<Duration>,
    pub(super) heartbeat: Option<Duration>,
    pub(super) retry_if: Option<RetryIf<E>>,
    pub(super) retry_after: Option<RetryAfter<E>>,
}

impl<E> Clone for Policy<E> {
    fn clone(&self) -> Self {
        let (retry_if, retry_after) = (self.retry_if.clone(), self.retry_after.clone());
        Policy { retry_if, retry_after, ..*self }
    }
}

impl<E> Default for Policy<E> {
    fn default() -> Self {
        Policy { retry: Retry::never(), timeout: None, heartbeat: None, retry_if: None, retry_after: None }
    }
}

impl<E: StoredError> Policy<E> {
    /// What follows a failed attempt. The user's code has a say in it, and may panic here as well.
    pub(super) fn after(
        &self,
        what: &str,
        attempt: u32,
        failure: Failure<E>,
        saved: Option<Payload>,
        limits: &Limits,
    ) -> BodyEnd {
        let judge = AssertUnwindSafe(|| {
            let (doc, again) = (FailureDoc::new(&failure, limits), self.allows(&failure));
            let asked = self.asks(&failure);
            drop(failure);
            (doc, again, asked)
        });
        let (failure, again, asked) = catch_unwind(judge)
            .unwrap_or_else(|panic| (FailureDoc::Outlast(panicked(what, &*panic)), true, None));
        match self.retry.pause(attempt, fastrand::f64()).filter(|_| again) {
            Some(pause) => BodyEnd::Again { failure, pause: asked.unwrap_or(pause), saved },
            None => BodyEnd::Failed(failure),
        }
    }

    /// Whether another attempt makes sense.
    fn allows(&self, failure: &Failure<E>) -> bool {
        match failure {
            Failure::Own(error) => self.retry_if.as_ref().is_none_or(|retry_if| retry_if(error)),
            Failure::Outlast(error) => {
                matches!(error, Error::TimedOut { .. } | Error::Panicked { .. } | Error::Store { .. })
            }
        }
    }

    /// The pause that the error itself asks for.
    fn asks(&self, failure: &Failure<E>) -> Option<Duration> {
        match failure {
            Failure::Own(error) => self.retry_after.as_ref()?(error).map(|pause| pause.min(Limits::DURATION)),
            Failure::Outlast(_) => None,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.retry.check()?;
        for (what, duration) in [("timeout", self.timeout), ("heartbeat", self.heartbeat)] {
            crate::definition::check_duration(what, duration.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The place of an operation with a body in its turn.
pub(super) struct Place {
    pub(super) turn: Arc<Turn>,
    pub(super) op: Op,
    pub(super) names: Result<(Arc<str>, Arc<str>), Error>,
    pub(super) undo: Option<Undo>,
    slot: Option<usize>,
    /// Where in the user's code it was made.
    source: Source,
}

/// What the place of an operation says when polled.
pub(super) enum Placed {
    Handed(Handed),
    /// The body may start, as this attempt, with what the last one saved.
    Start(u32, Option<Payload>),
    Pending,
    /// Whatever the body does, it is not its turn.
    Left,
}

impl Place {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, op: Op, name: &str) -> Place {
        let source = Location::caller();
        Place { turn: ctx.turn.clone(), op, names: ctx.identity(op, name), undo: None, slot: None, source }
    }

    /// Of what reverts an operation that was made there.
    pub(super) fn of_undo(turn: &Arc<Turn>, name: Arc<str>, source: Source) -> Place {
        let names = Ok((name.clone(), name));
        Place { turn: turn.clone(), op: Op::Undo, names, undo: None, slot: None, source }
    }

    /// Says where in the user's code it was made, where that is not where it is made here.
    pub(super) fn made_at(mut self, source: Source) -> Place {
        self.source = source;
        self
    }

    pub(super) fn full_name(&self) -> Arc<str> {
        self.names.as_ref().map_or_else(|_| Arc::default(), |(_, full)| full.clone())
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Result<Placed, Error> {
        let slot = match self.slot {
            Some(slot) => slot,
            None => {
                let (plain, name) = self.names.clone()?;
                // Known before its body starts, which waits until that is durable.
                if let Some(undo) = self.undo.as_ref().filter(|undo| undo.in_doubt) {
                    self.turn.can_undo(undo.of(self.op, &name, None, self.source));
                }
                let ask = Ask { op: self.op, name, plain, within: None, body: true, source: self.source };
                *self.slot.insert(self.turn.ask(ask))
            }
        };
        if let Poll::Ready(handed) = self.turn.poll_slot(slot, cx) {
            self.slot = None;
            return Ok(Placed::Handed(handed));
        }
        if self.turn.leaves_body(cx) {
            return Ok(Placed::Left);
        }
        Ok(match self.turn.may_start(slot) {
            Some((attempt, saved)) => Placed::Start(attempt, saved),
            None => Placed::Pending,
        })
    }

    /// Whether the journal was asked for it.
    pub(super) fn is_asked(&self) -> bool {
        self.slot.is_some()
    }

    /// The recorded result with the user's types. One that does not decode meets code that changed: the run is
    /// blocked, not failed.
    pub(super) fn taken<T: DeserializeOwned, E: DeserializeOwned>(
        &self,
        handed: Handed,
    ) -> Poll<Result<T, Failure<E>>> {
        match payload_of(handed)? {
            Err(failure) => Poll::Ready(Err(failure.typed())),
            Ok(payload) => {
                if let Some(undo) = &self.undo {
                    self.turn.can_undo(undo.of(
                        self.op,
                        &self.full_name(),
                        Some(payload.clone()),
                        self.source,
                    ));
                }
                let what = format_args!("the recorded result of {} {:?}", self.op.word(), self.full_name());
                match payload.decode(what) {
                    Ok(value) => Poll::Ready(Ok(value)),
                    Err(error) => {
                        self.turn.state().misfit = Some(Verdict::of_error(error, Some(self.source)));
                        Poll::Pending
                    }
                }
            }
        }
    }

    pub(super) fn ended(&self, end: BodyEnd) {
        if let Some(slot) = self.slot {
            self.turn.body_ended(slot, end);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.turn.forget(slot);
        }
    }
}

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
            let (name, attempt) = (&step.0.name, step.0.attempt);
            let span = tracing::info_span!("outlast.step", step.name = %name, attempt, otel.name = %name);
            let called = span.in_scope(|| catch_unwind(AssertUnwindSafe(|| work(step.clone()))));
            Box::pin(one_attempt(step.0, policy, called, span))
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
        let step = StepCtx(Arc::new(StepInner {
            turn: self.place.turn.clone(),
            op: self.place.op,
            name: self.place.full_name(),
            attempt,
            saved: saved.clone(),
            beat: Mutex::new(Beat { at: Instant::now(), saved }),
            listening: AtomicU32::new(0),
            #[cfg(feature = "http")]
            keyed: crate::http::Keyed::default(),
        }));
        Work::new((self.begin)(step, self.policy.clone()))
    }
}

/// One attempt, once its closure was called: the body, its result as bytes, what follows a failure.
async fn one_attempt<T: Stored, E: StoredError>(
    step: Arc<StepInner>,
    policy: Policy<E>,
    called: std::thread::Result<impl Future<Output = Result<T, E>>>,
    span: tracing::Span,
) -> BodyEnd {
    let what = Named(&step.name);
    let done = guarded(&what, async {
        let work = called.unwrap_or_else(|panic| resume_unwind(panic)).instrument(span);
        let value = watched(&step, &policy, work).await?.map_err(Failure::Own)?;
        Ok(Payload::encode(format_args!("the result of {what}"), &value, limits_of(&step.turn))?)
    });
    match done.await {
        Ok(payload) => BodyEnd::Done(payload),
        Err(failure) => {
            metrics::counter!("outlast_failed_step_attempts_total").increment(1);
            let saved = step.beat.lock().saved.clone();
            policy.after(&what.to_string(), step.attempt, failure, saved, limits_of(&step.turn))
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
async fn watched<E, W: Future>(step: &StepInner, policy: &Policy<E>, work: W) -> Result<W::Output, Error> {
    let mut work = std::pin::pin!(work);
    // Most bodies are done at once or soon: no timer for those.
    if let Some(done) = std::future::poll_fn(|cx| Poll::Ready(ready(work.as_mut().poll(cx)))).await {
        return Ok(done);
    }
    let began = Instant::now();
    let what = || Named(&step.name).to_string();
    let mut announced = false;
    loop {
        let silence = policy.heartbeat.map(|within| step.beat.lock().at + within);
        let deadline = policy.timeout.map(|timeout| began + timeout);
        let announce = (!announced).then_some(began + ANNOUNCE_AFTER);
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
        if let Some(within) = policy.heartbeat.filter(|within| now >= step.beat.lock().at + *within) {
            let what = format!("the heartbeat of {}", what());
            return Err(Error::TimedOut { what, after_ms: within.as_millis() as u64 });
        }
        if !announced && now >= began + ANNOUNCE_AFTER {
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
                let turn = this.place.turn.clone();
                this.body = Some(turn.in_body(|| this.start(attempt, saved)));
            }
            Placed::Pending => {}
            Placed::Left => return Poll::Pending,
        }
        if let Some(body) = &mut this.body
            && let Poll::Ready(end) = this.place.turn.in_body(|| body.poll_unpin(cx))
        {
            this.body = None;
            this.place.ended(end);
        }
        Poll::Pending
    }
}

/// A recorded result with the user's types.
pub(super) fn result_of<T: DeserializeOwned, E: DeserializeOwned>(
    handed: Handed,
    name: &str,
) -> Result<T, Failure<E>> {
    match payload_of(handed)? {
        Ok(payload) => Ok(payload.decode(format_args!("the recorded result of {name:?}"))?),
        Err(failure) => Err(failure.typed()),
    }
}

/// What a step's body is given. Cheap to clone.
#[derive(Clone)]
pub struct StepCtx(Arc<StepInner>);

struct StepInner {
    turn: Arc<Turn>,
    op: Op,
    name: Arc<str>,
    attempt: u32,
    saved: Option<Payload>,
    beat: Mutex<Beat>,
    /// How many of its futures wait for the request to stop, or have heard of it.
    listening: AtomicU32,
    /// Whom this attempt has sent its key.
    #[cfg(feature = "http")]
    keyed: crate::http::Keyed,
}

struct Beat {
    at: Instant,
    saved: Option<Payload>,
}

impl StepInner {
    /// A row that people see and nothing waits for.
    fn announce(&self) {
        let saved = self.beat.lock().saved.clone();
        let doing = Doing { name: self.name.to_string(), attempt: self.attempt, saved, ..Doing::default() };
        self.turn.state().outbox.doing.push(doing);
        self.turn.submit(None);
    }
}

/// While this exists, the request to stop waits for the end of the step's body.
struct Listening<'a>(&'a StepInner);

impl<'a> Listening<'a> {
    fn new(step: &'a StepInner) -> Listening<'a> {
        let mut state = step.turn.state();
        if step.listening.fetch_add(1, Ordering::Relaxed) == 0 {
            state.listeners.insert(step.name.clone());
        }
        Listening(step)
    }

    /// It has heard: the request waits until the body ends, whatever that does now.
    fn heard(self) {
        std::mem::forget(self);
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut state = self.0.turn.state();
        if self.0.listening.fetch_sub(1, Ordering::Relaxed) == 1 {
            state.listeners.remove(&self.0.name);
            drop(state);
            self.0.turn.waker.wake();
        }
    }
}

impl StepCtx {
    pub(super) fn turn(&self) -> &Turn {
        &self.0.turn
    }

    /// The same for every attempt of this step and for no other: pass it on to whatever must not happen
    /// twice. After [`Ctx::continue_as_new`] a step of the same name is another one, with another key.
    #[doc(alias = "idempotency")]
    pub fn key(&self) -> String {
        let undo = if self.0.op == Op::Undo { "#undo" } else { "" };
        format!("{}/{}{undo}", super::life(&self.0.turn), self.0.name)
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.0.turn.id()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Says that the body is alive, and saves a value that the next attempt gets from [`StepCtx::saved`].
    pub fn beat<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let payload = Payload::encode("heartbeat", value, limits_of(&self.0.turn))?;
        *self.0.beat.lock() = Beat { at: Instant::now(), saved: Some(payload) };
        self.0.announce();
        Ok(())
    }

    /// What an earlier attempt saved last.
    pub fn saved<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.0.saved.as_ref().map(|saved| saved.decode("heartbeat")).transpose()
    }

    /// Calls other services: see [`http`](crate::http).
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(ctx: Ctx) -> Result<(), AnyError> {
    /// let rate = ctx.step("rate", async |s| {
    ///     let answer = s.http().get("https://api.example.com/rates").query("of", "EUR").send().await?;
    ///     answer.error_for_status()?.json::<f64>()
    /// });
    /// let rate = rate.retry(Retry::times(5)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn http(&self) -> crate::http::Http {
        let (turn, keyed) = (&self.0.turn, self.0.keyed.clone());
        crate::http::Http::direct(&turn.engine, &turn.record, self.key(), keyed)
    }

    /// Waits until someone asks the run to stop; gives the reason. A body that awaits this may finish
    /// cleanly: its result is recorded before the run hears of the request. One that has stopped waiting is
    /// dropped like any other.
    pub async fn cancelled(&self) -> String {
        let listening = Listening::new(&self.0);
        let reason = super::stop_asked(&self.0.turn.cancel).await;
        listening.heard();
        reason
    }

    /// A value that was registered with [`Outlast::state`](crate::Outlast::state). Without one the run is
    /// blocked until a node that has it appears.
    pub fn state<T: Any + Send + Sync>(&self) -> Arc<T> {
        let found = self.0.turn.engine.states.get(&TypeId::of::<T>()).cloned();
        match found.and_then(|state| state.downcast::<T>().ok()) {
            Some(state) => state,
            None => {
                let reason = missing_state::<T>();
                self.0.turn.state().misfit = Some(Verdict::Blocks { reason: reason.clone() });
                resume_unwind(Box::new(reason))
            }
        }
    }
}
