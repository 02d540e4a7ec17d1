//! `outlast fork` and `outlast replace`: another run from a step on, and another result for a step.

use outlast::{Bulk, RepairPlan};
use serde_json::json;

use crate::backend::{Backend, ForkAsk, RepairAsk, Version};
use crate::cli::{ForkArgs, ReplaceArgs};
use crate::fault::Fault;
use crate::output::{Format, call, note, print_one};
use crate::run_commands::{each, find, given, note_without_node};
use crate::words::count;

/// Starts other runs from a step of those that are named.
pub(crate) async fn fork(client: &Backend, args: ForkArgs, format: Format) -> Result<(), Fault> {
    let ask = ForkAsk {
        from: args.from,
        from_start: args.from_start,
        input: args.input.as_deref().map(|text| given("input", text)).transpose()?,
        version: match args.version.as_deref() {
            None => None,
            Some("latest") => Some(Version::Latest),
            Some(number) => Some(Version::Number(number.parse().map_err(|_| no_version(number))?)),
        },
        reason: args.reason,
    };
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        if args.many.dry_run {
            return print_plan(&client.plan_fork(run, &ask).await?, format);
        }
        let id = client.fork(run, &ask).await?;
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
pub(crate) async fn replace(client: &Backend, args: ReplaceArgs, format: Format) -> Result<(), Fault> {
    let replace = Some((args.step.clone(), given("result", &args.result)?));
    let ask = RepairAsk { replace, reason: Some(args.reason), ..RepairAsk::default() };
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        if args.many.dry_run {
            return print_plan(&client.plan_repair(run, &ask).await?, format);
        }
        let replaced = client.repair(run, &ask).await?;
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
