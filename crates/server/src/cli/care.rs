//! Databases are brought up to date, looked after, copied and measured.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::bench::{parse_bytes, parse_workflow};
use crate::words::{parse_number, parse_span};

/// What can be done with a schema.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum MigrateCommand {
    /// Bring the schema up to date; others wait meanwhile
    Up(UpArgs),
    /// Say where the schema stands; exit code 4 when it is behind
    Status,
    /// Print the statements for whoever runs them by hand; needs no database
    Print(PrintArgs),
    /// Take the newest files away again, as long as nothing is lost with them
    Down(DownArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// No further than this file
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 1..=1_000_000_i64))]
    pub(crate) to: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// Back to this file
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 0..=1_000_000_i64))]
    pub(crate) to: i64,
}

#[derive(Debug, Args)]
pub(crate) struct PrintArgs {
    /// Behind this file: where the database stands
    #[arg(long, value_name = "N", default_value = "0", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 0..=1_000_000_i64))]
    pub(crate) from: i64,

    /// Up to this file, or back to it where --from is behind it [default: the last]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 0..=1_000_000_i64))]
    pub(crate) to: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Only these, such as database,schema,queues
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Whether it can serve, and not only whether it is alive
    #[arg(long)]
    pub(crate) ready: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The copy: a file that does not exist yet
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write a page for every command into this folder, instead of printing the first
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The store alone, without an engine: batches of runs are started, claimed and finished
    #[arg(long, conflicts_with = "workflow")]
    pub(crate) store: bool,

    /// So many runs
    #[arg(long, value_name = "N", default_value = "2000", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 1..=10_000_000_u64))]
    pub(crate) jobs: u64,

    /// For so long, instead of so many
    #[arg(long, value_parser = parse_span, value_name = "DURATION", conflicts_with = "jobs", allow_hyphen_values = true)]
    pub(crate) duration: Option<Duration>,

    /// So many at once
    #[arg(long, short, value_name = "N", default_value = "32", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 1..=4096_usize))]
    pub(crate) concurrency: usize,

    /// How large each input is: 100, 1k, 1m
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = parse_bytes)]
    pub(crate) payload: usize,

    /// Workflows of so many steps instead of jobs: steps=5
    #[arg(long, value_name = "steps=N", value_parser = parse_workflow)]
    pub(crate) workflow: Option<u32>,

    /// Although there are runs in the database, which this may hold up
    #[arg(long)]
    pub(crate) force: bool,
}
