//! Statistics for a young database.
//!
//! PostgreSQL plans by what it knows of a table, and of one that has just been made it knows nothing until its
//! autovacuum comes by, a minute later or never: meanwhile a look-up by id may read all runs. So nodes have the
//! tables looked at as soon as these have grown a little; whoever may not do so leaves it to autovacuum.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type as PgType};

use super::Postgres;
use super::pool::{answered, execute};
use crate::StoreError;

/// How many bytes of a table are worth a look: sixteen pages.
const WORTH: i64 = 16 * 8192;

/// How long to wait at first; twice as long each time, for autovacuum comes by too.
const PAUSE: Duration = Duration::from_secs(2);

/// Tables that have grown and that nobody has looked at.
const UNKNOWN: &str = "
    select c.relname from pg_class as c
     where c.relnamespace = 'outlast'::regnamespace and c.relkind = 'r' and c.reltuples <= 0
       and pg_relation_size(c.oid) >= $1::int8";

/// When to look again, and how long to wait after that.
pub(super) struct NextLook(Mutex<(Instant, Duration)>);

impl Default for NextLook {
    fn default() -> NextLook {
        NextLook(Mutex::new((Instant::now(), PAUSE)))
    }
}

impl NextLook {
    /// Whether it is time; if so, the next time is set.
    fn is_due(&self) -> bool {
        let mut next = self.0.lock();
        let (now, (at, pause)) = (Instant::now(), *next);
        if now >= at {
            *next = (now + pause, pause.saturating_mul(2).min(Duration::from_secs(86_400)));
        }
        now >= at
    }
}

impl Postgres {
    /// Has tables looked at that have grown since they were made. Seldom, and more and more so.
    pub(crate) async fn keep_statistics(self: &Arc<Self>) {
        if self.next_look.is_due()
            && let Err(error) = self.look_at_tables().await
        {
            tracing::debug!(%error, "statistics are left to the database");
        }
    }

    async fn look_at_tables(self: &Arc<Self>) -> Result<(), StoreError> {
        let lease = self.pool.lease().await?;
        let worth: (&(dyn ToSql + Sync), PgType) = (&WORTH, PgType::INT8);
        let unknown = answered(lease.client().query_typed(UNKNOWN, &[worth])).await?;
        for row in &unknown {
            let table: &str = row.get(0);
            execute(&lease, &format!("analyze outlast.{table}")).await?;
        }
        lease.give_back();
        Ok(())
    }
}
