//! The place of an operation with a body in its turn: what it is called, what the journal knows of it, and when its body
//! may start.

use std::panic::Location;
use std::sync::Arc;
use std::task::{Context, Poll};

use outlast_core::{Error, Failure, Op, Payload};
use serde::de::DeserializeOwned;

use super::Ctx;
use super::undo::Undo;
use super::wait::payload_of;
use crate::Verdict;
use crate::engine::turn::{Ask, BodyEnd, Handed, Turn};
use crate::verdict::Source;

/// The place of an operation with a body in its turn.
pub(super) struct Place {
    pub(super) turn: Arc<Turn>,
    pub(super) op: Op,
    pub(super) names: Result<(Arc<str>, Arc<str>), Error>,
    pub(super) undo: Option<Undo>,
    slot: Option<usize>,
    /// Where in the user's code it was made.
    pub(super) source: Source,
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

    /// What lines are kept under that its body logs: an undo has the name of what it reverts, and its lines are its own.
    pub(super) fn log_name(&self) -> Arc<str> {
        match self.op {
            Op::Undo => format!("{}:{}", self.op.word(), self.full_name()).into(),
            _ => self.full_name(),
        }
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
