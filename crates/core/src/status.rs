//! The status of a run, and the one function that knows every move.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Where a run stands. `Scheduled`, `queued`, `sleeping` and `retrying` are words for showing a
/// `Ready` or `Waiting` run, not states of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// May run, now or at its due time.
    Ready,
    /// A node holds it.
    Running,
    /// Waits for a timer, an event, a promise or a child.
    Waiting,
    /// A person holds it back.
    Paused,
    /// Cannot go on with the code that is there; says why.
    Blocked,
    /// Reverts what it did.
    Undoing,
    /// Could not revert all; waits for a person.
    UndoFailed,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended because someone asked.
    Cancelled,
}

/// What may happen to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// A node takes it.
    Claim,
    /// Only durable waits are left.
    Suspend,
    /// A wait is over.
    Wake,
    /// An attempt failed and another follows, or a node hands it back.
    Retry,
    /// The node that held it is gone.
    Expire,
    /// The code does not fit.
    Misfit,
    /// Fitting code appeared.
    Fit,
    /// A person holds it back.
    Pause,
    /// A person lets it go on.
    Resume,
    /// It ends with a result.
    Complete,
    /// It ends with an error.
    Fail,
    /// It ends because someone asked.
    Cancel,
    /// It ends because someone wants it to at once, whatever it is doing.
    Kill,
    /// It has something to revert first.
    Undo,
    /// Reverting failed for good.
    GiveUp,
    /// Somebody wants a job that ended without a result tried again.
    Revive,
}

impl Status {
    /// Every status, in the order of a run's life.
    pub const ALL: [Status; 10] = {
        use Status::*;
        [Ready, Running, Waiting, Paused, Blocked, Undoing, UndoFailed, Completed, Failed, Cancelled]
    };

    /// The status after `change`, or `None` when a run cannot move that way.
    pub fn after(self, change: Change) -> Option<Status> {
        use {Change::*, Status::*};
        match (self, change) {
            (Ready | Waiting | Undoing, Claim) => Some(Running),
            (Running, Suspend) => Some(Waiting),
            (Running, Retry | Expire) | (Waiting, Wake) | (Blocked, Fit) | (Paused, Resume) => Some(Ready),
            (Ready | Running, Misfit) => Some(Blocked),
            // A running one when its turn ends; a blocked one would go on by itself when code appears that fits.
            (Ready | Running | Waiting | Blocked | Undoing, Pause) => Some(Paused),
            (Running, Complete) => Some(Completed),
            // A blocked run fails when its time is over.
            (Running | Blocked, Fail) => Some(Failed),
            // A run that never began, or cannot, has nothing to say about its cancellation.
            (Running | Ready | Paused | Blocked, Cancel) => Some(Cancelled),
            (Ready | Running | Waiting | Paused | Blocked | Undoing | UndoFailed, Kill) => Some(Cancelled),
            (Running, Undo) => Some(Undoing),
            (Running | Undoing, GiveUp) => Some(UndoFailed),
            (UndoFailed, Retry) => Some(Undoing),
            // Final is final: nothing leaves these by itself, and nothing at all leaves a result.
            (Failed | Cancelled, Revive) => Some(Ready),
            (Completed | Failed | Cancelled, _) => None,
            _ => None,
        }
    }

    /// Whether nothing will ever happen to the run again, unless somebody wants it tried again.
    pub fn is_final(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }

    /// The number the database keeps.
    pub fn code(self) -> i16 {
        Status::ALL.iter().position(|status| *status == self).map_or(0, |place| place as i16 + 1)
    }

    /// The status with this number; an unknown one is an error, never a default.
    pub fn from_code(code: i64) -> Result<Status, Error> {
        let place = usize::try_from(code - 1).ok();
        place
            .and_then(|place| Status::ALL.get(place).copied())
            .ok_or_else(|| Error::invalid("status number", code, "written by another version of Outlast"))
    }

    /// The word for it, as everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ready => "ready",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Paused => "paused",
            Status::Blocked => "blocked",
            Status::Undoing => "undoing",
            Status::UndoFailed => "undo_failed",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Status {
    type Err = Error;

    fn from_str(word: &str) -> Result<Status, Error> {
        let words = Status::ALL.map(Status::word).join(", ");
        let found = Status::ALL.into_iter().find(|status| status.word() == word);
        found.ok_or_else(|| Error::invalid("status", word, format!("one of {words}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_a_final_status() {
        use Change::*;
        let all = [
            Claim, Suspend, Wake, Retry, Expire, Misfit, Fit, Pause, Resume, Complete, Fail, Cancel, Kill,
            Undo, GiveUp,
        ];
        for status in Status::ALL.into_iter().filter(|status| status.is_final()) {
            assert!(all.iter().all(|change| status.after(*change).is_none()));
        }
    }

    #[test]
    fn only_what_ended_without_a_result_can_be_tried_again() {
        let again = |status: Status| status.after(Change::Revive);
        for status in Status::ALL {
            let wanted = matches!(status, Status::Failed | Status::Cancelled).then_some(Status::Ready);
            assert_eq!(again(status), wanted, "{status}");
        }
    }

    #[test]
    fn numbers_and_words_return_as_they_went() {
        for status in Status::ALL {
            assert_eq!(Status::from_code(status.code().into()).unwrap(), status);
            assert_eq!(status.word().parse::<Status>().unwrap(), status);
        }
        assert!(Status::from_code(0).is_err() && Status::from_code(99).is_err());
    }
}
