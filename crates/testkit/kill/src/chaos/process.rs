//! What is done to processes: killed, stopped and let go, asked to leave.

use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;

use super::stage::{Stage, most_ms};
use crate::ledger::Line;

/// How long a node that is asked to leave may take: its grace and a little more.
pub(super) const LEAVE_WITHIN: Duration = Duration::from_secs(4);

impl Stage {
    /// One node after another, every one to five seconds.
    pub(super) async fn kill_one(&mut self, rng: &mut Rng) -> Result<()> {
        while self.goes_on() {
            self.wait(Duration::from_millis(rng.u64(1000..5000))).await;
            let node = self.take_node(rng);
            // Only a node that does something dies with something in hand.
            self.watch.body_on(node.number).await?;
            self.scene.kill(node)?;
            self.hits += 1;
            self.nodes.push(self.scene.spawn(rng).await?);
            for node in &mut self.nodes {
                node.wait_until_up(&self.scene.folder).await?;
            }
        }
        Ok(())
    }

    /// All at once; others come when nobody has a lease any more.
    pub(super) async fn kill_all(&mut self, rng: &mut Rng) -> Result<()> {
        let mut recoveries = Vec::new();
        while self.goes_on() {
            self.wait(Duration::from_millis(rng.u64(1000..3000))).await;
            while !self.nodes.is_empty() {
                let node = self.take_node(rng);
                self.scene.kill(node)?;
                self.hits += 1;
            }
            tokio::time::sleep(self.scene.orders.lease + Duration::from_millis(100)).await;
            self.nodes = self.scene.nodes(super::NODES, rng).await?;
            recoveries.push(self.recovery().await?);
        }
        self.number("recovery_ms", most_ms(&recoveries));
        Ok(())
    }

    /// One node after another is stopped for so long, and goes on as if nothing had been.
    pub(super) async fn pause(&mut self, pause: Duration, rng: &mut Rng) -> Result<()> {
        while self.goes_on_until_fenced(pause)? {
            let node = rng.usize(..self.nodes.len());
            self.watch.body_on(self.nodes[node].number).await?;
            self.nodes[node].stop(&self.scene.ledger)?;
            tokio::time::sleep(pause).await;
            self.nodes[node].go(&self.scene.ledger)?;
            self.hits += 1;
            // Until it is itself again, so that never two are away at once.
            self.watch.body_on(self.nodes[node].number).await?;
            self.wait(Duration::from_millis(rng.u64(200..1000))).await;
        }
        Ok(())
    }

    /// One node after another is asked to leave: it says good-bye, and leaves nothing behind.
    pub(super) async fn leave(&mut self, rng: &mut Rng) -> Result<()> {
        let mut took = Vec::new();
        while self.goes_on() {
            self.wait(Duration::from_millis(rng.u64(500..2000))).await;
            let mut node = self.take_node(rng);
            self.watch.body_on(node.number).await?;
            let asked = std::time::Instant::now();
            node.ask_to_leave()?;
            let ended = node.ended_within(LEAVE_WITHIN).await?;
            took.push(asked.elapsed());
            self.hits += 1;
            let number = node.number;
            match ended {
                Some(status) if status.success() => self.scene.ledger.write(&Line::Left { node: number }),
                Some(status) => {
                    let said = node.said(&self.scene.folder);
                    self.wrong(format!("node {number} was asked to leave and ended with {status}:\n{said}"));
                }
                None => self
                    .wrong(format!("node {number} was asked to leave and is there after {LEAVE_WITHIN:?}")),
            }
            let name = format!("victim-{number}");
            if self.scene.client.nodes().await?.iter().any(|view| view.name == name) {
                self.wrong(format!("node {number} left and still has its lease"));
            }
            self.nodes.push(self.scene.spawn(rng).await?);
        }
        self.number("left_within_ms", most_ms(&took));
        Ok(())
    }

    /// The same, but nobody waits for the good-bye.
    pub(super) async fn leave_and_kill(&mut self, rng: &mut Rng) -> Result<()> {
        while self.goes_on() {
            self.wait(Duration::from_millis(rng.u64(500..2000))).await;
            let mut node = self.take_node(rng);
            self.watch.body_on(node.number).await?;
            node.ask_to_leave()?;
            let in_time = node.ended_within(Duration::from_millis(rng.u64(..20))).await?.is_some();
            if !in_time {
                node.kill(&self.scene.folder)?;
                self.hits += 1;
            }
            self.scene.ledger.write(&Line::Kill { node: node.number });
            self.nodes.push(self.scene.spawn(rng).await?);
            for node in &mut self.nodes {
                node.wait_until_up(&self.scene.folder).await?;
            }
        }
        Ok(())
    }
}
