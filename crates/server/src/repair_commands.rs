//! `outlast fork` and `outlast replace`: another run from a step on, and another result for a step.

use outlast::{Bulk, Client, RepairPlan};
use serde_json::json;

use crate::cli::{ForkArgs, ReplaceArgs};
use crate::fault::Fault;
use crate::output::{Format, call, note, print_one};
use crate::run_commands::{each, find, given, note_without_node};
use crate::words::{count, user};

/// Starts other runs from a step of those that are named.
pub(crate) async fn fork(client: &Client, args: ForkArgs, format: Format) -> Result<(), Fault> {
    let input = args.input.as_deref().map(|text| given("input", text)).transpose()?;
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        let mut fork = client.fork(run);
        fork = match (&args.from, args.from_start) {
            (Some(step), _) => fork.from(step),
            (None, true) => fork.from_start(),
            (None, false) => fork,
        };
        if let Some(input) = &input {
            fork = fork.input(input);
        }
        fork = match args.version.as_deref() {
            None => fork,
            Some("latest") => fork.active_version(),
            Some(number) => fork.version(number.parse().map_err(|_| no_version(number))?),
        };
        if let Some(reason) = &args.reason {
            fork = fork.reason(reason);
        }
        fork = user().into_iter().fold(fork, |fork, user| fork.by(user));
        if args.many.dry_run {
            return print_plan(&fork.plan().await?, format);
        }
        let id = fork.await?;
        print_one(format, &json!({ "id": id, "fork_of": run }), id, || id.to_string())?;
        if format == Format::Text {
            note(&format!("forked from {run}; look at it with `{}`", call(&format!("show {id}"))));
        }
        Ok(())
    })
    .await?;
    note_without_node(client).await
}

/// What is asked for all runs that fit.
pub(crate) fn fork_many(args: &ForkArgs) -> Result<Bulk, Fault> {
    let latest = match args.version.as_deref() {
        None => false,
        Some("latest") => true,
        Some(number) => return Err(no_version(number)),
    };
    let input = args.input.as_deref().map(|text| given("input", text)).transpose()?;
    let input = input.map(|input| input.to_string());
    Ok(Bulk::Fork { from: args.from.clone(), input, latest, reason: args.reason.clone() })
}

fn no_version(given: &str) -> Fault {
    Fault::usage(format!("version {given:?}: write its number, or latest; with a filter, latest"))
}

/// Gives a step another result.
pub(crate) async fn replace(client: &Client, args: ReplaceArgs, format: Format) -> Result<(), Fault> {
    let result = given("result", &args.result)?;
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        let repair = client.repair(run).replace(&args.step, &result).reason(&args.reason);
        let repair = user().into_iter().fold(repair, |repair, user| repair.by(user));
        if args.many.dry_run {
            return print_plan(&repair.plan().await?, format);
        }
        let replaced = repair.await?;
        print_one(format, &json!({ "id": run, "replaced": replaced }), run, || match replaced {
            true => format!("{run} goes on with another result of {}", args.step),
            false => format!("{run} has moved on: nothing was changed"),
        })
    })
    .await?;
    note_without_node(client).await
}

/// What is asked for all runs that fit.
pub(crate) fn replace_many(args: &ReplaceArgs) -> Result<Bulk, Fault> {
    let result = given("result", &args.result)?;
    Ok(Bulk::Replace {
        step: args.step.clone(),
        result: result.get().to_owned(),
        reason: args.reason.clone(),
    })
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
