//! Which of the reasons holds.

use super::source::{Holder, Stand, wake_source};
use super::{Wait, WaitOn, Why};
use crate::{Admission, Candidate, HeldBack, NodeId, QueueState, RunId, Status, Timestamp};

/// What has to be known about a run to say why it is not progressing.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The database's now.
    pub now: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// Where it stands.
    pub stand: Stand,
    /// Its code: `ship@2`.
    pub code: String,
    /// The run as its queue sees it.
    pub candidate: Candidate,
    /// When it was started.
    pub created_at: Timestamp,
    /// The number of its attempt (jobs).
    pub attempt: u32,
    /// How many processes died while they ran it.
    pub crashes: u32,
    /// The nodes that are up.
    pub nodes: Vec<LiveNode>,
    /// Its queue.
    pub queue: String,
    /// What its queue says, if anybody said anything about it.
    pub line: Option<Line>,
}

/// A node that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveNode {
    /// The node.
    pub id: NodeId,
    /// Whether it knows the run's code.
    pub knows: bool,
    /// Whether it takes from the run's queue.
    pub serves: bool,
    /// How many runs of that queue it has.
    pub held: u32,
}

/// A queue about which something was said.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Whether it is worked off.
    pub state: QueueState,
    /// Since when it is not.
    pub since: Option<Timestamp>,
    /// Its rules, who runs, and what rates have used; heads are unfinished.
    pub admission: Admission,
    /// The run of the same group that is due and first in line, where order matters.
    pub first: Option<RunId>,
    /// Some of those that run.
    pub by: Vec<RunId>,
    /// Some of those of the same group.
    pub by_group: Vec<RunId>,
}

/// What a run is blocked with when no node that knows its code serves its queue.
pub fn not_served(code: &str, queue: &str) -> String {
    format!("no node that knows {code} serves queue {queue}")
}

impl Facts {
    /// The one reason why it is not progressing: the order of these questions is that of [`Why`].
    pub fn why(mut self) -> Why {
        if let Some(at) = self.ended_at {
            return Why::Ended { at };
        }
        if let Err(detail) = wake_source(&self.stand) {
            return Why::NoWake { detail };
        }
        if let Some(holder) = self.stand.holder.take() {
            return self.held(holder);
        }
        let reason = self.stand.reason.take();
        match self.stand.status {
            Status::Blocked => {
                let reason = reason.unwrap_or_default();
                let is_unserved = reason == not_served(&self.code, &self.queue);
                return Why::Blocked { reason, unserved: is_unserved.then_some(self.queue) };
            }
            Status::UndoFailed => return Why::UndoFailed { reason: reason.unwrap_or_default() },
            Status::Paused => return Why::Paused { reason },
            _ => {}
        }
        match self.stand.due_at {
            Some(at) if at <= self.now => self.due(at),
            at => self.not_due(at),
        }
    }

    fn held(self, holder: Holder) -> Why {
        let Holder { node, name, lease_until } = holder;
        match lease_until {
            Some(until) if until >= self.now => Why::Held { node, name, until },
            since => {
                let looked_after = !self.nodes.is_empty();
                Why::NodeLost { node, name, since: since.unwrap_or_default(), looked_after }
            }
        }
    }

    /// It is due later, or when something happens.
    fn not_due(self, at: Option<Timestamp>) -> Why {
        let Stand { status, waits, .. } = self.stand;
        let by_time = |wait: &Wait| matches!(wait.on, WaitOn::Sleep | WaitOn::Retry);
        if status == Status::Waiting && waits.iter().any(|wait| !by_time(wait)) {
            return Why::Waiting { waits, until: at };
        }
        let Some(at) = at else { return Why::Waiting { waits, until: at } };
        let first = waits.into_iter().filter(|wait| by_time(wait)).min_by_key(|wait| wait.until);
        match (status, first) {
            (Status::Waiting, Some(Wait { on: WaitOn::Retry, name, attempt, .. })) => {
                Why::Retry { at, attempt: attempt.unwrap_or(1), step: Some(name) }
            }
            (Status::Waiting, _) => Why::Sleeping { until: at },
            (Status::Undoing, _) => Why::Undoing { at },
            _ if self.crashes > 0 => Why::AfterCrash { at, crashes: self.crashes },
            _ if self.attempt > 1 => Why::Retry { at, attempt: self.attempt, step: None },
            _ => Why::Later { at },
        }
    }

    /// It is due: does nobody take it, does its queue hold it back, or is it just its turn?
    fn due(mut self, at: Timestamp) -> Why {
        if self.nodes.is_empty() {
            return Why::NoNode { at };
        }
        if !self.nodes.iter().any(|node| node.knows) {
            return Why::NoCode { code: self.code };
        }
        self.nodes.retain(|node| node.knows && node.serves);
        if self.nodes.is_empty() {
            return Why::NotServed { code: self.code, queue: self.queue };
        }
        self.held_back().unwrap_or(Why::Due { at })
    }

    fn held_back(self) -> Option<Why> {
        let Facts { queue, candidate, created_at, nodes, .. } = self;
        let Line { state, since, mut admission, first, by, by_group } = self.line?;
        match state {
            QueueState::Paused => return Some(Why::QueuePaused { queue, since }),
            QueueState::Draining if since.is_some_and(|since| created_at > since) => {
                return Some(Why::QueueDraining { queue, since });
            }
            QueueState::Draining | QueueState::Open => {}
        }
        let group = candidate.group.clone();
        // Where nobody of the group has begun, whoever is first in line will be its head.
        if let (true, Some(group), Some(first)) = (admission.rules.ordered, &group, first) {
            admission.heads.entry(group.clone()).or_insert(first);
        }
        let rules = admission.rules.clone();
        let held = admission.held;
        let of_group = group.as_ref().and_then(|group| admission.held_by_group.get(group)).copied();
        match admission.holds_back(&candidate) {
            Some(HeldBack::Behind(head)) => {
                return Some(Why::BehindInOrder { queue, group: group.unwrap_or_default(), head });
            }
            Some(HeldBack::QueueFull) => {
                return Some(Why::QueueFull { queue, limit: rules.limit.unwrap_or_default(), held, by });
            }
            Some(HeldBack::GroupFull) => {
                return Some(Why::GroupFull {
                    queue,
                    group: group.unwrap_or_default(),
                    limit: rules.slots_per_group(),
                    held: of_group.unwrap_or_default(),
                    by: by_group,
                });
            }
            Some(HeldBack::TooFast(freer_at)) => {
                return Some(Why::RateSpent { queue, group: None, freer_at });
            }
            Some(HeldBack::GroupTooFast(freer_at)) => return Some(Why::RateSpent { queue, group, freer_at }),
            None => {}
        }
        let limit = rules.per_node?;
        nodes.iter().all(|node| node.held >= limit).then_some(Why::NodesFull { queue, limit, by })
    }
}
