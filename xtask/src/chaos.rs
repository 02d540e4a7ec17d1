//! `cargo xtask chaos`: hurts nodes, databases and networks under load, fault by fault, and checks what is left.

use anyhow::{Result, ensure};
use clap::Args;

use crate::test::cargo;
use crate::{previous, process};

/// The one that needs the programs of the schema before this one.
const ROLLING_UPGRADE: &str = "rolling-upgrade";

#[derive(Args)]
pub(crate) struct Options {
    /// How long each fault goes on
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// One of the faults of docs/faults.md, by name; may be given again; all if not given
    #[arg(long)]
    fault: Vec<String>,
    /// Makes the same plans as an earlier run that printed it
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let needs_previous =
        options.fault.is_empty() || options.fault.iter().any(|fault| fault == ROLLING_UPGRADE);
    // Without them that one fault fails, and all others still have something to say.
    let previous = needs_previous.then(previous::programs).and_then(|programs| {
        programs.inspect_err(|error| eprintln!("the schema before this one cannot be built: {error:#}")).ok()
    });

    // Both programs: one starts the other. It brings its own servers, because it hurts them.
    let mut build = cargo();
    build.args(["build", "--release", "--package", "outlast-kill", "--bin", "chaos", "--bin", "victim"]);
    ensure!(process::run(&mut build)?.success(), "the programs cannot be built");

    let mut chaos = cargo();
    chaos.args(["run", "--quiet", "--release", "--package", "outlast-kill", "--bin", "chaos", "--"]);
    chaos.args(["--seconds", &options.seconds.to_string()]);
    chaos.args(options.fault.iter().flat_map(|fault| ["--fault", fault.as_str()]));
    chaos.args(previous.iter().flat_map(|folder| ["--previous".as_ref(), folder.as_os_str()]));
    chaos.args(options.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
    ensure!(process::run(&mut chaos)?.success(), "something was lost or repeated, or the proof broke down");
    Ok(())
}
