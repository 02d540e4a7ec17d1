//! What this node knows of queues with rules, and how it claims from them.
//!
//! A queue that has rules, or is paused or drained, is asked for by itself: its runs are never held at once when
//! they start, nor taken with everybody else's. News of a changed rule comes as a hint, or at the latest with the next
//! renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use outlast_core::Timestamp;
use outlast_store::{QueueCard, QueueClaim, StoreError};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::Engine;
use super::claim::{MOST, Round, answer, in_turn};

/// So many times as long as a claim took the next one for a few runs waits, and how long at most.
const REST: u32 = 1;
const LONGEST_REST: Duration = Duration::from_millis(20);
/// So many of the runs that may run at once are no longer few.
const FEW: usize = 8;

/// The queues that this node was told about.
#[derive(Default)]
pub(crate) struct Queues {
    cards: RwLock<HashMap<String, QueueCard>>,
    /// How often they had been changed when they were read last.
    changes: RwLock<i64>,
    /// When they were read because anything may have happened.
    looked: Mutex<Option<Instant>>,
    /// Whoever claims from queues without rules holds it, so that none is asked like that once it is known to have some.
    pub(super) gate: tokio::sync::RwLock<()>,
    /// Whether a run waits for a slot that another may give back.
    is_full: AtomicBool,
    /// When queues were asked last that had more than could be taken, and how long that took.
    asked: Mutex<HashMap<String, (Instant, Duration)>>,
    /// How many rounds in a row found nothing to begin, and when the last one said that there is more.
    idle: Mutex<(u32, Option<Timestamp>)>,
}

impl Queues {
    /// Whether a queue's runs are asked for by themselves.
    pub(crate) fn is_managed(&self, queue: &str) -> bool {
        self.cards.read().contains_key(queue)
    }

    /// Whether nothing was changed since they were read.
    pub(super) fn knows(&self, changes: i64) -> bool {
        *self.changes.read() == changes
    }

    /// Whether somebody waits for a slot; asked once, they are told.
    pub(super) fn take_full(&self) -> bool {
        self.is_full.swap(false, Ordering::Relaxed)
    }

    /// A round of claims is over.
    pub(super) fn note_round(&self, began: bool, next: Option<Timestamp>) {
        let mut idle = self.idle.lock();
        *idle = if began { (0, next) } else { (idle.0.saturating_add(1), next) };
    }

    /// A run has ended, time has passed or rules were changed: others may begin, whatever the last round said.
    pub(crate) fn note_change(&self) {
        self.idle.lock().0 = 0;
    }

    /// Whether nothing more can begin although something is due, because queues have rules: then when it can, as far
    /// as time alone decides.
    pub(crate) fn holds_back(&self) -> Option<Option<Timestamp>> {
        let (idle, next) = *self.idle.lock();
        (idle >= 2 && !self.cards.read().is_empty()).then_some(next)
    }

    /// How long to wait before a queue is asked again for a few runs, where it is known to have many: a claim costs more
    /// than taking a run, and whoever does nothing else takes them one by one.
    fn rests(&self, queue: &str) -> Option<Duration> {
        let (at, took) = *self.asked.lock().get(queue)?;
        (took * REST).min(LONGEST_REST).checked_sub(at.elapsed()).filter(|left| !left.is_zero())
    }

    /// How many of a queue may be in hand here.
    fn most_here(&self, queue: &str) -> Option<usize> {
        let cards = self.cards.read();
        let rules = &cards.get(queue)?.rules;
        rules.per_node.into_iter().chain(rules.limit).min().map(|limit| limit as usize)
    }
}

/// The same where anything may have happened, which is said often: not more often than that.
pub(super) async fn learn_at_times(engine: &Arc<Engine>) {
    const APART: Duration = Duration::from_millis(200);
    let is_soon = {
        let mut looked = engine.queues.looked.lock();
        let is_soon = looked.is_some_and(|looked| looked.elapsed() < APART);
        *looked = if is_soon { *looked } else { Some(Instant::now()) };
        is_soon
    };
    if !is_soon {
        learn(engine, None).await;
    }
}

