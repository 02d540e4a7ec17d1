//! Messages to runs, and how a run is named from outside.

use outlast_core::{Payload, RunId, Status};

use crate::NewsKind;

/// A message to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its own id: a repeated delivery is the same delivery.
    pub id: uuid::Uuid,
    /// To whom.
    pub to: Address,
    /// What.
    pub kind: NewsKind,
    /// Name of the event or promise, or of the operation that started the child.
    pub name: String,
    /// The value.
    pub body: Option<Payload>,
}

/// How a run is named from outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// By id.
    Run(RunId),
    /// By key; the run need not exist yet.
    Key {
        /// Its tenant.
        tenant: String,
        /// Its definition.
        definition: String,
        /// Its key.
        key: String,
    },
}

/// The answer to one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    /// It is in the inbox (or was, by an earlier try), and the run has been woken if it waited.
    Done {
        /// The run; with a key that no run has yet, the id that is reserved for it.
        run: RunId,
    },
    /// The promise was settled before; the first value stays.
    AlreadySettled {
        /// The run.
        run: RunId,
    },
    /// The run has ended.
    Closed {
        /// The run.
        run: RunId,
        /// How.
        status: Status,
    },
    /// There is no such run.
    Unknown,
    /// The run has too many unread messages.
    Full {
        /// The run.
        run: RunId,
        /// The limit.
        limit: u32,
    },
}

/// Asks that a run hears of another's end, as a parent does of its child's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Whose end.
    pub run: RunId,
    /// Who wants to hear of it.
    pub listener: RunId,
    /// The name of the [`NewsKind::Child`] that it gets.
    pub name: String,
}

/// The answer to a [`Listen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listened {
    /// The end will be told, in the transaction that ends the run.
    Noted,
    /// The run had ended: its end is told, and not again while it lies unread.
    Ended,
    /// There is no such run.
    Unknown,
}
