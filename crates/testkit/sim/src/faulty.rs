//! The seam with the weather in between: every call of the store goes the [`Way`] of its node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outlast_core::{Entry, Explained, NodeId, RunId, ShardCount, Status, Timestamp, Wait};
use outlast_store::{
    Access, Accessed, Address, AuditList, AuditView, Batch, ChainList, ChainPage, Claim, Claimed, Claims,
    Clock, Committed, Control, Controlled, Cursor, DefinitionCard, Definitions, Delivered, Delivery,
    DepthAsk, DepthPoint, DynStore, Ended, FailureAsk, FailureGroup, Filter, Fire, Fired, GroupView, Hold,
    KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten, Lines, Listen, Listened, Loaded, LogLine, LogPlace,
    LostNode, Measure, NewRun, News, NodeCard, NodeView, Page, QueueCard, QueueClaim, QueueView, Reads,
    Renew, Renewed, Roll, RunView, ScheduleView, SeriesAsk, SeriesPoint, SessionView, Signal, Started, Store,
    StoreError, Sweep, Swept, TableSize, TokenView, TurnEnd, Upkeep, UserTx, Value, ValueRow, VerifyMark,
    VerifyPage, Vitals,
};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::faults::{Fault, Way};

/// The store of one node.
pub(crate) struct Faulty {
    pub(crate) store: DynStore,
    pub(crate) way: Way,
    /// The node's own clock.
    pub(crate) clock: Clock,
    /// Hints do not reach this node.
    pub(crate) deaf: bool,
}

/// How many hints a node may be behind.
const HINTS: usize = 256;
/// How long hints are on their way, in microseconds: what comes meanwhile goes with them.
const HINT_TAKES: u64 = 80_000;

impl Faulty {
    /// Carries hints to this node: late, together, and not all of them.
    async fn carry(mut from: broadcast::Receiver<Signal>, to: broadcast::Sender<Signal>, way: Way) {
        while let Ok(first) = from.recv().await.or_else(missed) {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(100..HINT_TAKES))).await;
            let mut hints = vec![first];
            while let Ok(hint) = from.try_recv() {
                if !hints.contains(&hint) {
                    hints.push(hint);
                }
            }
            for hint in hints {
                match fastrand::u8(..16) {
                    0 if !way.weather.healed.is_cancelled() => way.weather.hit(Fault::LostHint),
                    // An error only says that nobody listens.
                    _ => drop(to.send(hint)),
                }
            }
        }
    }
}

/// Whoever missed hints is told that anything may have happened.
fn missed(error: RecvError) -> Result<Signal, RecvError> {
    match error {
        RecvError::Lagged(_) => Ok(Signal::Anything),
        RecvError::Closed => Err(error),
    }
}

#[async_trait]
impl Store for Faulty {
    async fn join(&self, node: &NodeCard) -> Result<(), StoreError> {
        self.way.call("join", || self.store.join(node)).await
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.way.call("leave", || self.store.leave(node)).await
    }

    async fn start(&self, runs: &[NewRun], hold: Option<Hold>) -> Result<Vec<Started>, StoreError> {
        self.way.call("start", || self.store.start(runs, hold)).await
    }

    async fn claim(&self, ask: &Claim) -> Result<Claims, StoreError> {
        self.way.call("claim", || self.store.claim(ask)).await
    }

    async fn claim_queue(&self, ask: &QueueClaim) -> Result<Claims, StoreError> {
        self.way.call("claim_queue", || self.store.claim_queue(ask)).await
    }

    async fn commit(&self, batch: Arc<Batch>) -> Result<Vec<Committed>, StoreError> {
        self.way.call("commit", || self.store.commit(batch.clone())).await
    }

    async fn renew(&self, ask: &Renew) -> Result<Renewed, StoreError> {
        self.way.call("renew", || self.store.renew(ask)).await
    }

    async fn single_out(&self, node: NodeId, run: RunId, epoch: i64) -> Result<bool, StoreError> {
        self.way.call("single_out", || self.store.single_out(node, run, epoch)).await
    }

    async fn deliver(&self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        self.way.call("deliver", || self.store.deliver(messages)).await
    }

    async fn wake(
        &self,
        message: &Delivery,
        hold: Hold,
        epoch: i64,
    ) -> Result<(Delivered, Option<Claimed>), StoreError> {
        self.way.call("wake", || self.store.wake(message, hold, epoch)).await
    }

    async fn listen(&self, ask: &Listen) -> Result<Listened, StoreError> {
        self.way.call("listen", || self.store.listen(ask)).await
    }

