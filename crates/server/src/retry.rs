//! `outlast retry`: runs that failed, by their names.

use outlast::Client;
use serde_json::json;

use crate::cli::RetryArgs;
use crate::fault::Fault;
use crate::output::{Format, print_one};
use crate::repair_commands::print_plan;
use crate::run_commands::{each, find, given, note_without_node};
use crate::words::user;

/// Tries again what was named.
pub(crate) async fn retry(client: &Client, args: RetryArgs, format: Format) -> Result<(), Fault> {
    let input = args.input.as_deref().map(|text| given("input", text)).transpose()?;
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
        let mut repair = user().into_iter().fold(client.repair(run), |repair, user| repair.by(user));
        repair = args.from.iter().fold(repair, |repair, step| repair.from(step));
        if let Some(input) = &input {
            repair = repair.input(input);
        }
        if args.many.dry_run {
            return print_plan(&repair.plan().await?, format);
        }
        let retried = repair.await?;
        print_one(format, &json!({ "id": run, "retried": retried }), run, || match retried {
            true => format!("{run} is ready to be tried again"),
            false => format!("{run} has not ended, and nothing holds it up: nothing was changed"),
        })
    })
    .await?;
    note_without_node(client).await
}
