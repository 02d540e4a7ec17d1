//! Queues: what they do, and what people do to them.

use outlast_core::{QueueRules, QueueState, Timestamp};

/// What people do to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueChange {
    /// Nothing of it begins until it is resumed; what runs goes on.
    Pause,
    /// It is worked off again.
    Resume,
    /// What is in it now is worked off; what comes later stays in line until it is resumed.
    Drain,
    /// These rules instead of those that code says; `None`: code's again.
    Rules(Option<QueueRules>),
    /// The same, if nothing was changed since the queue was looked at: else it stays as it is.
    RulesAt {
        /// How often it had been changed.
        changes: i64,
        /// The rules.
        rules: Option<QueueRules>,
    },
}

/// What a queue does, as its row says. One without a row is open and has no rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueCard {
    /// Its name.
    pub name: String,
    /// The rules that hold.
    pub rules: QueueRules,
    /// Whether people set them, and not code.
    pub is_own: bool,
    /// Whether it is worked off.
    pub state: QueueState,
    /// Since when it is paused or drained.
    pub since: Option<Timestamp>,
    /// How often it was changed, by people or by code.
    pub changes: i64,
}

impl QueueCard {
    /// Whether it is claimed by [`crate::Store::claim_queue`] and not with all others.
    pub fn is_managed(&self) -> bool {
        self.state != QueueState::Open || !self.rules.is_plain()
    }
}
