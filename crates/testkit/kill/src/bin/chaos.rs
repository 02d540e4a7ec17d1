//! Plays faults by name on real processes and databases, and says what came of each.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use outlast_kill::{Chaos, Fault};

/// Hurts nodes, databases and networks under load, and checks that nothing was lost or repeated
#[derive(Parser)]
struct Options {
    /// How long each fault goes on
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Which faults, by name; all if not given
    #[arg(long)]
    fault: Vec<String>,
    /// Decides about plans and moments; random if not given
    #[arg(long)]
    seed: Option<u64>,
    /// The folder with the programs of the schema before this one, for rolling-upgrade
    #[arg(long)]
    previous: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let known = || Fault::ALL.map(Fault::name).join(", ");
    let named = options.fault.iter().map(|name| {
        Fault::named(name).ok_or_else(|| anyhow!("there is no fault `{name}`; there are {}", known()))
    });
    let mut faults = named.collect::<Result<Vec<Fault>>>()?;
    if faults.is_empty() {
        faults = Fault::ALL.to_vec();
    }
    println!("chaos: seed={seed} seconds={} faults={}", options.seconds, faults.len());

    // Cargo puts both programs into one folder.
    let victim = std::env::current_exe()?.with_file_name("victim");
    let lasts = Duration::from_secs(options.seconds);
    let calm = (lasts / 4).clamp(Duration::from_secs(2), Duration::from_secs(30));
    let (mut runs, mut hits, mut lost, mut violations) = (0, 0, 0, 0);
    for fault in faults {
        let (victim, previous) = (victim.clone(), options.previous.clone());
        let chaos = Chaos { fault, seed, lasts, calm, victim, previous, database_url: None };
        match chaos.run().await.with_context(|| format!("{} with seed {seed}", fault.name())) {
            Ok(outcome) => {
                println!("{outcome}");
                runs += outcome.report.runs;
                hits += outcome.hits;
                lost += outcome.report.lost;
                violations += outcome.report.violations.len();
            }
            // The others still have something to say.
            Err(error) => {
                println!("violation (seed {seed}): {}: {error:#}", fault.name());
                violations += 1;
            }
        }
    }
    println!("chaos: runs={runs} faults={hits} lost={lost} violations={violations}");
    Ok(if lost + violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
