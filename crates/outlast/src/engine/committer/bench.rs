//! A door for `crates/testkit/instructions`, which counts what gathering costs. Measured through the engine it would drown
//! in what turns cost, and nobody outside can reach a lane.

use std::sync::Arc;

use outlast_store::RunCommit;

use super::{Committer, Hears};

/// What a lane makes of commits that arrive while a batch is on its way.
pub fn gathered(commits: Vec<RunCommit>) -> Vec<RunCommit> {
    let committer = Committer::new(1);
    let who: Arc<dyn Hears> = Arc::new(Nobody);
    for commit in commits {
        let upto = commit.entries.last().map_or(0, |entry| entry.pos);
        committer.submit(commit, upto, who.clone());
    }
    let mut lane = committer.lanes[0].gathered.lock();
    let batches = std::iter::from_fn(|| Some(lane.take(1)).filter(|batch| !batch.is_empty()));
    batches.flatten().map(|waiting| *waiting.commit).collect()
}

struct Nobody;

impl Hears for Nobody {
    fn acked(&self, _pos: u32, _ended: bool) {}

    fn lost(&self) {}
}
