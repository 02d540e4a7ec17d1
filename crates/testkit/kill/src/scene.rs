//! Where it all happens: the database, the ledger, the nodes, and what is there to see at the end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use futures_util::{StreamExt, TryStreamExt, stream};
use outlast::{Client, Entry, Error, Filter, Outlast, RunId, RunView, Tx};
use outlast_proxy::{Manner, Proxy};
use outlast_store::OpenOptions;
use parking_lot::Mutex;

use crate::beats::{self, Beat};
use crate::calls::Log;
use crate::check::{self, Effect, Evidence, Glance};
use crate::ledger::{Ledger, Line, now};
use crate::node::{Node, log_of};
use crate::play::{COUNTER, EFFECTS};

/// The lease of victims: short, so that the next takes over soon.
pub(crate) const LEASE: Duration = Duration::from_millis(2000);

/// How many entries of a journal are read at once, and of how many runs at a time.
const PAGE: u32 = 1000;
const JOURNALS: usize = 8;

/// Notes in the database itself whatever gets past the fence: the engine's own word is not enough, and two results
/// for one entry cannot be had anyway.
const FENCE: [&str; 3] = [
    "create table public.late (run uuid, epoch bigint, current bigint)",
    "create function public.note_late() returns trigger language plpgsql as $$
     declare current_epoch bigint;
     begin
         select coalesce((select a.epoch from outlast.agenda as a where a.shard = new.shard and a.id = new.run),
                         (select r.epoch from outlast.results as r where r.shard = new.shard and r.run = new.run))
           into current_epoch;
         if current_epoch > new.epoch then
             insert into public.late values (new.run, new.epoch, current_epoch);
         end if;
         return new;
     end $$",
    "create trigger note_late before insert on outlast.journal for each row execute function public.note_late()",
];
/// How long nodes are waited for that have nothing more to fear.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many bodies every node has to begin and end once no more faults come.
pub(crate) const NEW: usize = 5;

/// What nodes are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orders {
    pub(crate) lease: Duration,
    /// How many runs a node runs at once; chance decides if not given.
    pub(crate) concurrency: Option<usize>,
    /// How many processes may die of a run alone before it fails.
    pub(crate) crashes: Option<u32>,
    /// Whether nodes note how long each claim took.
    pub(crate) samples: bool,
    /// Whether nodes have begun to work before the client came.
    pub(crate) is_begun: bool,
}

impl Default for Orders {
    fn default() -> Orders {
        Orders { lease: LEASE, concurrency: None, crashes: None, samples: false, is_begun: false }
    }
}

/// Where it all happens.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) log: Arc<Log>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) folder: PathBuf,
    /// The network between the client and the database, where there is one.
    pub(crate) wire: Option<Arc<Proxy>>,
    pub(crate) orders: Orders,
    pub(crate) url: String,
    victim: PathBuf,
    beats: Arc<Vec<Beat>>,
    /// How many nodes there have been.
    pub(crate) nodes: Arc<AtomicU64>,
    /// The number of the next run.
    pub(crate) next: Arc<AtomicU64>,
    /// The number of the next plain run of [`Scene::pace`].
    pub(crate) paced: Arc<AtomicU64>,
    /// What was read of journals on the way.
    pub(crate) earlier: Arc<Mutex<Vec<Glance>>>,
    /// The number of the last.
    pub(crate) tail: Arc<AtomicU64>,
    pub(crate) broken: Arc<AtomicBool>,
}

