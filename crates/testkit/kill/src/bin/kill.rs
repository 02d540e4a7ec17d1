//! Kills nodes in the middle of their work, and says what came of it.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use outlast_kill::Supervisor;

/// Starts runs, kills the nodes that run them, and checks that nothing was lost or repeated
#[derive(Parser)]
struct Options {
    /// How often to kill
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Decides about plans and moments; random if not given
    #[arg(long)]
    seed: Option<u64>,
    /// An empty database; a new SQLite file if not given
    #[arg(long)]
    database_url: Option<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("kill: seed={seed} kills={}", options.kills);

    let folder = tempfile::tempdir().context("cannot make a folder for the database")?;
    let file = folder.path().join("kill.db");
    let database_url = options.database_url.unwrap_or_else(|| format!("sqlite://{}", file.display()));
    // Cargo puts both programs into one folder.
    let victim = std::env::current_exe()?.with_file_name("victim");
    let report = Supervisor { seed, kills: options.kills, database_url, victim }.run().await;
    let report = report.with_context(|| format!("seed {seed}"))?;
    println!("{report}");
    Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
