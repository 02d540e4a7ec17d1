//! Proof that `kill -9` at any moment, and a restart, lose nothing and repeat no recorded step.
//!
//! A [`Supervisor`] starts runs, each called with a random plan that uses everything there is, and
//! kills the processes that run them ([`Victim`]) with SIGKILL, again and again. Bodies of steps tell a
//! ledger outside of the engine what they do. At the end a checker compares the supervisor's own calls,
//! the ledger and the database; it is a pure function of these.

mod beats;
mod calls;
mod chaos;
mod check;
mod crowd;
mod gates;
mod ledger;
mod load;
mod meter;
mod node;
mod plan;
mod play;
mod poison;
mod power;
mod sagas;
mod scene;
mod supervisor;
mod tale;
#[cfg(test)]
mod tests;
mod victim;
mod watch;

pub use chaos::{Chaos, Fault, Outcome};
pub use check::Violation;
pub use crowd::Crowd;
pub use poison::{Death, Poison, PoisonReport};
pub use power::{PowerLoss, PowerReport, Scribe};
pub use supervisor::{Report, Supervisor};
pub use victim::Victim;
