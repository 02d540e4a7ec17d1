//! The model: what a program must have come to, whatever went wrong on the way.
//!
//! It knows nothing of the engine: a program, what its run returned, the ledger of its bodies and what people were told
//! go in, and what does not fit comes out. Where the program leaves something open (who is first in a race), any of the
//! possible ends fits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::faults::Interruption;
use crate::ledger::{Body, Execution, Notes};
use crate::play::{Basis, Saw, TRANSACTION};
use crate::program::{Act, How, LIMIT, Program, RETRY_MS, What};
use crate::work::JOB;
use crate::world::{Facts, LEASE};

/// Everything that is known when all is over, and what is wrong with it.
pub(crate) struct Model<'a> {
    pub(crate) notes: &'a Notes,
    pub(crate) facts: &'a Facts,
    /// Rows that transactions wrote, by run (with its life) and act.
    pub(crate) rows: &'a BTreeMap<(String, String), Vec<u64>>,
    pub(crate) interruptions: &'a [Interruption],
    /// What runs raised the counter to.
    pub(crate) counts: Vec<u64>,
    pub(crate) wrong: Vec<String>,
}

/// A life of a run while its acts are gone through.
struct Life {
    label: String,
    number: u32,
}

impl Life {
    fn name(&self) -> String {
        format!("{}/{}", self.label, self.number)
    }
}

