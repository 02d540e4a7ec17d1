//! The simulator: many nodes of the real engine in one thread, on one seed and in virtual time, over the real SQLite
//! store in memory behind everything that may go wrong (`faults`), running random programs (`program`) whose
//! outcome a model predicts (`model`). The same seed gives the same history, bit for bit.

mod beats;
mod cast;
mod check;
mod faults;
mod faulty;
mod ledger;
mod model;
mod panics;
mod plan;
mod play;
mod program;
mod report;
mod schedule;
mod script;
mod story;
mod work;
mod world;

pub use faults::Watch;
pub use report::{Report, Tally};
pub use schedule::{Outcome, Theatre};
pub use script::Script;
