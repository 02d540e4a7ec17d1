//! Why a run is not progressing: each reason, the proof that something wakes every run, and stories that nobody wrote,
//! in which every named wake has to be true.

#![allow(missing_docs, reason = "tests")]

mod follow;
mod reasons;
mod stage;
mod stories;
mod verify;
mod view;
