//! When a run goes on by itself, where a person may want it sooner.

use super::{Wait, WaitOn, Why};
use crate::{Error, Timestamp};

/// The time at which a run goes on by itself, and whose that time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// The run is due then, to begin or for its next attempt: any other time would do.
    Due(Timestamp),
    /// Its code sleeps until then, or a step's next attempt comes then. The time is in its journal: the wait can end now,
    /// but it cannot end at another time.
    Timer(Timestamp),
}

impl Later {
    /// When it goes on.
    pub fn at(self) -> Timestamp {
        match self {
            Later::Due(at) | Later::Timer(at) => at,
        }
    }

    /// Accepts another time at which it shall go on; `None`: now.
    pub fn check(self, at: Option<Timestamp>) -> Result<Later, Error> {
        match (self, at) {
            (Later::Timer(_), Some(at)) => {
                let only = "now: its code waits for a time that its journal has, which can only be over";
                Err(Error::invalid("time to go on", at, only))
            }
            _ => Ok(self),
        }
    }
}

impl Why {
    /// The time at which the run goes on by itself, if that can be changed. Not the time at which a wait for something else
    /// is given up: whoever ended it sooner would record a timeout that never was.
    pub fn later(&self) -> Option<Later> {
        match self {
            Why::Later { at } | Why::AfterCrash { at, .. } | Why::Retry { at, step: None, .. } => {
                Some(Later::Due(*at))
            }
            Why::Sleeping { until: at } | Why::Retry { at, step: Some(_), .. } => Some(Later::Timer(*at)),
            Why::Waiting { waits, until: Some(at) } => {
                let ends =
                    |wait: &Wait| matches!(wait.on, WaitOn::Sleep | WaitOn::Retry) && wait.until == Some(*at);
                waits.iter().any(ends).then_some(Later::Timer(*at))
            }
            _ => None,
        }
    }
}
