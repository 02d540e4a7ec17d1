//! What the facts of a database mean.

use std::path::Path;
use std::time::Duration;

use outlast::Timestamp;
use outlast_store::{PostgresVitals, SqliteVitals, Vitals, VitalsKind};

use super::{CheckJson, apart, lasting, size};
use crate::words::{count, took};

/// The oldest PostgreSQL that is tested.
const OLDEST: i32 = 130_000;
/// Clocks further apart than this confuse people; nothing else depends on this machine's.
const SKEW: Duration = Duration::from_secs(5);
/// How much of the connections may be in use, in percent.
const BUSY: i64 = 80;
/// A transaction that is open for longer keeps the database from cleaning up.
const LONG: Duration = Duration::from_secs(600);
/// Less room than this is soon gone.
const ROOM: u64 = 1 << 30;
/// A log this long is not being emptied: somebody reads for a long time.
const LOG: u64 = 512 << 20;

/// How far this machine's clock is from the database's, by which everything is judged.
pub(super) fn clock(here: Timestamp, there: Timestamp, trip: Duration, store: &str) -> CheckJson {
    let skew = apart(here, there).saturating_sub(trip);
    let detail = format!("{} apart from the database's", took(skew));
    match skew > SKEW {
        _ if store == "sqlite" => CheckJson::ok("clock", "SQLite goes by this machine's"),
        false => CheckJson::ok("clock", detail),
        true => CheckJson::warn(
            "clock",
            detail,
            "set this machine's clock by NTP; leases and timers go by the database's",
        ),
    }
}

pub(super) fn judge(vitals: &Vitals, trip: Duration) -> Vec<CheckJson> {
    let mut checks = match &vitals.kind {
        VitalsKind::Sqlite(file) => sqlite(&vitals.version, file, trip),
        VitalsKind::Postgres(server) => postgres(&vitals.version, server, trip),
    };
    let orphans = usize::try_from(vitals.orphans).unwrap_or(usize::MAX);
    checks.push(match orphans {
        0 => CheckJson::ok("leases", "every run in hand has a node that is alive"),
        _ => CheckJson::warn(
            "leases",
            format!("{} in the hands of nodes that are gone for more than a minute", count(orphans, "run")),
            "any node that is up takes them over: start one",
        ),
    });
    checks
}

fn sqlite(version: &str, file: &SqliteVitals, trip: Duration) -> Vec<CheckJson> {
    let reached = CheckJson::ok("database", format!("SQLite {version} answers in {}", took(trip)));
    let Some(path) = &file.file else { return vec![reached] };
    let integrity = match file.damage.first() {
        None => CheckJson::ok("integrity", "quick_check found nothing"),
        Some(first) => CheckJson::fail(
            "integrity",
            format!("the file is damaged: {first}"),
            "stop everything, keep the file, and restore the last backup",
        ),
    };
    let durability = match file.journal_mode.as_str() {
        "wal" => CheckJson::ok("durability", "write-ahead log, synced with every commit"),
        other => CheckJson::fail(
            "durability",
            format!("journal mode {other}"),
            "another program changed it: `pragma journal_mode = wal`",
        ),
    };
    vec![reached, integrity, durability, disk(path, file)]
}

fn disk(path: &Path, file: &SqliteVitals) -> CheckJson {
    let taken = format!("the file has {}, {} of it unused", size(file.bytes), size(file.unused));
    if file.log_bytes > LOG {
        let detail = format!("{taken}; its write-ahead log has {}", size(file.log_bytes));
        return CheckJson::warn("disk", detail, "somebody reads it for a very long time: end that process");
    }
    let free = free(path);
    match free {
        Some(free) if free < ROOM.min(file.bytes.max(64 << 20)) => CheckJson::fail(
            "disk",
            format!("{taken}; {} are left on the disk", size(free)),
            "make room, or move the file to a larger disk",
        ),
        Some(free) => CheckJson::ok("disk", format!("{taken}; {} are left on the disk", size(free))),
        None => CheckJson::ok("disk", taken),
    }
}

