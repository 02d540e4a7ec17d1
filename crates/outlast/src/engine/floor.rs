//! Where a claim begins to look.
//!
//! Runs leave their line at its beginning, and PostgreSQL keeps what has left until it is vacuumed: for as long as
//! somebody holds a snapshot open every claim would pass over all that was taken since. So a claim that follows a
//! full one begins where that ended; and where looks at whole lines have become slow, one that follows a claim that took
//! all that was due begins a little before that. Whatever became due further ahead meanwhile (another's transaction was
//! slow, a clock was behind) is found by the next look at the whole line, which comes soon.

use std::time::Duration;

use outlast_core::Timestamp;
use outlast_store::{Claim, Claims, WholeLook};

use crate::bulk;

/// The floors of all shards.
#[derive(Default)]
pub(super) struct Floors(Vec<Floor>);

#[derive(Clone, Copy, Default)]
struct Floor {
    /// Nothing that is due before this was left.
    at: Option<Timestamp>,
    /// Whether a claim that had room left found that out, of every line: a full one tells only of the line that it took.
    is_clear: bool,
    /// When the whole line was looked at.
    whole: Option<WholeLook>,
}

impl Floors {
    /// Where a claim may begin; `None` for a look at everything.
    pub(super) fn of(&self, shard: u16) -> Option<Timestamp> {
        let floor = self.0.get(usize::from(shard)).copied()?;
        floor.at.filter(|_| floor.whole.is_some_and(|whole| whole.is_recent()))
    }

    /// How soon a look at everything is worth it, for a claim that began at a floor: nothing else tells of those before it.
    pub(super) fn look_again(&self, ask: &Claim) -> Option<Duration> {
        ask.from?;
        Some(self.0.get(usize::from(ask.shard))?.whole?.left())
    }

    /// What a claim took, and how long it took itself.
    pub(super) fn told(&mut self, ask: &Claim, claims: &Claims, took: Duration) {
        let shard = usize::from(ask.shard);
        self.0.resize(self.0.len().max(shard + 1), Floor::default());
        let floor = &mut self.0[shard];
        if ask.from.is_none() {
            floor.whole = Some(WholeLook::over(took));
        }
        let was_clear = std::mem::replace(&mut floor.is_clear, false);
        floor.at = if claims.runs.len() < ask.limit as usize {
            floor.is_clear = was_clear || ask.from.is_none();
            // Whoever is due and was not taken is locked, and must be found as soon as that is over.
            let slow = floor.whole.as_mut().filter(|whole| whole.is_slow());
            slow.map(|whole| claims.next_due.unwrap_or(claims.now).min(whole.next(claims.now)))
        } else {
            // Only what stood in one line tells where the next may begin.
            let first = claims.runs.first().map(|run| run.priority);
            // Bulks, which every node serves, are few, and may wait until then.
            let lines = ask.queues.iter().filter(|queue| queue.as_str() != bulk::QUEUE).count();
            let one_line = lines == 1 && claims.runs.iter().all(|run| Some(run.priority) == first);
            let last = claims.runs.iter().map(|run| run.due_at).max();
            // Otherwise what was known before is as true as it was, unless somebody was found before it: others may be
            // there who had no place.
            let is_slow = floor.whole.is_some_and(|whole| whole.is_slow());
            let known =
                floor.at.filter(|at| is_slow && was_clear && claims.runs.iter().all(|run| run.due_at >= *at));
            let last = last.filter(|_| one_line && ask.early.is_zero());
            floor.is_clear = last.is_none() && known.is_some();
            last.or(known)
        };
    }
}

#[cfg(test)]
mod tests {
    use outlast_core::{NodeId, RunId};
    use outlast_store::Claimed;

    use super::*;

    const QUICK: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(5);

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

    fn took(runs: &[Claimed]) -> Claims {
        Claims { runs: runs.to_vec(), now: Timestamp::from_micros(10_000_000), ..Claims::default() }
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
        floors.told(&ask(&["a"]), &took(&[run(3, 5), run(7, 5)]), QUICK);
        assert_eq!(floors.of(1), Some(Timestamp::from_micros(7)));
        assert_eq!(floors.of(0), None, "another shard");
        floors.told(&ask(&["a"]), &took(&[run(8, 5)]), QUICK);
        assert_eq!(floors.of(1), None, "it had room left: what is there now came since");
        floors.told(&ask(&["a", bulk::QUEUE]), &took(&[run(3, 5), run(7, 5)]), QUICK);
        assert_eq!(floors.of(1), Some(Timestamp::from_micros(7)), "as every node asks");
    }

