//! Cells on their way to PostgreSQL and back.

use std::error::Error;
use std::fmt;

use bytes::{Bytes, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type as PgType, to_sql_checked};
use uuid::Uuid;

use crate::{Call, Cell, Row, StoreError, Type};

/// The types of a statement's parameters: of the batch's columns, of the single values, of the clock.
pub(super) fn types(sql: &crate::Sql, now: bool) -> Vec<PgType> {
    let columns = sql.batch.iter().map(|(_, kind)| match kind {
        Type::Int | Type::Ints => PgType::INT8_ARRAY,
        Type::Text | Type::Texts => PgType::TEXT_ARRAY,
        Type::Bytes => PgType::BYTEA_ARRAY,
        Type::Id | Type::Ids => PgType::UUID_ARRAY,
    });
    let single = sql.params.iter().map(|kind| match kind {
        Type::Int => PgType::INT8,
        Type::Text => PgType::TEXT,
        Type::Bytes => PgType::BYTEA,
        Type::Id => PgType::UUID,
        Type::Ints => PgType::INT8_ARRAY,
        Type::Texts => PgType::TEXT_ARRAY,
        Type::Ids => PgType::UUID_ARRAY,
    });
    columns.chain(single).chain(now.then_some(PgType::INT8)).collect()
}

/// What is bound to a call, in the order of [`types`].
pub(super) fn params(call: Call, now: Option<i64>) -> Result<Vec<Param>, StoreError> {
    call.check()?;
    let mut columns: Vec<Vec<Bound>> =
        call.sql.batch.iter().map(|_| Vec::with_capacity(call.rows.len())).collect();
    for row in call.rows {
        for (column, cell) in columns.iter_mut().zip(row) {
            column.push(Bound(cell));
        }
    }
    let single = call.params.into_iter().chain(now.map(Cell::Int)).map(|cell| Param::One(Bound(cell)));
    Ok(columns.into_iter().map(Param::Column).chain(single).collect())
}

/// A parameter.
#[derive(Debug)]
pub(super) enum Param {
    /// A value.
    One(Bound),
    /// A column of a batch.
    Column(Vec<Bound>),
}

/// A cell that shows nothing of itself: the driver logs what it binds, and payloads are not for logs.
pub(super) struct Bound(Cell);

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

type Encoded = Result<IsNull, Box<dyn Error + Sync + Send>>;

impl ToSql for Param {
    fn to_sql(&self, kind: &PgType, out: &mut BytesMut) -> Encoded {
        match self {
            Param::One(cell) => cell.to_sql(kind, out),
            Param::Column(cells) => cells.to_sql(kind, out),
        }
    }

    fn accepts(_: &PgType) -> bool {
        true
    }

    to_sql_checked!();
}

impl ToSql for Bound {
    fn to_sql(&self, kind: &PgType, out: &mut BytesMut) -> Encoded {
        match (&self.0, kind) {
            (Cell::Null, _) => Ok(IsNull::Yes),
            (Cell::Int(value), &PgType::INT8) => value.to_sql(kind, out),
            (Cell::Text(value), &PgType::TEXT) => value.to_sql(kind, out),
            (Cell::Bytes(value), &PgType::BYTEA) => value.as_ref().to_sql(kind, out),
            (Cell::Id(value), &PgType::UUID) => value.to_sql(kind, out),
            (Cell::Ints(values), &PgType::INT8_ARRAY) => values.to_sql(kind, out),
            (Cell::Texts(values), &PgType::TEXT_ARRAY) => values.to_sql(kind, out),
            (Cell::Ids(values), &PgType::UUID_ARRAY) => values.to_sql(kind, out),
            _ => Err(format!("a cell of another kind is bound to a parameter of type {kind}").into()),
        }
    }

    fn accepts(_: &PgType) -> bool {
        true
    }

    to_sql_checked!();
}

/// A row as the transitions read it.
pub(super) fn row(row: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let cell = |at| row.try_get::<_, Cell>(at).map_err(|error| super::error::meaning(&error));
    (0..row.len()).map(cell).collect::<Result<_, _>>().map(Row)
}

impl<'r> FromSql<'r> for Cell {
    fn from_sql(kind: &PgType, raw: &'r [u8]) -> Result<Cell, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            PgType::INT8 => Cell::Int(i64::from_sql(kind, raw)?),
            PgType::INT4 => Cell::Int(i32::from_sql(kind, raw)?.into()),
            PgType::INT2 => Cell::Int(i16::from_sql(kind, raw)?.into()),
            PgType::BOOL => Cell::Int(bool::from_sql(kind, raw)?.into()),
            PgType::TEXT | PgType::VARCHAR | PgType::NAME => Cell::Text(String::from_sql(kind, raw)?),
            PgType::BYTEA => Cell::Bytes(Bytes::copy_from_slice(raw)),
            PgType::UUID => Cell::Id(Uuid::from_sql(kind, raw)?),
            PgType::VOID => Cell::Null,
            _ => return Err(format!("no cell holds a column of type {kind}").into()),
        })
    }

    fn from_sql_null(_: &PgType) -> Result<Cell, Box<dyn Error + Sync + Send>> {
        Ok(Cell::Null)
    }

    fn accepts(_: &PgType) -> bool {
        true
    }
}
