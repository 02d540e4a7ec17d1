//! `cargo xtask test`: everything that has to pass before a change is merged, in one command.
//!
//! Stages go from cheap to dear and stop at the first failure, so that the last lines on the screen are
//! about what went wrong. Tests need a PostgreSQL; they get a cluster of their own, which lives as long
//! as the stages that use it. Leaving it out has to be asked for: no machine tests half by accident.

use std::env;
use std::ffi::OsString;
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use outlast_cluster::Cluster;

use crate::{process, ui};

#[derive(Args)]
pub(crate) struct Options {
    /// Test on SQLite alone
    #[arg(long)]
    skip_postgres: bool,
    /// Leave the dashboard's tests out, which need Node and Chromium
    #[arg(long)]
    skip_ui: bool,
    /// Run these stages only, in their usual order
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STAGE,...")]
    only: Vec<Stage>,
    /// What to pass on to `cargo nextest run`, or to `cargo test` where nextest is not installed
    #[arg(last = true, value_name = "TEST ARGS")]
    test_args: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    Fmt,
    Clippy,
    Test,
    Doctest,
    Ui,
    Api,
    Docs,
    Deny,
}

/// Runs the chosen stages in order, up to the first that fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let began = Instant::now();
    let chosen = |stage: &&Stage| options.only.is_empty() || options.only.contains(stage);
    let mut cluster = None;

    for &stage in Stage::value_variants().iter().filter(chosen) {
        if !stage.needs_databases() {
            cluster = None;
        } else if cluster.is_none() && !options.skip_postgres {
            cluster = Some(start_postgres()?);
        }
        stage.run(options, cluster.as_ref())?;
    }

    println!("==> everything passed in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

impl Stage {
    fn run(self, options: &Options, cluster: Option<&Cluster>) -> Result<()> {
        let name = self.name();
        if self == Stage::Api {
            return crate::api::run();
        }
        if self == Stage::Deny && !has_subcommand("deny") {
            println!("==> {name}: skipped, because cargo-deny is not installed");
            return Ok(());
        }

        if self == Stage::Ui {
            if options.skip_ui {
                println!("==> {name}: skipped, because --skip-ui asks for it");
                return Ok(());
            }
            let began = Instant::now();
            let seconds = || began.elapsed().as_secs_f64();
            ui::run(cluster).with_context(|| format!("stage {name} failed after {:.1} s", seconds()))?;
            println!("==> {name}: passed in {:.1} s", seconds());
            return Ok(());
        }

        let mut command = self.command(options);
        match cluster {
            _ if !self.needs_databases() => {}
            Some(cluster) => {
                command.env("OUTLAST_TEST_POSTGRES", cluster.keywords());
                command.env_remove("OUTLAST_SKIP_POSTGRES");
            }
            None => {
                command.env("OUTLAST_SKIP_POSTGRES", "1");
                command.env_remove("OUTLAST_TEST_POSTGRES");
            }
        }

        println!("==> {name}: {}", shown(&command));
        let began = Instant::now();
        let status = process::run(&mut command)?;
        let seconds = began.elapsed().as_secs_f64();
        if !status.success() {
            bail!("stage {name} failed after {seconds:.1} s ({status})");
        }
        println!("==> {name}: passed in {seconds:.1} s");
        Ok(())
    }

    fn command(self, options: &Options) -> Command {
        let mut command = cargo();
        match self {
            Stage::Fmt => command.args(["fmt", "--all", "--check"]),
            Stage::Clippy => {
                command.args(["clippy", "--workspace", "--all-targets", "--all-features"]);
                command.args(["--", "-D", "warnings"])
            }
            Stage::Test if has_subcommand("nextest") => {
                command.env("NEXTEST_TEST_THREADS", tests_at_a_time());
                command.args(["nextest", "run", "--workspace", "--all-features"]).args(&options.test_args)
            }
            Stage::Test => {
                command.env("RUST_TEST_THREADS", tests_at_a_time());
                command.args(["test", "--workspace", "--all-features", "--all-targets"]);
                command.args(&options.test_args)
            }
            Stage::Doctest => command.args(["test", "--workspace", "--all-features", "--doc"]),
            Stage::Docs => {
                command.env("RUSTDOCFLAGS", "-D warnings");
                command.args(["doc", "--workspace", "--no-deps", "--all-features"])
            }
            Stage::Deny => command.args(["deny", "check"]),
            // Several commands each, not all of them cargo's.
            Stage::Ui | Stage::Api => &mut command,
        };
        command
    }

    fn needs_databases(self) -> bool {
        matches!(self, Stage::Test | Stage::Doctest | Stage::Ui)
    }

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// How many tests run beside each other: most of them wait for a disk or for another process most of the time, so that
/// one for each core leaves two thirds of the cores idle.
fn tests_at_a_time() -> String {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cores * 2).to_string()
}

fn start_postgres() -> Result<Cluster> {
    println!("==> postgres: starting a cluster for the tests");
    let began = Instant::now();
    let cluster = Cluster::start().context("stage postgres failed")?;
    println!("==> postgres: started in {:.1} s", began.elapsed().as_secs_f64());
    Ok(cluster)
}

/// Cargo at the root of the workspace, as a person would call it from a shell.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));

    // `cargo run` describes xtask to us in the environment. Passed on, it makes some build scripts
    // believe that something changed, and everything above them is built anew.
    for (name, _) in env::vars_os() {
        let told = name.to_string_lossy();
        if told.starts_with("CARGO_PKG_") || told.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

fn has_subcommand(name: &str) -> bool {
    let asked = cargo().args([name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// A command as a person would write it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy();
    let words = command.get_args().map(|word| word.to_string_lossy());
    [program].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
