//! Which of those in line may go on now.

use hashbrown::HashMap;

use super::{QueueRules, Window};
use crate::{RunId, Timestamp};

/// A run that stands in line and is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The run.
    pub run: RunId,
    /// From 0 (most urgent) to 9.
    pub priority: u8,
    /// Since when it is due.
    pub due_at: Timestamp,
    /// The group it is in.
    pub group: Option<String>,
    /// Whether a rate counts it: a job's attempt or a workflow's start, not one that goes on.
    pub begins: bool,
}

/// What has to be known to let runs go.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// What the queue allows.
    pub rules: QueueRules,
    /// The database's now.
    pub now: Timestamp,
    /// At most so many.
    pub want: u32,
    /// How many of the queue run.
    pub held: u32,
    /// How many of each group run.
    pub held_by_group: HashMap<String, u32>,
    /// What the queue's rate has used.
    pub window: Window,
    /// What the rates of groups have used.
    pub windows: HashMap<String, Window>,
    /// The run of each group that has to end before another begins, where order matters.
    pub heads: HashMap<String, RunId>,
}

/// What keeps a run that is due from going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBack {
    /// This one of its group has to end first.
    Behind(RunId),
    /// As many of the queue run as may.
    QueueFull,
    /// As many of its group run as may.
    GroupFull,
    /// As many of the queue began as may, until then.
    TooFast(Timestamp),
    /// As many of its group began as may, until then.
    GroupTooFast(Timestamp),
}

/// Who may go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    /// These, in this order.
    pub runs: Vec<RunId>,
    /// Others may not, because of a limit: one that is freed when somebody ends.
    pub is_full: bool,
    /// When a rate lets more begin.
    pub freer_at: Option<Timestamp>,
}

impl Admission {
    /// How many may go at most, whoever asks.
    pub fn room(&mut self) -> u32 {
        let slots = self.rules.limit.map_or(u32::MAX, |limit| limit.saturating_sub(self.held));
        self.want.min(slots)
    }

    /// Lets go whom the rules allow: the most urgent first, groups in turn (in the order in which their first stands
    /// in `line`), within a group the one that has been due for longest.
    pub fn admit(&mut self, line: &[Candidate]) -> Admitted {
        let mut admitted = Admitted::default();
        let mut left = self.want;
        for candidate in in_turn(line, self.rules.is_grouped()) {
            match self.holds_back(candidate) {
                Some(HeldBack::Behind(_) | HeldBack::GroupFull) => admitted.is_full = true,
                Some(HeldBack::QueueFull) => {
                    admitted.is_full |= left > 0;
                    break;
                }
                _ if left == 0 => break,
                Some(HeldBack::TooFast(freer) | HeldBack::GroupTooFast(freer)) => {
                    admitted.freer_at = admitted.freer_at.into_iter().chain([freer]).min();
                }
                None => {
                    self.note(candidate);
                    left -= 1;
                    admitted.runs.push(candidate.run);
                }
            }
        }
        admitted
    }

    /// What keeps a run that is due from going now, if anything does.
    pub fn holds_back(&mut self, candidate: &Candidate) -> Option<HeldBack> {
        if let Some(head) = self.head_before(candidate) {
            return Some(HeldBack::Behind(head));
        }
        if self.rules.limit.is_some_and(|limit| self.held >= limit) {
            return Some(HeldBack::QueueFull);
        }
        let group = candidate.group.as_deref();
        let held = group.and_then(|group| self.held_by_group.get(group)).copied().unwrap_or(0);
        if group.is_some() && held >= self.rules.slots_per_group() {
            return Some(HeldBack::GroupFull);
        }
        if candidate.begins { self.too_fast(group) } else { None }
    }

    /// The one of its group that has to end first, if it has not ended yet.
    fn head_before(&self, candidate: &Candidate) -> Option<RunId> {
        let head = candidate.group.as_ref().and_then(|group| self.heads.get(group)).copied();
        head.filter(|head| self.rules.ordered && *head != candidate.run)
    }

    /// The rate that lets another begin last, and when, if one does not now.
    fn too_fast(&mut self, group: Option<&str>) -> Option<HeldBack> {
        let (mut freer, mut freer_of_group) = (None, None);
        if let Some(rate) = self.rules.rate
            && self.window.free(rate, self.now) == 0
        {
            freer = self.window.freer_at(rate);
        }
        if let (Some(rate), Some(group)) = (self.rules.rate_per_group, group)
            && let Some(window) = self.windows.get_mut(group)
            && window.free(rate, self.now) == 0
        {
            freer_of_group = window.freer_at(rate);
        }
        match freer_of_group {
            Some(at) if freer < freer_of_group => Some(HeldBack::GroupTooFast(at)),
            _ => freer.map(HeldBack::TooFast),
        }
    }

    fn note(&mut self, candidate: &Candidate) {
        self.held += 1;
        if let Some(rate) = self.rules.rate.filter(|_| candidate.begins) {
            self.window.take(rate, self.now, 1);
        }
        let Some(group) = &candidate.group else { return };
        *self.held_by_group.entry(group.clone()).or_default() += 1;
        if let Some(rate) = self.rules.rate_per_group.filter(|_| candidate.begins) {
            self.windows.entry(group.clone()).or_default().take(rate, self.now, 1);
        }
        if self.rules.ordered {
            self.heads.insert(group.clone(), candidate.run);
        }
    }
}

