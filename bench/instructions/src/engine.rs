//! The engine on one thread, over a store that keeps nothing: it hands out runs that were made before, and says
//! of every commit that it is done. What is left is what the engine itself does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use outlast::prelude::*;
use outlast_core::{Entry, NodeId, ShardCount, Timestamp};
use outlast_store::{
    Address, Batch, Claim, Claimed, Claims, Clock, Committed, Control, Controlled, Cursor, DefinitionCard,
    Delivered, Delivery, Ended, Filter, Hold, KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten, Listen,
    Listened, Loaded, LogLine, NewRun, News, Next, NodeCard, NodeView, Page, Reads, Renew, Renewed, RunKind,
    RunRecord, RunView, Signal, Started, Store, StoreError, Sweep, Swept, UserTx,
};
use tokio::sync::{Notify, broadcast};

use crate::counted;
use crate::pure::{BEGINNING, journal, number, run};

/// One run that has everything in its journal and only has to come to its end again.
pub(crate) fn replay(count: usize) {
    drive(1, count, journal(count));
}

/// One run that has nothing in its journal.
pub(crate) fn steps(count: usize) {
    drive(1, count, Vec::new());
}

/// Many runs at a time.
pub(crate) fn runs(count: usize) {
    drive(count, 1, Vec::new());
}

fn drive(runs: usize, steps: usize, journal: Vec<Entry>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime needs nothing");
    let store = Arc::new(Made::new(runs, steps, journal));
    counted(|| runtime.block_on(run_all(store))).expect("nothing refuses it");
}

async fn run_all(store: Arc<Made>) -> Result<(), Error> {
    let app = Outlast::on(store.clone()).workflow(Workflow::new(NAME, lines)).settings(|settings| {
        // Nothing may come between that happens by the clock.
        (settings.lease, settings.renew_every) = (HOUR, HOUR / 2);
        settings.poll_every = HOUR;
    });
    let app = app.run().await?;
    store.all_ended.notified().await;
    while !app.is_idle() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn lines(ctx: Ctx, count: u64) -> Result<u64, AnyError> {
    let mut sum = 0;
    for line in 1..=count {
        sum += ctx.step("line", |_| async move { Ok::<_, AnyError>(line) }).await?;
    }
    Ok(sum)
}

const NAME: &str = "lines";
const HOUR: Duration = Duration::from_secs(3600);

/// A store with runs that are due, and nothing else.
struct Made {
    due: Mutex<VecDeque<(Claimed, Loaded)>>,
    claimed: Mutex<Vec<Loaded>>,
    unfinished: AtomicUsize,
    all_ended: Notify,
    clock: Clock,
    signals: broadcast::Sender<Signal>,
}

impl Made {
    fn new(runs: usize, steps: usize, journal: Vec<Entry>) -> Made {
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
        stops_with_parent: false,
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
        Ok(Claims { runs, now: self.clock.local_now(), next_due: None })
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

    async fn kv_get(&self, _name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        not_made("kv_get")
    }

    async fn kv_list(&self, _ask: &KvList) -> Result<KvPage, StoreError> {
        not_made("kv_list")
    }

    async fn logs(&self, _run: RunId, _limit: u32) -> Result<Vec<LogLine>, StoreError> {
        not_made("logs")
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        not_made("nodes")
    }

    async fn definitions(&self) -> Result<Vec<DefinitionCard>, StoreError> {
        not_made("definitions")
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
