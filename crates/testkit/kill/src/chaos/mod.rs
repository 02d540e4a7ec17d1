//! Faults by name, on real processes and real databases: each under load, then healed, drained and checked.
//!
//! [`Supervisor`](crate::Supervisor) knows one fault and plays it as often as it is told; here there are all the
//! others. A fault has to show that it hit something, by a number that is looked at: a green run without a hit is
//! red.

mod connections;
mod database;
mod disk;
mod fault;
mod file;
mod network;
mod process;
mod snapshots;
mod stage;
mod takeover;
mod upgrade;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use tokio::task::JoinSet;

pub use self::fault::Fault;
use self::stage::Stage;
use crate::check;
use crate::load::HEAL;
use crate::supervisor::{Report, about_all};

/// How many nodes there are, where there can be several.
const NODES: usize = 3;

/// What to do.
#[derive(Debug, Clone)]
pub struct Chaos {
    /// Which fault.
    pub fault: Fault,
    /// Decides about plans and moments.
    pub seed: u64,
    /// How long the fault goes on.
    pub lasts: Duration,
    /// How long to look at the throughput before and after it; not at all if zero.
    pub calm: Duration,
    /// The program that is a node.
    pub victim: PathBuf,
    /// The folder with the programs of the schema before this one, where a fault needs them.
    pub previous: Option<PathBuf>,
    /// An empty database that is not hurt itself; a new one on a server of its own if not given.
    pub database_url: Option<String>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Which fault it was.
    pub fault: Fault,
    /// What the checker says.
    pub report: Report,
    /// How often the fault hit.
    pub hits: u64,
    /// What was measured, by name.
    pub numbers: Vec<(String, String)>,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.report.complain(f)?;
        let Outcome { fault, report, hits, numbers } = self;
        write!(f, "chaos: {} ({}) hits={hits} runs={}", fault.name(), fault.row(), report.runs)?;
        write!(f, " repeated={} lapses={} lost={}", report.repeated, report.lapses, report.lost)?;
        numbers.iter().try_for_each(|(name, number)| write!(f, " {name}={number}"))?;
        write!(f, " violations={}", report.violations.len())
    }
}

impl Chaos {
    /// Loads, hurts, heals, drains and checks.
    pub async fn run(&self) -> Result<Outcome> {
        let mut rng = Rng::with_seed(self.seed);
        let mut stage = Stage::open(self, &mut rng).await?;
        // What is measured with one node and nothing else has its load afterwards.
        let is_alone = self.fault.holds().is_some();
        let mut load = if is_alone { JoinSet::new() } else { stage.scene.begin_load(self.seed) };
        for early in std::mem::take(&mut stage.early) {
            stage.scene.begin_early(&mut load, early, rng.fork());
        }
        if self.fault.outlasts_leases() {
            stage.scene.begin_long_load(&mut load, self.seed);
        }
        let is_paced = !self.calm.is_zero() && !is_alone;
        let before = if is_paced { stage.scene.pace(self.calm).await? } else { 0.0 };

        stage.until = Instant::now() + self.lasts;
        stage.scene.fault(self.fault.name());
        let inflicted = stage.inflict(self.fault, &mut rng).await;
        inflicted.with_context(|| format!("in the middle of {}", self.fault.name()))?;

        let healed = Instant::now();
        stage.mend(&mut rng).await?;
        if is_alone {
            load = stage.scene.begin_load(self.seed);
        }
        stage.scene.heal(&mut stage.nodes).await?;
        if is_paced {
            let after = stage.scene.pace(self.calm).await?;
            stage.number("runs_per_second", format!("{before:.0}_to_{after:.0}"));
            stage.number("after_of_before", format!("{:.0}%", 100.0 * after / before.max(0.1)));
        }
        stage.scene.last_runs();
        let in_time = stage.scene.drain(load, healed).await?;
        stage.nodes.clear();

        let evidence = stage.scene.evidence().await?;
        let mut verdict = check::check(&evidence);
        stage.weigh(self.fault, &verdict);
        if !in_time {
            stage.wrong(format!("not everything ended within {HEAL:?}"));
        }
        if stage.hits == 0 {
            stage.wrong("the fault hit nothing: this proves nothing");
        }
        verdict.violations.extend(stage.wrong.drain(..).map(about_all));
        let report = Report::new(self.seed, verdict, &evidence, &stage.scene);
        Ok(Outcome {
            fault: self.fault,
            report,
            hits: stage.hits,
            numbers: std::mem::take(&mut stage.numbers),
        })
    }
}
