//! Our own transaction handle: the same on PostgreSQL and SQLite.
//!
//! Given to `ctx.transaction` and `app.transaction`. Statements use `$1`, `$2` … on both databases.

use std::sync::Arc;

use bytes::Bytes;
use outlast_core::{Error, Limits};
use outlast_store::adapters::Verb;
use outlast_store::{StoreError, UserTx, Value};
use tokio::sync::Mutex;

use crate::Kv;

/// A transaction of the database in which Outlast lives. Cheap to clone; over when the closure that got
/// it returns.
#[derive(Clone)]
pub struct Tx {
    inner: Arc<Mutex<Option<Box<dyn UserTx>>>>,
    /// For whom it acts.
    tenant: Arc<str>,
    limits: Limits,
    /// The first time that the database itself was in the way, whatever the closure made of it.
    trouble: Arc<parking_lot::Mutex<Option<StoreError>>>,
}

impl Tx {
    pub(crate) fn new(inner: Box<dyn UserTx>, tenant: &str, limits: Limits) -> Tx {
        Tx {
            inner: Arc::new(Mutex::new(Some(inner))),
            tenant: tenant.into(),
            limits,
            trouble: Arc::default(),
        }
    }

    /// Takes the transaction back from the closure: its handle is of no more use.
    pub(crate) async fn take(&self) -> Result<Box<dyn UserTx>, Error> {
        self.inner.lock().await.take().ok_or_else(over)
    }

    /// Why nothing of it can happen, although none of its statements was wrong: the connection broke, or others were
    /// in the way.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().take()
    }

    fn noted<T>(&self, answer: Result<T, StoreError>) -> Result<T, Error> {
        if let Err(error) = &answer
            && error.is_retryable()
        {
            self.trouble.lock().get_or_insert_with(|| error.again());
        }
        Ok(answer?)
    }

    /// Runs a statement; gives the number of rows it changed.
    pub async fn execute(&self, sql: &str, params: impl IntoParams) -> Result<u64, Error> {
        let mut inner = self.inner.lock().await;
        self.noted(inner.as_mut().ok_or_else(over)?.execute(sql, &params.into_params()).await)
    }

    /// Runs a query; gives its rows.
    pub async fn query(&self, sql: &str, params: impl IntoParams) -> Result<Vec<Row>, Error> {
        let mut inner = self.inner.lock().await;
        let rows = self.noted(inner.as_mut().ok_or_else(over)?.query(sql, &params.into_params()).await)?;
        Ok(rows.into_iter().map(Row).collect())
    }

    /// Values that outlive runs, read and written as part of this transaction: of the run's tenant inside
    /// [`Ctx::transaction`](crate::Ctx::transaction), of nobody in particular elsewhere (for a tenant's own there is
    /// [`KvCall::in_tx`](crate::KvCall::in_tx)).
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # outlast::testing::check(async |ctx| {
    /// ctx.transaction("order", |tx| async move {
    ///     let number: i64 = tx.kv().get("orders").await?.unwrap_or(0) + 1;
    ///     tx.execute("create table orders (number bigint)", ()).await?;
    ///     tx.execute("insert into orders values ($1)", (number,)).await?;
    ///     tx.kv().set("orders", &number).await?;
    ///     Ok::<i64, AnyError>(number)
    /// }).await?;
    /// # Ok(()) });
    /// ```
    pub fn kv(&self) -> Kv {
        Kv::of_tx(self, &self.tenant, self.limits)
    }

    pub(crate) async fn perform_in_ours<V: Verb + ?Sized>(&self, verb: &V) -> Result<V::Answer, Error> {
        let mut inner = self.inner.lock().await;
        self.noted(verb.run_in_ours(inner.as_mut().ok_or_else(over)?.as_mut()).await)
    }
}

fn over() -> Error {
    Error::misconfigured("the transaction is over: its handle was kept longer than its closure")
}

/// A row of a query: columns by their number, from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(Vec<Value>);

impl Row {
    /// The value in column `at`; null when there is no such column.
    pub fn value(&self, at: usize) -> &Value {
        self.0.get(at).unwrap_or(&Value::Null)
    }

    /// The whole number in column `at`.
    pub fn int(&self, at: usize) -> Result<i64, Error> {
        match self.value(at) {
            Value::Int(value) => Ok(*value),
            Value::Bool(value) => Ok(i64::from(*value)),
            other => Err(wrong(at, "a whole number", other)),
        }
    }

    /// The floating-point number in column `at`.
    pub fn float(&self, at: usize) -> Result<f64, Error> {
        match self.value(at) {
            Value::Float(value) => Ok(*value),
            Value::Int(value) => Ok(*value as f64),
            other => Err(wrong(at, "a number", other)),
        }
    }

    /// The text in column `at`.
    pub fn text(&self, at: usize) -> Result<&str, Error> {
        match self.value(at) {
            Value::Text(value) => Ok(value),
            other => Err(wrong(at, "text", other)),
        }
    }

    /// The bytes in column `at`.
    pub fn bytes(&self, at: usize) -> Result<&[u8], Error> {
        match self.value(at) {
            Value::Bytes(value) => Ok(value),
            other => Err(wrong(at, "bytes", other)),
        }
    }
}

fn wrong(at: usize, wanted: &str, found: &Value) -> Error {
    Error::invalid("column", format!("{at}: {found:?}"), format!("{wanted} was asked for"))
}

/// What can be bound to a statement: tuples, arrays and lists of [`Value`]s.
pub trait IntoParams {
    /// The values, in order.
    fn into_params(self) -> Vec<Value>;
}

/// One value that can be bound.
pub trait IntoValue {
    /// The value.
    fn into_value(self) -> Value;
}

macro_rules! into_value {
    ($($from:ty => |$value:ident| $into:expr),* $(,)?) => {$(
        impl IntoValue for $from {
            fn into_value(self) -> Value {
                let $value = self;
                $into
            }
        }
    )*};
}
into_value! {
    i64 => |v| Value::Int(v),
    i32 => |v| Value::Int(v.into()),
    u32 => |v| Value::Int(v.into()),
    u16 => |v| Value::Int(v.into()),
    bool => |v| Value::Bool(v),
    f64 => |v| Value::Float(v),
    String => |v| Value::Text(v),
    &str => |v| Value::Text(v.to_owned()),
    &String => |v| Value::Text(v.clone()),
    Bytes => |v| Value::Bytes(v),
    Vec<u8> => |v| Value::Bytes(v.into()),
    &[u8] => |v| Value::Bytes(Bytes::copy_from_slice(v)),
    Value => |v| v,
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, IntoValue::into_value)
    }
}

impl IntoParams for () {
    fn into_params(self) -> Vec<Value> {
        Vec::new()
    }
}

impl<T: IntoValue, const N: usize> IntoParams for [T; N] {
    fn into_params(self) -> Vec<Value> {
        self.into_iter().map(IntoValue::into_value).collect()
    }
}

impl<T: IntoValue> IntoParams for Vec<T> {
    fn into_params(self) -> Vec<Value> {
        self.into_iter().map(IntoValue::into_value).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident)+)),*) => {$(
        impl<$($name: IntoValue),+> IntoParams for ($($name,)+) {
            #[allow(non_snake_case, reason = "the type's name serves as the variable's")]
            fn into_params(self) -> Vec<Value> {
                let ($($name,)+) = self;
                vec![$($name.into_value()),+]
            }
        }
    )*};
}
tuples!((A), (A B), (A B C), (A B C D), (A B C D E), (A B C D E F), (A B C D E F G), (A B C D E F G H));
