//! Parts that are plain functions.

use outlast_core::{Entry, Limits, NodeId, Op, Payload, Phase, Replay, RunId, Timestamp};
use outlast_store::{Dialect, RunCommit, Shape, render as render_one, statements};
use serde::{Deserialize, Serialize};

use crate::counted;

/// A journal of steps whose code asks for one after the other.
pub(crate) fn replay(count: usize) {
    let journal = journal(count);
    let names: Vec<String> = journal.iter().map(|entry| entry.name.to_string()).collect();
    let handed = counted(|| {
        let mut replay = Replay::new(journal);
        let mut handed = 0;
        for (slot, name) in names.iter().enumerate() {
            let asked = replay.ask(Op::Step, name, slot);
            handed += usize::from(asked.recorded && replay.hand_over(|_| true).is_some());
        }
        assert!(replay.leftovers().is_empty());
        handed
    });
    assert_eq!(handed, count);
}

/// Commits that come while a batch is on its way: four of each run.
pub(crate) fn gather(count: usize) {
    let journal = journal(4);
    let commit = |at: usize| {
        let entries = vec![journal[at % 4].clone()];
        RunCommit { entries, ..RunCommit::new(run(at / 4), 1) }
    };
    let commits: Vec<RunCommit> = (0..count).map(commit).collect();
    let batch = counted(|| outlast::bench::gathered(commits));
    assert_eq!(batch.iter().map(|run| run.entries.len()).sum::<usize>(), count);
}

pub(crate) fn encode(count: usize) {
    let orders: Vec<Order> = (0..count).map(order).collect();
    let limits = Limits::default();
    let bytes: usize = counted(|| {
        let encoded = orders.iter().map(|order| Payload::encode("the order", order, &limits));
        encoded.map(|payload| payload.expect("an order is JSON").bytes.len()).sum()
    });
    assert!((180..220).contains(&(bytes / count)), "an order has {} bytes", bytes / count);
}

pub(crate) fn decode(count: usize) {
    let encoded =
        |at| Payload::encode("the order", &order(at), &Limits::default()).expect("an order is JSON");
    let payloads: Vec<Payload> = (0..count).map(encoded).collect();
    let cents: u64 = counted(|| {
        let orders = payloads.iter().map(|payload| payload.decode::<Order>("the order"));
        orders.map(|order| order.expect("it was an order").lines[0].cents).sum()
    });
    assert_ne!(cents, 0);
}

pub(crate) fn render(count: usize) {
    let all = statements::all();
    let both = all.iter().flat_map(|sql| [(*sql, Dialect::Sqlite), (*sql, Dialect::Postgres)]);
    let each: Vec<_> = both.cycle().take(count).collect();
    let bytes: usize =
        counted(|| each.iter().map(|(sql, dialect)| render_one(sql, *dialect, Shape::Many).text.len()).sum());
    assert_ne!(bytes, 0);
}

/// What a loop over one step has recorded.
pub(crate) fn journal(count: usize) -> Vec<Entry> {
    let name = |pos: u32| if pos == 1 { "line".to_owned() } else { format!("line#{pos}") };
    let entry = |pos: u32| Entry {
        pos,
        op: Op::Step,
        phase: Phase::Done,
        name: name(pos).into(),
        at: Timestamp::from_micros(BEGINNING),
        took: None,
        body: Some(number(u64::from(pos))),
    };
    (1..=count as u32).map(entry).collect()
}

pub(crate) fn number(number: u64) -> Payload {
    Payload::encode("a number", &number, &Limits::default()).expect("a number is JSON")
}

pub(crate) fn run(at: usize) -> RunId {
    // Scattered as random ids are, and the same each time.
    RunId::new(0, Timestamp::from_micros(BEGINNING), (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub(crate) fn node() -> NodeId {
    NodeId::new(42)
}

/// The start of 2030.
pub(crate) const BEGINNING: i64 = 1_893_456_000_000_000;

/// What users' values are like: names, numbers, a list, something that may be missing.
#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
    customer: String,
    note: Option<String>,
    express: bool,
    rate: f64,
    lines: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    article: String,
    pieces: u32,
    cents: u64,
}

fn order(at: usize) -> Order {
    let line = |n: usize| Line { article: format!("article {n}"), pieces: 1 + n as u32, cents: 1999 };
    Order {
        id: format!("order-{:06}", at % 1_000_000),
        customer: "somebody@example.com".into(),
        note: None,
        express: at.is_multiple_of(2),
        rate: 0.25,
        lines: (0..2).map(line).collect(),
    }
}
