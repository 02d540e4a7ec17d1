//! The store itself: every call of the seam is a transition or a read inside a transaction of
//! whichever database the URL named.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast_core::{NodeId, RunId, ShardCount, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::address::{Place, place, refused};
use crate::gather::Gather;
use crate::held::holder;
use crate::postgres::{self, Postgres};
use crate::sqlite::{self, Sqlite};
use crate::transitions::{LineMemory, QueueMemory, RenewLook};
use crate::whole_look::Begins;
use crate::{
    Access, Accessed, AuditNote, Batch, Claim, Claimed, Claims, Clock, Committed, Control, Controlled,
    Delivered, Delivery, DynStore, Fire, Fired, Hold, KvWrite, KvWritten, Listen, Listened, Measure, NewRun,
    NodeCard, OpenOptions, PoolUse, QueueClaim, Renew, Renewed, Roll, Signal, Started, Store, StoreError,
    Sweep, Swept, Tx, TxKind, UserTx, Work, transitions,
};

/// How many hints a slow listener may be behind before it is told that it missed some.
pub(crate) const SIGNALS: usize = 1024;

/// The most runs and bytes of a start that shares a transaction with others.
const SMALL_RUNS: usize = 100;
const SMALL_BYTES: usize = 64 << 10;

/// How many pages of children whose parents did not end well one sweep asks to stop.
const ORPHAN_PAGES: u32 = 200;

/// How often a renewal tries to free runs while the node's own batches go on, and how long it waits in between.
const STRANGER_TRIES: u32 = 10;
const STRANGER_PAUSE: Duration = Duration::from_millis(3);

/// Opens the database that `url` names, and brings its schema up to date.
///
/// `sqlite://orders.db` (or `sqlite:orders.db`) is a file, made if it does not exist;
/// `sqlite:///var/lib/orders.db` an absolute one; `sqlite::memory:` is gone with the store;
/// `postgres://user:password@host/database` is a PostgreSQL, whose `?pool=16` bounds our connections.
///
/// Any number of processes may open the same database at once; the first one migrates it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = outlast_store::open("sqlite::memory:", Default::default()).await?;
/// assert_eq!(store.name(), "sqlite");
/// # Ok::<_, outlast_store::StoreError>(()) }).unwrap();
/// ```
pub async fn open(url: &str, options: OpenOptions) -> Result<DynStore, StoreError> {
    if options.shards > RunId::MAX_SHARDS {
        return refused(format!("{} shards are too many: at most {}", options.shards, RunId::MAX_SHARDS));
    }
    let options = OpenOptions { no_migrate: options.no_migrate || options.read_only, ..options };
    let (read_only, slow_looks) = (options.read_only, options.slow_looks);
    let database = match place(url)? {
        Place::Memory => Database::Sqlite(Arc::new(sqlite::open(None, options).await?)),
        Place::File(file) => Database::Sqlite(Arc::new(sqlite::open(Some(file), options).await?)),
        Place::Postgres(url) => Database::Postgres(postgres::open(&url.0, options).await?),
    };
    Ok(Arc::new(SqlStore::new(database, read_only, slow_looks, &Handle::current())))
}

/// A store on SQLite or PostgreSQL.
pub struct SqlStore {
    database: Database,
    read_only: bool,
    slow_looks: bool,
    starts: Arc<Gather<StartCall, Vec<Started>>>,
    notes: Arc<Gather<AuditNote, ()>>,
    queues: Arc<QueueMemory>,
    lines: Arc<LineMemory>,
    /// Since when runs are due that sweeps look for, by shard.
    sweeps: Begins<u16, Timestamp>,
    /// From which claim on renewals look, by node.
    renewals: Begins<NodeId, i64>,
}

/// A call of [`Store::start`].
#[derive(Clone)]
struct StartCall {
    runs: Arc<[NewRun]>,
    hold: Option<Hold>,
}