/// The candidates in the order in which they are asked.
fn in_turn(line: &[Candidate], by_group: bool) -> Vec<&Candidate> {
    let mut order: Vec<&Candidate> = line.iter().collect();
    if !by_group {
        order.sort_by_key(|candidate| (candidate.priority, candidate.due_at, candidate.run));
        return order;
    }
    let mut places: HashMap<Option<&str>, usize> = HashMap::new();
    for candidate in line {
        let next = places.len();
        places.entry(candidate.group.as_deref()).or_insert(next);
    }
    order.sort_by_key(|candidate| {
        let place = places[&candidate.group.as_deref()];
        (candidate.priority, place, candidate.due_at, candidate.run)
    });
    let mut ranked = Vec::with_capacity(order.len());
    let (mut line, mut rank) = (None, 0);
    for candidate in order {
        let of = (candidate.priority, places[&candidate.group.as_deref()]);
        rank = if line == Some(of) { rank + 1 } else { 0 };
        line = Some(of);
        ranked.push((candidate.priority, rank, of.1, candidate));
    }
    ranked.sort_by_key(|(priority, rank, place, _)| (*priority, *rank, *place));
    ranked.into_iter().map(|(.., candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Rate;

    fn run(n: u64) -> RunId {
        RunId::new(0, Timestamp::from_micros(0), n)
    }

    fn due(n: u64, group: &str) -> Candidate {
        Candidate {
            run: run(n),
            priority: 5,
            due_at: Timestamp::from_micros(n as i64),
            group: (!group.is_empty()).then(|| group.to_owned()),
            begins: true,
        }
    }

    fn admission(rules: QueueRules) -> Admission {
        Admission { rules, want: 100, now: Timestamp::from_micros(1_000_000), ..Admission::default() }
    }

    #[test]
    fn groups_take_turns_however_many_one_has() {
        let mut line: Vec<Candidate> = (0..50).map(|n| due(n, "big")).collect();
        line.extend([due(90, "small"), due(91, "small")]);
        let mut fair = Admission { want: 6, ..admission(QueueRules { fair: true, ..QueueRules::default() }) };
        let runs = fair.admit(&line).runs;
        assert_eq!(runs, [run(0), run(90), run(1), run(91), run(2), run(3)]);
    }

    #[test]
    fn the_most_urgent_go_first_whatever_their_group() {
        let urgent = Candidate { priority: 0, ..due(99, "big") };
        let line = [due(1, "small"), due(2, "big"), urgent];
        let mut fair = Admission { want: 2, ..admission(QueueRules { fair: true, ..QueueRules::default() }) };
        assert_eq!(fair.admit(&line).runs, [run(99), run(1)]);
    }

    #[test]
    fn a_limit_counts_those_that_run() {
        let line: Vec<Candidate> = (0..10).map(|n| due(n, "")).collect();
        let mut limited = admission(QueueRules { limit: Some(5), ..QueueRules::default() });
        limited.held = 3;
        let admitted = limited.admit(&line);
        assert_eq!((admitted.runs.len(), admitted.is_full), (2, true));
        let mut all = admission(QueueRules::default());
        assert_eq!((all.admit(&line).runs.len(), all.admit(&[]).is_full), (10, false));
    }

    #[test]
    fn a_group_that_is_full_does_not_hold_up_another() {
        let line = [due(1, "a"), due(2, "a"), due(3, "b")];
        let mut limited = admission(QueueRules { per_group: Some(1), ..QueueRules::default() });
        limited.held_by_group.insert("a".into(), 1);
        let admitted = limited.admit(&line);
        assert_eq!((admitted.runs, admitted.is_full), (vec![run(3)], true));
    }

    #[test]
    fn in_an_ordered_group_nobody_passes_one_that_has_begun() {
        let ordered = QueueRules { ordered: true, ..QueueRules::default() };
        let line = [due(1, "a"), due(2, "a"), due(3, "b")];
        let mut first = admission(ordered.clone());
        assert_eq!(first.admit(&line).runs, [run(1), run(3)]);
        let mut later = admission(ordered);
        later.heads.insert("a".into(), run(1));
        assert_eq!(later.admit(&line[1..]).runs, [run(3)]);
        assert_eq!(later.admit(&[due(1, "a")]).runs, [run(1)]);
    }

    #[test]
    fn rates_hold_back_what_begins_and_say_until_when() {
        let rate = Some(Rate::new(2, Duration::from_secs(1)));
        let going_on = Candidate { begins: false, ..due(9, "a") };
        let line = [due(1, "a"), due(2, "a"), due(3, "b"), going_on];
        let mut whole = admission(QueueRules { rate, ..QueueRules::default() });
        let admitted = whole.admit(&line);
        assert_eq!(admitted.runs, [run(1), run(2), run(9)]);
        assert!(admitted.freer_at.is_some_and(|at| at > whole.now) && !admitted.is_full);

        let rate_per_group = Some(Rate::new(1, Duration::from_secs(1)));
        let mut each = admission(QueueRules { rate_per_group, ..QueueRules::default() });
        assert_eq!(each.admit(&line).runs, [run(1), run(3), run(9)]);
    }
}
