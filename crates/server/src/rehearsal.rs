//! `--dry-run`: what a command would do. Nothing is changed, and nothing is noted in the audit log.
//!
//! What is looked up is what the command itself looks up first: a run that is not there, a queue that nobody knows or an
//! expression that means nothing is refused here as it is there, with the same exit code. Whether whoever asks a server may, it
//! says of itself (`Backend::may`), so that no refusal is noted; what starts, sends, settles and sets is asked for with
//! `dry_run`, which goes the whole way and is taken back. Repairs and bulks, which say more of each run, have their plans
//! beside them.

mod of_runs;
mod of_things;

use serde::Serialize;
use serde_json::json;

use crate::backend::Backend;
use crate::cli::{Command, ConfigCommand, QueueCommand, ScheduleCommand, TokenCommand};
use crate::fault::Fault;
use crate::output::{Format, note, print_one};
use crate::{repair_commands, retry};

/// What a command would do to one thing.
#[derive(Serialize)]
pub(crate) struct Would {
    dry_run: bool,
    /// As the audit log would call it.
    action: &'static str,
    /// What it would be done to.
    target: String,
    /// Whether anything would be another than now.
    changes: bool,
    /// The same for people.
    would: String,
}

impl Would {
    pub(crate) fn new(action: &'static str, target: impl ToString, would: impl Into<String>) -> Would {
        Would { dry_run: true, action, target: target.to_string(), changes: true, would: would.into() }
    }

    /// Nothing would be changed, which may be what was wanted.
    pub(crate) fn nothing(action: &'static str, target: impl ToString, why: impl Into<String>) -> Would {
        Would { changes: false, ..Would::new(action, target, why) }
    }

    fn tell(self, format: Format) -> Result<(), Fault> {
        self.tell_more(&json!({}), format)
    }

    /// The same, with what else there is to say for programs.
    pub(crate) fn tell_more(&self, more: &impl Serialize, format: Format) -> Result<(), Fault> {
        #[derive(Serialize)]
        struct Told<'a, T> {
            #[serde(flatten)]
            would: &'a Would,
            #[serde(flatten)]
            more: &'a T,
        }
        print_one(format, &Told { would: self, more }, &self.target, || self.would.clone())?;
        if format == Format::Text {
            note("nothing was changed");
        }
        Ok(())
    }
}

/// Refuses commands of which it cannot be said what they would do.
pub(crate) fn can_be(command: &Command) -> Result<(), Fault> {
    let (name, why) = match command {
        Command::Dev(_) => ("dev", "runs what it finds"),
        Command::Serve(_) => ("serve", "serves until it is stopped"),
        Command::Bench(_) => ("bench", "measures what it does"),
        Command::Backup(_) => ("backup", "writes a file, and changes nothing in the database"),
        Command::Man(args) if args.out.is_some() => ("man --out", "writes files, and knows no database"),
        Command::Config(ConfigCommand::Edit(_)) => ("config edit", "leaves all changes to your editor"),
        _ => return Ok(()),
    };
    Err(Fault::usage(format!("`{name}` {why}: it has no --dry-run")))
}

/// Says what a command would do; gives those back that change nothing, to be done as ever.
pub(crate) async fn rehearse(
    client: &Backend,
    command: Command,
    format: Format,
) -> Result<Option<Command>, Fault> {
    match command {
        Command::Start(args) => of_runs::start(client, args, format).await?,
        Command::Send(args) => of_runs::message(client, "run.send", &args.message, format).await?,
        Command::Settle(args) => of_runs::message(client, "run.settle", &args, format).await?,
        Command::Cancel(args) => of_runs::stop(client, "run.cancel", &args, format).await?,
        Command::Kill(args) => of_runs::stop(client, "run.kill", &args, format).await?,
        Command::Pause(args) => of_runs::pause(client, &args, format).await?,
        Command::Resume(args) => of_runs::resume(client, &args.ids, format).await?,
        Command::Due(args) => of_runs::due(client, &args, format).await?,
        Command::Delete(args) => of_runs::delete(client, &args.ids, format).await?,
        Command::Purge(args) => of_runs::purge(client, &args, format).await?,
        Command::Retry(args) => retry::plan(client, args, format).await?,
        Command::Fork(args) => repair_commands::plan_fork(client, args, format).await?,
        Command::Replace(args) => repair_commands::plan_replace(client, args, format).await?,
        Command::Queue(QueueCommand::Limit(args)) => of_things::limit(client, &args, format).await?,
        Command::Queue(command) => of_things::queue(client, &command, format).await?,
        Command::Schedule(command @ (ScheduleCommand::List | ScheduleCommand::Next(_))) => {
            return Ok(Some(Command::Schedule(command)));
        }
        Command::Schedule(command) => of_things::schedule(client, command, format).await?,
        Command::Token(TokenCommand::Create(args)) => of_things::create_token(client, args, format).await?,
        Command::Token(TokenCommand::Revoke(args)) => {
            of_things::revoke_token(client, &args.id, format).await?;
        }
        reads => return Ok(Some(reads)),
    }
    Ok(None)
}
