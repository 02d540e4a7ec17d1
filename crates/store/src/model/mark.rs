//! How far somebody has looked among runs in the order of a time, so that the next look goes on from there.

use outlast_core::{RunId, Timestamp};
use uuid::Uuid;

/// A place among runs that are looked at in the order of a time: just after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Its time: when it ended, or since when it is due.
    pub at: Timestamp,
    /// Which.
    pub run: RunId,
}

impl Default for Mark {
    /// Before all of them.
    fn default() -> Mark {
        Mark { at: Timestamp::from_micros(i64::MIN), run: RunId::from_uuid(Uuid::nil()) }
    }
}

impl Mark {
    /// From what [`Mark::to_text`] wrote; what nobody can read is before all.
    pub(crate) fn parse(text: &str) -> Mark {
        let read = |(at, run): (&str, &str)| {
            let (at, run): (i64, Uuid) = (at.parse().ok()?, run.parse().ok()?);
            Some(Mark { at: Timestamp::from_micros(at), run: RunId::from_uuid(run) })
        };
        text.split_once(' ').and_then(read).unwrap_or_default()
    }

    /// As text.
    pub(crate) fn to_text(self) -> String {
        match self == Mark::default() {
            true => String::new(),
            false => format!("{} {}", self.at.micros(), self.run.uuid()),
        }
    }
}
