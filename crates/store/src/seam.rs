//! The seam between the engine and a database: few, coarse, atomic transitions and a read side.
//!
//! `dyn`, because the store is chosen by URL at run time. Every transition takes a whole batch, is
//! one transaction, and is safe to repeat with the same arguments: a call that reported an error
//! may have happened all the same.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use outlast_core::{Entry, Explained, RunId, ShardCount, Status, Timestamp, Wait};
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use crate::{
    Access, Accessed, Address, AuditList, AuditView, Batch, ChainList, ChainPage, Claim, Claimed, Claims,
    Clock, Committed, Control, Controlled, Cursor, DefinitionCard, Definitions, Delivered, Delivery,
    DepthAsk, DepthPoint, Ended, FailureAsk, FailureGroup, Filter, Fire, Fired, GroupView, Hold, KvEntry,
    KvList, KvName, KvPage, KvWrite, KvWritten, Lines, Listen, Listened, Loaded, LogLine, LogPlace, LostNode,
    Measure, NewRun, News, NodeCard, NodeView, Page, PoolUse, QueueCard, QueueClaim, QueueView, Renew,
    Renewed, Roll, RunView, ScheduleView, SeriesAsk, SeriesPoint, SessionView, Signal, Started, StoreError,
    Sweep, Swept, TableSize, TokenView, Upkeep, UserTx, VerifyMark, VerifyPage, Vitals,
};

/// Where runs live.
#[async_trait]
pub trait Store: Reads {
    /// A node starts: its row in every shard, its definitions, and blocked runs of its queues that its code
    /// may fit become due again.
    async fn join(&self, node: &NodeCard) -> Result<(), StoreError>;

    /// A node stops for good: what it still holds becomes due at once, its rows go.
    async fn leave(&self, node: outlast_core::NodeId) -> Result<(), StoreError>;

    /// Starts runs, answers in their order. All unkeyed ones or none; keyed ones answer one by one.
    async fn start(&self, runs: &[NewRun], hold: Option<Hold>) -> Result<Vec<Started>, StoreError>;

    /// Leases due runs of one shard to a node.
    async fn claim(&self, ask: &Claim) -> Result<Claims, StoreError>;

    /// Leases due runs of one queue to a node, as many as the queue's rules allow: nodes ask one after another.
    async fn claim_queue(&self, ask: &QueueClaim) -> Result<Claims, StoreError>;

    /// Makes durable what runs recorded, and moves them. Answers in the order of the batch.
    async fn commit(&self, batch: Arc<Batch>) -> Result<Vec<Committed>, StoreError>;

    /// Renews a node's lease in every shard.
    async fn renew(&self, ask: &Renew) -> Result<Renewed, StoreError>;

    /// Notes that a node runs a suspect with no other beside it: if it dies while it holds the run with this epoch,
    /// that counts against the run. `false` when that could not be noted.
    async fn single_out(
        &self,
        node: outlast_core::NodeId,
        run: RunId,
        epoch: i64,
    ) -> Result<bool, StoreError>;

