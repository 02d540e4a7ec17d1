//! One test's store, and the verbs to tell a story with.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};
use std::time::Duration;
use std::{fs, io};

use outlast_core::{Limits, NodeId, Payload, QueueRules, RunId, Status, Timestamp};
use outlast_store::{
    Address, Batch, Claim, Claims, Clock, Committed, Control, Controlled, DefinitionCard, Delivered,
    Delivery, DynStore, Listen, Listened, Mark, NodeCard, OpenOptions, QueueCard, QueueChange, QueueClaim,
    Renew, Renewed, RunKind, RunView, ScheduleChange, ScheduleView, Sweep, Swept, UserTx, Value, ValueRow,
    code, open,
};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::story::{Starting, Turn, Writing, event};
use crate::{StoreKind, TestDatabase};

/// How long a node's lease is.
pub const LEASE: Duration = Duration::from_secs(10);
/// The queue that runs stand in unless the story says otherwise.
pub const QUEUE: &str = "main";
/// What nodes know unless the story says otherwise, each at version 1.
pub const KNOWN: [&str; 4] = ["greet", "order", "ship", "mail"];

/// A store of its own for one test. Clones are the same world.
///
/// Every verb expects that the store can do what it is asked, and panics when it cannot.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    store: DynStore,
    kind: StoreKind,
    url: String,
    clock: Clock,
    nodes: Mutex<HashMap<String, Member>>,
    numbers: AtomicI64,
    next_shard: AtomicU16,
    // Behind the store, which has to go first.
    home: Home,
}

/// What goes away with the world.
#[allow(clippy::large_enum_variant, reason = "one per test")]
enum Home {
    File { _folder: TempDir },
    Database { database: TestDatabase },
}

#[derive(Clone)]
struct Member {
    id: NodeId,
    codes: Vec<String>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("kind", &self.0.kind).field("shards", &self.shards()).finish()
    }
}

impl World {
    /// A new world on a database with so many shards.
    pub async fn open(kind: StoreKind, shards: u16) -> World {
        let clock = Clock::default();
        let (url, home) = match kind {
            StoreKind::Sqlite => {
                let folder = TempDir::new().expect("a folder for the database");
                let url = format!("sqlite://{}", folder.path().join("world.db").display());
                (url, Home::File { _folder: folder })
            }
            StoreKind::Postgres => {
                let template = format!("outlast_{:016x}_s{shards}", schema().expect("the migrations"));
                let migrated = TestDatabase::create(&template, async |url| {
                    open(url, OpenOptions { shards, ..OpenOptions::default() }).await?;
                    Ok(())
                });
                let database = migrated.await.expect("a database for the test");
                (database.url().to_owned(), Home::Database { database })
            }
        };
        // What is remembered where looks are slow must not show anywhere: half of all worlds have such looks.
        let (clock_, slow_looks) = (clock.clone(), shards > 1);
        let options = OpenOptions { shards, clock: clock_, slow_looks, ..OpenOptions::default() };
        let store = open(&url, options).await.expect("the store opens");
        World(Arc::new(Inner {
            store,
            kind,
            url,
            clock,
            nodes: Mutex::default(),
            numbers: AtomicI64::new(1),
            next_shard: AtomicU16::new(0),
            home,
        }))
    }

    /// The store.
    pub fn store(&self) -> &DynStore {
        &self.0.store
    }

    /// Where others can open it.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Which database it is.
    pub fn kind(&self) -> StoreKind {
        self.0.kind
    }

    /// How many shards it has.
    pub fn shards(&self) -> u16 {
        self.0.store.shards()
    }

    /// The clock of this world and of every [`World::second_store`].
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The same database opened again, as another process sees it, in this world's time.
    pub async fn second_store(&self) -> DynStore {
        let (clock, slow_looks) = (self.0.clock.clone(), self.shards() > 1);
        let options = OpenOptions { clock, slow_looks, no_migrate: true, ..OpenOptions::default() };
        open(self.url(), options).await.expect("the store opens once more")
    }

    /// Whether PostgreSQL lets anybody into this world; a file lets in whoever may read it.
    pub async fn admits(&self, admits: bool) {
        if let Home::Database { database } = &self.0.home {
            database.admits(admits).await.expect("the server obeys");
        }
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        self.0.clock.advance(time);
    }

