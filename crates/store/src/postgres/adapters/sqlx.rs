//! Transactions of sqlx: one statement after the other, prepared and kept by sqlx.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use outlast_core::Error;
use sqlx::encode::{Encode, IsNull};
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnection, PgRow, PgTypeInfo, Postgres};
use sqlx::{Arguments, AssertSqlSafe, Column, Connection, Row as _, Type, ValueRef};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull as PgIsNull, ToSql, Type as PgType};

use super::super::cells::{Param, counted};
use super::super::tx::Ask;
use super::{Wire, perform, users_meaning};
use crate::adapters::{Adapter, Verb, no_transaction};
use crate::{Cell, DynStore, Row, StoreError};

impl Adapter for &mut PgConnection {
    async fn perform<V: Verb + ?Sized>(
        self,
        store: &DynStore,
        verb: &V,
        notify: bool,
    ) -> Result<V::Answer, Error> {
        if !self.is_in_transaction() {
            return Err(no_transaction("begin one with sqlx, such as `pool.begin()`").into());
        }
        Ok(perform(Borrowed(self), &**store, verb, notify).await?)
    }
}

struct Borrowed<'c>(&'c mut PgConnection);

#[async_trait]
impl Wire for Borrowed<'_> {
    async fn exchange(&mut self, asks: &[Ask]) -> Result<Vec<Vec<Row>>, StoreError> {
        let mut answers = Vec::with_capacity(asks.len());
        for ask in asks {
            let text = AssertSqlSafe(Arc::<str>::from(&*ask.rendered.text));
            let query = sqlx::query_with(text, arguments(ask)?);
            if ask.counted {
                let done = query.execute(&mut *self.0).await.map_err(meaning)?;
                answers.push(vec![counted(done.rows_affected())]);
                continue;
            }
            let rows = query.fetch_all(&mut *self.0).await.map_err(meaning)?;
            answers.push(rows.iter().map(row).collect::<Result<_, _>>()?);
        }
        Ok(answers)
    }
}

fn arguments(ask: &Ask) -> Result<PgArguments, StoreError> {
    let mut arguments = PgArguments::default();
    for (param, kind) in ask.params.iter().zip(&ask.types) {
        arguments.add(Bound { param, kind }).map_err(StoreError::Refused)?;
    }
    Ok(arguments)
}

/// A parameter that is written as our own driver writes it.
struct Bound<'a> {
    param: &'a Param,
    kind: &'a PgType,
}

impl Encode<'_, Postgres> for Bound<'_> {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let mut bytes = BytesMut::new();
        Ok(match self.param.to_sql(self.kind, &mut bytes)? {
            PgIsNull::Yes => IsNull::Yes,
            PgIsNull::No => {
                out.extend_from_slice(&bytes);
                IsNull::No
            }
        })
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.kind.oid())))
    }
}

impl Type<Postgres> for Bound<'_> {
    // Never asked: each parameter says what it is.
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(PgType::UNKNOWN.oid()))
    }
}

/// A row, read as our own driver reads it.
fn row(row: &PgRow) -> Result<Row, StoreError> {
    let cell = |at: usize| -> Result<Cell, BoxDynError> {
        let raw = row.try_get_raw(at)?;
        let oid = row.try_column(at)?.type_info().oid();
        let kind = oid.and_then(|oid| PgType::from_oid(oid.0)).unwrap_or(PgType::UNKNOWN);
        if raw.is_null() { Ok(Cell::Null) } else { Cell::from_sql(&kind, raw.as_bytes()?) }
    };
    (0..row.len()).map(cell).collect::<Result<_, _>>().map(Row).map_err(StoreError::Refused)
}

fn meaning(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(said) => {
            users_meaning(&SqlState::from_code(&said.code().unwrap_or_default()), said.message())
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => StoreError::Unavailable(error.into()),
        _ => StoreError::Refused(error.into()),
    }
}
