//! Migrations: numbered SQL files, each applied once, in its own transaction.
//!
//! What is to be done follows from what the database says was done ([`next`]), so a start that died in
//! between goes on where it stopped, and many nodes that start at once need only agree on who writes:
//! each driver takes its lock, looks again, and applies at most one file. A schema that we would not
//! understand is refused with both versions named; it is never guessed at.

use std::borrow::Cow;

use crate::StoreError;
use crate::render::{Dialect, named};

/// One numbered file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    pub(crate) number: i64,
    pub(crate) name: &'static str,
    text: &'static str,
    /// The oldest program, by the newest file that it knows, that can go on with the schema once this was applied:
    /// so far back may nodes be while a fleet is brought up to date, or back.
    pub(crate) serves: i64,
}

/// A file with which no older program can go on.
const fn breaking(number: i64, name: &'static str, text: &'static str) -> Migration {
    Migration { number, name, text, serves: number }
}

/// A file with which programs that know those up to `serves` can go on.
const fn added(number: i64, name: &'static str, text: &'static str, serves: i64) -> Migration {
    Migration { number, name, text, serves }
}

/// All of them, in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    breaking(1, "begin", include_str!("../migrations/0001_begin.sql")),
    breaking(2, "views", include_str!("../migrations/0002_views.sql")),
    breaking(3, "listeners_and_queues", include_str!("../migrations/0003_listeners_and_queues.sql")),
    breaking(4, "heard", include_str!("../migrations/0004_heard.sql")),
    breaking(5, "heard_before", include_str!("../migrations/0005_heard_before.sql")),
    breaking(6, "alone", include_str!("../migrations/0006_alone.sql")),
    breaking(7, "blocked_until", include_str!("../migrations/0007_blocked_until.sql")),
    breaking(8, "progress", include_str!("../migrations/0008_progress.sql")),
    breaking(9, "queues", include_str!("../migrations/0009_queues.sql")),
    breaking(10, "schedules", include_str!("../migrations/0010_schedules.sql")),
    breaking(11, "kv", include_str!("../migrations/0011_kv.sql")),
    breaking(12, "undo", include_str!("../migrations/0012_undo.sql")),
    breaking(13, "schedule_line", include_str!("../migrations/0013_schedule_line.sql")),
    breaking(14, "group_of_runs", include_str!("../migrations/0014_group_of_runs.sql")),
    breaking(15, "explained", include_str!("../migrations/0015_explained.sql")),
    breaking(16, "repair", include_str!("../migrations/0016_repair.sql")),
    breaking(17, "paused_and_orphans", include_str!("../migrations/0017_paused_and_orphans.sql")),
    // What is only added is no matter to those who do not know it.
    added(18, "access", include_str!("../migrations/0018_access.sql"), 17),
    added(19, "rollups", include_str!("../migrations/0019_rollups.sql"), 17),
    added(20, "sessions_and_depths", include_str!("../migrations/0020_sessions_and_depths.sql"), 17),
    added(21, "steps_of_logs", include_str!("../migrations/0021_steps_of_logs.sql"), 17),
    added(22, "lost_nodes_and_audit", include_str!("../migrations/0022_lost_nodes_and_audit.sql"), 17),
    added(23, "loose_runs", include_str!("../migrations/0023_loose_runs.sql"), 17),
    added(24, "queues_and_failures", include_str!("../migrations/0024_queues_and_failures.sql"), 17),
    added(25, "audit_chain", include_str!("../migrations/0025_audit_chain.sql"), 17),
    added(
        26,
        "told_of_nodes_and_failures",
        include_str!("../migrations/0026_told_of_nodes_and_failures.sql"),
        17,
    ),
    added(27, "queues_of_tokens", include_str!("../migrations/0027_queues_of_tokens.sql"), 17),
    added(28, "began", include_str!("../migrations/0028_began.sql"), 17),
    added(29, "lines", include_str!("../migrations/0029_lines.sql"), 17),
    added(30, "leases", include_str!("../migrations/0030_leases.sql"), 17),
    added(31, "took", include_str!("../migrations/0031_took.sql"), 17),
    added(32, "late_claims", include_str!("../migrations/0032_late_claims.sql"), 17),
];

