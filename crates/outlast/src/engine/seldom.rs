//! Trouble is told once and then seldom: a database that is away for an hour must not fill a disk with lines
//! that all say so.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the same thing is not said again.
const QUIET: Duration = Duration::from_secs(10);

/// One thing to say. Clones say it together.
#[derive(Debug, Default, Clone)]
pub struct Seldom(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    kept: u64,
}

impl Seldom {
    /// Whether to say it now; if so, how often it happened unsaid since the last time.
    pub fn say(&self) -> Option<u64> {
        let mut said = self.0.lock();
        if said.last.is_some_and(|last| last.elapsed() < QUIET) {
            said.kept += 1;
            return None;
        }
        said.last = Some(Instant::now());
        Some(std::mem::take(&mut said.kept))
    }
}

/// What an engine has to say about the database.
///
/// Whatever it wanted to do there fails for one reason when the database is away, so that is said by one of them
/// for all, and not by each.
pub(crate) struct Troubles {
    pub(crate) commit: Seldom,
    pub(crate) claim: Seldom,
    pub(crate) load: Seldom,
    pub(crate) renew: Seldom,
    pub(crate) sweep: Seldom,
    pub(crate) schedules: Seldom,
    pub(crate) retention: Seldom,
    /// Runs that were found to be others' by now: many at once, where a lease ended.
    pub(crate) fenced: Seldom,
    /// That the runtime where handlers run does not answer.
    pub(crate) breath: Seldom,
}

impl Default for Troubles {
    fn default() -> Troubles {
        let database = Seldom::default();
        let same = || database.clone();
        Troubles {
            commit: same(),
            claim: same(),
            load: same(),
            renew: same(),
            sweep: same(),
            schedules: same(),
            retention: same(),
            fenced: Seldom::default(),
            breath: Seldom::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once_and_then_seldom_with_how_often_it_went_unsaid() {
        let trouble = Seldom::default();
        assert_eq!(trouble.say(), Some(0), "at once");
        for _ in 0..9 {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(trouble.say(), None);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(trouble.say(), Some(9));
        assert_eq!(trouble.say(), None);
        tokio::time::advance(QUIET).await;
        assert_eq!(trouble.say(), Some(1));
        tokio::time::advance(QUIET).await;
        assert_eq!(trouble.say(), Some(0), "nothing was kept from us");
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_is_away_is_told_of_by_one_for_all() {
        let troubles = Troubles::default();
        assert_eq!(troubles.commit.say(), Some(0));
        assert_eq!(
            (troubles.claim.say(), troubles.renew.say(), troubles.schedules.say()),
            (None, None, None)
        );
        assert_eq!(troubles.fenced.say(), Some(0), "which is another matter");
        tokio::time::advance(QUIET).await;
        assert_eq!(troubles.sweep.say(), Some(3));
    }
}
