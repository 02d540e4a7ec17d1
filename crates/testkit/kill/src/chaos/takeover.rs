//! How long it takes until another node has what a dead one held.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use futures_util::future::try_join_all;

use super::stage::Stage;
use crate::meter::TAKEOVERS;
use crate::plan::Work;

/// How many starts are under way at once.
const AT_ONCE: usize = 200;
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(10);
/// How long is waited for all runs to be held, or taken over.
const PATIENCE: Duration = Duration::from_secs(120);

impl Stage {
    /// One node holds so many runs and is killed; how long until all are free for others, and until another has begun the
    /// first of them, and all.
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
        self.until_begun(first, ms, runs).await?;
        ensure!(began.elapsed() < Duration::from_millis(ms), "it took too long until all runs were held");
        let second = self.scene.nodes(1, rng).await?.remove(0);
        let number = second.number;
        self.nodes.push(second);

        let node = self.nodes.remove(0);
        self.scene.kill(node)?;
        let killed = Instant::now();
        let (mut first, mut freed) = (None, None);
        let all = loop {
            let begun = self.watch.begun(number, ms)?;
            first = first.or_else(|| (begun > 0).then(|| killed.elapsed()));
            let is_freed = self.watch.counted(TAKEOVERS)? >= runs as u64;
            freed = freed.or_else(|| is_freed.then(|| killed.elapsed()));
            if begun >= runs && freed.is_some() {
                break killed.elapsed();
            }
            ensure!(killed.elapsed() < PATIENCE, "{begun} of {runs} runs were taken over in {PATIENCE:?}");
            tokio::time::sleep(LOOK).await;
        };
        self.hits = runs as u64;
        self.number("lease_ms", self.scene.orders.lease.as_millis());
        self.number("first_begun_ms", first.unwrap_or(all).as_millis());
        self.number("all_freed_ms", freed.unwrap_or(all).as_millis());
        self.number("all_begun_ms", all.as_millis());
        Ok(())
    }

    /// Waits until a node has begun so many bodies that take so long.
    async fn until_begun(&mut self, node: u32, ms: u64, bodies: usize) -> Result<()> {
        let since = Instant::now();
        while self.watch.begun(node, ms)? < bodies {
            ensure!(since.elapsed() < PATIENCE, "node {node} did not begin {bodies} runs in {PATIENCE:?}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}
