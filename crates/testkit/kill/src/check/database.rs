//! What the database holds: journals, results and rows, each as the plans and the ledger say.

use super::*;
use crate::sagas::undo_of;

impl<'a> Checker<'a> {
    /// Journals hold one result for each operation, the one that the run saw.
    pub(super) fn journals(&mut self) {
        for (run, entries) in &self.evidence.journals {
            let mut results: HashMap<(Op, &str), &Entry> = HashMap::new();
            let mut attempts: HashMap<String, Vec<u32>> = HashMap::new();
            for entry in entries {
                match entry.phase {
                    Phase::Done | Phase::Failed => {
                        let before = results.insert((entry.op, &entry.name), entry);
                        if before.is_some() {
                            self.wrong(*run, format!("{} {} has two results", entry.op.word(), entry.name));
                        }
                    }
                    Phase::Attempt => {
                        let step = match entry.op {
                            Op::Job => JOB_STEP.to_owned(),
                            Op::Undo => undo_of(&entry.name),
                            _ => entry.name.to_string(),
                        };
                        let before = attempts.entry(step.clone()).or_default();
                        self.attempt(*run, &step, entry, before);
                    }
                    _ => {}
                }
            }
            if self.asked.get(run) == Some(&true) {
                self.results(*run, &results, &attempts);
            }
        }
    }

    /// A failed attempt that was recorded is one that a body made, and was not begun again.
    fn attempt(&mut self, run: RunId, step: &str, entry: &Entry, before: &mut Vec<u32>) {
        let Ok(note) = entry.note::<Attempt>() else {
            return self.wrong(run, format!("{step} has an attempt that cannot be read"));
        };
        before.push(note.attempt);
        if usize::try_from(note.attempt) != Ok(before.len()) {
            self.wrong(run, format!("{step} has attempts {before:?}"));
        }
        let value = note.failure.typed::<Planned>().own().map(|planned| planned.value);
        let calls = self.begins.get(&(run, step)).map_or(&[][..], Vec::as_slice);
        // A start by key is a step of the engine's own, which the database may have refused.
        if calls.is_empty() && step.starts_with("start ") {
            return;
        }
        let last = calls.iter().rfind(|(_, call)| call.attempt == note.attempt);
        let right = last.is_some_and(|(_, call)| Some(call.value) == value);
        let nodes: Vec<u32> = calls.iter().map(|(_, call)| call.node).collect();
        if !right && !self.excused(&nodes) {
            self.wrong(run, format!("{step} attempt {}: recorded was not the last that ran", note.attempt));
        }
    }

    fn results(
        &mut self,
        run: RunId,
        results: &HashMap<(Op, &str), &Entry>,
        attempts: &HashMap<String, Vec<u32>>,
    ) {
        let of_run = (run, String::new())..;
        let wanted: Vec<(&String, &Wanted)> = self
            .wanted
            .range(of_run)
            .take_while(|((of, _), _)| *of == run)
            .filter(|(_, wanted)| wanted.in_journal)
            .map(|((_, step), wanted)| (step, wanted))
            .collect();
        let mut violations = Vec::new();
        for (step, wanted) in wanted {
            let failed = attempts.get(step.as_str()).map_or(0, Vec::len);
            let entry = [Op::Step, Op::Transaction].iter().find_map(|op| results.get(&(*op, step.as_str())));
            let is_job = step == JOB_STEP;
            let (right, failures) = match wanted.recorded {
                // A job keeps no journal but its failed attempts, the last of them too.
                Recorded::Done { .. } | Recorded::Failed { .. } if is_job => (true, Some(wanted.fails)),
                Recorded::Done { value, .. } => (
                    entry.is_some_and(|entry| body::<Did>(entry).is_some_and(|did| did.value == value)),
                    Some(wanted.fails),
                ),
                Recorded::Failed { value, attempt } => {
                    (entry.is_some_and(|entry| failure(entry) == Some(value)), Some(attempt - 1))
                }
                Recorded::Row { value } => {
                    (entry.is_some_and(|entry| body::<u64>(entry) == Some(value)), Some(0))
                }
                Recorded::Nothing { .. } => (entry.is_none(), None),
            };
            if !right {
                violations.push(format!("{step} is in the journal as {entry:?}"));
            }
            if failures.is_some_and(|failures| failures as usize != failed) {
                violations.push(format!("{step} has {failed} failed attempts, planned were {failures:?}"));
            }
        }
        violations.into_iter().for_each(|what| self.wrong(run, what));
    }

    /// A transactional step wrote one row, with the value that is recorded.
    pub(super) fn rows(&mut self) {
        let mut rows: HashMap<(&str, &str), Vec<u64>> = HashMap::new();
        for effect in &self.evidence.effects {
            rows.entry((&effect.run, &effect.step)).or_default().push(effect.value);
        }
        let mut violations = Vec::new();
        for ((run, step), wanted) in &self.wanted {
            let name = run.to_string();
            let written = rows.get(&(name.as_str(), step.as_str())).cloned().unwrap_or_default();
            let right = match wanted.recorded {
                Recorded::Row { value } => written == [value],
                _ => written.is_empty(),
            };
            if !right {
                violations.push((Some(*run), format!("{step} wrote the rows {written:?}")));
            }
        }
        for (run, step) in rows.into_keys() {
            let run: Option<RunId> = run.parse().ok();
            let planned = run.is_some_and(|run| self.wanted.contains_key(&(run, step.to_owned())));
            if !planned && run.and_then(|run| self.asked.get(&run)) != Some(&false) {
                violations.push((run, format!("{step} wrote a row, and no plan has it")));
            }
        }
        violations.into_iter().for_each(|(run, what)| self.wrong(run, what));
    }

    pub(super) fn count(&mut self) {
        let attempts = self.begins.values().flat_map(|calls| {
            let mut counts: HashMap<u32, usize> = HashMap::new();
            calls.iter().for_each(|(_, call)| *counts.entry(call.attempt).or_default() += 1);
            counts.into_values()
        });
        self.verdict.repeated = attempts.filter(|count| *count > 1).count();
        self.verdict.steps = self.begins.len();
        self.verdict.kills = self.kills.len();
        self.verdict.lapses = self.lapsed.len();
        let hit = |(node, killed): &(&u32, &usize)| {
            self.begins.values().flatten().any(|(place, call)| {
                call.node == **node && place < *killed && !self.ends.contains_key(&call.value)
            })
        };
        self.verdict.hits = self.kills.iter().filter(hit).count();
    }
}