enum Database {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

impl std::fmt::Debug for SqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlStore").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A piece of work for a transaction: gets its own copy of what it needs each time it is called.
macro_rules! work {
    (|$tx:ident $(, $copy:ident)*| $call:expr) => {
        boxed(move |$tx| {
            $(let $copy = $copy.clone();)*
            Box::pin(async move { $call.await })
        })
    };
}

fn boxed<T>(
    work: impl for<'t> FnMut(&'t mut dyn Tx) -> BoxFuture<'t, Result<T, StoreError>> + Send + 'static,
) -> Work<T> {
    Box::new(work)
}

mod looks;

async fn start_together(
    database: Arc<Postgres>,
    calls: Arc<[StartCall]>,
) -> Result<Vec<Vec<Started>>, StoreError> {
    let short = calls.clone();
    let short = work!(|tx, short| async move {
        let calls: Vec<_> = short.iter().map(|call| (&*call.runs, call.hold)).collect();
        transitions::start_short(tx, &calls).await
    });
    if let Some(started) = if_new(database.transact_here(TxKind::Single, short).await)?.flatten() {
        return Ok(started);
    }
    let long = work!(|tx, calls| async move {
        let calls: Vec<_> = calls.iter().map(|call| (&*call.runs, call.hold)).collect();
        transitions::start_all(tx, &calls).await
    });
    database.transact_here(TxKind::Plain, long).await
}

/// All of them wait for the same row: the chain's.
async fn note_together(database: Arc<Postgres>, notes: Arc<[AuditNote]>) -> Result<Vec<()>, StoreError> {
    let count = notes.len();
    let work = work!(|tx, notes| transitions::note_all(tx, &notes));
    database.transact_here(TxKind::Plain, work).await?;
    Ok(vec![(); count])
}

/// What a short way answered; nothing when it met something that it takes for new and that is there already.
fn if_new<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if postgres::is_duplicate(&error) => Ok(None),
        answer => answer.map(Some),
    }
}

impl SqlStore {
    pub(crate) fn on_sqlite(database: Sqlite) -> SqlStore {
        SqlStore::new(Database::Sqlite(Arc::new(database)), false, false, &Handle::current())
    }

    fn new(database: Database, read_only: bool, slow_looks: bool, runtime: &Handle) -> SqlStore {
        let starts = Arc::new(Gather::on(runtime.clone()));
        let notes = Arc::new(Gather::on(runtime.clone()));
        let queues = Arc::new(QueueMemory::new(slow_looks));
        let lines = Arc::new(LineMemory::new(slow_looks));
        let (sweeps, renewals) = (Begins::seldom(slow_looks), Begins::new(slow_looks));
        SqlStore { database, read_only, slow_looks, starts, notes, queues, lines, sweeps, renewals }
    }

    async fn renew_from(&self, ask: &Arc<Renew>, from: Option<i64>) -> Result<RenewLook, StoreError> {
        let (ask, shards) = (ask.clone(), self.shards());
        self.transact(TxKind::Single, work!(|tx, ask| transitions::renew(tx, &ask, from, shards))).await
    }

    /// Refuses what changes something, where nothing may be changed.
    fn may(&self, kind: TxKind) -> Result<(), StoreError> {
        match self.read_only && kind != TxKind::Read {
            true => refused("the database was opened to be read only".to_owned()),
            false => Ok(()),
        }
    }

    async fn stop_orphans(&self, ask: &Arc<Sweep>) -> Result<(), StoreError> {
        for _ in 0..ORPHAN_PAGES {
            let page = ask.clone();
            if !self.transact(TxKind::Plain, work!(|tx, page| transitions::stop_orphans(tx, &page))).await? {
                break;
            }
        }
        Ok(())
    }

    async fn transact<T: Send + 'static>(&self, kind: TxKind, work: Work<T>) -> Result<T, StoreError> {
        self.may(kind)?;
        match &self.database {
            Database::Sqlite(database) => database.transact(kind, work).await,
            Database::Postgres(database) => database.transact(kind, work).await,
        }
    }

    /// For the committer, which is a task of its own.
    async fn transact_here<T: Send + 'static>(&self, kind: TxKind, work: Work<T>) -> Result<T, StoreError> {
        self.may(kind)?;
        match &self.database {
            Database::Sqlite(database) => database.transact(kind, work).await,
            Database::Postgres(database) => database.transact_here(kind, work).await,
        }
    }
}

