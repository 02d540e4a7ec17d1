//! The peers: built, run one after the other, and their rows collected.
//!
//! Each is a program of its own (`bench/peers`), because their database drivers cannot be linked together.
//! One that fails is told and left out: the others' figures are as good without it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::folder;
use crate::process;
use crate::test::cargo;
use outlast_cluster::Cluster;

/// What the peers are asked: the other workloads are about ourselves.
pub(super) const WORKLOADS: [&str; 5] = ["W1", "W2", "W3", "W4", "W5"];

#[derive(Deserialize)]
struct List {
    peer: Vec<Peer>,
}

#[derive(Deserialize)]
pub(super) struct Peer {
    name: String,
    folder: String,
    kind: String,
    program: String,
    #[serde(default)]
    npm: bool,
    stores: Vec<String>,
}

impl Peer {
    fn folder(&self) -> PathBuf {
        folder().join("peers").join(&self.folder)
    }

    fn command(&self) -> Command {
        let mut command = match self.kind.as_str() {
            "npm" => Command::new("node"),
            _ => Command::new(target().join("release").join(&self.program)),
        };
        if self.kind == "npm" {
            command.arg(&self.program);
        }
        command.current_dir(self.folder());
        command
    }
}

/// One folder for what all of them build: they share most of it.
fn target() -> PathBuf {
    folder().join("target/peers")
}

/// Builds those that are named, or all; one that cannot be built is left out.
pub(super) fn build(named: &[String]) -> Result<Vec<Peer>> {
    let file = folder().join("peers/peers.toml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{} is no list", file.display()))?;
    if let Some(unknown) = named.iter().find(|name| list.peer.iter().all(|peer| peer.name != **name)) {
        let known: Vec<&str> = list.peer.iter().map(|peer| peer.name.as_str()).collect();
        bail!("{unknown} is no peer: {}", known.join(", "));
    }
    let wanted = |peer: &Peer| named.is_empty() || named.contains(&peer.name);
    let mut built = Vec::new();
    for peer in list.peer.into_iter().filter(wanted) {
        println!("==> bench: building {}", peer.name);
        match build_one(&peer) {
            Ok(()) => built.push(peer),
            Err(error) => println!("==> bench: {} is left out: {error:#}", peer.name),
        }
    }
    Ok(built)
}

fn build_one(peer: &Peer) -> Result<()> {
    if peer.npm || peer.kind == "npm" {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"]).current_dir(peer.folder());
        ensure!(process::run(&mut npm)?.success(), "`npm ci` failed");
    }
    if peer.kind == "cargo" {
        let mut build = cargo();
        build.args(["build", "--release", "--locked"]).current_dir(peer.folder());
        build.env("CARGO_TARGET_DIR", target());
        ensure!(process::run(&mut build)?.success(), "it cannot be built");
    }
    Ok(())
}

/// Runs each on each of its stores, with a fresh database, and writes their rows to `file`.
pub(super) fn measure(
    peers: &[Peer],
    cluster: &Cluster,
    workloads: &[&str],
    quick: bool,
    file: &Path,
) -> Result<()> {
    let mut rows = OpenOptions::new().append(true).open(file)?;
    for peer in peers {
        for store in &peer.stores {
            println!("==> bench: measuring {} on {store}", peer.name);
            let folder = tempfile::tempdir_in(target())?;
            let mut run = peer.command();
            run.args(["--workloads", &workloads.join(",")]).args(quick.then_some("--quick"));
            match store.as_str() {
                "postgres" => {
                    let url = cluster.fresh_database(&format!("peer_{}", peer.folder))?;
                    run.args(["--database-url", &url]);
                }
                "sqlite" => {
                    let file = folder.path().join("peer.db");
                    run.args(["--database-url", &format!("sqlite://{}", file.display())]);
                }
                _ => {}
            }
            let output = run.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
            let output = output.with_context(|| format!("cannot run {}", peer.name))?;
            rows.write_all(&output.stdout)?;
            if !output.status.success() {
                println!("==> bench: {} on {store} did not get to its end ({})", peer.name, output.status);
            }
            process::fail_if_interrupted()?;
        }
    }
    Ok(())
}
