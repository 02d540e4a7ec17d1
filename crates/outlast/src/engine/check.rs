//! Checks: a journal replayed against the code that is here, with nothing behind it.
//!
//! The same [`Turn`] and [`Drive`] as ever, with one difference: where nothing recorded is left to hand over, the
//! drive stops. No body starts, nothing is committed, no timer goes off, nobody is asked anything. What the code
//! does outside of its operations it does again, as in every replay.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use outlast_core::{Entry, Error, FailureDoc, Timestamp};
use outlast_store::{RunRecord, code};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::drive::{Drive, TurnEnd, panic_message};
use super::misfit::misfit_at_end;
use super::turn::{Arrival, Turn};
use super::{Engine, strict};
use crate::Ctx;
use crate::definition::Outcome;
use crate::registry::Body;
use crate::verdict::{Difference, Operation, Verdict};

/// Whether a run with this journal goes on with the code that is here or, once it `ended`, ends again.
pub(crate) async fn check(
    engine: &Arc<Engine>,
    record: RunRecord,
    entries: Vec<Entry>,
    ended: bool,
) -> Verdict {
    let Some(definition) = engine.registry.get(&code(&record.definition, record.version)) else {
        return engine.registry.missing(&record.definition, record.version);
    };
    let Body::Workflow(call) = &definition.body else {
        let accepted = definition.check_input(&record.input);
        return accepted
            .map_or_else(|error| Verdict::of_error(error, None), |()| Verdict::Fits { entries: 0 });
    };
    let length = entries.len();
    let turn = Arc::new(Turn::to_check(engine.clone(), record, entries));
    if let Some(differs) = strict::differs(&turn, &definition) {
        return differs;
    }
    let ctx = Ctx::new(turn.clone());
    let called = std::panic::catch_unwind(AssertUnwindSafe(|| call(ctx, &turn.input, engine.limits)));
    let mut drive = match called {
        Ok(Ok(code)) => Drive::new(turn.clone(), code),
        Ok(Err(error)) => return Verdict::of_error(error, None),
        Err(panic) => return Verdict::Panics { message: panic_message(&*panic) },
    };
    // Whoever listens has heard it all when it happened.
    let end = (&mut drive).with_subscriber(NoSubscriber::default()).await;
    let fits = Verdict::Fits { entries: length };
    match end {
        TurnEnd::Misfit(misfit) => misfit,
        TurnEnd::Finished(outcome) => finished(&turn, outcome).unwrap_or(fits),
        TurnEnd::Waiting { .. } if ended => not_ended(&turn),
        TurnEnd::Cut(failure) => Verdict::Blocks { reason: failure.message() },
        TurnEnd::Waiting { .. }
        | TurnEnd::Undoing
        | TurnEnd::UndoFailed(_)
        | TurnEnd::Continue
        | TurnEnd::Stopped
        | TurnEnd::Lost => fits,
    }
}

impl Turn {
    /// A turn that only repeats.
    fn to_check(engine: Arc<Engine>, record: RunRecord, entries: Vec<Entry>) -> Turn {
        let arrival = Arrival {
            epoch: 0,
            inbox: Vec::new(),
            seen: 0,
            expires_at: None,
            was_early: false,
            at: Timestamp::default(),
        };
        let mut turn = Turn::new(engine, record, entries, Vec::new(), arrival);
        turn.checks = true;
        turn
    }
}

/// What is wrong with code that returned.
fn finished(turn: &Turn, outcome: Outcome) -> Option<Verdict> {
    let mut state = turn.state();
    if let Some(misfit) = state.misfit.take() {
        return Some(misfit);
    }
    match outcome {
        Err(FailureDoc::Outlast(Error::Panicked { message, .. })) => Some(Verdict::Panics { message }),
        _ => misfit_at_end(&state, false),
    }
}

/// The run ended, and its code now wants more.
fn not_ended(turn: &Turn) -> Verdict {
    let state = turn.state();
    let open = state.slots.values().find(|slot| !state.replay.knows(slot.op, &slot.name));
    let open = open.or_else(|| state.slots.values().next());
    Verdict::Diverges(Difference {
        entry: state.replay.last_pos(),
        expected: None,
        found: open.map(|slot| Operation::new(slot.op, &slot.name)),
        is_new: true,
        source: open.map(|slot| slot.source),
    })
}
