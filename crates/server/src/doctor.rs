//! `outlast doctor`: everything that can be wrong with a database, looked at one by one, with what to do about it.
//!
//! The facts come from the store; what they mean is said here, once for the command and for `GET /system/checks`.

mod of_store;
mod of_work;

use std::time::{Instant, SystemTime};

use outlast::{Client, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::backend::Remote;
use crate::cli::DoctorArgs;
use crate::database::Place;
use crate::fault::{Exit, Fault};
use crate::output::{BAD, BOLD, DIM, Format, GOOD, WAIT, call, painted, print, print_list};
use crate::words::{count, took};

/// Every check, in the order in which they are told.
const NAMES: [&str; 17] = [
    "database",
    "schema",
    "clock",
    "integrity",
    "durability",
    "disk",
    "privileges",
    "notifications",
    "pooler",
    "connections",
    "vacuum",
    "time_zones",
    "nodes",
    "leases",
    "schedules",
    "queues",
    "runs",
];

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Light {
    /// As it should be.
    Ok,
    /// It works, and could go wrong.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct CheckJson {
    pub(crate) name: String,
    #[schema(value_type = String)]
    pub(crate) status: Light,
    /// What was found.
    pub(crate) detail: String,
    /// What to do, where it is not as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl CheckJson {
    fn ok(name: &str, detail: impl Into<String>) -> CheckJson {
        CheckJson { name: name.to_owned(), status: Light::Ok, detail: detail.into(), fix: None }
    }

    fn warn(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> CheckJson {
        CheckJson { status: Light::Warn, fix: Some(fix.into()), ..CheckJson::ok(name, detail) }
    }

    fn fail(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> CheckJson {
        CheckJson { status: Light::Fail, fix: Some(fix.into()), ..CheckJson::ok(name, detail) }
    }
}

/// Looks at everything of a database that could be opened.
pub(crate) async fn checks(client: &Client) -> Vec<CheckJson> {
    let (began, here) = (Instant::now(), Timestamp::from(SystemTime::now()));
    let now = match client.store().now().await {
        Ok(now) => now,
        Err(error) => return vec![unreachable(&Fault::from(error))],
    };
    let trip = began.elapsed();
    let mut checks = Vec::new();
    match client.store().vitals().await {
        Ok(vitals) => checks.extend(of_store::judge(&vitals, trip)),
        Err(error) => checks.push(unreachable(&Fault::from(error))),
    }
    checks.push(CheckJson::ok("schema", "this program's"));
    checks.push(of_store::clock(here, now, trip, client.store().name()));
    match of_work::judge(client, now).await {
        Ok(found) => checks.extend(found),
        Err(fault) => checks.push(unreachable(&fault)),
    }
    checks.sort_by_key(|check| NAMES.iter().position(|name| *name == check.name));
    checks
}

fn unreachable(fault: &Fault) -> CheckJson {
    CheckJson::fail("database", fault.message(), "see whether it is up, and whether the address is right")
}

/// Looks at a database that may not even be there.
async fn checks_at(place: &Place) -> Vec<CheckJson> {
    let schema = match outlast_store::schema(place.url()).await {
        Ok(schema) => schema,
        Err(error @ outlast_store::StoreError::Schema(_)) => {
            let fix = "name another database with --database-url, or use the program that made it";
            return vec![CheckJson::fail("schema", Fault::from(error).message(), fix)];
        }
        Err(error) => return vec![unreachable(&Fault::from(error))],
    };
    if !schema.is_complete() {
        let detail = format!("version {}, and this program needs {}", schema.at, schema.newest);
        let reached = CheckJson::ok("database", format!("{} answers", schema.place));
        return vec![reached, CheckJson::fail("schema", detail, format!("`{}`", call("migrate up")))];
    }
    match place.client().await {
        Ok(client) => {
            let mut all = checks(&client).await;
            for check in all.iter_mut().filter(|check| check.name == "schema") {
                check.detail = format!("version {}", schema.at);
            }
            all
        }
        Err(fault) => vec![unreachable(&fault)],
    }
}

/// Says how a database is doing; whatever does not work is a fault.
pub(crate) async fn doctor(
    server: Option<&Remote>,
    place: &Place,
    args: &DoctorArgs,
    format: Format,
) -> Result<(), Fault> {
    if let Some(unknown) = args.only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        let message = format!("there is no check {unknown:?}: there are {}", NAMES.join(", "));
        return Err(Fault::usage(message));
    }
    let mut checks = match server {
        Some(server) => server.checks().await?,
        None => checks_at(place).await,
    };
    checks.retain(|check| args.only.is_empty() || args.only.contains(&check.name));
    let (bad, odd) = (lit(&checks, Light::Fail), lit(&checks, Light::Warn));
    match format.is_text() {
        true => print(&checks.iter().map(line).collect::<Vec<_>>().join("\n"))?,
        false => print_list(format, checks, false, |check| check.name.clone())?,
    }
    match (bad, odd) {
        (0, _) => Ok(()),
        (bad, 0) => Err(sick(format!("{} failed", count(bad, "check")))),
        (bad, odd) => Err(sick(format!("{} failed, and {odd} could go wrong", count(bad, "check")))),
    }
}

fn lit(checks: &[CheckJson], light: Light) -> usize {
    checks.iter().filter(|check| check.status == light).count()
}

fn sick(message: String) -> Fault {
    Fault::new(Exit::Failed, "unhealthy", message)
}

fn line(check: &CheckJson) -> String {
    let (mark, style) = match check.status {
        Light::Ok => ("✓", GOOD),
        Light::Warn => ("!", WAIT),
        Light::Fail => ("✗", BAD),
    };
    let mut line = format!(
        "{} {}  {}",
        painted(style, mark),
        painted(BOLD, format!("{:<13}", check.name)),
        check.detail
    );
    if let Some(fix) = &check.fix {
        line += &format!("\n{:17}{}", "", painted(DIM, format!("→ {fix}")));
    }
    line
}

/// So many bytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// How far two clocks are apart.
fn apart(a: Timestamp, b: Timestamp) -> std::time::Duration {
    a.since(b).max(b.since(a))
}

/// A duration with what it is.
fn lasting(span: std::time::Duration, what: &str) -> String {
    format!("{} {what}", took(span))
}