/// Where we note what was applied. Runs in the transaction of the first file.
const BOOKS: &str = "
create table if not exists outlast.migrations (
    number {big} not null primary key,
    name text not null,
    checksum text not null,
    applied_at {big} not null
);
create table if not exists outlast.meta (
    name text not null primary key,
    value text not null
);
";

/// A row of `outlast.migrations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) number: i64,
    pub(crate) checksum: String,
}

/// What a look at the database found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing of ours.
    Nothing,
    /// Tables under our name, without our books.
    Foreign,
    /// Our books, in order of their numbers, and the oldest program that they serve, if they say so.
    Ours(Vec<Applied>, Option<i64>),
}

impl Migration {
    /// The whole file as a database reads it, with the books in front of the first.
    pub(crate) fn text(&self, dialect: Dialect) -> String {
        let books = if self.number == 1 { BOOKS } else { "" };
        rendered(&format!("{books}{}", self.text), dialect)
    }

    /// Tells whether a file was changed after it had been applied somewhere.
    pub(crate) fn checksum(&self) -> String {
        // FNV-1a: this finds accidents, nobody forges it. A checkout may change line ends.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in self.text.bytes().filter(|byte| *byte != b'\r') {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        format!("{hash:016x}")
    }
}

/// A text of ours as a database reads it.
pub(crate) fn rendered(text: &str, dialect: Dialect) -> String {
    let mut text = with_explained(text);
    for (slot, sqlite, postgres) in [
        ("{small}", "integer", "smallint"),
        ("{int}", "integer", "integer"),
        ("{big}", "integer", "bigint"),
        ("{bytes}", "blob", "bytea"),
        ("{id}", "blob", "uuid"),
        // Of itself SQLite compares bytes.
        ("{bytewise}", "collate binary", "collate \"C\""),
        // True of every run in line, and said by no claim.
        ("{of_all}", "", " and attempt > 0"),
    ] {
        text = text.replace(slot, if dialect == Dialect::Sqlite { sqlite } else { postgres });
    }
    text = shown(&text, dialect);
    if dialect == Dialect::Sqlite {
        // Indexes share their names with the user's, who may have tables in the same file.
        text = text.replace("create index ", "create index outlast_");
        text = text.replace("create unique index ", "create unique index outlast_");
    }
    match named(&text, dialect) {
        Cow::Owned(prefixed) => prefixed,
        Cow::Borrowed(_) => text,
    }
}

/// Fills `{explained TABLE}`: the view of why runs do not go on, with nodes as that table has them.
fn with_explained(text: &str) -> String {
    const FIRST: &str = include_str!("../migrations/0015_explained.sql");
    let Some((before, (table, after))) =
        text.split_once("{explained ").and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return text.to_owned();
    };
    let view = FIRST.find("create view").map_or("", |begin| &FIRST[begin..]);
    format!("{before}{}{after}", view.replace("outlast.nodes", table))
}

