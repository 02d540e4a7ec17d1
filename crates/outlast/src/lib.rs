#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod bulk;
mod check;
mod client;
mod control;
mod ctx;
mod dead_letters;
mod definition;
mod draft;
mod engine;
mod explain;
mod export;
mod fork;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
mod in_tx;
mod judge;
mod known;
mod kv;
mod logs;
mod of_jobs;
mod queue;
mod registry;
mod rehearse;
mod repair;
mod retention;
mod schedule;
mod start;
pub mod testing;
mod tx;
mod unique;
mod verdict;
mod waiter;

pub use app::{App, Outlast};
pub use bulk::{Bulk, BulkAsk, BulkCall, BulkFailure, BulkJob, BulkReport, BulkRun, Planned, Preview, What};
pub use check::{Check, CheckReport, Checked};
pub use client::{Client, Target, Untyped};
pub use ctx::{
    BatchCtx, CancelWait, Child, ChildStart, Ctx, EventWait, JobCtx, ParentEnd, PromiseWait, Sleep, Step,
    StepCtx, TransactionStep,
};
pub use definition::{Definition, Job, Options, Stored, StoredError, UniqueArgs, Workflow};
pub use engine::Settings;
pub use explain::Verified;
pub use export::RunExport;
pub use fork::ForkRun;
pub use in_tx::InTx;
pub use kv::{CompareAndSet, Kv, KvCall, KvEntry, KvPage};
pub use logs::RunLogs;
pub use outlast_core::{
    AnyError, DurationExt, Entry, Error, Explained, Failure, FailureDoc, Limits, Op, Phase, QueueRules,
    QueueState, Rate, Retry, RunId, Status, Timestamp, Timetable, Wait, WaitOn, WakeSource, Why,
};
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use outlast_macros::{job, workflow};
pub use outlast_store::{
    Contradiction, Cursor, DefinitionCard, Doing, Expect, Filter, LogLine, LogPlace, LostNode, NodeView,
    Page, QueueCard, QueueView, RunView, ScheduleView, Unwakeable, Value,
};
pub use queue::Queue;
pub use repair::{RepairPlan, RepairRun};
pub use retention::Retention;
pub use schedule::{CatchUp, Overlap, Schedule, check_schedule_name};
pub use start::{RunHandle, Start, StartMany};
pub use tx::{IntoParams, IntoValue, Row, Tx};
pub use unique::Unique;
pub use verdict::{Difference, Operation, Source, Verdict};

/// What most programs want: `use outlast::prelude::*;`
pub mod prelude {
    pub use crate::{
        AnyError, App, BatchCtx, Client, Ctx, DurationExt, Error, Failure, Job, JobCtx, Kv, Outlast, Queue,
        Retention, Retry, RunId, Schedule, Status, StepCtx, Target, Tx, Unique, Workflow,
    };
}

/// For the server, which tells its troubles in the same way; not for people.
#[doc(hidden)]
pub mod trouble {
    pub use crate::engine::seldom::Seldom;
}

/// For `crates/testkit/instructions`; not for people.
#[doc(hidden)]
pub mod bench {
    pub use crate::engine::committer::bench::gathered;
}

/// For the macros; not for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::definition::Options;
    pub use outlast_core::Retry;
    pub use std::boxed::Box;
    pub use std::time::Duration;
}

// The programs of the guide, compiled and run by the doc tests. Some need more than the default features.
#[cfg(all(doctest, feature = "http", feature = "macros"))]
#[doc = include_str!("../../../docs/guide.md")]
mod guide {}
