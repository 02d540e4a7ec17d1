//! Runs are started, looked at, told something, waited for and deleted.

use std::time::Duration;

use clap::Args;
use outlast::{Status, Timestamp};

use crate::follow::Level;
use crate::list::PAGE;
use crate::words::{parse_duration, parse_number, parse_span};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// `runs` (the default), `queues`, `schedules`, `nodes`, `definitions`, `bulk` or `errors`; then filters for runs:
    /// status:failed def:order queue:mail key:order-1 tag:city=Bern since:2h
    #[arg(value_name = "WHAT|FILTER")]
    pub(crate) words: Vec<String>,

    /// At most this many
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 1..=PAGE))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The run: its id, or DEFINITION/KEY
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run: its id, or DEFINITION/KEY
    #[arg(value_name = "ID", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) id: Option<String>,

    /// A run that `export` wrote, instead of one of the database
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<std::path::PathBuf>,

    /// Only this step: its number, or its name
    #[arg(long, value_name = "N|NAME", conflicts_with_all = ["input", "result"])]
    pub(crate) step: Option<String>,

    /// Only its input, as it was given
    #[arg(long, conflicts_with = "result")]
    pub(crate) input: bool,

    /// Only its output, as it was returned
    #[arg(long = "output", visible_alias = "result", alias = "out")]
    pub(crate) result: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The run: its id, or DEFINITION/KEY
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Go on until its end
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Only lines that are at least so urgent
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) level: Option<Level>,

    /// Only lines of this step: its number, or its name
    #[arg(long, value_name = "N|NAME")]
    pub(crate) step: Option<String>,

    /// Only lines since then: 10m, or 2027-03-14T01:30:00Z
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Runs that `export` wrote, instead of those of the database
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<std::path::PathBuf>,

    /// Only runs of this workflow or job
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub(crate) definition: Option<String>,

    /// Only so many of each version, the newest
    #[arg(long, value_name = "N", conflicts_with = "files", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 1..=1_000_000_u32))]
    pub(crate) sample: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The workflow or job
    pub(crate) name: String,

    /// Its input: JSON, @FILE, or - for stdin
    #[arg(long, short, default_value = "null", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) input: String,

    /// The same key never starts twice
    #[arg(long, short, value_name = "KEY")]
    pub(crate) key: Option<String>,

    /// The queue, when not the definition's own
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,

    /// From 0 (most urgent) to 9
    #[arg(long, value_name = "0-9", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 0..=9_u8))]
    pub(crate) priority: Option<u8>,

    /// Start this much later, such as 10m
    #[arg(long, value_parser = parse_span, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) delay: Option<Duration>,

    /// Start at this time, such as 2027-03-14T01:30:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    pub(crate) at: Option<Timestamp>,

    /// A searchable attribute; can be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,

    /// Wait for the end and print the output
    #[arg(long, short, conflicts_with = "follow")]
    pub(crate) wait: bool,

    /// Tell what it does until its end
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// The run: its id, or DEFINITION/KEY
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The name that the run waits for
    pub(crate) name: String,

    /// The value: JSON, @FILE, or - for stdin
    #[arg(long, short, default_value = "null", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) data: String,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) message: MessageArgs,

    /// The same key sends the event once, however often the command is run
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The run: its id, or DEFINITION/KEY
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Until it is in one of these, such as waiting,completed [default: until its end]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(crate) until: Vec<Status>,
}

#[derive(Debug, Args)]
pub(crate) struct PurgeArgs {
    /// Runs that ended longer ago than this, such as 7d
    #[arg(long, value_parser = parse_duration, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) older_than: Duration,
}