/// Fills the slots of views: what a column looks like to a person.
fn shown(text: &str, dialect: Dialect) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, slot, after)) = view_slot(rest) {
        out.push_str(before);
        let words: Vec<&str> = slot.split(' ').collect();
        out.push_str(&match (words.as_slice(), dialect) {
            (["json", bytes, codec], Dialect::Postgres) => {
                format!("case when {codec} is null then convert_from({bytes}, 'UTF8')::json end")
            }
            (["json", bytes, codec], Dialect::Sqlite) => {
                format!("case when {codec} is null then cast({bytes} as text) end")
            }
            (["time", micros], Dialect::Postgres) => format!("to_timestamp({micros} / 1000000.0)"),
            (["time", micros], Dialect::Sqlite) => {
                format!("strftime('%Y-%m-%dT%H:%M:%fZ', {micros} / 1000000.0, 'unixepoch')")
            }
            (["now"], Dialect::Postgres) => "(extract(epoch from statement_timestamp()) * 1000000)::bigint".to_owned(),
            (["now"], Dialect::Sqlite) => "cast((julianday('now') - 2440587.5) * 86400000000.0 as integer)".to_owned(),
            (["rule", queue, name], Dialect::Postgres) => {
                format!("(coalesce({queue}.own_rules, {queue}.rules)::json ->> '{name}')::bigint")
            }
            (["rule", queue, name], Dialect::Sqlite) => {
                format!("json_extract(coalesce({queue}.own_rules, {queue}.rules), '$.{name}')")
            }
            (["has", list, text], Dialect::Postgres) => {
                format!("exists (select 1 from json_array_elements_text({list}::json) as e(value) where e.value = {text})")
            }
            (["has", list, text], Dialect::Sqlite) => {
                format!("exists (select 1 from json_each({list}) as e where e.value = {text})")
            }
            (["listed", words], Dialect::Postgres) => format!("string_agg({words}, ' or ' order by {words})"),
            (["listed", words], Dialect::Sqlite) => format!("group_concat({words}, ' or ')"),
            (["shown", id], Dialect::Postgres) => (*id).to_owned(),
            (["shown", id], Dialect::Sqlite) => format!("lower(hex({id}))"),
            _ => format!("{{{slot}}}"),
        });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The text before the next slot, the slot, and the text after it.
fn view_slot(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (slot, after) = rest.split_once('}')?;
    Some((before, slot, after))
}

/// The file to apply next; `None` when the schema is ours and complete.
pub(crate) fn next(
    found: &Found,
    no_migrate: bool,
    place: &str,
) -> Result<Option<&'static Migration>, StoreError> {
    let newest = MIGRATIONS.last().map_or(0, |migration| migration.number);
    let (applied, serves): (&[Applied], _) = match found {
        Found::Nothing => (&[], None),
        Found::Ours(applied, serves) => (applied, *serves),
        Found::Foreign => {
            return refused(format!(
                "{place} has tables under the name `outlast` that are not ours (its table `migrations` is \
                 missing): use another database, or move them away"
            ));
        }
    };

    let at = applied.last().map_or(0, |last| last.number);
    if at > newest && serves.is_none_or(|serves| serves > newest) {
        return refused(format!(
            "{place} has schema version {at}, and this program knows versions up to {newest}: use a newer \
             program"
        ));
    }
    for done in applied.iter().filter(|done| done.number <= newest) {
        let known = MIGRATIONS.iter().find(|migration| migration.number == done.number);
        let same = known.is_some_and(|migration| migration.checksum() == done.checksum);
        if !same {
            return refused(format!(
                "schema version {} in {place} was made by another text than this program's (checksum {}, \
                 here {}): use the program that made it, or a released version",
                done.number,
                done.checksum,
                known.map_or("none".to_owned(), Migration::checksum),
            ));
        }
    }

    let todo =
        MIGRATIONS.iter().find(|migration| !applied.iter().any(|done| done.number == migration.number));
    if no_migrate && let Some(_) = todo {
        let has = if at == 0 { "no schema of ours".to_owned() } else { format!("schema version {at}") };
        return refused(format!(
            "{place} has {has}, and this program needs version {newest}: run `outlast migrate up`, or start a node of this version, which brings it up to date"
        ));
    }
    Ok(todo)
}

/// Says that a program works with a schema that is newer than what it knows.
pub(crate) fn say_newer(found: &Found, place: &str) {
    let newest = MIGRATIONS.last().map_or(0, |migration| migration.number);
    if let Found::Ours(applied, _) = found
        && let Some(last) = applied.last().filter(|last| last.number > newest)
    {
        tracing::info!(
            schema = last.number,
            known = newest,
            "{place} has a newer schema than this program knows, and serves it all the same"
        );
    }
}

