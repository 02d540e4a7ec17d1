//! Where looks at a queue's line may begin: see [`WholeLook`](crate::WholeLook).
//!
//! Looks at ordered groups and at what is left of a queue that is drained begin at the front, whatever is known here.

use outlast_core::Timestamp;

use crate::Cell;
use crate::rows::cells;
use crate::transitions::claim::LEAST_URGENT;

/// How many priorities there are.
const LINES: usize = LEAST_URGENT as usize + 1;

/// At each priority the time before which nobody is due, as far as is known: looks begin there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Floors([i64; LINES]);

impl Default for Floors {
    /// Looks begin at the front.
    fn default() -> Floors {
        Floors([i64::MIN; LINES])
    }
}

impl Floors {
    pub(super) fn of(&self, priority: u8) -> i64 {
        self.0.get(usize::from(priority)).copied().unwrap_or(i64::MIN)
    }

    /// Every priority, and where a look begins there.
    pub(super) fn lines(&self) -> Vec<Vec<Cell>> {
        (0..=LEAST_URGENT).map(|priority| cells![priority, self.of(priority)]).collect()
    }
}

/// Since when the first of each priority is due.
#[derive(Debug, Default)]
pub(super) struct Firsts {
    /// Of so many priorities that is known.
    known: usize,
    due: [Option<i64>; LINES],
}

impl Firsts {
    /// Nobody is due, until somebody is found.
    pub(super) fn of_all() -> Firsts {
        Firsts { known: LINES, ..Firsts::default() }
    }

    pub(super) fn found(&mut self, priority: usize, due: Option<i64>) {
        if let Some(first) = self.due.get_mut(priority) {
            *first = first.iter().chain(&due).copied().min();
        }
    }

    /// Nothing is known of those behind this priority.
    pub(super) fn cut_behind(&mut self, priority: usize) {
        self.known = self.known.min(priority + 1);
    }

    /// Where the next look may begin at each priority: at the first that is due there, and not after `back`.
    pub(super) fn floors(&self, back: Timestamp) -> Floors {
        let mut floors = Floors::default();
        for (floor, first) in floors.0.iter_mut().zip(self.due).take(self.known) {
            *floor = first.unwrap_or(i64::MAX).min(back.micros());
        }
        floors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_begin_at_the_first_that_was_left_and_at_the_front_behind_a_cut() {
        let back = Timestamp::from_micros(100);
        let mut firsts = Firsts::of_all();
        firsts.found(2, Some(70));
        firsts.found(2, Some(40));
        firsts.found(3, Some(500));
        firsts.cut_behind(4);
        // Another shard's line was cut later: what the first does not know is not known.
        firsts.cut_behind(6);
        let floors = firsts.floors(back);
        assert_eq!((floors.of(0), floors.of(2), floors.of(3), floors.of(4)), (100, 40, 100, 100));
        assert_eq!((floors.of(5), floors.of(9)), (i64::MIN, i64::MIN));
        assert_eq!(Firsts::default().floors(back), Floors::default(), "nobody was asked for");
    }
}