#[async_trait]
impl Store for SqlStore {
    async fn join(&self, node: &NodeCard) -> Result<(), StoreError> {
        let (node, shards) = (Arc::new(node.clone()), self.shards());
        self.transact(TxKind::Plain, work!(|tx, node| transitions::join(tx, &node, shards))).await
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        let shards = self.shards();
        self.transact(TxKind::Plain, work!(|tx| transitions::leave(tx, node, shards))).await
    }

    async fn start(&self, runs: &[NewRun], hold: Option<Hold>) -> Result<Vec<Started>, StoreError> {
        self.may(TxKind::Plain)?;
        let keyed = runs.iter().any(|run| run.key.is_some() || run.unique.is_some());
        let bytes: usize = runs.iter().map(|run| run.input.bytes.len()).sum();
        let is_big = runs.len() > SMALL_RUNS || bytes > SMALL_BYTES;
        let runs = Arc::<[NewRun]>::from(runs);
        match &self.database {
            // What is big would hold up others.
            Database::Postgres(database) if !keyed && is_big => {
                let call = StartCall { runs, hold };
                let started = database.beside(start_together(database.clone(), [call].into())).await?;
                Ok(started.into_iter().next().unwrap_or_default())
            }
            Database::Postgres(database) if !keyed => {
                let database = database.clone();
                let start = move |calls: Arc<[StartCall]>| start_together(database.clone(), calls).boxed();
                self.starts.call(StartCall { runs, hold }, start).await
            }
            // A key may have to wait for somebody's transaction; SQLite's writer gathers by itself.
            _ => self.transact(TxKind::Plain, work!(|tx, runs| transitions::start(tx, &runs, hold))).await,
        }
    }

    async fn claim(&self, ask: &Claim) -> Result<Claims, StoreError> {
        let ask = Arc::new(ask.clone());
        self.transact(TxKind::Fenced, work!(|tx, ask| transitions::claim(tx, &ask))).await
    }

    async fn claim_queue(&self, ask: &QueueClaim) -> Result<Claims, StoreError> {
        let (ask, shards, memory) = (Arc::new(ask.clone()), self.shards(), self.queues.clone());
        let work = work!(|tx, ask, memory| transitions::claim_queue(tx, &ask, shards, &memory));
        self.transact(TxKind::Fenced, work).await
    }

    async fn commit(&self, batch: Arc<Batch>) -> Result<Vec<Committed>, StoreError> {
        let shards = self.shards();
        if let Database::Sqlite(_) = &self.database {
            let work = work!(|tx, batch| transitions::commit_both(tx, &batch, shards));
            return self.transact_here(TxKind::Fenced, work).await;
        }
        let short = batch.clone();
        let short = self
            .transact_here(TxKind::Single, work!(|tx, short| transitions::commit_short(tx, &short)))
            .await;
        let short = if_new(short)?.unwrap_or_else(|| vec![false; batch.runs.len()]);
        let Some(left) = transitions::left(&batch, &short) else {
            return Ok(vec![Committed::Done; batch.runs.len()]);
        };
        let left = Arc::new(left);
        let long = self
            .transact_here(TxKind::Fenced, work!(|tx, left| transitions::commit(tx, &left, shards)))
            .await?;
        Ok(transitions::together(&short, long))
    }

