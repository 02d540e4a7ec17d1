//! The engine: claims due runs, drives their turns and commits what they record.
//!
//! `claim` finds work, `turn`/`drive` (workflows) and `job` (jobs) do it, `committer` makes it durable,
//! `lease` keeps the right to do so, `warm` keeps what may be needed again. Nothing here calls upward.

pub(crate) mod batch;
mod check;
mod claim;
mod clock;
pub(crate) mod committer;
pub(crate) mod drive;
mod floor;
mod guarded;
mod hand;
mod in_hand;
pub(crate) mod job;
mod lease;
mod lease_thread;
mod misfit;
mod poison;
mod process;
mod queues;
mod retention;
mod run;
mod schedules;
pub(crate) mod seldom;
mod settings;
mod slot;
mod slots;
mod state;
mod strict;
pub(crate) mod turn;
mod undo;
mod verify;
mod warm;

use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hashbrown::HashMap;
use outlast_core::{Error, Limits, NodeId, QueueRules, RunId, Timestamp, crashes};
use outlast_store::{Claimed, DynStore, Ended, Hold, Known, NodeCard};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::batch::Batches;
pub(crate) use self::check::check;
pub(crate) use self::clock::EngineClock;
use self::committer::Committer;
use self::in_hand::{ClaimNumbers, Holder, Running};
pub(crate) use self::in_hand::{OpenClaim, Slot};
pub use self::process::Process;
use self::queues::Queues;
pub(crate) use self::run::begin_started;
use self::schedules::Schedules;
use self::seldom::Troubles;
pub use self::settings::Settings;
use self::slots::Slots;
use self::warm::Warm;
use crate::registry::Registry;
use crate::{Client, Retention, bulk};

/// Values that handlers share, by type.
pub(crate) type States = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

pub(crate) struct Engine {
    pub(crate) store: DynStore,
    pub(crate) clock: EngineClock,
    pub(crate) limits: Limits,
    pub(crate) registry: Registry,
    pub(crate) states: States,
    pub(crate) settings: Settings,
    pub(crate) committer: Committer,
    pub(crate) client: Client,
    /// How handlers call others.
    #[cfg(feature = "http")]
    pub(crate) http: crate::http::Outbound,
    pub(crate) tasks: TaskTracker,
    /// Where the work is done: a caller's own runtime may end while runs go on.
    runtime: Handle,
    /// No new work.
    pub(crate) stop: CancellationToken,
    /// Turns in hand are dropped.
    pub(crate) abort: CancellationToken,
    /// Nothing is committed any more.
    pub(crate) lanes_stop: CancellationToken,
    node: Mutex<NodeId>,
    slots: Slots,
    /// The right to run runs that processes died with.
    suspects: Arc<Semaphore>,
    running: Mutex<HashMap<RunId, Running>>,
    /// How many of those wait without a slot until their end is durable.
    ending: AtomicUsize,
    warm: Mutex<Warm>,
    claims: Mutex<ClaimNumbers>,
    /// Something may be due, or a slot came free.
    work: Notify,
    /// A turn began or ended, or a claim found nothing: tests wait for quiet.
    pub(crate) changed: Notify,
    claiming: AtomicBool,
    /// Children are to be asked to stop.
    orphans: Notify,
    /// Something happened, and nobody knows to which runs: a renewal says what became of those in hand.
    look: Notify,
    pub(crate) queues: Queues,
    batches: Batches,
    pub(crate) schedules: Schedules,
    retention: retention::Walks,
    overdue: lease::Overdue,
    /// The rules of queues that this code says.
    rules: Vec<(String, QueueRules)>,
    /// The queues that this node takes from.
    served: Vec<String>,
    pub(crate) troubles: Troubles,
    pub(crate) verified: verify::Verified,
    /// No other process can take runs from this one: the database is a file that we own.
    is_sole_owner: bool,
    /// When the first lease of another node ends, unless that is renewed.
    lapse: Mutex<Option<Timestamp>>,
    /// Until when no other node is taken for dead, because the database was away.
    spares_until: Mutex<Option<Instant>>,
    /// When the lease was asked for last and given: it lasts at least as long from then.
    renewed: watch::Sender<Instant>,
}

