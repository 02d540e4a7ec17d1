//! What runs heard: events once each, in the order sent, and a promise's first value.

use super::walk::{Fed, Walk};
use super::*;

impl<'a> Checker<'a> {
    /// Events were heard once each, in the order sent; a promise has its first value.
    pub(super) fn fed(&mut self, walk: &Walk, fed: &Fed<'_>) {
        for (name, heard) in &walk.heard {
            let count = u32::try_from(heard.len()).unwrap_or(u32::MAX);
            let right = match fed {
                Fed::ByKey(key) if name != "mail" => in_order(heard, &self.sent(key, name)),
                _ => heard.iter().copied().eq(1..=count),
            };
            if !right {
                self.wrong(walk.run, format!("heard {heard:?} of {name}, in another order than sent"));
            }
        }
        let Fed::ByKey(key) = fed else { return };
        for (name, value) in &walk.settled {
            let settles: Vec<(u32, bool)> = self.settles(key, name);
            let first = settles.iter().position(|(_, sure)| *sure).unwrap_or(settles.len());
            if !settles.iter().take(first + 1).any(|(settled, _)| settled == value) {
                self.wrong(walk.run, format!("got {value} from {name}, settled were {settles:?}"));
            }
            // By its name, a promise of each life can be settled once.
            if settles.iter().filter(|(_, sure)| *sure).count() > walk.lives {
                self.wrong(walk.run, format!("{name} was settled too often: {settles:?}"));
            }
        }
    }

    /// What was sent, in order, and whether that is sure.
    fn sent(&self, key: &str, name: &str) -> Vec<(u32, bool)> {
        self.told(key, |asked| match asked {
            Asked::Send { name: sent, value } if sent == name => Some(*value),
            _ => None,
        })
    }

    fn settles(&self, key: &str, name: &str) -> Vec<(u32, bool)> {
        self.told(key, |asked| match asked {
            Asked::Settle { name: settled, value } if settled == name => Some(*value),
            _ => None,
        })
    }

    fn told(&self, key: &str, value: impl Fn(&Asked) -> Option<u32>) -> Vec<(u32, bool)> {
        let calls = self.evidence.calls.iter().filter(|call| call.key == key);
        let told = calls.filter_map(|call| match &call.answer {
            Answer::Refused(_) => None,
            answer => Some((value(&call.asked)?, matches!(answer, Answer::Ok(_)))),
        });
        told.collect()
    }
}

/// Whether `heard` is what was sent, in order, without anything that was sure to be sent left out.
fn in_order(heard: &[u32], sent: &[(u32, bool)]) -> bool {
    let mut sent = sent.iter();
    heard.iter().all(|value| {
        for (candidate, sure) in sent.by_ref() {
            if candidate == value {
                return true;
            }
            if *sure {
                return false;
            }
        }
        false
    })
}
