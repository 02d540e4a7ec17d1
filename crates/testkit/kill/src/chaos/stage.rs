//! Where a fault is played: nodes, a load, and the server with its network, which are hurt and mended.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use outlast_cluster::{Cluster, Mount, Pooler};
use outlast_proxy::{Counts, Manner};
use tempfile::TempDir;
use tokio::task::block_in_place;

use super::disk::{FILES_DISK, SERVERS_DISK};
use super::upgrade::Before;
use super::{Chaos, Fault, NODES};
use crate::check::Verdict;
use crate::ledger::now;
use crate::load::Early;
use crate::meter::{FENCED, LOST_LEASES, TAKEOVERS};
use crate::node::Node;
use crate::scene::{Orders, Scene};
use crate::watch::Watch;

/// How long a lease is where no pause may end it: half of it is longer than a busy machine stands still.
const LONG_LEASE: Duration = Duration::from_secs(8);

/// Of so many sagas some have something to undo.
const MANY_SAGAS: usize = 30;
/// So many kills that hit no body prove nothing.
const MANY_KILLS: u64 = 20;
/// How long a fault goes on at most in order to hit.
const MOST_EXTRA: Duration = Duration::from_secs(40);
/// What nodes have unless told otherwise.
const USUAL_LEASE: Duration = Duration::from_secs(10);

pub(super) struct Stage {
    pub(super) scene: Scene,
    pub(super) nodes: Vec<Node>,
    pub(super) pooler: Option<Pooler>,
    pub(super) cluster: Option<Cluster>,
    /// Where an SQLite file is, if that is a small one.
    pub(super) disk: Option<Mount>,
    pub(super) watch: Watch,
    /// When the fault ends.
    pub(super) until: Instant,
    /// How often it hit.
    pub(super) hits: u64,
    pub(super) wrong: Vec<String>,
    pub(super) numbers: Vec<(String, String)>,
    /// Runs that began before the client could say anything, with the schema before this one.
    pub(super) early: Vec<Early>,
    /// The program that is a node of that schema.
    pub(super) old_victim: Option<PathBuf>,
    /// What the networks of nodes did that are not there any more.
    gone: Counts,
    _folder: TempDir,
}

impl Stage {
    pub(super) async fn open(told: &Chaos, rng: &mut Rng) -> Result<Stage> {
        let folder = TempDir::new().context("cannot make a folder for the ledger")?;
        let Place { cluster, pooler, disk, url } = Place::of(told, folder.path())?;
        let mut orders = Orders { samples: told.fault.is_measured(), ..Orders::default() };
        if told.fault.needs_long_lease() {
            orders.lease = LONG_LEASE;
        }
        if told.fault.is_measured() {
            // Each renewal leaves a row behind that nobody can clear away: as many as there would be elsewhere.
            orders.lease = USUAL_LEASE;
        }
        if let Some(runs) = told.fault.holds() {
            orders = Orders { lease: USUAL_LEASE, concurrency: Some(runs + 1000), ..orders };
        }
        let before = match told.fault {
            Fault::RollingUpgrade => Some(Before::begin(told, &url, folder.path(), orders, rng).await?),
            _ => None,
        };
        orders.is_begun = before.is_some();
        let scene = Scene::open(&url, &told.victim, folder.path(), orders, rng).await?;
        let count = if told.fault.holds().is_some() { 1 } else { NODES };
        let (nodes, early, old_victim) = match before {
            Some(before) => before.go_on(&scene).await?,
            None => (scene.nodes(count, rng).await?, Vec::new(), None),
        };
        let watch = Watch::open(&scene.folder.join("ledger"))?;
        Ok(Stage {
            scene,
            nodes,
            cluster,
            pooler,
            disk,
            watch,
            until: Instant::now(),
            hits: 0,
            wrong: Vec::new(),
            numbers: Vec::new(),
            early,
            old_victim,
            gone: Counts::default(),
            _folder: folder,
        })
    }

