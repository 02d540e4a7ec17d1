//! Durable waits: sleep, event, promise, cancellation. Each is a pending future; when nothing else is
//! left, the run is suspended and costs nothing.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use outlast_core::{Error, FailureDoc, Op, Payload, Phase, name_in_life};
use serde::de::DeserializeOwned;

use super::{Ctx, waiting};
use crate::definition::{Stored, check_duration};
use crate::engine::turn::{Ask, CANCEL_NAME, Cancelled, Deadline, Handed, Turn};
use crate::verdict::Source;

/// What all waits have in common: a place in the turn, taken when first polled and left when dropped.
pub(crate) struct Waiting {
    turn: Arc<Turn>,
    op: Op,
    /// The plain name and the name with its occurrence, or why there is none.
    name: Result<(Arc<str>, Arc<str>), Error>,
    within: Option<Deadline>,
    slot: Option<usize>,
    /// Where in the user's code it was made.
    source: Source,
}

impl Waiting {
    #[track_caller]
    pub(crate) fn new(turn: Arc<Turn>, op: Op, name: Result<(Arc<str>, Arc<str>), Error>) -> Waiting {
        Waiting { turn, op, name, within: None, slot: None, source: Location::caller() }
    }

    /// Says where in the user's code it was made, where that is not where it is made here.
    pub(super) fn made_at(mut self, source: Source) -> Waiting {
        self.source = source;
        self
    }

    fn timeout(&mut self, duration: Duration) {
        match check_duration("timeout", duration) {
            Ok(()) => self.within = Some(Deadline::After(duration)),
            Err(error) => self.name = Err(error),
        }
    }

    /// The name with its occurrence.
    fn full_name(&self) -> Result<&str, Error> {
        self.name.as_ref().map(|(_, full)| &**full).map_err(Clone::clone)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Handed, Error>> {
        let slot = match self.slot {
            Some(slot) => slot,
            None => {
                let (plain, name) = match self.name.clone() {
                    Ok(names) => names,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                let ask =
                    Ask { op: self.op, name, plain, within: self.within, body: false, source: self.source };
                *self.slot.insert(self.turn.ask(ask))
            }
        };
        let handed = std::task::ready!(self.turn.poll_slot(slot, cx));
        self.slot = None;
        Poll::Ready(Ok(handed))
    }

    /// The value that was handed over, or the failure.
    fn poll_value<T: DeserializeOwned>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let handed = std::task::ready!(self.poll(cx))?;
        let what = || format!("{} {:?}", self.op.word(), self.full_name().unwrap_or_default());
        Poll::Ready(match payload_of(handed)? {
            Ok(payload) => payload.decode(what()),
            Err(FailureDoc::Outlast(error)) => Err(error),
            Err(own) => Err(Error::misconfigured(format!("{} failed: {}", what(), own.message()))),
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.turn.forget(slot);
        }
    }
}

/// What a handed entry holds: the value, or the failure that was recorded.
pub(crate) fn payload_of(handed: Handed) -> Result<Result<Payload, FailureDoc>, Error> {
    match handed {
        Handed::Cancelled(reason) => Err(Error::Cancelled { reason }),
        Handed::Entry(entry) if entry.phase == Phase::Failed => Ok(Err(entry.failure()?)),
        Handed::Entry(entry) => Ok(Ok(entry.body.unwrap_or_else(|| super::note_of(&())))),
    }
}

/// A durable sleep: see [`Ctx::sleep`].
#[must_use = "a sleep does nothing unless awaited"]
pub struct Sleep(Waiting);

impl Sleep {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, deadline: Result<Deadline, Error>) -> Sleep {
        let name = ctx.identity(Op::Sleep, "sleep");
        match deadline {
            Ok(deadline) => {
                let mut inner = waiting(ctx, Op::Sleep, name);
                inner.within = Some(deadline);
                Sleep(inner)
            }
            Err(error) => Sleep(waiting(ctx, Op::Sleep, Err(error))),
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_value(cx)
    }
}

/// A wait for an event: see [`Ctx::event`].
#[must_use = "an event is not consumed unless awaited"]
pub struct EventWait<T>(Waiting, PhantomData<fn() -> T>);

impl<T> EventWait<T> {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, name: &str) -> EventWait<T> {
        // An event is matched by its own name, whatever scope waits for it.
        let names = ctx.identity(Op::Event, name).map(|(_, full)| (name.into(), full));
        EventWait(waiting(ctx, Op::Event, names), PhantomData)
    }

    /// Gives up after this long, with [`Error::TimedOut`].
    pub fn timeout(mut self, duration: Duration) -> Self {
        self.0.timeout(duration);
        self
    }
}

impl<T: Stored> Future for EventWait<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_value(cx)
    }
}

/// A wait for a promise: see [`Ctx::promise`].
#[must_use = "a promise is not waited for unless awaited"]
pub struct PromiseWait<T>(Waiting, PhantomData<fn() -> T>);

impl<T> PromiseWait<T> {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, name: &str) -> PromiseWait<T> {
        let names = ctx.identity(Op::Promise, name);
        let names = names.map(|(_, full)| (name_in_life(&full, ctx.turn.life).into(), full));
        PromiseWait(waiting(ctx, Op::Promise, names), PhantomData)
    }

    /// What whoever settles the promise has to show: see [`Client::settle_token`](crate::Client::settle_token).
    ///
    /// It is for this promise alone: after [`Ctx::continue_as_new`] a promise of the same name has another.
    pub fn token(&self) -> Result<String, Error> {
        Ok(format!("{}.{}", super::life(&self.0.turn), self.0.full_name()?))
    }

    /// Gives up after this long, with [`Error::TimedOut`].
    pub fn timeout(mut self, duration: Duration) -> Self {
        self.0.timeout(duration);
        self
    }
}

impl<T: Stored> Future for PromiseWait<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_value(cx)
    }
}

/// A wait for the request to stop: see [`Ctx::cancelled`].
#[must_use = "the request is not waited for unless awaited"]
pub struct CancelWait(Waiting);

impl CancelWait {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx) -> CancelWait {
        let names = (CANCEL_NAME.into(), format!("{CANCEL_NAME}?").into());
        CancelWait(waiting(ctx, Op::Cancel, Ok(names)))
    }
}

impl Future for CancelWait {
    type Output = String;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<String> {
        if let Cancelled::Told(reason) | Cancelled::Enforced(reason) = &self.0.turn.state().cancelled {
            return Poll::Ready(reason.clone());
        }
        match std::task::ready!(self.0.poll(cx)) {
            Ok(Handed::Cancelled(reason)) => Poll::Ready(reason),
            Ok(Handed::Entry(_)) => Poll::Ready(String::new()),
            Err(error) => Poll::Ready(error.to_string()),
        }
    }
}
