//! `outlast list errors`: failures that are alike, the last first.

use std::time::Duration;

use outlast_store::FailureGroup;

use crate::backend::Backend;
use crate::fault::Fault;
use crate::http::ErrorGroupJson;
use crate::output::{BAD, Column, Format, Row, note, print, print_list, table};
use crate::words::ago;

/// How far back failures are told of: as long as they are kept.
pub(crate) const RANGE: Duration = Duration::from_secs(31 * 86_400);

/// Lists groups of failures.
pub(crate) async fn list(client: &Backend, limit: u32, format: Format) -> Result<(), Fault> {
    let groups = client.failures(limit).await?;
    if format != Format::Text {
        let items = groups.into_iter().map(ErrorGroupJson::new).collect();
        return print_list(format, items, false, |group: &ErrorGroupJson| group.fingerprint.clone());
    }
    if groups.is_empty() {
        note("no failure was summed up in the last 31 days: servers do that, about ten seconds later");
        return Ok(());
    }
    let now = client.now().await?;
    let columns = [
        Column { head: "DEFINITION", spare: 0 },
        Column { head: "RUNS", spare: 0 },
        Column { head: "FIRST", spare: 2 },
        Column { head: "LAST", spare: 0 },
        Column { head: "LAST RUN", spare: 1 },
        Column { head: "ERROR", spare: 0 },
    ];
    let row = |group: &FailureGroup| Row {
        style: BAD,
        cells: vec![
            group.definition.clone(),
            group.runs.to_string(),
            ago(group.first_at, now),
            ago(group.last_at, now),
            group.last_run.to_string(),
            group.message.split_whitespace().collect::<Vec<_>>().join(" "),
        ],
    };
    print(&table(&columns, &groups.iter().map(row).collect::<Vec<_>>()))
}
