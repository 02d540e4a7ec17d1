//! Power loss: what was not synced is lost, or torn, and what was acknowledged is there all the same.
//!
//! A [`Scribe`] works on an SQLite file and says what it was told to be done, while `strace` writes down every change and
//! every sync of the file, in order with those words. From that the disk can be made again as it may have been at any
//! moment ([`Disk`]): everything that was synced, and of the rest whatever chance leaves. Each such file is opened, and has
//! to be whole and to hold all that had been acknowledged by then.

mod disk;
mod scribe;
mod trace;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use outlast::{Error, Outlast, RunId, Status, Tx};
use outlast_cluster::packages;
use outlast_store::OpenOptions;
use tempfile::TempDir;

use self::disk::Disk;
use self::scribe::Said;
pub use self::scribe::Scribe;
use self::trace::{Event, events};

/// What to do.
#[derive(Debug, Clone)]
pub struct PowerLoss {
    /// Decides when the power goes, and what is left of what was not synced.
    pub seed: u64,
    /// How many runs the scribe starts.
    pub runs: u32,
    /// How often the power goes, each time at another moment of the same work.
    pub losses: usize,
    /// Which calls of the scribe the disk refuses, as `strace` takes it (`fdatasync:error=EIO:when=40+3`).
    pub refused: Vec<String>,
    /// The program that is the scribe.
    pub scribe: PathBuf,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct PowerReport {
    /// Everything that must not be; empty when all is well.
    pub violations: Vec<String>,
    /// How often the power went while something had not been synced.
    pub hits: usize,
    /// How many writes were lost or torn.
    pub lost_writes: usize,
    /// How many acknowledgements were looked after.
    pub acknowledged: usize,
    /// How many syncs failed.
    pub failed_syncs: usize,
}

impl PowerLoss {
    /// Writes, takes the power away again and again, and looks what is left.
    pub async fn run(&self) -> Result<PowerReport> {
        let folder = TempDir::new().context("cannot make a folder for the file")?;
        let file = folder.path().join("runs.db");
        let trace = folder.path().join("trace");
        self.write(&file, &trace)?;
        let events = events(&trace, &file)?;
        ensure!(events.iter().any(|event| matches!(event, Event::Sync { .. })), "the trace shows no sync");

        let mut rng = Rng::with_seed(self.seed);
        let mut moments: Vec<usize> = (0..self.losses).map(|_| rng.usize(..events.len())).collect();
        moments.sort_unstable();
        let failed = events.iter().filter(|event| matches!(event, Event::SyncFailed { .. })).count();
        let mut report = PowerReport { failed_syncs: failed, ..PowerReport::default() };
        let (mut disk, mut said, mut at) = (Disk::default(), BTreeMap::new(), 0);
        for (nth, moment) in moments.into_iter().enumerate() {
            for event in &events[at..moment] {
                match event {
                    Event::Said(text) => {
                        text.lines().filter_map(Said::read).for_each(|line| line.note(&mut said))
                    }
                    change => disk.take(change),
                }
            }
            at = moment;
            let place = folder.path().join(format!("after-{nth}"));
            std::fs::create_dir(&place)?;
            let lost = disk.lose_power(&place, &mut rng)?;
            report.hits += usize::from(lost > 0);
            report.lost_writes += lost;
            report.acknowledged += said.len();
            for wrong in look(&place.join("runs.db"), &said).await? {
                let which =
                    format!("loss {nth} of seed {} after {moment} of {} events", self.seed, events.len());
                report.violations.push(format!("{which}: {wrong}"));
            }
            std::fs::remove_dir_all(&place)?;
        }
        Ok(report)
    }

    /// Has the scribe write under the eyes of `strace`.
    fn write(&self, file: &Path, trace: &Path) -> Result<()> {
        if packages::on_path("strace").is_none() && packages::can_install() {
            packages::install("strace")?;
        }
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-xx", "-s", "4194304", "-e", trace::CALLS, "-o"]).arg(trace);
        strace.args(self.refused.iter().flat_map(|refused| ["-e".to_owned(), format!("inject={refused}")]));
        strace.arg(&self.scribe).arg("--database-url").arg(format!("sqlite://{}", file.display()));
        strace.args(["--runs", &self.runs.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        let ended = strace
            .output()
            .context("strace is needed to see what is synced: install it (apt-get install strace)")?;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "the scribe ended with {}: {said}", ended.status);
        Ok(())
    }
}

/// Opens what is left, and says what is wrong with it.
async fn look(file: &Path, said: &BTreeMap<String, (RunId, Option<u64>)>) -> Result<Vec<String>> {
    if !file.exists() {
        return Ok(if said.is_empty() { Vec::new() } else { vec!["there is no file".to_owned()] });
    }
    let url = format!("sqlite://{}", file.display());
    let store = match outlast_store::open(&url, OpenOptions::default()).await {
        Ok(store) => store,
        Err(error) => return Ok(vec![format!("it cannot be opened: {error}")]),
    };
    let client = Outlast::on(store).client();
    let mut wrong = Vec::new();
    let integrity = client
        .transaction(async |tx: Tx| {
            let rows = tx.query("pragma integrity_check", ()).await?;
            Ok::<String, Error>(rows[0].text(0)?.to_owned())
        })
        .await?;
    if integrity != "ok" {
        wrong.push(format!("the file is damaged: {integrity}"));
    }
    let verified = client.verify().await?;
    wrong.extend(verified.without.iter().map(|lost| format!("nothing wakes {lost:?}")));
    wrong.extend(
        verified.contradictions.iter().map(|found| format!("{} ({} times)", found.what, found.times)),
    );
    for (key, (run, output)) in said {
        let found = match client.status(*run).await {
            Ok(view) => view,
            Err(error) => {
                wrong.push(format!("{key} was acknowledged as {run}, and is lost: {error}"));
                continue;
            }
        };
        let Some(output) = output else { continue };
        let handle = client.handle(&scribe::note(), *run);
        let fits =
            found.status == Status::Completed && handle.result().await.is_ok_and(|kept| kept == *output);
        if !fits {
            wrong.push(format!("{key} was told to have given {output}, and is {}", found.status));
        }
    }
    Ok(wrong)
}