impl<'a> Model<'a> {
    fn complain(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// A run came to its end as its program says: with `saw`, or with the error that was planned.
    pub(crate) fn ended(&mut self, label: &str, program: &Program, saw: Option<&[Saw]>) {
        let mut life = Life { label: label.to_owned(), number: 0 };
        let mut nth = 0;
        let mut basis = Basis::default();
        for act in &program.acts {
            if act.what == What::StartOver {
                life.number += 1;
                continue;
            }
            let seen = saw.map(|saw| saw.get(nth));
            if seen == Some(None) {
                return self.complain(format!("{label} completed without {}", act.name()));
            }
            self.act(&life, act, seen.flatten(), saw.map(|_| basis.number()));
            seen.flatten().into_iter().for_each(|seen| basis.add(seen));
            nth += 1;
        }
        if saw.is_some_and(|saw| saw.len() != nth) {
            self.complain(format!("{label} saw more than its {nth} acts: {saw:?}"));
        }
    }

    /// An act was performed, and perhaps we know what it came to and what was seen before it.
    fn act(&mut self, life: &Life, act: &Act, saw: Option<&Saw>, before: Option<u64>) {
        let place = || format!("{} {}", life.name(), act.name());
        match (&act.what, saw) {
            (What::Step { fails, .. }, None | Some(Saw::Did(_))) => {
                let value = if let Some(Saw::Did(value)) = saw { Some(*value) } else { None };
                self.attempts(life, act, *fails + 1, value, before);
            }
            (What::Doomed { attempts }, None | Some(Saw::GaveUp)) => {
                self.attempts(life, act, *attempts, None, before);
            }
            (What::Transaction { .. }, None | Some(Saw::Committed(_))) => {
                let rows = self.rows.get(&(life.name(), act.name())).cloned().unwrap_or_default();
                let fits = match saw {
                    Some(Saw::Committed(value)) => rows == [*value],
                    _ => rows.len() == 1,
                };
                if !fits {
                    self.complain(format!("{}: the transaction gave {saw:?} and wrote {rows:?}", place()));
                }
            }
            (What::Sleep { ms }, None | Some(Saw::Slept)) => self.sleep(life, act, *ms),
            (What::Events { .. }, None) | (What::Promise, None) => {}
            (What::Events { count }, Some(Saw::Heard(heard))) => self.heard(life, act, *count, heard),
            (What::Promise, Some(Saw::Settled(value))) => {
                let given = self.facts.settled.get(&(life.label.clone(), act.name()));
                let first = given.into_iter().flatten().find(|(_, sure)| *sure).map(|(number, _)| *number);
                let known = given.is_some_and(|given| given.iter().any(|(number, _)| number == value));
                if !known || first.is_some_and(|first| *value > first) {
                    self.complain(format!(
                        "{}: the promise gave {value}, and was settled with {given:?}",
                        place()
                    ));
                }
            }
            (What::Child { .. } | What::Post { .. } | What::Job { .. } | What::Count, None) => {}
            // What it gave is held against the job's own run.
            (What::Job { .. }, Some(Saw::Worked(..))) => {}
            (What::Count, Some(Saw::Counted(count))) => self.counts.push(*count),
            (What::Child { how: How::Detached, .. }, Some(Saw::LetGo(_))) => {}
            (What::Child { program, .. }, Some(Saw::Child(_, end))) => {
                if end.is_none() != program.fails {
                    self.complain(format!(
                        "{}: the child was to fail: {}, and gave {end:?}",
                        place(),
                        program.fails
                    ));
                }
            }
            (What::Post { .. }, Some(Saw::Posted)) => {}
            (What::Join(acts), None) => acts.iter().for_each(|act| self.act(life, act, None, before)),
            (What::Join(acts), Some(Saw::All(saws))) if saws.len() == acts.len() => {
                acts.iter().zip(saws).for_each(|(act, saw)| self.act(life, act, Some(saw), before));
            }
            (What::Race(_), None) => {}
            (What::Race(acts), Some(Saw::First(nth, saw))) if *nth < acts.len() => {
                self.act(life, &acts[*nth], Some(saw), before);
            }
            (what, saw) => self.complain(format!("{}: {what:?} gave {saw:?}", place())),
        }
    }

    /// A step was tried so often; its result, if we know it, is what the last attempt's body gave.
    fn attempts(&mut self, life: &Life, act: &Act, attempts: u32, value: Option<u64>, before: Option<u64>) {
        let place = || format!("{} {}", life.name(), act.name());
        let mut body = (life.name(), act.name(), false, 0);
        let mut ended: Option<Duration> = None;
        let mut last: &[Execution] = &[];
        for attempt in 1..=attempts {
            body.3 = attempt;
            let executions = self.executions(&body);
            let Some(first) = executions.first() else {
                return self.complain(format!("{}: attempt {attempt} of {attempts} never ran", place()));
            };
            if before.is_some_and(|before| executions.iter().any(|one| one.basis != before)) {
                self.complain(format!(
                    "{}: a body began with another past than the run's: {executions:?}",
                    place()
                ));
            }
            if ended.is_some_and(|ended| first.began < ended + Duration::from_millis(RETRY_MS)) {
                self.complain(format!("{}: attempt {attempt} came before the pause was over", place()));
            }
            ended = executions.iter().filter_map(|one| one.ended).min();
            last = executions;
        }
        body.3 = attempts + 1;
        if !self.executions(&body).is_empty() {
            self.complain(format!("{}: was tried more often than {attempts} times", place()));
        }
        if let Some(value) = value
            && !last.iter().any(|one| one.value == value && one.ended.is_some())
        {
            self.complain(format!("{}: gave {value}, which no body gave: {last:?}", place()));
        }
    }

    /// A job came to its end in so many attempts, and gave what the last of them gave.
    pub(crate) fn worked(&mut self, label: &str, attempts: u32, value: u64) {
        let body = |attempt| (format!("{label}/0"), JOB.to_owned(), false, attempt);
        for attempt in 1..=attempts {
            if !self.notes.bodies.contains_key(&body(attempt)) {
                self.complain(format!("{label}: attempt {attempt} of {attempts} never ran"));
            }
        }
        if self.notes.bodies.contains_key(&body(attempts + 1)) {
            self.complain(format!("{label}: was tried more often than {attempts} times"));
        }
        let last = self.notes.bodies.get(&body(attempts)).cloned().unwrap_or_default();
        if !last.iter().any(|one| one.value == value && one.ended.is_some()) {
            self.complain(format!("{label}: gave {value}, which no body gave: {last:?}"));
        }
    }

    /// Of those who stand in the limited line no more ran at once than may, but for such as were taken from a node that
    /// was cut off, and did not know.
    pub(crate) fn limit<'l>(&mut self, labels: impl Iterator<Item = &'l str>) {
        let labels: BTreeSet<String> = labels.map(|label| format!("{label}/0")).collect();
        let bodies =
            self.notes.bodies.iter().filter(|((run, act, ..), _)| act == JOB && labels.contains(run));
        let cut_off = |one: &Execution| {
            let ended = one.ended.unwrap_or(Duration::MAX);
            let hits =
                |cut: &Interruption| cut.node == one.node && cut.from <= ended && cut.to + LEASE >= one.began;
            self.interruptions.iter().any(hits)
        };
        let mut moments = Vec::new();
        for one in bodies.flat_map(|(_, executions)| executions).filter(|one| !cut_off(one)) {
            // Whoever ends makes room for who begins at the same moment.
            moments.extend([(one.began, 1), (one.ended.unwrap_or(one.began), -1)]);
        }
        moments.sort_unstable();
        let mut running = 0;
        for (at, change) in moments {
            running += change;
            if running > LIMIT as i32 {
                return self.complain(format!("{running} jobs ran at once at {at:?}, and {LIMIT} may"));
            }
        }
    }

