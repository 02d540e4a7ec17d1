//! Retention: how long ended runs are kept.

use std::time::Duration;

use outlast_core::{Error, Limits, Status};
use serde_json::{Value, json};

/// The shortest time for which a run is kept that has ended.
const SHORTEST: Duration = Duration::from_millis(1);

/// How long ended runs are kept, by how they ended. Then they are deleted, with everything of them: see
/// [`Outlast::retention`](crate::Outlast::retention) and [`Job::retention`](crate::Job::retention).
///
/// ```
/// use outlast::prelude::*;
/// let failed_longer = Retention::all(7.days()).failed(90.days());
/// let only_completed = Retention::forever().completed(1.day());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    completed: Option<Duration>,
    failed: Option<Duration>,
    cancelled: Option<Duration>,
}

impl Retention {
    /// Nothing is deleted by itself.
    pub const fn forever() -> Retention {
        Retention { completed: None, failed: None, cancelled: None }
    }

    /// All are kept for this long after their end, however they ended.
    pub const fn all(keep: Duration) -> Retention {
        Retention { completed: Some(keep), failed: Some(keep), cancelled: Some(keep) }
    }

    /// How long those are kept that completed.
    pub const fn completed(mut self, keep: Duration) -> Retention {
        self.completed = Some(keep);
        self
    }

    /// How long those are kept that failed: after that they cannot be tried again
    /// ([`Client::retry`](crate::Client::retry)).
    pub const fn failed(mut self, keep: Duration) -> Retention {
        self.failed = Some(keep);
        self
    }

    /// How long those are kept that were cancelled.
    pub const fn cancelled(mut self, keep: Duration) -> Retention {
        self.cancelled = Some(keep);
        self
    }

    /// How long runs are kept that ended like this; `None`: for ever.
    pub(crate) fn of(self, status: Status) -> Option<Duration> {
        match status {
            Status::Completed => self.completed,
            Status::Failed => self.failed,
            Status::Cancelled => self.cancelled,
            // What has not ended is kept, whatever else.
            _ => None,
        }
    }

    /// Refuses what would delete runs as they end, or can only be a mistake.
    pub(crate) fn check(self) -> Result<(), Error> {
        for keep in [self.completed, self.failed, self.cancelled].into_iter().flatten() {
            if keep < SHORTEST || keep > Limits::DURATION {
                return Err(Error::invalid("retention", format!("{keep:?}"), "1 ms to 100 years"));
            }
        }
        Ok(())
    }

    /// As it is recorded with a definition, for nodes without its code.
    pub(crate) fn to_json(self) -> Value {
        let millis = |keep: Option<Duration>| keep.map(|keep| keep.as_millis() as u64);
        json!({
            "completed": millis(self.completed),
            "failed": millis(self.failed),
            "cancelled": millis(self.cancelled),
        })
    }

    /// Reads what a definition's record says, if it says anything. What cannot be read keeps all: it was written by
    /// a version that knows more.
    pub(crate) fn from_json(recorded: &Value) -> Option<Retention> {
        if recorded.is_null() {
            return None;
        }
        let keep = |status: &str| recorded[status].as_u64().map(Duration::from_millis);
        let retention =
            Retention { completed: keep("completed"), failed: keep("failed"), cancelled: keep("cancelled") };
        Some(if retention.check().is_ok() { retention } else { Retention::forever() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_returns_as_it_was_recorded_and_what_is_not_understood_keeps_all() {
        let day = Duration::from_secs(86_400);
        for retention in [Retention::forever(), Retention::all(day), Retention::all(day).failed(day * 9)] {
            assert_eq!(Retention::from_json(&retention.to_json()), Some(retention));
        }
        assert_eq!(Retention::from_json(&Value::Null), None);
        for strange in [json!("7d"), json!({ "completed": "7d" }), json!({ "failed": 0 })] {
            assert_eq!(Retention::from_json(&strange), Some(Retention::forever()), "{strange}");
        }
    }

    #[test]
    fn a_retention_that_can_only_be_a_mistake_is_refused_with_the_range() {
        let refused = |retention: Retention| retention.check().unwrap_err().to_string();
        assert!(refused(Retention::all(Duration::ZERO)).contains("1 ms to 100 years"));
        assert!(refused(Retention::forever().cancelled(Limits::DURATION * 2)).contains("1 ms to 100 years"));
        assert!(Retention::all(Limits::DURATION).check().is_ok());
    }
}
