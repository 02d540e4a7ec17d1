//! A disk without any space left, and with space again.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::block_in_place;

use super::database::Admin;
use super::stage::{Stage, most_ms};

/// How large a small disk is, in megabytes: a server's, and a file's.
pub(super) const SERVERS_DISK: u32 = 192;
pub(super) const FILES_DISK: u32 = 48;
/// How many segments the server's log may have in stock.
const SEGMENTS: u32 = 20;
/// How long there is no space, at a time.
const FULL_FOR: Duration = Duration::from_secs(4);

impl Stage {
    /// The server's disk fills up under it. It may well give up on itself.
    pub(super) async fn servers_disk_full(&mut self) -> Result<()> {
        let mut recoveries = Vec::new();
        let mut gave_up = 0;
        while self.goes_on() {
            self.scene.fault("no space");
            let admin = Admin::of(self.server()?).await?;
            self.server()?.fill_disk()?;
            tokio::time::sleep(FULL_FOR / 2).await;
            // Its tables have no room by now; its log shall have none either, which a server does not survive.
            for _ in 0..SEGMENTS {
                let _ = admin.client.batch_execute("select pg_switch_wal()").await;
                tokio::time::sleep(FULL_FOR / 2 / SEGMENTS).await;
            }
            self.server()?.free_disk()?;
            block_in_place(|| {
                let server = self.server()?;
                if server.is_up()? {
                    return anyhow::Ok(());
                }
                gave_up += 1;
                server.start_again()
            })?;
            recoveries.push(self.recovery().await?);
            self.wait(Duration::from_secs(2)).await;
        }
        let log = std::fs::read_to_string(self.server()?.log())?;
        self.hits = log.lines().filter(|line| line.contains("No space left on device")).count() as u64;
        self.number("server_gave_up", gave_up);
        self.number("recovery_ms", most_ms(&recoveries));
        Ok(())
    }

    /// The disk of an SQLite file fills up.
    pub(super) async fn files_disk_full(&mut self) -> Result<()> {
        let mut recoveries = Vec::new();
        while self.goes_on() {
            self.scene.fault("no space");
            let disk = self.disk.as_ref().context("there is no small disk")?;
            disk.fill()?;
            tokio::time::sleep(FULL_FOR).await;
            disk.free()?;
            recoveries.push(self.recovery().await?);
            self.wait(Duration::from_secs(2)).await;
        }
        self.hits = self.scene.log.answers_with("no room left");
        self.number("recovery_ms", most_ms(&recoveries));
        Ok(())
    }
}
