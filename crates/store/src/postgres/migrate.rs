//! Migrations on PostgreSQL: one file at a time, under a lock that ends with its transaction.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::ShardCount;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type as PgType};

use super::error::{is_race, meaning};
use super::pool::Pool;
use crate::migrate::{self, Applied, Found, Migration};
use crate::render::Dialect;
use crate::revert::way;
use crate::{CONFLICT_TRIES, OpenOptions, StoreError};

/// How long a migration may take, and how long we wait for somebody else's.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a migration waits for a table that somebody reads. Whoever wants to read or write it meanwhile stands in line
/// behind the migration, nodes of the schema before among them; so it lets them go, and comes again.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Brings the schema up to date and tells how many shards it has.
pub(super) async fn migrate(
    pool: &Arc<Pool>,
    options: &OpenOptions,
    place: &str,
) -> Result<ShardCount, StoreError> {
    let work = async {
        let connection = pool.lease().await?;
        let client = connection.client();
        let mut found = look(client, place).await?;
        while let Some(next) = migrate::next(&found, options.no_migrate, place)?.filter(wanted(options)) {
            tracing::debug!(number = next.number, name = next.name, "the schema lacks a migration");
            step(client, options, place).await?;
            found = look(client, place).await?;
        }
        migrate::say_newer(&found, place);
        let sql = "select value from outlast.meta where name = 'shards'";
        let rows = client.query_typed(sql, &[]).await.map_err(|error| said(&error, place))?;
        let value = rows.first().and_then(|row| row.try_get::<_, String>(0).ok());
        connection.give_back();
        migrate::shards(value.as_deref(), place)
    };
    timeout(PATIENCE, work).await.unwrap_or_else(|_| {
        let why = format!("the migration, or waiting for somebody else's, took longer than {PATIENCE:?}");
        Err(StoreError::Unavailable(why.into()))
    })
}

/// Takes the schema back to a file, or only looks whether it can be.
pub(super) async fn revert(pool: &Arc<Pool>, to: i64, dry_run: bool, place: &str) -> Result<(), StoreError> {
    let connection = pool.lease().await?;
    let client = connection.client();
    let work = async {
        begin(client).await?;
        let found = look(client, place).await.map_err(Failure::Ours)?;
        let way = way(&found, to, place, Dialect::Postgres).map_err(Failure::Ours)?;
        for question in &way.questions {
            if !client.query_typed(&question.sql, &[]).await?.is_empty() {
                return Err(Failure::Ours(question.refusal(place)));
            }
        }
        for text in way.texts.iter().filter(|_| !dry_run) {
            client.batch_execute(text).await?;
        }
        client.batch_execute(if dry_run { "rollback" } else { "commit" }).await?;
        Ok(())
    };
    let done = timeout(PATIENCE, work).await.unwrap_or_else(|_| {
        let why =
            format!("the way back, or waiting for somebody else's migration, took longer than {PATIENCE:?}");
        Err(Failure::Ours(StoreError::Unavailable(why.into())))
    });
    match done {
        Ok(()) => {
            connection.give_back();
            Ok(())
        }
        // A connection that is not given back is closed, and what it had begun with it.
        Err(Failure::Ours(error)) => Err(error),
        Err(Failure::Servers(error)) => Err(said(&error, place)),
    }
}

/// Applies the next file, unless somebody else has while we waited for the lock.
async fn step(client: &Client, options: &OpenOptions, place: &str) -> Result<(), StoreError> {
    for attempt in 1.. {
        let error = match attempt_step(client, options, place).await {
            Ok(()) => return Ok(()),
            Err(Failure::Ours(error)) => {
                let _ = client.batch_execute("rollback").await;
                return Err(error);
            }
            Err(Failure::Servers(error)) => error,
        };
        let _ = client.batch_execute("rollback").await;
        // As often as there is time: a backup may read for a minute.
        let is_locked = error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
        if is_locked {
            tracing::info!(
                place,
                "a migration waits for a table that somebody reads or writes, and comes again"
            );
        }
        // Where advisory locks mean nothing, two may have made the same thing.
        if !is_locked && (!is_race(&error) || attempt >= CONFLICT_TRIES) {
            return Err(said(&error, place));
        }
        // Whoever waits for a table holds up all who come behind, each time as long as it may: they get as long.
        let pause = if is_locked { 2_000..4_000 } else { 50..500 };
        tokio::time::sleep(Duration::from_millis(fastrand::u64(pause))).await;
    }
    unreachable!("attempts are counted for ever")
}

enum Failure {
    Ours(StoreError),
    Servers(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        Failure::Servers(error)
    }
}

