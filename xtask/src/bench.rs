//! `cargo xtask bench`: our numbers beside what the databases can do, on a PostgreSQL of its own.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;

use crate::postgres::Cluster;
use crate::process;
use crate::test::cargo;

#[derive(Args)]
pub(crate) struct Options {
    /// Smaller workloads: under three minutes
    #[arg(long)]
    quick: bool,
    /// These workloads only
    #[arg(long, value_delimiter = ',', value_name = "W1,...")]
    only: Vec<String>,
    /// Write the figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave PostgreSQL out
    #[arg(long)]
    skip_postgres: bool,
    /// Leave SQLite out
    #[arg(long)]
    skip_sqlite: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench");
    let in_bench = |words: &[&str]| {
        let mut cargo = cargo();
        cargo.current_dir(&folder).args(words);
        cargo
    };
    ensure!(process::run(&mut in_bench(&["build", "--release"]))?.success(), "the benchmark cannot be built");

    let cluster = if options.skip_postgres { None } else { Some(Cluster::start_for_figures()?) };
    // Beside what is built: that is a disk, while a folder for temporary files may be memory.
    let mut bench = in_bench(&["run", "--quiet", "--release", "--", "--folder", "target"]);
    bench.args(options.quick.then_some("--quick"));
    bench.args(options.skip_sqlite.then_some("--no-sqlite"));
    if !options.only.is_empty() {
        bench.args(["--only", &options.only.join(",")]);
    }
    if let Some(cluster) = &cluster {
        bench.args(["--postgres", &cluster.url()]);
    }
    if let Some(file) = &options.json {
        bench.arg("--json").arg(std::path::absolute(file)?);
    }
    ensure!(process::run(&mut bench)?.success(), "the benchmark failed");
    Ok(())
}
