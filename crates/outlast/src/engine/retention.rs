//! Retention: ended runs go when their time is over, a few at a time, beside everything else that a node does.
//!
//! For each status and each time for which runs are kept there is a walk over the ended runs, from the oldest on. It
//! remembers where it stopped, so that runs which are kept longer are passed once and not again and again; their own
//! walk comes for them. Every node walks: each passes over what another has in hand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{Status, Timestamp};
use outlast_store::{Control, Controlled, DefinitionCard, Definitions, Mark, Purge};
use tokio::sync::Mutex;

use super::Engine;
use crate::Retention;

/// The most runs of one transaction.
const BATCH: u32 = 500;
/// The most transactions of one sweep.
const BATCHES: u32 = 4;
/// How long a walk rests that found no more, and how long what definitions say is believed.
const REST: Duration = Duration::from_secs(60);
/// After how long a walk begins from the oldest again: it may have passed over what somebody had locked.
const ANEW: Duration = Duration::from_secs(24 * 3600);

/// The walks of a node.
#[derive(Default)]
pub(crate) struct Walks(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whose turn it is first.
    walks: VecDeque<Walk>,
    /// When to read again what definitions say.
    learn_at: Timestamp,
}

/// Runs that are kept for the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    status: Status,
    keep: Duration,
    of: Definitions,
}

struct Walk {
    kind: Kind,
    marks: Vec<Mark>,
    due_at: Timestamp,
    anew_at: Timestamp,
}

