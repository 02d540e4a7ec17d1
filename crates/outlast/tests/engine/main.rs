//! What the engine promises, told as stories on both databases.

#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod harness;

mod attempts;
mod bounds;
mod cancel;
mod children;
mod clients;
mod deploys;
mod jobs;
mod kv;
mod pace;
mod quiet;
mod races;
mod replay;
mod steps;
mod suspects;
mod transactions;
mod waits;
