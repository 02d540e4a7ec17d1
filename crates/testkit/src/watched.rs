//! A store that somebody watches: how often it was asked for what and when, and what happens to whoever asks
//! while the database is away or slow to give.
//!
//! It stands before a real store and changes nothing of what that does. Under tokio's paused clock
//! (`start_paused`) time passes only when everybody waits, and a call in the store counts as work: so minutes
//! pass in a moment, and no timer goes off because a database took its time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use async_trait::async_trait;
use outlast_core::{Entry, Explained, NodeId, RunId, ShardCount, Status, Timestamp, Wait};
use outlast_store::{
    Access, Accessed, Address, AuditList, AuditView, Batch, ChainList, ChainPage, Claim, Claimed, Claims,
    Clock, Committed, Control, Controlled, Cursor, DefinitionCard, Definitions, Delivered, Delivery,
    DepthAsk, DepthPoint, DynStore, Ended, FailureAsk, FailureGroup, Filter, Fire, Fired, GroupView, Hold,
    KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten, Listen, Listened, Loaded, LogLine, LostNode,
    Measure, NewRun, News, NodeCard, NodeView, Page, PoolUse, QueueCard, QueueClaim, QueueView, Reads, Renew,
    Renewed, Roll, RunView, ScheduleView, SeriesAsk, SeriesPoint, SessionView, Signal, Started, Store,
    StoreError, Sweep, Swept, TableSize, TokenView, Upkeep, UserTx, VerifyMark, VerifyPage, Vitals,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::death::{Death, Life, MortalTx};

/// Whoever asks more often is in a loop that never ends, and time that waits for it would never pass.
const MOST_CALLS: usize = 10_000;

/// A real store, and what was asked of it.
pub struct Watched {
    store: DynStore,
    name: &'static str,
    asked: Mutex<Vec<(&'static str, Instant)>>,
    is_away: AtomicBool,
    is_locked: AtomicBool,
    is_deaf: AtomicBool,
    /// Of which calls the next replies get lost, and how many.
    lost_replies: Mutex<HashMap<&'static str, u32>>,
    /// What is heard instead of the store's hints, once somebody wants it so.
    hints: OnceLock<broadcast::Sender<Signal>>,
    /// Who wants to hold the next answer about what is due.
    holds_next_due: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold the next runs that are loaded.
    holds_load: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold the next answer to a renewal.
    holds_renew: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold the next answer to a write of a value.
    holds_kv_write: Mutex<Option<HeldAnswer>>,
    /// Who wants to hold what people ask.
    holds_controls: Mutex<Option<HeldControls>>,
    seen: Mutex<HashMap<RunId, i64>>,
    /// Of the process that asks, which may be told to die at one of its writes.
    life: Arc<Life>,
}

/// The store has its answer; whoever asked gets it when they are let.
#[derive(Debug, Clone, Default)]
pub struct HeldAnswer {
    /// The answer is there.
    pub there: Arc<Notify>,
    /// It may go.
    pub go: Arc<Notify>,
}

/// What people ask does not reach the store until it is let.
#[derive(Debug, Clone)]
pub struct HeldControls {
    /// How many are let through first.
    left: Arc<Mutex<usize>>,
    waiting: Arc<watch::Sender<usize>>,
    is_open: Arc<watch::Sender<bool>>,
}

impl HeldControls {
    /// Until so many wait.
    pub async fn until_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|waiting| *waiting >= count).await.expect("its sender is here");
    }

    /// Lets all of them go, and those that come later.
    pub fn let_go(&self) {
        self.is_open.send_replace(true);
    }

    async fn pass(&self) {
        let is_let = {
            let mut left = self.left.lock();
            let is_let = *left > 0;
            *left = left.saturating_sub(1);
            is_let
        };
        if !is_let {
            self.waiting.send_modify(|waiting| *waiting += 1);
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.expect("its sender is here");
        }
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Watched {
    /// Watches `store`.
    pub fn over(store: DynStore) -> Arc<Watched> {
        let name = store.name();
        Watched::called(name, store)
    }

    /// The same under the name of another database: engines share one that is not SQLite's with others.
    pub fn called(name: &'static str, store: DynStore) -> Arc<Watched> {
        Arc::new(Watched {
            store,
            name,
            asked: Mutex::default(),
            is_away: AtomicBool::new(false),
            is_locked: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            lost_replies: Mutex::default(),
            hints: OnceLock::new(),
            holds_next_due: Mutex::default(),
            holds_load: Mutex::default(),
            holds_renew: Mutex::default(),
            holds_kv_write: Mutex::default(),
            holds_controls: Mutex::default(),
            seen: Mutex::default(),
            life: Arc::default(),
        })
    }

    /// How much of a run's inbox whoever has it knew when it asked for more last.
    pub fn seen(&self, run: RunId) -> i64 {
        self.seen.lock().get(&run).copied().unwrap_or_default()
    }

    /// When `call` was made, in order, whatever became of it.
    pub fn times(&self, call: &str) -> Vec<Instant> {
        let asked = self.asked.lock();
        asked.iter().filter(|(name, _)| *name == call).map(|(_, at)| *at).collect()
    }

    /// How often `call` was made.
    pub fn count(&self, call: &str) -> usize {
        self.times(call).len()
    }

    /// From now on, until it comes back, the database cannot be reached.
    pub fn goes_away(&self) {
        self.is_away.store(true, Ordering::SeqCst);
    }

    /// It can be reached again.
    pub fn comes_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    /// The connection is cut after the next `count` of these calls: each happens, and nobody hears so.
    pub fn lose_replies(&self, call: &'static str, count: u32) {
        self.lost_replies.lock().insert(call, count);
    }

    /// Whether somebody's transaction holds all that is due: claims find nothing and say that something is.
    pub fn lock_what_is_due(&self, locked: bool) {
        self.is_locked.store(locked, Ordering::SeqCst);
    }

    /// Holds the next answer about what is due.
    pub fn hold_next_due(&self) -> HeldAnswer {
        self.holds_next_due.lock().insert(HeldAnswer::default()).clone()
    }

    /// Holds the next runs that are loaded.
    pub fn hold_load(&self) -> HeldAnswer {
        self.holds_load.lock().insert(HeldAnswer::default()).clone()
    }

    /// Holds the next answer to a renewal, which has happened then.
    pub fn hold_renew(&self) -> HeldAnswer {
        self.holds_renew.lock().insert(HeldAnswer::default()).clone()
    }

    /// Holds the next answer to a write of a value, which has happened then.
    pub fn hold_kv_write(&self) -> HeldAnswer {
        self.holds_kv_write.lock().insert(HeldAnswer::default()).clone()
    }

    /// Lets the next `first` through of what people ask, and holds all others before they reach the store.
    pub fn hold_controls(&self, first: usize) -> HeldControls {
        let held = HeldControls {
            left: Arc::new(Mutex::new(first)),
            waiting: Arc::default(),
            is_open: Arc::default(),
        };
        self.holds_controls.lock().insert(held).clone()
    }

    /// Whether it is known that hints of other processes do not arrive.
    pub fn is_deaf(&self, deaf: bool) {
        self.is_deaf.store(deaf, Ordering::SeqCst);
    }

    /// All hints get lost, and whoever begins to listen hears what is sent here.
    pub fn hints(&self) -> &broadcast::Sender<Signal> {
        self.hints.get_or_init(|| broadcast::Sender::new(16))
    }

    /// The process that asks through this dies at one of its writes.
    pub fn dies(&self, death: Death) {
        self.life.end_at(death);
    }

    /// Waits until the process has died, if it was told to.
    pub async fn died(&self) {
        self.life.over().await;
    }

    /// Whether it has: then it does nothing more.
    pub fn is_dead(&self) -> bool {
        self.life.is_over()
    }

    /// Waits until the process has died and what it sent before is through: a database goes on with what reached it.
    pub async fn settled(&self) {
        self.life.settled().await;
    }

    /// Nobody is left who could act on an answer: the calls of the dead end.
    pub fn bury(&self) {
        self.life.bury();
    }

    /// Notes a call and lets it through if the database is there. Time stands still until the answer.
    fn ask(&self, call: &'static str) -> Result<TimeStands, StoreError> {
        let count = {
            let mut asked = self.asked.lock();
            asked.push((call, Instant::now()));
            asked.len()
        };
        assert!(count <= MOST_CALLS, "{call}: the store was asked {count} times");
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("it is away".into())),
            false => Ok(TimeStands::still()),
        }
    }

    /// The answer to a call, if it arrives.
    fn reply<T>(&self, call: &str, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match self.lost_replies.lock().get_mut(call) {
            Some(left @ 1..) => {
                *left -= 1;
                Err(StoreError::Unavailable("the reply got lost".into()))
            }
            _ => answer,
        }
    }
}

