//! Nodes: what they say when they start, how they renew their lease, and what they do beside their runs.

use std::time::Duration;

use outlast_core::{NodeId, QueueRules, RunId, Timestamp};

use crate::{Mark, RunKind};

/// A node that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCard {
    /// Its id, new for every start of a process.
    pub id: NodeId,
    /// A name for people.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// How long its lease is.
    pub lease: Duration,
    /// The code it knows.
    pub definitions: Vec<DefinitionCard>,
    /// The queues it takes from; empty when it does not say, and may take from all.
    pub queues: Vec<String>,
    /// The rules of queues that its code knows.
    pub rules: Vec<(String, QueueRules)>,
    /// How many runs it takes at once; 0 when it does not say.
    pub slots: u32,
    /// What it says of itself to people, as a JSON object.
    pub about: String,
}

/// What a node knows how to run, recorded for callers without the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionCard {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Workflow or job.
    pub kind: RunKind,
    /// Whether new runs take this version (of several).
    pub active: bool,
    /// Made at compile time from the code's types.
    pub signature: String,
    /// The queue its runs stand in unless told otherwise.
    pub queue: String,
    /// The priority its runs have unless told otherwise.
    pub priority: u8,
    /// Everything else (attempts, timeout, input shape), as a JSON object.
    pub options: String,
}

/// Renews a node's lease and compares notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// The node.
    pub node: NodeId,
    /// How long from now.
    pub lease: Duration,
    /// Claims up to this number are settled: runs they hold which are not in `known` were handed out in
    /// a reply that got lost, and become due again.
    pub settled: i64,
    /// The runs that the node knows it holds.
    pub known: Vec<Known>,
}

/// A run that a node knows it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The run.
    pub run: RunId,
    /// With this epoch.
    pub epoch: i64,
    /// The last news it has seen.
    pub seen: i64,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Whether the node still has its lease in every shard. If not, it holds nothing.
    pub alive: bool,
    /// Runs that it believes it holds and does not.
    pub lost: Vec<RunId>,
    /// Runs that have news beyond what it has seen.
    pub news: Vec<RunId>,
    /// Runs that are to pause.
    pub pausing: Vec<RunId>,
    /// Runs that were handed out in a lost reply and are due again.
    pub freed: u64,
    /// How often queues were changed: another number says that they do something else by now.
    pub rules_changes: i64,
    /// When the next schedule is due.
    pub next_fire: Option<Timestamp>,
    /// When the first lease of another node ends, unless that is renewed.
    pub next_lapse: Option<Timestamp>,
    /// The database's now.
    pub now: Timestamp,
}

/// Housekeeping, for one shard at a time, safe to do on any number of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Who sweeps: never dead, however late it is with its renewal.
    pub by: NodeId,
    /// The shard.
    pub shard: u16,
    /// Runs that have been due for this long become `blocked` when no live node knows their code, or none of
    /// those that do serves their queue.
    pub unknown_after: Duration,
    /// Where the last sweep stopped looking for such: [`Swept::next`]. At first before all of them.
    pub after: Mark,
    /// Ids of deliveries and of written values that are older than this are forgotten.
    pub forget_after: Duration,
    /// At most this many rows of each kind.
    pub limit: u32,
    /// Only asks children to stop whose parent did not end well: what [`Signal::Orphans`](crate::Signal::Orphans) is about,
    /// which comes far more often than anything else has to be swept.
    pub only_orphans: bool,
}

/// The answer to a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Nodes whose lease had ended; their runs are due again.
    pub dead_nodes: Vec<NodeId>,
    /// How many runs that freed.
    pub freed: u64,
    /// Runs that nobody knows how to run, or nobody who does takes from their queue.
    pub blocked: u64,
    /// From where the next sweep looks for such runs: any number of others can stand before them, in queues that
    /// are paused or full.
    pub next: Mark,
    /// Blocked runs whose time was over: they have ended.
    pub expired: u64,
    /// The most rows of one kind that were deleted because of their age: delivery ids, values and ids of those.
    pub forgotten: u64,
}
