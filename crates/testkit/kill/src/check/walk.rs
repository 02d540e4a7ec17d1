//! A plan beside the score that its run returned: what the run saw is what its plan says.

use super::*;

/// The walk along one plan.
pub(super) struct Walk {
    pub(super) run: RunId,
    in_journal: bool,
    pub(super) heard: BTreeMap<String, Vec<u32>>,
    pub(super) settled: Vec<(String, u32)>,
    /// How many lives the run has had.
    pub(super) lives: usize,
}

/// Who feeds a run.
pub(super) enum Fed<'a> {
    /// The supervisor, who knows it by this key.
    ByKey(&'a str),
    ByItsParent,
}

impl<'a> Checker<'a> {
    /// Walks along a plan and the score that its run returned.
    pub(super) fn play(&mut self, run: RunId, plan: &Plan, fed: &Fed<'_>) -> Option<(bool, Score)> {
        let view = self.ended(run, plan, plan.fails())?;
        let score = match plan.fails() {
            false => output::<Score>(view),
            true => error::<Miss>(view).and_then(|miss| match miss {
                Miss::Planned(score) => Some(score),
                Miss::Wrong(_) => None,
            }),
        };
        let Some(score) = score else {
            self.wrong(run, "has a result that nobody planned");
            return None;
        };
        let last_life = plan.acts.iter().rposition(|act| *act == Act::StartOver).unwrap_or(0);
        let lives = 1 + plan.acts.iter().filter(|act| **act == Act::StartOver).count();
        let mut walk = Walk { run, in_journal: true, heard: BTreeMap::new(), settled: Vec::new(), lives };
        let mut facts = score.facts.iter();
        let (mut sum, mut mark) = (0, None);
        let (mut now, mut slept) = (None, 0);
        for (at, act) in plan.acts.iter().enumerate().filter(|(_, act)| **act != Act::Fail) {
            let Some(saw) = facts.next() else {
                self.wrong(run, format!("saw nothing of act {at}, {act:?}"));
                return None;
            };
            walk.in_journal = at >= last_life;
            match (act, saw) {
                (Act::StartOver, Saw::StartedOver { mark: carried }) => {
                    if *carried != mark {
                        self.wrong(run, format!("saved {mark:?} and carried {carried:?} over"));
                    }
                }
                (Act::Save, Saw::Saved) => mark = Some(at),
                (Act::Now, Saw::Now(micros)) => {
                    if now.is_some_and(|before: i64| *micros < before + slept) {
                        self.wrong(run, format!("woke early: {now:?}, {slept} µs later {micros}"));
                    }
                    (now, slept) = (Some(*micros), 0);
                }
                (act, saw) => {
                    if let Act::Sleep { ms } = act {
                        slept += ms.cast_signed() * 1000;
                    }
                    self.act(&mut walk, act, Spot::new(at), sum, saw);
                }
            }
            sum = plan::after(sum, saw);
        }
        if facts.next().is_some() || sum != score.sum {
            self.wrong(run, "saw more than its plan says");
        }
        self.asked.insert(run, true);
        self.fed(&walk, fed);
        Some((plan.fails(), score))
    }

