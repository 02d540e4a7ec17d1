//! `cargo xtask instructions`: what the pure parts cost, beside what was committed.
//!
//! Timings on a shared machine hide a tenth more or less; counts of instructions do not. Callgrind counts them in
//! a small program (`crates/testkit/instructions`), each part twice, for some and for twice as
//! many: the difference is what one costs. A part that has grown by more than [`LIMIT`] fails the command.

mod figures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use self::figures::{Compared, Figures, LIMIT, Measured, Verdict, compare, table};
use crate::process;
use crate::test::cargo;
use outlast_cluster::packages::{self, on_path};

#[derive(Args)]
pub(crate) struct Options {
    /// Write what is measured as the new figures, to be committed
    #[arg(long)]
    accept: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    find_or_install_valgrind()?;
    let mut build = cargo();
    build.args(["build", "--profile", PROFILE, "--package", PROGRAM]);
    ensure!(process::run(&mut build)?.success(), "{PROGRAM} cannot be built");
    let (program, parts) = list()?;

    let outputs = program.with_file_name("callgrind");
    fs::create_dir_all(&outputs).with_context(|| format!("cannot make {}", outputs.display()))?;
    let measured = parts.into_iter().map(|part| part.measure(&program, &outputs));
    let measured: Vec<Measured> = measured.collect::<Result<_>>()?;

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/testkit/instructions/instructions.toml");
    let here = Figures { arch: std::env::consts::ARCH.into(), rustc: rustc()?, parts: Default::default() };
    let committed = Figures::read(&file)?;
    let compared = compare(&committed.parts, &measured);
    print!("{}", table(&compared));
    if options.accept {
        let parts = measured.into_iter().map(|part| (part.name, part.each)).collect();
        return Figures { parts, ..here }.write(&file);
    }

    committed.check_machine(&here)?;
    judge(&compared, &outputs)
}

/// Says what to do about parts whose figures no longer hold; fails if one has grown or has no figure.
fn judge(compared: &[Compared], outputs: &Path) -> Result<()> {
    let named = |verdict: Verdict| -> Vec<&str> {
        compared.iter().filter(|part| part.verdict() == verdict).map(|part| part.name.as_str()).collect()
    };
    let (grown, new) = (named(Verdict::Grown), named(Verdict::New));
    let better = [named(Verdict::Shrunk), named(Verdict::Gone)].concat();
    if !better.is_empty() {
        println!("\n`cargo xtask instructions --accept` keeps what was won: {}", better.join(", "));
    }
    if !grown.is_empty() {
        println!("\nWhere the instructions are, by function:");
        grown.iter().for_each(|name| println!("  callgrind_annotate {}", outputs.join(name).display()));
    }
    let tail = "`cargo xtask instructions --accept` if that is meant";
    ensure!(grown.is_empty(), "more than {LIMIT} % above the committed figure: {}; {tail}", grown.join(", "));
    ensure!(new.is_empty(), "no committed figure: {}; {tail}", new.join(", "));
    Ok(())
}

/// A part as the program tells it.
struct Part {
    name: String,
    count: u64,
    one: String,
}

impl Part {
    fn measure(self, program: &Path, outputs: &Path) -> Result<Measured> {
        // The second one is kept: it has the least of what all share.
        let file = outputs.join(&self.name);
        let few = count(program, &self.name, self.count, &file)?;
        let many = count(program, &self.name, 2 * self.count, &file)?;
        let more =
            many.checked_sub(few).with_context(|| format!("{}: twice as many cost less", self.name))?;
        Ok(Measured { name: self.name, one: self.one, each: (more + self.count / 2) / self.count })
    }
}

const PROGRAM: &str = "outlast-instructions";
const PROFILE: &str = "instructions";

/// Only what happens in here is counted. A link-time optimizer may add something to the name.
const MEASURED: &str = "outlast_instructions::measured*";

/// Where the program is, and its parts.
fn list() -> Result<(PathBuf, Vec<Part>)> {
    let mut list = cargo();
    list.args(["run", "--quiet", "--profile", PROFILE, "--package", PROGRAM, "--", "list"]);
    let output = list.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "{PROGRAM} does not say what it measures");
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines();
    let program = lines.next().context("nothing was listed")?.into();
    Ok((program, lines.map(parse_part).collect::<Result<_>>()?))
}

