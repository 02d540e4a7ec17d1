//! What reads give: runs as turns, clients and people see them, pages of them, values that are kept, and nodes.

use outlast_core::{Entry, NodeId, Payload, RunId, Status, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Doing, Ended, Parent, QueueCard, RunKind, ScheduleCard};

/// A run as its `runs` row has it: what never changes.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Its id.
    pub id: RunId,
    /// Workflow or job.
    pub kind: RunKind,
    /// Whose it is.
    pub tenant: String,
    /// The definition's name.
    pub definition: String,
    /// The definition's version.
    pub version: u32,
    /// Its key.
    pub key: Option<String>,
    /// The line it stands in.
    pub queue: String,
    /// From 0 (most urgent) to 9.
    pub priority: u8,
    /// When it was started, by the database's clock.
    pub created_at: Timestamp,
    /// What it is called with.
    pub input: Payload,
    /// Who started it.
    pub owner: Option<String>,
    /// The roles it acts with.
    pub roles: Vec<String>,
    /// The W3C trace context of whoever started it.
    pub trace: Option<String>,
    /// Who wants to hear of its end.
    pub parent: Option<Parent>,
}

/// What a turn needs to begin: the record and the first page of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The record.
    pub record: RunRecord,
    /// The first entries of the journal, in order.
    pub entries: Vec<Entry>,
    /// Whether the journal goes on: see [`crate::Reads::journal`].
    pub more: bool,
    /// What bodies of steps in progress had saved when their node died.
    pub doing: Vec<Doing>,
    /// What in it this version cannot read, if anything: such a run has to wait for one that can.
    pub unreadable: Option<String>,
}

/// A run for people to see.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// What never changes.
    pub record: RunRecord,
    /// Where it stands.
    pub status: Status,
    /// When it is due, for `ready` and `waiting` runs.
    pub due_at: Option<Timestamp>,
    /// The node that holds it.
    pub node: Option<NodeId>,
    /// Its epoch: raised by every claim, and by whoever takes it from a node.
    pub epoch: i64,
    /// Number of the current attempt. Of a job that ended how many it took: those from before somebody tried it again
    /// are among them, and where it was cancelled, the one that it was in or that would have been the next.
    pub attempt: u32,
    /// Why it is blocked or paused, or what is left of an undo that gave up.
    pub reason: Option<String>,
    /// Whether someone asked it to stop, and why.
    pub cancel_reason: Option<String>,
    /// Whether someone asked it to pause while a node works on it, and why: it is paused when its turn ends.
    pub pause_reason: Option<String>,
    /// When it must have ended.
    pub expires_at: Option<Timestamp>,
    /// The group it is in, in line or running.
    pub group: Option<String>,
    /// When a node first took it, by the database's clock: until then it stood in line, or its time had not come. Later
    /// attempts, waits, other nodes and continuing as new change nothing about it. One that is tried again after its end
    /// stands in line anew, and has none until it is taken; nor has one that ended before anybody took it, or that a
    /// version took or ended which did not record it yet.
    pub began_at: Option<Timestamp>,
    /// From when on it was wanted, where it was to begin at another time than at once, or was retried after its end: before that
    /// it did not stand in line.
    pub wanted_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How it ended.
    pub ended: Option<Ended>,
    /// Its searchable attributes.
    pub tags: Vec<(String, String)>,
    /// What it does right now, as far as announced.
    pub doing: Vec<Doing>,
}

/// Which runs to list. Everything that is set must fit.
///
/// Where one is kept (what a bulk operation is about), a field that a reader does not know is refused: leaving it out
/// would mean more runs than were meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Of this definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// In one of these; empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<Status>,
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// In one of these queues; empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// With this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// With all these tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
    /// Started by this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Started at or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Started before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// In the hands of this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Of this version of their definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Started by this person or program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// In line since before then, or unfinished after more than three attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck_since: Option<Timestamp>,
    /// Ended at or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_since: Option<Timestamp>,
    /// From the oldest on, instead of from the newest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub oldest_first: bool,
}

/// One page of a list, newest first unless the filter says otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The runs.
    pub runs: Vec<RunView>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// A place in a list: just after this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Its start.
    pub created_at: Timestamp,
    /// Its id.
    pub id: RunId,
}

/// A value that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// Its key.
    pub key: String,
    /// Its version, raised by every change.
    pub version: i64,
    /// The value.
    pub value: Payload,
    /// When it is gone by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// One page of values, in the order of their keys' bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KvPage {
    /// The values.
    pub entries: Vec<KvEntry>,
    /// The key after which the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// A node for people to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When it joined.
    pub joined_at: Timestamp,
    /// Until when its lease holds.
    pub lease_until: Timestamp,
    /// How many runs it holds.
    pub holds: u64,
    /// The queues it takes from; empty when it does not say, and may take from all.
    pub queues: Vec<String>,
    /// The code it knows: `order@2`.
    pub codes: Vec<String>,
    /// How many runs it takes at once; 0 when it does not say.
    pub slots: u32,
    /// What it says of itself, as a JSON object.
    pub about: String,
}

/// A node that said nothing any more, for people to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostNode {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When others took over what it had.
    pub lost_at: Timestamp,
    /// How many runs they took.
    pub freed: u64,
}

/// A queue for people to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueView {
    /// What it does.
    pub queue: QueueCard,
    /// How many of its runs are due now and wait for their turn.
    pub due: u64,
    /// How many are due later.
    pub later: u64,
    /// How many of those that are due are to begin or to be tried again; what the others waited for has come.
    pub queued: u64,
    /// The same of those that are due later; the others wait until then.
    pub scheduled: u64,
    /// How many run.
    pub running: u64,
    /// How many wait for something, are paused or blocked.
    pub waiting: u64,
    /// Since when the one that has been due for longest is.
    pub oldest: Option<Timestamp>,
    /// What its rate has left, if it has one.
    pub rate: Option<RateView>,
}

/// What a group of a queue has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupView {
    /// Its name.
    pub name: String,
    /// How many of its runs nodes have in hand.
    pub running: u64,
    /// How many are in line, due now or later.
    pub in_line: u64,
}

/// How a queue's rate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateView {
    /// How many began within the rate's span.
    pub used: u32,
    /// How many more may begin now.
    pub free: u32,
    /// When more may begin than now; `None` when nothing counts.
    pub freer_at: Option<Timestamp>,
}

/// A schedule for people to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// What it starts, and when.
    pub card: ScheduleCard,
    /// Whether it starts nothing for now.
    pub is_paused: bool,
    /// The times that wait for the run before: spans of its timetable, from the first to the last of each.
    pub waiting: Vec<(Timestamp, Timestamp)>,
    /// The last time that was acted on.
    pub last_at: Option<Timestamp>,
    /// The run that was started last.
    pub last_run: Option<RunId>,
    /// How many runs it has started.
    pub started: u64,
    /// How many times passed without a run.
    pub skipped: u64,
}
