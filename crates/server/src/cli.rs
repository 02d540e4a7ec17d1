//! The command line: what can be asked, and how.
//!
//! Only shapes are here. What a value means is looked at by the command that needs it, so that every
//! refusal is one line of the same form.

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use outlast::{CatchUp, Overlap, Rate, Timestamp};

use crate::database::DEFAULT_URL;
use crate::fault::{Exit, Fault};
use crate::list::PAGE;
use crate::output::{Colour, Format, print_error};
use crate::queue_commands::{Rule, parse_limit, parse_rate};
use crate::schedule_commands::{parse_catch_up, parse_overlap};
use crate::words::{parse_duration, parse_number, parse_timeout};

/// Above the options that every command has, so that its own come first.
const EVERYWHERE: &str = "Options of every command";

/// Durable execution: workflows and jobs that outlast crashes, deploys and restarts.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, infer_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Begin with `outlast dev`; it says what to try next.")]
pub(crate) struct Cli {
    /// The database: sqlite://FILE or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, env = "OUTLAST_DATABASE_URL", hide_env_values = true, default_value = DEFAULT_URL)]
    #[arg(value_name = "URL", help_heading = EVERYWHERE)]
    pub(crate) database_url: String,

    /// How the answer is written
    #[arg(short, long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    #[arg(help_heading = EVERYWHERE)]
    pub(crate) output: Format,

    /// Whether it has colours
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    #[arg(help_heading = EVERYWHERE)]
    pub(crate) color: Colour,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process, with sample workflows, and watch what happens
    Dev(DevArgs),
    /// Serve the HTTP API of a database, for production
    Serve(ServeArgs),
    /// List runs, queues, schedules, nodes or definitions
    List(ListArgs),
    /// Show one run: where it stands, its steps, children and logs
    Show(RunArgs),
    /// Print what a run's handlers logged
    Logs(RunArgs),
    /// Say why a run is not progressing, and what wakes it
    Explain(RunArgs),
    /// Look whether something wakes every unfinished run
    Verify,
    /// Print a run with its journal as JSON, for `check` and for people
    Export(RunArgs),
    /// Replay unfinished runs, or exported ones, against this binary; changes nothing, exit code 4 when one does not fit
    Check(CheckArgs),
    /// Start a run by the name of its workflow or job
    Start(StartArgs),
    /// Send an event to a run
    Send(MessageArgs),
    /// Settle a promise of a run
    Settle(MessageArgs),
    /// Ask runs to stop
    Cancel(CancelArgs),
    /// End runs at once, without undoing what they did
    Kill(CancelArgs),
    /// Hold runs back until they are resumed
    Pause(CancelArgs),
    /// Let runs go on that were paused
    Resume(ResumeArgs),
    /// Try runs again that failed or were cancelled
    Retry(RetryArgs),
    /// Start another run from a step of one that is there
    Fork(ForkArgs),
    /// Give a step another result than it had
    Replace(ReplaceArgs),
    /// Wait for a run's end and print its output
    Wait(WaitArgs),
    /// Delete runs that ended long ago
    Purge(PurgeArgs),
    /// Pause, resume, drain or limit a queue
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Look at schedules, and change them
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Say who may use the HTTP API
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print the OpenAPI document of the HTTP API
    Openapi,
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Run nothing of our own: only watch
    #[arg(long)]
    pub(crate) no_samples: bool,

    /// The port of the HTTP API, on this machine alone; 0 takes a free one [default: 7777, or a free one]
    #[arg(long, value_name = "PORT", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 0..=65_535_u16))]
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; anything but this machine needs a token first (`token create`)
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7777")]
    pub(crate) listen: std::net::SocketAddr,

    /// A name under which the API is reached; can be given several times
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,

    /// Bring the database's schema up to date first
    #[arg(long)]
    pub(crate) migrate: bool,

    /// What it does: `all` also fires schedules, does bulks and deletes what is old; `api` only answers
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) role: ServeRole,

    /// Listen beyond this machine without tokens: whoever reaches it may do everything
    #[arg(long, hide = true)]
    pub(crate) insecure_no_auth_i_understand: bool,
}

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ServeRole {
    /// Everything that needs no code of yours.
    All,
    /// Nothing but the API.
    Api,
}

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown this once
    Create(TokenArgs),
    /// List all tokens, without their secrets
    List,
    /// From now on it opens nothing
    Revoke(TokenName),
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Whom it stands for
    pub(crate) subject: String,

    /// What they may do
    #[arg(long, value_enum, default_value = "viewer")]
    pub(crate) role: crate::http::Role,

    /// Bind it to a tenant: it sees and changes nothing of others
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,

    /// How long it opens something [default: 90d]
    #[arg(long, value_parser = parse_timeout, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) expires: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenName {
    /// The token: tok_ and 32 digits, as `token list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// `runs` (the default), `queues`, `schedules`, `nodes` or `definitions`, then filters for runs:
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
    #[arg(long, value_parser = parse_duration, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) delay: Option<Duration>,

    /// A searchable attribute; can be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,

    /// Wait for the end and print the output
    #[arg(long, short)]
    pub(crate) wait: bool,
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
#[derive(Debug, Args)]
pub(crate) struct ManyArgs {
    /// All that fit, such as 'status:failed def:mail since:2h'; where it names no status, those that are usually meant
    #[arg(long, short, value_name = "FILTER")]
    pub(crate) filter: Option<String>,

