//! What a schedule does and what happens to it, made from its seed before it begins.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;

use crate::faults::CallFault;
use crate::program::Program;

/// How many runs a schedule has at least, with children.
const RUNS: usize = 20;
/// Within which time runs are started.
const STARTS_MS: u64 = 6_000;
/// Within which time nodes are hit.
const BLOWS_MS: u64 = 8_000;
/// Up to which call of the store something goes wrong.
const CALLS: u64 = 110;

/// A schedule.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How wrong each node's own clock is, in microseconds.
    pub(crate) skews: Vec<i64>,
    /// Which nodes hear no hints.
    pub(crate) deaf: Vec<bool>,
    pub(crate) stories: Vec<Story>,
    pub(crate) blows: Vec<(Duration, Blow)>,
    /// What goes wrong with which call.
    pub(crate) calls: BTreeMap<u64, CallFault>,
    /// Whether there is a queue with a limit.
    pub(crate) limits: bool,
    /// Whether there is a schedule.
    pub(crate) beats: bool,
    /// When to look whether everything is as it must always be.
    pub(crate) looks: Vec<Duration>,
}

/// What happens to a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Blow {
    Crash { node: usize },
    Pause { node: usize, time: Duration },
    Outage { node: usize, time: Duration, hangs: bool },
}

/// One run that people start, and what they do with it.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) label: String,
    pub(crate) at: Duration,
    pub(crate) program: Program,
    /// It waits for mail that another run sends, which is started after it.
    pub(crate) mails: Option<u32>,
    /// When somebody wants it to stop or to stand still, after its start.
    pub(crate) stop: Option<(Duration, Stop)>,
    /// Whether it is started once more.
    pub(crate) twice: bool,
}

/// What somebody wants of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stop {
    /// That it ends, and undoes what it did.
    Cancel,
    /// That it ends at once.
    Kill,
    /// That it stands still for so long.
    Pause(Duration),
}

impl Plan {
    pub(crate) fn random(rng: &mut Rng) -> Plan {
        let nodes = if rng.u8(..8) == 0 { 4 } else { 3 };
        let skew = |rng: &mut Rng| match rng.u8(..3) {
            0 => rng.i64(-86_400_000_000..86_400_000_000),
            _ => 0,
        };
        let skews = (0..nodes).map(|_| skew(rng)).collect();
        let deaf = (0..nodes).map(|_| rng.u8(..4) == 0).collect();
        let looks = vec![Duration::from_millis(rng.u64(500..BLOWS_MS))];
        // What not every schedule has: both cost calls of the store as long as they are there.
        let (limits, beats) = (rng.u8(..5) == 0, rng.u8(..5) == 0);
        let (stories, calls) = (stories(rng, limits), calls(rng));
        Plan { skews, deaf, stories, blows: blows(rng, nodes), calls, limits, beats, looks }
    }

    /// How many runs people and their runs start.
    pub(crate) fn runs(&self) -> usize {
        self.stories.iter().map(Story::runs).sum()
    }
}

impl Story {
    fn random(nth: usize, rng: &mut Rng, limits: bool) -> Story {
        let mails = (rng.u8(..10) == 0).then(|| rng.u32(1..=3));
        let program = match mails {
            Some(count) => Program::reader(count),
            None => Program::random(rng, limits),
        };
        let may_stop = mails.is_none() && rng.u8(..6) == 0;
        let stop = may_stop.then(|| {
            let what = match rng.u8(..5) {
                0 => Stop::Kill,
                1 => Stop::Pause(Duration::from_millis(rng.u64(..4_000))),
                _ => Stop::Cancel,
            };
            (Duration::from_millis(rng.u64(..4_000)), what)
        });
        Story {
            label: format!("r{nth}"),
            at: Duration::from_millis(rng.u64(..STARTS_MS)),
            program,
            mails,
            stop,
            twice: rng.u8(..8) == 0,
        }
    }

    fn runs(&self) -> usize {
        self.program.runs() + usize::from(self.mails.is_some())
    }
}

fn stories(rng: &mut Rng, limits: bool) -> Vec<Story> {
    let mut stories: Vec<Story> = Vec::new();
    let mut runs = 0;
    while runs < RUNS {
        let story = Story::random(stories.len(), rng, limits);
        runs += story.runs();
        stories.push(story);
    }
    stories
}

fn calls(rng: &mut Rng) -> BTreeMap<u64, CallFault> {
    let mut calls = BTreeMap::new();
    let count = rng.usize(8..=13);
    while calls.len() < count {
        let fault = match rng.u8(..16) {
            0..=2 => CallFault::ErrorBefore,
            3..=7 => CallFault::ErrorAfter,
            8..=9 => CallFault::DelayBefore(delay(rng)),
            10..=11 => CallFault::DelayAfter(delay(rng)),
            12..=13 => CallFault::Duplicate,
            14 => CallFault::CrashBefore,
            _ => CallFault::CrashAfter,
        };
        calls.insert(rng.u64(4..CALLS), fault);
    }
    calls
}

fn delay(rng: &mut Rng) -> Duration {
    Duration::from_millis(if rng.u8(..6) == 0 { rng.u64(3_000..16_000) } else { rng.u64(1..800) })
}

fn blows(rng: &mut Rng, nodes: usize) -> Vec<(Duration, Blow)> {
    let mut blows = Vec::new();
    for _ in 0..rng.usize(1..=3) {
        let node = rng.usize(..nodes);
        let blow = match rng.u8(..8) {
            0..=2 => Blow::Crash { node },
            3 => Blow::Pause { node, time: Duration::from_millis(rng.u64(100..6_000)) },
            4..=5 => Blow::Pause { node, time: Duration::from_millis(rng.u64(10_500..16_000)) },
            _ => {
                let time = Duration::from_millis(rng.u64(500..14_000));
                Blow::Outage { node, time, hangs: rng.bool() }
            }
        };
        blows.push((Duration::from_millis(rng.u64(50..BLOWS_MS)), blow));
    }
    blows.sort_by_key(|(at, _)| *at);
    blows
}
