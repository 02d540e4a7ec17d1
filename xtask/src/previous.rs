//! The programs of the schema before ours, built from this repository's own history: what a fleet that is brought up
//! to date consists of for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::test::cargo;

/// Where the files of the schema are.
const MIGRATIONS: &str = "crates/store/migrations";
/// What a rolling upgrade needs of it: a node, and a command line that starts runs.
const PROGRAMS: [(&str, &str); 2] = [("outlast-kill", "victim"), ("outlast-server", "outlast")];

/// The folder with its programs, which are built once and kept.
pub(crate) fn programs() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let commit = commit(&root)?;
    let folder = root.join("target/previous").join(&commit[..12.min(commit.len())]);
    if PROGRAMS.iter().all(|(_, program)| folder.join(program).is_file()) {
        return Ok(folder);
    }
    println!("building the programs of the schema before this one, of commit {commit}");
    let source = folder.join("source");
    unpack(&root, &commit, &source)?;
    // With a target of its own: the programs are called as ours are. Without the last bit of speed, which is dear.
    let built = root.join("target/previous/build");
    let mut build = cargo();
    build.current_dir(&source).args(["build", "--release", "--config", "profile.release.lto=\"off\""]);
    for (package, program) in PROGRAMS {
        build.args(["--package", package, "--bin", program]);
    }
    build.arg("--target-dir").arg(&built);
    ensure!(process::run(&mut build)?.success(), "the programs of commit {commit} cannot be built");
    for (_, program) in PROGRAMS {
        let from = built.join("release").join(program);
        fs::copy(&from, folder.join(program)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    fs::remove_dir_all(&source).with_context(|| format!("cannot remove {}", source.display()))?;
    Ok(folder)
}

/// The last commit of this branch whose schema is older than that of the files here.
fn commit(root: &Path) -> Result<String> {
    let ours = newest(
        fs::read_dir(root.join(MIGRATIONS))?
            .filter_map(|file| file.ok().map(|file| file.file_name().to_string_lossy().into_owned())),
    );
    let of = |commit: &str| -> Result<u32> {
        let files = git(root, &["ls-tree", "--name-only", commit, &format!("{MIGRATIONS}/")])?;
        Ok(newest(files.lines().map(str::to_owned)))
    };
    if of("HEAD")? < ours {
        return Ok(git(root, &["rev-parse", "HEAD"])?.trim().to_owned());
    }
    let changes = git(root, &["log", "--first-parent", "--format=%H %P", "--", MIGRATIONS])?;
    for change in changes.lines() {
        // What comes from elsewhere came to this branch with a merge, whose first parent was ours.
        let Some(before) = change.split(' ').nth(1) else { break };
        match of(before) {
            Ok(schema) if schema < ours => return Ok(before.to_owned()),
            Ok(_) => {}
            // A shallow clone names parents that it does not have.
            Err(_) => break,
        }
    }
    let is_shallow = git(root, &["rev-parse", "--is-shallow-repository"])?.trim() == "true";
    bail!(
        "no commit with a schema before {ours} is to be found{}",
        if is_shallow {
            ", and this clone is shallow: get its history with `git fetch --unshallow`"
        } else {
            ""
        }
    )
}

/// The greatest number in front of these names.
fn newest(files: impl Iterator<Item = String>) -> u32 {
    let number = |file: String| file.rsplit('/').next()?.split('_').next()?.parse().ok();
    files.filter_map(number).max().unwrap_or(0)
}

fn unpack(root: &Path, commit: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let archive = folder.with_extension("tar");
    let archived = archive.to_string_lossy();
    git(root, &["archive", "--format=tar", "--output", &archived, commit])?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(folder);
    ensure!(process::run(&mut tar)?.success(), "{archived} cannot be unpacked");
    fs::remove_file(&archive).with_context(|| format!("cannot remove {archived}"))
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    let answer = Command::new("git").current_dir(root).args(args).output();
    let answer = answer.context("git is needed for the programs of the schema before this one")?;
    let said = String::from_utf8_lossy(&answer.stderr);
    ensure!(answer.status.success(), "git {} failed: {}", args.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}
