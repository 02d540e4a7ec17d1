//! For ourselves: a world for each test, and what every test may assume about it.
//!
//! A test is a story about a [`World`]: a store of its own on SQLite or PostgreSQL, time that passes
//! when the story says so, and verbs to tell it with. `#[store_test]` tells it on every store, and at
//! its end looks behind the seam whether the database still makes sense.
//!
//! ```
//! use outlast_store::Committed;
//! use outlast_testkit::{LEASE, StoreKind, World, tell};
//!
//! async fn a_node_that_returns_after_its_lease_changes_nothing(world: World) {
//!     let late = world.start("greet").await.claimed_by("slow").await;
//!     world.pass(LEASE * 2).await;
//!     let live = world.claim_as("quick").await;
//!
//!     assert_eq!(world.commit(late.complete("late")).await, Committed::LeaseLost);
//!     assert_eq!(world.commit(live.complete("in time")).await, Committed::Done);
//!     assert_eq!(world.output(live.run).await, "in time");
//! }
//! tell(StoreKind::Sqlite, 1, a_node_that_returns_after_its_lease_changes_nothing);
//! ```

mod death;
mod invariants;
mod postgres;
mod snapshot;
mod story;
mod tell;
mod watched;
mod world;

pub use death::Death;
pub use outlast_testkit_macros::store_test;
pub use postgres::{TestDatabase, skipped};
pub use snapshot::{Snapshot, TABLES};
pub use story::{Run, Starting, Turn, Writing, event, key, payload, rejection, settlement, step};
pub use tell::{StoreKind, tell};
pub use watched::{HeldAnswer, HeldCalls, Watched};
pub use world::{KNOWN, LEASE, QUEUE, World, card, sweep_of};
