//! One story through the whole seam, told on every database: it shows that drivers, transitions and
//! reads fit together. What each transition promises is tested elsewhere.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::{Entry, NodeId, Op, Payload, Phase, RunId, Status, Timestamp};
use outlast_store::*;

const LEASE: Duration = Duration::from_secs(10);

fn node(name: &str) -> NodeCard {
    let definition = DefinitionCard {
        name: "greet".into(),
        version: 1,
        kind: RunKind::Workflow,
        active: true,
        signature: "s".into(),
        queue: "default".into(),
        priority: 5,
        options: "{}".into(),
    };
    NodeCard {
        id: NodeId::new(u128::from(fastrand::u64(..))),
        name: name.into(),
        host: "here".into(),
        pid: 1,
        lease: LEASE,
        definitions: vec![definition],
        queues: vec!["default".into()],
        rules: Vec::new(),
        slots: 0,
        about: String::new(),
    }
}

fn json(text: &'static str) -> Payload {
    Payload { codec: None, bytes: text.into() }
}

fn greet(shard: u16, key: Option<&str>) -> NewRun {
    NewRun {
        id: RunId::new(shard, Timestamp::from_micros(1_000_000), fastrand::u64(..)),
        kind: RunKind::Workflow,
        tenant: String::new(),
        definition: "greet".into(),
        version: 1,
        key: key.map(str::to_owned),
        queue: "default".into(),
        priority: 5,
        due: Due::Now,
        timeout: None,
        input: json("\"Ann\""),
        owner: None,
        roles: vec![],
        tags: vec![("city".into(), "Bern".into())],
        trace: None,
        group: None,
        unique: None,
        parent: None,
        stops_with_parent: false,
    }
}

fn claim(node: &NodeCard, number: i64, shard: u16) -> Claim {
    Claim {
        node: node.id,
        number,
        shard,
        queues: vec!["default".into()],
        codes: vec![code("greet", 1)],
        limit: 10,
        early: std::time::Duration::ZERO,
        from: None,
    }
}

fn entry(pos: u32, op: Op, name: &str) -> Entry {
    let body = Some(json("\"hello\""));
    Entry { pos, op, phase: Phase::Done, name: name.into(), at: Timestamp::default(), took: None, body }
}

fn commit(run: &Claimed) -> RunCommit {
    RunCommit::new(run.id, run.epoch)
}

/// A run is started, claimed, takes a step, waits for an event, gets it and completes.
pub(crate) async fn a_run_lives_and_ends(store: DynStore) {
    let node = node("one");
    let mut signals = store.signals();
    store.join(&node).await.unwrap();
    assert_eq!(store.definitions().await.unwrap(), node.definitions);

    let shard = store.shards() - 1;
    let run = greet(shard, None);
    let started = store.start(std::slice::from_ref(&run), None).await.unwrap();
    assert_eq!(started, [Started::Created { id: run.id, held: false }]);
    assert_eq!(store.start(std::slice::from_ref(&run), None).await.unwrap(), started);
    while signals.recv().await.unwrap() != Signal::Due {}

    let claims = store.claim(&claim(&node, 1, shard)).await.unwrap();
    assert_eq!(claims.runs.len(), 1);
    let held = &claims.runs[0];
    let loaded = store.load(&[run.id]).await.unwrap();
    assert_eq!(loaded[0].record.input, run.input);

    let mut turn = commit(held);
    turn.entries = vec![entry(1, Op::Step, "charge")];
    turn.next = Some(Next::Suspend { wake_at: None, seen: held.news });
    let batch = Arc::new(Batch { node: node.id, shard, runs: vec![turn] });
    assert_eq!(store.commit(Arc::clone(&batch)).await.unwrap(), [Committed::Done]);
    assert_eq!(store.run(run.id).await.unwrap().unwrap().status, Status::Waiting);

    let event = Delivery {
        id: uuid::Uuid::from_u128(u128::from(fastrand::u64(..))),
        to: Address::Run(run.id),
        kind: NewsKind::Event,
        name: "approval".into(),
        body: Some(json("true")),
    };
    assert_eq!(store.deliver(&[event]).await.unwrap(), [Delivered::Done { run: run.id }]);

    let claims = store.claim(&claim(&node, 2, shard)).await.unwrap();
    let held = &claims.runs[0];
    assert_eq!(held.inbox.len(), 1);
    let mut turn = commit(held);
    turn.entries = vec![entry(2, Op::Event, "approval")];
    turn.consumed = vec![held.inbox[0].seq];
    let ended = Ended { status: Status::Completed, output: Some(json("\"done\"")), error: None };
    turn.next = Some(Next::Finish(ended.clone()));
    let batch = Arc::new(Batch { node: node.id, shard, runs: vec![turn] });
    assert_eq!(store.commit(batch).await.unwrap(), [Committed::Done]);

    assert_eq!(store.ended(&[run.id]).await.unwrap(), [(run.id, ended)]);
    let view = store.run(run.id).await.unwrap().unwrap();
    assert_eq!((view.status, view.tags), (Status::Completed, run.tags));
    assert_eq!(store.journal(run.id, 0, 10).await.unwrap().len(), 2);
    let page = store.list(&Filter::default(), None, 10).await.unwrap();
    assert_eq!(page.runs.len(), 1);
    store.leave(node.id).await.unwrap();
    assert!(store.nodes().await.unwrap().is_empty());
}

