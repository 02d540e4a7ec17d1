//! Transactions that somebody leaves open: what they could still see stays in the way of everybody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use outlast_testkit::TABLES;
use tokio::task::JoinSet;

use super::Fault;
use super::database::Admin;
use super::stage::Stage;
use crate::ledger::{Ledger, Line};

/// How many read again and again in one snapshot.
const SCANNERS: usize = 4;

impl Stage {
    /// A snapshot is held open for as long as the fault goes on, or a transaction that holds none; what claims take at its
    /// end is compared with what they took before.
    pub(super) async fn held_snapshot(&mut self, fault: Fault) -> Result<()> {
        let lasts = self.until.saturating_duration_since(Instant::now());
        let look = (lasts / 4).clamp(Duration::from_secs(3), Duration::from_secs(60));
        let (clean, before) = self.look_at_claims(look).await?;

        let (mut scanners, scans) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        let mut holders = Vec::new();
        match fault {
            Fault::IdleWriter | Fault::IdleReader => {
                let admin = Admin::of(self.server()?).await?;
                let first =
                    if fault == Fault::IdleWriter { "txid_current()" } else { "count(*) from outlast.runs" };
                admin.client.batch_execute(&format!("begin; select {first}")).await?;
                holders.push(admin);
            }
            _ => {
                for _ in 0..SCANNERS {
                    let admin = Admin::of(self.server()?).await?;
                    admin.client.batch_execute("begin isolation level repeatable read").await?;
                    let scans = scans.clone();
                    scanners.spawn(async move {
                        loop {
                            for (table, _) in TABLES {
                                let scan = format!("select count(*) from outlast.{table}");
                                if let Err(error) = admin.client.query_one(&scan, &[]).await {
                                    return error.to_string();
                                }
                                scans.fetch_add(1, Ordering::Relaxed);
                                tokio::time::sleep(Duration::from_millis(20)).await;
                            }
                        }
                    });
                }
            }
        }
        tokio::time::sleep(lasts).await;
        let (held, after) = self.look_at_claims(look).await?;
        self.hits = scans.load(Ordering::Relaxed);
        for holder in &holders {
            // Only one that is still open, and wrote or did not, has been in the way or out of it.
            let row = holder.client.query_one("select txid_current_if_assigned() is not null", &[]).await?;
            self.hits += u64::from(row.get::<_, bool>(0) == (fault == Fault::IdleWriter));
            holder.client.batch_execute("commit").await?;
        }
        while let Some(ended) = scanners.try_join_next() {
            self.wrong(format!("a scanner did not hold its snapshot to the end: {ended:?}"));
        }
        scanners.abort_all();

        self.number("held_seconds", (lasts + look).as_secs());
        for (name, which) in [("p50", 50), ("p99", 99)] {
            let (clean, held) = (percentile(&clean, which), percentile(&held, which));
            self.number(&format!("claim_{name}_us"), format!("{clean}_to_{held}"));
            self.number(&format!("claim_{name}_ratio"), format!("{:.2}", held as f64 / clean.max(1) as f64));
        }
        self.number("throughput_held", format!("{:.0}%", 100.0 * after / before.max(0.1)));
        Ok(())
    }

    /// What claims took in so long, in microseconds, and how many plain runs ended in a second.
    async fn look_at_claims(&mut self, look: Duration) -> Result<(Vec<u64>, f64)> {
        let ledger = self.scene.folder.join("ledger");
        let from = Ledger::read(&ledger)?.len();
        let throughput = self.scene.pace(look).await?;
        let lines = Ledger::read(&ledger)?;
        let mut took: Vec<u64> = lines[from.min(lines.len())..]
            .iter()
            .filter_map(|line| if let Line::Sample { micros, .. } = line { Some(*micros) } else { None })
            .collect();
        took.sort_unstable();
        Ok((took, throughput))
    }
}

fn percentile(sorted: &[u64], which: usize) -> u64 {
    let place = (sorted.len() * which / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(0)
}
