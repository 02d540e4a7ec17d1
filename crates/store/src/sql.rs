//! One text per statement for both databases, with a few named slots for what differs.
//!
//! | slot | PostgreSQL | SQLite |
//! | --- | --- | --- |
//! | `outlast.name` | as it is | `outlast_name` |
//! | `{batch}` | `unnest($1::…[], …) as b(columns…)`: all rows at once, columns that are [`Sql::alike`] in all of them, and such as are [`Sql::seldom`] anything but empty, as single values; a lone row as on SQLite | `(select ?1 as column, …) as b`: row by row |
//! | `{b:column}` | none | that column of the row, in SQLite's own texts: `?1` |
//! | `{p1}`, `{p2}` … | `$n` with its type | `?n` |
//! | `{in:p1}` | `= any($n)` | `in (select … from json_each(?n))` |
//! | `{now}` | the statement's time plus the clock's shift, in microseconds | the store's clock, bound |
//! | `{for_update}`, `{skip_locked}`, `{key_share}` | `for update`, `for update skip locked`, `for key share` | nothing: there is one writer |
//!
//! A statement with `{batch}` runs once per transition on PostgreSQL and once per row on SQLite, in
//! one transaction either way, so its text must mean the same both ways: `insert … select … from
//! {batch} where true on conflict …`, `update … from {batch} where …`, `delete … where (…) in (select
//! … from {batch})`.
//!
//! Where the databases must differ by more than a slot, [`Sql::sqlite`] is SQLite's own text, with the
//! same slots, batch and parameters; an empty text says that there is nothing to do on that database. A
//! statement that is [`Sql::counted`] answers with one number: how many rows it changed. A parameter of many
//! values that stands alone (`{p1}` of [`Type::Texts`]) is an array on PostgreSQL and JSON text on SQLite:
//! `unnest({p1})`, `json_each({p1})`.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::StoreError;
use crate::render::{RenderedOnce, Shape};

/// A statement. Made as a constant; every one stands in [`crate::statements`].
#[derive(Debug)]
pub struct Sql {
    /// What it is called in tests and logs.
    pub name: &'static str,
    /// The text with its slots.
    pub text: &'static str,
    /// SQLite's own text, where one text cannot say it for both.
    pub sqlite: Option<&'static str>,
    /// The columns of `{batch}`; empty when it has none.
    pub batch: &'static [(&'static str, Type)],
    /// The columns of the batch that mostly have the same value in all of its rows.
    pub alike: &'static [&'static str],
    /// The columns of the batch that are empty in nearly all rows.
    pub seldom: &'static [&'static str],
    /// The types of `{p1}` …
    pub params: &'static [Type],
    /// The index that its plan must use with many rows; `None` when it is not hot.
    pub index: Option<&'static str>,
    /// Whether it answers with the number of rows that were changed.
    pub counted: bool,
    /// Whether it gives for the list of its last parameter what it gives for each value, one after another.
    pub value_by_value: bool,
    /// What each database reads, once somebody has asked for it.
    pub(crate) rendered: RenderedOnce,
}

/// What a look finds of each value of the list `{p2}`: whatever comes before the value, of one table.
///
/// PostgreSQL is asked for one after another. To go along all of a table and compare costs it less than ten looks (it takes every
/// list for ten values) where it knows of fewer rows than that, and a plan stays when the table has grown: looks by id read all
/// that there was.
macro_rules! look_each {
    ($name:literal, $($look:tt)+) => {
        $crate::Sql::new(
            $name,
            concat!(
                "select o.* from unnest({p2}) as k(value) cross join lateral (",
                $($look)+,
                " = k.value offset 0) as o"
            ),
        )
        .on_sqlite(concat!($($look)+, " {in:p2}"))
    };
}
pub(crate) use look_each;

/// Types of what is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `bigint`, also for smaller columns.
    Int,
    /// `text`.
    Text,
    /// `bytea` or `blob`.
    Bytes,
    /// `uuid` or a `blob` of 16 bytes.
    Id,
    /// Many integers, for `{in:…}`.
    Ints,
    /// Many texts, for `{in:…}`.
    Texts,
    /// Many ids, for `{in:…}`.
    Ids,
}

