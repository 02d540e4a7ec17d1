//! The counter that runs raise by compare-and-set: each count was had by one run, and none is missing.

use super::*;

impl<'a> Checker<'a> {
    pub(super) fn counter(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.sort_unstable_by_key(|(_, count)| *count);
        self.verdict.counts = counts.len();
        for ((run, count), expected) in counts.iter().zip(1..) {
            if *count != expected {
                self.wrong(*run, format!("counted {count}, the next after those before is {expected}"));
                break;
            }
        }
        let counter = self.evidence.counter;
        if counter != counts.len() as u64 {
            self.wrong(
                None,
                format!("the counter stands at {counter}, {} times it was raised", counts.len()),
            );
        }
    }
}
