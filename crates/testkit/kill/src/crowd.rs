//! A crowd: eight nodes that work at gates, one after another killed in the middle of what a gate let through, or cut
//! off from the database.
//!
//! [`Supervisor`](crate::Supervisor) kills two nodes at any moment of anything; here there are as many as ever ask
//! for the same slots and fire the same schedules, and every kill leaves slots behind that nobody gives back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use fastrand::Rng;
use outlast_proxy::Manner;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::beats;
use crate::check::{self, Seen};
use crate::gates::Gate;
use crate::ledger::Line;
use crate::load::HEAL;
use crate::node::Node;
use crate::plan::Work;
use crate::scene::{LEASE, Orders, Scene};
use crate::supervisor::{Report, about_all};
use crate::watch::Watch;

/// How many nodes there are, where there can be several.
const NODES: usize = 8;
/// How often a node is killed at each gate; more often where chance left out something that has to be seen.
const ROUNDS: usize = 2;
const MOST_ROUNDS: usize = 10;
/// How long a long body takes at least, in milliseconds.
const LONG: u64 = LEASE.as_millis() as u64 * 5 / 4;
/// How many runs of an ordered group stand in line at once.
const LINE: usize = 4;

/// What to do.
#[derive(Debug, Clone)]
pub struct Crowd {
    /// Decides about runs and whom else to kill.
    pub seed: u64,
    /// An empty database.
    pub database_url: String,
    /// The program that is killed.
    pub victim: PathBuf,
}

impl Crowd {
    /// Starts, kills, heals and checks.
    pub async fn run(&self) -> Result<Report> {
        let mut rng = Rng::with_seed(self.seed);
        let folder = TempDir::new().context("cannot make a folder for the ledger")?;
        let scene =
            Scene::open(&self.database_url, &self.victim, folder.path(), Orders::default(), &mut rng).await?;
        let mut nodes = scene.nodes(NODES, &mut rng).await?;
        // Only to be cut off from: killed again and again, what takes long never ends.
        let is_long = Arc::new(AtomicBool::new(!scene.is_sqlite()));
        let load = scene.crowd(self.seed, &is_long);

        let mut watch = Watch::open(&scene.folder.join("ledger"))?;
        for round in 0..MOST_ROUNDS {
            if round >= ROUNDS && unproven(&check::look_at_gates(scene.read_ledger()?)).is_empty() {
                break;
            }
            let mut gates = Gate::ALL;
            rng.shuffle(&mut gates);
            for gate in gates {
                let body = watch.body_at(gate).await?;
                let Some(place) = nodes.iter().position(|node| node.number == body.node) else { continue };
                match &nodes[place].wire {
                    Some(wire) if gate == Gate::Long && round == 0 => {
                        scene.ledger.write(&Line::Cut { node: body.node });
                        wire.set(Manner { cut: true, ..Manner::default() });
                        watch.taken_over(&body).await?;
                        wire.set(Manner::default());
                        is_long.store(false, Ordering::Relaxed);
                    }
                    _ => scene.replace(&mut nodes, place, &mut rng).await?,
                }
            }
            if round == 0 {
                while let Some(node) = nodes.pop() {
                    scene.kill(node)?;
                }
                beats::miss_some(&scene.client).await?;
                nodes = scene.nodes(NODES, &mut rng).await?;
            }
        }
        for node in &mut nodes {
            node.wait_until_up(&scene.folder).await?;
        }
        scene.tail.store(0, Ordering::Relaxed);
        let in_time = scene.drain(load, Instant::now()).await?;
        drop(nodes);

        let evidence = scene.evidence().await?;
        let mut verdict = check::check(&evidence);
        if !in_time {
            verdict.violations.push(about_all(format!("not everything ended within {HEAL:?}")));
        }
        let unproven = unproven(&verdict.gates).into_iter().map(about_all);
        verdict.violations.extend(unproven);
        if verdict.beats == 0 {
            verdict.violations.push(about_all("no schedule had a time: this proves nothing".to_owned()));
        }
        Ok(Report::new(self.seed, verdict, &evidence, &scene))
    }
}

/// A rule that was never used to the full, or whose slots no node ever died with, is not known to hold.
fn unproven(gates: &BTreeMap<Gate, Seen>) -> Vec<String> {
    let seen = |gate: Gate| (gate, gates.get(&gate).copied().unwrap_or_default());
    let unproven =
        Gate::ALL.into_iter().map(seen).filter(|(gate, seen)| seen.hits == 0 || !seen.is_full(&gate.rules()));
    let says = |(gate, seen): (Gate, Seen)| format!("{} was never full or never hit: {seen}", gate.name());
    unproven.map(says).collect()
}

impl Scene {
    /// Kills a node, and sometimes another that does who knows what; others come for them.
    async fn replace(&self, nodes: &mut Vec<Node>, place: usize, rng: &mut Rng) -> Result<()> {
        self.kill(nodes.swap_remove(place))?;
        nodes.push(self.spawn(rng).await?);
        if rng.u8(..4) == 0 {
            self.kill(nodes.swap_remove(rng.usize(..nodes.len())))?;
            nodes.push(self.spawn(rng).await?);
        }
        Ok(())
    }

    /// Keeps every gate's line longer than what it lets through, until there is a last run.
    fn crowd(&self, seed: u64, is_long: &Arc<AtomicBool>) -> JoinSet<Result<()>> {
        let mut load = JoinSet::new();
        for gate in Gate::ALL {
            let (places, groups, ms) = match gate {
                Gate::Limited => (7, 1, 20..100),
                Gate::Long => (4, 1, 20..100),
                Gate::Grouped => (12, 4, 20..100),
                Gate::Spread => (20, 1, 100..300),
                Gate::Paced => (12, 1, 50..200),
                Gate::PacedGroups => (12, 2, 50..200),
                Gate::Ordered => (3, 0, 10..60),
            };
            for place in 0..places {
                let (scene, is_long, ms) = (self.clone(), is_long.clone(), ms.clone());
                let mut rng = Rng::with_seed(seed ^ (u64::from(gate as u8) << 32 | place));
                load.spawn(async move {
                    while scene.tail.load(Ordering::Relaxed) > 0 {
                        let number = scene.next.fetch_add(1, Ordering::Relaxed);
                        let (key, fails) = (format!("crowd-{number}"), u32::from(rng.u8(..4) == 0));
                        let takes_long = gate == Gate::Long && is_long.load(Ordering::Relaxed);
                        let more = if takes_long { LONG } else { 0 };
                        let mut work = |_| Work { fails, ms: more + rng.u64(ms.clone()), ticket: None };
                        match gate {
                            Gate::Ordered => {
                                let line: Vec<Work> = (0..LINE).map(&mut work).collect();
                                scene.queue_up(&key, gate, number, &line).await?;
                            }
                            gate => scene.queue_up(&key, gate, place % groups, &[work(0)]).await?,
                        }
                    }
                    Ok(())
                });
            }
        }
        load
    }
}
