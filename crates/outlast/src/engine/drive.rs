//! The drive: polls the user's code and hands results over, one at a time.
//!
//! Poll until the code is idle, hand over the next result (`hand`), poll again. When only durable waits are left, the turn is over and the run waits.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use outlast_core::repair::BEGUN;
use outlast_core::{Error, FailureDoc, Limits, Op, Phase, Timestamp, shorten};
use tokio::time::Sleep;

use super::hand::hand_over;
use super::misfit::{misfit_at_end, misfit_at_wait, misfit_with_patch};
use super::turn::{CUT_NAME, Cancelled, Stage, Turn, note_payload};
use crate::Verdict;
use crate::ctx::Work;
use crate::definition::Outcome;

/// How often the user's code is polled in a row before other tasks get their turn.
const POLLS: u32 = 128;

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
    /// The time by which it was decided last what is due. What comes due a moment later is not due yet for all that
    /// follows from it.
    looked_at: Timestamp,
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
        Drive { turn, code, wake, spent: false, timer: None, looked_at: Timestamp::default() }
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
        state.now = self.looked_at;
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
        if hand_over(&turn, &mut state, self.looked_at) || state.grant() {
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
            state.begin_bodies();
            return Idle::Again;
        }
        if wanting || bodies || state.reserved {
            state.waits &= wanting || !state.all_durable();
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
        // What is due and was not handed over waits for something else as well (a transaction on its way, a body that is
        // to end before the run is handed back), which wakes this task by itself.
        let next = self.turn.state().next_after(self.looked_at);
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
            self.looked_at = self.turn.engine.clock.at_least();
            if expired(&self.turn, self.looked_at) {
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
fn expired(turn: &Turn, now: Timestamp) -> bool {
    let state = turn.state();
    state.expires_at.is_some_and(|at| at <= now) && !state.replay.is_due()
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map_or_else(|| "no message".to_owned(), |text| shorten(&text, Limits::MESSAGE))
}
