//! `outlast fork` and `outlast replace`: another run from a step on, and another result for a step.

use outlast::{Client, RepairPlan};
use serde_json::json;

use crate::cli::{ForkArgs, ReplaceArgs};
use crate::fault::Fault;
use crate::output::{Format, call, note, print_one};
use crate::run_commands::{find, given, note_without_node};
use crate::words::count;

/// Starts another run from a step of one that is there.
pub(crate) async fn fork(client: &Client, args: ForkArgs, format: Format) -> Result<(), Fault> {
    let run = find(client, &args.id).await?.record.id;
    let mut fork = client.fork(run);
    fork = match (args.from, args.from_start) {
        (Some(step), _) => fork.from(step),
        (None, true) => fork.from_start(),
        (None, false) => fork,
    };
    if let Some(input) = args.input.as_deref().map(|text| given("input", text)).transpose()? {
        fork = fork.input(&input);
    }
    fork =
        match args.version.as_deref() {
            None => fork,
            Some("latest") => fork.active_version(),
            Some(number) => fork.version(number.parse().map_err(|_| {
                Fault::usage(format!("version {number:?} is none: write its number, or latest"))
            })?),
        };
    if let Some(reason) = args.reason {
        fork = fork.reason(reason);
    }
    if args.dry_run {
        return print_plan(&fork.plan().await?, format);
    }
    let id = fork.await?;
    print_one(format, &json!({ "id": id, "fork_of": run }), id, || id.to_string())?;
    if format == Format::Text {
        note(&format!("forked from {run}; look at it with `{}`", call(&format!("show {id}"))));
    }
    note_without_node(client).await
}

/// Gives a step another result.
pub(crate) async fn replace(client: &Client, args: ReplaceArgs, format: Format) -> Result<(), Fault> {
    let run = find(client, &args.id).await?.record.id;
    let result = given("result", &args.result)?;
    let repair = client.repair(run).replace(args.step.clone(), &result).reason(args.reason);
    if args.dry_run {
        return print_plan(&repair.plan().await?, format);
    }
    let replaced = repair.await?;
    print_one(format, &json!({ "id": run, "replaced": replaced }), run, || match replaced {
        true => format!("{run} goes on with another result of {}", args.step),
        false => format!("{run} has moved on: nothing was changed"),
    })?;
    note_without_node(client).await
}

/// Says what would run again.
pub(crate) fn print_plan(plan: &RepairPlan, format: Format) -> Result<(), Fault> {
    print_one(format, plan, plan.run, || {
        let again = match plan.again.as_slice() {
            [] => "nothing that ran before runs again".to_owned(),
            again => format!("runs again: {}", again.join(", ")),
        };
        let heard = match plan.messages {
            0 => String::new(),
            messages => format!("; {} again", count(messages, "message")),
        };
        format!("{}: {} kept; {again}{heard}", plan.run, count(plan.kept, "result"))
    })
}