    /// Delivers messages to runs and wakes those that wait. Answers in their order.
    async fn deliver(&self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError>;

    /// Delivers a message to a run that was suspended with this epoch and, if that wakes it, lets a node have it
    /// at once: it is claimed as by [`Store::claim`] with the same number, with what is new since it was suspended.
    async fn wake(
        &self,
        message: &Delivery,
        hold: Hold,
        epoch: i64,
    ) -> Result<(Delivered, Option<Claimed>), StoreError>;

    /// Has a run hear of another's end: when it comes, or at once if it came.
    async fn listen(&self, ask: &Listen) -> Result<Listened, StoreError>;

    /// Does what people ask.
    async fn control(&self, control: &Control) -> Result<Controlled, StoreError>;

    /// Has a schedule start what its time asks for, once.
    async fn fire(&self, ask: &Fire) -> Result<Fired, StoreError>;

    /// Changes values that handlers keep. Answers in their order, one by one.
    async fn kv_write(&self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError>;

    /// Changes what the API keeps for itself: tokens, the audit log, answers.
    async fn access(&self, ask: &Access) -> Result<Accessed, StoreError>;

    /// Sums up how runs ended since the last time; gives how many.
    async fn roll(&self, ask: &Roll) -> Result<u32, StoreError>;

    /// Notes how long queues are, once for each minute; gives whether this call did it.
    async fn measure(&self, ask: &Measure) -> Result<bool, StoreError>;

    /// Housekeeping.
    async fn sweep(&self, ask: &Sweep) -> Result<Swept, StoreError>;

    /// Begins a transaction of the user's: on SQLite, on the one writer.
    async fn begin(&self) -> Result<Box<dyn UserTx>, StoreError>;

    /// Hints that something happened: by this process at once, by others as soon as we notice.
    fn signals(&self) -> broadcast::Receiver<Signal>;

    /// Whether hints of other processes arrive, as far as is known. Where they do not (a pooler stands in between, the
    /// connection that listens is broken, the database has no `LISTEN`), whoever waits for work has to look for it.
    fn hears_others(&self) -> bool {
        true
    }

    /// The connections of this process; `None` where there is nothing to run out of.
    fn pool(&self) -> Option<PoolUse> {
        None
    }

    /// The clock by which this store judges.
    fn clock(&self) -> &Clock;

    /// How many shards the schema has.
    fn shards(&self) -> ShardCount;

    /// The store's name for logs and metrics: `sqlite` or `postgres`.
    fn name(&self) -> &'static str;

    /// Whether other processes may run work here too: leases and epochs keep them apart then. Otherwise nobody can take
    /// runs from the one who owns it ([`Store::own`]).
    fn is_shared(&self) -> bool;

    /// Takes the right to run work here where only one process may have it (SQLite's file); others
    /// are refused with the owner's pid. Given back when the store is dropped.
    async fn own(&self) -> Result<(), StoreError>;

    /// The same database through connections of its own, driven by `runtime`: whatever keeps another runtime busy
    /// does not hold them up. `None` where there is no such thing, or no need for it (SQLite has one owner).
    fn apart(&self, runtime: &Handle) -> Option<DynStore> {
        let _ = runtime;
        None
    }
}

/// The read side: for turns, clients, CLI, API and dashboard. Changes nothing.
#[async_trait]
pub trait Reads: Send + Sync + 'static {
    /// What turns need to begin, for each of `runs` that exists, in their order.
    async fn load(&self, runs: &[RunId]) -> Result<Vec<Loaded>, StoreError>;

    /// Entries of a run's journal after `pos`, at most `limit`.
    async fn journal(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Entry>, StoreError>;

    /// Unread news of runs after the given number, oldest first.
    async fn inbox(&self, runs: &[(RunId, i64)]) -> Result<Vec<(RunId, News)>, StoreError>;

    /// One run.
    async fn run(&self, run: RunId) -> Result<Option<RunView>, StoreError>;

    /// The run that an address names, if it exists.
    async fn find(&self, address: &Address) -> Result<Option<RunId>, StoreError>;

    /// Runs, newest first unless the filter says otherwise.
    async fn list(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Page, StoreError>;

    /// How many runs fit a filter; no more than `cap` are counted.
    async fn count(&self, filter: &Filter, cap: u32) -> Result<u64, StoreError>;

    /// How those of `runs` that have ended ended.
    async fn ended(&self, runs: &[RunId]) -> Result<Vec<(RunId, Ended)>, StoreError>;

    /// When the next run of any queue is due, or the next schedule, over all shards; now while children are to be asked to
    /// stop; `None` when nothing is.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Which of these queues have somebody in line, over all shards.
    async fn lines(&self, queues: &[String]) -> Result<Lines, StoreError>;

    /// What a run's handlers logged behind `after`, oldest first, at most `limit`.
    async fn logs(&self, run: RunId, after: LogPlace, limit: u32) -> Result<Vec<LogLine>, StoreError>;

    /// The place of the newest line of a run.
    async fn log_end(&self, run: RunId) -> Result<LogPlace, StoreError>;

    /// The value under a name, unless its time is over.
    async fn kv_get(&self, name: &KvName) -> Result<Option<KvEntry>, StoreError>;

    /// Values whose keys begin alike, in the order of their keys.
    async fn kv_list(&self, ask: &KvList) -> Result<KvPage, StoreError>;

    /// The nodes that have a lease.
    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError>;

    /// The nodes that were lost in the last day, the last first.
    async fn lost_nodes(&self) -> Result<Vec<LostNode>, StoreError>;

    /// The definitions that nodes have registered.
    async fn definitions(&self) -> Result<Vec<DefinitionCard>, StoreError>;

    /// The queues that have rules, or were paused or drained.
    async fn queues(&self) -> Result<Vec<QueueCard>, StoreError>;

    /// What stands in each queue: those with a row, and those with unfinished runs.
    async fn queue_views(&self) -> Result<Vec<QueueView>, StoreError>;

    /// The groups of a queue of which nodes have the most runs in hand, at most `limit`; those of which none runs are not
    /// among them.
    async fn queue_groups(&self, queue: &str, limit: u32) -> Result<Vec<GroupView>, StoreError>;

    /// All schedules.
    async fn schedules(&self) -> Result<Vec<ScheduleView>, StoreError>;

    /// Those that are due, of each shard at most `limit` after the first `skip`; and when the next of the others is.
    async fn schedules_due(
        &self,
        skip: u32,
        limit: u32,
    ) -> Result<(Vec<ScheduleView>, Option<Timestamp>), StoreError>;

    /// Why a run is not progressing, if it exists.
    async fn explain(&self, run: RunId) -> Result<Option<Explained>, StoreError>;

    /// Looks whether something wakes each of the unfinished runs behind a mark, at most `limit` of them.
    async fn verify(&self, from: VerifyMark, limit: u32) -> Result<VerifyPage, StoreError>;

    /// How runs ended, summed up by spans of time, oldest first; as far as it has been summed up.
    async fn series(&self, ask: &SeriesAsk) -> Result<Vec<SeriesPoint>, StoreError>;

    /// Failures that are alike, the last first.
    async fn failures(&self, ask: &FailureAsk) -> Result<Vec<FailureGroup>, StoreError>;

    /// How long queues were, span by span.
    async fn depths(&self, ask: &DepthAsk) -> Result<Vec<DepthPoint>, StoreError>;

    /// The session of a browser with this hash.
    async fn session(&self, hash: &[u8]) -> Result<Option<SessionView>, StoreError>;

    /// The token with this hash, whether it is live or not.
    async fn token(&self, hash: &[u8]) -> Result<Option<TokenView>, StoreError>;

    /// All tokens, newest first, at most a thousand.
    async fn tokens(&self) -> Result<Vec<TokenView>, StoreError>;

    /// Lines of the audit log, newest first.
    async fn audit(&self, ask: &AuditList) -> Result<Vec<AuditView>, StoreError>;

    /// Lines of the audit log's chain, in its order, and what it says of itself: for [`crate::check_chain`].
    async fn audit_chain(&self, ask: ChainList) -> Result<ChainPage, StoreError>;

    /// How the database is doing: facts for whoever looks after it. Takes a while, and reads much of an SQLite file.
    async fn vitals(&self) -> Result<Vitals, StoreError>;

    /// What each of those of `runs` that wait has waited for longest, where the end of its journal tells: one look for all.
    async fn waited_for(&self, runs: &[RunView]) -> Result<HashMap<RunId, Wait>, StoreError>;

    /// How the work beside the runs stands.
    async fn upkeep(&self) -> Result<Upkeep, StoreError>;

    /// When the first run ended, with this status and of these definitions, that a purge would not leave out; looks at no
    /// more than the first thousand that ended so, and gives `None` where none of those is one.
    async fn oldest_ended(&self, status: Status, of: &Definitions) -> Result<Option<Timestamp>, StoreError>;

    /// How much room each table takes, the largest first. Asks much of a large file of SQLite.
    async fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError>;

    /// The time by which this store judges.
    async fn now(&self) -> Result<Timestamp, StoreError>;
}

/// Options of [`crate::open`].
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// How many shards a new schema gets; an existing one keeps its own. 0 means 1.
    pub shards: ShardCount,
    /// The clock; tests bring one that they can move.
    pub clock: Clock,
    /// Only look whether the schema is there and of our version; never create or migrate it.
    pub no_migrate: bool,
    /// Stop at this file of the schema: see [`crate::migrate`]. A store cannot be opened before the last.
    pub up_to: Option<i64>,
    /// Only read: whatever would change something is refused. Nothing is created or migrated either.
    pub read_only: bool,
    /// Whoever changes something gets the answer when other processes have heard of it: for a process that ends right
    /// after it, and would take the hint with it. Otherwise they hear of it a moment later, and nobody waits for that.
    pub tells_first: bool,
    /// Takes every look at all that is due for a slow one, after which things are remembered: for tests of that.
    #[doc(hidden)]
    pub slow_looks: bool,
}

/// A store behind its seam.
pub type DynStore = Arc<dyn Store>;
