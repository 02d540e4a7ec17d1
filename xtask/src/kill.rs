//! `cargo xtask kill`: kills nodes in the middle of their work, many times, and checks what is left.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use outlast_cluster::Cluster;

use crate::process;
use crate::test::cargo;

#[derive(Args)]
pub(crate) struct Options {
    /// How often to kill
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Makes the same plans as an earlier run that printed it
    #[arg(long)]
    seed: Option<u64>,
    /// On which database
    #[arg(long, value_enum, default_value_t = Store::Both)]
    store: Store,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
    Both,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    // Both programs: one starts the other.
    let mut build = cargo();
    build.args(["build", "--release", "--package", "outlast-kill", "--bins"]);
    ensure!(process::run(&mut build)?.success(), "the programs cannot be built");

    if options.store != Store::Postgres {
        println!("==> kill: on SQLite");
        kill(options, None)?;
    }
    if options.store != Store::Sqlite {
        println!("==> kill: on PostgreSQL");
        let cluster = Cluster::start_durable()?;
        kill(options, Some(cluster.url()))?;
    }
    Ok(())
}

fn kill(options: &Options, database_url: Option<String>) -> Result<()> {
    let mut kill = cargo();
    kill.args(["run", "--quiet", "--release", "--package", "outlast-kill", "--bin", "kill", "--"]);
    kill.args(["--kills", &options.kills.to_string()]);
    kill.args(options.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
    kill.args(database_url.iter().flat_map(|url| ["--database-url", url.as_str()]));
    ensure!(process::run(&mut kill)?.success(), "something was lost or repeated, or the proof broke down");
    Ok(())
}