/// Deletes some of what is kept no longer. Gives whether there may be more to do right now.
///
/// A node of which nothing has a retention asks the database for nothing.
pub(super) async fn sweep(engine: &Arc<Engine>) -> bool {
    if !engine.has_retention() {
        return false;
    }
    let mut state = engine.retention.0.lock().await;
    let now = engine.clock.at_least();
    if state.learn_at <= now {
        match engine.store.definitions().await {
            Ok(cards) => state.learn(kinds(engine.settings.retention, &cards), now),
            Err(error) => return tell(engine, &error),
        }
    }
    for _ in 0..BATCHES {
        let Some(mut walk) = state.next(now).filter(|_| !engine.stop.is_cancelled()) else { return false };
        let asked = engine.store.control(&walk.ask(now)).await;
        let told = match asked {
            Ok(Controlled::Purged(purged)) => {
                if purged.runs > 0 {
                    metrics::counter!("outlast_retired_total").increment(purged.runs);
                    let Kind { status, keep, .. } = &walk.kind;
                    tracing::debug!(runs = purged.runs, %status, ?keep, "runs that ended long ago were deleted");
                }
                walk.marks = purged.marks;
                walk.due_at = if purged.more { now } else { now + REST };
                None
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        state.walks.push_back(walk);
        if let Some(error) = told {
            return tell(engine, &error);
        }
    }
    state.walks.iter().any(|walk| walk.due_at <= now)
}

fn tell(engine: &Engine, error: &dyn std::fmt::Display) -> bool {
    if let Some(unsaid) = engine.troubles.retention.say() {
        tracing::warn!(%error, unsaid, "runs that ended long ago could not be deleted; it is tried again");
    }
    false
}

/// Which runs are kept for how long: those of definitions that say so themselves, in their active version, and those of
/// all others.
fn kinds(others: Retention, cards: &[DefinitionCard]) -> Vec<Kind> {
    let mut own: BTreeMap<&str, Retention> = BTreeMap::new();
    for card in cards.iter().filter(|card| card.active) {
        let options: serde_json::Value = serde_json::from_str(&card.options).unwrap_or_default();
        if let Some(retention) = Retention::from_json(&options["retention_ms"]) {
            own.insert(&card.name, retention);
        }
    }
    let mut kinds = Vec::new();
    for status in [Status::Completed, Status::Failed, Status::Cancelled] {
        let mut by_time: BTreeMap<Duration, Vec<String>> = BTreeMap::new();
        for (name, retention) in &own {
            if let Some(keep) = retention.of(status) {
                by_time.entry(keep).or_default().push((*name).to_owned());
            }
        }
        let named = by_time.into_iter().map(|(keep, names)| (keep, Definitions::Only(names)));
        let rest = Definitions::Except(own.keys().map(|name| (*name).to_owned()).collect());
        let rest = others.of(status).map(|keep| (keep, rest));
        kinds.extend(named.chain(rest).map(|(keep, of)| Kind { status, keep, of }));
    }
    kinds
}

impl State {
    /// What is kept for how long may have changed. Walks that are still wanted go on where they are.
    fn learn(&mut self, kinds: Vec<Kind>, now: Timestamp) {
        self.walks.retain(|walk| kinds.contains(&walk.kind));
        for kind in kinds {
            if self.walks.iter().all(|walk| walk.kind != kind) {
                self.walks.push_back(Walk { kind, marks: Vec::new(), due_at: now, anew_at: now + ANEW });
            }
        }
        self.learn_at = now + REST;
    }

    /// The walk that has waited longest among those that are due.
    fn next(&mut self, now: Timestamp) -> Option<Walk> {
        let at = self.walks.iter().position(|walk| walk.due_at <= now)?;
        self.walks.remove(at)
    }
}

impl Walk {
    fn ask(&mut self, now: Timestamp) -> Control {
        if self.anew_at <= now {
            self.marks.clear();
            self.anew_at = now + ANEW;
        }
        Control::Purge(Purge {
            older_than: self.kind.keep,
            limit: BATCH,
            status: Some(self.kind.status),
            of: self.kind.of.clone(),
            run: None,
            after: self.marks.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use outlast_store::RunKind;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn card(name: &str, active: bool, retention: Option<Retention>) -> DefinitionCard {
        let retention = retention.map(Retention::to_json);
        DefinitionCard {
            name: name.into(),
            version: 1,
            kind: RunKind::Job,
            active,
            signature: String::new(),
            queue: "default".into(),
            priority: 5,
            options: serde_json::json!({ "retention_ms": retention }).to_string(),
        }
    }

    #[test]
    fn those_that_say_it_themselves_are_left_out_for_all_others() {
        let cards = [
            card("a", true, Some(Retention::all(DAY))),
            card("b", true, Some(Retention::forever().failed(DAY))),
            card("b", false, Some(Retention::all(DAY * 9))),
            card("c", true, None),
        ];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (only, rest) =
            (|of: &[&str]| Definitions::Only(names(of)), Definitions::Except(names(&["a", "b"])));
        let kind = |status, keep, of: &Definitions| Kind { status, keep, of: of.clone() };
        let wanted = [
            kind(Status::Completed, DAY, &only(&["a"])),
            kind(Status::Completed, DAY * 7, &rest),
            kind(Status::Failed, DAY, &only(&["a", "b"])),
            kind(Status::Cancelled, DAY, &only(&["a"])),
        ];
        assert_eq!(kinds(Retention::forever().completed(DAY * 7), &cards), wanted);
    }

    #[test]
    fn a_walk_goes_on_where_it_is_rests_when_it_is_through_and_begins_anew_once_a_day() {
        let now = Timestamp::from_micros(1);
        let mut state = State::default();
        let some = kinds(Retention::forever().completed(DAY), &[]);
        state.learn(some.clone(), now);
        let mut walk = state.next(now).unwrap();
        let mark = Mark { at: now, ..Mark::default() };
        (walk.marks, walk.due_at) = (vec![mark], now + REST);
        state.walks.push_back(walk);

        state.learn(some, now);
        assert!(state.next(now).is_none(), "it rests");
        let mut walk = state.next(now + REST).unwrap();
        let after = |walk: &mut Walk, now| match walk.ask(now) {
            Control::Purge(purge) => purge.after,
            other => panic!("{other:?}"),
        };
        assert_eq!(after(&mut walk, now + REST), [mark]);
        assert_eq!(after(&mut walk, now + ANEW), []);
        state.walks.push_back(walk);
        state.learn(kinds(Retention::forever().completed(DAY * 2), &[]), now);
        assert_eq!(state.next(now).unwrap().marks, [], "what was passed before is looked at again");
    }
}
