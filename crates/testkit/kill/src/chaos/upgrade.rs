//! A fleet that is brought up to date node by node under load, and back: the schema before this one and ours, side by
//! side.
//!
//! Nodes of the schema before begin on an empty database and have work in hand when somebody with this schema comes
//! and applies it. From then on each node is replaced by one of the other kind, in turn, until all of them have been of
//! both kinds; what is left at the end has to heal and drain together.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use outlast::RunId;
use tokio::task::block_in_place;

use super::database::Admin;
use super::stage::Stage;
use super::{Chaos, NODES};
use crate::ledger::Line;
use crate::load::Early;
use crate::node::Node;
use crate::plan::{Act, Plan};
use crate::scene::{Orders, Scene, spawn};
use crate::watch::Watch;

/// How many runs the schema before has in hand when ours is applied.
const EARLY: usize = 16;

/// A fleet of the schema before, at work.
pub(super) struct Before {
    victim: PathBuf,
    nodes: Vec<Node>,
    early: Vec<Early>,
    schema: i64,
}

impl Before {
    /// Nodes of the schema before make their schema in an empty database, and begin to work.
    pub(super) async fn begin(
        told: &Chaos,
        url: &str,
        folder: &Path,
        orders: Orders,
        rng: &mut Rng,
    ) -> Result<Before> {
        let programs = told.previous.as_ref();
        let programs = programs.context(
            "the programs of the schema before this one are needed: `cargo xtask chaos --fault rolling-upgrade` \
             builds them, or tell where they are with --previous",
        )?;
        let (victim, cli) = (programs.join("victim"), programs.join("outlast"));
        let mut nodes = Vec::new();
        for number in 1..=NODES as u32 {
            nodes.push(spawn(&victim, url, folder, orders, number, rng)?);
        }
        for node in &mut nodes {
            node.wait_until_up(folder).await?;
        }
        let mut early = Vec::new();
        for nth in 0..EARLY {
            let (key, plan) = (format!("early-{nth}"), plan(rng));
            let run = block_in_place(|| start(&cli, url, &key, &plan))?;
            early.push(Early { key, plan, run });
        }
        Watch::open(&folder.join("ledger"))?.body_on(1).await?;
        Ok(Before { victim, nodes, early, schema: schema(url).await? })
    }

    /// The schema of this program has been applied in the middle of their work: they go on as if nothing had been.
    pub(super) async fn go_on(self, scene: &Scene) -> Result<(Vec<Node>, Vec<Early>, Option<PathBuf>)> {
        scene.nodes.store(self.nodes.len() as u64, Ordering::Relaxed);
        let now = schema(&scene.url).await?;
        ensure!(self.schema < now, "both programs have schema {now}: this proves nothing");
        scene.fault(format!(
            "schema {} became {now} under the work of nodes that know only the former",
            self.schema
        ));
        Ok((self.nodes, self.early, Some(self.victim)))
    }
}

/// What is under way when the schema changes: bodies that take a while, timers, and what the client feeds.
fn plan(rng: &mut Rng) -> Plan {
    let mut step = || Act::Step { ms: rng.u64(300..3000) };
    let acts = vec![
        step(),
        Act::Random,
        Act::Promise,
        step(),
        Act::Sleep { ms: 700 },
        Act::Letter,
        step(),
        Act::Now,
    ];
    Plan { acts, from: 0 }
}

/// Starts a run with the command line of the schema before: no client of ours would leave that schema alone.
fn start(cli: &Path, url: &str, key: &str, plan: &Plan) -> Result<RunId> {
    let mut command = Command::new(cli);
    command.args(["--database-url", url, "-o", "name", "start", "play", "--key", key]);
    command.args(["--input", &serde_json::to_string(plan)?]);
    let answer = command.output().with_context(|| format!("cannot run {}", cli.display()))?;
    let said = String::from_utf8_lossy(&answer.stderr);
    ensure!(answer.status.success(), "{key} could not be started: {said}");
    let run = String::from_utf8_lossy(&answer.stdout);
    run.trim().parse().with_context(|| format!("{key} was started as {run:?}, which is no run"))
}

/// The number of the last file that was applied.
async fn schema(url: &str) -> Result<i64> {
    let admin = Admin::at(url).await?;
    Ok(admin.client.query_one("select max(number) from outlast.migrations", &[]).await?.get(0))
}

impl Stage {
    /// Node after node is replaced by one of the other schema, until all have been of both, and longer.
    pub(super) async fn rolling_upgrade(&mut self, rng: &mut Rng) -> Result<()> {
        let old_victim = self.old_victim.clone().context("nodes of the schema before are needed")?;
        // They were of the schema before, and still are.
        for node in 0..self.nodes.len() {
            self.watch.body_on(self.nodes[node].number).await?;
        }
        let (mut upgrades, mut rollbacks) = (0, 0);
        while upgrades < NODES || rollbacks < NODES || self.goes_on() {
            let forwards = ((upgrades + rollbacks) / NODES).is_multiple_of(2);
            // The one that has been there for longest, so that each is replaced once on each way.
            let mut node = self.nodes.remove(0);
            self.watch.body_on(node.number).await?;
            match rng.bool() {
                true => {
                    node.ask_to_leave()?;
                    let ended = node.ended_within(super::process::LEAVE_WITHIN).await?;
                    ensure!(
                        ended.is_some_and(|status| status.success()),
                        "node {} did not leave",
                        node.number
                    );
                    self.scene.ledger.write(&Line::Left { node: node.number });
                }
                false => self.scene.kill(node)?,
            }
            let next = match forwards {
                true => self.scene.spawn(rng).await?,
                false => self.scene.spawn_of(&old_victim, rng).await?,
            };
            let number = next.number;
            self.nodes.push(next);
            for node in &mut self.nodes {
                node.wait_until_up(&self.scene.folder).await?;
            }
            // It works beside the others, whatever they are.
            self.watch.body_on(number).await?;
            *(if forwards { &mut upgrades } else { &mut rollbacks }) += 1;
            self.hits += 1;
        }
        self.number("upgrades", upgrades);
        self.number("rollbacks", rollbacks);
        Ok(())
    }
}
