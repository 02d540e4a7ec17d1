//! Every transition and every read, each also repeated: a call that reported an error may have happened.
//!
//! Each test runs with one shard and with four, on a store in memory whose clock stands still until the
//! test moves it.

mod claim;
mod commit;
mod control;
mod deliver;
mod kv;
mod nodes;
mod reads;
mod start;
mod world;

/// A test of the store: runs with one shard and with four.
macro_rules! stories {
    ($(async fn $name:ident($world:ident: World) $body:block)*) => {$(
        #[tokio::test]
        async fn $name() {
            for shards in [1, 4] {
                let $world = $crate::world::World::new(shards).await;
                $body
            }
        }
    )*};
}
pub(crate) use stories;
