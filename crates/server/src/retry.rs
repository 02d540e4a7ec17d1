//! `outlast retry`: runs that failed, by their names.

use serde_json::json;

use crate::backend::{Backend, RepairAsk};
use crate::cli::RetryArgs;
use crate::fault::Fault;
use crate::output::{Format, print_one};
use crate::repair_commands::plan_repair;
use crate::run_commands::{each, find, given, note_without_node};

/// Tries again what was named.
pub(crate) async fn retry(client: &Backend, args: RetryArgs, format: Format) -> Result<(), Fault> {
    let (ids, ask) = ask(args)?;
    each(&ids, async |text| {
        let run = find(client, text).await?.record.id;
        let retried = client.repair(run, &ask).await?;
        print_one(format, &json!({ "id": run, "retried": retried }), run, || match retried {
            true => format!("{run} is ready to be tried again"),
            false => format!("{run} has not ended, and nothing holds it up: nothing was changed"),
        })
    })
    .await?;
    note_without_node(client).await
}

/// Says what would run again.
pub(crate) async fn plan(client: &Backend, args: RetryArgs, format: Format) -> Result<(), Fault> {
    let (ids, ask) = ask(args)?;
    plan_repair(client, &ids, &ask, format).await
}

/// What is asked of which runs.
fn ask(args: RetryArgs) -> Result<(Vec<String>, RepairAsk), Fault> {
    let input = args.input.as_deref().map(|text| given("input", text)).transpose()?;
    Ok((args.ids, RepairAsk { from: args.from, input, reason: args.reason, ..RepairAsk::default() }))
}
