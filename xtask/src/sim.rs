//! `cargo xtask sim`: many nodes in one thread, on one seed after another, with everything that may go wrong.

mod guided;

use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// Keeps the schedule of that seed in this file: in crates/testkit/sim/tests/kept it is a test
    #[arg(long, requires = "seed")]
    keep: Option<PathBuf>,
    /// Plays the schedule that this file keeps
    #[arg(long, conflicts_with = "seed")]
    kept: Option<PathBuf>,
    /// Plays so many schedules, however long it takes
    #[arg(long)]
    schedules: Option<u64>,
    /// The first seed of those that are played one after another; random, if nothing is said
    #[arg(long)]
    first: Option<u64>,
    /// Builds the simulator once, and not again by what it does: sooner there, and a third slower
    #[arg(long)]
    plain: bool,
}

const PROGRAM: &str = "outlast-sim";

/// What SQLite does without here: counting its memory under a lock, and looking for errors of whoever calls it. Its pages are
/// small, since a transaction that writes a row copies each page that it touches, and so are its tables while they are made.
const SQLITE: &str = "-DSQLITE_DEFAULT_MEMSTATUS=0 -USQLITE_ENABLE_API_ARMOR -DSQLITE_DEFAULT_PAGE_SIZE=1024 \
                      -DSQLITE_DEFAULT_PCACHE_INITSZ=0 -DSQLITE_DEFAULT_LOOKASIDE=1200,500 -USQLITE_ENABLE_STAT4 \
                      -DSQLITE_OMIT_SHARED_CACHE";

pub(crate) fn run(options: &Options) -> Result<()> {
    // One schedule is played before a second build would be done.
    let is_one = options.seed.is_some() || options.kept.is_some();
    let guided = if options.plain || is_one { None } else { guided::Guided::find()? };
    let mut sim = match guided {
        Some(guided) => Command::new(guided.build(SQLITE)?),
        None => {
            let mut sim = cargo();
            sim.env("LIBSQLITE3_FLAGS", SQLITE);
            sim.args(["run", "--quiet", "--profile", "sim", "--package", PROGRAM, "--"]);
            sim
        }
    };
    sim.args(["--seconds", &options.seconds.to_string()]);
    let numbers = [("--seed", options.seed), ("--schedules", options.schedules), ("--first", options.first)];
    for (name, number) in numbers {
        sim.args(number.iter().flat_map(|number| [name.to_owned(), number.to_string()]));
    }
    let files = [("--keep", &options.keep), ("--kept", &options.kept)];
    for (name, file) in files {
        if let Some(file) = file {
            sim.arg(name).arg(file);
        }
    }
    // Files that are named are named from the root of the workspace, whoever runs it.
    sim.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    ensure!(process::run(&mut sim)?.success(), "a schedule did what must not be, or the proof is thin");
    Ok(())
}
