//! What many schedules came to, in words.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::faults::Fault;
use crate::schedule::Outcome;

/// The sum of many schedules.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    schedules: u64,
    /// How many of them had several shards.
    spread: u64,
    nodes: usize,
    runs: usize,
    calls: u64,
    virtual_time: Duration,
    hits: BTreeMap<Fault, u64>,
    /// In how many schedules each fault hit.
    schedules_hit: BTreeMap<Fault, u64>,
    /// How often something went wrong with a call of each name.
    at: BTreeMap<&'static str, u64>,
    fewest: Option<(usize, usize, u64)>,
    violations: u64,
}

/// A tally, and how long it took.
#[derive(Debug, Clone)]
pub struct Report {
    /// The tally.
    pub tally: Tally,
    /// How long it took.
    pub took: Duration,
}

impl Tally {
    /// Adds what a schedule came to.
    pub fn add(&mut self, outcome: &Outcome) {
        let faults = sudden(&outcome.hits);
        let this = (outcome.nodes, outcome.runs, faults);
        let fewest = self.fewest.get_or_insert(this);
        *fewest = (fewest.0.min(this.0), fewest.1.min(this.1), fewest.2.min(this.2));
        self.schedules += 1;
        self.spread += u64::from(outcome.shards > 1);
        self.nodes += outcome.nodes;
        self.runs += outcome.runs;
        self.calls += outcome.calls;
        self.virtual_time += outcome.virtual_time;
        self.violations += outcome.violations.len() as u64;
        for (call, count) in &outcome.at {
            *self.at.entry(call).or_default() += count;
        }
        for (fault, count) in &outcome.hits {
            *self.hits.entry(*fault).or_default() += count;
            *self.schedules_hit.entry(*fault).or_default() += 1;
        }
    }

    /// Adds what others have tallied.
    pub fn join(&mut self, other: Tally) {
        self.schedules += other.schedules;
        self.spread += other.spread;
        self.nodes += other.nodes;
        self.runs += other.runs;
        self.calls += other.calls;
        self.virtual_time += other.virtual_time;
        self.violations += other.violations;
        for (call, count) in other.at {
            *self.at.entry(call).or_default() += count;
        }
        for (mine, theirs) in [(&mut self.hits, other.hits), (&mut self.schedules_hit, other.schedules_hit)] {
            theirs.into_iter().for_each(|(fault, count)| *mine.entry(fault).or_default() += count);
        }
        self.fewest = match (self.fewest, other.fewest) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.min(b.1), a.2.min(b.2))),
            (a, b) => a.or(b),
        };
    }

    /// How many schedules were played.
    pub fn schedules(&self) -> u64 {
        self.schedules
    }

    /// How often something was that must not be.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// The faults that never hit, and schedules that were too small: with these a green run means less.
    pub fn gaps(&self) -> Vec<String> {
        let never = Fault::ALL.iter().filter(|fault| !self.hits.contains_key(fault));
        let mut gaps: Vec<String> = never.map(|fault| format!("{} never hit", fault.word())).collect();
        if let Some((nodes, runs, faults)) =
            self.fewest.filter(|least| least.0 < 3 || least.1 < 20 || least.2 < 5)
        {
            gaps.push(format!("a schedule had but {nodes} nodes, {runs} runs or {faults} faults"));
        }
        if self.spread == 0 {
            gaps.push("no schedule had several shards".to_owned());
        }
        gaps
    }
}

/// How often something happened at a moment.
fn sudden(hits: &BTreeMap<Fault, u64>) -> u64 {
    hits.iter().filter(|(fault, _)| fault.is_sudden()).map(|(_, count)| count).sum()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &self.tally;
        let of = tally.schedules.max(1) as f64;
        let faults = sudden(&tally.hits);
        writeln!(
            f,
            "means per schedule: nodes={:.1} runs={:.1} faults={:.1} calls={:.0} virtual_seconds={:.1}",
            tally.nodes as f64 / of,
            tally.runs as f64 / of,
            faults as f64 / of,
            tally.calls as f64 / of,
            tally.virtual_time.as_secs_f64() / of,
        )?;
        if let Some((nodes, runs, faults)) = tally.fewest {
            writeln!(f, "at least per schedule: nodes={nodes} runs={runs} faults={faults}")?;
        }
        writeln!(f, "schedules with several shards: {}", tally.spread)?;
        for fault in Fault::ALL {
            let hits = tally.hits.get(&fault).copied().unwrap_or_default();
            let schedules = tally.schedules_hit.get(&fault).copied().unwrap_or_default();
            writeln!(f, "{:>22}: hit {hits} times, in {schedules} schedules", fault.word())?;
        }
        let at: Vec<String> = tally.at.iter().map(|(call, count)| format!("{call} {count}")).collect();
        writeln!(f, "calls that went wrong: {}", at.join(", "))?;
        let rate = tally.schedules as f64 / self.took.as_secs_f64().max(0.001);
        write!(f, "sim: schedules={} per_second={rate:.0} violations={}", tally.schedules, tally.violations)
    }
}
