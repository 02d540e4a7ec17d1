//! Connections to SQLite: how they are opened, migrated and waited for.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use outlast_core::ShardCount;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::error::{is_busy, meaning};
use crate::address::check_file;
use crate::migrate::{self, Applied, Found};
use crate::render::Dialect;
use crate::revert::way;
use crate::{OpenOptions, StoreError};

/// How long we wait for another process's transaction.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many statements a connection keeps prepared: more than there are.
const STATEMENTS: usize = 512;
/// What stays of the write-ahead log after a checkpoint.
const LOG_BYTES: u32 = 64 * 1024 * 1024;

/// How much of the file the writer keeps in memory: the ends of its trees, where everything new goes.
const CACHE_KB: i32 = 8 * 1024;

/// Opens the one connection that writes.
pub(super) fn writer(file: Option<&Path>, options: &OpenOptions) -> Result<Connection, StoreError> {
    let flags = access(options.read_only) | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match file {
        None => Connection::open_in_memory_with_flags(flags).map_err(meaning)?,
        Some(file) => {
            check_file(file, !options.no_migrate)?;
            let create = if options.no_migrate { OpenFlags::empty() } else { OpenFlags::SQLITE_OPEN_CREATE };
            Connection::open_with_flags(file, flags | create)
                .map_err(|error| in_file(meaning(error), file))?
        }
    };
    connection.busy_timeout(Duration::ZERO).map_err(meaning)?;
    if let Some(file) = file {
        // A file that is not for us is left exactly as it is: look before the first change.
        let found = look(&connection).map_err(|error| in_file(error, file))?;
        migrate::next(&found, options.no_migrate, &file.display().to_string())?;
    }
    let set_up = || {
        if options.read_only {
            return remember_statements(&connection);
        }
        if connection.is_readonly(rusqlite::MAIN_DB).map_err(meaning)? {
            let why = "the file cannot be written to: check its permissions and its owner";
            return Err(StoreError::Address(why.to_owned()));
        }
        let mode = wait_for(|| {
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
        })?;
        if file.is_some() && mode != "wal" {
            let why = "SQLite cannot keep a write-ahead log there: put the file on a local disk";
            return Err(StoreError::Address(why.to_owned()));
        }
        wait_for(|| {
            connection.pragma_update(None, "synchronous", "full")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // What a statement may have to undo is kept in memory, not in a file of its own.
            connection.pragma_update(None, "temp_store", "memory")?;
            connection.pragma_update(None, "cache_size", -CACHE_KB)?;
            connection.pragma_update(None, "journal_size_limit", LOG_BYTES)
        })?;
        remember_statements(&connection)
    };
    match (set_up(), file) {
        (Ok(()), _) => Ok(connection),
        (Err(error), Some(file)) => Err(in_file(error, file)),
        (Err(error), None) => Err(error),
    }
}

/// Opens a connection that only reads.
///
/// Where others write it may have to mend the log that a crash left; `read_only` forbids even that.
pub(super) fn reader(file: &Path, read_only: bool) -> Result<Connection, StoreError> {
    let flags = access(read_only) | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(meaning)?;
    connection.busy_timeout(Duration::ZERO).map_err(meaning)?;
    wait_for(|| connection.pragma_update(None, "query_only", true))?;
    remember_statements(&connection)?;
    Ok(connection)
}

fn access(read_only: bool) -> OpenFlags {
    if read_only { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE }
}

/// Statements are prepared once, and stay so: with plans that may depend on what is bound, SQLite would
/// prepare some of them anew for every row.
fn remember_statements(connection: &Connection) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop).map_err(meaning)
}

/// Does something that another process's lock may hold up, again and again until it does not.
pub(super) fn wait_for<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> Result<T, StoreError> {
    // Mostly nobody is in the way, and no clock is asked.
    let mut began = None;
    let mut pause = Duration::from_micros(500);
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && began.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Err(error) if is_busy(&error) => {
                let why = format!("another process has held the file's lock for {PATIENCE:?} ({error})");
                return Err(StoreError::Unavailable(why.into()));
            }
            other => return other.map_err(meaning),
        }
    }
}

