//! What goes into a transition and what comes out.
//!
//! Plain data. The engine decides what shall happen and says it with these types; a store makes it
//! durable, all or nothing, and answers. Losing a race is an answer, not an error.

use std::time::Duration;

use outlast_core::{Entry, NodeId, Payload, QueueRules, QueueState, RunId, Status, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ScheduleView;

/// Whether a run has a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// A run with a journal.
    Workflow,
    /// A run with one unit of work and no journal.
    Job,
}

/// When a run becomes due. Only the database's clock says what "now" is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// This long after the database's now.
    After(Duration),
    /// At this time.
    At(Timestamp),
}

/// Name and version of the code that runs something, as one word: `checkout@1`.
pub fn code(definition: &str, version: u32) -> String {
    format!("{definition}@{version}")
}

/// A run to start.
///
/// The caller makes the id (in the shard of the key, when there is one: see
/// [`outlast_core::shard_of_key`]), so that repeating the same start is the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its id, unless an earlier message to its key has reserved another.
    pub id: RunId,
    /// Workflow or job.
    pub kind: RunKind,
    /// Whose run it is; empty for nobody's in particular.
    pub tenant: String,
    /// The definition's name.
    pub definition: String,
    /// The definition's version, to which the run is pinned.
    pub version: u32,
    /// Unique per tenant and definition while the run is kept.
    pub key: Option<String>,
    /// Whether it is the only one of its kind; one with a key is not.
    pub unique: Option<Unique>,
    /// The line it stands in.
    pub queue: String,
    /// What it belongs to there, where the queue's rules ask for that.
    pub group: Option<String>,
    /// From 0 (most urgent) to 9.
    pub priority: u8,
    /// When it may run.
    pub due: Due,
    /// How long it may take from now until it ends.
    pub timeout: Option<Duration>,
    /// What it is called with.
    pub input: Payload,
    /// Who started it.
    pub owner: Option<String>,
    /// The roles it acts with.
    pub roles: Vec<String>,
    /// Searchable attributes: name and value.
    pub tags: Vec<(String, String)>,
    /// The W3C trace context of whoever started it.
    pub trace: Option<String>,
    /// The run that started it, and the operation there that wants to hear of its end.
    pub parent: Option<Parent>,
}

/// Says that a run is the only one of its kind (tenant, definition and key). Its id is in the shard of its kind: see
/// [`outlast_core::shard_of_key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// What is unique, in tenant and definition.
    pub key: String,
    /// For how long.
    pub scope: Scope,
    /// What becomes of another.
    pub clash: Clash,
}

/// For how long a run stands for its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Until it has ended.
    Unfinished,
    /// Until it begins.
    NotBegun {
        /// However often it is replaced, it is due this long after it was started.
        at_most: Option<Duration>,
    },
    /// For this long from its start, whatever becomes of it.
    For(Duration),
}

/// What becomes of a run whose kind is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clash {
    /// It is not started: the other is given instead.
    Return,
    /// It is refused.
    Refuse,
    /// Its input, time and priority replace those of the other, if that has not begun; the other is given.
    Replace,
}

/// Who wants to hear of a run's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The run.
    pub run: RunId,
    /// The operation's name in that run; `None` when nobody waits.
    pub op: Option<String>,
}

/// Asks that started runs are held by this node at once, as if it had claimed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The node.
    pub node: NodeId,
    /// The number of this claim, greater than every earlier one of the node.
    pub claim: i64,
}

