//! A store that keeps nothing: it hands out runs that were made before, and says of every commit that it is done.
//! What the engine has no reason to ask for ends the program.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use outlast::prelude::*;
use outlast_core::{Entry, Explained, NodeId, ShardCount, Status, Timestamp, Wait};
use outlast_store::{
    Access, Accessed, Address, AuditList, AuditView, Batch, ChainList, ChainPage, Claim, Claimed, Claims,
    Clock, Committed, Control, Controlled, Cursor, DefinitionCard, Definitions, Delivered, Delivery,
    DepthAsk, DepthPoint, Ended, FailureAsk, FailureGroup, Filter, Fire, Fired, GroupView, Hold, KvEntry,
    KvList, KvName, KvPage, KvWrite, KvWritten, Lines, Listen, Listened, Loaded, LogLine, LogPlace, LostNode,
    Measure, NewRun, News, Next, NodeCard, NodeView, Page, QueueCard, QueueClaim, QueueView, Reads, Renew,
    Renewed, Roll, RunKind, RunRecord, RunView, ScheduleView, SeriesAsk, SeriesPoint, SessionView, Signal,
    Started, Store, StoreError, Sweep, Swept, TableSize, TokenView, Upkeep, UserTx, VerifyMark, VerifyPage,
    Vitals,
};
use tokio::sync::{Notify, broadcast};

use crate::pure::{BEGINNING, number, run};

/// The definition that its runs have.
pub(crate) const NAME: &str = "lines";

/// A store with runs that are due, and nothing else.
pub(crate) struct Made {
    due: Mutex<VecDeque<(Claimed, Loaded)>>,
    claimed: Mutex<Vec<Loaded>>,
    unfinished: AtomicUsize,
    pub(crate) all_ended: Notify,
    clock: Clock,
    signals: broadcast::Sender<Signal>,
}

impl Made {
    pub(crate) fn new(runs: usize, steps: usize, journal: Vec<Entry>) -> Made {
        let due = (0..runs).map(|at| (claimed(run(at)), loaded(run(at), steps, journal.clone())));
        Made {
            due: Mutex::new(due.collect()),
            claimed: Mutex::new(Vec::with_capacity(runs)),
            unfinished: AtomicUsize::new(runs),
            all_ended: Notify::new(),
            clock: Clock::default(),
            signals: broadcast::Sender::new(1),
        }
    }
}

fn claimed(id: RunId) -> Claimed {
    Claimed {
        id,
        epoch: 1,
        priority: 5,
        due_at: Timestamp::from_micros(BEGINNING),
        code: outlast_store::code(NAME, 1),
        attempt: 1,
        crashes: 0,
        expires_at: None,
        news: 0,
        inbox: Vec::new(),
    }
}

fn loaded(id: RunId, steps: usize, entries: Vec<Entry>) -> Loaded {
    let record = RunRecord {
        id,
        kind: RunKind::Workflow,
        tenant: String::new(),
        definition: NAME.into(),
        version: 1,
        key: None,
        queue: "default".into(),
        priority: 5,
        created_at: Timestamp::from_micros(BEGINNING),
        input: number(steps as u64),
        owner: None,
        roles: Vec::new(),
        trace: None,
        parent: None,
    };
    Loaded { record, entries, more: false, doing: Vec::new(), unreadable: None }
}

#[async_trait]
impl Store for Made {
    async fn claim(&self, ask: &Claim) -> Result<Claims, StoreError> {
        let mut due = lock(&self.due);
        let count = due.len().min(ask.limit as usize);
        let (runs, loaded): (Vec<_>, Vec<_>) = due.drain(..count).unzip();
        lock(&self.claimed).extend(loaded);
        Ok(Claims { runs, now: self.clock.local_now(), next_due: None, is_full: false, look_again: None })
    }

