//! The `outlast` command line: a development server with samples, and everything to look at runs and
//! to act on them from a terminal.
//!
//! The commands live in this library, apart from the binary, so that a binary with workflows of its own
//! can have them too. Each command is a module; `output` is the only one that prints.

mod audit_commands;
mod backend;
mod bench;
mod bulk;
mod care;
mod check;
mod cli;
mod config;
mod config_commands;
mod database;
mod deletion;
mod dev;
mod doctor;
mod errors;
mod explain;
mod fault;
mod follow;
pub mod http;
mod list;
mod measures;
mod migrate_commands;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod pause_commands;
mod preview;
mod queue_commands;
mod redact;
mod rehearsal;
mod repair_commands;
mod retry;
mod run_commands;
mod samples;
mod schedule_commands;
mod serve;
mod shapes;
mod show;
#[cfg(unix)]
mod socket;
mod standing;
mod story;
mod token_commands;
mod watch;
mod when;
mod words;
mod yaml;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use outlast::{Bulk, Outlast};
use tracing_subscriber::filter::LevelFilter;

use self::backend::{Backend, only_direct, stoppable, until};
use self::bulk::Many;
use self::cli::{Cli, Command, ConfigCommand, Consent, ScheduleCommand};
use self::config::{File, Found, Settings, Sources};
use self::database::Place;
use self::fault::{Exit, Fault};
use self::output::{Format, Manner};
use self::words::took;

/// Does what the command line asks and says how the process shall end.
///
/// Answers go to stdout, everything else to stderr. 0 means done; the other numbers are part of the
/// interface: 1 failed, 2 usage, 3 not found, 4 conflict, 5 not allowed, 6 unreachable, 7 timeout, 8 done to
/// many but not to all, 130 interrupted.
pub fn main() -> ExitCode {
    start(Program { own: None })
}

/// The whole command line for a binary with workflows and jobs of its own: `dev` and `serve` run them, `check` replays
/// against them, and every other command is there as well.
///
/// `code` registers them on whatever database the command line names, and may set anything else that [`Outlast`] can.
///
/// ```no_run
/// use outlast::prelude::*;
///
/// #[outlast::workflow]
/// async fn greet(ctx: Ctx, name: String) -> Result<String, AnyError> {
///     Ok(ctx.step("greet", |_| async { Ok::<_, AnyError>(format!("Hello, {name}!")) }).await?)
/// }
///
/// fn main() -> std::process::ExitCode {
///     outlast_server::cli(|app| app.workflow(greet))
/// }
/// ```
///
/// The same numbers as of [`main`] say how it ended.
pub fn cli(code: impl Fn(Outlast) -> Outlast + Send + Sync + 'static) -> ExitCode {
    start(Program { own: Some(Box::new(code)) })
}

/// Registers workflows and jobs.
type Code = Box<dyn Fn(Outlast) -> Outlast + Send + Sync>;

/// Whose command line it is: ours, or that of a binary with code of its own.
pub(crate) struct Program {
    own: Option<Code>,
}

impl Program {
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// With the code that there is: its own, or our samples.
    pub(crate) fn code(&self, outlast: Outlast) -> Outlast {
        match &self.own {
            Some(code) => code(outlast),
            None => samples::register(outlast),
        }
    }

    /// With its own code, if it has any.
    pub(crate) fn own_code(&self, outlast: Outlast) -> Outlast {
        match &self.own {
            Some(code) => code(outlast),
            None => outlast,
        }
    }
}

fn start(program: Program) -> ExitCode {
    // A binary of one's own is called by its own name.
    let command = match program.is_own() {
        true => Cli::command().bin_name(output::program_name()),
        false => Cli::command(),
    };
    let cli = match command.try_get_matches().and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => cli,
        Err(refused) => return cli::refuse(&refused),
    };
    if cli.everywhere.dry_run
        && let Err(fault) = rehearsal::can_be(&cli.command)
    {
        return end(Err(fault));
    }
    // Also where a file cannot be read: how else would it be mended?
    if let Command::Config(ConfigCommand::Edit(args)) = &cli.command {
        return end(config_commands::edit(args));
    }
    let settings = match settings(&cli) {
        Ok(settings) => settings,
        Err(fault) => return end(Err(fault)),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(Err(error.into())),
    };
    let done = runtime.block_on(run(cli, settings, &program));
    // What is left are reads that nobody waits for.
    runtime.shutdown_background();
    end(done)
}

