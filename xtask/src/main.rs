//! The commands of this repository, the same on a laptop and in CI.
//!
//! A check that lives in a CI file cannot be run before pushing, and a database that has to be set up
//! by hand keeps newcomers away. So both are here, in Rust: `cargo xtask test` is everything CI does.

mod api;
mod bench;
mod chaos;
mod instructions;
mod kill;
mod load;
mod previous;
mod process;
mod sim;
mod test;
mod ui;
mod versions;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use outlast_cluster::Cluster;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "The commands of this repository")]
enum Command {
    /// Check formatting, lints, tests on both databases, documentation and dependencies
    Test(test::Options),
    /// Kill nodes in the middle of their work, and check that nothing was lost or repeated
    Kill(kill::Options),
    /// Hurt nodes, databases and networks under load, fault by fault, and check the same
    Chaos(chaos::Options),
    /// Play random schedules of many nodes with everything that may go wrong, in virtual time
    Sim(sim::Options),
    /// Measure, beside what the databases can do at most
    Bench(bench::Options),
    /// Count the instructions of the pure parts, and compare them with the committed figures
    Instructions(instructions::Options),
    /// Measure how many requests the server answers, with wrk
    Load(load::Options),
    /// Run the PostgreSQL tests on each of its major versions, 13 to 18
    Versions(versions::Options),
    /// Start the PostgreSQL that the tests use, and keep it until Ctrl-C
    Postgres,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let done = process::listen_for_interrupts().and_then(|()| match command {
        Command::Test(options) => test::run(&options),
        Command::Kill(options) => kill::run(&options),
        Command::Chaos(options) => chaos::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Instructions(options) => instructions::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Versions(options) => versions::run(&options),
        Command::Postgres => serve_postgres(),
    });

    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // What a shell reports for a command that ended by Ctrl-C.
            ExitCode::from(if error.is::<process::Interrupted>() { 130 } else { 1 })
        }
    }
}

fn serve_postgres() -> Result<()> {
    let cluster = Cluster::start()?;
    println!("PostgreSQL is running. In another terminal:\n");
    println!("  export OUTLAST_TEST_POSTGRES=\"{}\"", cluster.keywords());
    println!("  psql \"{}\"\n", cluster.url());
    println!("Its log is {}. Ctrl-C stops it and removes everything.", cluster.log().display());

    process::wait_for_interrupt();
    Ok(())
}
