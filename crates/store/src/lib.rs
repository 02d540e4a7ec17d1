//! The store of Outlast: where runs live, on SQLite or PostgreSQL.
//!
//! [`Store`] is the seam: few atomic batch transitions, a separate read side, chosen by URL with
//! [`open`]. The transitions are written once (`transitions`, one file each), over statements with one
//! text for both databases ([`Sql`]), over transactions that a driver gives ([`Tx`]).

pub mod adapters;
mod address;
mod backup;
mod chain;
mod clock;
mod driver;
mod ended;
mod error;
mod gather;
mod held;
mod migrate;
mod model;
mod places;
mod postgres;
mod reads;
mod refused_writes;
mod render;
mod revert;
mod rows;
mod schema;
mod seam;
mod sql;
mod sqlite;
pub mod statements;
mod store;
mod transitions;
mod user_tx;
mod verified;
mod views;
mod vitals;
mod whole_look;

pub use backup::backup;
pub use chain::{ChainBreak, ChainChecked, ChainPage, ChainView, Link, check_chain};
pub use clock::Clock;
pub use driver::{CONFLICT_TRIES, FENCED_TIMEOUT_MS, LOCK_TIMEOUT_MS, Tx, TxKind, Work};
pub use error::{DriverError, StoreError};
pub use held::holding;
pub use model::*;
pub use render::{Dialect, Rendered, Shape, render};
pub use schema::{Schema, SchemaFile, migrate, newest_schema, revert, schema, schema_text};
pub use seam::{DynStore, OpenOptions, Reads, Store};
pub use sql::{Call, Cell, Row, Sql, Type};
#[doc(hidden)]
pub use sqlite::SharedMemory;
pub use store::{SqlStore, open};
pub use transitions::failure_of;
pub use user_tx::{UserTx, Value, ValueRow};
pub use verified::{Contradiction, Unwakeable, VerifyMark, VerifyPage};
pub use views::*;
pub use vitals::{PoolUse, PostgresVitals, SqliteVitals, TableSize, TableVitals, Upkeep, Vitals, VitalsKind};
pub use whole_look::WholeLook;

/// For `crates/testkit/instructions`, which counts what a commit costs before a database has anything to do: over a
/// transaction of its own, whose answers are made before. Not for people.
#[doc(hidden)]
pub mod bench {
    use crate::{Batch, StoreError, Tx, transitions};

    /// The short way of [`crate::Store::commit`], in a transaction of the caller's: which runs are done.
    pub async fn commit(tx: &mut dyn Tx, batch: &Batch) -> Result<Vec<bool>, StoreError> {
        transitions::commit_short(tx, batch).await
    }
}
