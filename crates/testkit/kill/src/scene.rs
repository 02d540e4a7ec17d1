//! Where it all happens: the database, the ledger, the nodes, and what is there to see at the end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use outlast::{Client, Entry, Error, Filter, Outlast, RunView, Tx};
use outlast_store::OpenOptions;

use crate::beats::{self, Beat};
use crate::calls::Log;
use crate::check::{Effect, Evidence};
use crate::ledger::{Ledger, Line};
use crate::node::Node;
use crate::play::{COUNTER, EFFECTS};
use crate::wire::Wire;

/// The lease of victims: short, so that the next takes over soon.
pub(crate) const LEASE: Duration = Duration::from_millis(2000);

/// Where it all happens.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) log: Arc<Log>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) folder: PathBuf,
    url: String,
    victim: PathBuf,
    beats: Arc<Vec<Beat>>,
    nodes: Arc<AtomicU64>,
    /// The number of the next run.
    pub(crate) next: Arc<AtomicU64>,
    /// The number of the last.
    pub(crate) tail: Arc<AtomicU64>,
    pub(crate) broken: Arc<AtomicBool>,
}

impl Scene {
    /// Makes the schema, the table for effects and the schedules, in a database that must be empty.
    pub(crate) async fn open(url: &str, victim: &Path, folder: &Path, rng: &mut Rng) -> Result<Scene> {
        let shards = if rng.bool() { 1 } else { 4 };
        let options = OpenOptions { shards, ..OpenOptions::default() };
        let client = Outlast::on(outlast_store::open(url, options).await?).client();
        let page = client.list(&Filter::default(), None, 1).await?;
        ensure!(page.runs.is_empty(), "the database holds runs already: give me an empty one");
        client
            .transaction(async |tx: Tx| {
                tx.execute(EFFECTS, ()).await?;
                Ok::<(), Error>(())
            })
            .await?;
        let beats = beats::begin(&client).await?;
        Ok(Scene {
            client,
            beats: Arc::new(beats),
            log: Arc::default(),
            ledger: Arc::new(Ledger::open(&folder.join("ledger"), 0)?),
            folder: folder.to_owned(),
            url: url.to_owned(),
            victim: victim.to_owned(),
            nodes: Arc::default(),
            next: Arc::default(),
            tail: Arc::new(AtomicU64::new(u64::MAX)),
            broken: Arc::default(),
        })
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.client.store().name() == "sqlite"
    }

    /// SQLite's file has one owner.
    pub(crate) fn most_nodes(&self) -> usize {
        if self.is_sqlite() { 1 } else { 2 }
    }

    pub(crate) fn spawn(&self, rng: &mut Rng) -> Result<Node> {
        let number = u32::try_from(self.nodes.fetch_add(1, Ordering::Relaxed) + 1)?;
        let said = File::options().create(true).append(true).open(self.folder.join("victims.log"))?;
        let mut command = Command::new(&self.victim);
        let wire = Wire::lay(&self.url, &self.folder.join(format!("wire-{number}")))?;
        let (wire, url) = wire.map_or((None, self.url.clone()), |(wire, url)| (Some(wire), url));
        command.args(["--database-url", &url, "--ledger"]).arg(self.folder.join("ledger"));
        command.args(["--node", &number.to_string(), "--lease-ms", &LEASE.as_millis().to_string()]);
        // With every turn replayed, or with waiting runs kept warm; with few slots, or with enough.
        command.args(["--warm", if rng.bool() { "0" } else { "1000" }]);
        command.args(["--concurrency", if rng.u8(..4) == 0 { "5" } else { "100" }]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        let spawned = command.spawn();
        let mut child = spawned.with_context(|| format!("cannot run {}", self.victim.display()))?;
        let stdout = child.stdout.take().context("the victim has no output")?;
        let up = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).is_ok() && line == "up\n"
        });
        Ok(Node { number, child, up: Some(up), wire })
    }

    pub(crate) fn read_ledger(&self) -> Result<Vec<Line>> {
        Ledger::read(&self.folder.join("ledger"))
    }

    pub(crate) async fn runs(&self) -> Result<Vec<RunView>> {
        let (mut runs, mut after) = (Vec::new(), None);
        loop {
            let page = self.client.list(&Filter::default(), after, 500).await?;
            runs.extend(page.runs);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(runs),
            }
        }
    }

    pub(crate) async fn evidence(&self) -> Result<Evidence> {
        let runs = self.runs().await?;
        let mut journals = HashMap::new();
        for view in &runs {
            let mut entries: Vec<Entry> = Vec::new();
            loop {
                let after = entries.last().map_or(0, |entry| entry.pos);
                let page = self.client.journal(view.record.id, after, 1000).await?;
                if page.is_empty() {
                    break;
                }
                entries.extend(page);
            }
            journals.insert(view.record.id, entries);
        }
        let (effects, integrity) = self
            .client
            .transaction(async |tx: Tx| {
                let mut effects = Vec::new();
                for row in tx.query("select run, step, value from effects", ()).await? {
                    let (run, step) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
                    effects.push(Effect { run, step, value: row.int(2)?.cast_unsigned() });
                }
                let integrity = match self.is_sqlite() {
                    true => Some(tx.query("pragma integrity_check", ()).await?[0].text(0)?.to_owned()),
                    false => None,
                };
                Ok::<_, Error>((effects, integrity))
            })
            .await?;
        let ledger = self.read_ledger()?;
        let (space, key) = COUNTER;
        let counter = self.client.kv().space(space).get(key).await?.unwrap_or_default();
        let beats = beats::look(&self.client, &self.beats).await?;
        Ok(Evidence { calls: self.log.calls(), ledger, runs, journals, effects, beats, counter, integrity })
    }
}