/// Finds the settings that count, and settles how this process writes.
fn settings(cli: &Cli) -> Result<Settings, Fault> {
    let env = |name: &str| std::env::var_os(name);
    let paths = config::paths(&env);
    let flags = &cli.everywhere;
    let settle = |files: Vec<File>| {
        let mut given = flags.flags();
        given.extend(cli.command.environment().map(|name| ("environment", name.to_owned())));
        given.extend(cli.command.has_no_dashboard().then(|| ("dashboard", "off".to_owned())));
        Settings::settle(Sources { flags: given, profile: flags.profile.clone(), env: &env, files })
    };
    if let Command::Config(ConfigCommand::Check) = cli.command {
        config_commands::check(&paths, settle)?;
    }
    let mut files = Vec::new();
    for path in &paths {
        if let Found::File(file) = File::look(path)? {
            files.push(file);
        }
    }
    let open: Vec<String> =
        files.iter().filter(|file| file.shows_secret()).map(config_commands::open_secret).collect();
    let settings = settle(files)?;
    settings.colour()?.write_global();
    let wide = settings.format()? == Format::Wide;
    output::settle(Manner { time: settings.time()?, quiet: flags.quiet, wide, verbose: flags.verbose });
    if !matches!(cli.command, Command::Config(ConfigCommand::Check)) {
        open.iter().for_each(|warning| output::note(warning));
    }
    // They say what is done on the way beside what handlers log and what a collector is sent.
    let is_node = matches!(cli.command, Command::Dev(_) | Command::Serve(_));
    if let Some(level) = output::verbosity().filter(|_| !is_node) {
        verbose(level);
    }
    Ok(settings)
}

/// Says what is done on the way.
fn verbose(level: LevelFilter) {
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::util::SubscriberInitExt;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).compact();
    let lines = lines.with_filter(Targets::new().with_default(level));
    // A binary that has a subscriber keeps its own.
    let _ = tracing_subscriber::registry().with(outlast::RunLogs::default()).with(lines).try_init();
}

/// What is asked: a database, or a server that was named.
async fn backend(settings: &Settings, place: &Place, code: Option<&Program>) -> Result<Backend, Fault> {
    match (settings.remote()?, code) {
        (Some(server), _) => Ok(Backend::Remote(server)),
        (None, Some(program)) => Ok(Backend::Direct(place.client_with(program).await?)),
        (None, None) => Ok(Backend::Direct(place.client().await?)),
    }
}

/// Whether it sends an input. Only then is the program's own code called, which may want more than a database.
fn sends_input(command: &Command) -> bool {
    match command {
        Command::Start(_) | Command::Schedule(ScheduleCommand::Add(_)) => true,
        Command::Retry(args) => args.input.is_some(),
        Command::Fork(args) => args.input.is_some(),
        _ => false,
    }
}

async fn run(cli: Cli, settings: Settings, program: &Program) -> Result<(), Fault> {
    let (place, consent) = (settings.place(), cli.everywhere.consent());
    let format = match settings.format()? {
        Format::Wide => Format::Text,
        format => format,
    };
    output::calls_name(match settings.server()? {
        Some(url) => format!(" --url {}", output::quoted(&url.to_string())),
        None => place.argument(),
    });
    // A server that a file names for all is for commands that can ask one; one of a profile is what is meant.
    let here = |command: &str| match settings.means_server() {
        true => Err(only_direct(command)),
        false => Ok(&place),
    };
    let command = match cli.command {
        // They have their own way to end.
        Command::Dev(args) => return dev::dev(here("dev")?, program, args, &settings).await,
        Command::Serve(args) => return serve::serve(here("serve")?, program, args, &settings).await,
        // They are the same for every database.
        Command::Openapi => return output::print_exact(&http::document()),
        Command::Completions(args) => return care::completions(&args),
        Command::Man(args) => return care::man(&args),
        Command::Config(command) => return config_commands::config(&command, &settings, format),
        Command::Migrate(command) => {
            return migrate_commands::migrate(here("migrate")?, command, consent, format).await;
        }
        Command::Backup(args) => return care::backup(here("backup")?, &args, format).await,
        Command::Bench(args) => return bench::bench(here("bench")?, args, format).await,
        Command::Healthcheck(args) => {
            return within(settings.timeout()?, care::healthcheck(&settings, &args)).await;
        }
        // It looks at databases that nobody else can open.
        Command::Doctor(args) => {
            let server = settings.remote()?;
            let work = doctor::doctor(server.as_ref(), &place, &args, format);
            return within(settings.timeout()?, work).await;
        }
        // A file says all of it.
        Command::Show(cli::ShowArgs { file: Some(file), step, input, result, .. }) => {
            let part = show::Part::new(step, input, result);
            return show::show_file(&file, &part, format).await;
        }
        // What it looks at, it only reads.
        Command::Check(args) => {
            let place = if args.files.is_empty() { here("check")? } else { &place };
            return check::check(place, program, args, format).await;
        }
        // Expressions mean the same everywhere: no database is asked.
        Command::Schedule(ScheduleCommand::Next(args)) if schedule_commands::is_expression(&args.what) => {
            return schedule_commands::next_of_expression(&args, format);
        }
        other => other,
    };
    let timeout = settings.timeout()?;
    // What they began goes on when they end, and they say so.
    if let Some(many) = bulk_of(&command, consent)? {
        let client = backend(&settings, &place, None).await?;
        return within(timeout, bulk::bulk(&client, many, format)).await;
    }
    let is_bounded = matches!(command, Command::Wait(_) | Command::Start(_) | Command::Follow(_));
    let work = async {
        let code = sends_input(&command).then_some(program);
        let client = backend(&settings, &place, code).await?;
        one(&client, command, consent, timeout, format).await
    };
    let work = async {
        // Whoever waits for a run says what became of it when the time is over.
        if is_bounded { work.await } else { within(timeout, work).await }
    };
    stoppable(work).await
}