impl Engine {
    pub(crate) fn new(
        store: DynStore,
        registry: Registry,
        rules: Vec<(String, QueueRules)>,
        states: States,
        settings: Settings,
        limits: Limits,
        client: Client,
    ) -> Arc<Engine> {
        let is_sole_owner = !store.is_shared();
        let clock = EngineClock::new(store.clock().clone(), is_sole_owner);
        let served = served(&settings, &registry);
        let engine = Engine {
            clock,
            limits,
            registry,
            states,
            committer: Committer::new(store.shards()),
            client,
            #[cfg(feature = "http")]
            http: crate::http::Outbound::new(settings.egress.clone()),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            lanes_stop: CancellationToken::new(),
            node: Mutex::new(NodeId::new(fastrand::u128(..))),
            slots: Slots::new(settings.concurrency),
            suspects: Arc::new(Semaphore::new(crashes::PLACES as usize)),
            running: Mutex::default(),
            ending: AtomicUsize::new(0),
            warm: Mutex::new(Warm::new(settings.warm, settings.warm_for)),
            claims: Mutex::default(),
            work: Notify::new(),
            changed: Notify::new(),
            claiming: AtomicBool::new(false),
            orphans: Notify::new(),
            look: Notify::new(),
            queues: Queues::default(),
            batches: Batches::default(),
            schedules: Schedules::default(),
            retention: retention::Walks::default(),
            overdue: lease::Overdue::default(),
            rules,
            served,
            troubles: Troubles::default(),
            verified: verify::Verified::default(),
            is_sole_owner,
            lapse: Mutex::default(),
            spares_until: Mutex::default(),
            renewed: watch::Sender::new(Instant::now()),
            settings,
            store,
        };
        Arc::new(engine)
    }

