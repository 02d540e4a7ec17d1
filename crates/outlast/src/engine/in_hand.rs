//! What a node has in hand: runs and who works on them, slots, and claims that are not answered yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlast_core::NodeId;
use outlast_store::{Ended, Hold, News};
use tokio::sync::OwnedSemaphorePermit;

use super::Engine;
use super::job::JobTurn;
use super::turn::Turn;

/// A run in hand.
pub(super) struct Running {
    pub(super) epoch: i64,
    pub(super) who: Holder,
    /// How it ended, once that is durable.
    pub(super) ended: Option<Ended>,
    /// The right to run it, until its turn is over.
    pub(super) slot: Option<Slot>,
    /// The turn is over and waits without a slot until that is durable.
    pub(super) is_ending: bool,
}

/// Who works on it.
#[derive(Clone)]
pub(super) enum Holder {
    Workflow(Arc<Turn>),
    Job(Arc<JobTurn>),
}

/// Which claims have been answered.
#[derive(Default)]
pub(super) struct ClaimNumbers {
    pub(super) last: i64,
    pub(super) open: BTreeSet<i64>,
}

/// A claim that is not answered yet. Closed when dropped, also by a caller who no longer waits: what it
/// took and nobody began is due again with the next renewal.
pub(crate) struct OpenClaim {
    pub(super) engine: Arc<Engine>,
    pub(crate) hold: Hold,
}

impl Drop for OpenClaim {
    fn drop(&mut self) {
        self.engine.claims.lock().open.remove(&self.hold.claim);
        // Whoever waits until all is quiet hears of the last claim too.
        self.engine.changed.notify_waiters();
    }
}

/// The right to run one run; given back when dropped.
pub(crate) struct Slot {
    #[allow(dead_code, reason = "held for its drop")]
    pub(super) permit: OwnedSemaphorePermit,
    /// As whom this process claims the run.
    pub(super) node: NodeId,
}

impl Holder {
    pub(super) fn queue(&self) -> &str {
        match self {
            Holder::Workflow(turn) => &turn.record.queue,
            Holder::Job(job) => &job.record.queue,
        }
    }

    pub(super) fn seen(&self) -> i64 {
        match self {
            Holder::Workflow(turn) => turn.state().seen,
            Holder::Job(job) => job.seen(),
        }
    }

    pub(super) fn bring(&self, news: Vec<News>) {
        match self {
            Holder::Workflow(turn) => turn.bring(news),
            Holder::Job(job) => job.bring(news),
        }
    }

    pub(super) fn stop(&self) {
        match self {
            Holder::Workflow(turn) => turn.stop(),
            Holder::Job(job) => job.stop(),
        }
    }

    pub(super) fn lose(&self) {
        match self {
            Holder::Workflow(turn) => turn.lose(),
            Holder::Job(job) => job.lose(),
        }
    }

    /// Time was moved by a test: timers may be due.
    pub(super) fn look(&self) {
        if let Holder::Workflow(turn) = self {
            turn.waker.wake();
        }
    }
}
