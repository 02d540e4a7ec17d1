//! What schedules started: one run for each of their times, whoever was up, and none besides.

use super::*;
use crate::beats::{self, BEAT, Beat, EVERY};

impl<'a> Checker<'a> {
    pub(super) fn beats(&mut self) {
        for beat in &self.evidence.beats {
            let mut missing = times_of(beat);
            self.verdict.beats += missing.len();
            let mut started = 0;
            for view in self.evidence.runs.iter().filter(|view| is_of(beat, view)) {
                started += 1;
                let key = view.record.key.clone().unwrap_or_default();
                if !missing.remove(&key) {
                    self.wrong(view.record.id, format!("{key} has two runs, or is no time of its schedule"));
                }
                self.work(view.record.id, beats::WORK);
            }
            for key in missing {
                self.wrong(None, format!("{key} passed without a run"));
            }
            if started != beat.started {
                let Beat { name, started: told, .. } = beat;
                self.wrong(None, format!("{name} says that it started {told} runs, there are {started}"));
            }
        }
    }
}

fn is_of(beat: &Beat, view: &RunView) -> bool {
    let schedule = view.record.key.as_ref().and_then(|key| key.split_once(':'));
    view.record.definition == BEAT && schedule.is_some_and(|(name, _)| name == beat.name)
}

/// The keys of all times from the first to the last that was acted on.
fn times_of(beat: &Beat) -> BTreeSet<String> {
    let times = std::iter::successors(Some(beat.first), |time| Some(*time + EVERY));
    times.take_while(|time| Some(*time) <= beat.last).map(|time| format!("{}:{time}", beat.name)).collect()
}
