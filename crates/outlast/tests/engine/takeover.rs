//! What a dead node leaves behind.

use std::time::Duration;

use outlast::prelude::*;
use outlast_store::{Claim, Store};
use outlast_testkit::card;

use crate::pace::{comes, watched};

fn noop() -> Job<u32, (), AnyError> {
    Job::new("noop", |_: JobCtx, _: u32| async { Ok::<(), AnyError>(()) })
}

#[tokio::test(start_paused = true)]
async fn all_that_a_dead_node_held_is_free_at_once_however_much_it_was() {
    const RUNS: u32 = 3500;
    let store = watched().await;
    let client = Outlast::on(store.clone()).client();
    let runs = client.start_many(noop(), 0..RUNS).await.unwrap();
    let gone = card("gone", &["noop@1"]);
    store.join(&gone).await.unwrap();
    let ask = Claim {
        node: gone.id,
        number: 1,
        shard: 0,
        queues: vec!["default".into()],
        codes: vec!["noop@1".into()],
        limit: RUNS,
        early: Duration::ZERO,
        from: None,
    };
    assert_eq!(store.claim(&ask).await.unwrap().runs.len(), RUNS as usize);
    store.clock().advance(1.hour());

    let _app = Outlast::on(store.clone()).job(noop()).run().await.unwrap();
    for run in runs {
        comes(run.result()).await.unwrap();
    }
    // Those of one round follow each other; between rounds there are seconds.
    let rounds = store.times("sweep").windows(2).filter(|pair| pair[1] - pair[0] > 1.second()).count();
    assert_eq!(rounds, 0, "{:?}", store.times("sweep"));
    assert!(store.count("sweep") >= 4);
}