#[cfg(unix)]
fn free(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free(_path: &Path) -> Option<u64> {
    None
}

fn postgres(version: &str, server: &PostgresVitals, trip: Duration) -> Vec<CheckJson> {
    let answers = format!("PostgreSQL {version} answers in {}", took(trip));
    let database = match (server.is_standby, server.version_number < OLDEST) {
        (true, _) => CheckJson::fail("database", format!("{answers}, but is a standby"), "name the primary"),
        (false, true) => {
            CheckJson::warn("database", answers, "only version 13 and newer are tested: upgrade it")
        }
        (false, false) => CheckJson::ok("database", answers),
    };
    let durability = match server.unsafe_settings.as_slice() {
        [] => CheckJson::ok("durability", "what is acknowledged is on disk"),
        off => CheckJson::warn(
            "durability",
            format!("{} off: a crash of the server may undo what was acknowledged", off.join(" and ")),
            format!("set {} = on", off.join(" = on and ")),
        ),
    };
    let privileges = match server.forbidden.first() {
        None => CheckJson::ok("privileges", "our role may do all that nodes need"),
        Some(first) => CheckJson::fail(
            "privileges",
            format!("our role lacks {first} and {} more", server.forbidden.len() - 1),
            "grant select, insert, update, delete on all tables in schema outlast to it",
        ),
    };
    let notifications = match server.notified {
        Some(took) => CheckJson::ok("notifications", lasting(took, "from one connection to another")),
        None => CheckJson::warn(
            "notifications",
            "LISTEN hears nothing: nodes find new work only when they look by themselves",
            "let nodes reach PostgreSQL directly, or through a pooler in session mode",
        ),
    };
    let pooler = match server.is_pooled {
        false => CheckJson::ok("pooler", "none in between"),
        true => CheckJson::ok("pooler", "a transaction pooler is in between: statements stay unnamed"),
    };
    let disk =
        CheckJson::ok("disk", format!("the database has {}", size(u64::try_from(server.bytes).unwrap_or(0))));
    vec![database, durability, privileges, notifications, pooler, connections(server), vacuum(server), disk]
}

fn connections(server: &PostgresVitals) -> CheckJson {
    let PostgresVitals { connections, connections_most: most, pool, .. } = server;
    let detail = format!("{connections} of {most} in use; each node takes up to {}", pool + 3);
    let fix = "raise max_connections, run fewer nodes, give them ?pool=8, or put a pooler in between";
    match (i64::try_from(*pool).unwrap_or(i64::MAX) + 3 > *most, connections * 100 > most * BUSY) {
        (true, _) => CheckJson::fail("connections", detail, fix),
        (false, true) => CheckJson::warn("connections", detail, fix),
        (false, false) => CheckJson::ok("connections", detail),
    }
}

fn vacuum(server: &PostgresVitals) -> CheckJson {
    if !server.has_autovacuum {
        let fix = "alter system set autovacuum = on, and reload";
        return CheckJson::fail("vacuum", "autovacuum is off: tables only grow, and claims get slow", fix);
    }
    if let Some(table) = server.tables.iter().find(|table| table.is_neglected) {
        let detail = format!("outlast.{} is not cleaned up", table.name);
        let fix = format!("alter table outlast.{} reset (autovacuum_enabled)", table.name);
        return CheckJson::fail("vacuum", detail, fix);
    }
    if server.oldest_transaction > LONG {
        let detail = lasting(
            server.oldest_transaction,
            "old is the oldest transaction: nothing since then is cleaned up",
        );
        let fix = "end it (pg_stat_activity shows it), and set idle_in_transaction_session_timeout";
        return CheckJson::warn("vacuum", detail, fix);
    }
    match server.tables.first() {
        Some(table) => CheckJson::warn(
            "vacuum",
            format!("outlast.{} has {} dead rows beside {} live ones", table.name, table.dead, table.live),
            format!("vacuum outlast.{}; let autovacuum come by more often", table.name),
        ),
        None => CheckJson::ok("vacuum", "tables are cleaned up"),
    }
}

#[cfg(test)]
mod tests {
    use outlast_store::TableVitals;

    use super::super::Light;
    use super::*;

    fn light(server: &PostgresVitals, name: &str) -> Light {
        let checks = postgres("16", server, Duration::ZERO);
        checks.into_iter().find(|check| check.name == name).unwrap().status
    }

    fn healthy() -> PostgresVitals {
        PostgresVitals {
            version_number: 160_000,
            connections_most: 97,
            connections: 5,
            pool: 16,
            notified: Some(Duration::from_millis(1)),
            has_autovacuum: true,
            ..PostgresVitals::default()
        }
    }

    #[test]
    fn each_fact_that_is_wrong_turns_its_own_light() {
        for check in postgres("16", &healthy(), Duration::ZERO) {
            assert_eq!(check.status, Light::Ok, "{check:?}");
        }
        let table = |is_neglected| TableVitals { name: "agenda".into(), live: 1, dead: 20_000, is_neglected };
        for (change, name, wanted) in [
            (PostgresVitals { is_standby: true, ..healthy() }, "database", Light::Fail),
            (PostgresVitals { version_number: 120_000, ..healthy() }, "database", Light::Warn),
            (
                PostgresVitals { forbidden: vec!["DELETE on outlast.runs".into()], ..healthy() },
                "privileges",
                Light::Fail,
            ),
            (PostgresVitals { notified: None, ..healthy() }, "notifications", Light::Warn),
            (PostgresVitals { connections: 90, ..healthy() }, "connections", Light::Warn),
            (PostgresVitals { pool: 200, ..healthy() }, "connections", Light::Fail),
            (PostgresVitals { has_autovacuum: false, ..healthy() }, "vacuum", Light::Fail),
            (PostgresVitals { tables: vec![table(true)], ..healthy() }, "vacuum", Light::Fail),
            (PostgresVitals { tables: vec![table(false)], ..healthy() }, "vacuum", Light::Warn),
            (PostgresVitals { oldest_transaction: LONG * 2, ..healthy() }, "vacuum", Light::Warn),
            (
                PostgresVitals { unsafe_settings: vec!["fsync".into()], ..healthy() },
                "durability",
                Light::Warn,
            ),
        ] {
            assert_eq!(light(&change, name), wanted, "{name}: {change:?}");
        }
    }

    #[test]
    fn a_clock_is_judged_beyond_the_way_to_the_database() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let second = Duration::from_secs(1);
        assert_eq!(clock(at(100), at(103), second, "postgres").status, Light::Ok);
        assert_eq!(clock(at(100), at(160), second, "postgres").status, Light::Warn);
        assert_eq!(clock(at(160), at(100), second, "postgres").status, Light::Warn);
        assert_eq!(clock(at(160), at(100), second, "sqlite").status, Light::Ok);
    }
}
