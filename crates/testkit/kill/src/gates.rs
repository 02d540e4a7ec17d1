//! Gates: queues with rules, what each lets through at most, and the jobs that stand in line there.

use std::time::Duration;

use outlast::prelude::*;
use serde::{Deserialize, Serialize};

use crate::plan::{Did, JOB_ATTEMPTS, Work};
use crate::play::{self, Planned};

/// The pause between attempts where order matters: long enough for somebody to pass by.
const HOLDS_UP: Duration = Duration::from_millis(100);

/// A queue with rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Gate {
    Limited,
    /// With bodies that may take longer than a lease.
    Long,
    Grouped,
    Spread,
    Paced,
    PacedGroups,
    Ordered,
}

/// So many in any span of this length.
pub(crate) type Rate = (u32, Duration);

/// What a gate lets through. The queue is made of it, and so is the check.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    pub(crate) limit: Option<u32>,
    pub(crate) per_group: Option<u32>,
    pub(crate) per_node: Option<u32>,
    pub(crate) rate: Option<Rate>,
    pub(crate) rate_per_group: Option<Rate>,
    pub(crate) ordered: bool,
}

/// A place in a gate's line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) gate: Gate,
    pub(crate) group: u64,
    /// Its place in its group, where the gate keeps order.
    pub(crate) nth: u32,
}

impl Ticket {
    pub(crate) fn group(self) -> String {
        format!("group-{}", self.group)
    }
}

impl Gate {
    pub(crate) const ALL: [Gate; 7] = [
        Gate::Limited,
        Gate::Long,
        Gate::Grouped,
        Gate::Spread,
        Gate::Paced,
        Gate::PacedGroups,
        Gate::Ordered,
    ];

    /// The name of the queue, and of the job whose runs stand there.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Gate::Limited => "limited",
            Gate::Long => "long",
            Gate::Grouped => "grouped",
            Gate::Spread => "spread",
            Gate::Paced => "paced",
            Gate::PacedGroups => "paced_groups",
            Gate::Ordered => "ordered",
        }
    }

    pub(crate) fn rules(self) -> Rules {
        let none = Rules::default();
        let span = Duration::from_secs(2);
        match self {
            Gate::Limited => Rules { limit: Some(4), ..none },
            Gate::Long => Rules { limit: Some(3), ..none },
            Gate::Grouped => Rules { limit: Some(6), per_group: Some(2), ..none },
            Gate::Spread => Rules { per_node: Some(2), ..none },
            Gate::Paced => Rules { rate: Some((8, span)), ..none },
            Gate::PacedGroups => Rules { rate_per_group: Some((4, span)), ..none },
            Gate::Ordered => Rules { ordered: true, ..none },
        }
    }

    fn queue(self) -> Queue {
        let Rules { limit, per_group, per_node, rate, rate_per_group, ordered } = self.rules();
        let mut queue = Queue::new(self.name());
        queue = limit.into_iter().fold(queue, Queue::limit);
        queue = per_group.into_iter().fold(queue, Queue::per_group);
        queue = per_node.into_iter().fold(queue, Queue::per_node);
        queue = rate.into_iter().fold(queue, |queue, (count, per)| queue.rate(count, per));
        queue =
            rate_per_group.into_iter().fold(queue, |queue, (count, per)| queue.rate_per_group(count, per));
        if ordered { queue.ordered() } else { queue }
    }

    fn job(self) -> Job<Work, Did, Planned> {
        let job = play::job(self.name()).queue(self.name());
        match self {
            Gate::Ordered => job.retry(Retry::fixed(JOB_ATTEMPTS, HOLDS_UP)),
            _ => job,
        }
    }
}

impl Work {
    /// The job whose runs do this.
    pub(crate) fn job(&self) -> Job<Work, Did, Planned> {
        self.ticket.map_or_else(play::work, |ticket| ticket.gate.job())
    }

    /// The name of that job.
    pub(crate) fn definition(&self) -> &'static str {
        self.ticket.map_or(play::WORK, |ticket| ticket.gate.name())
    }
}

/// The gates and their jobs, for a node that works there.
pub(crate) fn register(app: Outlast) -> Outlast {
    Gate::ALL.into_iter().fold(app, |app, gate| app.job(gate.job()).queue(gate.queue()))
}
