//! A transaction on an SQLite connection, as the transitions see it.
//!
//! Nothing here ever waits: whoever runs a transition on it polls it once and has its answer.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use outlast_core::Timestamp;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

use super::error::meaning;
use crate::render::{Shape, rendered};
use crate::{Call, Cell, Clock, Dialect, Row, Signal, StoreError, Tx};

/// A begun transaction on a connection that nobody else uses meanwhile.
pub(super) struct SqliteTx<'c> {
    pub(super) connection: &'c mut Connection,
    pub(super) clock: &'c Clock,
    pub(super) is_users: bool,
    pub(super) signals: Vec<Signal>,
}

#[async_trait]
impl Tx for SqliteTx<'_> {
    async fn flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        calls.iter().map(|call| run(self.connection, self.clock, call)).collect()
    }

    async fn last_flight(&mut self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, StoreError> {
        calls.iter().map(|call| run(self.connection, self.clock, call)).collect()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn is_users(&self) -> bool {
        self.is_users
    }

    fn signal(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    fn machine_now(&self) -> Timestamp {
        self.clock.machine_now()
    }
}

/// As many values of a list are asked for one by one, where a statement allows it.
const FEW: usize = 8;

/// Runs one statement, for each row of its batch when it has one.
pub(super) fn run(connection: &Connection, clock: &Clock, call: &Call) -> Result<Vec<Row>, StoreError> {
    let few = few_values(call);
    let shape = if few.is_some() { Shape::One } else { shape(&call.params) };
    let rendered = rendered(call.sql, Dialect::Sqlite, shape);
    let named = |error| match meaning(error) {
        StoreError::Refused(error) => StoreError::Refused(format!("{}: {error}", call.sql.name).into()),
        other => other,
    };
    call.check()?;
    if call.is_nothing(&rendered.text) {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    let mut changed = 0;
    let mut statement = connection.prepare_cached(&rendered.text).map_err(named)?;

    // SQLite's own text may leave some parameters out, and SQLite counts to the last one it has seen.
    let places = statement.parameter_count();
    let behind_batch = call.sql.batch.len();
    for ((at, cell), place) in call.params.iter().enumerate().zip(behind_batch + 1..=places) {
        let bound = if rendered.only.contains(&at) { Bound::One(cell, 0) } else { Bound::All(cell) };
        statement.raw_bind_parameter(place, bound).map_err(named)?;
    }
    if rendered.now {
        let place = behind_batch + call.sql.params.len() + 1;
        statement.raw_bind_parameter(place, clock.local_now().micros()).map_err(named)?;
    }
    if behind_batch == 0 {
        collect(&mut statement, &mut rows).map_err(named)?;
        changed += connection.changes();
    }
    if let Some((list, count)) = few {
        for at in 1..count {
            statement.raw_bind_parameter(call.params.len(), Bound::One(list, at)).map_err(named)?;
            collect(&mut statement, &mut rows).map_err(named)?;
        }
    }
    for batch_row in &call.rows {
        for (place, cell) in (1..=places).zip(batch_row) {
            statement.raw_bind_parameter(place, Bound::All(cell)).map_err(named)?;
        }
        collect(&mut statement, &mut rows).map_err(named)?;
        changed += connection.changes();
    }
    if call.sql.counted {
        rows = vec![Row(vec![Cell::Int(changed as i64)])];
    }
    Ok(rows)
}

/// Which text fits what is bound: one that takes lists, or one for lists of a single value.
fn shape(params: &[Cell]) -> Shape {
    if params.iter().any(|cell| values(cell).is_some_and(|count| count != 1)) {
        Shape::Many
    } else {
        Shape::One
    }
}

/// The list that is asked for value by value, and how many it has.
fn few_values(call: &Call) -> Option<(&Cell, usize)> {
    let list = call.params.last().filter(|_| call.sql.value_by_value)?;
    values(list).filter(|count| (2..=FEW).contains(count)).map(|count| (list, count))
}

/// How many values a list has.
fn values(cell: &Cell) -> Option<usize> {
    match cell {
        Cell::Ints(values) => Some(values.len()),
        Cell::Texts(values) => Some(values.len()),
        Cell::Ids(values) => Some(values.len()),
        _ => None,
    }
}

/// Polls a transition to its end. It has nothing to wait for; a panic costs only itself.
pub(super) fn finish<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match panic::catch_unwind(AssertUnwindSafe(|| work.now_or_never())) {
        Ok(Some(answer)) => answer,
        Ok(None) => {
            Err(StoreError::Refused("a transition waited for something that is not the database".into()))
        }
        Err(_) => Err(StoreError::Refused("a transition panicked".into())),
    }
}

fn collect(statement: &mut Statement<'_>, out: &mut Vec<Row>) -> rusqlite::Result<()> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut cells = Vec::with_capacity(columns);
        for at in 0..columns {
            cells.push(cell(row.get_ref(at)?));
        }
        out.push(Row(cells));
    }
    Ok(())
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Int(value),
        // None of our columns holds one: `Row` will say so to whoever asks for a number.
        ValueRef::Real(value) => Cell::Text(value.to_string()),
        ValueRef::Text(value) => Cell::Text(match str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(value).into_owned(),
        }),
        ValueRef::Blob(value) => Cell::Bytes(Bytes::copy_from_slice(value)),
    }
}

/// A cell on its way into a statement.
enum Bound<'a> {
    All(&'a Cell),
    /// One value of a list.
    One(&'a Cell, usize),
}

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = |text: Result<String, serde_json::Error>| {
            let text = text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            Ok(ToSqlOutput::Owned(rusqlite::types::Value::Text(text)))
        };
        let borrowed = |value| Ok(ToSqlOutput::Borrowed(value));
        match self {
            Bound::All(Cell::Null) => borrowed(ValueRef::Null),
            Bound::All(Cell::Int(value)) => borrowed(ValueRef::Integer(*value)),
            Bound::All(Cell::Text(value)) => borrowed(ValueRef::Text(value.as_bytes())),
            Bound::All(Cell::Shared(value)) => borrowed(ValueRef::Text(value.as_bytes())),
            Bound::All(Cell::Bytes(value)) => borrowed(ValueRef::Blob(value)),
            Bound::All(Cell::Id(value)) => borrowed(ValueRef::Blob(value.as_bytes())),
            Bound::All(Cell::Ints(values)) => json(serde_json::to_string(values)),
            Bound::All(Cell::Texts(values)) => json(serde_json::to_string(values)),
            Bound::All(Cell::Ids(values)) => {
                let hex: Vec<String> = values.iter().map(|id| id.simple().to_string()).collect();
                json(serde_json::to_string(&hex))
            }
            Bound::One(list, at) => borrowed(one(list, *at)),
        }
    }
}

/// A value of a list.
fn one(list: &Cell, at: usize) -> ValueRef<'_> {
    let value = match list {
        Cell::Ints(values) => values.get(at).map(|value| ValueRef::Integer(*value)),
        Cell::Texts(values) => values.get(at).map(|value| ValueRef::Text(value.as_bytes())),
        Cell::Ids(values) => values.get(at).map(|value| ValueRef::Blob(value.as_bytes())),
        _ => None,
    };
    value.unwrap_or(ValueRef::Null)
}
