//! The checker: a pure function of what was asked, what bodies did and what the database holds.
//!
//! It walks every plan beside the score that its run returned. That says which steps there were, what
//! each recorded, and what the run had seen before each; then ledger, journals and rows have to agree.

mod bodies;
mod database;

use std::collections::{BTreeMap, HashMap, HashSet};

use outlast::{Entry, FailureDoc, Op, Phase, RunId, RunView, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::calls::{Answer, Asked, Call};
use crate::ledger::{Call as Body, Line};
use crate::plan::{self, Act, Did, JOB_ATTEMPTS, JobEnd, Plan, Saw, Score, Spot, Work};
use crate::play::{JOB_STEP, Miss, Planned};

/// Everything that there is to know at the end.
#[derive(Clone)]
pub(crate) struct Evidence {
    pub(crate) calls: Vec<Call>,
    pub(crate) ledger: Vec<Line>,
    pub(crate) runs: Vec<RunView>,
    pub(crate) journals: HashMap<RunId, Vec<Entry>>,
    pub(crate) effects: Vec<Effect>,
    /// What the database says about itself, where it can.
    pub(crate) integrity: Option<String>,
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
}

pub(crate) fn check(evidence: &Evidence) -> Verdict {
    let mut checker = Checker::new(evidence);
    checker.starts();
    checker.strangers();
    checker.bodies();
    checker.journals();
    checker.rows();
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

/// The walk along one plan.
struct Walk {
    run: RunId,
    in_journal: bool,
    heard: BTreeMap<String, Vec<u32>>,
    settled: Vec<(String, u32)>,
    /// How many lives the run has had.
    lives: usize,
}

/// Who feeds a run.
enum Fed<'a> {
    /// The supervisor, who knows it by this key.
    ByKey(&'a str),
    ByItsParent,
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
                Line::Up { .. } => {}
            }
        }
        checker
    }

    fn wrong(&mut self, run: impl Into<Option<RunId>>, what: impl Into<String>) {
        self.verdict.violations.push(Violation { run: run.into(), what: what.into() });
    }

    // ---- runs

    /// Every run that was acknowledged is there, once for its key, and ended as its plan says.
    fn starts(&mut self) {
        let calls = &self.evidence.calls;
        let mut seen = HashSet::new();
        for call in calls.iter().filter(|call| matches!(call.asked, Asked::Play(_) | Asked::Work(_))) {
            let definition = if matches!(call.asked, Asked::Play(_)) { "play" } else { "work" };
            let by_key = |view: &&RunView| {
                view.record.definition == definition && view.record.key.as_ref() == Some(&call.key)
            };
            let found: Vec<RunId> = self.evidence.runs.iter().filter(by_key).map(|v| v.record.id).collect();
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
                Asked::Send { .. } | Asked::Settle { .. } => {}
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

    /// Walks along a plan and the score that its run returned.
    fn play(&mut self, run: RunId, plan: &Plan, fed: &Fed<'_>) -> Option<(bool, Score)> {
        let view = self.ended(run, plan, plan.fails())?;
        let score = match plan.fails() {
            false => output::<Score>(view),
            true => error::<Miss>(view).and_then(|miss| match miss {
                Miss::Planned(score) => Some(score),
                Miss::Wrong(_) => None,
            }),
        };
        let Some(score) = score else {
            self.wrong(run, "has a result that nobody planned");
            return None;
        };
        let last_life = plan.acts.iter().rposition(|act| *act == Act::StartOver).unwrap_or(0);
        let lives = 1 + plan.acts.iter().filter(|act| **act == Act::StartOver).count();
        let mut walk = Walk { run, in_journal: true, heard: BTreeMap::new(), settled: Vec::new(), lives };
        let mut facts = score.facts.iter();
        let (mut sum, mut mark) = (0, None);
        let (mut now, mut slept) = (None, 0);
        for (at, act) in plan.acts.iter().enumerate().filter(|(_, act)| **act != Act::Fail) {
            let Some(saw) = facts.next() else {
                self.wrong(run, format!("saw nothing of act {at}, {act:?}"));
                return None;
            };
            walk.in_journal = at >= last_life;
            match (act, saw) {
                (Act::StartOver, Saw::StartedOver { mark: carried }) => {
                    if *carried != mark {
                        self.wrong(run, format!("saved {mark:?} and carried {carried:?} over"));
                    }
                }
                (Act::Save, Saw::Saved) => mark = Some(at),
                (Act::Now, Saw::Now(micros)) => {
                    if now.is_some_and(|before: i64| *micros < before + slept) {
                        self.wrong(run, format!("woke early: {now:?}, {slept} µs later {micros}"));
                    }
                    (now, slept) = (Some(*micros), 0);
                }
                (act, saw) => {
                    if let Act::Sleep { ms } = act {
                        slept += ms.cast_signed() * 1000;
                    }
                    self.act(&mut walk, act, Spot::new(at), sum, saw);
                }
            }
            sum = plan::after(sum, saw);
        }
        if facts.next().is_some() || sum != score.sum {
            self.wrong(run, "saw more than its plan says");
        }
        self.asked.insert(run, true);
        self.fed(&walk, fed);
        Some((plan.fails(), score))
    }

    fn act(&mut self, walk: &mut Walk, act: &Act, spot: Spot, sum: u64, saw: &Saw) {
        let (run, in_journal) = (walk.run, walk.in_journal);
        match (act, saw) {
            (Act::Step { .. }, Saw::Did(Did { value, attempt: 1 })) => {
                let recorded = Recorded::Done { value: *value, attempt: 1 };
                self.want(run, spot.full("step"), Wanted { sum, fails: 0, recorded, in_journal });
            }
            (Act::Busy { .. }, Saw::Did(Did { value, attempt: 1 })) => {
                let recorded = Recorded::Done { value: *value, attempt: 1 };
                self.want(run, spot.full("busy"), Wanted { sum, fails: 0, recorded, in_journal });
            }
            (Act::Flaky { fails, .. }, Saw::Did(Did { value, attempt })) if *attempt == fails + 1 => {
                let recorded = Recorded::Done { value: *value, attempt: *attempt };
                self.want(run, spot.full("flaky"), Wanted { sum, fails: *fails, recorded, in_journal });
            }
            (Act::Doomed { attempts }, Saw::GaveUp { value }) => {
                let recorded = Recorded::Failed { value: *value, attempt: *attempts };
                self.want(run, spot.full("doomed"), Wanted { sum, fails: *attempts, recorded, in_journal });
            }
            (Act::Transaction { .. }, Saw::Committed { value }) => {
                let recorded = Recorded::Row { value: *value };
                self.want(run, spot.full("tx"), Wanted { sum, fails: 0, recorded, in_journal });
            }
            (Act::Ticks { count }, Saw::Heard(heard)) if heard.len() == *count as usize => {
                walk.heard.entry("tick".to_owned()).or_default().extend(heard);
            }
            (Act::Mail { count }, Saw::Heard(heard)) if heard.len() == *count as usize => {
                walk.heard.entry("mail".to_owned()).or_default().extend(heard);
            }
            (Act::Letter, Saw::Heard(heard)) if heard.len() == 1 => {
                walk.heard.entry(spot.full("letter")).or_default().extend(heard);
            }
            (Act::Promise, Saw::Settled(value)) => walk.settled.push((spot.full("promise"), *value)),
            (Act::Sleep { .. }, Saw::Slept) | (Act::Post { .. }, Saw::Posted) => {}
            (Act::Random, Saw::Random(_)) | (Act::Now, Saw::Now(_)) => {}
            (Act::Join(acts), Saw::All(all)) if all.len() == acts.len() => {
                for ((spot, act), saw) in spot.branches(acts).into_iter().zip(all) {
                    self.act(walk, act, spot, sum, saw);
                }
            }
            (Act::Sequence(acts), Saw::All(all)) if all.len() == acts.len() => {
                for (k, (act, saw)) in acts.iter().zip(all).enumerate() {
                    self.act(walk, act, spot.inner(k), sum, saw);
                }
            }
            (Act::Race(acts), Saw::Won(k, saw)) if *k < acts.len() => {
                self.act(walk, &acts[*k], spot.inner(*k), sum, saw);
                let rival = match **saw {
                    Saw::Did(Did { value, .. }) | Saw::Committed { value } => Some(value),
                    _ => None,
                };
                for (other, act) in acts.iter().enumerate().filter(|(other, _)| other != k) {
                    self.lost_race(walk, act, &spot.inner(other), sum, rival);
                }
            }
            (Act::Child { plan, .. } | Act::Watch { plan, .. }, Saw::Child { run: child, end }) => {
                self.is_parent(run, *child);
                let own = self.play(*child, plan, &Fed::ByItsParent);
                if let (Some((failed, score)), Some(end)) = (own, end)
                    && (failed != end.failed || score != end.score)
                {
                    self.wrong(run, format!("was told another end of {child} than it had"));
                }
            }
            (Act::Job { work, .. }, Saw::Job { run: job, end }) => {
                self.is_parent(run, *job);
                let own = self.work(*job, *work);
                if let (Some(own), Some(end)) = (own, end)
                    && own != *end
                {
                    self.wrong(run, format!("was told another end of {job} than it had"));
                }
            }
            (act, saw) => self.wrong(run, format!("saw {saw:?} of {act:?}")),
        }
    }

    fn lost_race(&mut self, walk: &Walk, act: &Act, spot: &Spot, sum: u64, rival: Option<u64>) {
        let (name, fails) = match act {
            Act::Step { .. } => (spot.full("step"), 0),
            Act::Busy { .. } => (spot.full("busy"), 0),
            Act::Flaky { fails, .. } => (spot.full("flaky"), *fails),
            Act::Transaction { .. } => (spot.full("tx"), 0),
            _ => return,
        };
        let recorded = Recorded::Nothing { rival };
        self.want(walk.run, name, Wanted { sum, fails, recorded, in_journal: walk.in_journal });
    }

    fn want(&mut self, run: RunId, step: String, wanted: Wanted) {
        self.wanted.insert((run, step), wanted);
    }

    fn is_parent(&mut self, run: RunId, child: RunId) {
        let parent = self.runs.get(&child).and_then(|view| view.record.parent.as_ref());
        if parent.is_none_or(|parent| parent.run != run) {
            self.wrong(child, format!("should have {run} as its parent"));
        }
    }

    // ---- events and promises

    /// Events were heard once each, in the order sent; a promise has its first value.
    fn fed(&mut self, walk: &Walk, fed: &Fed<'_>) {
        for (name, heard) in &walk.heard {
            let count = u32::try_from(heard.len()).unwrap_or(u32::MAX);
            let right = match fed {
                Fed::ByKey(key) if name != "mail" => in_order(heard, &self.sent(key, name)),
                _ => heard.iter().copied().eq(1..=count),
            };
            if !right {
                self.wrong(walk.run, format!("heard {heard:?} of {name}, in another order than sent"));
            }
        }
        let Fed::ByKey(key) = fed else { return };
        for (name, value) in &walk.settled {
            let settles: Vec<(u32, bool)> = self.settles(key, name);
            let first = settles.iter().position(|(_, sure)| *sure).unwrap_or(settles.len());
            if !settles.iter().take(first + 1).any(|(settled, _)| settled == value) {
                self.wrong(walk.run, format!("got {value} from {name}, settled were {settles:?}"));
            }
            // By its name, a promise of each life can be settled once.
            if settles.iter().filter(|(_, sure)| *sure).count() > walk.lives {
                self.wrong(walk.run, format!("{name} was settled too often: {settles:?}"));
            }
        }
    }

    /// What was sent, in order, and whether that is sure.
    fn sent(&self, key: &str, name: &str) -> Vec<(u32, bool)> {
        self.told(key, |asked| match asked {
            Asked::Send { name: sent, value } if sent == name => Some(*value),
            _ => None,
        })
    }

    fn settles(&self, key: &str, name: &str) -> Vec<(u32, bool)> {
        self.told(key, |asked| match asked {
            Asked::Settle { name: settled, value } if settled == name => Some(*value),
            _ => None,
        })
    }

    fn told(&self, key: &str, value: impl Fn(&Asked) -> Option<u32>) -> Vec<(u32, bool)> {
        let calls = self.evidence.calls.iter().filter(|call| call.key == key);
        let told = calls.filter_map(|call| match &call.answer {
            Answer::Refused(_) => None,
            answer => Some((value(&call.asked)?, matches!(answer, Answer::Ok(_)))),
        });
        told.collect()
    }
}

/// Whether `heard` is what was sent, in order, without anything that was sure to be sent left out.
fn in_order(heard: &[u32], sent: &[(u32, bool)]) -> bool {
    let mut sent = sent.iter();
    heard.iter().all(|value| {
        for (candidate, sure) in sent.by_ref() {
            if candidate == value {
                return true;
            }
            if *sure {
                return false;
            }
        }
        false
    })
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