    /// All of them, whatever they are
    #[arg(long, conflicts_with = "filter")]
    pub(crate) all: bool,

    /// Only say what would happen to each run
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// With a filter: do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// With a filter: do not wait for the end, and let the nodes do it
    #[arg(long, conflicts_with = "ids")]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The runs: ids, or DEFINITION/KEY
    #[arg(required_unless_present_any = ["filter", "all"], conflicts_with_all = ["filter", "all"], value_name = "ID")]
    pub(crate) ids: Vec<String>,

    #[command(flatten)]
    pub(crate) many: ManyArgs,
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

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The run: its id, or DEFINITION/KEY
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Give up after this long, such as 30s
    #[arg(long, short, value_parser = parse_timeout, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct PurgeArgs {
    /// Runs that ended longer ago than this, such as 7d
    #[arg(long, value_parser = parse_duration, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) older_than: Duration,
}

/// What can be done to a queue.
#[derive(Debug, Subcommand)]
#[command(infer_subcommands = true)]
pub(crate) enum QueueCommand {
    /// Nothing of it begins until it is resumed; what runs goes on
    Pause(NameArgs),
    /// It is worked off again
    Resume(NameArgs),
    /// What is in it now is worked off; what comes later stays in line until it is resumed
    Drain(NameArgs),
    /// Change its rules, whatever code says; what is not named stays as it is
    Limit(LimitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Its name
    pub(crate) name: String,
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
    Pause(NameArgs),
    /// It goes on with its next time
    Resume(NameArgs),
    /// Start a run of it now, beside its times
    Trigger(NameArgs),
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

    /// Which of the times that passed while no node was up start a run: last, skip (none) or all
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

    /// Start them: without it, only say how many there would be
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Says what is wrong with a command line, or prints the help that it asked for.
pub(crate) fn refuse(refused: &clap::Error) -> ExitCode {
    match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody reads it: nobody misses it.
            let _ = refused.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = refused.print();
            ExitCode::from(Exit::Usage as u8)
        }
        _ => {
            print_error(&Fault::usage(one_line(&refused.render().to_string())));
            ExitCode::from(Exit::Usage as u8)
        }
    }
}

/// What clap says in a paragraph, as one line without the usage.
fn one_line(said: &str) -> String {
    let mut line = String::new();
    let wanted = |part: &&str| !part.is_empty() && !part.starts_with("For more information");
    let parts = said.lines().map(str::trim).take_while(|part| !part.starts_with("Usage:")).filter(wanted);
    for part in parts {
        let part = part.trim_start_matches("error: ").trim_start_matches("tip: ");
        line.push_str(match line.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        });
        line.push_str(part);
    }
    line + "; --help shows what is possible"
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn refusal(words: &[&str]) -> String {
        let words = ["outlast"].iter().chain(words);
        one_line(&Cli::try_parse_from(words).unwrap_err().render().to_string())
    }

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_refusal_is_one_line_with_its_remedy() {
        assert_eq!(
            refusal(&["lst"]),
            "unrecognized subcommand 'lst'; a similar subcommand exists: 'list'; --help shows what is possible"
        );
        let told = refusal(&["start", "order", "--delay", "soon"]);
        assert!(told.contains("a duration looks like 30s, 10m, 2h30m or 1d, not \"soon\""), "{told}");
        assert!(!refusal(&["show"]).contains('\n'));
    }

    #[test]
    fn a_value_below_zero_is_told_what_can_be() {
        let duration = "a duration looks like 30s, 10m, 2h30m or 1d and is at least 0, not \"-1s\"";
        for (words, told) in [
            (&["start", "order", "--delay", "-1s"][..], duration),
            (&["wait", "order/1", "-t", "-1s"], duration),
            (&["purge", "--older-than", "-1s"], duration),
            (&["start", "order", "--priority", "-1"], "a whole number from 0 to 9, not \"-1\""),
            (&["list", "-n", "-1"], "a whole number from 1 to 500, not \"-1\""),
        ] {
            let said = refusal(words);
            assert!(said.contains(told), "{words:?}: {said}");
        }
    }
}