    /// The time by which the store judges.
    pub async fn now(&self) -> Timestamp {
        self.store().now().await.expect("the store tells the time")
    }

    /// One shard after the other.
    pub fn any_shard(&self) -> u16 {
        self.0.next_shard.fetch_add(1, Ordering::Relaxed) % self.shards()
    }

    /// A number for a claim, greater than all before; as engines have them, the time or a little more.
    pub fn number(&self) -> i64 {
        let now = self.clock().local_now().micros();
        let next = |last: i64| Some(now.max(last + 1));
        let last = self.0.numbers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        now.max(last.unwrap_or_default() + 1)
    }

    /// Begins to tell of a run of `definition`: it starts when that is awaited.
    pub fn start(&self, definition: &str) -> Starting {
        Starting::new(self, definition)
    }

    /// Begins to tell of a run with a key.
    pub fn start_keyed(&self, definition: &str, key: &str) -> Starting {
        self.start(definition).key(key)
    }

    /// The node called `name`, which joins the first time it is named. It knows [`KNOWN`].
    pub async fn node(&self, name: &str) -> NodeId {
        let codes: Vec<String> = KNOWN.iter().map(|known| code(known, 1)).collect();
        let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
        let known = self.0.nodes.lock().get(name).map(|member| member.id);
        match known {
            Some(id) => id,
            None => self.join(name, &codes).await,
        }
    }

    /// A node joins that knows exactly these codes (`greet@2`).
    pub async fn join(&self, name: &str, codes: &[&str]) -> NodeId {
        let card = card(name, codes);
        self.store().join(&card).await.expect("a node joins");
        let codes = codes.iter().map(|code| (*code).to_owned()).collect();
        self.0.nodes.lock().insert(name.to_owned(), Member { id: card.id, codes });
        card.id
    }

    /// The node stops for good.
    pub async fn leave(&self, name: &str) {
        let id = self.node(name).await;
        self.store().leave(id).await.expect("a node leaves");
        self.0.nodes.lock().remove(name);
    }

    /// A renewal of the node's lease that knows of nothing; add what it knows.
    pub async fn renewal(&self, name: &str) -> Renew {
        Renew { node: self.node(name).await, lease: LEASE, settled: 0, known: Vec::new() }
    }

    /// Renews a lease.
    pub async fn renew(&self, ask: &Renew) -> Renewed {
        self.store().renew(ask).await.expect("a node renews its lease")
    }

    /// What the node would ask for in `shard`: one run of [`QUEUE`]. Change what matters.
    pub async fn ask(&self, name: &str, shard: u16) -> Claim {
        let node = self.node(name).await;
        let codes = self.0.nodes.lock().get(name).map(|member| member.codes.clone()).unwrap_or_default();
        Claim {
            node,
            number: self.number(),
            shard,
            queues: vec![QUEUE.into()],
            codes,
            limit: 1,
            early: Duration::ZERO,
            from: None,
        }
    }

    /// Claims.
    pub async fn claim(&self, ask: &Claim) -> Claims {
        self.store().claim(ask).await.expect("a node claims")
    }

    /// Claims at most `limit` due runs of all shards for a node, as an engine does: it renews its lease
    /// and does its housekeeping first. A node that was found dead joins anew.
    pub async fn claims_as(&self, name: &str, limit: u32) -> Vec<Turn> {
        let renewal = self.renewal(name).await;
        if !self.renew(&renewal).await.alive {
            self.0.nodes.lock().remove(name);
        }
        self.sweep().await;
        let mut turns = Vec::new();
        for shard in 0..self.shards() {
            let left = limit - turns.len() as u32;
            if left > 0 {
                let ask = Claim { limit: left, ..self.ask(name, shard).await };
                let claims = self.claim(&ask).await;
                turns.extend(claims.runs.into_iter().map(|run| Turn::new(self, ask.node, run)));
            }
        }
        turns
    }

    /// Claims at most `limit` due runs of a queue with rules.
    pub async fn claim_queue(&self, name: &str, queue: &str, limit: u32) -> Claims {
        let Claim { node, number, codes, .. } = self.ask(name, 0).await;
        let ask = QueueClaim { node, number, queue: queue.into(), codes, limit };
        self.store().claim_queue(&ask).await.expect("a node claims from a queue")
    }

