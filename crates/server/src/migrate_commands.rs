//! `outlast migrate`: where the schema stands, and how it gets up to date.

use outlast_store::{Schema, SchemaFile};
use serde::Serialize;
use serde_json::json;

use crate::cli::{Consent, MigrateCommand};
use crate::database::Place;
use crate::fault::{Exit, Fault};
use crate::output::{BOLD, Column, DIM, Format, Row, call, note, print, print_one, table};
use crate::words::count;

/// A schema as JSON.
#[derive(Serialize)]
struct SchemaJson {
    at: i64,
    newest: i64,
    complete: bool,
    files: Vec<FileJson>,
}

#[derive(Serialize)]
struct FileJson {
    number: i64,
    name: &'static str,
    applied: bool,
    /// The oldest program that can go on once it was applied.
    serves: i64,
}

impl SchemaJson {
    fn new(schema: &Schema) -> SchemaJson {
        let file = |file: &SchemaFile| FileJson {
            number: file.number,
            name: file.name,
            applied: file.is_applied,
            serves: file.serves,
        };
        SchemaJson {
            at: schema.at,
            newest: schema.newest,
            complete: schema.is_complete(),
            files: schema.files.iter().map(file).collect(),
        }
    }
}

/// Does what was asked about the schema.
pub(crate) async fn migrate(
    place: &Place,
    command: MigrateCommand,
    consent: Consent,
    format: Format,
) -> Result<(), Fault> {
    let url = place.url();
    match command {
        MigrateCommand::Status => status(&outlast_store::schema(url).await?, format),
        MigrateCommand::Print(args) => {
            let newest = outlast_store::newest_schema();
            let to = args.to.unwrap_or(newest);
            if let Some(file) = [args.from, to].into_iter().find(|file| *file > newest) {
                return Err(Fault::usage(format!("there is no file {file}: the last is {newest}")));
            }
            if args.from == to {
                let message = format!("from {to} to {to} is no file: --to and --from differ");
                return Err(Fault::usage(message));
            }
            print(&outlast_store::schema_text(url, args.from, to)?)
        }
        MigrateCommand::Up(args) => {
            let before = outlast_store::schema(url).await?;
            if let Some(to) = args.to.filter(|to| *to > before.newest) {
                let message = format!("there is no file {to}: this program knows {}", before.newest);
                return Err(Fault::usage(message));
            }
            if consent.dry_run {
                let to = args.to.unwrap_or(before.newest);
                let lacks = before.files.iter().filter(|file| !file.is_applied && file.number <= to).count();
                let told = format!("{} to apply", count(lacks, "file"));
                return would_move(url, &before, to, &told, format);
            }
            let after = outlast_store::migrate(url, args.to).await?;
            moved(&before, &after, format)
        }
        MigrateCommand::Down(args) => {
            let before = outlast_store::schema(url).await?;
            if args.to > before.at {
                let message = format!(
                    "{} is at version {}: `migrate up` leads to {}",
                    before.place, before.at, args.to
                );
                return Err(Fault::usage(message));
            }
            let after = outlast_store::revert(url, args.to, consent.dry_run).await?;
            if consent.dry_run {
                let files = usize::try_from(before.at - args.to).unwrap_or(usize::MAX);
                let told = format!("{} to take away", count(files, "file"));
                return would_move(url, &before, args.to, &told, format);
            }
            moved(&before, &after, format)
        }
    }
}

/// Says which statements would be run.
fn would_move(url: &str, before: &Schema, to: i64, told: &str, format: Format) -> Result<(), Fault> {
    let sql = outlast_store::schema_text(url, before.at, to)?;
    let answer =
        json!({ "dry_run": true, "at": before.at, "to": to, "changes": before.at != to, "sql": sql });
    print_one(format, &answer, to, || sql.clone())?;
    note(&format!("{told}; nothing was changed"));
    Ok(())
}

/// Says how far the schema went.
fn moved(before: &Schema, after: &Schema, format: Format) -> Result<(), Fault> {
    print_one(format, &SchemaJson::new(after), after.at, || match after.at - before.at {
        0 => format!("{} was at version {} already", after.place, after.at),
        _ => format!("{} went from version {} to {}", after.place, before.at, after.at),
    })
}

fn status(schema: &Schema, format: Format) -> Result<(), Fault> {
    let columns = [
        Column { head: "FILE", spare: 0 },
        Column { head: "NAME", spare: 0 },
        Column { head: "SERVES", spare: 1 },
        Column { head: "APPLIED", spare: 0 },
    ];
    let row = |file: &SchemaFile| Row {
        style: if file.is_applied { BOLD } else { DIM },
        cells: vec![
            file.number.to_string(),
            file.name.to_owned(),
            format!("{} and newer", file.serves),
            if file.is_applied { "yes" } else { "no" }.to_owned(),
        ],
    };
    print_one(format, &SchemaJson::new(schema), schema.at, || {
        table(&columns, &schema.files.iter().map(row).collect::<Vec<_>>())
    })?;
    if schema.is_complete() {
        note(&format!("{} is up to date: version {}", schema.place, schema.at));
        return Ok(());
    }
    let message = format!(
        "{} is at version {}, and this program needs {}: `{}` brings it up to date",
        schema.place,
        schema.at,
        schema.newest,
        call("migrate up")
    );
    Err(Fault::new(Exit::Conflict, "precondition_failed", message))
}
