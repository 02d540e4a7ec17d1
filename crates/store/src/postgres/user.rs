//! A user's own transaction on PostgreSQL: a connection of the pool until it ends.
//!
//! Values travel as text and the server finds out their types, as if they were written into the
//! statement in quotes: whatever a column holds, the user need not name its type.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use outlast_core::{Entry, NodeId, RunId};
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type as PgType, to_sql_checked};

use super::Postgres;
use super::error::users_meaning;
use super::tx::{PgTx, Session};
use crate::user_tx::{USER_IDLE, check_statement, failed_before, rolled_back};
use crate::{
    Committed, Control, Controlled, Delivered, Delivery, KvEntry, KvList, KvName, KvPage, KvWrite, KvWritten,
    NewRun, Started, StoreError, TurnEnd, UserTx, Value, ValueRow, reads, transitions,
};

/// A begun transaction: `begin` itself rides ahead of the first statement.
pub(super) struct PgUserTx {
    store: Arc<Postgres>,
    session: Session,
    last: Instant,
    failed: bool,
}

impl PgUserTx {
    pub(super) async fn begin(store: Arc<Postgres>) -> Result<PgUserTx, StoreError> {
        let session = Session::users(store.pool.lease().await?);
        Ok(PgUserTx { store, session, last: Instant::now(), failed: false })
    }

    fn check(&self) -> Result<(), StoreError> {
        match (self.failed, self.session.is_lost()) {
            (true, _) => Err(failed_before()),
            (_, true) if self.last.elapsed() >= USER_IDLE => Err(rolled_back()),
            _ => Ok(()),
        }
    }

    fn noted<T>(&mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.last.elapsed();
        self.last = Instant::now();
        self.failed = answer.is_err();
        match answer {
            // The server gave up on us before we could hear why.
            Err(StoreError::Unavailable(_)) if idle >= USER_IDLE => Err(rolled_back()),
            other => other,
        }
    }

    fn tx(&mut self) -> PgTx<'_> {
        let PgUserTx { store, session, .. } = self;
        PgTx { session, clock: &store.clock, is_users: true, is_ours: false }
    }
}

#[async_trait]
impl UserTx for PgUserTx {
    async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
        check_statement(sql)?;
        self.check()?;
        let (sql, params) = (sql.to_owned(), bound(params));
        let answer = self.session.ask(
            |client| async move { client.execute_typed(&sql, &typed(&params)).await }.boxed(),
            users_meaning,
        );
        let answer = answer.await;
        self.noted(answer)
    }

    async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<ValueRow>, StoreError> {
        check_statement(sql)?;
        self.check()?;
        let (sql, params) = (sql.to_owned(), bound(params));
        let answer = self.session.ask(
            |client| async move { client.query_typed(&sql, &typed(&params)).await }.boxed(),
            users_meaning,
        );
        let answer = answer.await;
        let rows = self.noted(answer)?;
        rows.iter().map(|row| (0..row.len()).map(|at| value(row, at)).collect()).collect()
    }

    async fn start(&mut self, runs: &[NewRun]) -> Result<Vec<Started>, StoreError> {
        self.check()?;
        let answer = transitions::start(&mut self.tx(), runs, None).await;
        self.noted(answer)
    }

    async fn deliver(&mut self, messages: &[Delivery]) -> Result<Vec<Delivered>, StoreError> {
        self.check()?;
        let shards = self.store.shards;
        let answer = transitions::deliver(&mut self.tx(), messages, shards).await;
        self.noted(answer)
    }

    async fn control(&mut self, control: &Control) -> Result<Controlled, StoreError> {
        self.check()?;
        if control.takes_from_node() {
            self.session.bound_by_fence();
        }
        let shards = self.store.shards;
        let answer = transitions::control(&mut self.tx(), control, shards).await;
        self.noted(answer)
    }

    async fn kv_write(&mut self, writes: &[KvWrite]) -> Result<Vec<KvWritten>, StoreError> {
        self.check()?;
        let shards = self.store.shards;
        let answer = transitions::kv_write(&mut self.tx(), writes, shards).await;
        self.noted(answer)
    }

    async fn kv_get(&mut self, name: &KvName) -> Result<Option<KvEntry>, StoreError> {
        self.check()?;
        let shards = self.store.shards;
        let answer = reads::kv_get(&mut self.tx(), name, shards).await;
        self.noted(answer)
    }

    async fn kv_list(&mut self, ask: &KvList) -> Result<KvPage, StoreError> {
        self.check()?;
        let shards = self.store.shards;
        let answer = reads::kv_list(&mut self.tx(), ask, shards).await;
        self.noted(answer)
    }

    async fn record(
        &mut self,
        node: NodeId,
        run: RunId,
        epoch: i64,
        entry: &Entry,
    ) -> Result<Committed, StoreError> {
        self.check()?;
        self.session.bound_by_fence();
        let answer = transitions::record(&mut self.tx(), node, run, epoch, entry).await;
        self.noted(answer)
    }

    async fn end(&mut self, turn: &TurnEnd) -> Result<Committed, StoreError> {
        self.check()?;
        self.session.bound_by_fence();
        let shards = self.store.shards;
        let answer = transitions::end_turn(&mut self.tx(), turn, shards).await;
        self.noted(answer)
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        if let Err(error) = self.check() {
            self.session.roll_back().await;
            return Err(error);
        }
        let signals = self.session.commit().await?;
        self.store.hints.send(signals);
        Ok(())
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        self.session.roll_back().await;
        Ok(())
    }
}