    pub(super) async fn inflict(&mut self, fault: Fault, rng: &mut Rng) -> Result<()> {
        match fault {
            Fault::KillOne => self.kill_one(rng).await,
            Fault::KillAll => self.kill_all(rng).await,
            Fault::PauseLong => self.pause(self.scene.orders.lease * 3 / 2, rng).await,
            Fault::PauseShort => self.pause(self.scene.orders.lease / 2, rng).await,
            Fault::Leave => self.leave(rng).await,
            Fault::LeaveAndKill => self.leave_and_kill(rng).await,
            Fault::EndConnections => self.end_connections().await,
            Fault::RestartFast | Fault::RestartImmediate | Fault::KillServer => self.restart(fault).await,
            Fault::ServerDown => self.server_down().await,
            Fault::ServerFrozen => self.server_frozen().await,
            Fault::TooManyConnections => self.too_many_connections().await,
            Fault::DiskFull => self.servers_disk_full().await,
            Fault::IdleWriter | Fault::IdleReader | Fault::Scanners => self.held_snapshot(fault).await,
            Fault::Pooler => self.through_pooler().await,
            Fault::Deaf => self.end_listeners().await,
            Fault::FileKill => self.kill_owner(rng).await,
            Fault::FileDiskFull => self.files_disk_full().await,
            Fault::FileTwice => self.second_server(rng).await,
            Fault::TakeoverOne | Fault::TakeoverMany => self.takeover(fault.holds().unwrap_or(1), rng).await,
            Fault::RollingUpgrade => self.rolling_upgrade(rng).await,
            Fault::CutShort => self.cut(self.scene.orders.lease / 2, rng).await,
            Fault::CutLong => self.cut(self.scene.orders.lease * 3 / 2, rng).await,
            Fault::LateReplies => self.late_replies(rng).await,
            Fault::LostCommits | Fault::Resets | Fault::Latency | Fault::Loss | Fault::Narrow => {
                self.bad_network(fault).await
            }
        }
    }

    /// What must have shown in the engines' own numbers.
    pub(super) fn weigh(&mut self, fault: Fault, verdict: &Verdict) {
        let counted = |name: &str| verdict.metrics.get(name).copied().unwrap_or(0);
        let (fenced, takeovers, leases) = (counted(FENCED), counted(TAKEOVERS), counted(LOST_LEASES));
        self.number("fenced", fenced);
        self.number("takeovers", takeovers);
        self.number("lost_leases", leases);
        self.number("sagas", verdict.sagas);
        self.number("undone", verdict.undone);
        if verdict.undone == 0 && verdict.sagas >= MANY_SAGAS {
            self.wrong(format!("of {} sagas nothing was undone: this proves nothing", verdict.sagas));
        }
        match fault {
            Fault::KillOne | Fault::KillAll | Fault::FileKill => {
                self.number("killed_in_a_body", verdict.hits);
                if takeovers == 0 && fault != Fault::FileKill {
                    self.wrong("no run was taken over from a dead node: this proves nothing");
                }
                if verdict.hits == 0 && self.hits >= MANY_KILLS {
                    self.wrong(format!("{} kills hit no body: this proves nothing", self.hits));
                }
            }
            Fault::PauseLong | Fault::CutLong | Fault::LateReplies if fenced == 0 => {
                self.wrong("no write came too late: this proves nothing");
            }
            // What is late is dropped by its own node: whether something is left to fence is for chance.
            Fault::ServerFrozen if leases == 0 => {
                self.wrong(
                    "no node dropped its work because its lease was about to end: this proves nothing",
                );
            }
            Fault::PauseShort | Fault::CutShort if takeovers + leases > 0 => {
                self.wrong(format!(
                    "{takeovers} runs were taken over and {leases} leases lost in pauses shorter than a lease"
                ));
            }
            _ => {}
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        Instant::now() < self.until && !self.scene.broken.load(Ordering::Relaxed)
    }

    /// The same for pauses of this length: where they are longer than a lease, some write has to come too late, and
    /// chance decides which pause has one.
    pub(super) fn goes_on_until_fenced(&mut self, pause: Duration) -> Result<bool> {
        let may_go_on = !self.scene.broken.load(Ordering::Relaxed)
            && pause > self.scene.orders.lease
            && self.until.elapsed() < MOST_EXTRA;
        Ok(self.goes_on() || (may_go_on && self.watch.counted(FENCED)? == 0))
    }

    /// Waits, and not longer than the fault goes on.
    pub(super) async fn wait(&self, pause: Duration) {
        tokio::time::sleep(pause.min(self.until.saturating_duration_since(Instant::now()))).await;
    }

    pub(super) fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.push(what.into());
    }

