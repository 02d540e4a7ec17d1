//! Replay: which recorded result reaches the user's code next.
//!
//! Results are handed over in the order of the journal: among the operations that were asked for
//! and recorded, the one with the lowest position first. The turn polls the user's code until it
//! is idle between two of them. That is what makes `select!` and `join!` see again what they saw.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::{Entry, Op, OpName, Phase};

/// A journal that is being replayed.
#[derive(Debug, Default)]
pub struct Replay {
    entries: Vec<Entry>,
    records: HashMap<(Op, Arc<str>), Record>,
    /// Results of operations that were asked for and not handed over, lowest position first, each with who
    /// asked. Those who were dropped meanwhile are still among them.
    due: BinaryHeap<Reverse<(u32, usize)>>,
    /// How many recorded operations the code has not come to yet.
    unmet: usize,
}

#[derive(Debug, Default)]
struct Record {
    opened: Option<usize>,
    attempts: Vec<usize>,
    result: Option<usize>,
    /// Its result was handed over.
    handed: bool,
    /// The code has come to it: asked for its result or, while it has none, for how it was opened.
    met: bool,
}

/// What the journal knows of an operation that was just asked for.
#[derive(Debug, Default)]
pub struct Asked {
    /// The entry that opened it.
    pub opened: Option<Entry>,
    /// Its failed attempts, oldest first.
    pub attempts: Vec<Entry>,
    /// Whether its result is recorded and will be handed over in its turn.
    pub recorded: bool,
}

impl Replay {
    /// A replay of `entries`, which are in the order of their positions.
    pub fn new(entries: Vec<Entry>) -> Replay {
        let mut replay = Replay { records: HashMap::with_capacity(entries.len()), ..Replay::default() };
        for (place, entry) in entries.iter().enumerate() {
            if entry.phase == Phase::Void || entry.op == Op::Revise {
                continue;
            }
            let record = replay.records.entry((entry.op, entry.name.clone())).or_default();
            match entry.phase {
                Phase::Opened => record.opened = Some(place),
                Phase::Attempt => record.attempts.push(place),
                Phase::Done | Phase::Failed => record.result = Some(place),
                Phase::Void => {}
            }
        }
        replay.unmet = replay.records.len();
        replay.entries = entries;
        replay
    }

