//! The checker: a pure function of what was asked, what bodies did and what the database holds.
//!
//! It walks every plan beside the score that its run returned. That says which steps there were, what
//! each recorded, and what the run had seen before each; then ledger, journals and rows have to agree.

mod beats;
mod bodies;
mod counter;
mod database;
mod earlier;
mod fed;
mod gates;
mod healed;
mod sagas;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use outlast::{Entry, FailureDoc, Op, Phase, RunId, RunView, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use self::gates::Seen;
pub(crate) use self::healed::new_ends;
use self::walk::Fed;
use crate::beats::Beat;
use crate::calls::{Answer, Asked, Call};
use crate::gates::Gate;
use crate::ledger::{Call as Body, Line};
use crate::plan::{self, Act, Did, JOB_ATTEMPTS, JobEnd, Plan, Saw, Score, Spot, Work};
use crate::play::{JOB_STEP, Miss, Planned};
use crate::sagas::SAGA;

/// Everything that there is to know at the end.
#[derive(Clone, Default)]
pub(crate) struct Evidence {
    pub(crate) calls: Vec<Call>,
    pub(crate) ledger: Vec<Line>,
    pub(crate) runs: Vec<RunView>,
    pub(crate) journals: HashMap<RunId, Vec<Entry>>,
    /// What somebody read of journals while their runs were under way.
    pub(crate) earlier: Vec<Glance>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) beats: Vec<Beat>,
    /// What the counter stands at.
    pub(crate) counter: u64,
    /// What its tables hold that cannot all be true.
    pub(crate) contradictions: Vec<String>,
    /// What the database says about itself, where it can.
    pub(crate) integrity: Option<String>,
}

/// A journal as it was at a moment.
#[derive(Clone)]
pub(crate) struct Glance {
    pub(crate) run: RunId,
    pub(crate) entries: Vec<Entry>,
}

/// A row that a transactional step wrote.
#[derive(Clone)]
pub(crate) struct Effect {
    pub(crate) run: String,
    pub(crate) step: String,
    pub(crate) value: u64,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// The run that it is about.
    pub run: Option<RunId>,
    /// What is wrong.
    pub what: String,
}

/// What the checker found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// Steps that were begun.
    pub(crate) steps: usize,
    /// Attempts that were begun more than once.
    pub(crate) repeated: usize,
    /// Runs that were acknowledged and are not there, or have not ended.
    pub(crate) lost: usize,
    pub(crate) kills: usize,
    /// Kills that hit a node while a body ran.
    pub(crate) hits: usize,
    /// Leases that ended without a kill.
    pub(crate) lapses: usize,
    /// What gates let through.
    pub(crate) gates: BTreeMap<Gate, Seen>,
    /// Times of schedules that came.
    pub(crate) beats: usize,
    /// How often the counter was raised.
    pub(crate) counts: usize,
    pub(crate) sagas: usize,
    /// Steps of sagas that were undone.
    pub(crate) undone: usize,
    /// What engines counted, all together.
    pub(crate) metrics: BTreeMap<String, u64>,
}

/// What gates let through so far.
pub(crate) fn look_at_gates(ledger: Vec<Line>) -> BTreeMap<Gate, Seen> {
    let evidence = Evidence { ledger, ..Evidence::default() };
    let mut checker = Checker::new(&evidence);
    checker.gates();
    checker.verdict.gates
}

pub(crate) fn check(evidence: &Evidence) -> Verdict {
    let mut checker = Checker::new(evidence);
    checker.starts();
    checker.beats();
    checker.strangers();
    checker.counter();
    checker.gates();
    checker.bodies();
    checker.journals();
    checker.earlier();
    checker.rows();
    checker.healed();
    for what in &evidence.contradictions {
        checker.wrong(None, format!("the database contradicts itself: {what}"));
    }
    if let Some(said) = evidence.integrity.as_ref().filter(|said| *said != "ok") {
        checker.wrong(None, format!("the database is damaged: {said}"));
    }
    checker.count();
    checker.verdict
}