    /// The counter stands at `total` after at most so many were asked to raise it: each who did saw another number.
    pub(crate) fn counted(&mut self, total: u64, asked: u64) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.sort_unstable();
        let twice = counts.windows(2).any(|two| two[0] == two[1]);
        if twice || total > asked || counts.last().is_some_and(|last| *last > total) {
            self.complain(format!("the counter stands at {total} of {asked}, and was seen at {counts:?}"));
        }
    }

    fn executions(&self, body: &Body) -> &'a [Execution] {
        self.notes.bodies.get(body).map_or(&[], Vec::as_slice)
    }

    fn sleep(&mut self, life: &Life, act: &Act, ms: u64) {
        match self.notes.sleeps.get(&(life.name(), act.name())) {
            Some((asked, Some(woke))) if *woke >= *asked + Duration::from_millis(ms) => {}
            other => self.complain(format!("{} {}: slept {ms} ms: {other:?}", life.name(), act.name())),
        }
    }

    /// Events come once, in the order in which they were sent, and none that was surely sent is left out.
    fn heard(&mut self, life: &Life, act: &Act, count: u32, heard: &[u32]) {
        let in_order = heard.windows(2).all(|two| two[0] < two[1]) && heard.len() == count as usize;
        let fits = match self.facts.sent.get(&(life.label.clone(), act.name())) {
            Some(sent) => {
                let last = heard.last().copied().unwrap_or_default();
                let left_out =
                    |(number, sure): &(u32, bool)| *sure && *number < last && !heard.contains(number);
                heard.iter().all(|one| sent.iter().any(|(number, _)| number == one))
                    && !sent.iter().any(left_out)
            }
            // From another run, which counts from 0.
            None => heard.iter().copied().eq(0..count),
        };
        if !in_order || !fits {
            let sent = self.facts.sent.get(&(life.label.clone(), act.name()));
            let (life, act) = (life.name(), act.name());
            self.complain(format!("{life} {act}: heard {heard:?}, and was sent {sent:?}"));
        }
    }

    /// What is true of all bodies of all runs, however those ended.
    pub(crate) fn bodies(&mut self) {
        let notes = self.notes;
        for ((run, act, undo, attempt), executions) in &notes.bodies {
            let place = || format!("{run} {act}{} attempt {attempt}", if *undo { " undone" } else { "" });
            if executions.iter().any(|one| one.basis != executions[0].basis) {
                self.complain(format!("{}: ran with different pasts: {executions:?}", place()));
            }
            for two in executions.windows(2).filter(|_| *attempt != TRANSACTION) {
                if !self.is_excused(&two[0], &two[1]) {
                    self.complain(format!("{}: ran again without a reason: {two:?}", place()));
                }
            }
        }
        for ((run, act), rows) in self.rows {
            if rows.len() != 1 {
                self.wrong
                    .push(format!("{run} {act}: a transaction happened {} times: {rows:?}", rows.len()));
            }
        }
    }

    /// Whether something cut off the node that ran a body before another ran it again, or the one that was late.
    fn is_excused(&self, one: &Execution, next: &Execution) -> bool {
        let is_about = |cut: &&Interruption| cut.node == one.node || cut.node == next.node;
        let mut cuts = self.interruptions.iter().filter(is_about);
        cuts.any(|cut| cut.from <= next.began && cut.to + LEASE >= one.began)
    }

    /// What was undone of a run that did not end well: exactly what it had recorded (oldest first here), newest first.
    pub(crate) fn undone(&mut self, label: &str, recorded: &[String]) {
        let mut undos: Vec<(u64, &str)> = Vec::new();
        for ((run, act, undo, _), executions) in &self.notes.bodies {
            if *undo && run.split('/').next() == Some(label) {
                undos.extend(executions.iter().map(|one| (one.value, act.as_str())));
            }
        }
        undos.sort_unstable();
        let mut order: Vec<&str> = undos.iter().map(|(_, act)| *act).collect();
        order.dedup();
        if !order.iter().copied().eq(recorded.iter().rev().map(String::as_str)) {
            self.complain(format!("{label}: recorded {recorded:?} and undid {order:?}"));
        }
    }
}
