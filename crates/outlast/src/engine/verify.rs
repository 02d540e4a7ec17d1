//! Verification: of some turns that ended, the journal is replayed once from its beginning, to see that the code
//! repeats itself. Code that does not (it looked at the time, at a map's order, at something outside) would go wrong
//! only after a crash, in the middle of the night; this tells while somebody is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::turn::Turn;
use super::{Engine, check};
use crate::Verdict;

/// Longer journals are left alone: to replay them takes a while.
const ENTRIES: u32 = 5_000;

/// How many of those that did not repeat themselves are kept for a test to show.
const KEPT: usize = 16;

/// What was found so far.
#[derive(Default)]
pub(crate) struct Verified {
    turns: AtomicU64,
    diverged: Mutex<Vec<String>>,
}

impl Verified {
    /// Whether it is this turn's turn, when one of so `many` is looked at.
    fn takes(&self, many: u32) -> bool {
        many > 0 && self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(many.into())
    }

    /// What did not repeat itself, in words.
    pub(crate) fn diverged(&self) -> Vec<String> {
        self.diverged.lock().clone()
    }
}

/// Replays the journal of a run that was suspended or has `ended`, if it is its turn.
pub(super) async fn verify(engine: &Arc<Engine>, turn: &Turn, ended: bool) {
    let length = turn.state().length();
    if length == 0 || length >= ENTRIES || !engine.verified.takes(engine.settings.verify) {
        return;
    }
    let journal = match engine.store.journal(turn.id(), 0, ENTRIES).await {
        Ok(journal) => journal,
        Err(error) => return tracing::debug!(%error, run = %turn.id(), "not verified"),
    };
    // Somebody else may have gone on with it, or purged it: a journal that is not all there shows nothing.
    let last = journal.last().map_or(0, |entry| entry.pos);
    if last < length || journal.len() >= ENTRIES as usize {
        return;
    }
    let verdict = check::check(engine, turn.record.clone(), journal, ended).await;
    metrics::counter!("outlast_verified_turns_total", "verdict" => verdict.word()).increment(1);
    if !verdict.fits() {
        report(engine, turn, &verdict);
    }
}

fn report(engine: &Engine, turn: &Turn, verdict: &Verdict) {
    let definition = &turn.record.definition;
    tracing::error!(run = %turn.id(), %definition, "the code does not repeat itself: {verdict}");
    let mut diverged = engine.verified.diverged.lock();
    if diverged.len() < KEPT {
        diverged.push(format!("{definition} ({}): {verdict}", turn.id()));
    }
}