/// The answer to one start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// The run is there, by this call or by an earlier try of the same call.
    Created {
        /// Its id (an earlier message to the key may have reserved one).
        id: RunId,
        /// What [`Hold`] asked for, when it was given and came true: the run is held with epoch 1 and has
        /// no news.
        held: bool,
    },
    /// The key belongs to a run with the same input.
    Existing {
        /// That run.
        id: RunId,
    },
    /// The key belongs to a run with another input. Nothing was written.
    Conflict {
        /// That run.
        id: RunId,
    },
    /// Another stands for its kind, and it was to be refused then. Nothing was written.
    Taken {
        /// That run.
        id: RunId,
    },
}

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
    /// The code this node knows, as [`code`] writes it.
    pub codes: Vec<String>,
    /// At most this many.
    pub limit: u32,
    /// How long before its time a run may be taken that waits: to be in hand when its timer goes off. Runs that
    /// would begin, or try again, are never taken before their time.
    pub early: Duration,
    /// Nothing is taken that is due before this: earlier claims took all of it.
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
    /// The code this node knows, as [`code`] writes it.
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
    /// When the next run of these queues is due, if fewer than asked for were; `None` when none is. Not later
    /// than now when one is due that somebody's transaction has locked.
    pub next_due: Option<Timestamp>,
    /// Runs are due that may not go on before others end (or whoever has locked them lets them go). Only in the
    /// answer to a [`QueueClaim`].
    pub is_full: bool,
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
    /// A child ended. Its body is an [`Ended`] as JSON.
    Child,
    /// Someone asks the run to stop.
    Cancel,
}

/// Changes of many runs of one shard by one node, in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Who writes. Without its row in `nodes` the whole batch is refused.
    pub node: NodeId,
    /// The shard of all the runs.
    pub shard: u16,
    /// One element per run, each run once.
    pub runs: Vec<RunCommit>,
}

/// What one run recorded, and where it goes from here.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCommit {
    /// The run.
    pub run: RunId,
    /// The fence.
    pub epoch: i64,
    /// New entries, in the order of their positions, without gaps after what is stored.
    pub entries: Vec<Entry>,
    /// The numbers of news that these entries consumed; they leave the inbox.
    pub consumed: Vec<i64>,
    /// Children to start. Comes with at least one entry.
    pub starts: Vec<NewRun>,
    /// Messages to other runs. Comes with at least one entry, or with [`Next::Finish`].
    pub sends: Vec<Delivery>,
    /// Entries below this position leave the journal (`continue_as_new`).
    pub prune_below: Option<u32>,
    /// Steps that have been running for a while, for people to see. Nothing waits for these.
    pub doing: Vec<Doing>,
    /// Whether there may be such rows that go when the turn ends.
    pub did: bool,
    /// What handlers logged.
    pub logs: Vec<LogLine>,
    /// Searchable attributes to set.
    pub tags: Vec<(String, String)>,
    /// How the turn ends; `None` while it goes on.
    pub next: Option<Next>,
}

impl RunCommit {
    /// Of a run that has recorded nothing and goes on.
    pub fn new(run: RunId, epoch: i64) -> RunCommit {
        RunCommit {
            run,
            epoch,
            entries: Vec::new(),
            consumed: Vec::new(),
            starts: Vec::new(),
            sends: Vec::new(),
            prune_below: None,
            doing: Vec::new(),
            did: true,
            logs: Vec::new(),
            tags: Vec::new(),
            next: None,
        }
    }
}

/// The end of one run's turn, for a transaction of the user's.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// Who holds the run.
    pub node: NodeId,
    /// How its turn ends.
    pub commit: RunCommit,
}

/// A step that runs now, or a job that tells how far it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Doing {
    /// The step, with its occurrence.
    pub name: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// What its body saved last.
    pub saved: Option<Payload>,
    /// How much of it is done.
    pub percent: Option<u8>,
    /// What it is at.
    pub message: Option<String>,
}

/// One line that a handler logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its number in the turn; with the epoch it is unique in the run.
    pub n: u32,
    /// When, by the database's clock. Filled by the store.
    pub at: Timestamp,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    /// The text, with its fields.
    pub message: String,
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Only durable waits are left. The run becomes `waiting` until `wake_at`, or `ready` at once when
    /// it has news beyond `seen`.
    Suspend {
        /// The earliest timer.
        wake_at: Option<Timestamp>,
        /// The last news the turn knows.
        seen: i64,
    },
    /// Another attempt (of a job) after a pause: `ready`, due later.
    Retry {
        /// How long from the database's now.
        after: Duration,
        /// The number of the next attempt.
        attempt: u32,
    },
    /// Handed back untouched: `ready`, due now.
    Release,
    /// The code does not fit: `blocked` until code appears that does, or its time is over.
    Block {
        /// Why, for people and programs.
        reason: String,
    },
    /// The end. The run leaves the hot table.
    Finish(Ended),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// `Completed`, `Failed` or `Cancelled`.
    pub status: Status,
    /// The result.
    pub output: Option<Payload>,
    /// The `FailureDoc` as JSON text.
    pub error: Option<String>,
}