/// The number of shards that `outlast.meta` tells.
pub(crate) fn shards(value: Option<&str>, place: &str) -> Result<u16, StoreError> {
    match value.and_then(|value| value.parse().ok()) {
        Some(shards) if (1..=outlast_core::RunId::MAX_SHARDS).contains(&shards) => Ok(shards),
        _ => refused(format!(
            "{place} does not say how many shards it has (row `shards` of table `meta`, found {value:?}): \
             restore it from a backup"
        )),
    }
}

fn refused<T>(why: String) -> Result<T, StoreError> {
    Err(StoreError::Schema(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(number: i64) -> Applied {
        let known = MIGRATIONS.iter().find(|migration| migration.number == number);
        Applied { number, checksum: known.map_or("0".to_owned(), Migration::checksum) }
    }

    fn refusal(found: Found, no_migrate: bool) -> String {
        next(&found, no_migrate, "orders.db").unwrap_err().to_string()
    }

    #[test]
    fn an_empty_database_begins_with_the_first_file() {
        assert_eq!(next(&Found::Nothing, false, "x").unwrap().unwrap().number, 1);
        assert_eq!(next(&Found::Ours(vec![], None), false, "x").unwrap().unwrap().number, 1);
    }

    #[test]
    fn a_complete_one_needs_nothing() {
        let all = MIGRATIONS.iter().map(|migration| done(migration.number)).collect();
        assert_eq!(next(&Found::Ours(all, None), true, "x").unwrap(), None);
    }

    #[test]
    fn a_newer_schema_is_refused_with_both_versions() {
        let newest = MIGRATIONS.last().unwrap().number;
        for serves in [None, Some(newest + 1), Some(900)] {
            let text = refusal(Found::Ours(vec![done(1), done(900)], serves), false);
            assert!(text.contains("schema version 900"), "{text}");
            assert!(text.contains(&format!("up to {newest}")), "{text}");
        }
    }

    #[test]
    fn a_newer_schema_that_says_that_it_serves_this_program_is_used() {
        let newest = MIGRATIONS.last().unwrap().number;
        let mut applied: Vec<Applied> = MIGRATIONS.iter().map(|migration| done(migration.number)).collect();
        applied.push(Applied { number: 900, checksum: "beef".into() });
        for serves in [1, newest] {
            assert_eq!(next(&Found::Ours(applied.clone(), Some(serves)), true, "x").unwrap(), None);
        }
    }

    #[test]
    fn no_file_serves_programs_that_it_does_not_know() {
        for migration in MIGRATIONS {
            assert!((1..=migration.number).contains(&migration.serves), "{}", migration.name);
        }
    }

    #[test]
    fn a_changed_file_is_refused() {
        let text = refusal(Found::Ours(vec![Applied { number: 1, checksum: "beef".into() }], None), false);
        assert!(text.contains("checksum beef"), "{text}");
    }

    #[test]
    fn without_leave_to_migrate_a_missing_schema_is_refused() {
        let text = refusal(Found::Nothing, true);
        assert!(text.contains("no schema of ours") && text.contains("needs version"), "{text}");
    }

    #[test]
    fn somebody_elses_tables_are_refused() {
        assert!(refusal(Found::Foreign, false).contains("not ours"));
    }

    #[test]
    fn every_slot_is_filled_and_indexes_get_a_prefix_on_sqlite() {
        for migration in MIGRATIONS {
            for dialect in [Dialect::Sqlite, Dialect::Postgres] {
                let text = migration.text(dialect);
                let code: String = text.lines().filter(|line| !line.starts_with("--")).collect();
                assert!(!code.contains('{'), "{text}");
            }
        }
        let text = MIGRATIONS[0].text(Dialect::Sqlite);
        assert!(text.contains("create index outlast_runs_by_time on outlast_runs ("), "{text}");
    }
}
