//! A schedule as it can be kept: what a seed stood for, however plans are made later. `cargo xtask sim --seed N --keep NAME`
//! writes one; those in `tests/kept` are played with every change.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// A plan, and the seed of whatever else is left to chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
}

impl Script {
    /// What a seed stands for now.
    pub fn of(seed: u64) -> Script {
        Script { seed, plan: Plan::random(&mut Rng::with_seed(seed)) }
    }

    /// One that was kept.
    pub fn read(text: &str) -> Result<Script, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The seed that it was made of.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// As text that can be kept.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The dice of everything that is not planned.
    pub(crate) fn dice(&self) -> Rng {
        Rng::with_seed(!self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_that_is_kept_is_the_same_schedule() {
        for seed in 1..=64 {
            let script = Script::of(seed);
            assert_eq!(Script::read(&script.text().unwrap()).unwrap(), script);
        }
    }
}