struct Checker<'a> {
    evidence: &'a Evidence,
    runs: HashMap<RunId, &'a RunView>,
    /// Begins of bodies with their places in the ledger, by run and step.
    begins: BTreeMap<(RunId, &'a str), Vec<(usize, &'a Body)>>,
    /// Places of ends, by the value that they returned.
    ends: HashMap<u64, usize>,
    kills: HashMap<u32, usize>,
    lapsed: HashSet<u32>,
    /// Runs that somebody asked for, and whether their score is known.
    asked: HashMap<RunId, bool>,
    /// What the plans and scores say about steps, by run and step.
    wanted: BTreeMap<(RunId, String), Wanted>,
    /// What runs raised the counter to.
    counts: Vec<(RunId, u64)>,
    verdict: Verdict,
}

/// What must have happened to one step.
struct Wanted {
    /// What the run had seen when it came to this step.
    sum: u64,
    /// How often it had to fail first.
    fails: u32,
    recorded: Recorded,
    /// Whether the journal still has it: `continue_as_new` lets go of what lies before.
    in_journal: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Recorded {
    Done {
        value: u64,
        attempt: u32,
    },
    Failed {
        value: u64,
        attempt: u32,
    },
    Row {
        value: u64,
    },
    /// It lost a race, against a body with this value.
    Nothing {
        rival: Option<u64>,
    },
}

impl Recorded {
    fn value(self) -> Option<u64> {
        match self {
            Recorded::Done { value, .. } | Recorded::Failed { value, .. } | Recorded::Row { value } => {
                Some(value)
            }
            Recorded::Nothing { .. } => None,
        }
    }
}

impl<'a> Checker<'a> {
    fn new(evidence: &'a Evidence) -> Checker<'a> {
        let mut checker = Checker {
            evidence,
            runs: evidence.runs.iter().map(|view| (view.record.id, view)).collect(),
            begins: BTreeMap::new(),
            ends: HashMap::new(),
            kills: HashMap::new(),
            lapsed: HashSet::new(),
            asked: HashMap::new(),
            wanted: BTreeMap::new(),
            counts: Vec::new(),
            verdict: Verdict::default(),
        };
        for (place, line) in evidence.ledger.iter().enumerate() {
            match line {
                Line::Begin(body) => {
                    checker.begins.entry((body.run, &body.step)).or_default().push((place, body));
                }
                Line::End(body) => drop(checker.ends.insert(body.value, place)),
                Line::Kill { node } => drop(checker.kills.insert(*node, place)),
                Line::Lapse { node } => drop(checker.lapsed.insert(*node)),
                _ => {}
            }
        }
        checker
    }

    fn wrong(&mut self, run: impl Into<Option<RunId>>, what: impl Into<String>) {
        self.verdict.violations.push(Violation { run: run.into(), what: what.into() });
    }

    /// Every run that was acknowledged is there, once for its key, and ended as its plan says.
    fn starts(&mut self) {
        let calls = &self.evidence.calls;
        let mut seen = HashSet::new();
        let mut by_key: HashMap<(&str, &str), Vec<RunId>> = HashMap::new();
        for view in &self.evidence.runs {
            if let Some(key) = &view.record.key {
                by_key.entry((&view.record.definition, key)).or_default().push(view.record.id);
            }
        }
        for call in
            calls.iter().filter(|call| matches!(call.asked, Asked::Play(_) | Asked::Work(_) | Asked::Saga(_)))
        {
            let definition = match &call.asked {
                Asked::Work(work) => work.definition(),
                Asked::Saga(_) => SAGA,
                _ => "play",
            };
            let found = by_key.get(&(definition, call.key.as_str())).cloned().unwrap_or_default();
            if found.len() > 1 {
                self.wrong(found[0], format!("key {} has {} runs", call.key, found.len()));
            }
            match &call.answer {
                Answer::Ok(run) if run.as_ref() != found.first() => {
                    self.verdict.lost += 1;
                    self.wrong(*run, format!("{} was acknowledged and is lost ({found:?})", call.key));
                }
                Answer::Refused(why) => self.wrong(None, format!("{} was refused: {why}", call.key)),
                Answer::Ok(_) | Answer::Unknown(_) => {}
            }
            let Some(run) = found.first().copied().filter(|run| seen.insert(*run)) else { continue };
            match &call.asked {
                Asked::Play(plan) => drop(self.play(run, plan, &Fed::ByKey(&call.key))),
                Asked::Work(work) => drop(self.work(run, *work)),
                Asked::Saga(saga) => self.saga(run, &call.key, saga),
                Asked::Send { .. } | Asked::Settle { .. } | Asked::Halt(_) => {}
            }
        }
    }

    /// Runs that nobody asked for.
    fn strangers(&mut self) {
        for view in &self.evidence.runs {
            if !self.asked.contains_key(&view.record.id) {
                let (definition, key) = (&view.record.definition, &view.record.key);
                let what = format!("nobody asked for this {definition} with key {key:?}, {}", view.status);
                self.wrong(view.record.id, what);
            }
        }
    }

    /// The run as it is, if it has ended as expected.
    fn ended(&mut self, run: RunId, input: &impl serde::Serialize, fails: bool) -> Option<&'a RunView> {
        if self.asked.insert(run, false).is_some() {
            self.wrong(run, "two others say that they started this run");
            return None;
        }
        let Some(&view) = self.runs.get(&run) else {
            self.verdict.lost += 1;
            self.wrong(run, "was started by another run and is lost");
            return None;
        };
        if serde_json::to_vec(input).ok().as_deref() != Some(&view.record.input.bytes[..]) {
            self.wrong(run, "has another input than it was given");
        }
        let wanted = if fails { Status::Failed } else { Status::Completed };
        if view.status != wanted {
            self.verdict.lost += usize::from(!view.status.is_final());
            let error = view.ended.as_ref().and_then(|ended| ended.error.clone());
            let why = error.or(view.reason.clone()).unwrap_or_default();
            self.wrong(run, format!("is {}, and should be {wanted}: {why}", view.status));
            return None;
        }
        Some(view)
    }

