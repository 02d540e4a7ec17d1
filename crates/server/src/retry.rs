//! `outlast retry`: runs that failed, by their names.

use outlast::Client;
use serde_json::json;

use crate::cli::RetryArgs;
use crate::fault::Fault;
use crate::output::{Format, print_one};
use crate::repair_commands::print_plan;
use crate::run_commands::{each, find, given, note_without_node};

/// Tries again what was named.
pub(crate) async fn retry(client: &Client, args: RetryArgs, format: Format) -> Result<(), Fault> {
    let input = args.input.as_deref().map(|text| given("input", text)).transpose()?;
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        if args.many.dry_run {
            let repair = args.from.iter().fold(client.repair(run), |repair, step| repair.from(step));
            return print_plan(&repair.plan().await?, format);
        }
        let retried = match (&input, &args.from) {
            (Some(input), _) => client.retry_with(run, input).await?,
            (None, Some(step)) => client.repair(run).from(step).await?,
            (None, None) => client.retry(run).await?,
        };
        print_one(format, &json!({ "id": run, "retried": retried }), run, || match retried {
            true => format!("{run} is ready to be tried again"),
            false => format!("{run} has not ended: nothing was changed"),
        })
    })
    .await?;
    note_without_node(client).await
}
