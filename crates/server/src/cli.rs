//! The command line: what can be asked, and how.
//!
//! Only shapes are here. What a value means is looked at by the command that needs it, so that every
//! refusal is one line of the same form.

mod audit;
mod care;
mod config;
mod control;
mod node;
mod queue;
mod runs;
mod schedule;
mod token;

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::audit::{AuditArgs, AuditCommand, AuditVerifyArgs};
pub(crate) use self::care::{
    BackupArgs, BenchArgs, CompletionArgs, DoctorArgs, HealthArgs, ManArgs, MigrateCommand,
};
pub(crate) use self::config::{ConfigCommand, ConfigEditArgs};
pub(crate) use self::control::{CancelArgs, DueArgs, ForkArgs, ManyArgs, ReplaceArgs, ResumeArgs, RetryArgs};
pub(crate) use self::node::{DevArgs, ServeArgs, ServeRole};
pub(crate) use self::queue::{LimitArgs, NameAndReasonArgs, NameArgs, QueueCommand};
pub(crate) use self::runs::{
    CheckArgs, ListArgs, LogArgs, MessageArgs, PurgeArgs, RunArgs, SendArgs, ShowArgs, StartArgs, WaitArgs,
};
pub(crate) use self::schedule::{AddArgs, BackfillArgs, NextArgs, ScheduleCommand};
pub(crate) use self::token::{TokenArgs, TokenCommand};
use crate::fault::{Exit, Fault};
use crate::output::{Colour, Format, TimeStyle, print_error};
use crate::words::{NoDuration, parse_span};

/// Above the options that every command has, so that its own come first.
const EVERYWHERE: &str = "Options of every command";

/// Durable execution: workflows and jobs that outlast crashes, deploys and restarts.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, infer_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Begin with `outlast dev`; it says what to try next.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command. What is left away is looked for in the environment and in files (`config.rs`).
#[derive(Debug, Args)]
#[command(next_help_heading = EVERYWHERE)]
pub(crate) struct Everywhere {
    /// The database: sqlite://FILE or postgres://USER@HOST/DATABASE [env: OUTLAST_DATABASE_URL] [default: sqlite://outlast.db]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "url")]
    pub(crate) database_url: Option<String>,

    /// Ask a running server instead of a database: http://127.0.0.1:7777 [env: OUTLAST_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Who asks the server [env: OUTLAST_TOKEN, which others on this machine cannot see]
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// Believe a server whose certificate this authority signed (PEM), and no other [env: OUTLAST_CA] [default: those of the system]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca: Option<String>,

    /// The part [profile.NAME] of the files of settings [env: OUTLAST_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// How the answer is written [env: OUTLAST_OUTPUT] [default: text]
    #[arg(short, long = "format", global = true, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,

    /// Whether it has colours [env: OUTLAST_COLOR] [default: auto]
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub(crate) color: Option<Colour>,

    /// How times are written for people [env: OUTLAST_TIME] [default: relative]
    #[arg(long, global = true, value_enum, value_name = "STYLE")]
    pub(crate) time: Option<TimeStyle>,

    /// Give up after this long, such as 30s, with exit code 7 [env: OUTLAST_TIMEOUT]
    #[arg(long, short, global = true, value_parser = parse_span, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,

    /// Do not ask before something is done to many runs: it is meant
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,

    /// Only say what would be changed; commands that change nothing do what they always do
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,

    /// Say nothing but the answer and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    /// Say on stderr what is done on the way; twice for more
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Whether it is meant, as the command line says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Consent {
    /// Nobody has to be asked.
    pub(crate) yes: bool,
    /// It is only said what would be.
    pub(crate) dry_run: bool,
}

impl Everywhere {
    pub(crate) fn consent(&self) -> Consent {
        Consent { yes: self.yes, dry_run: self.dry_run }
    }

