//! What is done to the network between a node, or the client, and the database.

use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use outlast_proxy::Manner;

use super::Fault;
use super::stage::Stage;
use crate::ledger::Line;

/// So many resets of which none comes within a transaction prove nothing.
const MANY_RESETS: u64 = 20;

impl Stage {
    /// One node after another hears nothing and is not heard, for so long.
    pub(super) async fn cut(&mut self, pause: Duration, rng: &mut Rng) -> Result<()> {
        while self.goes_on_until_fenced(pause)? {
            let node = &self.nodes[rng.usize(..self.nodes.len())];
            self.watch.body_on(node.number).await?;
            self.scene.ledger.write(&Line::Cut { node: node.number });
            node.network(Manner { cut: true, ..Manner::default() });
            tokio::time::sleep(pause).await;
            node.network(Manner::default());
            self.watch.body_on(node.number).await?;
            self.wait(Duration::from_millis(rng.u64(200..1000))).await;
        }
        self.hits = self.network_counts().held;
        Ok(())
    }

    /// One node after another gets its replies when its lease is over, or the server gets what it asked for then.
    pub(super) async fn late_replies(&mut self, rng: &mut Rng) -> Result<()> {
        let delay = self.scene.orders.lease * 6 / 5;
        let manners =
            [Manner { delay, ..Manner::default() }, Manner { request_delay: delay, ..Manner::default() }];
        for manner in manners.into_iter().cycle() {
            if !self.goes_on_until_fenced(delay)? {
                break;
            }
            let node = &self.nodes[rng.usize(..self.nodes.len())];
            self.watch.body_on(node.number).await?;
            self.scene.ledger.write(&Line::Cut { node: node.number });
            node.network(manner);
            tokio::time::sleep(delay * 2).await;
            node.network(Manner::default());
            self.watch.body_on(node.number).await?;
        }
        let counts = self.network_counts();
        self.number("late_requests", counts.delayed_requests);
        self.hits = counts.delayed;
        Ok(())
    }

    /// All networks are bad, that of the client too.
    pub(super) async fn bad_network(&mut self, fault: Fault) -> Result<()> {
        let good = Manner::default();
        let manner = match fault {
            Fault::LostCommits => Manner { lost_commits: 0.05, ..good },
            Fault::Resets => Manner { resets: 0.01, ..good },
            Fault::Latency => {
                Manner { delay: Duration::from_millis(200), jitter: Duration::from_millis(100), ..good }
            }
            Fault::Loss => Manner { loss: 0.3, ..good },
            Fault::Narrow => Manner { bytes_per_second: Some(64_000 / 8), ..good },
            _ => good,
        };
        let (before, ends) = (self.network_counts(), self.watch.ends()?);
        self.scene.network(&self.nodes, manner);
        while self.goes_on() {
            self.wait(Duration::from_millis(100)).await;
        }
        let (after, ended) = (self.network_counts(), self.watch.ends()? - ends);
        self.number("bodies_meanwhile", ended);
        if ended == 0 {
            self.wrong("nothing got on while the network was bad");
        }
        self.hits = match fault {
            Fault::LostCommits => after.lost_commits - before.lost_commits,
            Fault::Resets => {
                let resets = after.resets - before.resets;
                let within = after.resets_in_transactions - before.resets_in_transactions;
                self.number("in_a_transaction", within);
                if within == 0 && resets >= MANY_RESETS {
                    self.wrong(format!(
                        "none of {resets} resets came within a transaction: this proves nothing"
                    ));
                }
                resets
            }
            Fault::Latency => after.delayed - before.delayed,
            Fault::Loss => after.sent_again - before.sent_again,
            _ => after.narrowed - before.narrowed,
        };
        Ok(())
    }
}