    async fn renew(&self, ask: &Renew) -> Result<Renewed, StoreError> {
        let ask = Arc::new(ask.clone());
        let (from, began) = (self.renewals.recall(&ask.node), Instant::now());
        let mut found = self.renew_from(&ask, from).await?;
        if from.is_some() && !found.renewed.lost.is_empty() {
            // Nobody is told to drop work because of what was only remembered.
            found = self.renew_from(&ask, None).await?;
        }
        match (&self.database, found.renewed.alive) {
            (Database::Postgres(_), true) => {
                self.renewals.keep(ask.node, from, began.elapsed(), found.next(&ask));
            }
            _ => self.renewals.forget(&ask.node),
        }
        let (mut renewed, strangers) = (found.renewed, Arc::new(found.strangers));
        for _ in 0..STRANGER_TRIES {
            if strangers.is_empty() {
                break;
            }
            let (ask, strangers) = (ask.clone(), strangers.clone());
            let work = work!(|tx, ask, strangers| transitions::free_strangers(tx, &ask, &strangers));
            let (freed, is_writing) = self.transact(TxKind::Fenced, work).await?;
            renewed.freed += freed;
            if !is_writing {
                break;
            }
            tokio::time::sleep(STRANGER_PAUSE).await;
        }
        Ok(renewed)
    }

    async fn single_out(&self, node: NodeId, run: RunId, epoch: i64) -> Result<bool, StoreError> {
        self.transact(TxKind::Fenced, work!(|tx| transitions::single_out(tx, node, run, epoch))).await
    }

    async fn deliver(&self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        let (messages, shards) = (Arc::<[Delivery]>::from(messages), self.shards());
        self.transact(TxKind::Plain, work!(|tx, messages| transitions::deliver(tx, &messages, shards))).await
    }

    async fn wake(
        &self,
        message: &Delivery,
        hold: Hold,
        epoch: i64,
    ) -> Result<(Delivered, Option<Claimed>), StoreError> {
        self.may(TxKind::Plain)?;
        let (message, shards) = (Arc::new(message.clone()), self.shards());
        if let Database::Postgres(database) = &self.database {
            let message = message.clone();
            let short = work!(|tx, message| transitions::wake_short(tx, &message, hold, epoch));
            if let Some(woken) = if_new(database.transact(TxKind::Single, short).await)?.flatten() {
                return Ok(woken);
            }
        }
        let work = work!(|tx, message| transitions::wake(tx, &message, hold, epoch, shards));
        self.transact(TxKind::Plain, work).await
    }

    async fn listen(&self, ask: &Listen) -> Result<Listened, StoreError> {
        let ask = Arc::new(ask.clone());
        self.transact(TxKind::Plain, work!(|tx, ask| transitions::listen(tx, &ask))).await
    }

    async fn control(&self, control: &Control) -> Result<Controlled, StoreError> {
        let kind = if control.takes_from_node() { TxKind::Fenced } else { TxKind::Plain };
        let (control, shards) = (Arc::new(control.clone()), self.shards());
        if let Some(holder) = holder() {
            let work = work!(|tx, control| transitions::control_once(tx, &control, shards, holder));
            return self.transact(kind, work).await;
        }
        self.transact(kind, work!(|tx, control| transitions::control(tx, &control, shards))).await
    }

    async fn fire(&self, ask: &Fire) -> Result<Fired, StoreError> {
        let (ask, shards) = (Arc::new(ask.clone()), self.shards());
        self.transact(TxKind::Plain, work!(|tx, ask| transitions::fire(tx, &ask, shards))).await
    }

    async fn kv_write(&self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        let (writes, shards) = (Arc::<[KvWrite]>::from(writes), self.shards());
        self.transact(TxKind::Plain, work!(|tx, writes| transitions::kv_write(tx, &writes, shards))).await
    }

    async fn access(&self, ask: &Access) -> Result<Accessed, StoreError> {
        if let (Database::Postgres(database), Access::Note(note)) = (&self.database, ask) {
            self.may(TxKind::Plain)?;
            let database = database.clone();
            let add = move |notes: Arc<[AuditNote]>| note_together(database.clone(), notes).boxed();
            self.notes.call(note.clone(), add).await?;
            return Ok(Accessed::Done);
        }
        let ask = Arc::new(ask.clone());
        self.transact(TxKind::Plain, work!(|tx, ask| transitions::access(tx, &ask))).await
    }

    async fn roll(&self, ask: &Roll) -> Result<u32, StoreError> {
        let ask = Arc::new(ask.clone());
        self.transact(TxKind::Plain, work!(|tx, ask| transitions::roll(tx, &ask))).await
    }

