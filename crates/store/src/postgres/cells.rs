//! Cells on their way to PostgreSQL and back.

use std::error::Error;
use std::fmt;

use bytes::{Bytes, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type as PgType, to_sql_checked};
use uuid::Uuid;

use crate::render::Shape;
use crate::{Call, Cell, Row, StoreError, Type};

/// The types of a statement's parameters: of the batch's columns, of the single values, of the clock.
pub(super) fn types(sql: &crate::Sql, shape: Shape, now: bool) -> Vec<PgType> {
    let columns = sql.batch.iter().map(|(column, kind)| match kind {
        kind if sql.is_single(shape, column) => single(*kind),
        Type::Int | Type::Ints => PgType::INT8_ARRAY,
        Type::Text | Type::Texts => PgType::TEXT_ARRAY,
        Type::Bytes => PgType::BYTEA_ARRAY,
        Type::Id | Type::Ids => PgType::UUID_ARRAY,
    });
    let params = sql.params.iter().map(|kind| single(*kind));
    columns.chain(params).chain(now.then_some(PgType::INT8)).collect()
}

fn single(kind: Type) -> PgType {
    match kind {
        Type::Int => PgType::INT8,
        Type::Text => PgType::TEXT,
        Type::Bytes => PgType::BYTEA,
        Type::Id => PgType::UUID,
        Type::Ints => PgType::INT8_ARRAY,
        Type::Texts => PgType::TEXT_ARRAY,
        Type::Ids => PgType::UUID_ARRAY,
    }
}

/// What is bound to a call of this shape, in the order of [`types`].
pub(super) fn params(call: Call, shape: Shape, now: Option<i64>) -> Result<Vec<Param>, StoreError> {
    call.check()?;
    let one = |cell| Param::One(Bound(cell));
    let column = |(column, _): &(&str, Type)| match call.sql.is_single(shape, column) {
        true => one(Cell::Null),
        false => Param::Column(Vec::with_capacity(call.rows.len())),
    };
    let mut params: Vec<Param> = call.sql.batch.iter().map(column).collect();
    for row in call.rows {
        for (param, cell) in params.iter_mut().zip(row) {
            match param {
                Param::One(Bound(value)) => *value = cell,
                Param::Column(values) => values.push(Bound(cell)),
            }
        }
    }
    params.extend(call.params.into_iter().chain(now.map(Cell::Int)).map(one));
    Ok(params)
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
            (Cell::Shared(value), &PgType::TEXT) => value.as_ref().to_sql(kind, out),
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

/// What a statement answered.
#[derive(Debug)]
pub(super) enum Said {
    Rows(Vec<tokio_postgres::Row>),
    /// How many rows it changed.
    Count(u64),
}

impl Said {
    /// As the transitions read it.
    pub(super) fn rows(&self) -> Result<Vec<Row>, StoreError> {
        match self {
            Said::Rows(rows) => rows.iter().map(row).collect(),
            Said::Count(count) => Ok(vec![counted(*count)]),
        }
    }
}

/// The answer of a statement that says how many rows it changed.
pub(super) fn counted(count: u64) -> Row {
    Row(vec![Cell::Int(i64::try_from(count).unwrap_or(i64::MAX))])
}

fn row(row: &tokio_postgres::Row) -> Result<Row, StoreError> {
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
