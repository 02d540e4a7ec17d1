//! After the last fault: every node that is up works, and what engines counted is added up.

use super::*;
use crate::scene::NEW;

impl<'a> Checker<'a> {
    /// Every node that is there at the end has begun and ended something since no more faults came.
    pub(super) fn healed(&mut self) {
        let mut up: BTreeSet<u32> = BTreeSet::new();
        for line in &self.evidence.ledger {
            match line {
                Line::Up { node } => drop(up.insert(*node)),
                Line::Kill { node } | Line::Left { node } => drop(up.remove(node)),
                Line::Metric { name, by, .. } => {
                    *self.verdict.metrics.entry(name.clone()).or_default() += by;
                }
                _ => {}
            }
        }
        if !self.evidence.ledger.iter().any(|line| matches!(line, Line::Heal { .. })) {
            return;
        }
        for node in up {
            let ends = new_ends(&self.evidence.ledger, node);
            if ends < NEW {
                self.wrong(None, format!("node {node} ended {ends} new bodies after the last fault"));
            }
        }
    }
}

/// How many bodies a node has begun and ended since no more faults came.
pub(crate) fn new_ends(ledger: &[Line], node: u32) -> usize {
    let healed = ledger.iter().rposition(|line| matches!(line, Line::Heal { .. }));
    let Some(healed) = healed else { return 0 };
    let Line::Heal { at } = &ledger[healed] else { return 0 };
    let is_new = |line: &&Line| matches!(line, Line::End(call) if call.node == node && call.at >= *at);
    ledger[healed..].iter().filter(is_new).count()
}
