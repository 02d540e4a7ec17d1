//! `outlast retry`: runs that failed, by their names or by a filter.

use std::io::{BufRead, IsTerminal, Write};

use outlast::{Client, Filter, Status};
use serde_json::json;

use crate::cli::RetryArgs;
use crate::fault::Fault;
use crate::list::{PAGE, filter};
use crate::output::{Format, print_one};
use crate::run_commands::{each, find, given, note_without_node};
use crate::words::count;

/// Tries again what was named, or what fits once somebody has seen how many that are.
pub(crate) async fn retry(client: &Client, args: RetryArgs, format: Format) -> Result<(), Fault> {
    if args.ids.is_empty() {
        return by_filter(client, args, format).await;
    }
    let input = args.input.as_deref().map(|text| given("input", text)).transpose()?;
    each(&args.ids, async |text| {
        let run = find(client, text).await?.record.id;
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

async fn by_filter(client: &Client, args: RetryArgs, format: Format) -> Result<(), Fault> {
    let words: Vec<String> = args.filter.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    if words.is_empty() && !args.all {
        return Err(Fault::usage("the filter is empty: say what to retry, such as def:mail, or --all"));
    }
    let mut filter = filter(&words, client.store().now().await?)?;
    if filter.statuses.is_empty() {
        filter.statuses.push(Status::Failed);
    }
    if !args.yes {
        agree(fitting(client, &filter).await?)?;
    }
    let retried = client.retry_all(&filter).await?;
    let text = || {
        let runs = count(usize::try_from(retried).unwrap_or(usize::MAX), "run");
        format!("{runs} ready to be tried again")
    };
    print_one(format, &json!({ "retried": retried }), retried, text)?;
    note_without_node(client).await
}

/// How many runs fit.
async fn fitting(client: &Client, filter: &Filter) -> Result<usize, Fault> {
    let (mut runs, mut after) = (0, None);
    loop {
        let page = client.list(filter, after, PAGE).await?;
        runs += page.runs.len();
        after = page.next;
        if after.is_none() {
            return Ok(runs);
        }
    }
}

/// Asks whoever sits there. Where nobody does, nobody can agree.
fn agree(runs: usize) -> Result<(), Fault> {
    let runs = count(runs, "run");
    let (mut input, mut told) = (std::io::stdin().lock(), std::io::stderr());
    if !std::io::stdin().is_terminal() {
        return Err(Fault::usage(format!("{runs} would be tried again: say --yes if that is meant")));
    }
    let _ = write!(told, "try {runs} again? [y/N] ").and_then(|()| told.flush());
    let mut answer = String::new();
    let _ = input.read_line(&mut answer);
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Fault::usage("nothing was changed")),
    }
}
