//! What somebody read of journals while faults hit is there at the end, as it was: a history only grows.
//!
//! Not only at its end: a transaction of a branch commits its entry by itself, and may do so before those of other branches
//! that came to their steps earlier.

use super::*;

impl Checker<'_> {
    pub(super) fn earlier(&mut self) {
        let mut violations = Vec::new();
        for Glance { run, entries } in &self.evidence.earlier {
            let now = self.evidence.journals.get(run).map_or(&[][..], Vec::as_slice);
            let now: HashMap<u32, &Entry> = now.iter().map(|entry| (entry.pos, entry)).collect();
            if let Some(gone) = entries.iter().find(|then| now.get(&then.pos) != Some(then)) {
                violations.push((*run, format!("its journal once had, and has no more: {gone:?}")));
            }
        }
        violations.into_iter().for_each(|(run, what)| self.wrong(run, what));
    }
}
