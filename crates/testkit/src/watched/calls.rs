//! Everything that a store can be asked, noted and passed on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use outlast_core::{Entry, Explained, NodeId, RunId, ShardCount, Status, Timestamp, Wait};
use outlast_store::{
    Access, Accessed, Address, AuditList, AuditView, Batch, ChainList, ChainPage, Claim, Claimed, Claims,
    Clock, Committed, Control, Controlled, Cursor, DefinitionCard, Definitions, Delivered, Delivery,
    DepthAsk, DepthPoint, Ended, FailureAsk, FailureGroup, Filter, Fire, Fired, GroupView, Hold, KvEntry,
    KvList, KvName, KvPage, KvWrite, KvWritten, Lines, Listen, Listened, Loaded, LogLine, LogPlace, LostNode,
    Measure, NewRun, News, NodeCard, NodeView, Page, PoolUse, QueueCard, QueueClaim, QueueView, Reads, Renew,
    Renewed, Roll, RunView, ScheduleView, SeriesAsk, SeriesPoint, SessionView, Signal, Started, Store,
    StoreError, Sweep, Swept, TableSize, TokenView, Upkeep, UserTx, VerifyMark, VerifyPage, Vitals,
};
use tokio::sync::broadcast;

use super::{Watched, held, pass};
use crate::death::MortalTx;

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
        let answer = pass_on!(self.claim(ask), |claims| !claims.runs.is_empty());
        held(&self.holds_claim).await;
        answer
    }

    async fn claim_queue(&self, ask: &QueueClaim) -> Result<Claims, StoreError> {
        pass_on!(self.claim_queue(ask), |claims| !claims.runs.is_empty())
    }

    async fn commit(&self, batch: Arc<Batch>) -> Result<Vec<Committed>, StoreError> {
        pass(&self.holds_commits).await;
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
        pass(&self.holds_controls).await;
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
        if ask.only_orphans {
            // Among the sweeps too: what is left are those that do everything.
            let _time = self.ask("orphans")?;
        }
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

    async fn lines(&self, queues: &[String]) -> Result<Lines, StoreError> {
        pass_on!(self.lines(queues))
    }

    async fn logs(&self, run: RunId, after: LogPlace, limit: u32) -> Result<Vec<LogLine>, StoreError> {
        pass_on!(self.logs(run, after, limit))
    }

    async fn log_end(&self, run: RunId) -> Result<LogPlace, StoreError> {
        pass_on!(self.log_end(run))
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