    /// The same, as turns.
    pub async fn turns_of(&self, name: &str, queue: &str, limit: u32) -> Vec<Turn> {
        let node = self.node(name).await;
        let claims = self.claim_queue(name, queue, limit).await;
        claims.runs.into_iter().map(|run| Turn::new(self, node, run)).collect()
    }

    /// Gives a queue these rules.
    pub async fn rules(&self, queue: &str, rules: QueueRules) {
        self.change_queue(queue, QueueChange::Rules(Some(rules))).await;
    }

    /// Does something to a queue.
    pub async fn change_queue(&self, queue: &str, change: QueueChange) -> QueueCard {
        match self.control(&Control::Queue { name: queue.into(), change }).await {
            Controlled::Queue(card) => card,
            other => panic!("a queue is changed, and the answer is {other:?}"),
        }
    }

    /// Does something to a schedule.
    pub async fn change_schedule(&self, name: &str, change: ScheduleChange) -> Option<ScheduleView> {
        match self.control(&Control::Schedule { name: name.into(), change }).await {
            Controlled::Schedule(view) => view,
            other => panic!("a schedule is changed, and the answer is {other:?}"),
        }
    }

    /// Claims the one run that is due.
    pub async fn claim_as(&self, name: &str) -> Turn {
        self.claims_as(name, 1).await.pop().expect("a run is due")
    }

    /// Makes durable what one turn wrote.
    pub async fn commit(&self, writing: Writing) -> Committed {
        self.commit_all(vec![writing]).await[0]
    }

    /// Makes durable what turns of one node in one shard wrote.
    pub async fn commit_all(&self, writings: Vec<Writing>) -> Vec<Committed> {
        self.store().commit(Arc::new(batch(writings))).await.expect("a batch commits")
    }

    /// Commits, again and again while somebody else is busy with what it needs: as the committer does.
    pub async fn commit_patiently(&self, writing: Writing) -> Committed {
        loop {
            match self.commit(writing.clone()).await {
                Committed::Busy => tokio::task::yield_now().await,
                answer => return answer,
            }
        }
    }

    /// Delivers one message.
    pub async fn deliver(&self, message: &Delivery) -> Delivered {
        let mut answers = self.deliver_all(std::slice::from_ref(message)).await;
        answers.pop().expect("an answer for a message")
    }

    /// Delivers messages.
    pub async fn deliver_all(&self, messages: &[Delivery]) -> Vec<Delivered> {
        self.store().deliver(messages).await.expect("messages are delivered")
    }

    /// Sends an event to a run.
    pub async fn send(&self, run: RunId, name: &str, body: &str) -> Delivered {
        self.deliver(&event(Address::Run(run), name, body)).await
    }

