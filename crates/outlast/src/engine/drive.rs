//! The drive: polls the user's code and hands results over, one at a time.
//!
//! Poll until the code is idle, hand over the next result, poll again. First everything recorded, in
//! the order of the journal; then what is new: the request to stop, bodies that ended, news, timers.
//! When only durable waits are left, the turn is over and the run waits.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use outlast_core::{
    AttemptNote, Entry, Error, FailureDoc, Limits, Op, OpenNote, Phase, Timestamp, name_in_any_life, shorten,
};
use outlast_store::{Ended, News, NewsKind};
use tokio::time::Sleep;

pub(super) use outlast_core::repair::BEGUN;

use super::turn::{
    BodyEnd, CANCEL_NAME, CANCEL_SLOT, CUT_NAME, CUT_SLOT, Cancelled, Handed, PATCH, Stage, State, Turn,
    cancel_reason, note_payload,
};
use crate::Verdict;
use crate::ctx::Work;
use crate::definition::Outcome;
use crate::verdict::{Difference, Operation};

/// How often the user's code is polled in a row before other tasks get their turn.
const POLLS: u32 = 128;
/// The most names that a run says whose undo gave up.
pub(super) const MOST_LEFT: usize = 20;

/// How a turn ends.
pub(crate) enum TurnEnd {
    /// The code returned.
    Finished(Outcome),
    /// Time or room for it is over, wherever the code is.
    Cut(FailureDoc),
    /// The code has ended, not well, and what it did is undone from here on.
    Undoing,
    /// Not all could be undone.
    UndoFailed(String),
    /// Only durable waits are left.
    Waiting { wake_at: Option<Timestamp>, seen: i64 },
    /// The code does not fit, or awaits something that is not durable.
    Misfit(Verdict),
    /// The journal starts over.
    Continue,
    /// The run is to be handed back.
    Stopped,
    /// The run is no longer ours.
    Lost,
}

/// The user's code with everything that it needs to go on; kept warm between turns.
pub(crate) struct Drive {
    pub(crate) turn: Arc<Turn>,
    code: BoxFuture<'static, Outcome>,
    wake: Arc<Flag>,
    /// The code has used up what tokio lets it do at once.
    spent: bool,
    timer: Option<(Timestamp, Pin<Box<Sleep>>)>,
}

/// Tells whether the code asked to be polled again.
struct Flag {
    set: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

/// What the drive does next when the code is idle.
enum Idle {
    /// Something was handed over or may start: poll the code again.
    Again,
    /// Bodies run, a commit is on its way, or a timer is about to go off.
    Wait,
    /// Time or room is over.
    Cut(FailureDoc),
    End(TurnEnd),
}

impl Drive {
    pub(crate) fn new(turn: Arc<Turn>, code: BoxFuture<'static, Outcome>) -> Drive {
        let wake = Arc::new(Flag { set: AtomicBool::new(true), task: AtomicWaker::new() });
        Drive { turn, code, wake, spent: false, timer: None }
    }

