//! The `outlast` command line: a development server with samples, and everything to look at runs and
//! to act on them from a terminal.
//!
//! The commands live in this library, apart from the binary, so that a binary with workflows of its own
//! can have them too. Each command is a module; `output` is the only one that prints.

mod bulk;
mod check;
mod cli;
mod database;
mod dev;
mod explain;
mod fault;
pub mod http;
mod list;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod pause_commands;
mod queue_commands;
mod repair_commands;
mod retry;
mod run_commands;
mod samples;
mod schedule_commands;
mod serve;
mod shapes;
mod show;
mod story;
mod token_commands;
mod watch;
mod words;

use std::process::ExitCode;

use clap::Parser;
use outlast::Bulk;

use self::cli::{Cli, Command, ScheduleCommand};
use self::database::Place;
use self::fault::{Exit, Fault};

/// Does what the command line asks and says how the process shall end.
///
/// Answers go to stdout, everything else to stderr. 0 means done; the other numbers are part of the
/// interface: 1 failed, 2 usage, 3 not found, 4 conflict, 6 unreachable, 7 timeout, 8 done to
/// many but not to all, 130 interrupted.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refused) => return cli::refuse(&refused),
    };
    cli.color.write_global();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(Err(error.into())),
    };
    let done = runtime.block_on(run(cli));
    // What is left are reads that nobody waits for.
    runtime.shutdown_background();
    end(done)
}

async fn run(cli: Cli) -> Result<(), Fault> {
    let place = Place::new(cli.database_url);
    output::calls_name(&place);
    let format = cli.output;
    let command = match cli.command {
        // It has its own way to end.
        Command::Dev(args) => return dev::dev(&place, args, format).await,
        Command::Serve(args) => return serve::serve(&place, args, format).await,
        // It is the same for every database.
        Command::Openapi => return output::print(&http::document()),
        // What they began goes on when they end.
        Command::Cancel(args) if args.ids.is_empty() => {
            return bulk::bulk(&place, Bulk::cancel(args.reason), args.many, format).await;
        }
        Command::Kill(args) if args.ids.is_empty() => {
            return bulk::bulk(&place, Bulk::kill(args.reason), args.many, format).await;
        }
        Command::Pause(args) if args.ids.is_empty() => {
            return bulk::bulk(&place, Bulk::pause(args.reason), args.many, format).await;
        }
        Command::Resume(args) if args.ids.is_empty() => {
            return bulk::bulk(&place, Bulk::resume(), args.many, format).await;
        }
        Command::Retry(args) if args.ids.is_empty() => {
            let retry = args.from.map_or_else(Bulk::retry, Bulk::retry_from);
            return bulk::bulk(&place, retry, args.many, format).await;
        }
        Command::Fork(args) if args.ids.is_empty() => {
            return bulk::bulk(&place, repair_commands::fork_many(&args)?, args.many, format).await;
        }
        Command::Replace(args) if args.ids.is_empty() => {
            return bulk::bulk(&place, repair_commands::replace_many(&args)?, args.many, format).await;
        }
        // What it looks at, it only reads.
        Command::Check(args) => return check::check(&place, args, format).await,
        // Expressions mean the same everywhere: no database is asked.
        Command::Schedule(ScheduleCommand::Next(args)) if schedule_commands::is_expression(&args.what) => {
            return schedule_commands::next_of_expression(&args, format);
        }
        other => other,
    };
    let work = async {
        let client = place.client().await?;
        match command {
            Command::Dev(_) | Command::Serve(_) | Command::Openapi | Command::Check(_) => Ok(()),
            Command::Token(command) => token_commands::token(&client, command, format).await,
            Command::List(args) => list::list(&client, args, format).await,
            Command::Show(args) => show::show(&client, &args.id, format).await,
            Command::Export(args) => check::export(&client, &args.id).await,
            Command::Logs(args) => show::logs(&client, &args.id, format).await,
            Command::Explain(args) => explain::explain(&client, &args.id, format).await,
            Command::Verify => explain::verify(&client, format).await,
            Command::Start(args) => run_commands::start(&client, args, format).await,
            Command::Send(args) => run_commands::send(&client, args, format).await,
            Command::Settle(args) => run_commands::settle(&client, args, format).await,
            Command::Cancel(args) => run_commands::cancel(&client, args, format).await,
            Command::Kill(args) => run_commands::kill(&client, args, format).await,
            Command::Pause(args) => pause_commands::pause(&client, args, format).await,
            Command::Resume(args) => pause_commands::resume(&client, args, format).await,
            Command::Wait(args) => run_commands::wait(&client, args, format).await,
            Command::Fork(args) => repair_commands::fork(&client, args, format).await,
            Command::Replace(args) => repair_commands::replace(&client, args, format).await,
            Command::Retry(args) => retry::retry(&client, args, format).await,
            Command::Purge(args) => run_commands::purge(&client, args, format).await,
            Command::Queue(command) => queue_commands::queue(&client, command, format).await,
            Command::Schedule(command) => schedule_commands::schedule(&client, command, format).await,
        }
    };
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err(Fault::new(Exit::Interrupted, "interrupted", "stopped by Ctrl-C")),
    }
}

fn end(done: Result<(), Fault>) -> ExitCode {
    let Err(fault) = done else { return ExitCode::SUCCESS };
    if fault.exit != Exit::Quiet {
        output::print_error(&fault);
    }
    ExitCode::from(fault.exit as u8)
}