/// The answer for one run of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// All of it is durable (now, or by an earlier try of the same call).
    Done,
    /// The node no longer holds the run with this epoch. Nothing of it was written.
    LeaseLost,
    /// Someone else's transaction holds a row that it needs. The run has not moved, and nothing was sent or
    /// started; entries may be there. Carry all of it to the next batch.
    Busy,
}

/// A message to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its own id: a repeated delivery is the same delivery.
    pub id: uuid::Uuid,
    /// To whom.
    pub to: Address,
    /// What.
    pub kind: NewsKind,
    /// Name of the event or promise, or of the operation that started the child.
    pub name: String,
    /// The value.
    pub body: Option<Payload>,
}

/// How a run is named from outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// By id.
    Run(RunId),
    /// By key; the run need not exist yet.
    Key {
        /// Its tenant.
        tenant: String,
        /// Its definition.
        definition: String,
        /// Its key.
        key: String,
    },
}

/// The answer to one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    /// It is in the inbox (or was, by an earlier try), and the run has been woken if it waited.
    Done {
        /// The run; with a key that no run has yet, the id that is reserved for it.
        run: RunId,
    },
    /// The promise was settled before; the first value stays.
    AlreadySettled {
        /// The run.
        run: RunId,
    },
    /// The run has ended.
    Closed {
        /// The run.
        run: RunId,
        /// How.
        status: Status,
    },
    /// There is no such run.
    Unknown,
    /// The run has too many unread messages.
    Full {
        /// The run.
        run: RunId,
        /// The limit.
        limit: u32,
    },
}

/// Asks that a run hears of another's end, as a parent does of its child's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Whose end.
    pub run: RunId,
    /// Who wants to hear of it.
    pub listener: RunId,
    /// The name of the [`NewsKind::Child`] that it gets.
    pub name: String,
}

/// The answer to a [`Listen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listened {
    /// The end will be told, in the transaction that ends the run.
    Noted,
    /// The run had ended: its end is told, and not again while it lies unread.
    Ended,
    /// There is no such run.
    Unknown,
}

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
    /// Runs that were handed out in a lost reply and are due again.
    pub freed: u64,
    /// When rules of queues were changed last.
    pub rules_changed: Option<Timestamp>,
    /// When the next schedule is due.
    pub next_fire: Option<Timestamp>,
    /// The database's now.
    pub now: Timestamp,
}

/// What people and programs ask of a run, of many, or of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Asks a run to stop. One that never began, or is paused or blocked, ends at once; any other gets
    /// the request as news.
    Cancel {
        /// Which.
        run: Address,
        /// Why.
        reason: String,
    },
    /// Makes a job that failed or was cancelled ready again, due now: the same run, with all its attempts before it. What
    /// its earlier turns may still write does not fit any more, and its parent, which has heard of its end, hears
    /// nothing further. One that has not ended stays as it is.
    Retry {
        /// Which.
        run: Address,
        /// The epoch in which it ended, as the caller knows it: one that was tried again since is left alone, also if
        /// it has ended anew. `None`: however often it has ended.
        epoch: Option<i64>,
        /// What it is called with from now on, instead of what it was started with.
        input: Option<Payload>,
    },
    /// Deletes ended runs with everything of them, a bounded number at a time.
    Purge(Purge),
    /// Changes what a queue does.
    Queue {
        /// Which.
        name: String,
        /// How.
        change: QueueChange,
    },
    /// Changes a schedule.
    Schedule {
        /// Which.
        name: String,
        /// How.
        change: ScheduleChange,
    },
}

/// What a schedule starts, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleCard {
    /// Its times, as [`outlast_core::Timetable`] writes them.
    pub timetable: String,
    /// The zone in which they are meant.
    pub zone: String,
    /// Whose runs it starts.
    pub definition: String,
    /// What they are called with.
    pub input: Payload,
    /// Everything else (queue, overlap, catch-up…), as a JSON object.
    pub options: String,
    /// The time that comes next, as the timetable says it.
    pub next_at: Option<Timestamp>,
    /// When that is acted on; `None` when nothing comes any more, or while it is paused.
    pub due_at: Option<Timestamp>,
}