    /// Joins and begins to work.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<(), Error> {
        self.store.own().await?;
        let asked = self.clock.asks();
        self.clock.told(self.store.now().await?, asked);
        let joined = Instant::now();
        let card = self.card();
        crate::client::repeated(|| self.store.join(&card)).await?;
        self.renewed.send_replace(joined);
        // Before the first claim: whoever does not know a queue's rules takes from it as if it had none.
        if let Err(error) = crate::client::repeated(|| queues::try_learn(self, None)).await {
            // Nobody has to wait for its lease to end. What went wrong is told first of all.
            let _ = self.store.leave(self.node()).await;
            return Err(error.into());
        }
        // Before the first sweep: one that has much to take over may take longer than a lease.
        lease_thread::keep(self);
        lease::sweep_all(self).await;
        self.committer.start(self);
        self.spawn(claim::listen(self.clone()));
        self.spawn(claim::run(self.clone()));
        if !self.settings.only_bulks {
            self.spawn(schedules::run(self.clone()));
        }
        self.spawn(lease::watch_loop(self.clone()));
        self.spawn(lease::sweep_loop(self.clone()));
        Ok(())
    }

    /// Does something beside everything else, on the engine's own runtime whoever calls.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match &self.settings.process {
            Some(process) => self.tasks.spawn_on(process.of(work), &self.runtime),
            None => self.tasks.spawn_on(work, &self.runtime),
        };
    }

    /// Whether this node deletes ended runs by itself.
    fn has_retention(&self) -> bool {
        self.settings.retention != Retention::forever() || self.registry.has_retention()
    }

    /// Does at once all that a node does from time to time.
    pub(crate) async fn sweep_now(self: &Arc<Self>) {
        lease::sweep_all(self).await;
        while retention::sweep(self).await {}
    }

    /// Stops: no new work, work in hand is finished or handed back within `grace`, then dropped and
    /// handed back. Runs that were in hand are due for others at once.
    pub(crate) async fn shut_down(self: &Arc<Self>, grace: Duration) -> Result<(), Error> {
        self.stop.cancel();
        self.work.notify_one();
        self.each_running(|holder| holder.stop());
        let quiet = async {
            loop {
                // Listening before looking, so that no end in between is missed.
                let changed = self.changed.notified();
                if self.running.lock().is_empty() {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(grace, quiet).await.is_err() {
            tracing::warn!(
                runs = self.running.lock().len(),
                "the grace period is over: work in hand is handed back"
            );
        }
        self.abort.cancel();
        self.each_running(|holder| holder.lose());
        drop(self.warm.lock().clear());
        self.lanes_stop.cancel();
        self.committer.wake();
        self.tasks.close();
        // Bodies that do not yield cannot be stopped; the fence holds them off.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.tasks.wait()).await;
        let leave = self.store.leave(self.node());
        match tokio::time::timeout(Duration::from_secs(5), leave).await {
            Ok(left) => Ok(left?),
            Err(_) => Err(Error::Store {
                detail: "the database did not answer the good-bye".into(),
                retryable: true,
            }),
        }
    }

    /// Stops at once, without a good-bye: the lease runs out, or on SQLite the next owner takes over.
    pub(crate) fn halt(&self) {
        self.stop.cancel();
        self.abort.cancel();
        self.lanes_stop.cancel();
        self.each_running(|holder| holder.lose());
        drop(self.warm.lock().clear());
        self.committer.wake();
    }

    pub(crate) fn node(&self) -> NodeId {
        *self.node.lock()
    }

    fn card(&self) -> NodeCard {
        NodeCard {
            id: self.node(),
            name: self.settings.name.clone(),
            host: hostname(),
            pid: std::process::id(),
            lease: self.settings.lease,
            definitions: self.registry.cards(),
            queues: self.served.clone(),
            rules: self.rules.clone(),
            slots: u32::try_from(self.settings.concurrency).unwrap_or(u32::MAX),
            about: self.about(),
        }
    }

    /// What people are told of this node.
    fn about(&self) -> String {
        serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "language": "rust",
            "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            "build": if cfg!(debug_assertions) { "debug" } else { "release" },
            "lease_ms": u64::try_from(self.settings.lease.as_millis()).unwrap_or(u64::MAX),
            "retention_ms": self.settings.retention.to_json(),
        })
        .to_string()
    }

    /// A free slot and the number of a claim, for a run that is started and held at once.
    pub(crate) fn try_hold(self: &Arc<Self>, code: &str, queue: &str) -> Option<(Slot, OpenClaim)> {
        if self.stop.is_cancelled()
            || self.registry.get(code).is_none()
            || !self.served().iter().any(|q| q == queue)
            || self.queues.is_managed(queue)
        {
            return None;
        }
        let slot = self.slots.take()?;
        Some((self.slot(slot), self.open_claim()))
    }

    /// A free slot and the number of a claim, for a run that is kept warm and may be woken, with the epoch that
    /// it was suspended with.
    pub(crate) fn try_wake(self: &Arc<Self>, run: RunId) -> Option<(i64, Slot, OpenClaim)> {
        if self.stop.is_cancelled() {
            return None;
        }
        let (epoch, queue) = self.warm.lock().epoch(run)?;
        if self.queues.is_managed(&queue) {
            return None;
        }
        let slot = self.slots.take()?;
        Some((epoch, self.slot(slot), self.open_claim()))
    }

    /// Begins the turn of a run that was woken and claimed in one go.
    pub(crate) async fn begin_woken(self: &Arc<Self>, mut claimed: Claimed, slot: Slot) {
        metrics::counter!("outlast_claimed_total").increment(1);
        let kept = self.warm.lock().take(claimed.id, claimed.epoch);
        match kept {
            Ok(drive) => run::go_on(self, drive, claimed, slot),
            Err(stale) => {
                drop(stale);
                // A turn that begins anew does not know what the one before it had read.
                let news = self.store.inbox(&[(claimed.id, 0)]).await;
                claimed.inbox = news.unwrap_or_default().into_iter().map(|(_, news)| news).collect();
                // If it could not be read, the next renewal brings it.
                claimed.news = claimed.inbox.last().map_or(0, |news| news.seq);
                claim::begin(self, vec![(claimed, slot)]).await;
            }
        }
    }

    /// The queues that this node takes from.
    pub(crate) fn served(&self) -> &[String] {
        &self.served
    }

    /// Those of them that have no rules.
    fn plain_queues(&self) -> Vec<String> {
        self.served.iter().filter(|queue| !self.queues.is_managed(queue)).cloned().collect()
    }

    /// A place for a run that is about to be claimed.
    fn slot(&self, permit: OwnedSemaphorePermit) -> Slot {
        Slot { permit, node: self.node() }
    }

    /// Opens a claim. Its number is the time, or a little more: whoever counts what was taken since some time finds it.
    pub(crate) fn open_claim(self: &Arc<Self>) -> OpenClaim {
        let now = self.clock.at_least();
        let mut claims = self.claims.lock();
        claims.last = now.micros().max(claims.last + 1);
        let number = claims.last;
        claims.open.insert(number);
        OpenClaim { engine: self.clone(), hold: Hold { node: self.node(), claim: number } }
    }

    /// Every claim up to this one has been answered.
    fn settled_claims(&self) -> i64 {
        let claims = self.claims.lock();
        claims.open.first().map_or(claims.last, |first| first - 1)
    }

    /// What this node knows it holds.
    fn known(&self) -> Vec<Known> {
        // A turn may want to know how many there are while it is asked what it has seen.
        let held = |(run, held): (&RunId, &Running)| (*run, held.epoch, held.who.clone());
        let mut held: Vec<(RunId, i64, Holder)> = self.running.lock().iter().map(held).collect();
        held.sort_unstable_by_key(|(run, ..)| *run);
        held.into_iter().map(|(run, epoch, who)| Known { run, epoch, seen: who.seen() }).collect()
    }

    fn each_running(&self, act: impl Fn(&Holder)) {
        let mut holders: Vec<(RunId, Holder)> =
            self.running.lock().iter().map(|(run, held)| (*run, held.who.clone())).collect();
        // One seed, one history: whoever acts on all does so in an order that does not change.
        holders.sort_unstable_by_key(|(run, _)| *run);
        holders.iter().for_each(|(_, holder)| act(holder));
    }

    /// Whether a run is in hand here: if so, its end is told without asking the database.
    pub(crate) fn has_in_hand(&self, run: RunId) -> bool {
        self.running.lock().contains_key(&run)
    }

    /// A run in hand has ended, durably. Who waits is told when its slot is free again: they may start the next.
    fn note_end(&self, run: RunId, ended: &Ended) {
        if let Some(held) = self.running.lock().get_mut(&run) {
            held.ended = Some(ended.clone());
        }
    }

    fn holder(&self, run: RunId) -> Option<Holder> {
        self.running.lock().get(&run).map(|held| held.who.clone())
    }

    /// A run in hand is to pause: it is handed back at its next boundary, and paused with that. A job finishes its
    /// attempt first.
    pub(crate) fn pause(&self, run: RunId) {
        if let Some(holder) = self.holder(run) {
            holder.stop();
        }
    }

    /// A turn is over but for its commit: another run may have its slot. As many as run at once may wait like that, so
    /// that a database which takes its time is not asked for ever more work.
    fn turn_is_over(&self, run: RunId, epoch: i64) {
        let mut running = self.running.lock();
        let held = running.get_mut(&run).filter(|held| held.epoch == epoch && held.slot.is_some());
        let Some(held) = held else { return };
        let more = |ending: usize| (ending < self.settings.concurrency).then_some(ending + 1);
        if self.ending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return;
        }
        held.is_ending = true;
        let slot = held.slot.take();
        drop(running);
        // A claim loop that waits for a slot wakes by this alone.
        drop(slot);
    }

    /// A run is no longer in hand.
    fn give_back(&self, slot: Option<Slot>, is_ending: bool) {
        drop(slot);
        self.ending.fetch_sub(usize::from(is_ending), Ordering::Relaxed);
    }

    /// How many runs in hand have a slot.
    fn busy(&self) -> usize {
        let running = self.running.lock().len();
        running.saturating_sub(self.ending.load(Ordering::Relaxed))
    }

    /// Whether as many runs are in hand as may be.
    fn is_full(&self) -> bool {
        self.busy() >= self.settings.concurrency
    }

    /// How many runs more may be taken before their time: as long as half of what may run at once is free for
    /// others. Slots say nothing about that, for a claim on its way holds as many as it can get.
    fn room(&self) -> usize {
        (self.settings.concurrency / 2).saturating_sub(self.busy())
    }

    /// Whether a run whose next timer goes off at `time` stays in hand until then: one that was taken for it does,
    /// others while there is room.
    pub(crate) fn stays_in_hand(&self, time: Timestamp, was_early: bool) -> bool {
        let left = self.clock.until(time);
        let is_soon = !self.clock.is_stopped() && !left.is_zero() && left <= claim::EARLY;
        is_soon && (was_early || self.room() > 0)
    }

    /// Something happened that may make work possible.
    pub(crate) fn nudge(&self) {
        self.work.notify_one();
    }

    /// Whether nothing is in hand and no claim is on its way: then the number of claims so far. Nothing was in
    /// hand between two looks that give the same number.
    pub(crate) fn quiet(&self) -> Option<i64> {
        self.claims_if(|running| running == 0)
    }

    /// The same where jobs that gather for a batch are not in hand yet, with when the first of them are.
    pub(crate) fn at_rest(&self) -> Option<(i64, Option<Timestamp>)> {
        let mut first = None;
        let claims = self.claims_if(|running| {
            let gather = self.batches.gather();
            first = gather.1;
            running == gather.0
        });
        let is_over = first.is_some_and(|first| self.clock.until(first).is_zero());
        claims.filter(|_| !is_over).map(|claims| (claims, first))
    }

    /// The number of claims so far, if none is on its way and so many runs are in hand.
    fn claims_if(&self, in_hand: impl FnOnce(usize) -> bool) -> Option<i64> {
        let claims = {
            let claims = self.claims.lock();
            claims.open.is_empty().then_some(claims.last)
        };
        claims.filter(|_| in_hand(self.running.lock().len()) && !self.claiming.load(Ordering::SeqCst))
    }
}

/// The queues that a node takes from: Outlast's own is among them, whatever the settings say.
fn served(settings: &Settings, registry: &Registry) -> Vec<String> {
    let mut queues = settings.queues.clone();
    if queues.is_empty() {
        return registry.queues();
    }
    if queues.iter().all(|queue| queue != bulk::QUEUE) {
        queues.push(bulk::QUEUE.to_owned());
    }
    queues
}

/// The name of this machine, which is looked up once.
fn hostname() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(look_up_hostname).clone()
}

fn look_up_hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    name.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".into())
}
