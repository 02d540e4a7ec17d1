//! Strict definitions: a run goes on only with the very code that it began with.
//!
//! What it began with is the first thing that such a run records, under a name that no code can use. So a run that
//! has recorded nothing yet begins with whatever code takes it, and one that starts over may do so with new code.

use outlast_core::{Op, Phase};

use super::turn::{Turn, note_payload};
use crate::Verdict;
use crate::registry::Registered;

const SIGNATURE: &str = "=signature";

/// Why the run must not go on with this code, if it must not.
pub(super) fn differs(turn: &Turn, definition: &Registered) -> Option<Verdict> {
    let mut state = turn.state();
    // Taken in any case: what nobody takes looks as if the code had not come to it yet.
    let recorded = state.replay.take(Op::Value, SIGNATURE);
    if !definition.options.strict {
        return None;
    }
    let here = &definition.signature;
    match recorded {
        Some(entry) => {
            let began = entry.note::<String>().unwrap_or_else(|error| error.to_string());
            (began != *here).then(|| Verdict::SignatureDiffers { began, here: here.clone() })
        }
        // One that began before its definition was strict stays as it is.
        None if turn.checks || !state.replay.leftovers().is_empty() => None,
        None => {
            state.record(Op::Value, Phase::Done, SIGNATURE.into(), Some(note_payload(here)));
            None
        }
    }
}
