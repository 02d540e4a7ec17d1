//! How a database is doing, as facts: what they mean, and what to do about them, is for whoever asks.

use std::path::PathBuf;
use std::time::Duration;

use outlast_core::Timestamp;

/// What a look at a database found.
#[derive(Debug, Clone, PartialEq)]
pub struct Vitals {
    /// Its version, in its own words.
    pub version: String,
    /// Runs that a node holds whose lease has been over for more than a minute, or that is not there any more.
    pub orphans: u64,
    /// What only this kind of database has.
    pub kind: VitalsKind,
}

/// What only one kind of database has.
#[derive(Debug, Clone, PartialEq)]
pub enum VitalsKind {
    /// SQLite.
    Sqlite(SqliteVitals),
    /// PostgreSQL.
    Postgres(Box<PostgresVitals>),
}

/// A file of SQLite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SqliteVitals {
    /// Where it is; `None` in memory.
    pub file: Option<PathBuf>,
    /// What `quick_check` found wrong, the first ten.
    pub damage: Vec<String>,
    /// How changes are kept safe: `wal`.
    pub journal_mode: String,
    /// How many bytes the file has.
    pub bytes: u64,
    /// How many of them nothing uses.
    pub unused: u64,
    /// How many bytes the write-ahead log has.
    pub log_bytes: u64,
}

/// A server of PostgreSQL, and what it says of our schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PostgresVitals {
    /// Its version as a number: 160004.
    pub version_number: i32,
    /// Whether it only repeats what another one does.
    pub is_standby: bool,
    /// How many connections it allows to people like us.
    pub connections_most: i64,
    /// How many are open.
    pub connections: i64,
    /// How many this process may open.
    pub pool: usize,
    /// Whether a transaction pooler stands before it.
    pub is_pooled: bool,
    /// How long a notification took from one connection to another; `None` when it did not arrive in two seconds.
    pub notified: Option<Duration>,
    /// What our role may not do, as `DELETE on outlast.runs`.
    pub forbidden: Vec<String>,
    /// `synchronous_commit` and `fsync`, where they are off.
    pub unsafe_settings: Vec<String>,
    /// Whether it cleans up after itself.
    pub has_autovacuum: bool,
    /// Tables of ours whose dead rows are many, or that are not cleaned up.
    pub tables: Vec<TableVitals>,
    /// How long the oldest transaction that we may see has been open.
    pub oldest_transaction: Duration,
    /// How many bytes the database has.
    pub bytes: i64,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableVitals {
    /// Its name.
    pub name: String,
    /// Rows that count.
    pub live: i64,
    /// Rows that do not count any more and still take room.
    pub dead: i64,
    /// Whether it was told not to be cleaned up.
    pub is_neglected: bool,
}

/// How the work beside the runs stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// The database's now.
    pub now: Timestamp,
    /// When the first run ended that is in no sum yet; `None` when all are.
    pub unsummed_since: Option<Timestamp>,
    /// Whether the schema is one that this program can go on with, which somebody may have changed since it was opened.
    pub schema_fits: bool,
    /// Whether the database took what was written: false for a moment after each write that it refused because it has no
    /// room, or may not write at all.
    pub takes_writes: bool,
}

/// How much room a table takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSize {
    /// Its name, as in `outlast.runs`.
    pub name: String,
    /// How many bytes it has, with its indexes.
    pub bytes: u64,
}

/// The connections of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// How many there may be.
    pub size: usize,
    /// How many are in use now.
    pub in_use: usize,
}