    async fn control(&self, control: &Control) -> Result<Controlled, StoreError> {
        self.way.call("control", || self.store.control(control)).await
    }

    async fn fire(&self, ask: &Fire) -> Result<Fired, StoreError> {
        self.way.call("fire", || self.store.fire(ask)).await
    }

    async fn kv_write(&self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        self.way.call("kv_write", || self.store.kv_write(writes)).await
    }

    async fn access(&self, ask: &Access) -> Result<Accessed, StoreError> {
        self.way.call("access", || self.store.access(ask)).await
    }

    async fn measure(&self, ask: &Measure) -> Result<bool, StoreError> {
        self.way.call("measure", || self.store.measure(ask)).await
    }

    async fn roll(&self, ask: &Roll) -> Result<u32, StoreError> {
        self.way.call("roll", || self.store.roll(ask)).await
    }

    async fn sweep(&self, ask: &Sweep) -> Result<Swept, StoreError> {
        self.way.call("sweep", || self.store.sweep(ask)).await
    }

    async fn begin(&self) -> Result<Box<dyn UserTx>, StoreError> {
        let tx = self.way.call_once("begin", self.store.begin()).await?;
        Ok(Box::new(FaultyTx { tx, way: self.way.clone() }))
    }

    fn signals(&self) -> broadcast::Receiver<Signal> {
        let (to, receiver) = broadcast::channel(HINTS);
        match self.deaf {
            // Kept open, and never used.
            true => drop(tokio::spawn(async move {
                let _to = to;
                std::future::pending::<()>().await;
            })),
            false => {
                let carry = Faulty::carry(self.store.signals(), to, self.way.clone());
                tokio::spawn(self.way.process.of(carry));
            }
        }
        receiver
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn shards(&self) -> ShardCount {
        self.store.shards()
    }

    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    async fn own(&self) -> Result<(), StoreError> {
        self.store.own().await
    }
}

#[async_trait]
impl Reads for Faulty {
    async fn load(&self, runs: &[RunId]) -> Result<Vec<Loaded>, StoreError> {
        self.way.call("load", || self.store.load(runs)).await
    }

    async fn journal(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        self.way.call("journal", || self.store.journal(run, after, limit)).await
    }

