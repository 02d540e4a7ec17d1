//! What reverts an operation. It is not kept: whoever replays the run comes by the operation and hears of it again.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use outlast_core::{Op, Payload, Retry};

use super::StepCtx;
use super::place::Place;
use super::step::Step;
use crate::Verdict;
use crate::definition::{Stored, StoredError};
use crate::engine::turn::Turn;
use crate::verdict::Source;

/// How often an undo is tried where nobody says otherwise.
const TIMES: u32 = 10;

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

/// What an operation said of its undo.
pub(super) struct Undo {
    begin: Begin,
    pub(super) retry: Retry,
    /// Whether it is undone also when nobody knows whether it happened.
    pub(super) in_doubt: bool,
}

/// Runs an undo, given what the operation recorded. It is over when all is reverted, and never if that fails: the run
/// says so then.
type Begin = Arc<dyn Fn(Arc<Turn>, Undoable) -> BoxFuture<'static, ()> + Send + Sync>;

/// An operation that is undone if the run does not end well.
#[derive(Clone)]
pub(crate) struct Undoable {
    pub(crate) name: Arc<str>,
    value: Option<Payload>,
    retry: Retry,
    /// Where in the user's code it was made.
    source: Source,
    begin: Begin,
}

impl Undo {
    /// Of what is known to have happened.
    pub(super) fn with_value<T, E, F, Fut>(undo: F) -> Undo
    where
        T: Stored,
        E: StoredError,
        F: Fn(StepCtx, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        let undo = Arc::new(undo);
        Undo::new(false, move |step, value: Option<T>| {
            let undo = undo.clone();
            async move {
                match value {
                    Some(value) => undo(step, value).await,
                    None => Ok(()),
                }
            }
        })
    }

    pub(super) fn new<T, E, F, Fut>(in_doubt: bool, undo: F) -> Undo
    where
        T: Stored,
        E: StoredError,
        F: Fn(StepCtx, Option<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        let undo = Arc::new(undo);
        let begin: Begin = Arc::new(move |turn, what| {
            let undo = undo.clone();
            Box::pin(async move {
                let Undoable { name, value, retry, source, .. } = what;
                let place = Place::of_undo(&turn, name.clone(), source);
                let decode = move || {
                    let what = format_args!("what {name:?} recorded, to undo it");
                    value.as_ref().map(|value| value.decode::<T>(what)).transpose()
                };
                let misfit = match decode() {
                    Err(error) => Verdict::of_error(error, Some(source)),
                    Ok(_) => {
                        let step = Step::<(), E>::in_place(place, move |step| {
                            undo(step, decode().unwrap_or_default())
                        });
                        match step.retry(retry).await {
                            Ok(()) => return,
                            Err(failure) => Verdict::Blocks { reason: failure.to_string() },
                        }
                    }
                };
                turn.state().misfit = Some(misfit);
                std::future::pending().await
            })
        });
        Undo { begin, retry: Retry::times(TIMES), in_doubt }
    }

    /// For an operation of this name, with what it recorded.
    pub(super) fn of(&self, op: Op, name: &str, value: Option<Payload>, source: Source) -> Undoable {
        // No name of the user's has a `#` before a word.
        let name = match op {
            Op::Step => name.into(),
            op => format!("{name}#{}", op.word()).into(),
        };
        Undoable { name, value, retry: self.retry, source, begin: self.begin.clone() }
    }
}

/// Reverts what the run did and has not reverted yet, newest first.
pub(crate) async fn undo_all(turn: &Arc<Turn>) {
    loop {
        let Some(last) = turn.state().undoable.last().cloned() else { return };
        (last.begin)(turn.clone(), last.clone()).await;
        turn.state().undoable.retain(|other| other.name != last.name);
    }
}
