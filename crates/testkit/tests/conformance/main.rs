//! What every transition means, on every store.
//!
//! A store is right when it tells these stories; nothing else defines it. Each is told on SQLite and
//! PostgreSQL, with one shard and with four, and at the end of each the database must make sense.

mod access;
mod audit;
mod began;
mod care;
mod claim;
mod commit;
mod commit_effects;
mod commit_moves;
mod control;
mod deliver;
mod due;
mod edges;
mod keys;
mod kill;
mod kv;
mod listen;
mod logs;
mod long_lines;
mod nodes;
mod orphans;
mod pause;
mod purge;
mod queue_memory;
mod queue_states;
mod queues;
mod races;
mod reads;
mod renew;
mod repair;
mod repeat;
mod rollups;
mod schedules;
mod short_way;
mod signals;
mod start;
mod storms;
mod suspects;
mod sweep;
mod uniques;
mod user_tx;
mod wake;

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
