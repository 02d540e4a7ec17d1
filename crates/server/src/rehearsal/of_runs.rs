//! What would be done to runs that are named.

use outlast::{Client, Error, Filter, RunView, Status, Timestamp};
use outlast_core::check_reason;

use super::Would;
use crate::backend::{Backend, Which};
use crate::cli::{CancelArgs, DueArgs, MessageArgs, PurgeArgs, StartArgs};
use crate::deletion::unended;
use crate::fault::{Exit, Fault};
use crate::output::Format;
use crate::run_commands::{each, find, given, had_ended, known_definition, start_ask};
use crate::words::{count, took};

/// The most runs that are counted before a purge.
const COUNTED: u32 = 1_000_000;

pub(super) async fn start(client: &Backend, args: StartArgs, format: Format) -> Result<(), Fault> {
    const ACTION: &str = "run.start";
    let ask = start_ask(args)?;
    client.may(ACTION).await?;
    let (name, key) = (ask.definition.clone(), ask.key.clone());
    match (client.plan_start(ask).await?, key) {
        (None, None) => Would::new(ACTION, &name, format!("a run of {name} would be started")),
        (None, Some(key)) => {
            Would::new(ACTION, &name, format!("a run of {name} with the key {key} would be started"))
        }
        (Some(run), Some(_)) => {
            Would::nothing(ACTION, run, format!("this key was started before: it is {run}"))
        }
        (Some(run), None) => {
            Would::nothing(ACTION, run, format!("{run} is there already, and the only one of its kind"))
        }
    }
    .tell(format)
}

/// An event, or the value of a promise.
pub(super) async fn message(
    client: &Backend,
    action: &'static str,
    args: &MessageArgs,
    format: Format,
) -> Result<(), Fault> {
    let (to, data) = (Which::read(&args.id)?, given("data", &args.data)?);
    known_definition(client, &to).await?;
    client.may(action).await?;
    match action {
        "run.send" => client.plan_send(&to, &args.name, &data).await?,
        _ => client.plan_settle(&to, &args.name, &data).await?,
    }
    let what = match action {
        "run.send" => format!("event {} would be sent", args.name),
        _ => format!("promise {} would be settled", args.name),
    };
    let Some(view) = client.run_if_any(&to).await? else {
        let would = format!("{what}, and kept until a run with this key is started");
        return Would::new(action, &args.id, would).tell(format);
    };
    let run = view.record.id;
    let near = if action == "run.send" { "to" } else { "of" };
    Would::new(action, run, format!("{what} {near} {run}")).tell(format)
}

/// The run that is named, of which may be asked for this.
async fn asked(client: &Backend, action: &str, text: &str) -> Result<RunView, Fault> {
    let view = find(client, text).await?;
    client.may(action).await?;
    Ok(view)
}

/// Cancels and kills.
pub(super) async fn stop(
    client: &Backend,
    action: &'static str,
    args: &CancelArgs,
    format: Format,
) -> Result<(), Fault> {
    each(&args.ids, async |text| {
        let view = asked(client, action, text).await?;
        let run = view.record.id;
        check_reason(&args.reason)?;
        if view.status.is_final() {
            return Would::nothing(action, run, had_ended(run, view.status)).tell(format);
        }
        let would = match action {
            "run.cancel" => format!("{run} is {} and would be asked to stop", view.status),
            _ => format!("{run} is {} and would end at once, without undoing what it did", view.status),
        };
        Would::new(action, run, would).tell(format)
    })
    .await
}

pub(super) async fn pause(client: &Backend, args: &CancelArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| {
        let view = asked(client, "run.pause", text).await?;
        check_reason(&args.reason)?;
        let (run, status) = (view.record.id, view.status);
        if !Client::rehearse_pause(&view)? {
            return Err(closed(run, status));
        }
        match status {
            Status::Paused => Would::nothing("run.pause", run, format!("{run} is paused")).tell(format),
            _ => Would::new("run.pause", run, format!("{run} is {status} and would be paused")).tell(format),
        }
    })
    .await
}

pub(super) async fn resume(client: &Backend, ids: &[String], format: Format) -> Result<(), Fault> {
    each(ids, async |text| {
        let view = asked(client, "run.resume", text).await?;
        let (run, status) = (view.record.id, view.status);
        if status.is_final() {
            return Err(closed(run, status));
        }
        // One that was asked to pause and has not come to it yet goes on too.
        match status == Status::Paused || view.pause_reason.is_some() {
            true => Would::new("run.resume", run, format!("{run} is paused and would go on")).tell(format),
            false => {
                Would::nothing("run.resume", run, format!("{run} is not paused: it is {status}")).tell(format)
            }
        }
    })
    .await
}

pub(super) async fn due(client: &Backend, args: &DueArgs, format: Format) -> Result<(), Fault> {
    each(&args.ids, async |text| {
        let view = asked(client, "run.due", text).await?;
        let (run, status) = (view.record.id, view.status);
        if status.is_final() {
            return Err(closed(run, status));
        }
        let Some(later) = client.explain(&run.into()).await?.why.later() else {
            let why = format!("{run} has no time of its own to change: it is {status}");
            return Would::nothing("run.due", run, why).tell(format);
        };
        later.check(args.at)?;
        let would = match args.at {
            Some(at) => format!("{run} would go on at {at} instead of {}", later.at()),
            None => format!("{run} would go on now instead of at {}", later.at()),
        };
        Would::new("run.due", run, would).tell(format)
    })
    .await
}

pub(super) async fn delete(client: &Backend, ids: &[String], format: Format) -> Result<(), Fault> {
    each(ids, async |text| {
        let view = asked(client, "run.delete", text).await?;
        let (run, status) = (view.record.id, view.status);
        let would = match status {
            Status::Ready => {
                format!("{run} would be deleted, with everything of it, unless it has begun: it is {status}")
            }
            status if status.is_final() => {
                format!("{run} is {status} and would be deleted, with everything of it")
            }
            status => return Err(Fault::new(Exit::Conflict, "conflict", unended(run, status))),
        };
        Would::new("run.delete", run, would).tell(format)
    })
    .await
}

pub(super) async fn purge(client: &Backend, args: &PurgeArgs, format: Format) -> Result<(), Fault> {
    let client = client.direct("purge")?;
    let age = i64::try_from(args.older_than.as_micros()).unwrap_or(i64::MAX);
    let limit = Timestamp::from_micros(client.store().now().await?.micros().saturating_sub(age));
    let ended = Status::ALL.into_iter().filter(|status| status.is_final()).collect();
    let ended = Filter { statuses: ended, ..Filter::default() };
    let younger = Filter { ended_since: Some(limit), ..ended.clone() };
    let runs = client.count(&ended, COUNTED).await?.saturating_sub(client.count(&younger, COUNTED).await?);
    let runs = usize::try_from(runs).unwrap_or(usize::MAX);
    let what = format!("older than {}", took(args.older_than));
    let would =
        format!("{} that ended more than {} ago would be deleted", count(runs, "run"), took(args.older_than));
    match runs {
        0 => Would::nothing("run.purge", what, would).tell(format),
        _ => Would::new("run.purge", what, would).tell(format),
    }
}

fn closed(run: outlast::RunId, status: Status) -> Fault {
    Error::Closed { run, status: status.to_string() }.into()
}