    fn act(&mut self, walk: &mut Walk, act: &Act, spot: Spot, sum: u64, saw: &Saw) {
        let (run, in_journal) = (walk.run, walk.in_journal);
        match (act, saw) {
            (Act::Step { .. }, Saw::Did(Did { value, attempt: 1 })) => {
                let recorded = Recorded::Done { value: *value, attempt: 1 };
                self.want(run, spot.full("step"), Wanted { sum, fails: 0, recorded, in_journal });
            }
            (Act::Busy { .. }, Saw::Did(Did { value, attempt: 1 })) => {
                let recorded = Recorded::Done { value: *value, attempt: 1 };
                self.want(run, spot.full("busy"), Wanted { sum, fails: 0, recorded, in_journal });
            }
            (Act::Flaky { fails, .. }, Saw::Did(Did { value, attempt })) if *attempt == fails + 1 => {
                let recorded = Recorded::Done { value: *value, attempt: *attempt };
                self.want(run, spot.full("flaky"), Wanted { sum, fails: *fails, recorded, in_journal });
            }
            (Act::Doomed { attempts }, Saw::GaveUp { value }) => {
                let recorded = Recorded::Failed { value: *value, attempt: *attempts };
                self.want(run, spot.full("doomed"), Wanted { sum, fails: *attempts, recorded, in_journal });
            }
            (Act::Transaction { .. }, Saw::Committed { value }) => {
                let recorded = Recorded::Row { value: *value };
                self.want(run, spot.full("tx"), Wanted { sum, fails: 0, recorded, in_journal });
            }
            (Act::Ticks { count }, Saw::Heard(heard)) if heard.len() == *count as usize => {
                walk.heard.entry("tick".to_owned()).or_default().extend(heard);
            }
            (Act::Mail { count }, Saw::Heard(heard)) if heard.len() == *count as usize => {
                walk.heard.entry("mail".to_owned()).or_default().extend(heard);
            }
            (Act::Letter, Saw::Heard(heard)) if heard.len() == 1 => {
                walk.heard.entry(spot.full("letter")).or_default().extend(heard);
            }
            (Act::Promise, Saw::Settled(value)) => walk.settled.push((spot.full("promise"), *value)),
            (Act::Sleep { .. }, Saw::Slept) | (Act::Post { .. }, Saw::Posted) => {}
            (Act::Count, Saw::Counted(count)) => self.counts.push((run, *count)),
            (Act::Random, Saw::Random(_)) | (Act::Now, Saw::Now(_)) => {}
            (Act::Join(acts), Saw::All(all)) if all.len() == acts.len() => {
                for ((spot, act), saw) in spot.branches(acts).into_iter().zip(all) {
                    self.act(walk, act, spot, sum, saw);
                }
            }
            (Act::Sequence(acts), Saw::All(all)) if all.len() == acts.len() => {
                for (k, (act, saw)) in acts.iter().zip(all).enumerate() {
                    self.act(walk, act, spot.inner(k), sum, saw);
                }
            }
            (Act::Race(acts), Saw::Won(k, saw)) if *k < acts.len() => {
                self.act(walk, &acts[*k], spot.inner(*k), sum, saw);
                let rival = match **saw {
                    Saw::Did(Did { value, .. }) | Saw::Committed { value } => Some(value),
                    _ => None,
                };
                for (other, act) in acts.iter().enumerate().filter(|(other, _)| other != k) {
                    self.lost_race(walk, act, &spot.inner(other), sum, rival);
                }
            }
            (Act::Child { plan, .. } | Act::Watch { plan, .. }, Saw::Child { run: child, end }) => {
                self.is_parent(run, *child);
                let own = self.play(*child, plan, &Fed::ByItsParent);
                if let (Some((failed, score)), Some(end)) = (own, end)
                    && (failed != end.failed || score != end.score)
                {
                    self.wrong(run, format!("was told another end of {child} than it had"));
                }
            }
            (Act::Job { work, .. }, Saw::Job { run: job, end }) => {
                self.is_parent(run, *job);
                let own = self.work(*job, *work);
                if let (Some(own), Some(end)) = (own, end)
                    && own != *end
                {
                    self.wrong(run, format!("was told another end of {job} than it had"));
                }
            }
            (act, saw) => self.wrong(run, format!("saw {saw:?} of {act:?}")),
        }
    }

    fn lost_race(&mut self, walk: &Walk, act: &Act, spot: &Spot, sum: u64, rival: Option<u64>) {
        let (name, fails) = match act {
            Act::Step { .. } => (spot.full("step"), 0),
            Act::Busy { .. } => (spot.full("busy"), 0),
            Act::Flaky { fails, .. } => (spot.full("flaky"), *fails),
            Act::Transaction { .. } => (spot.full("tx"), 0),
            _ => return,
        };
        let recorded = Recorded::Nothing { rival };
        self.want(walk.run, name, Wanted { sum, fails, recorded, in_journal: walk.in_journal });
    }

    pub(super) fn want(&mut self, run: RunId, step: String, wanted: Wanted) {
        self.wanted.insert((run, step), wanted);
    }

    fn is_parent(&mut self, run: RunId, child: RunId) {
        let parent = self.runs.get(&child).and_then(|view| view.record.parent.as_ref());
        if parent.is_none_or(|parent| parent.run != run) {
            self.wrong(child, format!("should have {run} as its parent"));
        }
    }
}