    /// What was given, by the names of settings.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        fn word<T: ValueEnum>(value: Option<T>) -> Option<String> {
            value?.to_possible_value().map(|value| value.get_name().to_owned())
        }
        let given = [
            ("url", self.url.clone()),
            ("database_url", self.database_url.clone()),
            ("token", self.token.clone()),
            ("ca", self.ca.clone()),
            ("output", word(self.output)),
            ("color", word(self.color)),
            ("time", word(self.time)),
            ("timeout", self.timeout.map(outlast_core::duration_text)),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process, with sample workflows, and watch what happens
    Dev(DevArgs),
    /// Serve the HTTP API of a database, for production
    Serve(ServeArgs),
    /// List runs, queues, schedules, nodes, definitions, bulks or errors
    List(ListArgs),
    /// Show one run: where it stands, its steps, children and logs
    Show(ShowArgs),
    /// Print what a run's handlers logged
    Logs(LogArgs),
    /// Tell what a run does, until its end
    Follow(RunArgs),
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
    Send(SendArgs),
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
    /// Have runs go on now, or at another time, that would go on later by themselves
    Due(DueArgs),
    /// Try runs again that failed or were cancelled
    Retry(RetryArgs),
    /// Start another run from a step of one that is there
    Fork(ForkArgs),
    /// Give a step another result than it had
    Replace(ReplaceArgs),
    /// Wait for a run's end and print its output
    Wait(WaitArgs),
    /// Delete runs that have ended; by id also runs that never began
    Delete(CancelArgs),
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
    /// Say who changed what, and whether the log of it is what was written
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Print the OpenAPI document of the HTTP API
    Openapi,
    /// Bring the database's schema up to date, or say where it stands
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Look at everything that can be wrong with the database, and say what to do
    Doctor(DoctorArgs),
    /// Copy an SQLite database while it is in use
    Backup(BackupArgs),
    /// Measure how fast runs go through the database
    Bench(BenchArgs),
    /// Ask a server whether it is well; says nothing where it is
    Healthcheck(HealthArgs),
    /// Print what a shell needs to complete commands
    Completions(CompletionArgs),
    /// Print the manual page, or write one for each command
    Man(ManArgs),
    /// Show the settings that count, and look whether their files can be read
    #[command(subcommand)]
    Config(ConfigCommand),
}

impl Command {
    /// What the dashboard shall call the installation, if the command line says so.
    pub(crate) fn environment(&self) -> Option<&str> {
        match self {
            Command::Dev(args) => args.environment.as_deref(),
            Command::Serve(args) => args.environment.as_deref(),
            _ => None,
        }
    }

    /// Whether the command line says that there shall be no dashboard.
    pub(crate) fn has_no_dashboard(&self) -> bool {
        matches!(self, Command::Serve(args) if args.no_dashboard)
    }
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
            let message = one_line(&refused.render().to_string());
            print_error(&Fault::new(Exit::Usage, code_of(refused), message));
            ExitCode::from(Exit::Usage as u8)
        }
    }
}

/// The word for what is wrong: what the reader of a value says, if one was asked.
fn code_of(refused: &clap::Error) -> &'static str {
    let Some(why) = std::error::Error::source(refused) else { return "invalid_argument" };
    match why.downcast_ref::<outlast::Error>() {
        Some(error) => error.code(),
        None if why.is::<NoDuration>() => "invalid_duration",
        None => "invalid_argument",
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
    fn every_command_is_in_the_documentation() {
        let docs = include_str!("../../../docs/cli.md");
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let is_there = docs.split(['`', ' ', ',', '\\', '|']).any(|word| word == name);
            assert!(is_there, "docs/cli.md says nothing of `{name}`");
        }
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
    fn a_value_out_of_range_is_told_what_can_be() {
        let duration = "a duration looks like 30s, 10m, 2h30m or 1d and is at least 0, not \"-1s\"";
        for (words, told) in [
            (&["start", "order", "--delay", "-1s"][..], duration),
            (&["wait", "order/1", "-t", "-1s"], duration),
            (&["purge", "--older-than", "-1s"], duration),
            (&["start", "order", "--priority", "-1"], "a whole number from 0 to 9, not \"-1\""),
            (&["list", "-n", "-1"], "a whole number from 1 to 500, not \"-1\""),
            (&["start", "order", "--at", "9999-12-31T23:59:59Z"], "until 9999-12-30T22:00:00Z"),
        ] {
            let said = refusal(words);
            assert!(said.contains(told), "{words:?}: {said}");
        }
    }
}
