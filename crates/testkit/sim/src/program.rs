//! Programs: what a run shall do, as data made from a seed, so that its end can be predicted.

use std::sync::Arc;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// What a run of `play` shall do, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) acts: Vec<Act>,
    /// Whether it ends with an error of its own.
    pub(crate) fails: bool,
}

/// One thing that a run does. Every act has a number that no other of its run has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Act {
    pub(crate) number: u32,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum What {
    /// A step whose body takes so long, fails so often before it succeeds, and may be undone.
    Step {
        ms: u64,
        fails: u32,
        undo: bool,
    },
    /// A step that fails with every attempt.
    Doomed {
        attempts: u32,
    },
    /// A transactional step that writes one row.
    Transaction {
        ms: u64,
        undo: bool,
    },
    Sleep {
        ms: u64,
    },
    /// So many events under one name, from outside or from the run that started this one.
    Events {
        count: u32,
    },
    /// A value settled from outside.
    Promise,
    /// Another run, to which so many events are sent before its end is awaited.
    Child {
        program: Arc<Program>,
        mails: u32,
        how: How,
    },
    /// A run of a job that takes so long, and fails so often before it succeeds.
    Job {
        ms: u64,
        fails: u32,
        line: Line,
    },
    /// One more on the counter that all runs share, by compare-and-set.
    Count,
    /// So many events to the run of that label, which was started before this one.
    Post {
        to: String,
        count: u32,
    },
    /// All of them, side by side.
    Join(Vec<Act>),
    /// The first to end; the others are dropped.
    Race(Vec<Act>),
    /// `continue_as_new` with the rest of the program.
    StartOver,
}

/// How a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Plain,
    Keyed,
    Detached,
}

/// Where a job stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// Where there are no rules.
    Free,
    /// Where only [`LIMIT`] may run at once.
    Limited,
}

/// How many jobs of the limited queue may run at once.
pub(crate) const LIMIT: usize = 2;

/// How a retried step waits between its attempts, in milliseconds.
pub(crate) const RETRY_MS: u64 = 300;

/// How long programs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Mostly one act.
    Short,
    /// As likely two or three.
    Long,
}

impl Act {
    /// The name of its operation.
    pub(crate) fn name(&self) -> String {
        format!("a{}", self.number)
    }
}

impl Program {
    /// A program for a run that people start.
    pub(crate) fn random(rng: &mut Rng, length: Length, limits: bool) -> Program {
        let mut maker =
            Maker { rng, length, number: 0, undo: false, outside: true, depth: 0, races: false, limits };
        maker.undo = maker.rng.u8(..3) == 0;
        let count = maker.count(3);
        let mut acts = maker.acts(count);
        // What is behind a start-over is another life's, and cannot be undone from this one.
        if !maker.undo && maker.rng.u8(..10) == 0 {
            let at = maker.rng.usize(..=acts.len());
            let number = maker.next();
            acts.insert(at, Act { number, what: What::StartOver });
        }
        let fails = if maker.undo { maker.rng.bool() } else { maker.rng.u8(..12) == 0 };
        Program { acts, fails }
    }

    /// One that waits for mail from a run that is started after it.
    pub(crate) fn reader(count: u32) -> Program {
        Program { acts: vec![Act { number: 1, what: What::Events { count } }], fails: false }
    }

    /// One that sends it.
    pub(crate) fn writer(to: String, count: u32, rng: &mut Rng) -> Program {
        let mut maker = Maker {
            rng,
            length: Length::Short,
            number: 0,
            undo: false,
            outside: false,
            depth: 1,
            races: false,
            limits: false,
        };
        let mut acts = maker.acts(1);
        let at = maker.rng.usize(..=1);
        let number = maker.next();
        acts.insert(at, Act { number, what: What::Post { to, count } });
        Program { acts, fails: false }
    }

    /// Every act, with those inside others; children's are their own.
    pub(crate) fn each<'a>(&'a self, see: &mut impl FnMut(&'a Act)) {
        each(&self.acts, see);
    }

    /// How often it raises the counter, at most.
    pub(crate) fn counts(&self) -> u64 {
        let mut counts = 0;
        self.each(&mut |act| counts += u64::from(act.what == What::Count));
        counts
    }

    /// How many runs there are at least, with its children: those that a race may drop do not count.
    pub(crate) fn runs(&self) -> usize {
        1 + runs(&self.acts)
    }
}

