//! The stage `ui` of `cargo xtask test`: the dashboard's own tests, its build, and both databases in a real browser.
//!
//! What is missing is a failure that says what to do. Chromium is installed where that can be done without asking.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use outlast_cluster::Cluster;
use outlast_cluster::packages::{self, on_path};

use crate::process;
use crate::test::{cargo, shown};

/// The oldest Node that works.
const NODE: (u32, u32) = (20, 19);
/// What any one command may take before it is said to hang. The browsers' tests take about ten minutes on two cores of one's
/// own, everything else together two.
const LIMIT: Duration = Duration::from_secs(2400);

/// Runs everything about the dashboard; the browser's tests once on SQLite, and their core on PostgreSQL.
pub(crate) fn run(cluster: Option<&Cluster>) -> Result<()> {
    check_node()?;
    let chromium = find_or_install_chromium()?;

    step(npm(&["ci", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel", "error"]))?;
    step(npm(&["run", "--silent", "lint"]))?;
    step(npm(&["run", "--silent", "test"]))?;
    let before = built()?;
    step(npm(&["run", "--silent", "build"]))?;
    ensure!(
        before == built()?,
        "crates/server/dist is not what `npm run build` makes of ui/: it is now, so look at it and commit it"
    );

    let mut without = cargo();
    without.args(["check", "--package", "outlast-server", "--no-default-features", "--lib", "--bins"]);
    step(without)?;
    // As the tests build it, so that nothing is built twice.
    let mut build = cargo();
    build.args(["build", "--workspace", "--all-features", "--bin", "outlast", "--example", "mounted"]);
    step(build)?;
    let mut tests = npm(&["run", "--silent", "e2e"]);
    tests.env("CHROMIUM", chromium).env_remove("OUTLAST_E2E_POSTGRES");
    if let Some(cluster) = cluster {
        tests.env("OUTLAST_E2E_POSTGRES", cluster.url());
    }
    step(tests)
}

fn step(mut command: Command) -> Result<()> {
    let words = shown(&command);
    println!("==> ui: {words}");
    let status = process::run_within(&mut command, LIMIT)?;
    ensure!(status.success(), "`{words}` failed ({status})");
    Ok(())
}

fn npm(words: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(words).current_dir(root().join("ui"));
    npm
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The built files, by their paths.
fn built() -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join("crates/server/dist")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.clone(), fs::read(path)?)),
            }
        }
    }
    Ok(found)
}

fn check_node() -> Result<()> {
    let remedy = format!(
        "install Node {}.{} or newer with npm (https://nodejs.org), or leave the dashboard's tests out with --skip-ui",
        NODE.0, NODE.1
    );
    let asked = Command::new("node").arg("--version").stderr(Stdio::null()).output();
    let Ok(answer) = asked else { bail!("the dashboard's tests need Node, and there is none: {remedy}") };
    let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    ensure!(is_new_enough(&version), "Node {version} is too old for the dashboard's tests: {remedy}");
    ensure!(on_path("npm").is_some(), "the dashboard's tests need npm, and there is none: {remedy}");
    Ok(())
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= NODE
}

/// The browser: what `CHROMIUM` names, what is installed, or Debian's package.
fn find_or_install_chromium() -> Result<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        let named = PathBuf::from(named);
        ensure!(named.is_file(), "CHROMIUM names {}, and there is no such file", named.display());
        return Ok(named);
    }
    let find = || ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(on_path);
    if find().is_none() && packages::can_install() {
        packages::install("chromium")?;
    }
    find().context(
        "the dashboard's tests need a Chromium, and there is none: install it (on Debian: apt-get install chromium), \
         name one in CHROMIUM, or leave these tests out with --skip-ui",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_counts_from_20_19_on() {
        assert!(is_new_enough("v20.19.0"));
        assert!(is_new_enough("v22.1.0"));
        assert!(!is_new_enough("v20.18.3"));
        assert!(!is_new_enough("v18.20.0"));
        assert!(!is_new_enough(""));
    }
}
