//! The words and rules of Outlast that need no I/O.
//!
//! Everything here is plain data and pure functions: what a run is called, how its status may
//! move, what its journal says and in which order a replay hands it over, when a retry or a schedule is due.
//! No runtime, no driver, no clock: time and randomness come in as arguments.

pub mod crashes;
mod cron;
mod duration;
mod error;
mod fingerprint;
mod finite;
mod id;
mod journal;
mod limits;
mod payload;
mod queue;
pub mod repair;
mod replay;
mod retry;
mod status;
mod time;
mod timetable;
mod why;

pub use cron::Cron;
pub use duration::{DurationExt, duration_text, parse_duration};
pub use error::{AnyError, Error, Failure, FailureDoc, OwnFailure, distance, shorten};
pub use fingerprint::fingerprint;
pub use id::{NodeId, RunId, ShardCount, shard_of_key};
pub use journal::{
    AttemptNote, Entry, Op, OpName, OpenNote, Phase, VOID, mark_life, name_anew, name_in_any_life,
    name_in_life, split_life, strip_anew,
};
pub use limits::{
    Limits, check_count, check_key, check_name, check_named, check_operation_name, check_reason, check_trace,
};
pub use payload::Payload;
pub use queue::{Admission, Admitted, Candidate, HeldBack, QueueRules, QueueState, Rate, Window};
pub use repair::{Operated, Revision};
pub use replay::{Asked, Replay};
pub use retry::Retry;
pub use status::{Change, Status};
pub use time::Timestamp;
pub use timetable::Timetable;
pub use why::{
    Explained, Facts, Holder, Later, Line, LiveNode, Stand, Unread, Wait, WaitOn, WakeSource, Why,
    live_waits, not_served, wake_source,
};