impl ScheduleCard {
    /// Whether both say the same, wherever they stand in time.
    pub fn is_same(&self, other: &ScheduleCard) -> bool {
        let said = |card: &ScheduleCard| {
            let ScheduleCard { timetable, zone, definition, input, options, .. } = card.clone();
            (timetable, zone, definition, input, options)
        };
        said(self) == said(other)
    }
}

/// What people and code do to a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleChange {
    /// There is such a one from now on. One that says the same already keeps its place in time.
    Put(ScheduleCard),
    /// It starts nothing until it is resumed.
    Pause,
    /// It goes on with this time.
    Resume {
        /// The time that comes next.
        next_at: Option<Timestamp>,
        /// When that is acted on.
        due_at: Option<Timestamp>,
    },
    /// It is gone. Its runs stay.
    Delete,
}

/// What a schedule's time asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Fire {
    /// The schedule.
    pub name: String,
    /// Where whoever decided this saw it stand: its `next_at`. If it stands elsewhere, nothing happens.
    pub at: Timestamp,
    /// The last time that this is about.
    pub last_at: Timestamp,
    /// The time that comes next.
    pub next_at: Option<Timestamp>,
    /// When that is acted on.
    pub due_at: Option<Timestamp>,
    /// The runs to start.
    pub runs: Vec<NewRun>,
    /// How many times passed without a run.
    pub skipped: u32,
}

/// The answer to a [`Fire`].
#[derive(Debug, Clone, PartialEq)]
pub enum Fired {
    /// It happened: the answers to the starts.
    Done(Vec<Started>),
    /// The schedule stands elsewhere: somebody else fired it, or changed it. Nothing was written.
    Lost,
}

/// Which ended runs are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Those that ended before this long ago, oldest first in each shard.
    pub older_than: Duration,
    /// No more than this many are looked at in each shard, and no more deleted in all.
    pub limit: u32,
    /// Those that ended with this status; `None`: with any.
    pub status: Option<Status>,
    /// Those of these definitions.
    pub of: Definitions,
    /// Where an earlier purge of the same kind stopped, shard by shard; empty: from the oldest on.
    pub after: Vec<Mark>,
}

impl Purge {
    /// All that ended before this long ago.
    pub fn older_than(older_than: Duration, limit: u32) -> Purge {
        Purge { older_than, limit, status: None, of: Definitions::All, after: Vec::new() }
    }
}

/// Some definitions, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Definitions {
    /// All of them.
    All,
    /// These.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Definitions {
    /// Whether this one is among them.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Definitions::All => true,
            Definitions::Only(names) => names.iter().any(|one| one == name),
            Definitions::Except(names) => names.iter().all(|one| one != name),
        }
    }
}

/// A place among the ended runs of a shard: just after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// When it ended.
    pub finished_at: Timestamp,
    /// Which.
    pub run: RunId,
}

impl Default for Mark {
    /// Before all of them.
    fn default() -> Mark {
        Mark { finished_at: Timestamp::default(), run: RunId::from_uuid(uuid::Uuid::nil()) }
    }
}

/// What became of a purge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// How many runs were deleted.
    pub runs: u64,
    /// Where it stopped, shard by shard: all before it that the purge is for are gone, but those that somebody
    /// else had locked.
    pub marks: Vec<Mark>,
    /// Whether there may be more behind that.
    pub more: bool,
}

/// What people do to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueChange {
    /// Nothing of it begins until it is resumed; what runs goes on.
    Pause,
    /// It is worked off again.
    Resume,
    /// What is in it now is worked off; what comes later stays in line until it is resumed.
    Drain,
    /// These rules instead of those that code says; `None`: code's again.
    Rules(Option<QueueRules>),
}

/// What a queue does, as its row says. One without a row is open and has no rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueCard {
    /// Its name.
    pub name: String,
    /// The rules that hold.
    pub rules: QueueRules,
    /// Whether people set them, and not code.
    pub is_own: bool,
    /// Whether it is worked off.
    pub state: QueueState,
    /// Since when it is paused or drained.
    pub since: Option<Timestamp>,
}

