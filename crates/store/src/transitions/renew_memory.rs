//! From which claim on a renewal looks at what its node holds: see [`WholeLook`].
//!
//! A node numbers its claims upwards. Whatever it holds later it held at the last look, or takes by a claim that was not
//! settled then: no number is smaller than the smallest of both. Only a claim that nobody heard of may still take
//! something with one, and waits for the next look at everything.

use std::collections::HashMap;
use std::time::Duration;

use outlast_core::NodeId;
use parking_lot::Mutex;

use crate::{Renew, WholeLook};

/// What is remembered of every node of this process.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    nodes: Mutex<HashMap<NodeId, (WholeLook, i64)>>,
    /// Every look counts as slow.
    slow_looks: bool,
}

impl Memory {
    pub(crate) fn new(slow_looks: bool) -> Memory {
        Memory { slow_looks, ..Memory::default() }
    }

    /// From which claim on a look is worth it; `None` for all.
    pub(crate) fn recall(&self, node: NodeId) -> Option<i64> {
        let (whole, from) = *self.nodes.lock().get(&node)?;
        (whole.is_slow() && whole.is_recent()).then_some(from)
    }

    /// A look from there took so long, and this was the first claim of all that it found.
    pub(crate) fn keep(&self, ask: &Renew, from: Option<i64>, took: Duration, first: Option<i64>) {
        let next = first.unwrap_or(i64::MAX).min(ask.settled.saturating_add(1));
        let mut nodes = self.nodes.lock();
        match nodes.get_mut(&ask.node) {
            Some((_, kept)) if from.is_some() => *kept = next,
            _ => {
                let whole = if self.slow_looks { WholeLook::endless() } else { WholeLook::over(took) };
                nodes.insert(ask.node, (whole, next));
            }
        }
    }

    /// Everything is looked at next, or the node is no more.
    pub(crate) fn forget(&self, node: NodeId) {
        self.nodes.lock().remove(&node);
    }
}
