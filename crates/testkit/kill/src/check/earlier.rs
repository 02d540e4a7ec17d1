//! What somebody read of journals while faults hit is how those journals still begin: a history only grows.

use super::*;

impl Checker<'_> {
    pub(super) fn earlier(&mut self) {
        let mut violations = Vec::new();
        for Glance { run, entries } in &self.evidence.earlier {
            let now = self.evidence.journals.get(run).map_or(&[][..], Vec::as_slice);
            let differs = entries.iter().zip(now).find(|(then, now)| then != now).map(|(then, _)| then);
            if let Some(then) = differs.or_else(|| entries.get(now.len())) {
                violations.push((*run, format!("its journal once had, and has no more: {then:?}")));
            }
        }
        violations.into_iter().for_each(|(run, what)| self.wrong(run, what));
    }
}