impl QueueCard {
    /// Whether it is claimed by [`crate::Store::claim_queue`] and not with all others.
    pub fn is_managed(&self) -> bool {
        self.state != QueueState::Open || !self.rules.is_plain()
    }
}

/// The answer to a [`Control`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controlled {
    /// The request will reach the run.
    Asked {
        /// The run.
        run: RunId,
    },
    /// The run is in this final status, by this call or before it.
    Final {
        /// The run.
        run: RunId,
        /// Its status.
        status: Status,
        /// Whether this call ended it.
        by_this: bool,
    },
    /// The run is ready to be tried again, or has not ended.
    Retried {
        /// The run.
        run: RunId,
        /// Whether this call made it so.
        by_this: bool,
    },
    /// The run cannot be tried again: only jobs can.
    NoJob {
        /// The run.
        run: RunId,
    },
    /// There is no such run.
    Unknown,
    /// What became of a purge.
    Purged(Purged),
    /// What the queue does now.
    Queue(QueueCard),
    /// How the schedule stands now (or stood, when it is gone); `None` when there is none.
    Schedule(Option<ScheduleView>),
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
    /// Ids of deliveries and of written values that are older than this are forgotten.
    pub forget_after: Duration,
    /// At most this many rows of each kind.
    pub limit: u32,
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
    /// Blocked runs whose time was over: they have ended.
    pub expired: u64,
    /// The most rows of one kind that were deleted because of their age: delivery ids, values and ids of those.
    pub forgotten: u64,
}

/// Where a value is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvName {
    /// Whose it is; empty for nobody's in particular.
    pub tenant: String,
    /// The space, in which keys are unique.
    pub space: String,
    /// The key.
    pub key: String,
}

/// A change of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvWrite {
    /// Its own id: a repeated write is the same write.
    pub id: uuid::Uuid,
    /// Which value.
    pub name: KvName,
    /// What becomes of it.
    pub change: KvChange,
    /// What must be there for it to happen; `None` when that does not matter.
    pub expect: Option<Expect>,
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvChange {
    /// It is this from now on.
    Set {
        /// The value.
        value: Payload,
        /// After how long it is gone by itself.
        ttl: Option<Duration>,
    },
    /// It is gone.
    Delete,
}

/// What must be there for a value to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// A value of exactly this version.
    Version(i64),
}

impl From<i64> for Expect {
    fn from(version: i64) -> Expect {
        Expect::Version(version)
    }
}

impl From<Option<i64>> for Expect {
    fn from(version: Option<i64>) -> Expect {
        version.map_or(Expect::Absent, Expect::Version)
    }
}

/// The answer to one write. Runs record it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvWritten {
    /// It happened, by this call or by an earlier try of the same call.
    Done {
        /// The version that it made: greater than every earlier one of this key, also of one that was deleted.
        version: i64,
    },
    /// There was nothing to delete.
    Absent,
    /// Something else was there than was expected. Nothing of it was written.
    Conflict {
        /// The version that is there; `None` when there is no value.
        current: Option<i64>,
    },
}

/// Asks for a page of values whose keys begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvList {
    /// Whose.
    pub tenant: String,
    /// In which space.
    pub space: String,
    /// What keys begin with; empty for all of them.
    pub prefix: String,
    /// After this key.
    pub after: Option<String>,
    /// At most this many, and never more than [`KvList::MOST`].
    pub limit: u32,
    /// At most this many bytes of values, each reckoned with [`KvList::ROW`] more; but always one value, if there is one.
    pub bytes: usize,
}

impl KvList {
    /// The most values of one page.
    pub const MOST: u32 = 1000;
    /// What a value takes beside its own bytes.
    pub const ROW: usize = 512;
}

/// Something happened; sent to everybody who listens to a store. A hint: nothing depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A run may have become due.
    Due,
    /// This run has news.
    News(RunId),
    /// This run ended.
    Ended(RunId),
    /// What a queue does was changed.
    Queues,
    /// A schedule was changed.
    Schedules,
    /// Anything may have happened: someone else wrote, or hints were lost.
    Anything,
}