/// Brings the schema up to date and tells how many shards it has.
pub(super) fn migrate(
    connection: &Connection,
    options: &OpenOptions,
    place: &str,
) -> Result<ShardCount, StoreError> {
    let mut found = look(connection)?;
    let wanted = |next: &&migrate::Migration| options.up_to.is_none_or(|last| next.number <= last);
    while migrate::next(&found, options.no_migrate, place)?.filter(wanted).is_some() {
        wait_for(|| connection.execute_batch("begin immediate"))?;
        // Somebody else may have been quicker: what counts is what the lock shows.
        let next = migrate::next(&look(connection)?, options.no_migrate, place);
        let applied = match next.map(|next| next.filter(wanted)) {
            Ok(Some(migration)) => apply(connection, migration, options),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = applied.and_then(|()| wait_for(|| connection.execute_batch("commit"))) {
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("rollback");
            }
            return Err(error);
        }
        found = look(connection)?;
    }
    migrate::say_newer(&found, place);
    let shards = "select value from outlast_meta where name = 'shards'";
    let shards: Option<String> = wait_for(|| connection.query_row(shards, [], |row| row.get(0)).optional())?;
    migrate::shards(shards.as_deref(), place)
}

/// Takes the schema back to a file, or only looks whether it can be.
pub(super) fn revert(connection: &Connection, to: i64, dry_run: bool, place: &str) -> Result<(), StoreError> {
    wait_for(|| connection.execute_batch("begin immediate"))?;
    let work = || {
        let way = way(&look(connection)?, to, place, Dialect::Sqlite)?;
        for question in &way.questions {
            if connection.query_row(&question.sql, [], |_| Ok(())).optional().map_err(meaning)?.is_some() {
                return Err(question.refusal(place));
            }
        }
        if dry_run {
            return connection.execute_batch("rollback").map_err(meaning);
        }
        way.texts.iter().try_for_each(|text| connection.execute_batch(text)).map_err(meaning)?;
        wait_for(|| connection.execute_batch("commit"))
    };
    let done = work();
    if done.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("rollback");
    }
    done
}

fn apply(
    connection: &Connection,
    migration: &migrate::Migration,
    options: &OpenOptions,
) -> Result<(), StoreError> {
    connection.execute_batch(&migration.text(Dialect::Sqlite)).map_err(meaning)?;
    let note = "insert into outlast_migrations (number, name, checksum, applied_at) values (?1, ?2, ?3, ?4)";
    let now = options.clock.local_now().micros();
    connection
        .execute(note, (migration.number, migration.name, migration.checksum(), now))
        .map_err(meaning)?;
    let serves = "insert into outlast_meta (name, value) values ('serves', ?1) on conflict (name) do update
                  set value = cast(max(cast(value as integer), cast(excluded.value as integer)) as text)";
    connection.execute(serves, [migration.serves.to_string()]).map_err(meaning)?;
    if migration.number == 1 {
        let shards = options.shards.max(1).to_string();
        connection
            .execute("insert into outlast_meta (name, value) values ('shards', ?1)", [shards])
            .map_err(meaning)?;
    }
    Ok(())
}

pub(super) fn look(connection: &Connection) -> Result<Found, StoreError> {
    wait_for(|| {
        let ours = "select count(*), count(*) filter (where name = 'outlast_migrations')
                      from sqlite_master where type = 'table' and name like 'outlast\\_%' escape '\\'";
        let (tables, books) = connection.query_row(ours, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        match (tables, books) {
            (0i64, _) => Ok(Found::Nothing),
            (_, 0i64) => Ok(Found::Foreign),
            _ => {
                let applied = "select number, checksum from outlast_migrations order by number";
                let mut applied = connection.prepare(applied)?;
                let rows = applied
                    .query_map([], |row| Ok(Applied { number: row.get(0)?, checksum: row.get(1)? }))?;
                let applied = rows.collect::<Result<_, _>>()?;
                let serves = "select cast(value as integer) from outlast_meta where name = 'serves'";
                let serves = connection.query_row(serves, [], |row| row.get(0)).optional()?;
                Ok(Found::Ours(applied, serves))
            }
        }
    })
}

fn in_file(error: StoreError, file: &Path) -> StoreError {
    match error {
        StoreError::Address(why) => StoreError::Address(format!("{}: {why}", file.display())),
        StoreError::Schema(why) => StoreError::Schema(format!("{}: {why}", file.display())),
        other => other,
    }
}
