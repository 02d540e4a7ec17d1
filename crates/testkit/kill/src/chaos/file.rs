//! What is done to an SQLite file: its owner is killed in the middle of writing, and another server wants it.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;
use outlast::{Error, Tx};

use super::stage::Stage;
use crate::ledger::Line;

impl Stage {
    /// Its owner is killed as often as it comes up, and the file is whole each time.
    pub(super) async fn kill_owner(&mut self, rng: &mut Rng) -> Result<()> {
        while self.goes_on() {
            tokio::time::sleep(Duration::from_millis(rng.u64(5..150))).await;
            let node = self.take_node(rng);
            self.scene.kill(node)?;
            self.hits += 1;
            let said = self
                .scene
                .client
                .transaction(async |tx: Tx| {
                    Ok::<_, Error>(tx.query("pragma integrity_check", ()).await?[0].text(0)?.to_owned())
                })
                .await?;
            ensure!(said == "ok", "the file is damaged after {} kills: {said}", self.hits);
            self.nodes = self.scene.nodes(1, rng).await?;
        }
        Ok(())
    }

    /// Another server on the same file is refused, and told whose it is.
    pub(super) async fn second_server(&mut self, rng: &mut Rng) -> Result<()> {
        let owner = self.nodes[0].child.id().to_string();
        while self.goes_on() {
            let mut second = self.scene.spawn(rng).await?;
            let ended = second.ended_within(Duration::from_secs(20)).await?;
            let said = second.said(&self.scene.folder);
            let number = second.number;
            match ended {
                Some(status) if !status.success() && said.contains(&format!("process {owner}")) => {
                    self.hits += 1
                }
                ended => {
                    self.wrong(format!("a second server on the same file: {ended:?}, and said {said:?}"))
                }
            }
            self.scene.ledger.write(&Line::Left { node: number });
            self.wait(Duration::from_millis(500)).await;
        }
        Ok(())
    }
}