fn each<'a>(acts: &'a [Act], see: &mut impl FnMut(&'a Act)) {
    for act in acts {
        see(act);
        if let What::Join(acts) | What::Race(acts) = &act.what {
            each(acts, see);
        }
    }
}

fn runs(acts: &[Act]) -> usize {
    let of = |act: &Act| match &act.what {
        What::Child { program, .. } => program.runs(),
        What::Job { .. } => 1,
        What::Join(acts) => runs(acts),
        _ => 0,
    };
    acts.iter().map(of).sum()
}

struct Maker<'a> {
    rng: &'a mut Rng,
    length: Length,
    number: u32,
    /// Whether steps say how they are undone.
    undo: bool,
    /// Whether somebody outside feeds the run.
    outside: bool,
    depth: u32,
    /// Whether it may be dropped at any time: then nobody may wait for what it does last.
    races: bool,
    /// Whether there is a queue with a limit.
    limits: bool,
}

impl Maker<'_> {
    fn next(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// How many acts there are in a row.
    fn count(&mut self, most: usize) -> usize {
        match self.length {
            Length::Short if self.rng.u8(..8) < 5 => 1,
            _ => self.rng.usize(1..=most),
        }
    }

    fn acts(&mut self, count: usize) -> Vec<Act> {
        (0..count).map(|_| self.act()).collect()
    }

    fn act(&mut self) -> Act {
        let number = self.next();
        let what = match self.rng.u8(..28) {
            0..=5 => What::Step { ms: self.ms(), fails: 0, undo: self.undo },
            6..=7 => What::Step { ms: self.ms(), fails: self.rng.u32(1..=2), undo: self.undo },
            8 => What::Doomed { attempts: self.rng.u32(1..=2) },
            9..=11 => What::Transaction { ms: self.short(), undo: self.undo && self.rng.bool() },
            12..=14 => What::Sleep { ms: self.rng.u64(1..1_500) },
            15..=16 if self.outside => What::Events { count: self.rng.u32(1..=3) },
            17 if self.outside => What::Promise,
            18..=19 if self.depth < 2 => self.child(),
            20..=21 if self.depth < 2 => What::Join(self.branches()),
            22..=23 if self.depth < 2 => {
                let outer = std::mem::replace(&mut self.races, true);
                let branches = self.branches();
                self.races = outer;
                What::Race(branches)
            }
            24..=26 => self.job(),
            27 => What::Count,
            _ => What::Step { ms: 0, fails: 0, undo: self.undo },
        };
        Act { number, what }
    }

    fn branches(&mut self) -> Vec<Act> {
        self.depth += 1;
        let count = 1 + self.count(2);
        let acts = self.acts(count);
        self.depth -= 1;
        acts
    }

    fn job(&mut self) -> What {
        let fails = if self.rng.u8(..4) == 0 { self.rng.u32(1..=2) } else { 0 };
        match self.limits && self.rng.bool() {
            true => What::Job { ms: self.rng.u64(100..2_000), fails, line: Line::Limited },
            false => What::Job { ms: self.short(), fails, line: Line::Free },
        }
    }

    fn child(&mut self) -> What {
        let mails = if !self.races && self.rng.u8(..3) == 0 { self.rng.u32(1..=2) } else { 0 };
        let mut maker = Maker {
            rng: self.rng,
            length: self.length,
            number: 0,
            undo: self.undo,
            outside: false,
            depth: self.depth + 1,
            races: false,
            limits: self.limits,
        };
        let count = maker.count(2);
        let mut acts = maker.acts(count);
        if mails > 0 {
            let number = maker.next();
            acts.push(Act { number, what: What::Events { count: mails } });
        }
        let program = Arc::new(Program { acts, fails: self.rng.u8(..8) == 0 });
        let how = match self.rng.u8(..6) {
            // What is over as soon as it is asked for leaves a race to chance, as it would in any `select!`.
            0 if mails == 0 && !self.races => How::Detached,
            1..=2 => How::Keyed,
            _ => How::Plain,
        };
        What::Child { program, mails, how }
    }

    /// How long a body takes: mostly not at all.
    fn ms(&mut self) -> u64 {
        match self.rng.u8(..6) {
            0 => self.rng.u64(1..1_500),
            1..=2 => self.short(),
            _ => 0,
        }
    }

    fn short(&mut self) -> u64 {
        if self.rng.bool() { self.rng.u64(1..300) } else { 0 }
    }
}
