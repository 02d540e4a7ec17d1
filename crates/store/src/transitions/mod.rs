//! The transitions: everything that changes a run, or a value that runs keep, one file and one function each.
//!
//! Each is one transaction over [`crate::Tx`], written once for both databases, and safe to repeat with
//! the same arguments, because a call that reported an error may have happened all the same. Each ends
//! with a last flight.
//!
//! Locks are taken in one order: a node's own row, queues, keys, runs (shard by shard, by id).
//! Values that handlers keep are locked by themselves, in the order of their names.

mod access;
mod agenda;
mod audit;
mod claim;
mod claim_queue;
mod claim_rows;
mod commit;
mod control;
mod deliver;
mod due;
mod end;
mod end_turn;
mod expire;
mod flight;
mod forget;
mod join;
mod keys;
mod kill;
mod kv;
mod leave;
mod listen;
mod measure;
mod once;
mod orphans;
mod own;
mod pause;
mod post;
mod purge;
mod queue;
mod record;
mod renew;
mod repair;
mod results;
mod retry;
mod roll;
mod schedule;
mod single_out;
mod start;
mod start_short;
mod sweep;
mod takeover;
mod unique;
mod wake_short;

pub(crate) use access::{HOME as ACCESS_HOME, access, read_token, token_columns};
pub(crate) use audit::note as note_all;
pub(crate) use claim::{NOW, claim};
pub(crate) use claim_queue::{LineMemory, Memory as QueueMemory, claim_queue, lines};
pub(crate) use commit::{commit, commit_both, commit_short, left, together};
pub(crate) use control::control;
pub(crate) use deliver::{deliver, wake};
pub(crate) use end_turn::end_turn;
pub(crate) use expire::expire;
pub(crate) use flight::{Flight, Place};
pub(crate) use forget::forget;
pub(crate) use join::{add_definitions, found_definitions, join};
pub(crate) use keys::{KeyName, add_look, found as found_keys};
pub(crate) use kv::{kv_write, shard_of as shard_of_kv};
pub(crate) use leave::leave;
pub(crate) use listen::listen;
pub(crate) use measure::measure;
pub(crate) use once::control_once;
pub(crate) use orphans::{are_orphans, stop_orphans};
pub(crate) use own::end_leases;
pub(crate) use queue::{home as home_of_queue, read as read_queue, read_counted as read_counted_queue};
pub(crate) use record::record;
pub(crate) use renew::{Look as RenewLook, free_strangers, renew};
pub use roll::failure_of;
pub(crate) use roll::{MINUTE, roll};
pub(crate) use schedule::{fire, read as read_schedule, schedule_columns};
pub(crate) use single_out::single_out;
pub(crate) use start::{start, start_all};
pub(crate) use start_short::start_short;
pub(crate) use sweep::{sweep, to_sweep};
pub(crate) use takeover::LOST_FOR;
pub(crate) use wake_short::wake_short;

use crate::Sql;

/// Every statement of the transitions.
pub(crate) fn statements() -> Vec<&'static Sql> {
    [
        access::STATEMENTS,
        audit::STATEMENTS,
        once::STATEMENTS,
        agenda::STATEMENTS,
        keys::STATEMENTS,
        post::STATEMENTS,
        start::STATEMENTS,
        start_short::STATEMENTS,
        unique::STATEMENTS,
        claim::STATEMENTS,
        claim_rows::STATEMENTS,
        &claim_queue::statements(),
        queue::STATEMENTS,
        &commit::statements(),
        results::STATEMENTS,
        roll::STATEMENTS,
        measure::STATEMENTS,
        schedule::STATEMENTS,
        deliver::STATEMENTS,
        wake_short::STATEMENTS,
        listen::STATEMENTS,
        control::STATEMENTS,
        repair::STATEMENTS,
        pause::STATEMENTS,
        due::STATEMENTS,
        retry::STATEMENTS,
        &purge::statements(),
        kv::STATEMENTS,
        renew::STATEMENTS,
        single_out::STATEMENTS,
        takeover::STATEMENTS,
        sweep::STATEMENTS,
        end::STATEMENTS,
        expire::STATEMENTS,
        forget::STATEMENTS,
        join::STATEMENTS,
        leave::STATEMENTS,
        orphans::STATEMENTS,
        own::STATEMENTS,
    ]
    .concat()
}
