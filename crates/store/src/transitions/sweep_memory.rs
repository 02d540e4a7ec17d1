//! From where a process looks for overdue runs: see [`WholeLook`].

use std::collections::HashMap;
use std::time::Duration;

use outlast_core::Timestamp;
use parking_lot::Mutex;

use crate::rows::micros;
use crate::{Sweep, WholeLook};

/// What is remembered of every shard.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    shards: Mutex<HashMap<u16, (WholeLook, Timestamp)>>,
    /// Every look counts as slow.
    slow_looks: bool,
}

impl Memory {
    pub(crate) fn new(slow_looks: bool) -> Memory {
        Memory { slow_looks, ..Memory::default() }
    }

    /// Since when runs are due that are worth a look; `None` for all.
    pub(crate) fn recall(&self, shard: u16) -> Option<Timestamp> {
        let (whole, from) = *self.shards.lock().get(&shard)?;
        (whole.is_slow() && whole.is_recent()).then_some(from)
    }

    /// A look took so long: of all that were asked for, the first has been due since then.
    pub(crate) fn keep(
        &self,
        ask: &Sweep,
        from: Option<Timestamp>,
        took: Duration,
        (first, now): (Option<Timestamp>, Timestamp),
    ) {
        let overdue = Timestamp::from_micros(now.micros() - micros(ask.unknown_after));
        let next = first.unwrap_or(overdue).min(WholeLook::back(overdue));
        let mut all = self.shards.lock();
        match all.get_mut(&ask.shard) {
            Some((_, kept)) if from.is_some() => *kept = next,
            _ => {
                let whole = if self.slow_looks { WholeLook::endless() } else { WholeLook::over(took) };
                all.insert(ask.shard, (whole, next));
            }
        }
    }
}
