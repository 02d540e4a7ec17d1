//! Why a run is not progressing: one reason for each, for programs, and for people with the remedy.
//!
//! A reason names what wakes the run: a time, a message, a node, a person. What the tables say is gathered by the
//! store as [`Facts`]; which of the reasons holds is decided here, in one function, so that the client, the command line
//! and the tests mean the same. [`wake_source`] is its other half: whether there is anything that wakes the run at all.

mod decide;
mod later;
mod source;
mod wait;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use decide::{Facts, Line, LiveNode, not_served};
pub use later::Later;
pub use source::{Holder, Stand, WakeSource, wake_source};
pub use wait::{Unread, Wait, WaitOn, live_waits};

use crate::{NodeId, RunId, Status, Timestamp};

/// Why a run is not progressing, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: Status,
    /// The reason.
    #[serde(flatten)]
    pub why: Why,
    /// Why somebody asked it to stop, if somebody did: it hears of that when it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_to_stop: Option<String>,
    /// The moment at which this was so, by the database's clock.
    #[serde(with = "spelled")]
    pub now: Timestamp,
}

/// The one reason why a run is not progressing. As JSON it is an object whose `kind` is the variant in snake case; times
/// are RFC 3339.
///
/// Of those that hold at once the first counts, in this order: the run has ended; nothing wakes it; a node has it; it
/// stands still (blocked, undo failed, paused); it is not due yet; no node would take it; its queue does not let it go;
/// it is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It has ended.
    Ended {
        /// When.
        #[serde(with = "spelled")]
        at: Timestamp,
    },
    /// A node works on it.
    Held {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// Until when its lease holds; it is renewed while the node lives.
        #[serde(with = "spelled")]
        until: Timestamp,
    },
    /// The node that worked on it has not renewed its lease: whichever node looks next frees the run.
    NodeLost {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// When its lease ended.
        #[serde(with = "spelled")]
        since: Timestamp,
        /// Whether a node is up that will look.
        looked_after: bool,
    },
    /// It cannot go on with the code that is there.
    Blocked {
        /// Why.
        reason: String,
        /// The queue that nobody who knows the code serves, where that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unserved: Option<String>,
    },
    /// Reverting what it did failed for good.
    UndoFailed {
        /// Why.
        reason: String,
    },
    /// A person holds it back.
    Paused {
        /// Why, if that was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nothing will ever wake it: the database was changed by hand, or this is a bug of ours.
    NoWake {
        /// What is missing.
        detail: String,
    },
    /// It waits for what others do.
    Waiting {
        /// Any of these wakes it.
        waits: Vec<Wait>,
        /// Or this time.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "spelled_option")]
        until: Option<Timestamp>,
    },
    /// It sleeps.
    Sleeping {
        /// Until then.
        #[serde(with = "spelled")]
        until: Timestamp,
    },
    /// An attempt failed, and the next comes later.
    Retry {
        /// When.
        #[serde(with = "spelled")]
        at: Timestamp,
        /// The number of the attempt that comes.
        attempt: u32,
        /// Of this step; of the whole job without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
    },
    /// Processes died while they ran it: it waits before the next one runs it.
    AfterCrash {
        /// Until then.
        #[serde(with = "spelled")]
        at: Timestamp,
        /// How many deaths are counted.
        crashes: u32,
    },
    /// It reverts what it did, and goes on with that later.
    Undoing {
        /// When.
        #[serde(with = "spelled")]
        at: Timestamp,
    },
    /// It was started for later.
    Later {
        /// When it is due.
        #[serde(with = "spelled")]
        at: Timestamp,
    },
    /// No node is up.
    NoNode {
        /// Since when it is due.
        #[serde(with = "spelled")]
        at: Timestamp,
    },
    /// No node that is up knows its name and version.
    NoCode {
        /// These: `ship@2`.
        code: String,
    },
    /// No node that knows its code takes from its queue.
    NotServed {
        /// The code: `ship@2`.
        code: String,
        /// The queue.
        queue: String,
    },
    /// Its queue is paused.
    QueuePaused {
        /// The queue.
        queue: String,
        /// Since when.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "spelled_option")]
        since: Option<Timestamp>,
    },
    /// Its queue is drained, and it was started after that began.
    QueueDraining {
        /// The queue.
        queue: String,
        /// Since when.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "spelled_option")]
        since: Option<Timestamp>,
    },
    /// Another run of its group comes first, and has not ended.
    BehindInOrder {
        /// The queue.
        queue: String,
        /// The group.
        group: String,
        /// The run that comes first.
        head: RunId,
    },
    /// As many runs of its queue run as may.
    QueueFull {
        /// The queue.
        queue: String,
        /// How many may.
        limit: u32,
        /// How many do.
        held: u32,
        /// Some of those.
        by: Vec<RunId>,
    },
    /// As many runs of its group run as may.
    GroupFull {
        /// The queue.
        queue: String,
        /// The group.
        group: String,
        /// How many may.
        limit: u32,
        /// How many do.
        held: u32,
        /// Some of those.
        by: Vec<RunId>,
    },
    /// As many runs of its queue, or of its group, have begun lately as may.
    RateSpent {
        /// The queue.
        queue: String,
        /// The group, where it is its rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
        /// When more may begin.
        #[serde(with = "spelled")]
        freer_at: Timestamp,
    },
    /// Every node that would take it runs as many of its queue as one node may.
    NodesFull {
        /// The queue.
        queue: String,
        /// How many a node may run.
        limit: u32,
        /// Some of those that run.
        by: Vec<RunId>,
    },
    /// It is due, and goes as soon as a node has a free slot for it: the most urgent first.
    Due {
        /// Since when.
        #[serde(with = "spelled")]
        at: Timestamp,
    },
}