    async fn commit(&self, batch: Arc<Batch>) -> Result<Vec<Committed>, StoreError> {
        // A database takes its time: others record meanwhile, and the next batch gathers.
        tokio::task::yield_now().await;
        for run in &batch.runs {
            let Some(next) = &run.next else { continue };
            let Next::Finish(Ended { status: Status::Completed, .. }) = next else {
                return not_made(&format!("a run that ends in {next:?}"));
            };
            if self.unfinished.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.all_ended.notify_one();
            }
        }
        Ok(vec![Committed::Done; batch.runs.len()])
    }

    async fn join(&self, _node: &NodeCard) -> Result<(), StoreError> {
        Ok(())
    }

    async fn leave(&self, _node: NodeId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn own(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn sweep(&self, _ask: &Sweep) -> Result<Swept, StoreError> {
        Ok(Swept::default())
    }

    fn signals(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn shards(&self) -> ShardCount {
        1
    }

    fn name(&self) -> &'static str {
        "made"
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn start(&self, _runs: &[NewRun], _hold: Option<Hold>) -> Result<Vec<Started>, StoreError> {
        not_made("start")
    }

    async fn renew(&self, _ask: &Renew) -> Result<Renewed, StoreError> {
        not_made("renew")
    }

    async fn deliver(&self, _messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        not_made("deliver")
    }

    async fn wake(
        &self,
        _message: &Delivery,
        _hold: Hold,
        _epoch: i64,
    ) -> Result<(Delivered, Option<Claimed>), StoreError> {
        not_made("wake")
    }

    async fn single_out(&self, _: NodeId, _: RunId, _: i64) -> Result<bool, StoreError> {
        not_made("single_out")
    }

    async fn listen(&self, _ask: &Listen) -> Result<Listened, StoreError> {
        not_made("listen")
    }

    async fn control(&self, _control: &Control) -> Result<Controlled, StoreError> {
        not_made("control")
    }

    async fn kv_write(&self, _writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        not_made("kv_write")
    }

    async fn claim_queue(&self, _ask: &QueueClaim) -> Result<Claims, StoreError> {
        not_made("claim_queue")
    }

    async fn fire(&self, _ask: &Fire) -> Result<Fired, StoreError> {
        not_made("fire")
    }

    async fn access(&self, _ask: &Access) -> Result<Accessed, StoreError> {
        not_made("access")
    }

    async fn roll(&self, _ask: &Roll) -> Result<u32, StoreError> {
        Ok(0)
    }

    async fn measure(&self, _ask: &Measure) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn begin(&self) -> Result<Box<dyn UserTx>, StoreError> {
        not_made("begin")
    }
}

#[async_trait]
impl Reads for Made {
    async fn load(&self, _runs: &[RunId]) -> Result<Vec<Loaded>, StoreError> {
        Ok(std::mem::take(&mut *lock(&self.claimed)))
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.local_now())
    }

    async fn journal(&self, _run: RunId, _after: u32, _limit: u32) -> Result<Vec<Entry>, StoreError> {
        not_made("journal")
    }

    async fn inbox(&self, _runs: &[(RunId, i64)]) -> Result<Vec<(RunId, News)>, StoreError> {
        not_made("inbox")
    }

    async fn run(&self, _run: RunId) -> Result<Option<RunView>, StoreError> {
        not_made("run")
    }

    async fn find(&self, _address: &Address) -> Result<Option<RunId>, StoreError> {
        not_made("find")
    }

    async fn list(&self, _filter: &Filter, _after: Option<Cursor>, _limit: u32) -> Result<Page, StoreError> {
        not_made("list")
    }

    async fn ended(&self, _runs: &[RunId]) -> Result<Vec<(RunId, Ended)>, StoreError> {
        not_made("ended")
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        not_made("next_due")
    }

    async fn lines(&self, _queues: &[String]) -> Result<Lines, StoreError> {
        not_made("lines")
    }

    async fn kv_get(&self, _name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        not_made("kv_get")
    }

    async fn kv_list(&self, _ask: &KvList) -> Result<KvPage, StoreError> {
        not_made("kv_list")
    }

    async fn logs(&self, _run: RunId, _after: LogPlace, _limit: u32) -> Result<Vec<LogLine>, StoreError> {
        not_made("logs")
    }

    async fn log_end(&self, _run: RunId) -> Result<LogPlace, StoreError> {
        not_made("log_end")
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        not_made("nodes")
    }

    async fn definitions(&self) -> Result<Vec<DefinitionCard>, StoreError> {
        not_made("definitions")
    }

    async fn queues(&self) -> Result<Vec<QueueCard>, StoreError> {
        Ok(Vec::new())
    }

    async fn schedules_due(
        &self,
        _skip: u32,
        _limit: u32,
    ) -> Result<(Vec<ScheduleView>, Option<Timestamp>), StoreError> {
        Ok((Vec::new(), None))
    }

    async fn count(&self, _filter: &Filter, _cap: u32) -> Result<u64, StoreError> {
        not_made("count")
    }

    async fn lost_nodes(&self) -> Result<Vec<LostNode>, StoreError> {
        not_made("lost_nodes")
    }

    async fn queue_views(&self) -> Result<Vec<QueueView>, StoreError> {
        not_made("queue_views")
    }

    async fn schedules(&self) -> Result<Vec<ScheduleView>, StoreError> {
        not_made("schedules")
    }

    async fn explain(&self, _run: RunId) -> Result<Option<Explained>, StoreError> {
        not_made("explain")
    }

    async fn verify(&self, _from: VerifyMark, _limit: u32) -> Result<VerifyPage, StoreError> {
        not_made("verify")
    }

    async fn series(&self, _ask: &SeriesAsk) -> Result<Vec<SeriesPoint>, StoreError> {
        not_made("series")
    }

    async fn failures(&self, _ask: &FailureAsk) -> Result<Vec<FailureGroup>, StoreError> {
        not_made("failures")
    }

    async fn depths(&self, _ask: &DepthAsk) -> Result<Vec<DepthPoint>, StoreError> {
        not_made("depths")
    }

    async fn session(&self, _hash: &[u8]) -> Result<Option<SessionView>, StoreError> {
        not_made("session")
    }

    async fn token(&self, _hash: &[u8]) -> Result<Option<TokenView>, StoreError> {
        not_made("token")
    }

    async fn tokens(&self) -> Result<Vec<TokenView>, StoreError> {
        not_made("tokens")
    }

    async fn audit(&self, _ask: &AuditList) -> Result<Vec<AuditView>, StoreError> {
        not_made("audit")
    }

    async fn audit_chain(&self, _ask: ChainList) -> Result<ChainPage, StoreError> {
        not_made("audit_chain")
    }

    async fn waited_for(&self, _runs: &[RunView]) -> Result<HashMap<RunId, Wait>, StoreError> {
        not_made("waited_for")
    }

    async fn queue_groups(&self, _queue: &str, _limit: u32) -> Result<Vec<GroupView>, StoreError> {
        not_made("queue_groups")
    }

    async fn oldest_ended(
        &self,
        _status: Status,
        _of: &Definitions,
    ) -> Result<Option<Timestamp>, StoreError> {
        not_made("oldest_ended")
    }

    async fn upkeep(&self) -> Result<Upkeep, StoreError> {
        not_made("upkeep")
    }

    async fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError> {
        not_made("table_sizes")
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        not_made("vitals")
    }
}

/// The engine asks for something that was not made for it. It would try for ever, and nobody would hear of it.
fn not_made<T>(what: &str) -> T {
    eprintln!("the engine asks for what the store of this measurement does not have: {what}");
    std::process::exit(1);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
