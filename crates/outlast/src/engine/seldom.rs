//! Trouble is told once and then seldom: a database that is away for an hour must not fill a disk with lines
//! that all say so.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the same thing is not said again.
const QUIET: Duration = Duration::from_secs(10);

/// One thing to say.
#[derive(Default)]
pub(crate) struct Seldom(Mutex<Said>);

#[derive(Default)]
struct Said {
    last: Option<Instant>,
    kept: u64,
}

impl Seldom {
    /// Whether to say it now; if so, how often it happened unsaid since the last time.
    pub(crate) fn say(&self) -> Option<u64> {
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
#[derive(Default)]
pub(crate) struct Troubles {
    pub(crate) commit: Seldom,
    pub(crate) claim: Seldom,
    pub(crate) load: Seldom,
    pub(crate) renew: Seldom,
    pub(crate) breath: Seldom,
    pub(crate) sweep: Seldom,
    pub(crate) schedules: Seldom,
    pub(crate) retention: Seldom,
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
}
