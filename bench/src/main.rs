//! Outlast's numbers, each beside what its database can do at most, measured in the same run.
//!
//! `cargo xtask bench` starts a durable PostgreSQL for it. Absolute figures wander with the machine and the
//! hour; the ratio of two figures of one run says something.

mod beside;
mod ours;
mod page;
mod place;
mod report;
mod spike;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;

use crate::place::Place;
use crate::report::Report;

/// What the `outlast` binary has, for the bare rows as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Outlast's numbers beside what its databases can do at most")]
struct Options {
    /// Any database of a PostgreSQL server on which others may be created
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Leave SQLite out
    #[arg(long)]
    no_sqlite: bool,
    /// Where the SQLite files go: the disk that is measured
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// These workloads only
    #[arg(long, value_delimiter = ',', value_name = "W1,...")]
    only: Vec<String>,
    /// Smaller workloads, and fewer of them
    #[arg(long)]
    quick: bool,
    /// Write the figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What peers have measured of themselves in this run, a row of JSON a line
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Write the figures as a page, with a plot beside it
    #[arg(long, value_name = "FILE.md")]
    page: Option<PathBuf>,
}

const WORKLOADS: [&str; 11] = ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10", "W11"];

#[tokio::main]
async fn main() -> Result<()> {
    // On the runtime's own threads, as a server's handlers are.
    tokio::spawn(run(Options::parse())).await?
}

async fn run(options: Options) -> Result<()> {
    if let Some(unknown) = options.only.iter().find(|it| !WORKLOADS.contains(&it.as_str())) {
        bail!("{unknown} is no workload: {}", WORKLOADS.join(", "));
    }
    let mut places = Vec::new();
    if !options.no_sqlite {
        let folder = tempfile::Builder::new().prefix("outlast-bench-").tempdir_in(&options.folder)?;
        places.push(Place::Sqlite(folder));
    }
    places.extend(options.postgres.map(Place::Postgres));

    let mut report = Report::default();
    // First: what cannot be read is told before anything is measured.
    if let Some(file) = &options.peers {
        report.add_peers(file)?;
    }
    for workload in WORKLOADS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == workload) {
            continue;
        }
        for place in &places {
            measure(workload, place, &mut report, options.quick).await?;
        }
    }
    report.say_best_peers();
    if let Some(file) = &options.json {
        report.write(file)?;
    }
    if let Some(file) = &options.page {
        page::write(&report, file, options.quick)?;
    }
    Ok(())
}

async fn measure(workload: &str, place: &Place, report: &mut Report, quick: bool) -> Result<()> {
    match workload {
        "W1" => ours::jobs::w1(place, report, quick).await,
        "W2" => ours::steps::w2(place, report, quick).await,
        "W3" => ours::latency::w3(place, report, quick).await,
        "W4" => ours::latency::w4(place, report, quick).await,
        "W5" => ours::timers::w5(place, report, quick).await,
        "W6" => ours::idle::w6(place, report, quick).await,
        "W7" => ours::steps::w7(place, report, quick).await,
        "W8" => ours::many::w8(place, report, quick).await,
        "W9" => ours::many::w9(place, report, quick).await,
        "W11" => ours::jobs::w11(place, report, quick).await,
        _ => ours::many::w10(place, report, quick).await,
    }
}