/// What a user starts, sends and records in a transaction happens with the user's rows or not at all.
pub(crate) async fn a_users_transaction_carries_runs(store: DynStore) {
    let node = node("one");
    store.join(&node).await.unwrap();
    let shard = store.shards() - 1;
    let (gone, kept) = (greet(shard, None), greet(shard, None));

    let mut tx = store.begin().await.unwrap();
    tx.execute("create table orders (id bigint primary key, name text)", &[]).await.unwrap();
    tx.commit().await.unwrap();
    let insert = "insert into orders (id, name) values ($1, $2)";
    let order = |id| [Value::Int(id), Value::Text("tea".into())];

    let mut tx = store.begin().await.unwrap();
    tx.execute(insert, &order(1)).await.unwrap();
    tx.start(std::slice::from_ref(&gone)).await.unwrap();
    drop(tx);

    let mut signals = store.signals();
    let mut tx = store.begin().await.unwrap();
    tx.execute(insert, &order(2)).await.unwrap();
    tx.start(std::slice::from_ref(&kept)).await.unwrap();
    tx.commit().await.unwrap();
    while signals.recv().await.unwrap() != Signal::Due {}
    assert!(store.run(gone.id).await.unwrap().is_none());

    let claims = store.claim(&claim(&node, 1, shard)).await.unwrap();
    let held = claims.runs.iter().find(|run| run.id == kept.id).unwrap();
    for (epoch, answer) in [(held.epoch - 1, Committed::LeaseLost), (held.epoch, Committed::Done)] {
        let mut tx = store.begin().await.unwrap();
        tx.execute("update orders set name = $1 where id = $2", &[Value::Text("milk".into()), Value::Int(2)])
            .await
            .unwrap();
        let debit = entry(1, Op::Transaction, "debit");
        assert_eq!(tx.record(node.id, kept.id, epoch, &debit).await.unwrap(), answer);
        match answer {
            Committed::Done => tx.commit().await.unwrap(),
            _ => tx.rollback().await.unwrap(),
        }
        let mut tx = store.begin().await.unwrap();
        let rows = tx.query("select id, name from orders", &[]).await.unwrap();
        let name = if answer == Committed::Done { "milk" } else { "tea" };
        assert_eq!(rows, [[Value::Int(2), Value::Text(name.into())]]);
        tx.rollback().await.unwrap();
    }
    assert_eq!(store.journal(kept.id, 0, 10).await.unwrap()[0].name.to_string(), "debit");
}

/// Many callers at once, as the engine's clients are: everything arrives, once.
pub(crate) async fn many_starts_at_once_all_arrive(store: DynStore) {
    let starts: Vec<_> = (0..200)
        .map(|n| {
            let store = Arc::clone(&store);
            // Every key is used twice.
            let key = format!("order-{}", n / 2);
            let run = greet(outlast_core::shard_of_key("", "greet", &key, store.shards()), Some(&key));
            tokio::spawn(async move { store.start(&[run], None).await })
        })
        .collect();
    let mut created = 0;
    for start in starts {
        match start.await.unwrap().unwrap()[0] {
            Started::Created { .. } => created += 1,
            Started::Existing { .. } => {}
            Started::Conflict { id } | Started::Taken { id } => panic!("{id} has another input"),
        }
    }
    assert_eq!(created, 100);
    assert_eq!(store.list(&Filter::default(), None, 1000).await.unwrap().runs.len(), 100);
}
