//! Queues: what a line of runs allows, and which of those that stand in it may go on now.
//!
//! Nothing here is kept between two claims but what the database says: who runs is counted, and what a rate has
//! used stands in a [`Window`]. So a limit needs no counter that a crash could leave wrong: whoever died holds
//! nothing from the moment on in which its runs are somebody else's.

mod admit;
mod window;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use admit::{Admission, Admitted, Candidate, HeldBack};
pub use window::Window;

use crate::{Error, Limits};

/// So many starts in any span of so long.
///
/// ```
/// use outlast_core::{DurationExt, Rate};
/// let rate = Rate::new(100, 1.minute());
/// assert!(rate.check("rate").is_ok() && Rate::new(0, 1.minute()).check("rate").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In any span of this length.
    #[serde(rename = "per_us", with = "micros")]
    pub per: Duration,
}

impl Rate {
    /// `count` starts in any span of `per`.
    pub const fn new(count: u32, per: Duration) -> Rate {
        Rate { count, per }
    }

    /// Accepts a rate that lets something through.
    pub fn check(&self, what: &str) -> Result<(), Error> {
        check_slots(what, self.count)?;
        let least = Duration::from_millis(1);
        if self.per < least || self.per > Limits::DURATION {
            return Err(Error::invalid(
                &format!("span of the {what}"),
                format!("{:?}", self.per),
                "1 ms to 100 years",
            ));
        }
        Ok(())
    }
}

/// What a queue allows. Without any of it the queue is plain: whatever is due goes, the most urgent first.
///
/// A limit holds over all nodes. A *group* is what a run says it belongs to (a tenant, a customer, an account);
/// without a group of its own it is in its tenant's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueRules {
    /// How many runs of the queue run at once, on all nodes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How many of them run at once on one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_node: Option<u32>,
    /// How many runs of one group run at once, on all nodes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_group: Option<u32>,
    /// How many begin in any span of time: attempts of jobs, starts of workflows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The same for each group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_group: Option<Rate>,
    /// Groups take turns.
    #[serde(skip_serializing_if = "is_false")]
    pub fair: bool,
    /// The runs of a group run one after another, in the order in which they became due: the next begins when the one
    /// before it has ended.
    #[serde(skip_serializing_if = "is_false")]
    pub ordered: bool,
}

impl QueueRules {
    /// Whether there are none.
    pub fn is_plain(&self) -> bool {
        *self == QueueRules::default()
    }

    /// Whether groups matter.
    pub fn is_grouped(&self) -> bool {
        self.per_group.is_some() || self.rate_per_group.is_some() || self.fair || self.ordered
    }

    /// How many runs of one group may run at once.
    pub fn slots_per_group(&self) -> u32 {
        if self.ordered { 1 } else { self.per_group.unwrap_or(u32::MAX) }
    }

    /// Accepts rules under which something can run, or says what range does.
    pub fn check(&self) -> Result<(), Error> {
        let limits =
            [("limit", self.limit), ("limit per node", self.per_node), ("limit per group", self.per_group)];
        for (what, limit) in limits {
            limit.map_or(Ok(()), |limit| check_slots(what, limit))?;
        }
        for (what, rate) in [("rate", self.rate), ("rate per group", self.rate_per_group)] {
            rate.map_or(Ok(()), |rate| rate.check(what))?;
        }
        Ok(())
    }
}

/// Whether a queue is worked off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// It is.
    #[default]
    Open,
    /// Nothing of it begins; what runs goes on.
    Paused,
    /// What was started before it was asked to drain is worked off; what comes later stays in line.
    Draining,
}

impl QueueState {
    /// Its word, the same everywhere.
    pub fn word(self) -> &'static str {
        match self {
            QueueState::Open => "open",
            QueueState::Paused => "paused",
            QueueState::Draining => "draining",
        }
    }
}

fn check_slots(what: &str, slots: u32) -> Result<(), Error> {
    match slots {
        1..=1_000_000 => Ok(()),
        _ => Err(Error::invalid(what, slots, "1 to 1,000,000; to let nothing run, pause the queue")),
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Spans as whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_under_which_nothing_could_run_are_refused_with_the_range() {
        let zero = QueueRules { per_group: Some(0), ..QueueRules::default() };
        let refused = zero.check().unwrap_err().to_string();
        assert!(refused.contains("limit per group") && refused.contains("pause"), "{refused}");
        let often = QueueRules { rate: Some(Rate::new(5, Duration::ZERO)), ..QueueRules::default() };
        assert!(often.check().is_err());
        assert!(QueueRules { limit: Some(1), ..QueueRules::default() }.check().is_ok());
    }

    #[test]
    fn rules_are_written_and_read_back() {
        let rules = QueueRules {
            limit: Some(7),
            rate_per_group: Some(Rate::new(5, Duration::from_millis(1500))),
            fair: true,
            ..QueueRules::default()
        };
        let text = serde_json::to_string(&rules).unwrap();
        assert_eq!(text, r#"{"limit":7,"rate_per_group":{"count":5,"per_us":1500000},"fair":true}"#);
        assert_eq!(serde_json::from_str::<QueueRules>(&text).unwrap(), rules);
        assert!(serde_json::from_str::<QueueRules>("{}").unwrap().is_plain());
    }
}
