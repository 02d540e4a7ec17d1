//! A store to tell stories about.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use outlast_core::{Entry, NodeId, Op, Payload, Phase, RunId, ShardCount, Timestamp, shard_of_key};
use outlast_store::*;

pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// A store whose clock stands still, with a node `a` that knows `greet@1` and `mail@1`.
pub(crate) struct World {
    pub(crate) store: DynStore,
    pub(crate) node: NodeId,
    claims: AtomicI64,
    made: AtomicU32,
}

impl World {
    pub(crate) async fn new(shards: ShardCount) -> World {
        let start: Timestamp = "2027-03-14T01:30:00Z".parse().unwrap();
        let options = OpenOptions { shards, clock: Clock::stopped_at(start), ..OpenOptions::default() };
        World::open("sqlite::memory:", options).await
    }

    /// A store at `url`, with the same node.
    pub(crate) async fn open(url: &str, options: OpenOptions) -> World {
        let store = outlast_store::open(url, options).await.unwrap();
        let world = World { store, node: NodeId::new(1), claims: AtomicI64::new(0), made: AtomicU32::new(0) };
        world.join(1).await;
        world
    }

    /// Another node with the same code.
    pub(crate) async fn join(&self, node: u128) -> NodeId {
        let card = card(node, &["greet", "mail"]);
        self.store.join(&card).await.unwrap();
        card.id
    }

    /// A run of `greet` that is due now, in some shard, with no key.
    pub(crate) fn greet(&self) -> NewRun {
        let n = self.made.fetch_add(1, Ordering::SeqCst);
        let shard = n as u16 % self.store.shards();
        let id = RunId::new(shard, self.now(), fastrand::u64(..));
        NewRun {
            id,
            kind: RunKind::Workflow,
            tenant: String::new(),
            definition: "greet".into(),
            version: 1,
            key: None,
            queue: "main".into(),
            priority: 4,
            due: Due::Now,
            timeout: None,
            input: json("1"),
            owner: None,
            roles: Vec::new(),
            tags: Vec::new(),
            trace: None,
            group: None,
            unique: None,
            parent: None,
            stops_with_parent: false,
        }
    }

    /// A run of `greet` with a key.
    pub(crate) fn keyed(&self, key: &str) -> NewRun {
        let shard = shard_of_key("", "greet", key, self.store.shards());
        let id = RunId::new(shard, self.now(), fastrand::u64(..));
        NewRun { id, key: Some(key.into()), ..self.greet() }
    }

    pub(crate) async fn start(&self, run: &NewRun) -> RunId {
        match self.store.start(std::slice::from_ref(run), None).await.unwrap()[0] {
            Started::Created { id, held: false } => id,
            ref other => panic!("{other:?}"),
        }
    }

    /// Starts a run of `greet` and claims it.
    pub(crate) async fn running(&self) -> Claimed {
        let id = self.start(&self.greet()).await;
        self.claim_of(id).await
    }

