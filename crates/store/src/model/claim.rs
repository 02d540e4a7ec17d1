//! Claims: who asks for due runs, what is handed out, and the news that come with it.

use std::time::Duration;

use outlast_core::{NodeId, Payload, RunId, Timestamp};

/// Asks for due runs of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who asks.
    pub node: NodeId,
    /// The number of this claim, greater than every earlier one of the node. The same number again
    /// gives the same runs again.
    pub number: i64,
    /// The shard.
    pub shard: u16,
    /// The queues to take from, each at every priority; among equal priorities in this order.
    pub queues: Vec<String>,
    /// The code this node knows, as [`code`](crate::code) writes it.
    pub codes: Vec<String>,
    /// At most this many.
    pub limit: u32,
    /// How long before its time a run may be taken that waits: to be in hand when its timer goes off. Runs that
    /// would begin, or try again, are never taken before their time.
    pub early: Duration,
    /// Nothing is taken or told of that is due before this: earlier claims took all of it.
    pub from: Option<Timestamp>,
}

/// Asks for due runs of one queue with rules, in all shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueClaim {
    /// Who asks.
    pub node: NodeId,
    /// The number of this claim, as of [`Claim`].
    pub number: i64,
    /// The queue.
    pub queue: String,
    /// The code this node knows, as [`code`](crate::code) writes it.
    pub codes: Vec<String>,
    /// At most this many.
    pub limit: u32,
}

/// The answer to a claim.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claims {
    /// The runs, most urgent first, then oldest.
    pub runs: Vec<Claimed>,
    /// The database's now.
    pub now: Timestamp,
    /// When the next run of these queues is due, if fewer than asked for were; `None` when none is, or none within
    /// the moment ahead that a look at a part of a line sees: then `look_again` says so. Not later than now when one is due
    /// that somebody's transaction has locked.
    pub next_due: Option<Timestamp>,
    /// Runs are due that may not go on before others end (or whoever has locked them lets them go). Only in the
    /// answer to a [`QueueClaim`].
    pub is_full: bool,
    /// Somebody may be due before all that was looked at, or behind it, and is found after this long.
    pub look_again: Option<Duration>,
}

/// Who stands in line where: a look, which claims nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lines {
    /// Queues in which somebody is due, or will be (within a moment, where `look_again` says something), and since or from when.
    pub due: Vec<(String, Timestamp)>,
    /// Somebody may be due before all that was looked at, or behind it, and is found after this long.
    pub look_again: Option<Duration>,
}

/// One claimed run: what the hot table knows, and its unread news.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The run.
    pub id: RunId,
    /// The fence that every later write carries: one more than before.
    pub epoch: i64,
    /// Its place in line.
    pub priority: u8,
    /// When it was due; in the answer to a repeated claim, the database's now.
    pub due_at: Timestamp,
    /// Name and version of its code.
    pub code: String,
    /// Number of the attempt that this claim begins, from 1 (jobs; workflows keep 1).
    pub attempt: u32,
    /// How many nodes died holding it since it last made progress, as [`outlast_core::crashes`] counts.
    pub crashes: u32,
    /// When it must have ended.
    pub expires_at: Option<Timestamp>,
    /// The number of the last news so far: what a suspension says it has seen.
    pub news: i64,
    /// The unread news, oldest first.
    pub inbox: Vec<News>,
}

/// Something from outside that a run has not consumed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Its number in the run.
    pub seq: i64,
    /// What it is.
    pub kind: NewsKind,
    /// Name of the event or promise, or of the operation that started the child.
    pub name: String,
    /// The value. A [`NewsKind::Cancel`]'s is its reason as JSON text.
    pub body: Option<Payload>,
    /// When it was sent, by the database's clock.
    pub at: Timestamp,
}

/// Kinds of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NewsKind {
    /// A message, consumed once, in the order sent.
    Event,
    /// A promise was settled. Its body is the value.
    Settled,
    /// A promise was settled with a failure. Its body is a `FailureDoc`.
    Rejected,
    /// A child ended. Its body is an [`Ended`](crate::Ended) as JSON.
    Child,
    /// Someone asks the run to stop.
    Cancel,
    /// Timers that end at this time are over: its body is the time, in microseconds.
    Skip,
}