    async fn measure(&self, ask: &Measure) -> Result<bool, StoreError> {
        let (ask, shards) = (Arc::new(ask.clone()), self.shards());
        self.transact(TxKind::Plain, work!(|tx, ask| transitions::measure(tx, &ask, shards))).await
    }

    async fn sweep(&self, ask: &Sweep) -> Result<Swept, StoreError> {
        self.may(TxKind::Plain)?;
        let ask = Arc::new(ask.clone());
        if ask.only_orphans {
            let look = ask.clone();
            let are_any = work!(|tx, look| transitions::are_orphans(tx, &look));
            if self.transact(TxKind::Read, are_any).await? {
                self.stop_orphans(&ask).await?;
            }
            return Ok(Swept::default());
        }
        let look = ask.clone();
        if let Database::Postgres(database) = &self.database {
            database.keep_statistics().await;
        }
        let from = self.sweeps.recall(&ask.shard);
        let began = Instant::now();
        let to_sweep = work!(|tx, look| transitions::to_sweep(tx, &look, from));
        let found = self.transact(TxKind::Read, to_sweep).await?;
        if let Database::Postgres(_) = &self.database {
            self.sweeps.keep(ask.shard, from, began.elapsed(), found.next(&ask));
        }
        if !found.is_any {
            return Ok(Swept::default());
        }
        let (late, old, orphans) = (ask.clone(), ask.clone(), ask.clone());
        let mut swept =
            self.transact(TxKind::Fenced, work!(|tx, ask| transitions::sweep(tx, &ask, from))).await?;
        swept.expired =
            self.transact(TxKind::Fenced, work!(|tx, late| transitions::expire(tx, &late))).await?;
        self.transact(TxKind::Fenced, work!(|tx, old| transitions::forget(tx, &old))).await?;
        self.stop_orphans(&orphans).await?;
        Ok(swept)
    }

    async fn begin(&self) -> Result<Box<dyn UserTx>, StoreError> {
        self.may(TxKind::Plain)?;
        match &self.database {
            Database::Sqlite(database) => database.begin().await,
            Database::Postgres(database) => database.begin().await,
        }
    }

    fn signals(&self) -> broadcast::Receiver<Signal> {
        match &self.database {
            Database::Sqlite(database) => database.subscribe(),
            Database::Postgres(database) => database.subscribe(),
        }
    }

    fn hears_others(&self) -> bool {
        match &self.database {
            Database::Sqlite(_) => true,
            Database::Postgres(database) => database.hears_others(),
        }
    }

    fn pool(&self) -> Option<PoolUse> {
        match &self.database {
            Database::Sqlite(_) => None,
            Database::Postgres(database) => Some(database.pool_use()),
        }
    }

    fn clock(&self) -> &Clock {
        match &self.database {
            Database::Sqlite(database) => &database.clock,
            Database::Postgres(database) => &database.clock,
        }
    }

    fn shards(&self) -> ShardCount {
        match &self.database {
            Database::Sqlite(database) => database.shards,
            Database::Postgres(database) => database.shards,
        }
    }

    fn name(&self) -> &'static str {
        match &self.database {
            Database::Sqlite(_) => "sqlite",
            Database::Postgres(_) => "postgres",
        }
    }

    fn is_shared(&self) -> bool {
        match &self.database {
            Database::Sqlite(database) => database.is_shared(),
            Database::Postgres(_) => true,
        }
    }

    async fn own(&self) -> Result<(), StoreError> {
        self.may(TxKind::Plain)?;
        match &self.database {
            Database::Sqlite(database) => database.own().await,
            // Many nodes share a PostgreSQL: leases and epochs keep them apart.
            Database::Postgres(_) => Ok(()),
        }
    }

    fn apart(&self, runtime: &Handle) -> Option<DynStore> {
        let Database::Postgres(database) = &self.database else { return None };
        let database = Database::Postgres(Arc::new(database.apart(runtime)));
        Some(Arc::new(SqlStore::new(database, self.read_only, self.slow_looks, runtime)))
    }
}
