//! Plans: what a run shall do, as data, so that its end can be predicted.
//!
//! A run is called with a [`Plan`] and returns a [`Score`]: what it saw, act by act. Everything that
//! is not in the plan (values that bodies made, random numbers, times, ids) is in the score, so a
//! checker that has both can say whether they fit.

use outlast::RunId;
use serde::{Deserialize, Serialize};

use crate::gates::{Gate, Ticket};

/// What a run of `play` shall do, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) acts: Vec<Act>,
    /// Where this life begins: `continue_as_new` goes on behind the acts that are over.
    pub(crate) from: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// A step whose body takes so long.
    Step {
        ms: u64,
    },
    /// A step whose body passes through many operations of tokio that are ready.
    Busy {
        ms: u64,
    },
    /// A step that fails so often before it succeeds.
    Flaky {
        fails: u32,
        ms: u64,
    },
    /// A step that fails with every attempt.
    Doomed {
        attempts: u32,
    },
    /// A transactional step that writes one row.
    Transaction {
        ms: u64,
    },
    Sleep {
        ms: u64,
    },
    /// So many events called `tick`: from the supervisor, or from the run that started this one.
    Ticks {
        count: u32,
    },
    /// One event under a name that nothing else has.
    Letter,
    /// So many events called `mail`, from a run with [`Act::Post`].
    Mail {
        count: u32,
    },
    Post {
        to: RunId,
        count: u32,
    },
    Promise,
    Random,
    Now,
    /// One more on a counter that all runs share, by compare-and-set.
    Count,
    Save,
    /// One after the other: a branch of a join.
    Sequence(Vec<Act>),
    Join(Vec<Act>),
    /// What ends first stays, the others (one or two) are dropped.
    Race(Vec<Act>),
    Child {
        plan: Plan,
        how: How,
    },
    /// A child whose end is awaited again and again, each time beside a sleep that may be over first.
    Watch {
        plan: Plan,
        how: How,
    },
    Job {
        work: Work,
        how: How,
    },
    /// `continue_as_new` with the rest of the plan.
    StartOver,
    /// The run ends with an error.
    Fail,
}

/// How another run is started.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum How {
    Plain,
    Keyed,
    Detached,
}

/// What a run of the job `work` shall do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) fails: u32,
    pub(crate) ms: u64,
    /// Where it stands in line; without, where no rules are.
    pub(crate) ticket: Option<Ticket>,
}

/// How often a job is tried.
pub(crate) const JOB_ATTEMPTS: u32 = 4;

impl Work {
    /// The attempt after which it is over, and whether that one succeeds.
    pub(crate) fn end(self) -> (u32, bool) {
        match self.fails < JOB_ATTEMPTS {
            true => (self.fails + 1, true),
            false => (JOB_ATTEMPTS, false),
        }
    }
}

/// What a run saw, act by act, and a sum of it all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Score {
    pub(crate) facts: Vec<Saw>,
    pub(crate) sum: u64,
}

/// What one act came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Saw {
    Did(Did),
    /// The value in the error of the last attempt.
    GaveUp {
        value: u64,
    },
    Committed {
        value: u64,
    },
    Slept,
    Heard(Vec<u32>),
    Settled(u32),
    Posted,
    Random(u64),
    Now(i64),
    /// What the counter was raised to.
    Counted(u64),
    Saved,
    All(Vec<Saw>),
    Won(usize, Box<Saw>),
    /// Another run, and how it ended for whoever waited.
    Child {
        run: RunId,
        end: Option<ChildEnd>,
    },
    Job {
        run: RunId,
        end: Option<JobEnd>,
    },
    /// A new life, with what was saved last in the lives before.
    StartedOver {
        mark: Option<usize>,
    },
}