/// What is bound to a statement or comes out of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Null of any type.
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
    /// Text that others have too, on its way in: a name stands in thousands of rows.
    Shared(Arc<str>),
    /// Bytes.
    Bytes(Bytes),
    /// An id.
    Id(Uuid),
    /// Many integers.
    Ints(Vec<i64>),
    /// Many texts.
    Texts(Vec<String>),
    /// Many ids.
    Ids(Vec<Uuid>),
}

macro_rules! cell_from {
    ($($kind:ident($from:ty)),*) => {$(
        impl From<$from> for Cell {
            fn from(value: $from) -> Cell {
                Cell::$kind(value.into())
            }
        }
        impl From<Option<$from>> for Cell {
            fn from(value: Option<$from>) -> Cell {
                value.map_or(Cell::Null, Cell::from)
            }
        }
    )*};
}
cell_from!(
    Int(i64),
    Int(i32),
    Int(u32),
    Int(i16),
    Int(u16),
    Int(u8),
    Text(String),
    Text(&str),
    Shared(Arc<str>),
    Bytes(Bytes),
    Id(Uuid)
);

/// A statement with what is bound to it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The statement.
    pub sql: &'static Sql,
    /// The rows of `{batch}`, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
    /// The cells of `{p1}` …
    pub params: Vec<Cell>,
}

impl Sql {
    /// A statement without parameters.
    pub const fn new(name: &'static str, text: &'static str) -> Sql {
        Sql {
            name,
            text,
            sqlite: None,
            batch: &[],
            alike: &[],
            seldom: &[],
            params: &[],
            index: None,
            counted: false,
            value_by_value: false,
            rendered: RenderedOnce::new(),
        }
    }

    /// With these columns in `{batch}`.
    pub const fn rows(mut self, batch: &'static [(&'static str, Type)]) -> Sql {
        self.batch = batch;
        self
    }

    /// These columns of `{batch}` mostly have the same value in all rows. Where they do, PostgreSQL gets each of them once: to
    /// take an array apart, row by row, costs it as much as a column of the row that is written.
    pub const fn alike(mut self, columns: &'static [&'static str]) -> Sql {
        self.alike = columns;
        self
    }

    /// These columns of `{batch}` are empty in nearly all rows. Where they are in all of a call, PostgreSQL gets no array of
    /// them, whatever the others are.
    pub const fn seldom(mut self, columns: &'static [&'static str]) -> Sql {
        self.seldom = columns;
        self
    }

    /// With parameters of these types.
    pub const fn takes(mut self, params: &'static [Type]) -> Sql {
        self.params = params;
        self
    }

    /// With another text for SQLite.
    pub const fn on_sqlite(mut self, text: &'static str) -> Sql {
        self.sqlite = Some(text);
        self
    }

    /// Answers with how many rows it changed.
    pub const fn counted(mut self) -> Sql {
        self.counted = true;
        self
    }

    /// Gives for the list of its last parameter what it gives for each value of it, one after another. SQLite is asked so where
    /// a list is short: to make a table of it costs more than to find a few rows. So no value may be in it twice.
    pub const fn value_by_value(mut self) -> Sql {
        self.value_by_value = true;
        self
    }

    /// Hot: its plan must use this index.
    pub const fn by(mut self, index: &'static str) -> Sql {
        self.index = Some(index);
        self
    }

    /// This statement with single values only.
    pub fn with(&'static self, params: impl Into<Vec<Cell>>) -> Call {
        Call { sql: self, rows: Vec::new(), params: params.into() }
    }

    /// This statement for a batch of rows.
    pub fn each(&'static self, rows: Vec<Vec<Cell>>, params: impl Into<Vec<Cell>>) -> Call {
        Call { sql: self, rows, params: params.into() }
    }
}

impl Sql {
    /// Whether a column of the batch travels as a single value on PostgreSQL.
    pub(crate) fn is_single(&self, shape: Shape, column: &str) -> bool {
        match shape {
            Shape::One => true,
            Shape::Many => false,
            Shape::Bare => self.seldom.contains(&column),
            Shape::Alike => self.seldom.contains(&column) || self.alike.contains(&column),
        }
    }
}