    /// Asks a run to stop.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Controlled {
        self.control(&Control::Cancel { run: Address::Run(run), reason: reason.into() }).await
    }

    /// Has `listener` hear of a run's end under `name`.
    pub async fn listen(&self, run: RunId, listener: RunId, name: &str) -> Listened {
        let ask = Listen { run, listener, name: name.into() };
        self.store().listen(&ask).await.expect("a run listens")
    }

    /// Does what people ask.
    pub async fn control(&self, control: &Control) -> Controlled {
        self.store().control(control).await.expect("the store does what is asked")
    }

    /// Does the housekeeping of every shard, and blocks nothing.
    pub async fn sweep(&self) -> Swept {
        self.sweep_unknown_after(Limits::DURATION).await
    }

    /// Does the housekeeping of every shard: what has been due for so long and nobody takes is blocked.
    pub async fn sweep_unknown_after(&self, unknown_after: Duration) -> Swept {
        let mut all = Swept::default();
        for shard in 0..self.shards() {
            let ask = Sweep { unknown_after, limit: 1_000, ..sweep_of(shard) };
            let swept = self.store().sweep(&ask).await.expect("the store is swept");
            all.dead_nodes.extend(swept.dead_nodes);
            all.freed += swept.freed;
            all.blocked += swept.blocked;
            all.expired += swept.expired;
            all.forgotten = all.forgotten.max(swept.forgotten);
        }
        all.dead_nodes.sort();
        all.dead_nodes.dedup();
        all
    }

    /// A run as people see it.
    pub async fn view(&self, run: RunId) -> RunView {
        self.store().run(run).await.expect("a run can be read").expect("the run exists")
    }

    /// Where a run stands.
    pub async fn status(&self, run: RunId) -> Status {
        self.view(run).await.status
    }

    /// The text with which a run ended.
    pub async fn output(&self, run: RunId) -> String {
        let ended = self.view(run).await.ended.expect("the run has ended");
        text(&ended.output.expect("the run has an output"))
    }

    /// The names of a run's entries, in order.
    pub async fn journal(&self, run: RunId) -> Vec<String> {
        let entries = self.store().journal(run, 0, 10_000).await.expect("a journal can be read");
        entries.into_iter().map(|entry| entry.name.to_string()).collect()
    }

    /// The bodies of a run's unread news, oldest first.
    pub async fn inbox(&self, run: RunId) -> Vec<String> {
        let news = self.store().inbox(&[(run, 0)]).await.expect("an inbox can be read");
        news.into_iter().map(|(_, news)| news.body.as_ref().map(text).unwrap_or_default()).collect()
    }

    /// Begins a user's transaction.
    pub async fn begin(&self) -> Box<dyn UserTx> {
        self.store().begin().await.expect("a transaction begins")
    }

    /// Runs SQL behind the seam; tables are called `outlast.name` on both databases.
    pub async fn raw(&self, sql: &str) -> Vec<ValueRow> {
        let mut tx = self.begin().await;
        let rows = tx.query(&self.named(sql), &[]).await.unwrap_or_else(|error| panic!("{error}: {sql}"));
        tx.commit().await.expect("a look behind the seam commits");
        rows
    }

    /// The one number that SQL gives.
    pub async fn count(&self, sql: &str) -> i64 {
        match self.raw(sql).await.first().map(|row| &row[..]) {
            Some([Value::Int(number)]) => *number,
            other => panic!("not one number but {other:?}: {sql}"),
        }
    }

    /// SQL as this database reads it.
    pub fn named(&self, sql: &str) -> String {
        self.kind().named(sql)
    }

    /// A run's id in SQL.
    pub fn sql_id(&self, run: RunId) -> String {
        match self.kind() {
            StoreKind::Sqlite => format!("x'{}'", run.uuid().simple()),
            StoreKind::Postgres => format!("'{}'", run.uuid()),
        }
    }
}

/// A node that begins, knows these codes (`greet@2`) and serves [`QUEUE`].
pub fn card(name: &str, codes: &[&str]) -> NodeCard {
    let definition = |code: &&str| {
        let (name, version) = code.split_once('@').expect("a code such as greet@1");
        DefinitionCard {
            name: name.into(),
            version: version.parse().expect("a version is a number"),
            kind: if name == "mail" { RunKind::Job } else { RunKind::Workflow },
            active: true,
            signature: "fn(Order) -> Receipt".into(),
            queue: QUEUE.into(),
            priority: 5,
            options: "{}".into(),
        }
    };
    NodeCard {
        id: NodeId::new(fastrand::u128(..)),
        name: name.into(),
        host: "here".into(),
        pid: std::process::id(),
        lease: LEASE,
        definitions: codes.iter().map(definition).collect(),
        queues: vec![QUEUE.into()],
        rules: Vec::new(),
        slots: 0,
        about: String::new(),
    }
}

fn batch(writings: Vec<Writing>) -> Batch {
    let (node, shard) = (writings[0].node, writings[0].commit.run.shard());
    let fits = |writing: &Writing| writing.node == node && writing.commit.run.shard() == shard;
    assert!(writings.iter().all(fits), "a batch is of one node and one shard");
    Batch { node, shard, runs: writings.into_iter().map(|writing| writing.commit).collect() }
}

fn text(payload: &Payload) -> String {
    payload.decode("a text").expect("a text")
}

/// A number that changes with the schema, so that no test copies a template of an older one.
fn schema() -> io::Result<u64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/migrations");
    let files = fs::read_dir(folder)?.map(|file| file.map(|file| file.path()));
    let mut files = files.collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file)?.hash(&mut hasher);
    }
    include_str!("../../store/src/migrate.rs").hash(&mut hasher);
    Ok(hasher.finish())
}

/// A sweep of a shard by nobody in particular, from the front, of ten rows of each kind that are older than a day.
pub fn sweep_of(shard: u16) -> Sweep {
    let day = Duration::from_secs(86_400);
    let by = outlast_core::NodeId::new(0);
    Sweep {
        by,
        shard,
        unknown_after: day,
        after: Mark::default(),
        forget_after: day,
        limit: 10,
        only_orphans: false,
    }
}
