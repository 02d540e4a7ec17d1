//! Where a claim begins to look while there is more to do than this node can take.
//!
//! Runs leave their line at its beginning, and PostgreSQL keeps what has left until it is vacuumed: for as long as
//! somebody holds a snapshot open every claim would pass over all that was taken since. So a claim that follows a
//! full one begins where that ended. Whatever became due further ahead meanwhile (another's transaction was slow,
//! a clock was behind) is found by the next look at the whole line, which comes soon.

use std::time::Duration;

use outlast_core::Timestamp;
use outlast_store::{Claim, Claimed};
use tokio::time::Instant;

/// How long whole lines are not looked at.
const SOON: Duration = Duration::from_millis(500);

/// The floors of all shards.
#[derive(Default)]
pub(super) struct Floors(Vec<Option<Floor>>);

#[derive(Clone, Copy)]
struct Floor {
    /// Nothing that is due before this was left.
    at: Timestamp,
    /// When the whole line was looked at.
    since: Instant,
}

impl Floors {
    /// Where a claim may begin; `None` for a look at everything.
    pub(super) fn of(&self, shard: u16) -> Option<Timestamp> {
        let floor = self.0.get(usize::from(shard)).copied().flatten()?;
        (floor.since.elapsed() < SOON).then_some(floor.at)
    }

    /// What a claim took. Only what stood in one line tells where the next may begin.
    pub(super) fn told(&mut self, ask: &Claim, runs: &[Claimed]) {
        let shard = usize::from(ask.shard);
        self.0.resize(self.0.len().max(shard + 1), None);
        let first = runs.first().map(|run| run.priority);
        let one_line = ask.queues.len() == 1 && runs.iter().all(|run| Some(run.priority) == first);
        let full = runs.len() == ask.limit as usize && one_line && ask.early.is_zero();
        let at = runs.iter().map(|run| run.due_at).max().filter(|_| full);
        let since = match (ask.from, self.0[shard]) {
            (Some(_), Some(floor)) => floor.since,
            _ => Instant::now(),
        };
        self.0[shard] = at.map(|at| Floor { at, since });
    }
}

#[cfg(test)]
mod tests {
    use outlast_core::{NodeId, RunId};

    use super::*;

    fn run(number: u64, priority: u8) -> Claimed {
        Claimed {
            id: RunId::new(0, Timestamp::default(), number),
            epoch: 1,
            priority,
            due_at: Timestamp::from_micros(number as i64),
            code: "code".into(),
            attempt: 1,
            crashes: 0,
            expires_at: None,
            news: 0,
            inbox: Vec::new(),
        }
    }

    fn ask(queues: &[&str]) -> Claim {
        Claim {
            node: NodeId::new(1),
            number: 1,
            shard: 1,
            queues: queues.iter().map(|queue| (*queue).into()).collect(),
            codes: Vec::new(),
            limit: 2,
            early: Duration::ZERO,
            from: None,
        }
    }

    #[test]
    fn a_claim_begins_where_a_full_one_ended() {
        let mut floors = Floors::default();
        assert_eq!(floors.of(1), None);
        floors.told(&ask(&["a"]), &[run(3, 5), run(7, 5)]);
        assert_eq!(floors.of(1), Some(Timestamp::from_micros(7)));
        assert_eq!(floors.of(0), None, "another shard");
        floors.told(&ask(&["a"]), &[run(8, 5)]);
        assert_eq!(floors.of(1), None, "it had room left: what is there now came since");
    }

    #[test]
    fn what_stood_in_several_lines_says_nothing() {
        let mut floors = Floors::default();
        floors.told(&ask(&["a"]), &[run(3, 4), run(7, 5)]);
        assert_eq!(floors.of(1), None);
        floors.told(&ask(&["a", "b"]), &[run(3, 5), run(7, 5)]);
        assert_eq!(floors.of(1), None);
        floors.told(&Claim { early: SOON, ..ask(&["a"]) }, &[run(3, 5), run(7, 5)]);
        assert_eq!(floors.of(1), None, "what is taken early stands behind what is due");
    }

    #[test]
    fn the_whole_line_is_looked_at_again_soon() {
        let mut floors = Floors::default();
        let long_ago = Instant::now().checked_sub(SOON).unwrap();
        floors.0 = vec![None, Some(Floor { at: Timestamp::from_micros(7), since: long_ago })];
        assert_eq!(floors.of(1), None);
        // A claim that began at a floor was no look at the whole line.
        floors.told(&Claim { from: Some(Timestamp::from_micros(7)), ..ask(&["a"]) }, &[run(8, 5), run(9, 5)]);
        assert_eq!(floors.of(1), None);
        floors.told(&ask(&["a"]), &[run(8, 5), run(9, 5)]);
        assert_eq!(floors.of(1), Some(Timestamp::from_micros(9)));
    }
}
