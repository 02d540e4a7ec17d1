//! `outlast retry`: runs that failed, by their names.

use serde_json::json;

use crate::backend::{Backend, RepairAsk};
use crate::cli::RetryArgs;
use crate::fault::Fault;
use crate::output::{Format, print_one};
use crate::repair_commands::print_plan;
use crate::run_commands::{each, find, given, note_without_node};

/// Tries again what was named.
pub(crate) async fn retry(client: &Backend, args: RetryArgs, format: Format) -> Result<(), Fault> {
    let input = args.input.as_deref().map(|text| given("input", text)).transpose()?;
    let ask = RepairAsk { from: args.from, input, reason: args.reason, ..RepairAsk::default() };
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        if args.many.dry_run {
            return print_plan(&client.plan_repair(run, &ask).await?, format);
        }
        let retried = client.repair(run, &ask).await?;
        print_one(format, &json!({ "id": run, "retried": retried }), run, || match retried {
            true => format!("{run} is ready to be tried again"),
            false => format!("{run} has not ended, and nothing holds it up: nothing was changed"),
        })
    })
    .await?;
    note_without_node(client).await
}