fn parse_part(line: &str) -> Result<Part> {
    let mut words = line.split('\t');
    let (Some(name), Some(count), Some(one)) = (words.next(), words.next(), words.next()) else {
        bail!("{PROGRAM} lists {line:?}, which is no part");
    };
    Ok(Part { name: name.into(), count: count.parse()?, one: one.into() })
}

/// How many instructions `number` of a part take.
fn count(program: &Path, part: &str, number: u64, file: &Path) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", &format!("--toggle-collect={MEASURED}")]);
    valgrind.arg(format!("--callgrind-out-file={}", file.display()));
    valgrind.arg(program).args([part, &number.to_string()]);
    let status = process::run(&mut valgrind)?;
    ensure!(status.success(), "{part} cannot be measured ({status})");
    let output = fs::read_to_string(file).with_context(|| format!("callgrind left no {}", file.display()))?;
    total(&output).with_context(|| format!("callgrind counted nothing for {part}: was {MEASURED} renamed?"))
}

/// The instructions of everything that callgrind collected, from the file it writes; `None` when it is nothing.
fn total(output: &str) -> Option<u64> {
    let value = |key: &str| output.lines().rev().find_map(|line| line.strip_prefix(key));
    // The first number is that of the first event.
    let is_instructions = value("events:")?.split_whitespace().next()? == "Ir";
    let total = value("totals:")?.split_whitespace().next()?.parse().ok()?;
    (is_instructions && total > 0).then_some(total)
}

fn rustc() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.split_whitespace().nth(1).context("rustc does not say its version")?.to_owned())
}

fn find_or_install_valgrind() -> Result<()> {
    if on_path("valgrind").is_some() {
        return Ok(());
    }
    if packages::can_install() {
        packages::install("valgrind")?;
        ensure!(on_path("valgrind").is_some(), "valgrind was installed, and yet it is missing");
        return Ok(());
    }
    bail!("{HOW_TO_INSTALL}")
}

const HOW_TO_INSTALL: &str = "\
valgrind is missing: its callgrind counts the instructions. Install it:

  Debian, Ubuntu   sudo apt-get install valgrind
  Fedora, RHEL     sudo dnf install valgrind
  Arch             sudo pacman -S valgrind
  Alpine           sudo apk add valgrind

It does not run on macOS with Apple's processors: count on Linux.";

#[cfg(test)]
mod tests {
    use super::*;

    /// As callgrind 3.19 writes it, shortened.
    const OUTPUT: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  target/release/outlast-instructions replay 2000
part: 1

desc: Trigger: Program termination

positions: line
events: Ir
summary: 4406048


fl=(227) library/alloc/src/raw_vec/mod.rs
fn=(1354) alloc::raw_vec::RawVecInner<A>::finish_grow
542 9
+2 478

totals: 4406048
";

    #[test]
    fn the_total_is_read_from_what_callgrind_writes() {
        assert_eq!(total(OUTPUT), Some(4_406_048));
    }

    #[test]
    fn a_total_of_nothing_is_none_because_then_the_function_was_not_found() {
        assert_eq!(total(&OUTPUT.replace("totals: 4406048", "totals: 0")), None);
        assert_eq!(total("version: 1\n"), None);
    }

    #[test]
    fn only_instructions_are_taken_for_instructions() {
        assert_eq!(total(&OUTPUT.replace("events: Ir", "events: Ir Dr Dw")), Some(4_406_048));
        assert_eq!(total(&OUTPUT.replace("events: Ir", "events: Bc Ir")), None);
    }

    #[test]
    fn a_part_is_its_name_its_number_and_what_one_of_it_is() {
        let part = parse_part("replay\t2000\ta recorded step").unwrap();
        assert_eq!((part.name.as_str(), part.count, part.one.as_str()), ("replay", 2000, "a recorded step"));
        assert!(parse_part("replay").is_err() && parse_part("replay\tmany\tsteps").is_err());
    }
}
