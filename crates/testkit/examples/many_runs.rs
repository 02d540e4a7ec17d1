//! Fills a database with very many runs that have ended, through the store's own transitions: for whoever wants to know what
//! a list costs among a million of them.
//!
//! ```sh
//! cargo run --package outlast-testkit --example many_runs -- sqlite:///tmp/many.db 1000000
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outlast_core::{NodeId, Payload, RunId, Status};
use outlast_store::{
    Batch, DefinitionCard, Due, Ended, Hold, NewRun, Next, NodeCard, OpenOptions, RunCommit, RunKind,
    Started, open,
};

/// How many are started, and ended, at once.
const BATCH: usize = 2000;
/// Those that are there, how many of a thousand each has, and where it stands in line.
const DEFINITIONS: [(&str, usize, &str); 4] =
    [("order", 600, "default"), ("mail", 300, "mail"), ("report", 99, "default"), ("rare", 1, "slow")];

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let usage = "say where and how many: many_runs sqlite:///tmp/many.db 1000000";
    let (url, runs) = (words.next().context(usage)?, words.next().context(usage)?.parse::<usize>()?);
    let store = open(&url, OpenOptions::default()).await?;
    let node = NodeId::new(fastrand::u128(..));
    store.join(&card(node)).await?;
    let (began, mut made, mut claim) = (Instant::now(), 0, 0);
    while made < runs {
        claim += 1;
        let now = store.now().await?;
        let all: Vec<NewRun> = (made..runs.min(made + BATCH))
            .map(|nth| new(nth, RunId::new(0, now, fastrand::u64(..))))
            .collect();
        for answer in store.start(&all, Some(Hold { node, claim })).await? {
            ensure!(matches!(answer, Started::Created { held: true, .. }), "it was not held: {answer:?}");
        }
        let ends = all.iter().enumerate().map(|(at, run)| {
            let next = Some(Next::Finish(end(made + at, run)));
            RunCommit { next, ..RunCommit::new(run.id, 1) }
        });
        store.commit(Arc::new(Batch { node, shard: 0, runs: ends.collect() })).await?;
        made += all.len();
        if made % 100_000 < BATCH {
            println!("{made} runs in {:.0} s", began.elapsed().as_secs_f64());
        }
    }
    store.leave(node).await?;
    Ok(())
}

/// The definition and the queue of the nth.
fn definition(nth: usize) -> (&'static str, &'static str) {
    let mut place = nth * 7919 % 1000;
    for (name, share, queue) in DEFINITIONS {
        if place < share {
            return (name, queue);
        }
        place -= share;
    }
    (DEFINITIONS[0].0, DEFINITIONS[0].2)
}

fn new(nth: usize, id: RunId) -> NewRun {
    let (definition, queue) = definition(nth);
    NewRun {
        id,
        kind: RunKind::Job,
        tenant: String::new(),
        definition: definition.to_owned(),
        version: 1,
        key: (nth.is_multiple_of(10)).then(|| format!("key-{nth}")),
        unique: None,
        queue: queue.to_owned(),
        group: None,
        priority: 5,
        due: Due::Now,
        timeout: None,
        input: Payload { codec: None, bytes: format!(r#"{{"number":{nth}}}"#).into() },
        owner: Some("ann".to_owned()),
        roles: Vec::new(),
        tags: vec![("city".to_owned(), format!("city-{}", nth % 5000))],
        trace: None,
        parent: None,
        stops_with_parent: false,
    }
}

/// One in fifty fails, one in a thousand was cancelled.
fn end(nth: usize, run: &NewRun) -> Ended {
    let output = Some(Payload { codec: None, bytes: "null".into() });
    match nth {
        _ if nth.is_multiple_of(1000) => Ended { status: Status::Cancelled, output: None, error: None },
        _ if nth.is_multiple_of(50) => {
            let message = format!("{} {nth} was declined", run.definition);
            let error = format!(r#"{{"own":{{"message":"{message}","value":null}}}}"#);
            Ended { status: Status::Failed, output: None, error: Some(error) }
        }
        _ => Ended { status: Status::Completed, output, error: None },
    }
}

fn card(id: NodeId) -> NodeCard {
    let definition = |(name, _, queue): (&str, usize, &str)| DefinitionCard {
        name: name.to_owned(),
        version: 1,
        kind: RunKind::Job,
        active: true,
        signature: String::new(),
        queue: queue.to_owned(),
        priority: 5,
        options: "{}".to_owned(),
    };
    NodeCard {
        id,
        name: "many_runs".to_owned(),
        host: "here".to_owned(),
        pid: std::process::id(),
        lease: Duration::from_secs(3600),
        definitions: DEFINITIONS.map(definition).to_vec(),
        queues: Vec::new(),
        rules: Vec::new(),
        slots: 0,
        about: String::new(),
    }
}