impl Call {
    /// In which shape the rows of this call travel on PostgreSQL.
    pub(crate) fn shape(&self) -> Shape {
        match &self.rows[..] {
            [_] => Shape::One,
            _ if !self.has_only(self.sql.seldom, |cell, _| *cell == Cell::Null) => Shape::Many,
            _ if !self.sql.alike.is_empty() && self.has_only(self.sql.alike, PartialEq::eq) => Shape::Alike,
            _ if !self.sql.seldom.is_empty() => Shape::Bare,
            _ => Shape::Many,
        }
    }

    /// Whether all cells in these columns fit, beside those of the first row.
    fn has_only(&self, columns: &[&str], fits: impl Fn(&Cell, &Cell) -> bool) -> bool {
        let Some(first) = self.rows.first() else { return false };
        let batch = self.sql.batch.iter().zip(first).enumerate();
        let mut wanted = batch.filter(|(_, ((column, _), _))| columns.contains(column));
        wanted.all(|(at, (_, cell))| {
            self.rows.iter().all(|row| row.get(at).is_some_and(|other| fits(other, cell)))
        })
    }

    /// Whether a driver has nothing to do for it: a batch without rows, or an empty text.
    pub(crate) fn is_nothing(&self, text: &str) -> bool {
        text.is_empty() || (!self.sql.batch.is_empty() && self.rows.is_empty())
    }

    /// Refuses a call that binds more or less than its statement takes: a bug that must not half-work.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let Sql { name, batch, params, .. } = self.sql;
        if self.params.len() != params.len() || self.rows.iter().any(|row| row.len() != batch.len()) {
            return Err(StoreError::Refused(
                format!("{name} takes {} parameters and {} columns", params.len(), batch.len()).into(),
            ));
        }
        Ok(())
    }
}

/// A row that came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub Vec<Cell>);

impl Row {
    /// The integer in column `at`.
    pub fn int(&self, at: usize) -> Result<i64, StoreError> {
        self.opt_int(at)?.ok_or_else(|| self.unexpected(at, "a number"))
    }
    /// The integer in column `at`, or `None` for null.
    pub fn opt_int(&self, at: usize) -> Result<Option<i64>, StoreError> {
        match self.0.get(at) {
            Some(Cell::Int(value)) => Ok(Some(*value)),
            Some(Cell::Null) => Ok(None),
            _ => Err(self.unexpected(at, "a number")),
        }
    }
    /// The text in column `at`.
    pub fn text(&self, at: usize) -> Result<String, StoreError> {
        self.opt_text(at)?.ok_or_else(|| self.unexpected(at, "text"))
    }
    /// The text in column `at`, or `None` for null.
    pub fn opt_text(&self, at: usize) -> Result<Option<String>, StoreError> {
        match self.0.get(at) {
            Some(Cell::Text(value)) => Ok(Some(value.clone())),
            Some(Cell::Null) => Ok(None),
            _ => Err(self.unexpected(at, "text")),
        }
    }
    /// The bytes in column `at`.
    pub fn bytes(&self, at: usize) -> Result<Bytes, StoreError> {
        self.opt_bytes(at)?.ok_or_else(|| self.unexpected(at, "bytes"))
    }
    /// The bytes in column `at`, or `None` for null.
    pub fn opt_bytes(&self, at: usize) -> Result<Option<Bytes>, StoreError> {
        match self.0.get(at) {
            Some(Cell::Bytes(value)) => Ok(Some(value.clone())),
            Some(Cell::Null) => Ok(None),
            _ => Err(self.unexpected(at, "bytes")),
        }
    }
    /// The id in column `at`.
    pub fn id(&self, at: usize) -> Result<Uuid, StoreError> {
        self.opt_id(at)?.ok_or_else(|| self.unexpected(at, "an id"))
    }
    /// The id in column `at`, or `None` for null. SQLite knows only bytes.
    pub fn opt_id(&self, at: usize) -> Result<Option<Uuid>, StoreError> {
        match self.0.get(at) {
            Some(Cell::Id(value)) => Ok(Some(*value)),
            Some(Cell::Bytes(value)) => {
                Uuid::from_slice(value).map(Some).map_err(|_| self.unexpected(at, "an id"))
            }
            Some(Cell::Null) => Ok(None),
            _ => Err(self.unexpected(at, "an id")),
        }
    }

    fn unexpected(&self, at: usize, wanted: &str) -> StoreError {
        StoreError::Refused(format!("column {at} holds {:?}, not {wanted}", self.0.get(at)).into())
    }
}