impl Scene {
    /// Makes the schema, the table for effects and the schedules, in a database that must be empty.
    pub(crate) async fn open(
        url: &str,
        victim: &Path,
        folder: &Path,
        orders: Orders,
        rng: &mut Rng,
    ) -> Result<Scene> {
        let shards = if rng.bool() { 1 } else { 4 };
        let options = OpenOptions { shards, ..OpenOptions::default() };
        let wire = Proxy::before(url).await?.map(Arc::new);
        let through = wire.as_ref().map_or(url.to_owned(), |wire| wire.url(url));
        let client = Outlast::on(outlast_store::open(&through, options).await?).client();
        let is_sqlite = client.store().name() == "sqlite";
        let page = client.list(&Filter::default(), None, 1).await?;
        ensure!(
            page.runs.is_empty() || orders.is_begun,
            "the database holds runs already: give me an empty one"
        );
        client
            .transaction(async |tx: Tx| {
                tx.execute(EFFECTS, ()).await?;
                // A file has one owner, and nobody who could come too late.
                for sql in FENCE.iter().filter(|_| !is_sqlite) {
                    tx.execute(sql, ()).await?;
                }
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
            wire,
            orders,
            url: url.to_owned(),
            victim: victim.to_owned(),
            nodes: Arc::default(),
            next: Arc::default(),
            paced: Arc::default(),
            earlier: Arc::default(),
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

    /// So many nodes, or the one that SQLite's file can have, all of them up.
    pub(crate) async fn nodes(&self, count: usize, rng: &mut Rng) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        for _ in 0..if self.is_sqlite() { 1 } else { count } {
            nodes.push(self.spawn(rng).await?);
        }
        for node in &mut nodes {
            node.wait_until_up(&self.folder).await?;
        }
        Ok(nodes)
    }

    /// Kills a node that lives.
    pub(crate) fn kill(&self, mut node: Node) -> Result<()> {
        node.kill(&self.folder)?;
        self.ledger.write(&Line::Kill { node: node.number });
        Ok(())
    }

    /// Notes something that is done to the database, or to all at once.
    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.ledger.write(&Line::Fault { what: what.into(), at: now() });
    }

    /// From now on the network of all nodes and of the client is like this.
    pub(crate) fn network(&self, nodes: &[Node], manner: Manner) {
        nodes.iter().for_each(|node| node.network(manner));
        self.wire.iter().for_each(|wire| wire.set(manner));
    }

    /// No more faults come: waits until every node is up and has begun and ended something new. Whether they all did
    /// is for the checker.
    pub(crate) async fn heal(&self, nodes: &mut [Node]) -> Result<()> {
        for node in nodes.iter_mut() {
            node.wait_until_up(&self.folder).await?;
        }
        self.ledger.write(&Line::Heal { at: now() });
        let since = Instant::now();
        while since.elapsed() < PATIENCE && !self.broken.load(Ordering::Relaxed) {
            let ledger = self.read_ledger()?;
            if nodes.iter().all(|node| check::new_ends(&ledger, node.number) >= NEW) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for node in nodes {
            node.must_live(&self.folder)?;
        }
        Ok(())
    }

    /// The last lines that each node said.
    pub(crate) fn said(&self, lines: usize) -> String {
        let nodes = 1..=u32::try_from(self.nodes.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        let said = nodes.filter_map(|node| {
            let said = std::fs::read_to_string(self.folder.join(log_of(node))).ok()?;
            let said: Vec<&str> = said.lines().collect();
            let last = said[said.len().saturating_sub(lines)..].join("\n");
            (!last.is_empty()).then(|| format!("victim {node}:\n{last}"))
        });
        said.collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn spawn(&self, rng: &mut Rng) -> Result<Node> {
        self.spawn_of(&self.victim, rng).await
    }

    /// A node that is this program.
    pub(crate) async fn spawn_of(&self, victim: &Path, rng: &mut Rng) -> Result<Node> {
        let number = u32::try_from(self.nodes.fetch_add(1, Ordering::Relaxed) + 1)?;
        let wire = Proxy::before(&self.url).await?;
        let url = wire.as_ref().map_or(self.url.clone(), |wire| wire.url(&self.url));
        let mut node = spawn(victim, &url, &self.folder, self.orders, number, rng)?;
        node.wire = wire;
        Ok(node)
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

    /// Keeps what a run's journal has now, where it can be read.
    pub(crate) async fn glance(&self, run: RunId) {
        if let Ok((run, entries)) = self.journal(run).await {
            self.earlier.lock().push(Glance { run, entries });
        }
    }

    async fn journal(&self, run: RunId) -> Result<(RunId, Vec<Entry>)> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |entry| entry.pos);
            let page = self.client.journal(run, after, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            entries.extend(page);
            if is_last {
                return Ok((run, entries));
            }
        }
    }

    pub(crate) async fn evidence(&self) -> Result<Evidence> {
        let runs = self.runs().await?;
        // Several at a time: a fault of ten minutes leaves hundreds of thousands.
        let journals = stream::iter(runs.iter().map(|view| self.journal(view.record.id)));
        let journals: HashMap<RunId, Vec<Entry>> = journals.buffer_unordered(JOURNALS).try_collect().await?;
        let (effects, integrity, late) = self
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
                let late = match self.is_sqlite() {
                    true => 0,
                    false => tx.query("select count(*) from public.late", ()).await?[0].int(0)?,
                };
                Ok::<_, Error>((effects, integrity, late))
            })
            .await?;
        // What users can ask of their own databases.
        let verified = self.client.verify().await?;
        let mut contradictions: Vec<String> =
            verified.without.iter().map(|lost| format!("nothing wakes {lost:?}")).collect();
        contradictions.extend(
            verified.contradictions.iter().map(|found| format!("{} ({} times)", found.what, found.times)),
        );
        if late > 0 {
            let what = "an entry was written for a node that did not have the run any more";
            contradictions.push(format!("{what} ({late} times)"));
        }
        let ledger = self.read_ledger()?;
        let (space, key) = COUNTER;
        let counter = self.client.kv().space(space).get(key).await?.unwrap_or_default();
        let beats = beats::look(&self.client, &self.beats).await?;
        let calls = self.log.calls();
        let earlier = self.earlier.lock().clone();
        Ok(Evidence {
            calls,
            ledger,
            runs,
            journals,
            earlier,
            effects,
            beats,
            counter,
            contradictions,
            integrity,
        })
    }
}

/// Starts a process that is a node.
pub(crate) fn spawn(
    victim: &Path,
    url: &str,
    folder: &Path,
    orders: Orders,
    number: u32,
    rng: &mut Rng,
) -> Result<Node> {
    let said = File::options().create(true).append(true).open(folder.join(log_of(number)))?;
    let mut command = Command::new(victim);
    command.args(["--database-url", url, "--ledger"]).arg(folder.join("ledger"));
    let lease = orders.lease.as_millis().to_string();
    command.args(["--node", &number.to_string(), "--lease-ms", &lease]);
    // With every turn replayed, or with waiting runs kept warm; with few slots, or with enough.
    command.args(["--warm", if rng.bool() { "0" } else { "1000" }]);
    let concurrency = if rng.u8(..4) == 0 { 5 } else { 100 };
    let concurrency = orders.concurrency.unwrap_or(concurrency);
    command.args(["--concurrency", &concurrency.to_string()]);
    if let Some(crashes) = orders.crashes {
        command.args(["--crashes", &crashes.to_string()]);
    }
    command.args(orders.samples.then_some("--samples"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
    let spawned = command.spawn();
    let mut child = spawned.with_context(|| format!("cannot run {}", victim.display()))?;
    let stdout = child.stdout.take().context("the victim has no output")?;
    let up = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).is_ok() && line == "up\n"
    });
    Ok(Node { number, child, up: Some(up), wire: None })
}
