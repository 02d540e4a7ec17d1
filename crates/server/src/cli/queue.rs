//! Queues are held back, worked off and limited.

use clap::{Args, Subcommand};
use outlast::Rate;

use crate::queue_commands::{Rule, parse_limit, parse_rate};

/// What can be done to a queue.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum QueueCommand {
    /// Nothing of it begins until it is resumed; what runs goes on
    Pause(NameAndReasonArgs),
    /// It is worked off again
    Resume(NameAndReasonArgs),
    /// What is in it now is worked off; what comes later stays in line until it is resumed
    Drain(NameAndReasonArgs),
    /// Change its rules, whatever code says; what is not named stays as it is
    Limit(LimitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Its name
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct NameAndReasonArgs {
    /// Its name
    pub(crate) name: String,

    /// Why: stands in the audit log, and beside what is paused
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// The queue
    pub(crate) name: String,

    /// So many runs at once, on all nodes together; `none` lifts it
    #[arg(long, value_parser = parse_limit, value_name = "N", allow_hyphen_values = true)]
    pub(crate) limit: Option<Rule<u32>>,

    /// So many at once on one node; `none` lifts it
    #[arg(long, value_parser = parse_limit, value_name = "N", allow_hyphen_values = true)]
    pub(crate) per_node: Option<Rule<u32>>,

    /// So many at once of one group, on all nodes together; `none` lifts it
    #[arg(long, value_parser = parse_limit, value_name = "N", allow_hyphen_values = true)]
    pub(crate) per_group: Option<Rule<u32>>,

    /// So many begin in any such span: 500/1m; `none` lifts it
    #[arg(long, value_parser = parse_rate, value_name = "N/SPAN", allow_hyphen_values = true)]
    pub(crate) rate: Option<Rule<Rate>>,

    /// The same for each group: 5/1s; `none` lifts it
    #[arg(long, value_parser = parse_rate, value_name = "N/SPAN", allow_hyphen_values = true)]
    pub(crate) rate_per_group: Option<Rule<Rate>>,

    /// Groups take turns; `--fair=false` lifts it
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", hide_possible_values = true)]
    pub(crate) fair: Option<bool>,

    /// The runs of a group run one after another; `--ordered=false` lifts it
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", hide_possible_values = true)]
    pub(crate) ordered: Option<bool>,

    /// Back to what code says
    #[arg(long, conflicts_with_all = ["limit", "per_node", "per_group", "rate", "rate_per_group", "fair", "ordered"])]
    pub(crate) reset: bool,
}
