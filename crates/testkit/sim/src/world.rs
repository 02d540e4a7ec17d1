//! One schedule: nodes that live and die, runs that are started and fed, and the time in which it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fastrand::Rng;
use outlast::testing::Process;
use outlast::{App, Client, Outlast, RunId, Timestamp};
use outlast_store::{Clock, DynStore, SharedMemory, StoreError, ValueRow};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::cast::Cast;
use crate::faults::{Fault, Watch, Way, Weather};
use crate::faulty::Faulty;
use crate::ledger::Ledger;
use crate::plan::{Blow, Plan};
use crate::play::{Stage, definition};
use crate::work;

/// Where time begins: the start of 2030.
const BEGINNING: i64 = 1_893_456_000_000_000;
/// A node that has been paused for longer than this has lost its lease.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// How often it is renewed: twice.
const RENEW: Duration = Duration::from_millis(4_500);
/// How long a dead node stays dead, at most.
const DEAD_MS: u64 = 11_500;

/// The world of one schedule.
pub(crate) struct World {
    pub(crate) memory: SharedMemory,
    /// The store itself, which no weather touches.
    pub(crate) store: DynStore,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) cast: Arc<Cast>,
    pub(crate) weather: Arc<Weather>,
    pub(crate) nodes: Vec<Node>,
    /// A client that is no node.
    outside: (Client, Process),
    /// Whether there is a queue with a limit.
    limits: bool,
    pub(crate) facts: Mutex<Facts>,
}

/// A node, in whichever of its lives.
pub(crate) struct Node {
    process: Mutex<Process>,
    app: Mutex<Option<App>>,
    lives: AtomicU32,
    died: Arc<Notify>,
    skew: i64,
    deaf: bool,
    rng: Mutex<Rng>,
}

/// What people asked for and were told.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Which runs a start was told to have made or found, by label.
    pub(crate) started: BTreeMap<String, BTreeSet<RunId>>,
    /// Events by label and act: their numbers, and whether they were surely taken.
    pub(crate) sent: BTreeMap<(String, String), Vec<(u32, bool)>>,
    /// The same of promises' values.
    pub(crate) settled: BTreeMap<(String, String), Vec<(u32, bool)>>,
    /// Who was asked to stop, and what the answer was.
    pub(crate) cancelled: BTreeMap<String, Option<bool>>,
    /// The same of those that were to end at once.
    pub(crate) killed: BTreeMap<String, Option<bool>>,
    /// Entries that were seen in journals on the way, by run and position.
    pub(crate) journals: BTreeMap<(Vec<u8>, i64), ValueRow>,
    /// What is wrong already.
    pub(crate) wrong: Vec<String>,
}

impl World {
    pub(crate) fn open(
        memory: &SharedMemory,
        plan: &Plan,
        rng: &mut Rng,
        watch: Watch,
    ) -> Result<Arc<World>, StoreError> {
        let clock = Clock::of_runtime(Timestamp::from_micros(BEGINNING));
        let store = memory.open(clock)?;
        let weather = Arc::new(Weather::new(plan.calls.clone(), watch));
        let nodes = plan.skews.iter().zip(&plan.deaf).map(|(skew, deaf)| Node {
            process: Mutex::default(),
            app: Mutex::default(),
            lives: AtomicU32::new(0),
            died: Arc::default(),
            skew: *skew,
            deaf: *deaf,
            rng: Mutex::new(rng.fork()),
        });
        let nodes: Vec<Node> = nodes.collect();
        let process = Process::default();
        let way = Way {
            node: nodes.len(),
            process: process.clone(),
            weather: weather.clone(),
            died: Arc::default(),
            mortal: false,
        };
        let faulty = Faulty { store: store.clone(), way, clock: store.clock().elsewhere(0), deaf: true };
        let outside = (Outlast::on(Arc::new(faulty)).client(), process);
        Ok(Arc::new(World {
            memory: memory.clone(),
            store,
            ledger: Arc::new(Ledger::new()),
            cast: Arc::default(),
            weather,
            nodes,
            outside,
            limits: plan.limits,
            facts: Mutex::default(),
        }))
    }