impl Why {
    /// Its `kind`, as JSON has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Why::Ended { .. } => "ended",
            Why::Held { .. } => "held",
            Why::NodeLost { .. } => "node_lost",
            Why::Blocked { .. } => "blocked",
            Why::UndoFailed { .. } => "undo_failed",
            Why::Paused { .. } => "paused",
            Why::NoWake { .. } => "no_wake",
            Why::Waiting { .. } => "waiting",
            Why::Sleeping { .. } => "sleeping",
            Why::Retry { .. } => "retry",
            Why::AfterCrash { .. } => "after_crash",
            Why::Undoing { .. } => "undoing",
            Why::Later { .. } => "later",
            Why::NoNode { .. } => "no_node",
            Why::NoCode { .. } => "no_code",
            Why::NotServed { .. } => "not_served",
            Why::QueuePaused { .. } => "queue_paused",
            Why::QueueDraining { .. } => "queue_draining",
            Why::BehindInOrder { .. } => "behind_in_order",
            Why::QueueFull { .. } => "queue_full",
            Why::GroupFull { .. } => "group_full",
            Why::RateSpent { .. } => "rate_spent",
            Why::NodesFull { .. } => "nodes_full",
            Why::Due { .. } => "due",
        }
    }
}

/// In plain English, with the remedy where there is one.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Ended { at } => write!(f, "it ended at {at}"),
            Why::Held { name, until, .. } => write!(f, "node {name} works on it, with a lease until {until}"),
            Why::NodeLost { name, since, looked_after, .. } => {
                write!(f, "node {name} worked on it, and its lease ended at {since}: ")?;
                f.write_str(match looked_after {
                    true => "the next node that looks frees it",
                    false => "no node is up to free it, so start one",
                })
            }
            Why::Blocked { reason, unserved: Some(queue) } => write!(
                f,
                "blocked: {reason}; it goes on when a node joins that knows its code and takes from queue {queue} \
                 (the `queues` of its settings, else those of its definitions), or cancel it and start it in another \
                 queue"
            ),
            Why::Blocked { reason, unserved: None } => {
                write!(f, "blocked: {reason}; it goes on when a node joins with code that fits, or cancel it")
            }
            Why::UndoFailed { reason } => {
                write!(f, "what it did could not all be reverted, and a person has to look: {reason}")
            }
            Why::Paused { reason: Some(reason) } => write!(f, "paused until somebody resumes it: {reason}"),
            Why::Paused { reason: None } => f.write_str("paused until somebody resumes it"),
            Why::NoWake { detail } => write!(
                f,
                "nothing will wake it: {detail}; the database was changed by hand, or this is a bug: cancel \
                 the run, and report it"
            ),
            Why::Waiting { waits, until } => {
                f.write_str("waiting for ")?;
                for (place, wait) in waits.iter().enumerate() {
                    write!(f, "{}{wait}", if place == 0 { "" } else { " or " })?;
                }
                let is_said = waits.iter().any(|wait| wait.until == *until);
                until.filter(|_| !is_said).map_or(Ok(()), |until| write!(f, ", until {until}"))
            }
            Why::Sleeping { until } => write!(f, "sleeping until {until}"),
            Why::Retry { at, attempt, step: Some(step) } => {
                write!(f, "step {step} failed: attempt {attempt} comes at {at}")
            }
            Why::Retry { at, attempt, step: None } => {
                write!(f, "its last attempt failed: attempt {attempt} comes at {at}")
            }
            Why::AfterCrash { at, crashes } => {
                let died = if *crashes == 1 { "process died while it" } else { "processes died while they" };
                write!(f, "{crashes} {died} ran it: it rests until {at}")
            }
            Why::Undoing { at } => write!(f, "it reverts what it did, and goes on with that at {at}"),
            Why::Later { at } => write!(f, "it is not due before {at}"),
            Why::NoNode { at } => write!(f, "due since {at}, and no node is up: start one"),
            Why::NoCode { code } => {
                write!(f, "no node that is up knows {code}: start one that registers this name and version")
            }
            Why::NotServed { code, queue } => write!(
                f,
                "no node that knows {code} takes from queue {queue}: start one that does, or cancel the run and \
                 start it in another queue"
            ),
            Why::QueuePaused { queue, since } => {
                write!(f, "queue {queue} is paused{}: `outlast queue resume {queue}`", Since(*since))
            }
            Why::QueueDraining { queue, since } => write!(
                f,
                "queue {queue} is drained{}, and the run was started later: `outlast queue resume {queue}`",
                Since(*since)
            ),
            Why::BehindInOrder { queue, group, head } => {
                write!(
                    f,
                    "the runs of group {group} of queue {queue} go one after another: {head} has to end first"
                )
            }
            Why::QueueFull { queue, limit, held, by } => {
                write!(f, "queue {queue} is full: {held} of {limit} run{}", Among(by))
            }
            Why::GroupFull { queue, group, limit, held, by } => {
                write!(f, "group {group} of queue {queue} is full: {held} of {limit} run{}", Among(by))
            }
            Why::RateSpent { queue, group, freer_at } => {
                let of_group = group.as_ref().map(|group| format!("group {group} of ")).unwrap_or_default();
                write!(f, "the rate of {of_group}queue {queue} is spent: more may begin at {freer_at}")
            }
            Why::NodesFull { queue, limit, by } => write!(
                f,
                "every node that takes from queue {queue} runs {limit} of it, as many as one may{}",
                Among(by)
            ),
            Why::Due { at } => write!(f, "due since {at}: it goes as soon as a node has a free slot for it"),
        }
    }
}

/// ` since …`, if that is known.
struct Since(Option<Timestamp>);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |since| write!(f, " since {since}"))
    }
}

/// ` (run_…, run_…)`: some of the runs that hold a slot.
struct Among<'a>(&'a [RunId]);

impl fmt::Display for Among<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, run) in self.0.iter().enumerate() {
            write!(f, "{}{run}", if place == 0 { " (" } else { ", " })?;
        }
        f.write_str(if self.0.is_empty() { "" } else { ")" })
    }
}

/// Times as people and programs outside spell them.
pub(super) mod spelled {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::Timestamp;

    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time.exact())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The same, where there may be none.
pub(super) mod spelled_option {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::Timestamp;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_str(&time.exact()),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests;
