//! The HTTP API as programs see it: a server that listens, an engine that runs, requests over TCP.

mod access;
mod audit;
mod bad_input;
mod bound;
#[cfg(feature = "embed")]
mod dashboard;
mod deaths;
mod idempotency;
mod lab;
mod limits;
mod live;
mod logs;
mod looks;
mod metrics;
mod openapi;
mod pages;
mod payloads;
mod postgres;
mod proxy;
mod redact;
mod resets;
mod runs;
mod schedules;
mod sessions;
mod things;
mod times;
mod told;
mod walk;
