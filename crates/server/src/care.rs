//! Commands around the program itself: completions, manual pages, a probe, a backup.

use clap::CommandFactory;

use crate::backend::{Remote, ServerUrl};
use crate::cli::{BackupArgs, Cli, CompletionArgs, HealthArgs, ManArgs};
use crate::config::Settings;
use crate::database::Place;
use crate::doctor::size;
use crate::fault::{Exit, Fault};
use crate::output::{Format, note, print_exact, print_one, program_name};

/// Where a probe looks when nobody says otherwise: where `serve` listens then.
const NEAR: &str = "http://127.0.0.1:7777";

/// Prints what a shell needs to complete commands.
pub(crate) fn completions(args: &CompletionArgs) -> Result<(), Fault> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), program_name(), &mut script);
    print_exact(&String::from_utf8_lossy(&script))
}

/// Prints the manual page, or writes one for each command.
pub(crate) fn man(args: &ManArgs) -> Result<(), Fault> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return print_exact(&String::from_utf8_lossy(&page));
    };
    let unwritable = |error: std::io::Error| {
        Fault::new(Exit::Failed, "io", format!("cannot write into {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(unwritable)?;
    note(&format!("the pages are in {}", folder.display()));
    Ok(())
}

/// Asks a server whether it is well. Says nothing where it is.
pub(crate) async fn healthcheck(settings: &Settings, args: &HealthArgs) -> Result<(), Fault> {
    let near = || ServerUrl::read(NEAR).map_err(Fault::usage);
    let url = settings.server()?.map_or_else(near, Ok)?;
    let server = Remote::new(url, None, settings.ca().as_deref())?;
    server.probe(if args.ready { "readyz" } else { "healthz" }).await
}

/// Copies the database.
pub(crate) async fn backup(place: &Place, args: &BackupArgs, format: Format) -> Result<(), Fault> {
    let bytes = outlast_store::backup(place.guest()?, &args.file).await?;
    let file = args.file.display().to_string();
    let answer = serde_json::json!({ "file": file, "bytes": bytes });
    print_one(format, &answer, &file, || format!("{file} is a copy of {} ({})", place.shown(), size(bytes)))
}
