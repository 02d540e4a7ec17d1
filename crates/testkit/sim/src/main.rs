//! `cargo xtask sim` runs this: schedules on all cores until the time is over, and what they came to.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Parser;
use outlast_sim::{Report, Tally, Theatre, Watch};

/// Plays random schedules and says which of them did what must not be.
#[derive(Parser)]
struct Options {
    /// For how long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Plays this seed alone, and tells all that happens
    #[arg(long)]
    seed: Option<u64>,
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
    let tally = match options.seed {
        Some(seed) => replay(seed)?,
        None => play(&options, began)?,
    };
    let gaps = if options.seed.is_none() && tally.schedules() >= 200 { tally.gaps() } else { Vec::new() };
    gaps.iter().for_each(|gap| println!("the proof is thin: {gap}"));
    let fine = tally.violations() == 0 && gaps.is_empty();
    println!("{}", Report { tally, took: began.elapsed() });
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays one seed with everything that happens.
fn replay(seed: u64) -> Result<Tally> {
    let outcome = Theatre::open()?.play(seed, Watch::Aloud);
    print!("{}", outcome.history);
    tell(seed, &outcome.violations);
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
