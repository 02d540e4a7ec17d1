//! What transitions make of what they are asked for: statements and their rows, for a database that answers at once.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use outlast_core::Status;
use outlast_store::adapters::Verb;
use outlast_store::{
    Batch, Call, Cell, Dialect, Due, Ended, NewRun, Next, Row, RunCommit, RunKind, Signal, StoreError, Tx,
    bench,
};

use crate::counted;
use crate::pure::{journal, node, number, run};

pub(crate) fn commit_entries(count: usize) {
    commit(count, || None);
}

pub(crate) fn commit_ends(count: usize) {
    commit(count, || {
        Some(Next::Finish(Ended { status: Status::Completed, output: Some(number(42)), error: None }))
    });
}

fn commit(count: usize, next: impl Fn() -> Option<Next>) {
    let entries = journal(1);
    let one = |at| RunCommit { entries: entries.clone(), next: next(), ..RunCommit::new(run(at), 1) };
    let batch = Batch { node: node(), shard: 0, runs: (0..count).map(one).collect() };
    let mut tx = Answers::that_all_are_held(count);
    let answers = counted(|| ready(bench::commit(&mut tx, &batch)));
    let done = answers.expect("nothing refuses it");
    assert!(done.iter().all(|done| *done), "a commit asks for what is not answered here");
}

pub(crate) fn start(count: usize) {
    let one = |at| NewRun {
        id: run(at),
        kind: RunKind::Workflow,
        tenant: String::new(),
        definition: "checkout".into(),
        version: 1,
        key: None,
        queue: "default".into(),
        priority: 5,
        due: Due::Now,
        timeout: None,
        input: number(42),
        owner: None,
        roles: Vec::new(),
        tags: vec![("customer".into(), "somebody".into())],
        trace: None,
        group: None,
        unique: None,
        parent: None,
        stops_with_parent: false,
    };
    let runs: Vec<NewRun> = (0..count).map(one).collect();
    let mut tx = Answers(Vec::new());
    let started = counted(|| ready(runs[..].run(&mut tx, 1)));
    assert_eq!(started.expect("nothing refuses it").len(), count);
}

/// A transaction whose answers were made before: to a statement of that name, once.
struct Answers(Vec<(&'static str, Vec<Row>)>);

impl Answers {
    fn that_all_are_held(count: usize) -> Answers {
        let all = || vec![Row(vec![Cell::Int(count as i64)])];
        Answers(vec![("fence", vec![Row(vec![node().into()])]), ("journal_new", all()), ("finish", all())])
    }
}

#[async_trait]
impl Tx for Answers {
    async fn flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        let mut answer = |call: &Call| {
            let known = self.0.iter_mut().find(|(name, _)| *name == call.sql.name);
            known.map(|(_, rows)| std::mem::take(rows)).unwrap_or_default()
        };
        Ok(calls.iter().map(&mut answer).collect())
    }

    async fn last_flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.flight(calls).await
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn is_users(&self) -> bool {
        false
    }

    fn signal(&mut self, _signal: Signal) {}
}

/// What a future gives that waits for nothing.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}
