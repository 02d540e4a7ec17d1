//! What people and programs ask of runs, queues and schedules.

use outlast_core::{Entry, Payload, RunId, Status, Timestamp};

use crate::{Address, NewRun, NewsKind, Purge, Purged, QueueCard, QueueChange, ScheduleChange, ScheduleView};

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
    /// Ends a run as cancelled that never began: that no node has ever taken. Any other is left alone.
    Withdraw {
        /// Which.
        run: Address,
        /// Why.
        reason: String,
    },
    /// Ends a run at once as cancelled, whatever it is doing: it is not asked, and nothing is undone. What a node that
    /// holds it is just writing is waited for; what it writes later is refused.
    Kill {
        /// Which.
        run: Address,
        /// Why.
        reason: String,
    },
    /// Holds a run back. One that nobody has is paused at once; one that a node holds is asked, and paused when its turn
    /// ends. Whatever comes for it is kept, its time goes on to count, and a cancellation ends the pause.
    Pause {
        /// Which.
        run: Address,
        /// Why.
        reason: String,
    },
    /// Lets a run go on that is paused, or is about to be.
    Resume {
        /// Which.
        run: Address,
    },
    /// Changes when a run goes on that nobody has and that goes on by itself later. One that is ready is due at the other
    /// time. One that waits is told that its timers of that time are over, which its code hears like their end.
    Due {
        /// Which.
        run: Address,
        /// When it is due, as the caller knows it: one that is due at another time by now is left alone.
        seen: Timestamp,
        /// When it is to be due, at the latest when its own time is over; `None`: now. Of a run that waits, only that.
        at: Option<Timestamp>,
    },
    /// Makes a run that failed or was cancelled ready again, due now: the same run, with all that it recorded before it,
    /// but for what `repair` takes back. What its earlier turns may still write does not fit any more, and its parent,
    /// which has heard of its end, hears nothing further. One that has not ended stays as it is, unless it is repaired.
    Retry {
        /// Which.
        run: Address,
        /// The epoch in which it ended, as the caller knows it: one that was tried again since is left alone, also if
        /// it has ended anew. `None`: however often it has ended.
        epoch: Option<i64>,
        /// What it is called with from now on, instead of what it was started with.
        input: Option<Payload>,
        /// What changes of its journal. With one, a run that no node holds is repaired also before its end, if it is
        /// still in that epoch; one that is paused stays so.
        repair: Option<Repair>,
    },
    /// Starts a run with a journal that another has recorded.
    Fork(Box<Fork>),
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

/// What changes of a run's journal when it is repaired. Nothing is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The entry that says so: behind all that the journal has.
    pub entry: Entry,
    /// Positions of entries that count no more.
    pub void: Vec<u32>,
    /// What it hears again.
    pub hears: Hears,
}

/// A run to start with what another has recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The run: without a key, and not the only one of its kind.
    pub run: NewRun,
    /// Its journal.
    pub entries: Vec<Entry>,
    /// What it hears again.
    pub hears: Hears,
}

/// What a run hears although it, or another one, has heard of it before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hears {
    /// Messages, oldest first.
    pub news: Vec<(NewsKind, String, Option<Payload>)>,
    /// Runs of whose end it is told, now or when they end, and under what name.
    pub ends: Vec<(RunId, String)>,
}

impl Control {
    /// Whether it may take a run from a node that lives: it locks the node's row, so it has to be through soon.
    pub(crate) fn takes_from_node(&self) -> bool {
        matches!(self, Control::Kill { .. })
    }
}

/// The tag of a run whose long journal is being deleted, page by page: a part of it is gone.
pub const PURGING: &str = "outlast.purging";

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
    /// The run has begun, or is held back: it was left alone.
    Begun {
        /// The run.
        run: RunId,
    },
    /// The run is paused.
    Paused {
        /// The run.
        run: RunId,
        /// Whether this call made it so.
        by_this: bool,
    },
    /// The run is not paused.
    Resumed {
        /// The run.
        run: RunId,
        /// Whether this call made it so.
        by_this: bool,
    },
    /// What was said about when the run is due was heard.
    Due {
        /// The run.
        run: RunId,
        /// Whether this call changed it; `false` when it was not due at the time that the caller knew.
        by_this: bool,
    },
    /// The run cannot be paused: its undo gave up, and it stands still until somebody wants that tried again.
    GaveUp {
        /// The run.
        run: RunId,
    },
    /// The run is ready to be tried again, or has not ended.
    Retried {
        /// The run.
        run: RunId,
        /// Whether this call made it so.
        by_this: bool,
    },
    /// The run cannot be repaired now: a node holds it.
    Held {
        /// The run.
        run: RunId,
    },
    /// The run cannot be tried again: its journal is being deleted, and a part of it is gone.
    Purging {
        /// The run.
        run: RunId,
    },
    /// The fork is there, by this call or by an earlier try of the same call.
    Forked {
        /// The new run.
        run: RunId,
    },
    /// The run cannot be tried again now: it was the only one of its kind until it ended, and another is now.
    Taken {
        /// Its definition.
        definition: String,
        /// The one that stands for its kind.
        by: RunId,
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
