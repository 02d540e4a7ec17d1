//! `outlast check` and `outlast export`: runs replayed against this binary, and runs as files.

use std::path::Path;
use std::sync::{Arc, Mutex};

use outlast::{CheckReport, Checked, Outlast, Verdict};
use serde::Serialize;
use serde_json::json;

use crate::Program;
use crate::backend::{Backend, Which};
use crate::cli::CheckArgs;
use crate::database::Place;
use crate::fault::{Exit, Fault};
use crate::output::{self, BAD, DIM, Format, GOOD, note, painted, print, print_exact, print_one};
use crate::words::count;

/// The word for code that does something else than what was recorded.
const DIFFERS: &str = "nondeterminism";

/// Prints a run with its journal, as a file for `check`.
pub(crate) async fn export(client: &Backend, id: &str) -> Result<(), Fault> {
    print_exact(&client.export(&Which::read(id)?).await?)
}

/// Replays unfinished runs, or exported ones, and says of each whether it fits.
pub(crate) async fn check(
    place: &Place,
    program: &Program,
    args: CheckArgs,
    format: Format,
) -> Result<(), Fault> {
    let memory = Outlast::open("sqlite::memory:").await?;
    let app = program.code(memory);
    let mut check = match args.files.is_empty() {
        true => app.check(place.guest()?),
        false => app.check_files(&args.files),
    };
    if let Some(definition) = args.definition {
        check = check.definition(definition);
    }
    if let Some(runs) = args.sample {
        check = check.sample(runs);
    }
    let all = Arc::new(Mutex::new(Vec::new()));
    let seen = all.clone();
    let report = check
        .each(move |checked| {
            let shape = CheckedJson::new(checked);
            // A reader that leaves has seen enough; the verdict is in the exit code.
            let _ = match format {
                Format::Text | Format::Wide => print(&line(checked)),
                Format::Jsonl => output::json(&shape, false).and_then(|text| print_exact(&text)),
                Format::Name if !checked.verdict.fits() => print(&checked.run.to_string()),
                Format::Name => Ok(()),
                Format::Json | Format::Yaml => {
                    seen.lock().unwrap_or_else(|broken| broken.into_inner()).push(shape);
                    Ok(())
                }
            };
        })
        .await?;
    if matches!(format, Format::Json | Format::Yaml) {
        let checked = &*all.lock().unwrap_or_else(|broken| broken.into_inner());
        let report = json!({ "runs": report.runs, "fitting": report.fitting, "checked": checked });
        print_one(format, &report, "", String::new)?;
    }
    let runs = usize::try_from(report.runs).unwrap_or(usize::MAX);
    if report.fits() {
        note(&match runs {
            0 => "no unfinished run to check".to_owned(),
            1 => "the run fits this binary".to_owned(),
            runs => format!("all {} fit this binary", count(runs, "run")),
        });
        return Ok(());
    }
    let not = report.runs - report.fitting;
    let do_not = if not == 1 { "does not" } else { "do not" };
    let message = format!("{not} of {} {do_not} fit this binary", count(runs, "run"));
    Err(Fault::new(Exit::Conflict, code(&report), message))
}

/// The stable word for why runs do not fit: that of all of them, or the one for code that does something else.
fn code(report: &CheckReport) -> &'static str {
    let of = |checked: &Checked| match checked.verdict {
        Verdict::CannotDecode { .. } => "undecodable",
        Verdict::NoSuchDefinition { .. } | Verdict::NoSuchVersion { .. } => "unknown_definition",
        _ => DIFFERS,
    };
    let mut codes = report.misfits().iter().map(of);
    let first = codes.next().unwrap_or(DIFFERS);
    if codes.all(|code| code == first) { first } else { DIFFERS }
}

fn line(checked: &Checked) -> String {
    let Checked { run, definition, version, key, verdict, .. } = checked;
    let key = key.as_ref().map(|key| format!("/{key}")).unwrap_or_default();
    let mark = if verdict.fits() { painted(GOOD, "✓") } else { painted(BAD, "✗") };
    format!("{mark} {run}  {definition}{key} {}  {verdict}", painted(DIM, format!("version {version}")))
}

/// A run that was checked.
#[derive(Serialize)]
struct CheckedJson {
    id: String,
    definition: String,
    version: u32,
    key: Option<String>,
    status: String,
    file: Option<String>,
    verdict: &'static str,
    message: String,
    /// Where code and journal part.
    difference: Option<serde_json::Value>,
}

impl CheckedJson {
    fn new(checked: &Checked) -> CheckedJson {
        let Checked { run, definition, version, key, status, file, verdict, .. } = checked;
        let difference = match verdict {
            Verdict::Diverges(difference) => Some(json!({
                "entry": difference.entry,
                "expected": difference.expected.as_ref().map(|op| json!({ "op": op.op, "name": op.name })),
                "found": difference.found.as_ref().map(|op| json!({ "op": op.op, "name": op.name })),
                "source": difference.source.map(|at| json!({ "file": at.file(), "line": at.line() })),
            })),
            _ => None,
        };
        CheckedJson {
            id: run.to_string(),
            definition: definition.clone(),
            version: *version,
            key: key.clone(),
            status: status.clone(),
            file: file.as_deref().map(|file: &Path| file.display().to_string()),
            verdict: verdict.word(),
            message: verdict.to_string(),
            difference,
        }
    }
}
