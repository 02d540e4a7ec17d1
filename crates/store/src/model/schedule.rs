//! Schedules: what they start and when, and what a time asks for.

use outlast_core::{Payload, RunId, Timestamp};

use crate::{NewRun, Started};

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

    /// Whether the times of both are the same, whatever they start.
    pub fn has_same_times(&self, other: &ScheduleCard) -> bool {
        (&self.timetable, &self.zone) == (&other.timetable, &other.zone)
    }
}

/// What people and code do to a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleChange {
    /// There is such a one from now on. One whose times are the same keeps its place in time.
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
    /// Which times whoever decided this saw wait. If others do, nothing happens.
    pub waited: Vec<(Timestamp, Timestamp)>,
    /// The times that wait from now on.
    pub waiting: Vec<(Timestamp, Timestamp)>,
    /// The last time that is acted on with this, if one is.
    pub last_at: Option<Timestamp>,
    /// The time that comes next.
    pub next_at: Option<Timestamp>,
    /// When that is acted on.
    pub due_at: Option<Timestamp>,
    /// A run that is asked to stop, and why.
    pub stops: Option<(RunId, String)>,
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
