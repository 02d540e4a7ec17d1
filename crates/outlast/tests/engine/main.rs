//! What the engine promises, told as stories on both databases.

#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod harness;

mod attempts;
mod batches;
mod bounds;
mod cancel;
mod checks;
mod children;
mod clients;
mod dead_letters;
mod deploys;
mod explain;
mod fates;
mod jobs;
mod kill;
mod kv;
mod orphans;
mod pace;
mod pause;
mod queues;
mod quiet;
mod races;
mod repeats;
mod replay;
mod retention;
mod sagas;
mod schedules;
mod steps;
mod suspects;
mod transactions;
mod undo;
mod uniques;
mod waits;
