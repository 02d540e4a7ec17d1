//! Whether there is anything that wakes a run: no unfinished run may be without.

use serde::{Deserialize, Serialize};

use super::Wait;
use crate::{NodeId, Status, Timestamp};

/// What wakes a run, as far as it can be told from where the run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WakeSource {
    /// It is due at a time.
    Due,
    /// A node has it, until its lease ends.
    Held,
    /// It waits for an event, a promise, another run's end or the request to stop.
    Waiting,
    /// A person holds it back.
    Paused,
    /// It is blocked and says why.
    Blocked,
    /// Its undo failed, and it says why.
    UndoFailed,
}

/// Who has a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Until when its lease holds; `None` when the node has no row, and so nobody will ever find it dead.
    pub lease_until: Option<Timestamp>,
}

/// Where an unfinished run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    /// Its status.
    pub status: Status,
    /// When it is due.
    pub due_at: Option<Timestamp>,
    /// Who has it.
    pub holder: Option<Holder>,
    /// Why it stands still, as its row says.
    pub reason: Option<String>,
    /// What it waits for, without what cannot wake it any more.
    pub waits: Vec<Wait>,
}

/// What wakes a run that stands like this, or why nothing does.
pub fn wake_source(stand: &Stand) -> Result<WakeSource, String> {
    let Stand { status, due_at, holder, reason, waits } = stand;
    if let Some(Holder { node, lease_until, .. }) = holder {
        return match lease_until {
            Some(_) => Ok(WakeSource::Held),
            None => Err(format!("{node} holds it and is no node of this database")),
        };
    }
    match status {
        Status::Completed | Status::Failed | Status::Cancelled => {
            Err(format!("it has {status} and still stands in line"))
        }
        Status::Blocked if reason.is_some() => Ok(WakeSource::Blocked),
        Status::UndoFailed if reason.is_some() => Ok(WakeSource::UndoFailed),
        Status::Blocked | Status::UndoFailed => Err(format!("it is {status} and does not say why")),
        Status::Paused => Ok(WakeSource::Paused),
        _ if due_at.is_some() => Ok(WakeSource::Due),
        Status::Waiting if !waits.is_empty() => Ok(WakeSource::Waiting),
        Status::Waiting => {
            Err("it waits, and neither a time nor anything open in its journal can end that".into())
        }
        Status::Running => Err("it is running, and no node has it".into()),
        _ => Err(format!("it is {status} and due at no time")),
    }
}