    async fn inbox(&self, runs: &[(RunId, i64)]) -> Result<Vec<(RunId, News)>, StoreError> {
        self.way.call("inbox", || self.store.inbox(runs)).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunView>, StoreError> {
        self.way.call("run", || self.store.run(run)).await
    }

    async fn find(&self, address: &Address) -> Result<Option<RunId>, StoreError> {
        self.way.call("find", || self.store.find(address)).await
    }

    async fn list(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.way.call("list", || self.store.list(filter, after, limit)).await
    }

    async fn count(&self, filter: &Filter, cap: u32) -> Result<u64, StoreError> {
        self.way.call("count", || self.store.count(filter, cap)).await
    }

    async fn ended(&self, runs: &[RunId]) -> Result<Vec<(RunId, Ended)>, StoreError> {
        self.way.call("ended", || self.store.ended(runs)).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.way.call("next_due", || self.store.next_due()).await
    }

    async fn lines(&self, queues: &[String]) -> Result<Lines, StoreError> {
        self.way.call("lines", || self.store.lines(queues)).await
    }

    async fn logs(&self, run: RunId, after: LogPlace, limit: u32) -> Result<Vec<LogLine>, StoreError> {
        self.way.call("logs", || self.store.logs(run, after, limit)).await
    }

    async fn log_end(&self, run: RunId) -> Result<LogPlace, StoreError> {
        self.way.call("log_end", || self.store.log_end(run)).await
    }

    async fn kv_get(&self, name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        self.way.call("kv_get", || self.store.kv_get(name)).await
    }

    async fn kv_list(&self, ask: &KvList) -> Result<KvPage, StoreError> {
        self.way.call("kv_list", || self.store.kv_list(ask)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        self.way.call("nodes", || self.store.nodes()).await
    }

    async fn lost_nodes(&self) -> Result<Vec<LostNode>, StoreError> {
        self.way.call("lost_nodes", || self.store.lost_nodes()).await
    }

    async fn definitions(&self) -> Result<Vec<DefinitionCard>, StoreError> {
        self.way.call("definitions", || self.store.definitions()).await
    }

    async fn queues(&self) -> Result<Vec<QueueCard>, StoreError> {
        self.way.call("queues", || self.store.queues()).await
    }

    async fn queue_views(&self) -> Result<Vec<QueueView>, StoreError> {
        self.way.call("queue_views", || self.store.queue_views()).await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleView>, StoreError> {
        self.way.call("schedules", || self.store.schedules()).await
    }

    async fn schedules_due(
        &self,
        skip: u32,
        limit: u32,
    ) -> Result<(Vec<ScheduleView>, Option<Timestamp>), StoreError> {
        self.way.call("schedules_due", || self.store.schedules_due(skip, limit)).await
    }

    async fn explain(&self, run: RunId) -> Result<Option<Explained>, StoreError> {
        self.way.call("explain", || self.store.explain(run)).await
    }

    async fn verify(&self, from: VerifyMark, limit: u32) -> Result<VerifyPage, StoreError> {
        self.way.call("verify", || self.store.verify(from, limit)).await
    }

    async fn series(&self, ask: &SeriesAsk) -> Result<Vec<SeriesPoint>, StoreError> {
        self.way.call("series", || self.store.series(ask)).await
    }

    async fn failures(&self, ask: &FailureAsk) -> Result<Vec<FailureGroup>, StoreError> {
        self.way.call("failures", || self.store.failures(ask)).await
    }

    async fn depths(&self, ask: &DepthAsk) -> Result<Vec<DepthPoint>, StoreError> {
        self.way.call("depths", || self.store.depths(ask)).await
    }

    async fn session(&self, hash: &[u8]) -> Result<Option<SessionView>, StoreError> {
        self.way.call("session", || self.store.session(hash)).await
    }

    async fn token(&self, hash: &[u8]) -> Result<Option<TokenView>, StoreError> {
        self.way.call("token", || self.store.token(hash)).await
    }

    async fn tokens(&self) -> Result<Vec<TokenView>, StoreError> {
        self.way.call("tokens", || self.store.tokens()).await
    }

    async fn audit(&self, ask: &AuditList) -> Result<Vec<AuditView>, StoreError> {
        self.way.call("audit", || self.store.audit(ask)).await
    }

    async fn audit_chain(&self, ask: ChainList) -> Result<ChainPage, StoreError> {
        self.way.call("audit_chain", || self.store.audit_chain(ask)).await
    }

    async fn waited_for(&self, runs: &[RunView]) -> Result<HashMap<RunId, Wait>, StoreError> {
        self.way.call("waited_for", || self.store.waited_for(runs)).await
    }

    async fn queue_groups(&self, queue: &str, limit: u32) -> Result<Vec<GroupView>, StoreError> {
        self.way.call("queue_groups", || self.store.queue_groups(queue, limit)).await
    }

    async fn oldest_ended(&self, status: Status, of: &Definitions) -> Result<Option<Timestamp>, StoreError> {
        self.way.call("oldest_ended", || self.store.oldest_ended(status, of)).await
    }

    async fn upkeep(&self) -> Result<Upkeep, StoreError> {
        self.way.call("upkeep", || self.store.upkeep()).await
    }

    async fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError> {
        self.way.call("table_sizes", || self.store.table_sizes()).await
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        self.way.call("vitals", || self.store.vitals()).await
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.way.call("now", || self.store.now()).await
    }
}

/// A user's transaction of one node. A lost connection takes it along; a lost reply to its commit does not.
struct FaultyTx {
    tx: Box<dyn UserTx>,
    way: Way,
}

#[async_trait]
impl UserTx for FaultyTx {
    async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.execute", tx.execute(sql, params)).await
    }

    async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<ValueRow>, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.query", tx.query(sql, params)).await
    }

    async fn start(&mut self, runs: &[NewRun]) -> Result<Vec<Started>, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.start", tx.start(runs)).await
    }

    async fn deliver(&mut self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.deliver", tx.deliver(messages)).await
    }

    async fn control(&mut self, control: &Control) -> Result<Controlled, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.control", tx.control(control)).await
    }

    async fn kv_write(&mut self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.kv_write", tx.kv_write(writes)).await
    }

    async fn kv_get(&mut self, name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.kv_get", tx.kv_get(name)).await
    }

    async fn kv_list(&mut self, ask: &KvList) -> Result<KvPage, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.kv_list", tx.kv_list(ask)).await
    }

    async fn record(
        &mut self,
        node: NodeId,
        run: RunId,
        epoch: i64,
        entry: &Entry,
    ) -> Result<Committed, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.record", tx.record(node, run, epoch, entry)).await
    }

    async fn end(&mut self, turn: &TurnEnd) -> Result<Committed, StoreError> {
        let FaultyTx { tx, way } = self;
        way.call_once("tx.end", tx.end(turn)).await
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let FaultyTx { tx, way } = *self;
        way.call_once("tx.commit", tx.commit()).await
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        let FaultyTx { tx, way } = *self;
        way.call_once("tx.rollback", tx.rollback()).await
    }
}