    fn work(&mut self, run: RunId, work: Work) -> Option<JobEnd> {
        let (attempt, succeeds) = work.end();
        let view = self.ended(run, &work, !succeeds)?;
        let end = match succeeds {
            true => output::<Did>(view).map(JobEnd::Did),
            false => error::<Planned>(view).map(|planned| JobEnd::GaveUp { value: planned.value }),
        };
        let Some(end) = end else {
            self.wrong(run, "has a result that cannot be read");
            return None;
        };
        let recorded = match end {
            JobEnd::Did(did) if did.attempt != attempt => {
                self.wrong(run, format!("succeeded with attempt {} instead of {attempt}", did.attempt));
                return None;
            }
            JobEnd::Did(did) => Recorded::Done { value: did.value, attempt },
            JobEnd::GaveUp { value } => Recorded::Failed { value, attempt },
        };
        self.asked.insert(run, true);
        let fails = work.fails.min(JOB_ATTEMPTS);
        self.want(run, JOB_STEP.to_owned(), Wanted { sum: 0, fails, recorded, in_journal: true });
        Some(end)
    }
}

/// What a failed attempt of a step or job says about itself.
#[derive(Deserialize)]
struct Attempt {
    attempt: u32,
    failure: FailureDoc,
}

fn output<T: DeserializeOwned>(view: &RunView) -> Option<T> {
    view.ended.as_ref()?.output.as_ref()?.decode("output").ok()
}

fn error<T: DeserializeOwned>(view: &RunView) -> Option<T> {
    let doc: FailureDoc = serde_json::from_str(view.ended.as_ref()?.error.as_ref()?).ok()?;
    doc.typed::<T>().own()
}

fn body<T: DeserializeOwned>(entry: &Entry) -> Option<T> {
    entry.body.as_ref()?.decode("result").ok()
}

fn failure(entry: &Entry) -> Option<u64> {
    Some(entry.failure().ok()?.typed::<Planned>().own()?.value)
}
