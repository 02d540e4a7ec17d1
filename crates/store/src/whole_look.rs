//! Looks at everything that is due, and how often they are worth it.
//!
//! PostgreSQL keeps what has left an index until it is vacuumed: for as long as somebody holds a snapshot open, a look
//! passes over all that was there since. Where that has become slow, most looks begin where the last one found
//! nothing before, and only some, which must not take more than a part of the time, begin from the front.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use outlast_core::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long nobody looks at everything again.
const SOON: Duration = Duration::from_millis(500);
/// The same where a look takes long, which must not take more than a part of the time: each node looks in several ways, at
/// each shard, and several queues.
const LATEST: Duration = Duration::from_secs(15);
pub(crate) const PART: u32 = 300;
/// The latest of looks for what nobody waits for: housekeeping, which is late anyway.
const SELDOM: Duration = Duration::from_secs(120);
/// How long a look takes that is worth avoiding.
const SLOW: Duration = Duration::from_millis(2);
/// How long transactions take at most that make runs due, but for a few: so far before the last look one begins, now and then.
const BACK: Duration = Duration::from_secs(2);
/// The same of most of them: so far before the last look every other begins. Who was taken within this time is passed over
/// with every look.
const NEAR: Duration = Duration::from_millis(250);

/// How far ahead a look sees that does not begin from the front: what was to be due later and went before lies there too, as
/// long as it was to wait. Whoever finds nobody looks again before that ([`AGAIN`]).
const AHEAD: Duration = Duration::from_secs(1);
/// How soon it is made again: whoever becomes due meanwhile has been seen by then, however long what comes after a look takes.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);
/// The same of one that sees everything: longer than any time is away, and not too long to be added to one.
const EVERYTHING: i64 = 1_000_000_000_000_000_000;

/// How many microseconds ahead a look sees.
pub(crate) fn ahead(is_short: bool) -> i64 {
    if is_short { AHEAD.as_micros() as i64 } else { EVERYTHING }
}

/// The last look at everything.
#[derive(Debug, Clone, Copy)]
pub struct WholeLook {
    at: Instant,
    took: Duration,
    /// When a look went further back than most.
    back_at: Instant,
    latest: Duration,
}

impl WholeLook {
    /// One that is over now.
    pub fn over(took: Duration) -> WholeLook {
        let at = Instant::now();
        WholeLook { at, took, back_at: at, latest: LATEST }
    }

    /// The same of one for which nobody waits.
    fn seldom(self) -> WholeLook {
        WholeLook { latest: SELDOM, ..self }
    }

    /// As if it had taken so long that the next comes as late as it may.
    pub(crate) fn endless() -> WholeLook {
        WholeLook::over(LATEST)
    }

    /// Whether it is worth avoiding.
    pub fn is_slow(&self) -> bool {
        self.took >= SLOW
    }

    /// Whether it was within this time.
    pub(crate) fn is_within(&self, span: Duration) -> bool {
        self.at.elapsed() < span
    }

    /// Whether the next one may wait.
    pub fn is_recent(&self) -> bool {
        !self.left().is_zero()
    }

    /// For how long the next one may wait.
    pub fn left(&self) -> Duration {
        (self.took * PART).clamp(SOON, self.latest).saturating_sub(self.at.elapsed())
    }

    /// Where a look may begin that follows one at `now` which left nothing: some transactions that are under way make
    /// runs due at a time that has passed.
    pub(crate) fn back(now: Timestamp) -> Timestamp {
        now.before(BACK)
    }

    /// Where a look may begin that follows one at `now` which left nothing, where looks are many: mostly a little before, and
    /// now and then as far as transactions that are under way may make runs due at a time that has passed.
    pub fn next(&mut self, now: Timestamp) -> Timestamp {
        if self.back_at.elapsed() < SOON {
            return now.before(NEAR);
        }
        self.back_at = Instant::now();
        WholeLook::back(now)
    }
}

/// From where looks are worth it, by what is looked at: a shard, a node.
#[derive(Debug)]
pub(crate) struct Begins<K, T> {
    kept: Mutex<HashMap<K, (WholeLook, T)>>,
    /// Every look counts as slow.
    slow_looks: bool,
    is_seldom: bool,
}

impl<K: Eq + Hash, T: Copy> Begins<K, T> {
    pub(crate) fn new(slow_looks: bool) -> Begins<K, T> {
        Begins { kept: Mutex::default(), slow_looks, is_seldom: false }
    }

    /// Of looks for which nobody waits.
    pub(crate) fn seldom(slow_looks: bool) -> Begins<K, T> {
        Begins { is_seldom: true, ..Begins::new(slow_looks) }
    }

    /// From where a look is worth it; `None` for everything.
    pub(crate) fn recall(&self, of: &K) -> Option<T> {
        let (whole, from) = *self.kept.lock().get(of)?;
        (whole.is_slow() && whole.is_recent()).then_some(from)
    }

    /// A look from `from` took so long, and the next may begin there.
    pub(crate) fn keep(&self, of: K, from: Option<T>, took: Duration, next: T) {
        let mut all = self.kept.lock();
        match all.get_mut(&of) {
            Some((_, kept)) if from.is_some() => *kept = next,
            _ => {
                let whole = if self.slow_looks { WholeLook::endless() } else { WholeLook::over(took) };
                all.insert(of, (if self.is_seldom { whole.seldom() } else { whole }, next));
            }
        }
    }

    /// Everything is looked at next.
    pub(crate) fn forget(&self, of: &K) {
        self.kept.lock().remove(of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_next_look_at_everything_comes_soon_and_later_where_it_takes_long() {
        let (quick, slow) = (WholeLook::over(SLOW / 5), WholeLook::over(SOON * 3 / (2 * PART)));
        let endless = WholeLook::over(LATEST);
        assert!(!quick.is_slow() && slow.is_slow());
        assert!(quick.is_recent());
        tokio::time::advance(SOON).await;
        assert!(!quick.is_recent() && slow.is_recent());
        tokio::time::advance(SOON).await;
        assert!(!slow.is_recent() && endless.is_recent());
        tokio::time::advance(LATEST).await;
        assert!(!endless.is_recent() && endless.seldom().is_recent());
        tokio::time::advance(SELDOM).await;
        assert!(!endless.seldom().is_recent());
    }

    #[tokio::test(start_paused = true)]
    async fn most_looks_begin_a_little_before_the_last_and_one_now_and_then_further_back() {
        let mut look = WholeLook::over(LATEST);
        let now = Timestamp::from_micros(10_000_000);
        assert_eq!(look.next(now), now.before(NEAR));
        tokio::time::advance(SOON).await;
        assert_eq!(look.next(now), now.before(BACK));
        assert_eq!(look.next(now), now.before(NEAR), "not each of them");
    }
}
