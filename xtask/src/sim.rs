//! `cargo xtask sim`: many nodes in one thread, on one seed after another, with everything that may go wrong.

use anyhow::{Result, ensure};
use clap::Args;

use crate::process;
use crate::test::cargo;

#[derive(Args)]
pub(crate) struct Options {
    /// For how long to play schedules
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Plays the schedule of this seed alone, and tells all that happens
    #[arg(long)]
    seed: Option<u64>,
    /// Plays so many schedules, however long it takes
    #[arg(long)]
    schedules: Option<u64>,
    /// The first seed of those that are played one after another; random, if nothing is said
    #[arg(long)]
    first: Option<u64>,
}

/// What SQLite does without here: counting its memory under a lock, and looking for errors of whoever calls it.
const SQLITE: &str = "-DSQLITE_DEFAULT_MEMSTATUS=0 -USQLITE_ENABLE_API_ARMOR";

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut sim = cargo();
    sim.env("LIBSQLITE3_FLAGS", SQLITE);
    sim.args(["run", "--quiet", "--profile", "sim", "--package", "outlast-sim", "--"]);
    sim.args(["--seconds", &options.seconds.to_string()]);
    let numbers = [("--seed", options.seed), ("--schedules", options.schedules), ("--first", options.first)];
    for (name, number) in numbers {
        sim.args(number.iter().flat_map(|number| [name.to_owned(), number.to_string()]));
    }
    ensure!(process::run(&mut sim)?.success(), "a schedule did what must not be, or the proof is thin");
    Ok(())
}
