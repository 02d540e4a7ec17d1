//! What is done to the server: restarted, killed, away, or frozen.

use std::time::Duration;

use anyhow::{Context, Result};
use outlast_cluster::{Cluster, Stop};
use tokio::task::{JoinHandle, block_in_place};
use tokio_postgres::{Client, NoTls};

use super::Fault;
use super::stage::{Stage, most_ms};

/// How long a server that is away stays so at most, at a time.
const AWAY: Duration = Duration::from_secs(300);
/// How much a node may say while the database is away: one line in so long, and one for the beginning.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How long a server stands still at a time: longer than a lease, than a connection may take, and than anybody waits for an
/// answer.
const FROZEN: Duration = Duration::from_secs(18);
/// How long after that every call has an answer: one connection and one statement may take so long (docs/operate.md).
const ANSWERED_WITHIN: Duration = Duration::from_secs(25);

/// A connection of ours, past every proxy.
pub(super) struct Admin {
    pub(super) client: Client,
    carries: JoinHandle<()>,
}

impl Admin {
    pub(super) async fn of(cluster: &Cluster) -> Result<Admin> {
        Admin::at(&cluster.url()).await
    }

    pub(super) async fn at(url: &str) -> Result<Admin> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let carries = tokio::spawn(async move { drop(connection.await) });
        Ok(Admin { client, carries })
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.carries.abort();
    }
}

impl Stage {
    pub(super) fn server(&mut self) -> Result<&mut Cluster> {
        self.cluster.as_mut().context("this fault needs a server of its own")
    }

    /// Down and up again, in one of three ways.
    pub(super) async fn restart(&mut self, fault: Fault) -> Result<()> {
        let how = match fault {
            Fault::RestartFast => Stop::Fast,
            Fault::RestartImmediate => Stop::Immediate,
            _ => Stop::Kill,
        };
        let mut recoveries = Vec::new();
        while self.goes_on() {
            self.scene.fault(format!("the server is stopped: {how:?}"));
            block_in_place(|| {
                let server = self.server()?;
                server.stop(how)?;
                server.start_again()
            })?;
            self.scene.fault("the server is back");
            self.hits += 1;
            recoveries.push(self.recovery().await?);
            self.wait(Duration::from_secs(3)).await;
        }
        self.number("recovery_ms", most_ms(&recoveries));
        Ok(())
    }

    /// Away for as long as the fault goes on. Nodes stay, try again, and do not fill a disk with saying so.
    pub(super) async fn server_down(&mut self) -> Result<()> {
        block_in_place(|| self.server()?.stop(Stop::Fast))?;
        let (away, before) = (self.until.saturating_duration_since(std::time::Instant::now()), self.lines());
        let away = away.min(AWAY);
        tokio::time::sleep(away).await;
        let said: Vec<usize> = self.lines().iter().zip(before).map(|(now, before)| now - before).collect();
        block_in_place(|| self.server()?.start_again())?;
        self.hits += 1;
        let recovery = self.recovery().await?;
        self.number("recovery_ms", recovery.as_millis());
        let most = said.iter().max().copied().unwrap_or(0);
        let allowed = 1 + (away.as_secs() / LINE_EVERY.as_secs()) as usize;
        self.number("lines", format!("{most}_of_{allowed}"));
        if most > allowed {
            let said = self.scene.said(20);
            self.wrong(format!("a node said {most} lines in {away:?}, allowed are {allowed}:\n{said}"));
        }
        Ok(())
    }

    /// Every process of the server stands still: it accepts connections and never answers.
    pub(super) async fn server_frozen(&mut self) -> Result<()> {
        let mut recoveries = Vec::new();
        while self.goes_on() {
            self.hits += self.server()?.freeze()? as u64;
            let store = self.scene.client.store().clone();
            let call = tokio::spawn(async move { store.nodes().await.map(drop) });
            tokio::time::sleep(FROZEN).await;
            let answer = if call.is_finished() { Some(call.await?) } else { None };
            self.server()?.thaw()?;
            if !matches!(answer, Some(Err(_))) {
                self.wrong(format!("after {FROZEN:?} without an answer a call was not given up: {answer:?}"));
            }
            recoveries.push(self.recovery().await?);
            // Whoever asked meanwhile gets an answer before it stands still again.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        self.number("recovery_ms", most_ms(&recoveries));
        let slowest = self.scene.log.slowest();
        self.number("slowest_call_ms", slowest.as_millis());
        if slowest > FROZEN + ANSWERED_WITHIN {
            self.wrong(format!("a call took {slowest:?}: it was not given up while the server stood still"));
        }
        Ok(())
    }

    /// How many lines each node has said.
    fn lines(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.said(&self.scene.folder).lines().count()).collect()
    }
}
