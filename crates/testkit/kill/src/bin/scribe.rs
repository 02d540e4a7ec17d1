//! The process that writes until the power goes. Started by the tests of power loss.

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    outlast_kill::Scribe::parse().write().await
}
