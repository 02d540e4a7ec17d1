//! Values that handlers keep: how they are named, written and listed.

use std::time::Duration;

use outlast_core::Payload;
use serde::{Deserialize, Serialize};

/// Where a value is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvName {
    /// Whose it is; empty for nobody's in particular.
    pub tenant: String,
    /// The space, in which keys are unique.
    pub space: String,
    /// The key.
    pub key: String,
}

/// A change of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvWrite {
    /// Its own id: a repeated write is the same write.
    pub id: uuid::Uuid,
    /// Which value.
    pub name: KvName,
    /// What becomes of it.
    pub change: KvChange,
    /// What must be there for it to happen; `None` when that does not matter.
    pub expect: Option<Expect>,
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvChange {
    /// It is this from now on.
    Set {
        /// The value.
        value: Payload,
        /// After how long it is gone by itself.
        ttl: Option<Duration>,
    },
    /// It is gone.
    Delete,
}

/// What must be there for a value to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// A value of exactly this version.
    Version(i64),
}

impl From<i64> for Expect {
    fn from(version: i64) -> Expect {
        Expect::Version(version)
    }
}

impl From<Option<i64>> for Expect {
    fn from(version: Option<i64>) -> Expect {
        version.map_or(Expect::Absent, Expect::Version)
    }
}

/// The answer to one write. Runs record it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvWritten {
    /// It happened, by this call or by an earlier try of the same call.
    Done {
        /// The version that it made: greater than every earlier one of this key, also of one that was deleted.
        version: i64,
    },
    /// There was nothing to delete.
    Absent,
    /// Something else was there than was expected. Nothing of it was written.
    Conflict {
        /// The version that is there; `None` when there is no value.
        current: Option<i64>,
    },
}

/// Asks for a page of values whose keys begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvList {
    /// Whose.
    pub tenant: String,
    /// In which space.
    pub space: String,
    /// What keys begin with; empty for all of them.
    pub prefix: String,
    /// After this key.
    pub after: Option<String>,
    /// At most this many, and never more than [`KvList::MOST`].
    pub limit: u32,
    /// At most this many bytes of values, each reckoned with [`KvList::ROW`] more; but always one value, if there is one.
    pub bytes: usize,
}

impl KvList {
    /// The most values of one page.
    pub const MOST: u32 = 1000;
    /// What a value takes beside its own bytes.
    pub const ROW: usize = 512;
}