/// Does one thing, or gives up when the time is over.
async fn within(
    timeout: Option<Duration>,
    work: impl Future<Output = Result<(), Fault>>,
) -> Result<(), Fault> {
    let Some(timeout) = timeout else { return work.await };
    let over = async {
        tokio::time::sleep(timeout).await;
        let message = format!("it took longer than {} (--timeout)", took(timeout));
        Fault::new(Exit::Timeout, "timeout", message)
    };
    until(over, work).await
}

/// What is asked of all runs that fit a filter, if that is what is asked.
fn bulk_of(command: &Command, consent: Consent) -> Result<Option<Many>, Fault> {
    let (op, many, reason) = match command {
        Command::Cancel(args) if args.ids.is_empty() => (Bulk::cancel(&args.reason), &args.many, None),
        Command::Kill(args) if args.ids.is_empty() => (Bulk::kill(&args.reason), &args.many, None),
        Command::Delete(args) if args.ids.is_empty() => (Bulk::delete(&args.reason), &args.many, None),
        Command::Pause(args) if args.ids.is_empty() => (Bulk::pause(&args.reason), &args.many, None),
        Command::Resume(args) if args.ids.is_empty() => (Bulk::resume(), &args.many, args.reason.clone()),
        Command::Retry(args) if args.ids.is_empty() => {
            let retry = args.from.clone().map_or_else(Bulk::retry, Bulk::retry_from);
            (retry, &args.many, args.reason.clone())
        }
        Command::Fork(args) if args.ids.is_empty() => (repair_commands::fork_many(args)?, &args.many, None),
        Command::Replace(args) if args.ids.is_empty() => {
            (repair_commands::replace_many(args)?, &args.many, None)
        }
        _ => return Ok(None),
    };
    Ok(Some(Many { op, args: many.clone(), consent, reason }))
}

/// Does what can be asked of a database and of a server alike.
async fn one(
    client: &Backend,
    command: Command,
    consent: Consent,
    timeout: Option<Duration>,
    format: Format,
) -> Result<(), Fault> {
    let command = match consent.dry_run {
        true => rehearsal::rehearse(client, command, format).await?,
        false => Some(command),
    };
    let Some(command) = command else { return Ok(()) };
    match command {
        // They were done before anything was opened.
        Command::Dev(_)
        | Command::Serve(_)
        | Command::Openapi
        | Command::Config(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Migrate(_)
        | Command::Backup(_)
        | Command::Bench(_)
        | Command::Healthcheck(_)
        | Command::Doctor(_)
        | Command::Check(_) => Ok(()),
        Command::Audit(command) => audit_commands::audit(client, command, format).await,
        Command::Token(command) => token_commands::token(client, command, format).await,
        Command::List(args) => list::list(client, args, format).await,
        Command::Show(cli::ShowArgs { id, step, input, result, .. }) => {
            let part = show::Part::new(step, input, result);
            show::show(client, &id.unwrap_or_default(), &part, format).await
        }
        Command::Follow(args) => follow::follow(client, &args.id, timeout, format).await,
        Command::Export(args) => check::export(client, &args.id).await,
        Command::Logs(args) => follow::logs(client, &args, format).await,
        Command::Explain(args) => explain::explain(client, &args.id, format).await,
        Command::Verify => explain::verify(client, format).await,
        Command::Start(args) => run_commands::start(client, args, timeout, format).await,
        Command::Send(args) => run_commands::send(client, args, format).await,
        Command::Settle(args) => run_commands::settle(client, args, format).await,
        Command::Cancel(args) => run_commands::cancel(client, args, format).await,
        Command::Kill(args) => run_commands::kill(client, args, format).await,
        Command::Pause(args) => pause_commands::pause(client, args, format).await,
        Command::Resume(args) => pause_commands::resume(client, args, format).await,
        Command::Due(args) => pause_commands::due(client, args, format).await,
        Command::Wait(args) => run_commands::wait(client, &args, timeout, format).await,
        Command::Fork(args) => repair_commands::fork(client, args, format).await,
        Command::Replace(args) => repair_commands::replace(client, args, format).await,
        Command::Retry(args) => retry::retry(client, args, format).await,
        Command::Delete(args) => run_commands::delete(client, args, format).await,
        Command::Purge(args) => run_commands::purge(client, args, format).await,
        Command::Queue(command) => queue_commands::queue(client, command, format).await,
        Command::Schedule(command) => schedule_commands::schedule(client, command, consent, format).await,
    }
}

fn end(done: Result<(), Fault>) -> ExitCode {
    let Err(fault) = done else { return ExitCode::SUCCESS };
    if fault.exit != Exit::Quiet {
        output::print_error(&fault);
    }
    ExitCode::from(fault.exit as u8)
}
