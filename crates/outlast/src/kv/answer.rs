//! What is told of values.

use outlast_core::{Error, Timestamp};
use outlast_store::{KvEntry as Kept, KvPage as KeptPage, KvWritten};
use serde::de::DeserializeOwned;

/// A value with what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvEntry<T> {
    /// Its key.
    pub key: String,
    /// The value.
    pub value: T,
    /// Its version: raised by every change, and never used again for this key.
    pub version: i64,
    /// When its time is over.
    pub expires_at: Option<Timestamp>,
}

/// A page of [`Kv::list`](crate::Kv::list).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvPage<T> {
    /// The values, in the order of their keys' bytes.
    pub entries: Vec<KvEntry<T>>,
    /// What the next page begins after ([`KvCall::after`](crate::KvCall::after)); `None` at the end.
    pub next: Option<String>,
}

/// How a [`Kv::compare_and_set`](crate::Kv::compare_and_set) came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "without a look at it nobody knows whether the value was set"]
pub enum CompareAndSet {
    /// The value is set.
    Done {
        /// Its version.
        version: i64,
    },
    /// Something else was there, and still is.
    Conflict {
        /// The version that is there; `None` when there is no value.
        current: Option<i64>,
    },
}

fn read<T: DeserializeOwned>(kept: Kept) -> Result<KvEntry<T>, Error> {
    let value = kept.value.decode(format_args!("the value of {:?}", kept.key))?;
    Ok(KvEntry { key: kept.key, value, version: kept.version, expires_at: kept.expires_at })
}

pub(super) fn read_any<T: DeserializeOwned>(kept: Option<Kept>) -> Result<Option<KvEntry<T>>, Error> {
    kept.map(read).transpose()
}

pub(super) fn read_page<T: DeserializeOwned>(page: KeptPage) -> Result<KvPage<T>, Error> {
    let entries = page.entries.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(KvPage { entries, next: page.next })
}

pub(super) fn read_version(written: KvWritten) -> Result<i64, Error> {
    match written {
        KvWritten::Done { version } => Ok(version),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn read_compared(written: KvWritten) -> Result<CompareAndSet, Error> {
    match written {
        KvWritten::Done { version } => Ok(CompareAndSet::Done { version }),
        KvWritten::Conflict { current } => Ok(CompareAndSet::Conflict { current }),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn read_deleted(written: KvWritten) -> Result<bool, Error> {
    Ok(matches!(written, KvWritten::Done { .. }))
}

/// The answer to a lone write.
pub(super) fn only(answers: Vec<KvWritten>) -> Result<KvWritten, Error> {
    answers.into_iter().next().ok_or_else(|| Error::misconfigured("the store gave no answer to a write"))
}

fn unexpected(answer: &KvWritten) -> Error {
    Error::misconfigured(format!("the store answered {answer:?} to a write that cannot end so"))
}
