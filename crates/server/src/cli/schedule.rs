//! Schedules are set, looked at and acted on.

use std::time::Duration;

use clap::{Args, Subcommand};
use outlast::{CatchUp, Overlap, Timestamp};

use super::{NameAndReasonArgs, NameArgs};
use crate::schedule_commands::{parse_catch_up, parse_overlap};
use crate::words::{parse_duration, parse_number};

/// What can be done with schedules.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum ScheduleCommand {
    /// List all of them
    List,
    /// Show the next times of a schedule, or of an expression, which needs no database
    Next(NextArgs),
    /// Start runs at times; a schedule of this name is replaced
    Add(AddArgs),
    /// It starts nothing until it is resumed
    Pause(NameAndReasonArgs),
    /// It goes on with its next time
    Resume(NameAndReasonArgs),
    /// Start a run of it now, beside its times
    Trigger(NameAndReasonArgs),
    /// Delete it; its runs stay
    Delete(NameArgs),
    /// Start a run for each time in the past that has none
    Backfill(BackfillArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NextArgs {
    /// A schedule, or '30 2 * * *', @daily, 'every 15m'
    #[arg(value_name = "EXPRESSION|NAME")]
    pub(crate) what: String,

    /// The time zone in which an expression is meant, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,

    /// So many times
    #[arg(short = 'n', long, default_value_t = 5, value_name = "N", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 1..=1_000_usize))]
    pub(crate) number: usize,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its name
    pub(crate) name: String,

    /// When: '30 2 * * *', @daily, 'every 15m' or 'at 2027-03-14T01:30:00Z'
    pub(crate) expression: String,

    /// The workflow or job that it starts
    pub(crate) definition: String,

    /// The input of its runs: JSON, @FILE, or - for stdin
    #[arg(long, short, default_value = "null", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) input: String,

    /// The time zone in which the expression is meant, such as Europe/Berlin
    #[arg(long, default_value = "UTC", value_name = "ZONE")]
    pub(crate) tz: String,

    /// When the run before has not ended: skip, queue, allow or cancel-previous
    #[arg(long, default_value = "skip", value_parser = parse_overlap, value_name = "POLICY")]
    pub(crate) overlap: Overlap,

    /// Which of the times that passed while no node was up for more than a minute start a run: last, skip (none that is
    /// more than a minute late) or all. After less than a minute none of them counts as missed: each is acted on as
    /// --overlap says, the oldest first
    #[arg(long, default_value = "last", value_parser = parse_catch_up, value_name = "POLICY")]
    pub(crate) catch_up: CatchUp,

    /// Act on each time up to this much later, such as 30s
    #[arg(long, value_parser = parse_duration, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) jitter: Option<Duration>,

    /// The queue of its runs, when not the definition's own
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BackfillArgs {
    /// The schedule
    pub(crate) name: String,

    /// From this time on, such as 2027-03-14T01:30:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Timestamp,

    /// Until before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Timestamp,
}