    fn poll_code(&mut self) -> Poll<Outcome> {
        let waker = Waker::from(self.wake.clone());
        let mut cx = Context::from_waker(&waker);
        let code = &mut self.code;
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(&mut cx)));
        polled.unwrap_or_else(|panic| {
            let what = self.turn.record.definition.clone();
            Poll::Ready(Err(FailureDoc::Outlast(Error::Panicked { what, message: panic_message(&*panic) })))
        })
    }

    /// Whether a run with this outcome has something to undo. Code that left out what the journal holds does not fit, and
    /// knows nothing of how this run ends.
    fn has_to_undo(&self, outcome: &Outcome) -> bool {
        let state = self.turn.state();
        !state.undoing
            && !state.undoable.is_empty()
            && (outcome.is_err() || state.cancelled != Cancelled::No)
            && state.misfit.is_none()
            && misfit_at_end(&state, true).is_none()
    }

    /// From here on the code is what undoes the run. The first time the turn ends with that, so that it is known.
    fn undo(&mut self, outcome: Outcome) -> Option<TurnEnd> {
        self.give_up();
        let turn = self.turn.clone();
        let is_known = {
            let mut state = turn.state();
            (state.undoing, state.expires_at) = (true, None);
            let is_known = state.replay.opened(Op::Undo, BEGUN).is_some();
            state.mark_undo(BEGUN.into());
            is_known
        };
        self.code = Box::pin(async move {
            crate::ctx::undo_all(&turn).await;
            outcome
        });
        self.wake.wake_by_ref();
        (!is_known).then_some(TurnEnd::Undoing)
    }

    /// Time or room is over, wherever the code is. What it did is undone; a replay is told at the same place.
    fn cut(&mut self, failure: FailureDoc) -> Option<TurnEnd> {
        if self.turn.state().undoable.is_empty() {
            return Some(TurnEnd::Cut(failure));
        }
        let mut state = self.turn.state();
        if state.replay.take(Op::Cancel, CUT_NAME).is_none() {
            state.record(Op::Cancel, Phase::Failed, CUT_NAME.into(), Some(note_payload(&failure)));
        }
        drop(state);
        self.undo(Err(failure))
    }

    /// Whether code that wants to begin anew was asked to stop, and has something to undo.
    fn is_cancelled_with_undo(&self) -> bool {
        let state = self.turn.state();
        state.cancelled != Cancelled::No && !state.undoable.is_empty()
    }

    /// The turn is over: the code and all that it holds (a transaction, above all) goes before its end is
    /// committed.
    pub(crate) fn give_up(&mut self) {
        let code = std::mem::replace(&mut self.code, Box::pin(std::future::pending()));
        drop(Work::new(code));
    }

    /// The code is idle: what comes next?
    fn idle(&mut self) -> Idle {
        let turn = self.turn.clone();
        let mut state = turn.state();
        if let Some(misfit) = state.misfit.take() {
            return Idle::End(TurnEnd::Misfit(misfit));
        }
        if let Some(reason) = state.undo_failed.take() {
            return Idle::End(TurnEnd::UndoFailed(reason));
        }
        if state.continue_with.is_some() {
            // The journal goes with this life: what does not fit must not be lost.
            return Idle::End(misfit_at_end(&state, true).map_or(TurnEnd::Continue, TurnEnd::Misfit));
        }
        let replays = state.replay.is_due();
        let length = state.length() - turn.life.saturating_sub(1);
        if !state.undoing && !replays && length.saturating_sub(turn.void) > turn.limits.entries {
            let limit = u64::from(turn.limits.entries);
            let error = Error::TooLarge { what: "the journal".into(), size: limit + 1, limit };
            return Idle::Cut(FailureDoc::Outlast(error));
        }
        if let Some(failure) = state.cut.take() {
            return Idle::Cut(failure);
        }
        if hand_over(&turn, &mut state) || state.grant() {
            return Idle::Again;
        }
        let bodies = state.slots.values().any(|slot| slot.is_busy());
        let wanting = !turn.checks && state.slots.values().any(|slot| matches!(slot.stage, Stage::WantsBody));
        if state.mail.stop && !bodies {
            return Idle::End(TurnEnd::Stopped);
        }
        if wanting && let Some(misfit) = misfit_with_patch(&state) {
            return Idle::End(TurnEnd::Misfit(misfit));
        }
        if wanting && !state.mail.stop && state.all_durable() && !state.reserved {
            for slot in state.slots.values_mut().filter(|slot| matches!(slot.stage, Stage::WantsBody)) {
                slot.stage = Stage::MayStart;
                slot.wake();
            }
            return Idle::Again;
        }
        if wanting || bodies || state.reserved {
            drop(state);
            turn.submit(None);
            return Idle::Wait;
        }
        if state.slots.is_empty() {
            let reason =
                "the code awaits something that is not durable outside of a step: put it into ctx.step(…)";
            return Idle::End(TurnEnd::Misfit(Verdict::Blocks { reason: reason.into() }));
        }
        if let Some(misfit) = misfit_at_wait(&state) {
            return Idle::End(TurnEnd::Misfit(misfit));
        }
        if turn.checks {
            return Idle::End(TurnEnd::Waiting { wake_at: None, seen: 0 });
        }
        let (wake_at, seen, was_early) = (state.next_timer(), state.seen, state.was_early);
        let next = wake_at.into_iter().chain(state.expires_at).min();
        // The engine looks at all runs in hand: nobody may wait for this one meanwhile.
        drop(state);
        if next.is_some_and(|at| turn.engine.stays_in_hand(at, was_early)) {
            turn.submit(None);
            return Idle::Wait;
        }
        Idle::End(TurnEnd::Waiting { wake_at, seen })
    }

    /// Sleeps until the next timer of a turn that still runs something. `true` when it is over.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let clock = &self.turn.engine.clock;
        let next = {
            let state = self.turn.state();
            state.next_timer().into_iter().chain(state.expires_at).min()
        };
        let Some(next) = next.filter(|_| !clock.is_stopped()) else {
            self.timer = None;
            return false;
        };
        if self.timer.as_ref().is_none_or(|(at, _)| *at != next) {
            self.timer = Some((next, Box::pin(tokio::time::sleep(clock.until(next)))));
        }
        let Some((_, sleep)) = self.timer.as_mut() else { return false };
        let over = sleep.as_mut().poll(cx).is_ready();
        if over {
            self.timer = None;
        }
        over
    }
}

