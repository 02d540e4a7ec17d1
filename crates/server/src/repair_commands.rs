//! `outlast fork` and `outlast replace`: another run from a step on, and another result for a step.

use outlast::{Bulk, RepairPlan, Status};
use serde_json::json;

use crate::backend::{Backend, ForkAsk, RepairAsk, Version};
use crate::cli::{ForkArgs, ReplaceArgs};
use crate::fault::Fault;
use crate::output::{Format, call, note, print_one};
use crate::rehearsal::Would;
use crate::run_commands::{each, find, given, note_without_node};
use crate::words::count;

/// Starts other runs from a step of those that are named.
pub(crate) async fn fork(client: &Backend, args: ForkArgs, format: Format) -> Result<(), Fault> {
    let (ids, ask) = fork_ask(args)?;
    each(&ids, async |text| {
        let run = find(client, text).await?.record.id;
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

/// Says what a fork would have, and what would run again in it.
pub(crate) async fn plan_fork(client: &Backend, args: ForkArgs, format: Format) -> Result<(), Fault> {
    let (ids, ask) = fork_ask(args)?;
    each(&ids, async |text| {
        let run = find(client, text).await?.record.id;
        client.may("run.fork").await?;
        tell("run.fork", &client.plan_fork(run, &ask).await?, format)
    })
    .await
}

/// What is asked of which runs.
fn fork_ask(args: ForkArgs) -> Result<(Vec<String>, ForkAsk), Fault> {
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
    Ok((args.ids, ask))
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
    let ask = replace_ask(&args)?;
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        let replaced = client.repair(run, &ask).await?;
        print_one(format, &json!({ "id": run, "replaced": replaced }), run, || match replaced {
            true => format!("{run} goes on with another result of {}", args.step),
            false => format!("{run} has moved on: nothing was changed"),
        })
    })
    .await?;
    note_without_node(client).await
}

/// Says what would run again with another result.
pub(crate) async fn plan_replace(client: &Backend, args: ReplaceArgs, format: Format) -> Result<(), Fault> {
    plan_repair(client, &args.ids, &replace_ask(&args)?, format).await
}

fn replace_ask(args: &ReplaceArgs) -> Result<RepairAsk, Fault> {
    let replace = Some((args.step.clone(), given("result", &args.result)?));
    Ok(RepairAsk { replace, reason: Some(args.reason.clone()), ..RepairAsk::default() })
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

/// Says of each run what would run again.
pub(crate) async fn plan_repair(
    client: &Backend,
    ids: &[String],
    ask: &RepairAsk,
    format: Format,
) -> Result<(), Fault> {
    each(ids, async |text| {
        let run = find(client, text).await?.record.id;
        let action = if ask.replace.is_some() { "run.replace" } else { "run.retry" };
        client.may(action).await?;
        tell(action, &client.plan_repair(run, ask).await?, format)
    })
    .await
}

fn tell(action: &'static str, plan: &RepairPlan, format: Format) -> Result<(), Fault> {
    let again = match plan.again.as_slice() {
        [] => "nothing that ran before runs again".to_owned(),
        again => format!("runs again: {}", again.join(", ")),
    };
    let heard = match plan.messages {
        0 => String::new(),
        messages => format!("; {} again", count(messages, "message")),
    };
    let would = format!("{}: {} kept; {again}{heard}", plan.run, count(plan.kept, "result"));
    // A retry leaves alone what goes on by itself.
    let stands = matches!(plan.status, Status::UndoFailed | Status::Blocked);
    let would = match action == "run.retry" && !plan.status.is_final() && !stands {
        true => Would::nothing(action, plan.run, would),
        false => Would::new(action, plan.run, would),
    };
    would.tell_more(plan, format)
}