/// Waits until whoever holds an answer lets it go.
async fn held(holds: &Mutex<Option<HeldAnswer>>) {
    let held = holds.lock().take();
    if let Some(held) = held {
        held.there.notify_one();
        held.go.notified().await;
    }
}

/// A paused clock does not move while this lives: tokio takes it for work on another thread.
struct TimeStands(#[allow(dead_code, reason = "held for its drop")] mpsc::Sender<()>);

impl TimeStands {
    fn still() -> TimeStands {
        let (open, closed) = mpsc::channel::<()>();
        spawn_blocking(move || closed.recv());
        TimeStands(open)
    }
}

/// Calls that are passed on as they are.
macro_rules! pass_on {
    ($watched:ident . $call:ident ( $($arg:expr),* )) => {
        pass_on!($watched.$call($($arg),*), |_| false)
    };
    ($watched:ident . $call:ident ( $($arg:expr),* ), $wrote:expr) => {{
        let _time = $watched.ask(stringify!($call))?;
        let sent = $watched.life.sends().await?;
        let answer = $watched.store.$call($($arg),*).await;
        drop(sent);
        $watched.life.ends(answer.as_ref().is_ok_and($wrote)).await?;
        $watched.reply(stringify!($call), answer)
    }};
}

/// The same for those that write, whatever the answer.
macro_rules! pass_on_write {
    ($watched:ident . $call:ident ( $($arg:expr),* )) => {{
        $watched.life.begins_write().await?;
        pass_on!($watched.$call($($arg),*), |_| true)
    }};
}

#[async_trait]
impl Store for Watched {
    async fn join(&self, node: &NodeCard) -> Result<(), StoreError> {
        pass_on_write!(self.join(node))
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        pass_on_write!(self.leave(node))
    }

    async fn start(&self, runs: &[NewRun], hold: Option<Hold>) -> Result<Vec<Started>, StoreError> {
        pass_on_write!(self.start(runs, hold))
    }

    async fn claim(&self, ask: &Claim) -> Result<Claims, StoreError> {
        if self.is_locked.load(Ordering::SeqCst) {
            let _time = self.ask("claim")?;
            let now = self.store.now().await?;
            return Ok(Claims { now, next_due: Some(now), ..Claims::default() });
        }
        pass_on!(self.claim(ask), |claims| !claims.runs.is_empty())
    }

    async fn claim_queue(&self, ask: &QueueClaim) -> Result<Claims, StoreError> {
        pass_on!(self.claim_queue(ask), |claims| !claims.runs.is_empty())
    }

    async fn commit(&self, batch: Arc<Batch>) -> Result<Vec<Committed>, StoreError> {
        pass_on_write!(self.commit(batch))
    }

    async fn renew(&self, ask: &Renew) -> Result<Renewed, StoreError> {
        let answer = pass_on!(self.renew(ask));
        held(&self.holds_renew).await;
        answer
    }

    async fn single_out(&self, node: NodeId, run: RunId, epoch: i64) -> Result<bool, StoreError> {
        pass_on_write!(self.single_out(node, run, epoch))
    }

    async fn deliver(&self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        pass_on_write!(self.deliver(messages))
    }

    async fn wake(
        &self,
        message: &Delivery,
        hold: Hold,
        epoch: i64,
    ) -> Result<(Delivered, Option<Claimed>), StoreError> {
        pass_on_write!(self.wake(message, hold, epoch))
    }

    async fn listen(&self, ask: &Listen) -> Result<Listened, StoreError> {
        pass_on_write!(self.listen(ask))
    }

    async fn control(&self, control: &Control) -> Result<Controlled, StoreError> {
        let held = self.holds_controls.lock().clone();
        if let Some(held) = held {
            held.pass().await;
        }
        pass_on_write!(self.control(control))
    }

    async fn fire(&self, ask: &Fire) -> Result<Fired, StoreError> {
        pass_on_write!(self.fire(ask))
    }

    async fn kv_write(&self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        let answer = pass_on_write!(self.kv_write(writes));
        held(&self.holds_kv_write).await;
        answer
    }

    async fn access(&self, ask: &Access) -> Result<Accessed, StoreError> {
        pass_on_write!(self.access(ask))
    }

    async fn measure(&self, ask: &Measure) -> Result<bool, StoreError> {
        pass_on_write!(self.measure(ask))
    }

    async fn roll(&self, ask: &Roll) -> Result<u32, StoreError> {
        pass_on_write!(self.roll(ask))
    }

    async fn sweep(&self, ask: &Sweep) -> Result<Swept, StoreError> {
        pass_on!(self.sweep(ask), |swept| swept.freed > 0)
    }

    async fn begin(&self) -> Result<Box<dyn UserTx>, StoreError> {
        let tx = pass_on!(self.begin())?;
        Ok(Box::new(MortalTx { tx, life: self.life.clone() }))
    }

    fn signals(&self) -> broadcast::Receiver<Signal> {
        self.hints.get().map_or_else(|| self.store.signals(), broadcast::Sender::subscribe)
    }

    fn hears_others(&self) -> bool {
        !self.is_deaf.load(Ordering::SeqCst) && self.store.hears_others()
    }

    fn pool(&self) -> Option<PoolUse> {
        self.store.pool()
    }

    fn clock(&self) -> &Clock {
        self.store.clock()
    }

    fn shards(&self) -> ShardCount {
        self.store.shards()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn is_shared(&self) -> bool {
        self.name != "sqlite"
    }

    async fn own(&self) -> Result<(), StoreError> {
        pass_on!(self.own())
    }
}

#[async_trait]
impl Reads for Watched {
    async fn load(&self, runs: &[RunId]) -> Result<Vec<Loaded>, StoreError> {
        let answer = pass_on!(self.load(runs));
        held(&self.holds_load).await;
        answer
    }

    async fn journal(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        pass_on!(self.journal(run, after, limit))
    }

    async fn inbox(&self, runs: &[(RunId, i64)]) -> Result<Vec<(RunId, News)>, StoreError> {
        self.seen.lock().extend(runs.iter().copied());
        pass_on!(self.inbox(runs))
    }

    async fn run(&self, run: RunId) -> Result<Option<RunView>, StoreError> {
        pass_on!(self.run(run))
    }

    async fn find(&self, address: &Address) -> Result<Option<RunId>, StoreError> {
        pass_on!(self.find(address))
    }

    async fn list(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        pass_on!(self.list(filter, after, limit))
    }

    async fn count(&self, filter: &Filter, cap: u32) -> Result<u64, StoreError> {
        pass_on!(self.count(filter, cap))
    }

    async fn ended(&self, runs: &[RunId]) -> Result<Vec<(RunId, Ended)>, StoreError> {
        pass_on!(self.ended(runs))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let answer = pass_on!(self.next_due());
        held(&self.holds_next_due).await;
        answer
    }

    async fn logs(&self, run: RunId, limit: u32) -> Result<Vec<LogLine>, StoreError> {
        pass_on!(self.logs(run, limit))
    }

    async fn kv_get(&self, name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        pass_on!(self.kv_get(name))
    }

    async fn kv_list(&self, ask: &KvList) -> Result<KvPage, StoreError> {
        pass_on!(self.kv_list(ask))
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        pass_on!(self.nodes())
    }

    async fn lost_nodes(&self) -> Result<Vec<LostNode>, StoreError> {
        pass_on!(self.lost_nodes())
    }

    async fn definitions(&self) -> Result<Vec<DefinitionCard>, StoreError> {
        pass_on!(self.definitions())
    }

    async fn queues(&self) -> Result<Vec<QueueCard>, StoreError> {
        pass_on!(self.queues())
    }

    async fn queue_views(&self) -> Result<Vec<QueueView>, StoreError> {
        pass_on!(self.queue_views())
    }

    async fn schedules(&self) -> Result<Vec<ScheduleView>, StoreError> {
        pass_on!(self.schedules())
    }

    async fn schedules_due(
        &self,
        skip: u32,
        limit: u32,
    ) -> Result<(Vec<ScheduleView>, Option<Timestamp>), StoreError> {
        pass_on!(self.schedules_due(skip, limit))
    }

    async fn explain(&self, run: RunId) -> Result<Option<Explained>, StoreError> {
        pass_on!(self.explain(run))
    }

    async fn verify(&self, from: VerifyMark, limit: u32) -> Result<VerifyPage, StoreError> {
        pass_on!(self.verify(from, limit))
    }

    async fn series(&self, ask: &SeriesAsk) -> Result<Vec<SeriesPoint>, StoreError> {
        pass_on!(self.series(ask))
    }

    async fn failures(&self, ask: &FailureAsk) -> Result<Vec<FailureGroup>, StoreError> {
        pass_on!(self.failures(ask))
    }

    async fn depths(&self, ask: &DepthAsk) -> Result<Vec<DepthPoint>, StoreError> {
        pass_on!(self.depths(ask))
    }

    async fn session(&self, hash: &[u8]) -> Result<Option<SessionView>, StoreError> {
        pass_on!(self.session(hash))
    }

    async fn token(&self, hash: &[u8]) -> Result<Option<TokenView>, StoreError> {
        pass_on!(self.token(hash))
    }

    async fn tokens(&self) -> Result<Vec<TokenView>, StoreError> {
        pass_on!(self.tokens())
    }

    async fn audit(&self, ask: &AuditList) -> Result<Vec<AuditView>, StoreError> {
        pass_on!(self.audit(ask))
    }

    async fn audit_chain(&self, ask: ChainList) -> Result<ChainPage, StoreError> {
        pass_on!(self.audit_chain(ask))
    }

    async fn waited_for(&self, runs: &[RunView]) -> Result<HashMap<RunId, Wait>, StoreError> {
        pass_on!(self.waited_for(runs))
    }

    async fn queue_groups(&self, queue: &str, limit: u32) -> Result<Vec<GroupView>, StoreError> {
        pass_on!(self.queue_groups(queue, limit))
    }

    async fn oldest_ended(&self, status: Status, of: &Definitions) -> Result<Option<Timestamp>, StoreError> {
        pass_on!(self.oldest_ended(status, of))
    }

    async fn upkeep(&self) -> Result<Upkeep, StoreError> {
        pass_on!(self.upkeep())
    }

    async fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError> {
        pass_on!(self.table_sizes())
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        pass_on!(self.vitals())
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        pass_on!(self.now())
    }
}
