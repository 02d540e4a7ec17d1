//! A simulator that was built by what it does: once to count which ways through the code are taken, and again by those counts.
//!
//! A schedule is hardly anything but small decisions, half of them SQLite's, and to have the usual ones in a row makes the
//! simulator a third faster (docs/performance.md). Counting takes `llvm-tools` for our own code, which rustup has, and GCC for SQLite's;
//! without the first the simulator is built as it is. Counts of an older version of the code still serve: what has changed since
//! has none, and is as fast as it would be without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::test::cargo;

/// What is counted: as many schedules as every way is taken in.
const COUNTED: &[&str] = &["--first", "1000", "--schedules", "300", "--threads", "1"];

/// Where both builds are. GCC finds its counts beside what it builds, so they share a folder.
const FOLDER: &str = "target/guided";

pub(super) struct Guided {
    /// The compiler that the counts are of.
    rustc: String,
    host: String,
    folder: PathBuf,
    profdata: PathBuf,
}

impl Guided {
    /// Finds or gets what it takes. `None` says that it cannot be had, which was told.
    pub(super) fn find() -> Result<Option<Guided>> {
        let rustc = said(Command::new("rustc").arg("-vV"))?;
        let host =
            rustc.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
        let sysroot = said(Command::new("rustc").args(["--print", "sysroot"]))?;
        let profdata = Path::new(sysroot.trim()).join(format!("lib/rustlib/{host}/bin/llvm-profdata"));
        let has = profdata.is_file() || {
            eprintln!("to count what the simulator does takes llvm-tools: asking rustup for them");
            let mut rustup = Command::new("rustup");
            rustup.args(["component", "add", "llvm-tools"]);
            process::run(&mut rustup).is_ok_and(|status| status.success()) && profdata.is_file()
        };
        if !has {
            eprintln!("there are none: the simulator is built without counts, and is a third slower");
            return Ok(None);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FOLDER);
        Ok(Some(Guided { host: host.to_owned(), rustc, folder, profdata }))
    }

    /// Builds it, after counting if nobody has yet with this compiler.
    pub(super) fn build(&self, sqlite: &str) -> Result<PathBuf> {
        fs::create_dir_all(&self.folder)?;
        let (counts, by) = (self.folder.join("counts.profdata"), self.folder.join("counted-by"));
        if !counts.is_file() || fs::read_to_string(&by).ok().as_deref() != Some(&self.rustc) {
            eprintln!(
                "building the simulator twice: to count what it does, and by what was counted. The next time it is there."
            );
            self.count(sqlite, &counts)?;
            fs::write(&by, &self.rustc)?;
        }
        let c = "-fprofile-use -fprofile-correction -Wno-missing-profile -Wno-coverage-mismatch";
        self.cargo(sqlite, c, &format!("-Cprofile-use={}", absolute(&counts)?))
    }

    fn count(&self, sqlite: &str, counts: &Path) -> Result<()> {
        let raw = self.folder.join("raw");
        let _ = fs::remove_dir_all(&raw);
        let c = "-fprofile-generate -fprofile-update=single";
        fs::create_dir_all(&raw)?;
        let rust = format!(
            "-Cprofile-generate={}{}",
            absolute(&raw)?,
            if is_gcc() { " -Clink-arg=-lgcov" } else { "" }
        );
        let program = self.cargo(sqlite, c, &rust)?;
        let status = process::run(Command::new(program).args(COUNTED).stdout(std::process::Stdio::null()))?;
        ensure!(
            status.success(),
            "a schedule did what must not be while it was counted: `cargo xtask sim --plain` tells which"
        );
        let mut merge = Command::new(&self.profdata);
        merge.args(["merge", "--output"]).arg(counts).arg(&raw);
        ensure!(process::run(&mut merge)?.success(), "what was counted cannot be read");
        Ok(())
    }

    /// Builds with these flags; where it is.
    fn cargo(&self, sqlite: &str, c: &str, rust: &str) -> Result<PathBuf> {
        let mut build = cargo();
        build.env("LIBSQLITE3_FLAGS", sqlite).env("RUSTFLAGS", rust).env_remove("CARGO_ENCODED_RUSTFLAGS");
        if is_gcc() {
            build.env("CFLAGS", c);
        }
        // With a target the flags are the program's alone, and not those of what builds it.
        build.args(["build", "--quiet", "--profile", "sim", "--package", super::PROGRAM]);
        build.args(["--target", &self.host, "--target-dir"]).arg(&self.folder);
        ensure!(process::run(&mut build)?.success(), "the simulator cannot be built");
        Ok(self.folder.join(&self.host).join("sim").join(super::PROGRAM))
    }
}

/// Whether C is compiled by GCC, whose counts are its own.
fn is_gcc() -> bool {
    said(Command::new("cc").arg("--version")).is_ok_and(|said| said.contains("Free Software Foundation"))
}

fn absolute(path: &Path) -> Result<String> {
    Ok(std::path::absolute(path)?.display().to_string())
}

fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(output.status.success(), "{:?} failed", command.get_program());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
