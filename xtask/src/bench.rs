//! `cargo xtask bench`: our numbers beside what the databases can do and, if asked for, beside the peers',
//! all on one PostgreSQL of its own.

mod peers;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;

use crate::process;
use crate::test::cargo;
use outlast_cluster::Cluster;

#[derive(Args)]
pub(crate) struct Options {
    /// Smaller workloads: under three minutes, without the peers
    #[arg(long)]
    quick: bool,
    /// These workloads only
    #[arg(long, value_delimiter = ',', value_name = "W1,...")]
    only: Vec<String>,
    /// Measure the peers too, or these of them
    #[arg(long, value_delimiter = ',', num_args = 0.., value_name = "PEER,...")]
    peers: Option<Vec<String>>,
    /// Write the figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures as a page with a plot beside it
    #[arg(long, value_name = "FILE.md")]
    page: Option<PathBuf>,
    /// Leave PostgreSQL out
    #[arg(long, conflicts_with = "peers")]
    skip_postgres: bool,
    /// Leave SQLite out
    #[arg(long)]
    skip_sqlite: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut build = in_bench(&["build", "--release"]);
    ensure!(process::run(&mut build)?.success(), "the benchmark cannot be built");
    let peers = match &options.peers {
        Some(named) => peers::build(named)?,
        None => Vec::new(),
    };

    let cluster = if options.skip_postgres { None } else { Some(Cluster::start_for_figures()?) };
    let figures = tempfile::NamedTempFile::new()?;
    let rows = if peers.is_empty() { None } else { Some(tempfile::NamedTempFile::new()?) };
    if let (Some(cluster), Some(rows)) = (&cluster, &rows) {
        let wanted =
            |workload: &&str| options.only.is_empty() || options.only.iter().any(|it| it == workload);
        let workloads: Vec<&str> = peers::WORKLOADS.into_iter().filter(wanted).collect();
        peers::measure(&peers, cluster, &workloads, options.quick, rows.path())?;
    }

    // Beside what is built: that is a disk, while a folder for temporary files may be memory.
    let mut bench = in_bench(&["run", "--quiet", "--release", "--", "--folder", "target", "--json"]);
    bench.arg(figures.path());
    bench.args(options.quick.then_some("--quick"));
    bench.args(options.skip_sqlite.then_some("--no-sqlite"));
    if !options.only.is_empty() {
        bench.args(["--only", &options.only.join(",")]);
    }
    if let Some(cluster) = &cluster {
        bench.args(["--postgres", &cluster.url()]);
    }
    if let Some(rows) = &rows {
        bench.arg("--peers").arg(rows.path());
    }
    if let Some(page) = &options.page {
        bench.arg("--page").arg(std::path::absolute(page)?);
    }
    ensure!(process::run(&mut bench)?.success(), "the benchmark failed");
    if let Some(file) = &options.json {
        std::fs::copy(figures.path(), file)?;
    }
    Ok(())
}

/// Cargo in the benchmark's own workspace.
pub(crate) fn in_bench(words: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.current_dir(folder()).args(words);
    cargo
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench")
}
