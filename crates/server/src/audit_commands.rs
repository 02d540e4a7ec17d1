//! `outlast audit`: who changed what, and whether the log of it is what was written.

use outlast_store::Link;
use serde_json::json;

use crate::backend::Backend;
use crate::cli::{AuditArgs, AuditCommand, AuditVerifyArgs};
use crate::fault::{Exit, Fault};
use crate::http::{AuditJson, read_link};
use crate::output::{BAD, BOLD, Column, Format, Row, note, print, print_list, print_one, table};
use crate::words::{ago, count};

/// Does what was asked about the audit log.
pub(crate) async fn audit(client: &Backend, command: AuditCommand, format: Format) -> Result<(), Fault> {
    match command {
        AuditCommand::List(args) => list(client, args, format).await,
        AuditCommand::Verify(args) => verify(client, args, format).await,
    }
}

async fn list(client: &Backend, args: AuditArgs, format: Format) -> Result<(), Fault> {
    let lines = client.audit(args.target, args.limit.unwrap_or(50)).await?;
    if format != Format::Text {
        return print_list(format, lines, false, |line: &AuditJson| line.id.clone());
    }
    if lines.is_empty() {
        note("nobody has changed anything that is in the log");
        return Ok(());
    }
    let now = client.now().await?;
    let columns = [
        Column { head: "AT", spare: 0 },
        Column { head: "ACTOR", spare: 0 },
        Column { head: "ACTION", spare: 0 },
        Column { head: "STATUS", spare: 2 },
        Column { head: "TARGET", spare: 0 },
        Column { head: "REASON", spare: 1 },
    ];
    let row = |line: &AuditJson| Row {
        style: if line.status < 400 { BOLD } else { BAD },
        cells: vec![
            ago(line.at.0, now),
            line.actor.clone(),
            line.action.clone(),
            line.status.to_string(),
            line.target.clone(),
            line.reason.clone().unwrap_or_default(),
        ],
    };
    print(&table(&columns, &lines.iter().map(row).collect::<Vec<_>>()))
}

/// How many lines that do not fit are told one by one.
const TOLD: usize = 100;

async fn verify(client: &Backend, args: AuditVerifyArgs, format: Format) -> Result<(), Fault> {
    let (mut from, mut lines, mut broken, mut breaks): (Option<Link>, _, _, _) = (None, 0, 0, Vec::new());
    let last = loop {
        let part = client.look_at_chain(from.as_ref(), args.known.as_ref()).await?;
        lines += part.lines;
        broken += part.breaks.len();
        let room = TOLD - breaks.len();
        breaks.extend(part.breaks.iter().take(room).map(|found| json!(found)));
        match part.next.as_deref().and_then(read_link) {
            Some(next) => from = Some(next),
            None => break part,
        }
    };
    let told = json!({
        "lines": lines,
        "broken": broken,
        "breaks": breaks,
        "begin": last.begin,
        "end": last.end,
        "loose": last.loose,
        "older": last.older,
    });
    print_one(format, &told, &last.end, || {
        let mut text = match broken {
            0 if lines == 0 => "no line is in the chain".to_owned(),
            0 => format!("{} follow from each other", count(lines, "line")),
            _ => format!("{}, of which not all follow from each other", count(lines, "line")),
        };
        for found in &breaks {
            text += &format!("\n  {}", found["what"].as_str().unwrap_or_default());
        }
        if broken > breaks.len() {
            text += &format!("\n  and {} more", broken - breaks.len());
        }
        text + &format!("\nend {}", last.end)
    })?;
    if format == Format::Text {
        for (number, what) in [
            (last.loose, "no place in the chain yet: older programs wrote them, and a server gives them one"),
            (last.older, "no place in the chain: they are older than it"),
        ] {
            if number > 0 {
                note(&format!(
                    "{} have {what}",
                    count(usize::try_from(number).unwrap_or(usize::MAX), "line")
                ));
            }
        }
    }
    match broken {
        0 => Ok(()),
        _ => {
            let message = "the audit log is not what was written: compare it with a backup, and look who can write to it";
            Err(Fault::new(Exit::Conflict, "precondition_failed", message))
        }
    }
}