/// Asks the database what queues do. They were changed so often before, if that is known.
pub(super) async fn learn(engine: &Arc<Engine>, changes: Option<i64>) {
    match try_learn(engine, changes).await {
        Ok(()) => engine.nudge(),
        // The next renewal tells again.
        Err(error) => tracing::debug!(%error, "the rules of queues could not be read"),
    }
}

/// The same, for whoever must not go on without an answer, and claims first of all.
pub(super) async fn try_learn(engine: &Arc<Engine>, changes: Option<i64>) -> Result<(), StoreError> {
    // One after another, so that what was read first is not believed last.
    let _alone = engine.queues.gate.write().await;
    let cards = engine.store.queues().await?;
    let managed = cards.into_iter().filter(QueueCard::is_managed);
    *engine.queues.cards.write() = managed.map(|card| (card.name.clone(), card)).collect();
    if let Some(changes) = changes {
        *engine.queues.changes.write() = changes;
    }
    engine.queues.note_change();
    Ok(())
}

/// Claims from every queue with rules that this node serves.
pub(super) async fn claim_all(engine: &Arc<Engine>, round: &mut Round) {
    let mut queues: Vec<String> =
        engine.served().iter().filter(|queue| engine.queues.is_managed(queue)).cloned().collect();
    in_turn(&mut queues, round.turn());
    leave_empty(engine, &mut queues, round).await;
    for queue in queues {
        if engine.stop.is_cancelled() {
            return;
        }
        let here = engine.queues.most_here(&queue).map(|most| most.saturating_sub(in_hand(engine, &queue)));
        let most = here.unwrap_or(MOST).min(MOST);
        let few = most.min(engine.slots.count()) < engine.settings.concurrency / FEW;
        if let Some(rest) = engine.queues.rests(&queue).filter(|_| few) {
            round.found.rest = round.found.rest.into_iter().chain([rest]).min();
            continue;
        }
        // Nothing is lent: what had to be handed back would have used some of the queue's rate.
        let slots = engine.slots.set_aside(most, false);
        if slots.count == 0 {
            // Of this queue enough is in hand, or of all: whoever ends tells.
            round.found.maybe_more |= here.is_none_or(|here| here > 0);
            engine.queues.is_full.store(true, Ordering::Relaxed);
            continue;
        }
        let open = engine.open_claim();
        let ask = QueueClaim {
            node: open.hold.node,
            number: open.hold.claim,
            queue,
            codes: engine.registry.codes(),
            limit: slots.count as u32,
        };
        let asked = engine.clock.asks();
        if let Some(claims) = answer(engine, ask.node, || engine.store.claim_queue(&ask)).await {
            engine.clock.told(claims.now, asked);
            if claims.is_full || claims.runs.len() == slots.count {
                engine.queues.asked.lock().insert(ask.queue.clone(), (Instant::now(), asked.at.elapsed()));
            } else {
                engine.queues.asked.lock().remove(&ask.queue);
            }
            if claims.is_full {
                engine.queues.is_full.store(true, Ordering::Relaxed);
            }
            round.found.locked |= claims.is_full;
            round.found.maybe_more |= !claims.is_full && !claims.runs.is_empty();
            round.begin(engine, claims, slots, asked).await;
        }
        round.opened.push(open);
    }
}

/// Leaves out those of several queues in which nobody is due: one look at all of them costs less than a claim from each.
async fn leave_empty(engine: &Engine, queues: &mut Vec<String>, round: &mut Round) {
    if queues.len() < 2 {
        return;
    }
    // Whoever cannot look asks each of them.
    let Ok(lines) = engine.store.lines(queues).await else { return };
    let now = engine.clock.at_most();
    let (due, later): (Vec<_>, Vec<_>) = lines.due.into_iter().partition(|(_, due)| *due <= now);
    queues.retain(|queue| due.iter().any(|(name, _)| name == queue));
    round.found.looks_again(lines.look_again);
    let next = later.into_iter().map(|(_, due)| due);
    round.found.next_due = round.found.next_due.into_iter().chain(next).min();
}

/// How many runs of a queue are in hand here.
fn in_hand(engine: &Engine, queue: &str) -> usize {
    engine.running.lock().values().filter(|held| held.who.queue() == queue).count()
}

impl Engine {
    /// Asks anew what queues do.
    pub(crate) async fn learn_queues(self: &Arc<Self>) {
        learn(self, None).await;
    }
}
