//! What sagas left behind: one end, and of what was recorded everything undone once, newest first, or nothing.

use super::*;
use crate::sagas::{Halt, Saga, step_of, undo_of};

impl<'a> Checker<'a> {
    pub(super) fn saga(&mut self, run: RunId, key: &str, saga: &Saga) {
        let Some(&view) = self.runs.get(&run) else { return };
        self.asked.insert(run, true);
        if serde_json::to_vec(saga).ok().as_deref() != Some(&view.record.input.bytes[..]) {
            self.wrong(run, "has another input than it was given");
        }
        let may = |how: Halt| {
            let asked =
                |call: &&Call| call.key == key && matches!(call.asked, Asked::Halt(halt) if halt == how);
            self.evidence.calls.iter().filter(asked).any(|call| !matches!(call.answer, Answer::Refused(_)))
        };
        let (may_cancel, may_kill) = (may(Halt::Cancel), may(Halt::Kill));
        let planned = if saga.fails { Status::Failed } else { Status::Completed };
        let is_halted = view.status == Status::Cancelled && (may_cancel || may_kill);
        if view.status != planned && !is_halted {
            self.verdict.lost += usize::from(!view.status.is_final());
            let why = view.reason.clone().unwrap_or_default();
            self.wrong(run, format!("is {}, and should be {planned}: {why}", view.status));
        }

        let journal = self.evidence.journals.get(&run).map_or(&[][..], Vec::as_slice);
        let of = |op: Op| journal.iter().filter(move |entry| entry.op == op && entry.phase == Phase::Done);
        let steps: Vec<String> = (0..saga.legs.len()).map(step_of).collect();
        let done: Vec<&Entry> = of(Op::Step).collect();
        let names: Vec<&str> = done.iter().map(|entry| &*entry.name).collect();
        let undone: Vec<&str> =
            of(Op::Undo).map(|entry| &*entry.name).filter(|name| steps.iter().any(|s| s == name)).collect();
        if !steps.iter().map(String::as_str).take(names.len()).eq(names.iter().copied()) {
            self.wrong(run, format!("did {names:?}, which is not the beginning of its plan"));
        }
        if !is_halted && names.len() < steps.len() {
            self.wrong(run, format!("is {} and did only {names:?}", view.status));
        }

        let back: Vec<&str> = names.iter().rev().copied().collect();
        let right = match view.status {
            Status::Completed => undone.is_empty(),
            // A kill may have come in the middle, and ends it there.
            Status::Cancelled if may_kill => back.starts_with(&undone),
            _ => undone == back,
        };
        if !right {
            self.wrong(run, format!("is {}, did {names:?} and undid {undone:?}", view.status));
        }
        self.verdict.sagas += 1;
        self.verdict.undone += undone.len();
        self.in_reverse(run, &names);

        for (step, leg) in steps.iter().zip(&saga.legs) {
            let entry = done.iter().find(|entry| &*entry.name == step.as_str());
            let recorded = match entry.and_then(|entry| body::<Did>(entry)) {
                Some(did) => Recorded::Done { value: did.value, attempt: did.attempt },
                None => Recorded::Nothing { rival: None },
            };
            self.want(run, step.clone(), Wanted { sum: 0, fails: 0, recorded, in_journal: true });
            let recorded = Recorded::Nothing { rival: None };
            let wanted = Wanted { sum: 0, fails: leg.undo_fails, recorded, in_journal: false };
            self.want(run, undo_of(step), wanted);
        }
    }

    /// Bodies that undo began newest first, and only for what was recorded.
    fn in_reverse(&mut self, run: RunId, done: &[&str]) {
        let mut begun: Vec<(usize, String)> = Vec::new();
        for ((of, step), calls) in &self.begins {
            if *of == run && step.starts_with("undo-") {
                begun.extend(calls.first().map(|(place, _)| (*place, (*step).to_owned())));
            }
        }
        begun.sort_unstable();
        let begun: Vec<String> = begun.into_iter().map(|(_, step)| step).collect();
        let back: Vec<String> = done.iter().rev().map(|step| undo_of(step)).collect();
        if !back.starts_with(&begun) {
            self.wrong(run, format!("did {done:?}, and what undoes that began as {begun:?}"));
        }
    }
}
