//! Tells a story: opens its world, lets it happen, and looks whether what it leaves makes sense.

use std::time::Duration;

use tokio::time::timeout;

use crate::{World, postgres};

/// Which database a world stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// A file.
    Sqlite,
    /// A database of its own in the cluster of the tests.
    Postgres,
}

impl StoreKind {
    /// SQL as a database of this kind reads it.
    pub fn named(self, sql: &str) -> String {
        match self {
            StoreKind::Sqlite => sql.replace("outlast.", "outlast_"),
            StoreKind::Postgres => sql.to_owned(),
        }
    }
}

/// A story that takes longer waits for something that will not come.
const LIMIT: Duration = Duration::from_secs(120);

/// Tells `story` in a world of its own.
///
/// # Panics
///
/// When the story does, when it never ends, and when it leaves a database that contradicts itself.
pub fn tell(kind: StoreKind, shards: u16, story: impl AsyncFnOnce(World)) {
    if kind == StoreKind::Postgres && postgres::skipped() {
        println!("skipped: OUTLAST_SKIP_POSTGRES=1");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime for the story").block_on(async {
        let telling = async {
            let world = World::open(kind, shards).await;
            story(world.clone()).await;
            world.invariants().await;
        };
        timeout(LIMIT, telling).await.unwrap_or_else(|_| panic!("the story has not ended after {LIMIT:?}"));
    });
}