    pub(crate) fn claim_number(&self) -> i64 {
        self.claims.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn ask(&self, shard: u16) -> Claim {
        Claim {
            node: self.node,
            number: self.claim_number(),
            shard,
            queues: vec!["main".into(), "mail".into()],
            codes: vec!["greet@1".into(), "mail@1".into()],
            limit: 10,
            early: std::time::Duration::ZERO,
            from: None,
        }
    }

    /// Claims what is due in every shard.
    pub(crate) async fn claim_all(&self) -> Vec<Claimed> {
        let mut claimed = Vec::new();
        for shard in 0..self.store.shards() {
            claimed.extend(self.store.claim(&self.ask(shard)).await.unwrap().runs);
        }
        claimed
    }

    /// Claims in the run's shard and expects it among what comes.
    pub(crate) async fn claim_of(&self, run: RunId) -> Claimed {
        let claims = self.store.claim(&self.ask(run.shard())).await.unwrap();
        claims.runs.into_iter().find(|claimed| claimed.id == run).expect("it is due")
    }

    pub(crate) async fn commit(&self, run: RunCommit) -> Committed {
        let batch = Batch { node: self.node, shard: run.run.shard(), runs: vec![run] };
        self.store.commit(Arc::new(batch)).await.unwrap()[0]
    }

    /// Suspends a run until news come.
    pub(crate) async fn suspend(&self, run: &Claimed) {
        let next = Next::Suspend { wake_at: None, seen: run.news };
        assert_eq!(self.commit(ends(run, next)).await, Committed::Done);
    }

    pub(crate) async fn deliver(&self, message: Delivery) -> Delivered {
        self.store.deliver(&[message]).await.unwrap().remove(0)
    }

    pub(crate) async fn view(&self, run: RunId) -> RunView {
        self.store.run(run).await.unwrap().expect("it exists")
    }

    pub(crate) async fn journal(&self, run: RunId) -> Vec<String> {
        let entries = self.store.journal(run, 0, 100).await.unwrap();
        entries.into_iter().map(|entry| entry.name.to_string()).collect()
    }

    pub(crate) async fn inbox(&self, run: RunId) -> Vec<String> {
        let news = self.store.inbox(&[(run, 0)]).await.unwrap();
        news.into_iter().map(|(_, news)| format!("{}:{}", news.seq, news.name)).collect()
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.store.clock().advance(time);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.clock().local_now()
    }

    pub(crate) async fn sweep(&self) -> Vec<Swept> {
        let mut swept = Vec::new();
        for shard in 0..self.store.shards() {
            let ask = Sweep {
                by: outlast_core::NodeId::new(0),
                shard,
                unknown_after: Duration::from_secs(30),
                after: Mark::default(),
                forget_after: Duration::from_secs(86_400),
                limit: 100,
                only_orphans: false,
            };
            swept.push(self.store.sweep(&ask).await.unwrap());
        }
        swept
    }
}

pub(crate) fn card(node: u128, definitions: &[&str]) -> NodeCard {
    let definitions = definitions.iter().map(|name| definition(name, 1)).collect();
    NodeCard {
        id: NodeId::new(node),
        name: "a".into(),
        host: "here".into(),
        pid: 7,
        lease: LEASE,
        definitions,
        queues: Vec::new(),
        rules: Vec::new(),
        slots: 0,
        about: String::new(),
    }
}

pub(crate) fn definition(name: &str, version: u32) -> DefinitionCard {
    DefinitionCard {
        name: name.into(),
        version,
        kind: RunKind::Workflow,
        active: true,
        signature: "s".into(),
        queue: "main".into(),
        priority: 4,
        options: "{}".into(),
    }
}

pub(crate) fn json(text: &str) -> Payload {
    Payload { codec: None, bytes: text.to_owned().into() }
}

pub(crate) fn entry(pos: u32, name: &str) -> Entry {
    let body = Some(json(r#"{"a":1}"#));
    Entry {
        pos,
        op: Op::Step,
        phase: Phase::Done,
        name: name.into(),
        at: Timestamp::default(),
        took: None,
        body,
    }
}

/// A commit that records nothing and goes nowhere yet.
pub(crate) fn quiet(run: &Claimed) -> RunCommit {
    RunCommit::new(run.id, run.epoch)
}

pub(crate) fn records(run: &Claimed, entries: &[Entry]) -> RunCommit {
    RunCommit { entries: entries.to_vec(), ..quiet(run) }
}

pub(crate) fn ends(run: &Claimed, next: Next) -> RunCommit {
    RunCommit { next: Some(next), ..quiet(run) }
}

pub(crate) fn completed(output: &str) -> Next {
    let status = outlast_core::Status::Completed;
    Next::Finish(Ended { status, output: Some(json(output)), error: None })
}

pub(crate) fn event(to: Address, name: &str) -> Delivery {
    let id = uuid::Uuid::from_u128(fastrand::u128(..));
    Delivery { id, to, kind: NewsKind::Event, name: name.into(), body: Some(json("2")) }
}

pub(crate) fn by_key(key: &str) -> Address {
    Address::Key { tenant: String::new(), definition: "greet".into(), key: key.into() }
}

/// Waits for a hint; others may come first.
pub(crate) async fn hears(signals: &mut tokio::sync::broadcast::Receiver<Signal>, wanted: Signal) {
    let heard = async { while signals.recv().await.unwrap() != wanted {} };
    tokio::time::timeout(LEASE, heard).await.expect("the hint comes");
}
