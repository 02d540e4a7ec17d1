//! A node as a process, which can be killed.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::task::JoinHandle;

use crate::wire::Wire;

/// A victim. Dropping it kills it.
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) child: Child,
    pub(crate) up: Option<JoinHandle<bool>>,
    /// Its wire to the database, where it can be cut.
    pub(crate) wire: Option<Wire>,
}

impl Node {
    pub(crate) async fn wait_until_up(&mut self, folder: &Path) -> Result<()> {
        let Some(up) = self.up.take() else { return Ok(()) };
        let up = tokio::time::timeout(Duration::from_secs(60), up).await;
        if !matches!(up, Ok(Ok(true))) {
            let said = std::fs::read_to_string(folder.join("victims.log")).unwrap_or_default();
            bail!("victim {} does not come up; victims said:\n{said}", self.number);
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self, folder: &Path) -> Result<()> {
        if let Some(ended) = self.child.try_wait()? {
            let said = std::fs::read_to_string(folder.join("victims.log")).unwrap_or_default();
            bail!("victim {} ended by itself ({ended}); victims said:\n{said}", self.number);
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
