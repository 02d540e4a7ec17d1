//! The supervisor: starts runs, feeds them, kills the nodes that run them, heals, and asks the checker.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use tempfile::TempDir;

use crate::check::{self, Evidence, Seen, Verdict, Violation};
use crate::gates::Gate;
use crate::load::HEAL;
use crate::node::Node;
use crate::scene::{Orders, Scene};
use crate::tale::story;

/// From this number of kills on, it would be strange if none hit anything.
const MANY: usize = 50;
/// Of so many runs the whole story is told when something is wrong.
const TOLD: usize = 3;

/// What to do.
#[derive(Debug, Clone)]
pub struct Supervisor {
    /// Decides about plans and moments; the same seed makes the same plans.
    pub seed: u64,
    /// How often to kill.
    pub kills: u32,
    /// An empty database.
    pub database_url: String,
    /// The program that is killed.
    pub victim: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// Everything that must not be; empty when all is well.
    pub violations: Vec<Violation>,
    /// How many kills hit a node in the middle of a body.
    pub hits: usize,
    /// How many attempts were begun again because a kill came before their record.
    pub repeated: usize,
    /// How many runs there were.
    pub runs: usize,
    /// Runs that were acknowledged and are not there, or have not ended.
    pub lost: usize,
    /// Leases that ended without a kill.
    pub lapses: usize,
    seed: u64,
    kills: usize,
    steps: usize,
    beats: usize,
    counts: usize,
    /// Steps of sagas that were undone.
    undone: usize,
    /// How many journals were read while their runs were under way.
    glances: usize,
    gates: BTreeMap<Gate, Seen>,
    /// What is known about the runs with violations.
    stories: String,
}

impl Report {
    /// Says what must not be, and all that is known about it.
    pub(crate) fn complain(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for violation in &self.violations {
            let run = violation.run.map(|run| format!("run {run}: ")).unwrap_or_default();
            writeln!(f, "violation (seed {}): {run}{}", self.seed, violation.what)?;
        }
        f.write_str(&self.stories)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.complain(f)?;
        let Report { seed, hits, lapses, beats, counts, undone, glances, .. } = self;
        let Report { kills, runs, steps, repeated, lost, .. } = self;
        for (gate, seen) in &self.gates {
            writeln!(f, "kill: {} {seen}", gate.name())?;
        }
        writeln!(
            f,
            "kill: seed={seed} in_a_body={hits} lapses={lapses} beats={beats} counts={counts} undone={undone} \
             glances={glances}"
        )?;
        let violations = self.violations.len();
        write!(
            f,
            "kill: kills={kills} runs={runs} steps={steps} repeated={repeated} lost={lost} violations={violations}"
        )
    }
}

impl Supervisor {
    /// Starts, kills, heals and checks.
    pub async fn run(&self) -> Result<Report> {
        let mut rng = Rng::with_seed(self.seed);
        let folder = TempDir::new().context("cannot make a folder for the ledger")?;
        let scene =
            Scene::open(&self.database_url, &self.victim, folder.path(), Orders::default(), &mut rng).await?;
        let load = scene.begin_load(self.seed);

        let mut nodes = scene.kill_again_and_again(self, &mut rng).await?;
        while nodes.len() < scene.most_nodes() {
            nodes.push(scene.spawn(&mut rng).await?);
        }
        let healed = Instant::now();
        scene.heal(&mut nodes).await?;
        scene.last_runs();
        let in_time = scene.drain(load, healed).await?;
        drop(nodes);

        let evidence = scene.evidence().await?;
        let mut verdict = check::check(&evidence);
        if !in_time {
            verdict.violations.push(about_all(format!("not everything ended within {HEAL:?}")));
        }
        if verdict.kills >= MANY && (verdict.hits == 0 || verdict.repeated == 0) {
            verdict.violations.push(about_all("the kills hit nothing: this proves nothing".to_owned()));
        }
        Ok(Report::new(self.seed, verdict, &evidence, &scene))
    }
}

impl Report {
    pub(crate) fn new(seed: u64, verdict: Verdict, evidence: &Evidence, scene: &Scene) -> Report {
        let mut stories = String::new();
        if !verdict.violations.is_empty() {
            let mut told = Vec::new();
            for run in verdict.violations.iter().filter_map(|violation| violation.run) {
                if told.len() < TOLD && !told.contains(&run) {
                    told.push(run);
                    story(run, evidence, &mut stories);
                }
            }
            let _ = writeln!(stories, "what the victims said last:\n{}", scene.said(30));
        }
        Report {
            violations: verdict.violations,
            hits: verdict.hits,
            repeated: verdict.repeated,
            seed,
            kills: verdict.kills,
            runs: evidence.runs.len(),
            steps: verdict.steps,
            lost: verdict.lost,
            lapses: verdict.lapses,
            beats: verdict.beats,
            counts: verdict.counts,
            undone: verdict.undone,
            glances: evidence.earlier.len(),
            gates: verdict.gates,
            stories,
        }
    }
}

pub(crate) fn about_all(what: String) -> Violation {
    Violation { run: None, what }
}

impl Scene {
    /// Kills so often, and gives back the nodes that are left.
    async fn kill_again_and_again(&self, told: &Supervisor, rng: &mut Rng) -> Result<Vec<Node>> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut kills = 0;
        // Where the load cannot go on, waiting for its end tells why.
        while kills < told.kills && !self.broken.load(Ordering::Relaxed) {
            let wanted = rng.usize(1..=self.most_nodes());
            while nodes.len() < wanted {
                nodes.push(self.spawn(rng).await?);
            }
            if rng.u8(..8) == 0 {
                // Whatever it is doing: opening, migrating, joining, taking over.
                tokio::time::sleep(Duration::from_micros(rng.u64(..60_000))).await;
            } else {
                for node in &mut nodes {
                    node.wait_until_up(&self.folder).await?;
                }
                tokio::time::sleep(Duration::from_micros(rng.u64(1_000..400_000))).await;
            }
            // Mostly one of them, sometimes all.
            let all = rng.u8(..4) == 0;
            while kills < told.kills && !nodes.is_empty() {
                self.kill(nodes.swap_remove(rng.usize(..nodes.len())))?;
                kills += 1;
                if !all {
                    break;
                }
            }
        }
        Ok(nodes)
    }
}
