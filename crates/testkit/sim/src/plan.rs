//! What a schedule does and what happens to it, made from its seed before it begins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use outlast_core::ShardCount;
use serde::{Deserialize, Serialize};

use crate::faults::CallFault;
use crate::program::{Length, Program};

/// How much of everything a schedule has.
struct Size {
    /// How many runs at least, with children.
    runs: usize,
    /// With how many calls of the store something goes wrong, at least and at most.
    calls: (usize, usize),
    /// The last call with which something goes wrong.
    last: u64,
    /// How often nodes are hit, at least and at most.
    blows: (usize, usize),
    /// How long programs are.
    programs: Length,
}

/// Many small schedules meet more different things than a few big ones.
const USUAL: Size = Size { runs: 20, calls: (5, 9), last: 90, blows: (1, 2), programs: Length::Short };
/// But some things happen only where much happens: one in so many schedules is big.
const BIG: Size = Size { runs: 40, calls: (10, 18), last: 220, blows: (2, 5), programs: Length::Long };
const ONE_IN: u8 = 32;

/// One schedule in so many spreads its runs over shards, and over how many: each costs nodes as much as having one does.
const SPREAD: u8 = 8;
pub(crate) const SHARDS: ShardCount = 3;

/// Within which time runs are started. Short, as is everything that takes time: with time come renewals, sweeps and claims that
/// find nothing, of which the first few say as much as many.
const STARTS_MS: u64 = 2_500;
/// Within which time nodes are hit.
const BLOWS_MS: u64 = 3_500;

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// When to look whether everything is as it must always be: in the middle of all, or once it is over.
    pub(crate) look: Option<Duration>,
    /// Over how many shards its runs are spread.
    #[serde(default = "one")]
    pub(crate) shards: ShardCount,
}

/// What schedules had that were kept before there was a choice.
fn one() -> ShardCount {
    1
}

/// What happens to a node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Blow {
    Crash { node: usize },
    Pause { node: usize, time: Duration },
    Outage { node: usize, time: Duration, hangs: bool },
}

/// One run that people start, and what they do with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Story {
    pub(crate) label: String,
    pub(crate) at: Duration,
    pub(crate) program: Arc<Program>,
    /// It waits for mail that another run sends, which is started after it and performs this.
    pub(crate) mails: Option<Arc<Program>>,
    /// When somebody wants it to stop or to stand still, after its start.
    pub(crate) stop: Option<(Duration, Stop)>,
    /// Whether it is started once more.
    pub(crate) twice: bool,
}

/// What somebody wants of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
        let size = if rng.u8(..ONE_IN) == 0 { BIG } else { USUAL };
        let nodes = if rng.u8(..8) == 0 { 4 } else { 3 };
        let skew = |rng: &mut Rng| match rng.u8(..3) {
            0 => rng.i64(-86_400_000_000..86_400_000_000),
            _ => 0,
        };
        let skews = (0..nodes).map(|_| skew(rng)).collect();
        let deaf = (0..nodes).map(|_| rng.u8(..4) == 0).collect();
        // Not both, since a look costs a twentieth of a schedule.
        let look = rng.bool().then(|| Duration::from_millis(rng.u64(500..BLOWS_MS)));
        // What not every schedule has: both cost calls of the store as long as they are there.
        let (limits, beats) = (rng.u8(..8) == 0, rng.u8(..6) == 0);
        let (stories, calls) = (stories(rng, &size, limits), calls(rng, &size));
        let blows = blows(rng, &size, nodes);
        let shards = if rng.u8(..SPREAD) == 0 { SHARDS } else { 1 };
        Plan { skews, deaf, stories, blows, calls, limits, beats, look, shards }
    }
}

impl Story {
    fn random(nth: usize, rng: &mut Rng, length: Length, limits: bool) -> Story {
        let label = format!("r{nth}");
        let mails = (rng.u8(..10) == 0).then(|| rng.u32(1..=3));
        let program = match mails {
            Some(count) => Program::reader(count),
            None => Program::random(rng, length, limits),
        };
        let mails = mails.map(|count| Arc::new(Program::writer(label.clone(), count, rng)));
        let may_stop = mails.is_none() && rng.u8(..6) == 0;
        let stop = may_stop.then(|| {
            let what = match rng.u8(..5) {
                0 => Stop::Kill,
                1 => Stop::Pause(Duration::from_millis(rng.u64(..2_000))),
                _ => Stop::Cancel,
            };
            (Duration::from_millis(rng.u64(..2_000)), what)
        });
        Story {
            label,
            at: Duration::from_millis(rng.u64(..STARTS_MS)),
            program: Arc::new(program),
            mails,
            stop,
            twice: rng.u8(..8) == 0,
        }
    }

    /// How many runs there will be at least: whoever is stopped may have started none.
    fn runs(&self) -> usize {
        match self.stop {
            Some((_, Stop::Cancel | Stop::Kill)) => 1,
            _ => self.program.runs() + self.mails.as_ref().map_or(0, |writer| writer.runs()),
        }
    }
}

fn stories(rng: &mut Rng, size: &Size, limits: bool) -> Vec<Story> {
    let mut stories: Vec<Story> = Vec::new();
    let mut runs = 0;
    while runs < size.runs {
        let story = Story::random(stories.len(), rng, size.programs, limits);
        runs += story.runs();
        stories.push(story);
    }
    stories
}

fn calls(rng: &mut Rng, size: &Size) -> BTreeMap<u64, CallFault> {
    let mut calls = BTreeMap::new();
    let count = rng.usize(size.calls.0..=size.calls.1);
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
        calls.insert(rng.u64(4..size.last), fault);
    }
    calls
}

fn delay(rng: &mut Rng) -> Duration {
    Duration::from_millis(match rng.u8(..12) {
        // Past the lease.
        0 => rng.u64(10_200..11_500),
        1 => rng.u64(3_000..10_200),
        _ => rng.u64(1..800),
    })
}

fn blows(rng: &mut Rng, size: &Size, nodes: usize) -> Vec<(Duration, Blow)> {
    let mut blows = Vec::new();
    for _ in 0..rng.usize(size.blows.0..=size.blows.1) {
        let node = rng.usize(..nodes);
        let blow = match rng.u8(..8) {
            0..=2 => Blow::Crash { node },
            3 => Blow::Pause { node, time: Duration::from_millis(rng.u64(100..6_000)) },
            4..=5 => Blow::Pause { node, time: Duration::from_millis(rng.u64(10_200..11_500)) },
            _ => {
                let time = Duration::from_millis(rng.u64(500..11_500));
                Blow::Outage { node, time, hangs: rng.bool() }
            }
        };
        blows.push((Duration::from_millis(rng.u64(50..BLOWS_MS)), blow));
    }
    blows.sort_by_key(|(at, _)| *at);
    blows
}