    pub(super) fn number(&mut self, name: &str, number: impl ToString) {
        self.numbers.push((name.to_owned(), number.to_string()));
    }

    /// One of the nodes, which is not ours any more.
    pub(super) fn take_node(&mut self, rng: &mut Rng) -> Node {
        let node = self.nodes.swap_remove(rng.usize(..self.nodes.len()));
        self.gone = self.gone + node.wire.as_ref().map(outlast_proxy::Proxy::counts).unwrap_or_default();
        node
    }

    /// What all networks did so far.
    pub(super) fn network_counts(&self) -> Counts {
        let wires = self.nodes.iter().filter_map(|node| node.wire.as_ref()).chain(self.scene.wire.as_deref());
        wires.fold(self.gone, |sum, wire| sum + wire.counts())
    }

    /// The time from now until a body has ended that began after now.
    pub(super) async fn recovery(&mut self) -> Result<Duration> {
        self.watch.new_end(now()).await
    }

    /// Takes back whatever was done, so that nobody has an excuse any more.
    pub(super) async fn mend(&mut self, rng: &mut Rng) -> Result<()> {
        self.scene.network(&self.nodes, Manner::default());
        if let Some(cluster) = &mut self.cluster {
            block_in_place(|| {
                cluster.thaw()?;
                if cluster.is_up()? { Ok(()) } else { cluster.start_again() }
            })?;
        }
        for node in &mut self.nodes {
            node.must_live(&self.scene.folder)?;
        }
        while self.nodes.len() < if self.scene.is_sqlite() { 1 } else { NODES } {
            self.nodes.push(self.scene.spawn(rng).await?);
        }
        Ok(())
    }
}

/// Where the runs live.
struct Place {
    cluster: Option<Cluster>,
    pooler: Option<Pooler>,
    disk: Option<Mount>,
    url: String,
}

impl Place {
    fn of(told: &Chaos, folder: &Path) -> Result<Place> {
        let none = Place { cluster: None, pooler: None, disk: None, url: String::new() };
        if told.fault.is_about_a_file() {
            let at = folder.join("disk");
            let disk = match told.fault {
                Fault::FileDiskFull => Some(Mount::small(&at, FILES_DISK)?),
                _ => None,
            };
            std::fs::create_dir_all(&at)?;
            return Ok(Place { disk, url: format!("sqlite://{}", at.join("runs.db").display()), ..none });
        }
        if let Some(url) = told.database_url.as_ref().filter(|_| told.fault.shares_server()) {
            return Ok(Place { url: url.clone(), ..none });
        }
        let cluster = block_in_place(|| match told.fault {
            Fault::DiskFull => Cluster::start_on_a_small_disk(SERVERS_DISK),
            Fault::TooManyConnections => Cluster::start_durable_with("max_connections = 80\n"),
            _ => Cluster::start_durable(),
        })?;
        let url = cluster.url();
        match told.fault {
            Fault::Pooler => {
                let pooler = block_in_place(|| Pooler::before(&cluster))?;
                let url = pooler.url(&url);
                Ok(Place { cluster: Some(cluster), pooler: Some(pooler), url, ..none })
            }
            _ => Ok(Place { cluster: Some(cluster), url, ..none }),
        }
    }
}

/// The most of some spans, in milliseconds.
pub(super) fn most_ms(spans: &[Duration]) -> u128 {
    spans.iter().max().map_or(0, Duration::as_millis)
}
