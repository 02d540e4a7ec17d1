//! What bodies did, by the ledger: as often as planned, and never again after their record.

use super::*;

impl<'a> Checker<'a> {
    /// What bodies did fits what was recorded.
    pub(super) fn bodies(&mut self) {
        let begins = std::mem::take(&mut self.begins);
        for (&(run, step), calls) in &begins {
            let Some(wanted) = self.wanted.remove(&(run, step.to_owned())) else {
                // Of a run without a score nothing more can be said than that.
                if self.asked.get(&run) != Some(&false) {
                    self.wrong(run, format!("{step} began, and no plan has it"));
                }
                continue;
            };
            self.body(run, step, &wanted, calls);
            self.wanted.insert((run, step.to_owned()), wanted);
        }
        let missing = self.wanted.iter().filter(|((run, step), wanted)| {
            wanted.recorded.value().is_some() && !begins.contains_key(&(*run, step.as_str()))
        });
        let missing: Vec<(RunId, String)> = missing.map(|(place, _)| place.clone()).collect();
        for (run, step) in missing {
            self.wrong(run, format!("{step} has a result and never began"));
        }
        self.begins = begins;
    }

    fn body(&mut self, run: RunId, step: &str, wanted: &Wanted, calls: &[(usize, &Body)]) {
        for (_, call) in calls {
            if call.sum != wanted.sum {
                let node = call.node;
                self.wrong(run, format!("{step} on node {node}: its run had seen something else before it"));
            }
            if call.attempt > wanted.fails + 1 {
                self.wrong(run, format!("{step} had attempt {}", call.attempt));
            }
        }
        for pair in calls.windows(2) {
            let [(_, one), (place, next)] = pair else { continue };
            let dead = self.kills.get(&one.node).is_some_and(|killed| killed < place);
            // A transaction that met a conflict is begun again at once.
            let conflict = one.node == next.node && matches!(wanted.recorded, Recorded::Row { .. });
            let failed = next.attempt == one.attempt + 1 && one.attempt <= wanted.fails;
            let failed = failed && self.ends.get(&one.value).is_some_and(|end| end < place);
            let again = next.attempt == one.attempt && (dead || conflict);
            if !failed && !again && !self.excused(&[one.node, next.node]) {
                let what = format!(
                    "{step} attempt {} began on node {} although attempt {} had begun on node {}, which was alive",
                    next.attempt, next.node, one.attempt, one.node
                );
                self.wrong(run, what);
            }
        }
        match wanted.recorded {
            Recorded::Nothing { rival } => self.loser(run, step, rival, calls),
            recorded => self.recorded(run, step, recorded, calls),
        }
    }

    /// The recorded result is one that a body returned, and nothing began after it.
    fn recorded(&mut self, run: RunId, step: &str, recorded: Recorded, calls: &[(usize, &Body)]) {
        let Some(value) = recorded.value() else { return };
        let (Some((_, call)), Some(&end)) =
            (calls.iter().find(|(_, call)| call.value == value), self.ends.get(&value))
        else {
            return self.wrong(run, format!("{step} has a result that no body returned: {value}"));
        };
        if let Recorded::Done { attempt, .. } | Recorded::Failed { attempt, .. } = recorded
            && attempt != call.attempt
        {
            self.wrong(run, format!("{step} ended with attempt {} instead of {attempt}", call.attempt));
        }
        for (place, later) in calls.iter().filter(|(place, _)| *place > end) {
            if !self.excused(&[call.node, later.node]) {
                let (killed, node) = (self.kills.get(&call.node), later.node);
                let killed = killed.is_some_and(|killed| killed < place);
                let what = format!("{step} began on node {node} although its result was recorded by node ");
                self.wrong(run, format!("{what}{} (killed meanwhile: {killed})", call.node));
            }
        }
    }

    /// What lost a race does not begin again once the other's result is recorded.
    fn loser(&mut self, run: RunId, step: &str, rival: Option<u64>, calls: &[(usize, &Body)]) {
        let Some(&end) = rival.and_then(|rival| self.ends.get(&rival)) else { return };
        let Line::End(winner) = &self.evidence.ledger[end] else { return };
        for (place, call) in calls {
            if *place > end && call.node != winner.node && !self.excused(&[call.node, winner.node]) {
                self.wrong(run, format!("{step} began on node {} although it had lost its race", call.node));
            }
        }
    }

    /// A node that lost its lease may do what another does already, until it notices.
    pub(super) fn excused(&self, nodes: &[u32]) -> bool {
        nodes.iter().any(|node| self.lapsed.contains(node))
    }
}
