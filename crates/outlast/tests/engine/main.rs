//! What the engine promises, told as stories on both databases.

#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod forks;
mod harness;

mod attempts;
mod batches;
mod bounds;
mod bulk;
mod cancel;
mod checks;
mod children;
mod clients;
mod dead_letters;
mod deaths;
mod deploys;
mod due;
mod elsewhere;
mod explain;
mod fates;
mod jobs;
mod kill;
mod kv;
mod orphans;
mod pace;
mod pause;
mod poison;
mod queues;
mod quiet;
mod races;
mod repair;
mod repeats;
mod replay;
mod retention;
mod rollbacks;
mod sagas;
mod schedules;
mod sizes;
mod steps;
mod suspects;
mod takeover;
mod took;
mod transactions;
mod undo;
mod uniques;
mod waits;