    /// Keeps a node alive: when it dies, another process takes its place after a while.
    pub(crate) async fn keep(self: Arc<Self>, number: usize) {
        loop {
            self.boot(number);
            let node = &self.nodes[number];
            node.died.notified().await;
            self.weather.tell(|| format!("n{number} is dead"));
            node.app.lock().take();
            let dead = Duration::from_millis(node.rng.lock().u64(50..DEAD_MS));
            tokio::select! {
                biased;
                () = self.weather.healed.cancelled() => {}
                () = tokio::time::sleep(dead) => {}
            }
        }
    }

    /// A new process begins as a node.
    fn boot(self: &Arc<Self>, number: usize) {
        let node = &self.nodes[number];
        let life = node.lives.fetch_add(1, Ordering::Relaxed) + 1;
        self.weather.tell(|| format!("n{number} begins life {life}"));
        let process = Process::default();
        *node.process.lock() = process.clone();
        let way = Way {
            node: number,
            process: process.clone(),
            weather: self.weather.clone(),
            died: node.died.clone(),
            mortal: true,
        };
        let clock = self.store.clock().elsewhere(node.skew);
        if node.deaf {
            self.weather.hit(Fault::Deaf);
        }
        if node.skew != 0 {
            self.weather.hit(Fault::Skew);
        }
        let store = Arc::new(Faulty { store: self.store.clone(), way, clock, deaf: node.deaf });
        let world = self.clone();
        let living = process.clone();
        tokio::spawn(process.of(async move {
            loop {
                let stage = Stage { ledger: world.ledger.clone(), cast: world.cast.clone(), node: number };
                let app = Outlast::on(store.clone()).workflow(definition()).state(stage);
                let app = work::register(app, world.limits);
                let app = app.process(living.clone()).settings(|settings| {
                    settings.name = format!("n{number}");
                    settings.concurrency = 8;
                    settings.renew_every = RENEW;
                });
                match app.run().await {
                    Ok(app) => {
                        *world.nodes[number].app.lock() = Some(app);
                        return;
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        }));
    }

    /// Something happens to a node.
    pub(crate) async fn strike(&self, blow: Blow) {
        self.weather.tell(|| format!("{blow:?}"));
        match blow {
            Blow::Crash { node } => {
                let process = self.nodes[node].process.lock().clone();
                if !process.is_killed() {
                    self.weather.hit(Fault::Crash);
                    self.weather.interrupts(node, Duration::ZERO);
                    process.kill();
                    self.nodes[node].died.notify_one();
                }
            }
            Blow::Pause { node, time } => {
                let process = self.nodes[node].process.lock().clone();
                if process.is_killed() || process.is_stopped() {
                    return;
                }
                self.weather.hit(if time > LEASE { Fault::LongPause } else { Fault::Pause });
                self.weather.interrupts(node, time);
                process.stop();
                tokio::time::sleep(time).await;
                self.weather.tell(|| format!("n{node} goes on"));
                process.go_on();
            }
            Blow::Outage { node, time, hangs } => {
                self.weather.outage(node, time, hangs);
                tokio::time::sleep(time).await;
            }
        }
    }

    /// Nothing goes wrong from now on, and everybody lives.
    pub(crate) fn heal(&self) {
        self.weather.tell(|| "healed".to_owned());
        self.weather.clear();
    }

    /// The client of a node, if it is up.
    pub(crate) fn client_of(&self, node: usize) -> Option<(Client, Process)> {
        let app = self.nodes.get(node)?.app.lock();
        let client = app.as_ref()?.client().clone();
        let process = self.nodes[node].process.lock().clone();
        (!process.is_killed()).then_some((client, process))
    }

    /// Asks something as a part of a node's process, or from outside. `None` when nobody knows whether it happened.
    pub(crate) async fn ask<T, F>(&self, rng: &mut Rng, call: impl FnOnce(Client) -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let chosen = rng.usize(..=self.nodes.len());
        let (client, process) = self.client_of(chosen).unwrap_or_else(|| self.outside.clone());
        let (tell, told) = oneshot::channel();
        let asked = call(client);
        tokio::spawn(process.of(async move {
            let _ = tell.send(asked.await);
        }));
        told.await.ok()
    }
}
