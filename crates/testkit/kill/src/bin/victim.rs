//! The process that is killed. Started by `kill`.

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    outlast_kill::Victim::parse().work().await
}
