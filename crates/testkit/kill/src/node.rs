//! A node as a process, which can be killed.

use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outlast_proxy::{Manner, Proxy};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;

use crate::ledger::{Ledger, Line};

/// A victim. Dropping it kills it.
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) child: Child,
    pub(crate) up: Option<JoinHandle<bool>>,
    /// The network between it and the database, where there is one.
    pub(crate) wire: Option<Proxy>,
}

impl Node {
    pub(crate) async fn wait_until_up(&mut self, folder: &Path) -> Result<()> {
        let Some(up) = self.up.take() else { return Ok(()) };
        let up = tokio::time::timeout(Duration::from_secs(60), up).await;
        if !matches!(up, Ok(Ok(true))) {
            bail!("victim {} does not come up; it said:\n{}", self.number, self.said(folder));
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self, folder: &Path) -> Result<()> {
        self.must_live(folder)?;
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Fails if it ended by itself.
    pub(crate) fn must_live(&mut self, folder: &Path) -> Result<()> {
        match self.child.try_wait()? {
            Some(ended) => {
                bail!("victim {} ended by itself ({ended}); it said:\n{}", self.number, self.said(folder))
            }
            None => Ok(()),
        }
    }

    /// Stops it where it is.
    pub(crate) fn stop(&self, ledger: &Ledger) -> Result<()> {
        ledger.write(&Line::Stop { node: self.number });
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub(crate) fn go(&self, ledger: &Ledger) -> Result<()> {
        ledger.write(&Line::Go { node: self.number });
        self.signal(Signal::CONT)
    }

    /// Asks it to leave.
    pub(crate) fn ask_to_leave(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Waits until it has ended by itself; none if it takes longer than this.
    pub(crate) async fn ended_within(&mut self, most: Duration) -> Result<Option<ExitStatus>> {
        let since = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(ended) => return Ok(Some(ended)),
                None if since.elapsed() > most => return Ok(None),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// From now on its network is like this.
    pub(crate) fn network(&self, manner: Manner) {
        if let Some(wire) = &self.wire {
            wire.set(manner);
        }
    }

    /// What it said so far.
    pub(crate) fn said(&self, folder: &Path) -> String {
        std::fs::read_to_string(folder.join(log_of(self.number))).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("the victim cannot be signalled")
    }
}

/// The name of the file with what a node says.
pub(crate) fn log_of(node: u32) -> String {
    format!("victim-{node}.log")
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
