//! The schema as people handle it: where a database stands, what it lacks, bringing it up step by step, and the text of
//! every step for those who run it by hand.

use std::sync::Arc;

use crate::address::{Place, place};
use crate::migrate::{Found, MIGRATIONS, Migration, next};
use crate::render::Dialect;
use crate::revert::way_by_hand;
use crate::{OpenOptions, StoreError, postgres, sqlite};

/// Where a database's schema stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The database, for people.
    pub place: String,
    /// The newest file that was applied; 0 where there is nothing of ours.
    pub at: i64,
    /// The newest file that this program knows.
    pub newest: i64,
    /// Every file that this program knows.
    pub files: Vec<SchemaFile>,
}

/// A file of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFile {
    /// Its number.
    pub number: i64,
    /// What it is about.
    pub name: &'static str,
    /// The oldest program that can go on once it was applied, by the newest file that it knows.
    pub serves: i64,
    /// Whether it was applied.
    pub is_applied: bool,
}

impl Schema {
    /// Whether this program can work with it as it is.
    pub fn is_complete(&self) -> bool {
        self.files.iter().all(|file| file.is_applied)
    }
}

/// The newest file of the schema that this program knows.
pub fn newest_schema() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// Looks where a schema stands, and changes nothing. A file that does not exist has none.
///
/// What is not ours, or was made by another text than this program's, is refused.
pub async fn schema(url: &str) -> Result<Schema, StoreError> {
    let (found, place) = look(url).await?;
    // Whatever stands against it is said.
    next(&found, false, &place)?;
    Ok(view(&found, place))
}

/// Brings a schema up to date, or up to one of its files; says where it stands then.
///
/// Each file is a transaction of its own under a lock that keeps others out: whoever is stopped goes on where they were.
pub async fn migrate(url: &str, up_to: Option<i64>) -> Result<Schema, StoreError> {
    let options = OpenOptions { up_to, ..OpenOptions::default() };
    if up_to != Some(0) {
        match place(url)? {
            Place::Memory => {}
            Place::File(file) => sqlite::migrate(file, options).await?,
            Place::Postgres(url) => postgres::migrate_at(&url.0, &options).await?,
        }
    }
    schema(url).await
}

/// Takes a schema back to one of its files, or with `dry_run` only looks whether it can be; says where it stands then.
///
/// All or nothing, under the lock of [`migrate`]. Refused where a node is up, where rows would be lost that older files have
/// no place for, and behind files that changed what was there before them.
pub async fn revert(url: &str, to: i64, dry_run: bool) -> Result<Schema, StoreError> {
    match place(url)? {
        Place::Memory => {}
        Place::File(file) => sqlite::revert(file, to, dry_run).await?,
        Place::Postgres(url) => postgres::revert_at(&url.0, to, dry_run).await?,
    }
    schema(url).await
}

/// The statements of the files behind `after` up to `up_to`, for the kind of database that the URL names, each file in a
/// transaction and with what notes that it was applied. Where `up_to` is before `after`: those that lead back.
pub fn schema_text(url: &str, after: i64, up_to: i64) -> Result<String, StoreError> {
    let dialect = match place(url)? {
        Place::Memory | Place::File(_) => Dialect::Sqlite,
        Place::Postgres(_) => Dialect::Postgres,
    };
    if up_to < after {
        return way_by_hand(after, up_to, dialect);
    }
    let wanted = MIGRATIONS.iter().filter(|file| file.number > after && file.number <= up_to);
    Ok(wanted.map(|file| by_hand(file, dialect)).collect::<Vec<_>>().join("\n"))
}

/// A file as somebody runs it who has no program of ours at hand.
fn by_hand(file: &Migration, dialect: Dialect) -> String {
    let Migration { number, name, serves, .. } = file;
    let (prefix, now, before, greatest) = match dialect {
        Dialect::Postgres => {
            let before = if *number == 1 { "create schema if not exists outlast;\n" } else { "" };
            let greatest = "greatest(outlast.meta.value::bigint, excluded.value::bigint)::text";
            ("outlast.", "(extract(epoch from now()) * 1000000)::bigint", before, greatest)
        }
        Dialect::Sqlite => {
            let greatest = "cast(max(cast(value as integer), cast(excluded.value as integer)) as text)";
            ("outlast_", "cast((julianday('now') - 2440587.5) * 86400000000.0 as integer)", "", greatest)
        }
    };
    let shards = match number {
        1 => format!("insert into {prefix}meta (name, value) values ('shards', '1');\n"),
        _ => String::new(),
    };
    format!(
        "-- {number} {name}\nbegin;\n{before}{}\n\
         insert into {prefix}migrations (number, name, checksum, applied_at)\n    values ({number}, '{name}', '{}', {now});\n\
         insert into {prefix}meta (name, value) values ('serves', '{serves}')\n    on conflict (name) do update set value = {greatest};\n\
         {shards}commit;\n",
        file.text(dialect).trim(),
        file.checksum(),
    )
}

async fn look(url: &str) -> Result<(Found, String), StoreError> {
    match place(url)? {
        Place::Memory => Ok((Found::Nothing, "the database in memory".to_owned())),
        Place::File(file) => sqlite::look_at(file).await,
        Place::Postgres(url) => postgres::look_at(&url.0).await,
    }
}

fn view(found: &Found, place: String) -> Schema {
    let applied: Arc<[i64]> = match found {
        Found::Ours(applied, _) => applied.iter().map(|done| done.number).collect(),
        Found::Nothing | Found::Foreign => Arc::new([]),
    };
    let file = |file: &Migration| SchemaFile {
        number: file.number,
        name: file.name,
        serves: file.serves,
        is_applied: applied.contains(&file.number),
    };
    Schema {
        place,
        at: applied.last().copied().unwrap_or(0),
        newest: MIGRATIONS.last().map_or(0, |file| file.number),
        files: MIGRATIONS.iter().map(file).collect(),
    }
}
