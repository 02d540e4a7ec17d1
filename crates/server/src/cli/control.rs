//! Runs are stopped, held back, had sooner, repaired and deleted, one by one or many at once.

use clap::Args;
use outlast::Timestamp;

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The runs: ids, or DEFINITION/KEY
    #[arg(required_unless_present_any = ["filter", "all"], conflicts_with_all = ["filter", "all"], value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// Why, for whoever looks at the run later
    #[arg(long, short, default_value = "asked from the command line")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) many: ManyArgs,
}

/// Of every command that can be about all runs that fit a filter.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManyArgs {
    /// All that fit, such as 'status:failed def:mail since:2h'; where it names no status, those that are usually meant
    #[arg(long, short, value_name = "FILTER")]
    pub(crate) filter: Option<String>,

    /// All of them, whatever they are
    #[arg(long, conflicts_with = "filter")]
    pub(crate) all: bool,

    /// With a filter: do not wait for the end, and let the nodes do it
    #[arg(long, conflicts_with = "ids")]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The runs: ids, or DEFINITION/KEY
    #[arg(required_unless_present_any = ["filter", "all"], conflicts_with_all = ["filter", "all"], value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// Why, for people who look at it later
    #[arg(long, short)]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) many: ManyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DueArgs {
    /// The runs: ids, or DEFINITION/KEY
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// At this time instead of now, such as 2027-03-14T01:30:00Z; not for a run whose code sleeps
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,

    /// Why, for people who look at it later
    #[arg(long, short)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// The runs: ids, or DEFINITION/KEY
    #[arg(required_unless_present_any = ["filter", "all"], conflicts_with_all = ["filter", "all"], value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// Call them with this from now on: JSON, @FILE, or - for stdin
    #[arg(long, short, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["filter", "all"])]
    pub(crate) input: Option<String>,

    /// From this step on, instead of where the run went wrong: charge, charge#2 or child:ship
    #[arg(long, value_name = "STEP", conflicts_with = "input")]
    pub(crate) from: Option<String>,

    /// Why, for people who look at it later
    #[arg(long, short)]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) many: ManyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The runs: ids, or DEFINITION/KEY
    #[arg(required_unless_present_any = ["filter", "all"], conflicts_with_all = ["filter", "all"], value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// From this step on, instead of where the run went wrong: charge, charge#2 or child:ship
    #[arg(long, value_name = "STEP", conflicts_with = "from_start")]
    pub(crate) from: Option<String>,

    /// From the beginning
    #[arg(long, conflicts_with_all = ["filter", "all"])]
    pub(crate) from_start: bool,

    /// With another input, one for all of them: JSON, @FILE, or - for stdin
    #[arg(long, short, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,

    /// With this version of the code, or the latest
    #[arg(long, value_name = "NUMBER|latest")]
    pub(crate) version: Option<String>,

    /// Why, for people who look at it later
    #[arg(long, short)]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) many: ManyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// The step: charge, charge#2, child:ship, or undo:charge for an undo that gave up
    #[arg(value_name = "STEP")]
    pub(crate) step: String,

    /// The runs: ids, or DEFINITION/KEY
    #[arg(required_unless_present_any = ["filter", "all"], conflicts_with_all = ["filter", "all"], value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// What counts as its result: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "null", allow_hyphen_values = true)]
    pub(crate) result: String,

    /// Why, for people who look at it later
    #[arg(long, short)]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) many: ManyArgs,
}
