//! `cargo xtask sim` runs this: schedules on all cores until the time is over, and what they came to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Parser;
// It takes the place of `malloc`, which SQLite and Rust both ask. As Rust's global allocator it would be asked for an
// alignment every time, which is the longer way.
use mimalloc as _;
use outlast_sim::{Report, Script, Tally, Theatre, Watch};

/// Plays random schedules and says which of them did what must not be.
#[derive(Parser)]
struct Options {
    /// For how long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Plays this seed alone, and tells all that happens
    #[arg(long)]
    seed: Option<u64>,
    /// Keeps the schedule of this seed in a file: in `tests/kept` it is a test
    #[arg(long, requires = "seed")]
    keep: Option<PathBuf>,
    /// Plays the schedule that a file keeps, and tells all that happens
    #[arg(long, conflicts_with = "seed")]
    kept: Option<PathBuf>,
    /// Plays so many schedules, whatever the time
    #[arg(long)]
    schedules: Option<u64>,
    /// The first seed, which the others follow: random, if nothing is said
    #[arg(long)]
    first: Option<u64>,
    /// On so many threads: as many as there are cores, if nothing is said
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let began = Instant::now();
    let script = script(&options)?;
    let is_alone = script.is_some();
    let tally = match script {
        Some(script) => replay(&script)?,
        None => play(&options, began)?,
    };
    let gaps = if !is_alone && tally.schedules() >= 200 { tally.gaps() } else { Vec::new() };
    gaps.iter().for_each(|gap| println!("the proof is thin: {gap}"));
    let fine = tally.violations() == 0 && gaps.is_empty();
    println!("{}", Report { tally, took: began.elapsed() });
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The one schedule that is asked for, if one is.
fn script(options: &Options) -> Result<Option<Script>> {
    let named = |file: &Path| file.display().to_string();
    if let Some(file) = &options.kept {
        let text = fs::read_to_string(file).with_context(|| named(file))?;
        return Script::read(&text).map(Some).with_context(|| named(file));
    }
    let Some(seed) = options.seed else { return Ok(None) };
    let script = Script::of(seed);
    if let Some(file) = &options.keep {
        fs::write(file, script.text()?).with_context(|| named(file))?;
    }
    Ok(Some(script))
}

/// Plays one schedule with everything that happens.
fn replay(script: &Script) -> Result<Tally> {
    let outcome = Theatre::open()?.perform(script, Watch::Aloud);
    print!("{}", outcome.history);
    tell(script.seed(), &outcome.violations);
    let mut tally = Tally::default();
    tally.add(&outcome);
    Ok(tally)
}

/// Plays seed after seed on all threads.
fn play(options: &Options, began: Instant) -> Result<Tally> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // The last digits are left to those that follow.
    let first = options.first.unwrap_or_else(|| fastrand::u64(..1 << 32) << 20);
    println!("seeds from {first}");
    let next = AtomicU64::new(first);
    let last = options.schedules.map(|count| first + count);
    let until = began + Duration::from_secs(options.seconds);
    let work = || -> Result<Tally> {
        let theatre = Theatre::open()?;
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = match last {
                Some(last) => seed >= last,
                None => Instant::now() >= until,
            };
            if is_over {
                return Ok(tally);
            }
            let outcome = theatre.play(seed, Watch::Nothing);
            tell(seed, &outcome.violations);
            tally.add(&outcome);
        }
    };
    let mut all = Tally::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads.unwrap_or(cores)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            all.join(thread.join().map_err(|_| anyhow!("a schedule panicked"))??);
        }
        Ok(all)
    })
}

fn tell(seed: u64, violations: &[String]) {
    for violation in violations {
        println!("violation (seed {seed}): {violation}");
    }
}
