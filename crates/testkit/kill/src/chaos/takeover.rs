//! How long it takes until another node has what a dead one held.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use futures_util::future::try_join_all;

use super::stage::Stage;
use crate::ledger::Line;
use crate::plan::Work;

/// How many starts are under way at once.
const AT_ONCE: usize = 200;
/// How long is waited for all runs to be held, or taken over.
const PATIENCE: Duration = Duration::from_secs(120);

impl Stage {
    /// One node holds so many runs and is killed; how long until another has begun the first of them, and all.
    pub(super) async fn takeover(&mut self, runs: usize, rng: &mut Rng) -> Result<()> {
        // Longer than it takes to begin them all, so that all are held when the node dies.
        let ms = if runs > 1 { 60_000 } else { 15_000 };
        let work = Work { fails: 0, ms, ticket: None };
        let (first, began) = (self.nodes[0].number, Instant::now());
        let numbers: Vec<usize> = (0..runs).collect();
        for some in numbers.chunks(AT_ONCE) {
            let starts = some.iter().map(|n| {
                let scene = self.scene.clone();
                async move { scene.start_work(&format!("held-{n}"), work).await }
            });
            try_join_all(starts).await?;
        }
        self.until_begun(first, work, runs).await?;
        ensure!(began.elapsed() < Duration::from_millis(ms), "it took too long until all runs were held");
        let second = self.scene.nodes(1, rng).await?.remove(0);
        let number = second.number;
        self.nodes.push(second);

        let node = self.nodes.remove(0);
        self.scene.kill(node)?;
        let killed = Instant::now();
        self.until_begun(number, work, 1).await?;
        let first = killed.elapsed();
        self.until_begun(number, work, runs).await?;
        let all = killed.elapsed();
        self.hits = runs as u64;
        self.number("lease_ms", self.scene.orders.lease.as_millis());
        self.number("first_after_ms", first.as_millis());
        self.number("all_after_ms", all.as_millis());
        Ok(())
    }

    /// Waits until a node has begun so many bodies that do this work.
    async fn until_begun(&self, node: u32, work: Work, bodies: usize) -> Result<()> {
        let since = Instant::now();
        loop {
            let begun = |line: &Line| matches!(line, Line::Begin(call) if call.node == node && call.work == Some(work));
            let count = self.scene.read_ledger()?.iter().filter(|line| begun(line)).count();
            if count >= bodies {
                return Ok(());
            }
            ensure!(since.elapsed() < PATIENCE, "node {node} began {count} of {bodies} runs in {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(if bodies > 1 { 50 } else { 5 })).await;
        }
    }
}
