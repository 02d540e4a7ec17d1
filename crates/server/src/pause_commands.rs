//! Commands that hold runs back, let them go on, and have them go on at another time.

use outlast::{Error, Status};
use serde_json::json;

use crate::backend::Backend;
use crate::cli::{CancelArgs, DueArgs, ResumeArgs};
use crate::fault::Fault;
use crate::output::{Format, print_one};
use crate::run_commands::{each, find};

/// Pauses runs. Goes through all of them, whatever one of them says.
pub(crate) async fn pause(client: &Backend, args: CancelArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| pause_one(client, text, &args.reason, format).await).await
}

async fn pause_one(client: &Backend, text: &str, reason: &str, format: Format) -> Result<(), Fault> {
    let run = find(client, text).await?.record.id;
    let is_taken = client.pause(run, reason).await?;
    let status = client.status(run).await?.status;
    if !is_taken {
        return Err(Error::Closed { run, status: status.to_string() }.into());
    }
    print_one(format, &json!({ "id": run, "status": status.word() }), run, || match status {
        Status::Paused => format!("{run} is paused"),
        _ => format!("{run} was asked to pause, and does so when what it is doing is done"),
    })
}

/// Resumes runs. Goes through all of them, whatever one of them says.
pub(crate) async fn resume(client: &Backend, args: ResumeArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| resume_one(client, text, args.reason.as_deref(), format).await).await
}

async fn resume_one(client: &Backend, text: &str, reason: Option<&str>, format: Format) -> Result<(), Fault> {
    let run = find(client, text).await?.record.id;
    let is_ours = client.resume(run, reason).await?;
    let status = client.status(run).await?.status;
    if !is_ours && status.is_final() {
        return Err(Error::Closed { run, status: status.to_string() }.into());
    }
    print_one(format, &json!({ "id": run, "status": status.word(), "resumed": is_ours }), run, || {
        match is_ours {
            true => format!("{run} goes on"),
            false => format!("{run} was not paused: it is {status}"),
        }
    })
}

/// Has runs go on at another time. Goes through all of them, whatever one of them says.
pub(crate) async fn due(client: &Backend, args: DueArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| due_one(client, text, &args, format).await).await
}

async fn due_one(client: &Backend, text: &str, args: &DueArgs, format: Format) -> Result<(), Fault> {
    let run = find(client, text).await?.record.id;
    let is_ours = client.make_due(run, args.at, args.reason.as_deref()).await?;
    let view = client.status(run).await?;
    if !is_ours && view.status.is_final() {
        return Err(Error::Closed { run, status: view.status.to_string() }.into());
    }
    let told = json!({ "id": run, "status": view.status.word(), "changed": is_ours });
    print_one(format, &told, run, || match (is_ours, args.at) {
        (true, Some(at)) => format!("{run} goes on at {at}"),
        (true, None) => format!("{run} goes on now"),
        (false, _) => format!("{run} has no time of its own to change: it is {}", view.status),
    })
}
