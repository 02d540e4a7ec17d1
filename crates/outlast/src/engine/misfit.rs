//! Misfits: what a journal holds and the code did not come to, which blocks the run with the difference.

use outlast_core::{Entry, Op, Phase};

use super::turn::{PATCH, State};
use crate::Verdict;
use crate::verdict::{Difference, Operation};

/// A run that waits although its journal goes on does not fit its code.
pub(super) fn misfit_at_wait(state: &State) -> Option<Verdict> {
    let mut difference = misfit(state, false)?;
    // What the journal does not know tells more than what it waits for as well.
    let new = state.slots.values().find(|slot| !state.replay.knows(slot.op, &slot.name));
    if let Some(slot) = new.or(state.slots.values().next()).filter(|_| difference.found.is_none()) {
        difference.found = Some(Operation::new(slot.op, &slot.name));
        difference.source = Some(slot.source);
        difference.is_new = new.is_some();
    }
    Some(Verdict::Diverges(difference))
}

/// Code that wants to do something new, has not come to what was recorded and does not know a patch that the run took is
/// older than the run: what is new to it was done in another way. It may come to that later, but only a step that was added
/// without a patch before one would, and that is not worth doing something twice.
pub(super) fn misfit_with_patch(state: &State) -> Option<Verdict> {
    let is_patch = |entry: &&Entry| entry.op == Op::Value && entry.name.starts_with(PATCH);
    state.replay.leftovers().iter().any(is_patch).then(|| misfit_at_wait(state)).flatten()
}

/// A run that ends although its journal has more does not fit its code. Before it undoes, what it undid before is
/// still to come.
pub(super) fn misfit_at_end(state: &State, before_undo: bool) -> Option<Verdict> {
    misfit(state, before_undo).map(Verdict::Diverges)
}

/// The first of what the code did not ask for, and what it did instead, if anything.
fn misfit(state: &State, before_undo: bool) -> Option<Difference> {
    let left = state.replay.leftovers();
    let first = left.iter().find(|entry| binds(entry) && !(before_undo && entry.op == Op::Undo))?;
    let expected = Some(Operation::new(first.op, &first.name));
    let (found, source) = state.strayed.clone().unzip();
    Some(Difference { entry: first.pos, expected, is_new: found.is_some(), found, source })
}

/// Whether leaving a recorded operation of this kind out changes what the run did.
fn binds(entry: &Entry) -> bool {
    match entry.op {
        Op::Step | Op::Transaction | Op::Event | Op::Promise | Op::Child => true,
        // That it could be undone is no deed.
        Op::Undo => entry.phase != Phase::Opened,
        _ => false,
    }
}
