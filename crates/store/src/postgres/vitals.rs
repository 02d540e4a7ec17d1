//! How a PostgreSQL is doing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::{ToSql, Type as PgType};
use tokio_postgres::{AsyncMessage, Client, Row};

use super::Postgres;
use super::error::meaning;
use super::pool::answered;
use crate::{PoolUse, PostgresVitals, StoreError, TableSize, TableVitals, Vitals, VitalsKind};

/// How long a notification may take.
const HEARD: Duration = Duration::from_secs(2);

const SETTINGS: &str = "
    select current_setting('server_version'), current_setting('server_version_num')::int4, pg_is_in_recovery(),
           current_setting('max_connections')::int8 - current_setting('superuser_reserved_connections')::int8,
           current_setting('synchronous_commit'), current_setting('fsync'), current_setting('autovacuum') = 'on',
           pg_database_size(current_database())::int8";

const ACTIVITY: &str = "
    select count(*)::int8,
           coalesce(extract(epoch from max(case when datname = current_database() and pid <> pg_backend_pid()
                                                then clock_timestamp() - xact_start end)), 0)::float8
      from pg_catalog.pg_stat_activity where backend_type = 'client backend'";

/// Tables with as many dead rows as live ones, or that nobody cleans up.
const TABLES: &str = "
    select s.relname::text, s.n_live_tup::int8, s.n_dead_tup::int8,
           coalesce('autovacuum_enabled=false' = any(c.reloptions), false)
      from pg_catalog.pg_stat_user_tables s join pg_catalog.pg_class c on c.oid = s.relid
     where s.schemaname = 'outlast'
       and (s.n_dead_tup > greatest(10000, s.n_live_tup) or 'autovacuum_enabled=false' = any(c.reloptions))
     order by s.n_dead_tup desc limit 5";

const FORBIDDEN: &str = "
    select p.verb || ' on outlast.' || c.relname
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     cross join (values ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) as p(verb)
     where n.nspname = 'outlast' and c.relkind = 'r' and c.relname not in ('meta', 'migrations')
       and not has_table_privilege(c.oid, p.verb)
     order by 1 limit 10";

const ORPHANS: &str = "
    select count(*)::int8 from outlast.agenda a
     where a.node is not null and not exists (
         select 1 from outlast.members n where n.shard = a.shard and n.id = a.node and n.lease_until > {since})";

const SIZES: &str = "
    select c.relname::text, pg_total_relation_size(c.oid)::int8
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'outlast' and c.relkind = 'r' order by 2 desc, 1";

impl Postgres {
    /// With indexes and what is stored beside the rows.
    pub(crate) async fn table_sizes(self: &Arc<Self>) -> Result<Vec<TableSize>, StoreError> {
        let lease = self.pool.lease().await?;
        let rows = many(lease.client(), SIZES).await?;
        lease.give_back();
        let size = |row: &Row| {
            let bytes = u64::try_from(cell::<i64>(row, 1)?).unwrap_or_default();
            Ok(TableSize { name: cell(row, 0)?, bytes })
        };
        rows.iter().map(size).collect()
    }

    /// The connections of this process.
    pub(crate) fn pool_use(&self) -> PoolUse {
        PoolUse { size: self.pool.size(), in_use: self.pool.in_use() }
    }

    /// Runs whose node's lease was over then are orphans.
    pub(crate) async fn vitals(self: &Arc<Self>, since: i64) -> Result<Vitals, StoreError> {
        let lease = self.pool.lease().await?;
        let client = lease.client();
        let settings = one(client, SETTINGS).await?;
        let activity = one(client, ACTIVITY).await?;
        let tables = many(client, TABLES).await?;
        let forbidden = many(client, FORBIDDEN).await?;
        // Whoever may not read it says so above.
        let orphans = ORPHANS.replace("{since}", &since.to_string());
        let orphans = one(client, &orphans).await.and_then(|row| cell::<i64>(&row, 0)).unwrap_or(0);
        lease.give_back();
        let table = |row: &Row| -> Result<TableVitals, StoreError> {
            let (name, live, dead) = (cell(row, 0)?, cell(row, 1)?, cell(row, 2)?);
            Ok(TableVitals { name, live, dead, is_neglected: cell(row, 3)? })
        };
        let names = ["synchronous_commit", "fsync"];
        let is_off = |place: usize| cell::<String>(&settings, place).is_ok_and(|value| value == "off");
        let vitals = PostgresVitals {
            version_number: cell(&settings, 1)?,
            is_standby: cell(&settings, 2)?,
            connections_most: cell(&settings, 3)?,
            connections: cell(&activity, 0)?,
            pool: self.pool.size(),
            is_pooled: self.pool.is_unnamed(),
            notified: self.notified().await?,
            forbidden: forbidden.iter().map(|row| cell(row, 0)).collect::<Result<_, _>>()?,
            unsafe_settings: (0..2).filter(|at| is_off(4 + at)).map(|at| names[at].to_owned()).collect(),
            has_autovacuum: cell(&settings, 6)?,
            tables: tables.iter().map(table).collect::<Result<_, _>>()?,
            oldest_transaction: Duration::from_secs_f64(cell::<f64>(&activity, 1)?.max(0.0)),
            bytes: cell(&settings, 7)?,
        };
        Ok(Vitals {
            version: cell(&settings, 0)?,
            orphans: u64::try_from(orphans).unwrap_or_default(),
            kind: VitalsKind::Postgres(Box::new(vitals)),
        })
    }

    /// How long a notification takes from one connection to another, on a channel that nobody else listens to.
    async fn notified(self: &Arc<Self>) -> Result<Option<Duration>, StoreError> {
        let (client, mut messages) = self.pool.server.connect().await?;
        let word = format!("{:016x}", fastrand::u64(..));
        let began = Instant::now();
        let say = async {
            answered(client.batch_execute("listen outlast_doctor")).await?;
            let lease = self.pool.lease().await?;
            let value: (&(dyn ToSql + Sync), PgType) = (&word, PgType::TEXT);
            let notify = "select pg_notify('outlast_doctor', $1)";
            answered(lease.client().execute_typed(notify, &[value])).await?;
            lease.give_back();
            std::future::pending::<Result<(), StoreError>>().await
        };
        let hear = async {
            while let Some(message) = messages.next().await {
                if let AsyncMessage::Notification(note) = message.map_err(|error| meaning(&error))?
                    && note.payload() == word
                {
                    break;
                }
            }
            Ok(())
        };
        let heard = async {
            tokio::select! { said = say => said, heard = hear => heard }
        };
        match timeout(HEARD, heard).await {
            Ok(heard) => heard.map(|()| Some(began.elapsed())),
            Err(_) => Ok(None),
        }
    }
}

async fn many(client: &Client, sql: &str) -> Result<Vec<Row>, StoreError> {
    answered(client.query_typed(sql, &[])).await
}

async fn one(client: &Client, sql: &str) -> Result<Row, StoreError> {
    let row = many(client, sql).await?.into_iter().next();
    row.ok_or_else(|| StoreError::Refused("PostgreSQL gave no row where there is always one".into()))
}

fn cell<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, StoreError> {
    row.try_get(place).map_err(|error| meaning(&error))
}