/// What a body returned: a value that no other call of it has, and the attempt's number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Did {
    pub(crate) value: u64,
    pub(crate) attempt: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChildEnd {
    pub(crate) failed: bool,
    pub(crate) score: Score,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum JobEnd {
    Did(Did),
    GaveUp { value: u64 },
}

impl Score {
    pub(crate) fn add(&mut self, saw: Saw) {
        self.sum = after(self.sum, &saw);
        self.facts.push(saw);
    }
}

/// The sum of everything seen up to and with `saw` (FNV-1a).
pub(crate) fn after(sum: u64, saw: &Saw) -> u64 {
    let text = serde_json::to_vec(saw).unwrap_or_default();
    text.iter().fold(sum ^ 0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The place of an act in its plan, which makes the names of its operations.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    at: String,
    nth: u32,
}

impl Spot {
    pub(crate) fn new(at: impl ToString) -> Spot {
        Spot { at: at.to_string(), nth: 1 }
    }

    /// The name that the code gives to an operation here.
    pub(crate) fn plain(&self, word: &str) -> String {
        format!("{word}-{}", self.at)
    }

    /// The name that the journal has: with its occurrence.
    pub(crate) fn full(&self, word: &str) -> String {
        match self.nth {
            1 => self.plain(word),
            nth => format!("{word}-{}#{nth}", self.at),
        }
    }

    /// The places of the branches of a join. Its plain steps have one name, told apart by occurrence.
    pub(crate) fn branches<'a>(&self, acts: &'a [Act]) -> Vec<(Spot, &'a Act)> {
        let mut steps = 0;
        let mut place = |(k, act): (usize, &'a Act)| match act {
            Act::Step { .. } => {
                steps += 1;
                (Spot { at: self.at.clone(), nth: steps }, act)
            }
            _ => (self.inner(k), act),
        };
        acts.iter().enumerate().map(&mut place).collect()
    }

    /// The place of the k-th act inside.
    pub(crate) fn inner(&self, k: usize) -> Spot {
        Spot::new(format!("{}.{k}", self.at))
    }
}

impl Plan {
    pub(crate) fn random(rng: &mut fastrand::Rng) -> Plan {
        let mut acts: Vec<Act> = (0..rng.usize(3..=9)).map(|_| top(rng)).collect();
        if rng.u8(..8) == 0 {
            acts.push(Act::Fail);
        }
        Plan { acts, from: 0 }
    }

    /// Puts an act somewhere in between.
    pub(crate) fn with(mut self, act: Act, rng: &mut fastrand::Rng) -> Plan {
        let at = rng.usize(..=self.acts.len().saturating_sub(1));
        self.acts.insert(at, act);
        self
    }

    pub(crate) fn fails(&self) -> bool {
        self.acts.contains(&Act::Fail)
    }

    /// How many ticks it waits for.
    pub(crate) fn ticks(&self) -> u32 {
        let count = |act: &Act| if let Act::Ticks { count } = act { *count } else { 0 };
        self.acts.iter().map(count).sum()
    }

    /// The names of the events that it waits for once, if it comes to that.
    pub(crate) fn letters(&self) -> Vec<String> {
        self.names(|act| matches!(act, Act::Letter), "letter")
    }

    pub(crate) fn promises(&self) -> Vec<String> {
        self.names(|act| matches!(act, Act::Promise), "promise")
    }

    fn names(&self, wanted: impl Fn(&Act) -> bool, word: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut look = |spot: &Spot, act: &Act| {
            if wanted(act) {
                names.push(spot.full(word));
            }
        };
        for (at, act) in self.acts.iter().enumerate() {
            each(&Spot::new(at), act, &mut look);
        }
        names
    }
}

/// Visits an act and those inside of it, in this run.
fn each(spot: &Spot, act: &Act, look: &mut dyn FnMut(&Spot, &Act)) {
    look(spot, act);
    match act {
        Act::Join(acts) => spot.branches(acts).iter().for_each(|(spot, act)| each(spot, act, look)),
        Act::Sequence(acts) => acts.iter().enumerate().for_each(|(k, act)| each(&spot.inner(k), act, look)),
        Act::Race(acts) => acts.iter().enumerate().for_each(|(k, act)| each(&spot.inner(k), act, look)),
        _ => {}
    }
}

fn ms(rng: &mut fastrand::Rng) -> u64 {
    if rng.bool() { 0 } else { rng.u64(1..=25) }
}

/// An act of a run that the supervisor feeds.
fn top(rng: &mut fastrand::Rng) -> Act {
    match rng.u8(..22) {
        0..=8 => simple(rng),
        9 => Act::Promise,
        10 => Act::Letter,
        11..=12 => Act::Join((0..rng.usize(2..=4)).map(|_| branch(rng)).collect()),
        13 => Act::Race(vec![rival(rng, true), rival(rng, false)]),
        14 => Act::Race(vec![rival(rng, true), Act::Step { ms: ms(rng) }, Act::Busy { ms: ms(rng) / 4 }]),
        15..=16 => Act::Child { plan: child(rng, 2), how: how(rng) },
        17 => Act::Job { work: work(rng), how: how(rng) },
        18..=19 => {
            let how = if rng.bool() { How::Plain } else { How::Keyed };
            Act::Watch { plan: child(rng, 1), how }
        }
        _ => Act::StartOver,
    }
}

/// An act that any run may do.
fn simple(rng: &mut fastrand::Rng) -> Act {
    match rng.u8(..15) {
        0..=2 => Act::Step { ms: ms(rng) },
        3..=4 => Act::Flaky { fails: rng.u32(1..=3), ms: ms(rng) / 2 },
        5 => Act::Doomed { attempts: rng.u32(1..=3) },
        6..=8 => Act::Transaction { ms: ms(rng) / 8 },
        9 => Act::Sleep { ms: rng.u64(1..=30) },
        10 => Act::Ticks { count: rng.u32(1..=3) },
        11 => Act::Random,
        12 => Act::Now,
        13 => Act::Count,
        _ => Act::Save,
    }
}

fn branch(rng: &mut fastrand::Rng) -> Act {
    match rng.u8(..10) {
        0..=2 => Act::Step { ms: ms(rng) },
        3 => Act::Flaky { fails: 1, ms: ms(rng) },
        4 => Act::Transaction { ms: 1 },
        5 => Act::Letter,
        6..=7 => Act::Busy { ms: ms(rng) / 4 },
        8 => Act::Sequence(vec![Act::Sleep { ms: rng.u64(1..=20) }, Act::Step { ms: ms(rng) }]),
        _ => Act::Sequence(vec![Act::Step { ms: ms(rng) }, Act::Transaction { ms: 0 }]),
    }
}

/// One of those that race; names of sleeps are told apart by occurrence, so only one of them may sleep.
fn rival(rng: &mut fastrand::Rng, may_sleep: bool) -> Act {
    match rng.u8(..8) {
        0 | 1 => Act::Step { ms: ms(rng) },
        6 | 7 => Act::Busy { ms: ms(rng) / 4 },
        2 => Act::Flaky { fails: 1, ms: ms(rng) / 2 },
        3 => Act::Transaction { ms: ms(rng) / 8 },
        4 if may_sleep => Act::Sleep { ms: rng.u64(1..=20) },
        _ => Act::Letter,
    }
}

fn child(rng: &mut fastrand::Rng, depth: u32) -> Plan {
    let mut act = |_| match rng.u8(..8) {
        0 if depth > 0 => Act::Child { plan: child(rng, depth - 1), how: how(rng) },
        1 => Act::Job { work: work(rng), how: how(rng) },
        2 => Act::StartOver,
        _ => simple(rng),
    };
    let mut acts: Vec<Act> = (0..3).map(&mut act).collect();
    acts.truncate(rng.usize(1..=3));
    if rng.u8(..8) == 0 {
        acts.push(Act::Fail);
    }
    Plan { acts, from: 0 }
}

pub(crate) fn work(rng: &mut fastrand::Rng) -> Work {
    let fails = if rng.u8(..6) == 0 { JOB_ATTEMPTS } else { rng.u32(..=2) };
    let ticket = Ticket { gate: Gate::Limited, group: 0, nth: 0 };
    Work { fails, ms: ms(rng), ticket: (rng.u8(..4) == 0).then_some(ticket) }
}

fn how(rng: &mut fastrand::Rng) -> How {
    match rng.u8(..6) {
        0 => How::Detached,
        1 | 2 => How::Keyed,
        _ => How::Plain,
    }
}