impl Future for Drive {
    type Output = TurnEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnEnd> {
        self.turn.waker.register(cx.waker());
        self.wake.task.register(cx.waker());
        for _ in 0..POLLS {
            if self.turn.state().mail.lost {
                return Poll::Ready(TurnEnd::Lost);
            }
            let spent = std::mem::take(&mut self.spent);
            if self.wake.set.swap(false, Ordering::SeqCst)
                && let Poll::Ready(outcome) = self.turn.clone().without_bodies(spent, || self.poll_code())
            {
                if !self.has_to_undo(&outcome) {
                    return Poll::Ready(TurnEnd::Finished(outcome));
                }
                match self.undo(outcome) {
                    Some(end) => return Poll::Ready(end),
                    None => continue,
                }
            }
            if self.wake.set.load(Ordering::SeqCst) && !spent {
                continue;
            }
            // Tokio makes what has done much wait although it is ready: the code is not idle, it goes on later. The
            // rest of it first: a body that always has something to do must not keep results from it.
            if !tokio::task::coop::has_budget_remaining() {
                self.spent = true;
                self.wake.wake_by_ref();
                return Poll::Pending;
            }
            if spent {
                self.turn.wake_left();
                self.wake.wake_by_ref();
            }
            if expired(&self.turn) {
                let after_ms = self.turn.run_time().as_millis() as u64;
                let error = Error::TimedOut { what: format!("run {}", self.turn.id()), after_ms };
                match self.cut(FailureDoc::Outlast(error)) {
                    Some(end) => return Poll::Ready(end),
                    None => continue,
                }
            }
            match self.idle() {
                Idle::Again => {}
                Idle::Cut(failure) => {
                    if let Some(end) = self.cut(failure) {
                        return Poll::Ready(end);
                    }
                }
                Idle::End(TurnEnd::Continue) if self.is_cancelled_with_undo() => {
                    let error = Error::Cancelled { reason: String::new() };
                    if let Some(end) = self.undo(Err(FailureDoc::Outlast(error))) {
                        return Poll::Ready(end);
                    }
                }
                Idle::End(end) => return Poll::Ready(end),
                Idle::Wait => {
                    if self.poll_timer(cx) || spent {
                        continue;
                    }
                    // Whoever set the flag meanwhile has woken the task too.
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Whether the run's time is over. Not before its code has heard all that is recorded: it says what is to undo.
fn expired(turn: &Turn) -> bool {
    let state = turn.state();
    state.expires_at.is_some_and(|at| at <= turn.engine.clock.at_least()) && !state.replay.is_due()
}

/// Hands the next result over. `false` when there is none.
fn hand_over(turn: &Turn, state: &mut State) -> bool {
    let slots = &state.slots;
    if let Some((slot, entry)) =
        state.replay.hand_over(|slot| matches!(slot, CANCEL_SLOT | CUT_SLOT) || slots.contains_key(&slot))
    {
        match slot {
            CUT_SLOT => state.cut = entry.failure().ok(),
            CANCEL_SLOT => {
                enforce_cancel(state, entry.body.and_then(|b| b.decode("cancel").ok()).unwrap_or_default())
            }
            slot => state.hand(slot, Handed::Entry(entry)),
        }
        return true;
    }
    if hand_recorded(state) {
        return true;
    }
    if state.reserved || turn.checks {
        return false;
    }
    if hand_cancel(state) || hand_body(turn, state) {
        return true;
    }
    // What is to be handed back begins nothing more.
    !state.mail.stop && (hand_news(state) || hand_timer(turn, state))
}

/// The request to stop comes before everything else that is new, unless a body finishes cleanly first.
fn hand_cancel(state: &mut State) -> bool {
    if state.cancelled != Cancelled::No || !state.listeners.is_empty() || !state.ended.is_empty() {
        return false;
    }
    // A run that undoes is about to end.
    if state.undoing {
        return false;
    }
    let Some(place) = state.inbox.iter().position(|news| news.kind == NewsKind::Cancel) else { return false };
    let Some(news) = state.inbox.remove(place) else { return false };
    let reason = cancel_reason(&news);
    state.outbox.consumed.push(news.seq);
    state.record(Op::Cancel, Phase::Done, CANCEL_NAME.into(), Some(note_payload(&reason)));
    state.replaying = false;
    enforce_cancel(state, reason);
    true
}

/// `ctx.cancelled()` gets the request where somebody awaits it; otherwise everything that is open does.
fn enforce_cancel(state: &mut State, reason: String) {
    let asked: Vec<usize> =
        state.slots.iter().filter(|(_, s)| s.op == Op::Cancel).map(|(id, _)| *id).collect();
    if asked.is_empty() {
        let open: Vec<usize> =
            state.slots.iter().filter(|(_, s)| s.op != Op::Undo).map(|(id, _)| *id).collect();
        open.into_iter().for_each(|slot| state.hand(slot, Handed::Cancelled(reason.clone())));
        state.cancelled = Cancelled::Enforced(reason);
    } else {
        asked.into_iter().for_each(|slot| state.hand(slot, Handed::Cancelled(reason.clone())));
        state.cancelled = Cancelled::Told(reason);
    }
}

/// A transaction took its position before it committed. So it comes before every result that has none
/// yet: a replay hands it over first, too.
fn hand_recorded(state: &mut State) -> bool {
    let found = state.slots.iter().find_map(|(id, place)| match &place.stage {
        Stage::Ended(BodyEnd::Recorded(entry)) => Some((*id, entry.clone())),
        _ => None,
    });
    let Some((slot, entry)) = found else { return false };
    state.ended.retain(|ended| *ended != slot);
    state.replaying = false;
    state.unreserve();
    state.hand(slot, Handed::Entry(entry));
    true
}

fn hand_body(turn: &Turn, state: &mut State) -> bool {
    let Some(slot) = state.ended.pop_front() else { return false };
    let Some(place) = state.slots.get_mut(&slot) else { return true };
    let (op, name, attempt) = (place.op, place.name.clone(), place.attempts.len() as u32 + 1);
    let Stage::Ended(end) = std::mem::replace(&mut place.stage, Stage::Body) else { return true };
    state.replaying = false;
    match end {
        BodyEnd::Done(payload) => {
            let entry = state.record(op, Phase::Done, name, Some(payload));
            state.hand(slot, Handed::Entry(entry));
        }
        BodyEnd::Recorded(entry) => state.hand(slot, Handed::Entry(entry)),
        BodyEnd::Failed(failure) if op == Op::Undo => {
            state.undo_failed = Some(left_to_undo(state, &name, attempt, &failure));
            let next_at = turn.engine.clock.at_most();
            let note = AttemptNote { attempt, failure, next_at, saved: None, gave_up: true };
            state.record(op, Phase::Attempt, name, Some(note_payload(&note)));
        }
        BodyEnd::Failed(failure) => {
            let entry = state.record(op, Phase::Failed, name, Some(note_payload(&failure)));
            state.hand(slot, Handed::Entry(entry));
        }
        BodyEnd::Again { failure, pause, saved } => {
            let next_at = turn.engine.clock.at_most() + pause;
            let saved = saved
                .as_ref()
                .and_then(|saved| serde_json::value::RawValue::from_string(saved.json()?.to_owned()).ok());
            let note = AttemptNote { attempt, failure, next_at, saved, gave_up: false };
            state.record(op, Phase::Attempt, name, Some(note_payload(&note)));
            if let Some(place) = state.slots.get_mut(&slot) {
                place.attempts.push(note);
                place.stage = Stage::Backoff;
                place.until = Some(next_at);
            }
        }
    }
    true
}

/// The oldest news that somebody awaits; among several who do, the one who asked first gets it.
fn hand_news(state: &mut State) -> bool {
    let awaits = |news: &News| {
        state.slots.iter().find(|(_, slot)| {
            matches!(slot.stage, Stage::Wait)
                && match news.kind {
                    NewsKind::Event => slot.op == Op::Event && *slot.plain == *news.name,
                    NewsKind::Settled | NewsKind::Rejected => {
                        slot.op == Op::Promise
                            && (*slot.plain == *news.name || name_in_any_life(&slot.name) == news.name)
                    }
                    NewsKind::Child => slot.op == Op::Child && *slot.plain == *news.name,
                    NewsKind::Cancel => false,
                }
        })
    };
    let found = state.inbox.iter().enumerate().find_map(|(place, news)| Some((place, *awaits(news)?.0)));
    let Some((place, slot)) = found else { return false };
    let Some(news) = state.inbox.remove(place) else { return false };
    let Some(place) = state.slots.get(&slot) else { return false };
    let (op, name, event) = (place.op, place.name.clone(), place.scoped_event());
    // Whoever repairs the run has to know what was sent.
    let tells = !place.opened && event.is_some();
    state.outbox.consumed.push(news.seq);
    state.replaying = false;
    if tells {
        let note = OpenNote { event, ..OpenNote::default() };
        state.record(op, Phase::Opened, name.clone(), Some(note_payload(&note)));
    }
    let (phase, body) = match news.kind {
        NewsKind::Child => child_end(news.body),
        NewsKind::Rejected => (Phase::Failed, news.body),
        _ => (Phase::Done, news.body),
    };
    let entry = state.record(op, phase, name, body);
    state.hand(slot, Handed::Entry(entry));
    true
}

/// A child's end as the entry's phase and body.
fn child_end(body: Option<outlast_core::Payload>) -> (Phase, Option<outlast_core::Payload>) {
    let failed = |error: Error| (Phase::Failed, Some(note_payload(&FailureDoc::Outlast(error))));
    match body.map(|body| Ended::from_payload(&body)) {
        Some(Ok(Ended { error: Some(error), .. })) => {
            (Phase::Failed, Some(outlast_core::Payload { codec: None, bytes: error.into() }))
        }
        Some(Ok(ended)) => (Phase::Done, ended.output),
        Some(Err(error)) => failed(error),
        None => failed(Error::misconfigured("a child ended without saying how")),
    }
}

/// Timers that are due by the database's clock, earliest first.
fn hand_timer(turn: &Turn, state: &mut State) -> bool {
    let now = turn.engine.clock.at_least();
    // What was sent in time has been read if the run was claimed after its time. Otherwise it goes to be claimed
    // anew, unless a body keeps it here.
    let busy = state.slots.values().any(|slot| slot.is_busy());
    let arrived_at = state.arrived_at;
    let due = |slot: &super::turn::Slot| {
        slot.waits_for_timer()
            && slot.until.is_some_and(|until| until <= now && (slot.is_sure() || busy || until <= arrived_at))
    };
    let first = state.slots.iter().filter(|(_, slot)| due(slot)).min_by_key(|(id, slot)| (slot.until, **id));
    let Some((&id, _)) = first else { return false };
    let Some(slot) = state.slots.get_mut(&id) else { return false };
    if matches!(slot.stage, Stage::Backoff) {
        slot.stage = Stage::WantsBody;
        slot.until = None;
        slot.wake();
        state.was_early = false;
        return true;
    }
    let (op, name, after_ms) = (slot.op, slot.name.clone(), slot.within_ms);
    state.replaying = false;
    state.was_early = false;
    let entry = match op {
        Op::Sleep => state.record(op, Phase::Done, name, None),
        _ => {
            let error = Error::TimedOut { what: format!("{} {name:?}", op.word()), after_ms };
            state.record(op, Phase::Failed, name, Some(note_payload(&FailureDoc::Outlast(error))))
        }
    };
    state.hand(id, Handed::Entry(entry));
    true
}

/// A run that waits although its journal goes on does not fit its code.
fn misfit_at_wait(state: &State) -> Option<Verdict> {
    let mut difference = misfit(state, false)?;
    // What the journal does not know tells more than what it waits for as well.
    let new = state.slots.values().find(|slot| !state.replay.knows(slot.op, &slot.name));
    if let Some(slot) = new.or(state.slots.values().next()).filter(|_| difference.found.is_none()) {
        difference.found = Some(Operation::new(slot.op, &slot.name));
        difference.source = Some(slot.source);
        difference.is_new = new.is_some();
    }
    Some(Verdict::Diverges(difference))
}

/// Code that wants to do something new, has not come to what was recorded and does not know a patch that the run took is
/// older than the run: what is new to it was done in another way. It may come to that later, but only a step that was added
/// without a patch before one would, and that is not worth doing something twice.
fn misfit_with_patch(state: &State) -> Option<Verdict> {
    let is_patch = |entry: &&Entry| entry.op == Op::Value && entry.name.starts_with(PATCH);
    state.replay.leftovers().iter().any(is_patch).then(|| misfit_at_wait(state)).flatten()
}

/// What a run says whose undo gave up.
fn left_to_undo(state: &State, name: &str, attempts: u32, failure: &FailureDoc) -> String {
    let left = state.undoable.iter().rev().map(|undo| &*undo.name).filter(|other| *other != name);
    let left: Vec<&str> = left.take(MOST_LEFT).collect();
    let more = if left.is_empty() { String::new() } else { format!("; left to undo: {}", left.join(", ")) };
    let message = failure.message();
    shorten(&format!("the undo of {name:?} failed {attempts} times: {message}{more}"), Limits::MESSAGE)
}

/// A run that ends although its journal has more does not fit its code. Before it undoes, what it undid before is
/// still to come.
pub(crate) fn misfit_at_end(state: &State, before_undo: bool) -> Option<Verdict> {
    misfit(state, before_undo).map(Verdict::Diverges)
}

/// The first of what the code did not ask for, and what it did instead, if anything.
fn misfit(state: &State, before_undo: bool) -> Option<Difference> {
    let left = state.replay.leftovers();
    let first = left.iter().find(|entry| binds(entry) && !(before_undo && entry.op == Op::Undo))?;
    let expected = Some(Operation::new(first.op, &first.name));
    let (found, source) = state.strayed.clone().unzip();
    Some(Difference { entry: first.pos, expected, is_new: found.is_some(), found, source })
}

/// Whether leaving a recorded operation of this kind out changes what the run did.
fn binds(entry: &Entry) -> bool {
    match entry.op {
        Op::Step | Op::Transaction | Op::Event | Op::Promise | Op::Child => true,
        // That it could be undone is no deed.
        Op::Undo => entry.phase != Phase::Opened,
        _ => false,
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map_or_else(|| "no message".to_owned(), |text| shorten(&text, Limits::MESSAGE))
}