    /// The last position that the journal holds; 0 when it is empty.
    pub fn last_pos(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.pos)
    }

    /// How many entries the journal holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// An operation asks for its record. `slot` is handed back by [`Replay::hand_over`]. Whoever was dropped before
    /// it got its result may ask again, with another slot; and several may wait for the same.
    pub fn ask(&mut self, op: Op, name: &str, slot: usize) -> Asked {
        let Some(record) = self.records.get_mut(&OpName(op, name)) else { return Asked::default() };
        self.unmet -= usize::from(!std::mem::replace(&mut record.met, true));
        if let Some(place) = record.result.filter(|_| !record.handed) {
            self.due.push(Reverse((self.entries[place].pos, slot)));
        }
        Asked {
            opened: record.opened.map(|place| self.entries[place].clone()),
            attempts: record.attempts.iter().map(|place| self.entries[*place].clone()).collect(),
            recorded: record.result.is_some(),
        }
    }

    /// The entry that opened an operation, without asking for its result.
    pub fn opened(&mut self, op: Op, name: &str) -> Option<&Entry> {
        let record = self.records.get_mut(&OpName(op, name))?;
        if record.result.is_none() {
            self.unmet -= usize::from(!std::mem::replace(&mut record.met, true));
        }
        record.opened.map(|place| &self.entries[place])
    }

    /// A value that needs no waiting (the time, a random number, a started child): its result at once.
    pub fn take(&mut self, op: Op, name: &str) -> Option<Entry> {
        let record = self.records.get_mut(&OpName(op, name))?;
        let place = record.result?;
        self.unmet -= usize::from(!std::mem::replace(&mut record.met, true));
        record.handed = true;
        Some(self.entries[place].clone())
    }

    /// The next result to hand over: a slot that asked for it and is still there, and the entry.
    pub fn hand_over(&mut self, is_there: impl Fn(usize) -> bool) -> Option<(usize, Entry)> {
        while let Some(Reverse((pos, slot))) = self.due.pop() {
            if !is_there(slot) {
                continue;
            }
            let place = self.entries.binary_search_by_key(&pos, |entry| entry.pos).ok()?;
            let entry = self.entries[place].clone();
            // Only a child's end can be asked for twice.
            if entry.op == Op::Child
                && let Some(record) = self.records.get_mut(&OpName(entry.op, &entry.name))
            {
                record.handed = true;
                while self.due.peek().is_some_and(|Reverse((other, _))| *other == pos) {
                    self.due.pop();
                }
            }
            return Some((slot, entry));
        }
        None
    }

    /// Whether the journal says anything about an operation.
    pub fn knows(&self, op: Op, name: &str) -> bool {
        self.records.contains_key(&OpName(op, name))
    }

    /// Whether the code has come to everything that was recorded.
    pub fn is_met(&self) -> bool {
        self.unmet == 0
    }

    /// Whether a result waits to be handed over.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The operations that the code has not come to, each by its last entry, in the order of the journal.
    pub fn leftovers(&self) -> Vec<&Entry> {
        if self.unmet == 0 {
            return Vec::new();
        }
        let left = |record: &&Record| !record.met;
        let last = |record: &Record| record.result.or(record.attempts.last().copied()).or(record.opened);
        let mut places: Vec<usize> = self.records.values().filter(left).filter_map(last).collect();
        places.sort_unstable();
        places.into_iter().map(|place| &self.entries[place]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn done(pos: u32, name: &str) -> Entry {
        Entry {
            pos,
            op: Op::Step,
            phase: Phase::Done,
            name: name.into(),
            at: Timestamp::default(),
            took: None,
            body: None,
        }
    }

    #[test]
    fn results_come_in_recorded_order_whoever_asks_first() {
        let mut replay = Replay::new(vec![done(1, "a"), done(2, "b"), done(3, "c")]);
        assert!(replay.ask(Op::Step, "c", 0).recorded);
        assert!(replay.ask(Op::Step, "a", 1).recorded);
        assert!(!replay.ask(Op::Step, "new", 2).recorded);

        let order: Vec<usize> =
            std::iter::from_fn(|| replay.hand_over(|_| true)).map(|(slot, _)| slot).collect();
        assert_eq!(order, [1, 0]);
        assert_eq!(replay.leftovers().iter().map(|e| &*e.name).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_result_waits_for_who_asks_again_after_it_was_dropped() {
        let child = |pos, name| Entry { op: Op::Child, ..done(pos, name) };
        let mut replay = Replay::new(vec![done(1, "a"), child(2, "kid")]);
        replay.ask(Op::Child, "kid", 1);
        replay.ask(Op::Step, "a", 2);
        assert_eq!(replay.hand_over(|slot| slot != 1).map(|(slot, _)| slot), Some(2));
        assert!(replay.hand_over(|slot| slot != 1).is_none(), "nobody is there to take it");

        assert!(replay.ask(Op::Child, "kid", 3).recorded);
        replay.ask(Op::Child, "kid", 4);
        assert_eq!(replay.hand_over(|_| true).map(|(slot, _)| slot), Some(3));
        assert!(replay.hand_over(|_| true).is_none(), "it is handed over once");
    }

    #[test]
    fn an_operation_that_was_only_opened_is_left_over_until_the_code_comes_to_it() {
        let opened = |pos, name| Entry { phase: Phase::Opened, ..done(pos, name) };
        let mut replay = Replay::new(vec![opened(1, "a"), opened(2, "b")]);
        assert!(replay.opened(Op::Step, "a").is_some());
        assert_eq!(replay.leftovers().iter().map(|e| &*e.name).collect::<Vec<_>>(), ["b"]);
        assert!(!replay.ask(Op::Step, "b", 0).recorded);
        assert!(replay.leftovers().is_empty());
    }

    #[test]
    fn the_same_name_of_another_kind_is_another_operation() {
        let mut replay = Replay::new(vec![done(1, "a")]);
        assert!(!replay.ask(Op::Event, "a", 0).recorded);
        assert!(replay.take(Op::Step, "a").is_some());
        assert!(replay.leftovers().is_empty());
    }
}
