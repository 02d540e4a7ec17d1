//! What goes into a transition and what comes out.
//!
//! Plain data. The engine decides what shall happen and says it with these types; a store makes it
//! durable, all or nothing, and answers. Losing a race is an answer, not an error.

mod access;
mod claim;
mod commit;
mod control;
mod deliver;
mod kv;
mod mark;
mod node;
mod purge;
mod queue;
mod rollup;
mod schedule;
mod start;

use std::sync::Arc;

use outlast_core::RunId;

pub use access::*;
pub use claim::*;
pub use commit::*;
pub use control::*;
pub use deliver::*;
pub use kv::*;
pub use mark::*;
pub use node::*;
pub use purge::*;
pub use queue::*;
pub use rollup::*;
pub use schedule::*;
pub use start::*;

/// Something happened; sent to everybody who listens to a store. A hint: nothing depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Signal {
    /// A run may have become due.
    Due,
    /// This run has news.
    News(RunId),
    /// These runs ended, in one commit; without any, some did.
    Ended(Arc<[RunId]>),
    /// This run was taken from the node that held it.
    Taken(RunId),
    /// This run, which a node holds, is to pause.
    Pause(RunId),
    /// A run with children did not end well: they are to be asked to stop.
    Orphans,
    /// What a queue does was changed.
    Queues,
    /// A schedule was changed.
    Schedules,
    /// Anything may have happened: someone else wrote, or hints were lost.
    Anything,
}

impl Signal {
    /// That this run ended.
    pub fn ended(run: RunId) -> Signal {
        Signal::Ended([run].into())
    }
}
