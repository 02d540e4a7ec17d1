//! The read side: what turns, clients and people look at. Changes nothing, locks nothing.
//!
//! A read transaction has one snapshot, so a run is seen either in line or ended, never both and never
//! neither.

mod access;
mod explain;
mod kv;
mod list;
mod list_texts;
mod logs;
mod never;
mod queues;
mod rollups;
mod schedules;
mod turns;
mod upkeep;
mod verify;
mod views;
mod waits;

pub(crate) use access::{audit, audit_chain, audit_columns, read_audit, session, token, tokens};
pub(crate) use explain::explain;
pub(crate) use kv::{kv_get, kv_list};
pub(crate) use list::{count, list};
pub(crate) use logs::{log_end, logs};
pub(crate) use queues::{QUEUE_COUNTS, add_counts, queue_groups, queue_views, queues};
pub(crate) use rollups::{depths, failures, series};
pub(crate) use schedules::{schedules, schedules_due};
pub(crate) use turns::{inbox, journal, lives, load};
pub(crate) use upkeep::{oldest_ended, upkeep};
pub(crate) use verify::verify;
pub(crate) use views::{definitions, ended, find, lost, next_due, nodes, now, run};
pub(crate) use waits::waited_for;

use crate::Sql;

/// Every statement of the reads.
pub(crate) fn statements() -> Vec<&'static Sql> {
    [
        access::STATEMENTS,
        turns::STATEMENTS,
        views::STATEMENTS,
        list_texts::STATEMENTS,
        logs::STATEMENTS,
        queues::STATEMENTS,
        rollups::STATEMENTS,
        schedules::STATEMENTS,
        kv::STATEMENTS,
        explain::STATEMENTS,
        waits::STATEMENTS,
        upkeep::STATEMENTS,
        verify::STATEMENTS,
        never::STATEMENTS,
    ]
    .concat()
}
