//! Warm turns: the live futures of runs that wait, kept within bounds.
//!
//! A warm turn saves the replay when its run wakes here again. It is used only if the claim's epoch is
//! exactly the next one (nobody else had the run in between); dropping it is always safe.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use outlast_core::RunId;
use tokio::time::Instant;

use super::drive::Drive;

pub(crate) struct Warm {
    most: usize,
    oldest: Duration,
    drives: HashMap<RunId, Kept>,
    /// Who came when; entries of drives that left are skipped.
    order: VecDeque<(Instant, RunId)>,
}

struct Kept {
    drive: Drive,
    epoch: i64,
    since: Instant,
}

impl Warm {
    pub(crate) fn new(most: usize, oldest: Duration) -> Warm {
        Warm { most, oldest, drives: HashMap::new(), order: VecDeque::new() }
    }

    /// Keeps a drive whose run was suspended with `epoch`. Gives what had to go for it.
    #[must_use]
    pub(crate) fn keep(&mut self, drive: Drive, epoch: i64) -> Vec<Drive> {
        if self.most == 0 {
            return vec![drive];
        }
        let since = Instant::now();
        let run = drive.turn.id();
        let mut gone: Vec<Drive> = self.drives.remove(&run).map(|kept| kept.drive).into_iter().collect();
        while self.drives.len() >= self.most {
            match self.order.pop_front() {
                Some((since, old)) => gone.extend(self.evict(old, since)),
                None => break,
            }
        }
        gone.extend(self.age(since));
        if self.order.len() > 2 * self.most {
            let drives = &self.drives;
            self.order.retain(|(since, run)| drives.get(run).is_some_and(|kept| kept.since == *since));
        }
        self.order.push_back((since, run));
        self.drives.insert(run, Kept { drive, epoch, since });
        gone
    }

    /// The epoch with which `run` was suspended and its queue, if it is kept.
    pub(crate) fn epoch(&self, run: RunId) -> Option<(i64, String)> {
        self.drives.get(&run).map(|kept| (kept.epoch, kept.drive.turn.record.queue.clone()))
    }

    /// The drive of `run`, if it fits a claim with `epoch`. A drive that does not fit is of no more use.
    pub(crate) fn take(&mut self, run: RunId, epoch: i64) -> Result<Drive, Option<Drive>> {
        match self.drives.remove(&run) {
            Some(kept) if kept.epoch + 1 == epoch => Ok(kept.drive),
            other => Err(other.map(|kept| kept.drive)),
        }
    }

    /// Those that have been kept for too long.
    #[must_use]
    pub(crate) fn age(&mut self, now: Instant) -> Vec<Drive> {
        let mut gone = Vec::new();
        while let Some((since, run)) = self.order.front().copied() {
            if now.duration_since(since) < self.oldest {
                break;
            }
            self.order.pop_front();
            gone.extend(self.evict(run, since));
        }
        gone
    }

    /// All of them.
    #[must_use]
    pub(crate) fn clear(&mut self) -> Vec<Drive> {
        self.order.clear();
        let mut all: Vec<Drive> = self.drives.drain().map(|(_, kept)| kept.drive).collect();
        all.sort_unstable_by_key(|drive| drive.turn.id());
        all
    }

    fn evict(&mut self, run: RunId, since: Instant) -> Option<Drive> {
        match self.drives.get(&run) {
            Some(kept) if kept.since == since => self.drives.remove(&run).map(|kept| kept.drive),
            _ => None,
        }
    }
}