    #[test]
    fn what_stood_in_several_lines_says_nothing() {
        let mut floors = Floors::default();
        floors.told(&ask(&["a"]), &took(&[run(3, 4), run(7, 5)]), QUICK);
        assert_eq!(floors.of(1), None);
        floors.told(&ask(&["a", "b"]), &took(&[run(3, 5), run(7, 5)]), QUICK);
        assert_eq!(floors.of(1), None);
        floors.told(&Claim { early: SLOW, ..ask(&["a"]) }, &took(&[run(3, 5), run(7, 5)]), QUICK);
        assert_eq!(floors.of(1), None, "what is taken early stands behind what is due");
    }

    #[test]
    fn a_full_claim_from_several_lines_leaves_the_next_where_it_began_if_looks_at_everything_are_slow() {
        let mut floors = Floors::default();
        let several = ask(&["a", "b"]);
        floors.told(&several, &took(&[run(3, 4)]), SLOW);
        let known = floors.of(1);
        assert!(known.is_some());
        let full = took(&[run(9_800_000, 5), run(9_900_000, 4)]);
        floors.told(&Claim { from: known, ..several.clone() }, &full, QUICK);
        assert_eq!(floors.of(1), known, "nobody behind it was looked for, and nobody is before it");
        floors.told(&several, &full, QUICK);
        assert_eq!(floors.of(1), None, "looks at everything are quick again");
    }

    #[test]
    fn a_full_claim_that_found_somebody_before_what_was_known_sends_the_next_to_the_front() {
        let mut floors = Floors::default();
        let several = ask(&["a", "b"]);
        floors.told(&several, &took(&[run(3, 4)]), SLOW);
        let known = floors.of(1);
        let earlier = took(&[run(1, 5), run(9_900_000, 4)]);
        floors.told(&Claim { from: None, ..several.clone() }, &earlier, SLOW);
        assert!(known.is_some() && floors.of(1).is_none(), "others may be there who had no place");
    }

    #[test]
    fn what_a_full_claim_of_one_line_found_is_not_taken_for_true_of_others() {
        let mut floors = Floors::default();
        let line = ask(&["a"]);
        floors.told(&line, &took(&[run(9_000_000, 0), run(9_500_000, 0)]), SLOW);
        let from = floors.of(1);
        assert!(from.is_some());
        floors.told(&Claim { from, ..line }, &took(&[run(9_600_000, 0), run(9_700_000, 5)]), QUICK);
        assert_eq!(floors.of(1), None, "others of priority 5 may have been due before");
    }

    #[test]
    fn where_a_look_at_everything_is_slow_the_next_begins_a_little_before_the_last() {
        let mut floors = Floors::default();
        let several = ask(&["a", "b"]);
        floors.told(&several, &took(&[run(3, 4)]), SLOW);
        let back = Some(Timestamp::from_micros(9_750_000));
        assert_eq!(floors.of(1), back, "in whichever line");
        // A quick look that began there says nothing about how long one at everything takes.
        floors.told(&Claim { from: back, ..several.clone() }, &took(&[]), QUICK);
        assert_eq!(floors.of(1), back);
        let locked = Claims { next_due: Some(Timestamp::from_micros(9_000_000)), ..took(&[]) };
        floors.told(&Claim { from: back, ..several.clone() }, &locked, QUICK);
        assert_eq!(floors.of(1), locked.next_due, "somebody has it locked, and will let it go");
        floors.told(&several, &took(&[]), QUICK);
        assert_eq!(floors.of(1), None, "quick again: whoever has no need for it sees everything");
    }

    #[tokio::test(start_paused = true)]
    async fn the_whole_line_is_looked_at_again_soon() {
        let mut floors = Floors::default();
        floors.told(&ask(&["a"]), &took(&[run(3, 5), run(7, 5)]), QUICK);
        tokio::time::advance(Duration::from_millis(400)).await;
        // A claim that began at a floor was no look at the whole line.
        let from = Claim { from: floors.of(1), ..ask(&["a"]) };
        floors.told(&from, &took(&[run(8, 5), run(9, 5)]), QUICK);
        assert_eq!(floors.of(1), Some(Timestamp::from_micros(9)));
        tokio::time::advance(Duration::from_millis(400)).await;
        assert_eq!(floors.of(1), None);
        floors.told(&ask(&["a"]), &took(&[run(8, 5), run(9, 5)]), QUICK);
        assert_eq!(floors.of(1), Some(Timestamp::from_micros(9)));
    }
}