/// A user's value on its way into a statement. Shows nothing of itself in the driver's logs.
struct Bound(Value);

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

fn bound(params: &[Value]) -> Vec<Bound> {
    params.iter().cloned().map(Bound).collect()
}

fn typed(params: &[Bound]) -> Vec<(&(dyn ToSql + Sync), PgType)> {
    let kind = |value: &Bound| match value.0 {
        Value::Bytes(_) => PgType::BYTEA,
        _ => PgType::UNKNOWN,
    };
    params.iter().map(|value| (value as &(dyn ToSql + Sync), kind(value))).collect()
}

impl ToSql for Bound {
    fn to_sql(&self, _: &PgType, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Bool(value) => out.put_slice(if *value { b"t" } else { b"f" }),
            Value::Int(value) => out.put_slice(value.to_string().as_bytes()),
            Value::Float(value) if value.is_infinite() => {
                out.put_slice(if *value > 0.0 { b"Infinity" } else { b"-Infinity" });
            }
            Value::Float(value) => out.put_slice(value.to_string().as_bytes()),
            Value::Text(value) => out.put_slice(value.as_bytes()),
            Value::Bytes(value) => out.put_slice(value),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &PgType) -> bool {
        true
    }

    fn encode_format(&self, _: &PgType) -> Format {
        match self.0 {
            Value::Bytes(_) => Format::Binary,
            _ => Format::Text,
        }
    }

    to_sql_checked!();
}

fn value(row: &tokio_postgres::Row, at: usize) -> Result<Value, StoreError> {
    let column = &row.columns()[at];
    let kind = column.type_();
    match *kind {
        PgType::BOOL => get::<bool>(row, at, Value::Bool),
        PgType::INT2 => get::<i16>(row, at, |value| Value::Int(value.into())),
        PgType::INT4 => get::<i32>(row, at, |value| Value::Int(value.into())),
        PgType::INT8 => get::<i64>(row, at, Value::Int),
        PgType::OID => get::<u32>(row, at, |value| Value::Int(value.into())),
        PgType::FLOAT4 => get::<f32>(row, at, |value| Value::Float(value.into())),
        PgType::FLOAT8 => get::<f64>(row, at, Value::Float),
        PgType::TEXT | PgType::VARCHAR | PgType::BPCHAR | PgType::NAME | PgType::UNKNOWN => {
            get::<String>(row, at, Value::Text)
        }
        PgType::JSON | PgType::JSONB => get::<Json>(row, at, |value| Value::Text(value.0)),
        PgType::BYTEA => get::<&[u8]>(row, at, |value| Value::Bytes(Bytes::copy_from_slice(value))),
        PgType::UUID => get::<uuid::Uuid>(row, at, |value| Value::Text(value.to_string())),
        PgType::VOID => Ok(Value::Null),
        _ => {
            let name = column.name();
            Err(StoreError::Statement(
                format!("column `{name}` has type {kind}: cast it in the query, such as `{name}::text`")
                    .into(),
            ))
        }
    }
}

fn get<'r, T: FromSql<'r>>(
    row: &'r tokio_postgres::Row,
    at: usize,
    value: impl FnOnce(T) -> Value,
) -> Result<Value, StoreError> {
    let found = row.try_get::<_, Option<T>>(at).map_err(|error| users_meaning(&error))?;
    Ok(found.map_or(Value::Null, value))
}

/// JSON as the text it is.
struct Json(String);

impl FromSql<'_> for Json {
    fn from_sql(kind: &PgType, raw: &[u8]) -> Result<Json, Box<dyn Error + Sync + Send>> {
        // `jsonb` begins with its version.
        let text = if *kind == PgType::JSONB { raw.get(1..).unwrap_or_default() } else { raw };
        Ok(Json(std::str::from_utf8(text)?.to_owned()))
    }

    fn accepts(kind: &PgType) -> bool {
        matches!(*kind, PgType::JSON | PgType::JSONB)
    }
}