async fn attempt_step(client: &Client, options: &OpenOptions, place: &str) -> Result<(), Failure> {
    begin(client).await?;
    // Behind the lock of all migrations: whoever waits for another's waits for all of it.
    client.batch_execute(&format!("set local lock_timeout = {}", LOCK_WAIT.as_millis())).await?;
    let found = look(client, place).await.map_err(Failure::Ours)?;
    let next = migrate::next(&found, options.no_migrate, place).map_err(Failure::Ours)?;
    if let Some(migration) = next.filter(wanted(options)) {
        apply(client, migration, options).await?;
    }
    client.batch_execute("commit").await?;
    Ok(())
}

/// Begins a transaction that nobody else's migration gets in the way of.
async fn begin(client: &Client) -> Result<(), tokio_postgres::Error> {
    let millis = PATIENCE.as_millis();
    client.batch_execute(&format!("begin; set local statement_timeout = {millis}")).await?;
    // A number of our own: "outlast" as bytes.
    client.batch_execute("select pg_advisory_xact_lock(31375338055398260)").await
}

async fn apply(
    client: &Client,
    migration: &Migration,
    options: &OpenOptions,
) -> Result<(), tokio_postgres::Error> {
    // Only when it is missing: a role may own the schema and yet not be allowed to make one.
    if migration.number == 1 && !exists(client).await? {
        client.batch_execute("create schema outlast").await?;
    }
    client.batch_execute(&migration.text(Dialect::Postgres)).await?;
    let note = "insert into outlast.migrations (number, name, checksum, applied_at)
                values ($1, $2, $3, (extract(epoch from now()) * 1000000)::bigint)";
    let checksum = migration.checksum();
    let params: [(&(dyn ToSql + Sync), PgType); 3] =
        [(&migration.number, PgType::INT8), (&migration.name, PgType::TEXT), (&checksum, PgType::TEXT)];
    client.execute_typed(note, &params).await?;
    let serves = "insert into outlast.meta as m (name, value) values ('serves', $1)
                  on conflict (name) do update set value = greatest(m.value::bigint, excluded.value::bigint)::text";
    client.execute_typed(serves, &[(&migration.serves.to_string(), PgType::TEXT)]).await?;
    if migration.number == 1 {
        let shards = options.shards.max(1).to_string();
        let note = "insert into outlast.meta (name, value) values ('shards', $1)";
        client.execute_typed(note, &[(&shards, PgType::TEXT)]).await?;
    }
    Ok(())
}

/// Whether a file is one to apply.
fn wanted(options: &OpenOptions) -> impl Fn(&&Migration) -> bool {
    let last = options.up_to;
    move |next| last.is_none_or(|last| next.number <= last)
}

pub(super) async fn look(client: &Client, place: &str) -> Result<Found, StoreError> {
    look_now(client).await.map_err(|error| said(&error, place))
}

async fn look_now(client: &Client) -> Result<Found, tokio_postgres::Error> {
    let tables = "select c.relname::text from pg_catalog.pg_class c
                    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                   where n.nspname = 'outlast' and c.relkind in ('r', 'p', 'v', 'm', 'f')";
    let tables = client.query_typed(tables, &[]).await?;
    let is_books =
        |row: &tokio_postgres::Row| row.try_get::<_, String>(0).is_ok_and(|name| name == "migrations");
    if tables.is_empty() {
        return Ok(Found::Nothing);
    }
    if !tables.iter().any(is_books) {
        return Ok(Found::Foreign);
    }
    let applied = "select number, checksum from outlast.migrations order by number";
    let applied = client.query_typed(applied, &[]).await?;
    let applied =
        applied.iter().map(|row| Ok(Applied { number: row.try_get(0)?, checksum: row.try_get(1)? }));
    let applied = applied.collect::<Result<_, tokio_postgres::Error>>()?;
    let serves = "select value::bigint from outlast.meta where name = 'serves'";
    let serves = client.query_typed(serves, &[]).await?.first().map(|row| row.try_get(0)).transpose()?;
    Ok(Found::Ours(applied, serves))
}

async fn exists(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let sql = "select 1 from pg_catalog.pg_namespace where nspname = 'outlast'";
    Ok(!client.query_typed(sql, &[]).await?.is_empty())
}

fn said(error: &tokio_postgres::Error, place: &str) -> StoreError {
    let code = error.code();
    let message = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
    if code == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        return StoreError::Schema(format!(
            "our role may not do that in {place} ({message}): grant it, or migrate with another role first"
        ));
    }
    // Their table `migrations`, with other columns than ours.
    if matches!(code, Some(code) if [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE].contains(code)) {
        return StoreError::Schema(format!(
            "{place} has a schema `outlast` that is not ours ({message}): use another database"
        ));
    }
    meaning(error)
}
