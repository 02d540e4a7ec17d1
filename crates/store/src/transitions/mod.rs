//! The transitions: everything that changes a run, or a value that runs keep, one file and one function each.
//!
//! Each is one transaction over [`crate::Tx`], written once for both databases, and safe to repeat with
//! the same arguments, because a call that reported an error may have happened all the same. Each ends
//! with a last flight.
//!
//! Locks are taken in one order: a node's own row, keys, runs (shard by shard, by id). Values that handlers keep are
//! locked by themselves, in the order of their names.

mod agenda;
mod claim;
mod commit;
mod control;
mod deliver;
mod end;
mod expire;
mod flight;
mod join;
mod keys;
mod kv;
mod leave;
mod listen;
mod own;
mod post;
mod record;
mod renew;
mod results;
mod single_out;
mod start;
mod start_short;
mod sweep;
mod takeover;
mod wake_short;

pub(crate) use claim::{NOW, claim};
pub(crate) use commit::{commit, commit_short};
pub(crate) use control::control;
pub(crate) use deliver::{deliver, wake};
pub(crate) use expire::expire;
pub(crate) use flight::{Flight, Place};
pub(crate) use join::{add_definitions, found_definitions, join};
pub(crate) use keys::{KeyName, add_look, found as found_keys};
pub(crate) use kv::{kv_write, shard_of as shard_of_kv};
pub(crate) use leave::leave;
pub(crate) use listen::listen;
pub(crate) use own::end_leases;
pub(crate) use record::record;
pub(crate) use renew::{free_strangers, renew};
pub(crate) use single_out::single_out;
pub(crate) use start::{start, start_all};
pub(crate) use start_short::start_short;
pub(crate) use sweep::{sweep, to_sweep};
pub(crate) use wake_short::wake_short;

use crate::Sql;

/// Every statement of the transitions.
pub(crate) fn statements() -> Vec<&'static Sql> {
    [
        agenda::STATEMENTS,
        keys::STATEMENTS,
        post::STATEMENTS,
        start::STATEMENTS,
        start_short::STATEMENTS,
        claim::STATEMENTS,
        &commit::statements(),
        results::STATEMENTS,
        deliver::STATEMENTS,
        wake_short::STATEMENTS,
        listen::STATEMENTS,
        kv::STATEMENTS,
        &control::statements(),
        renew::STATEMENTS,
        single_out::STATEMENTS,
        takeover::STATEMENTS,
        sweep::STATEMENTS,
        end::STATEMENTS,
        expire::STATEMENTS,
        join::STATEMENTS,
        leave::STATEMENTS,
        own::STATEMENTS,
    ]
    .concat()
}
