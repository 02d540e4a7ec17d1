//! Turns: how a run is talked to between a claim and the commit that ends it.
//!
//! A [`Turn`] is shared by the user's [`Ctx`](crate::Ctx), the operations made from it, the
//! [`Drive`](super::drive::Drive) that polls the user's code and the engine that brings news. Operations
//! ask for their record here and wait in a slot; the drive hands results over, one at a time, in the
//! order of the journal, and collects what is new in the outbox for the committer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hashbrown::{HashMap, HashSet};
use outlast_core::{
    AttemptNote, Entry, Error, Limits, Op, OpName, OpenNote, Operated, Payload, Phase, Replay, RunId,
    Timestamp, name_anew, repair,
};
use outlast_store::{Doing, LogLine, News, NewsKind, Next, RunCommit, RunRecord};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::Engine;
pub(crate) use super::slot::{Ask, BodyEnd, Deadline, Handed, Slot, Stage};
pub(crate) use super::state::{Cancelled, Mail, Outbox, State};
use crate::Verdict;
use crate::ctx::Undoable;
use crate::logs::in_step;

/// The most log lines kept for one turn.
const LOG_LINES: u32 = 1000;

pub(crate) struct Turn {
    pub(crate) engine: Arc<Engine>,
    pub(crate) record: RunRecord,
    /// What the run is called with: the record's input, or what `continue_as_new` said.
    pub(crate) input: Payload,
    /// Where `continue_as_new` began this journal; 0 in a run's first life.
    pub(crate) life: u32,
    /// How many entries of its journal count no more, or say so.
    pub(crate) void: u32,
    /// How often operations were begun anew, since somebody repaired the run.
    anew: BTreeMap<Operated, u32>,
    pub(crate) limits: Limits,
    /// It only repeats what was recorded: see [`check`](super::check).
    pub(crate) checks: bool,
    state: Mutex<State>,
    /// Wakes the task that drives the turn.
    pub(crate) waker: AtomicWaker,
    /// Set when someone asks the run to stop: bodies of steps may look.
    pub(crate) cancel: watch::Sender<Option<String>>,
    /// The body of a step is being polled.
    in_body: AtomicBool,
    /// Only what is not a body of a step is being polled.
    without_bodies: AtomicBool,
    /// Those whose bodies were left meanwhile.
    left: Mutex<Vec<Waker>>,
}

/// The slot of the engine itself, which hands the cancellation over.
pub(crate) const CANCEL_SLOT: usize = 0;
pub(crate) const CANCEL_NAME: &str = "cancel";
/// The slot in which the code is told that its time or room is over.
pub(crate) const CUT_SLOT: usize = usize::MAX;
pub(crate) const CUT_NAME: &str = "cut";

/// What the record of a patch that a run took is called, before its name.
pub(crate) const PATCH: &str = "patch:";

/// What a claim brings to a turn.
pub(crate) struct Arrival {
    pub(crate) epoch: i64,
    pub(crate) inbox: Vec<News>,
    pub(crate) seen: i64,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) was_early: bool,
    pub(crate) at: Timestamp,
}

impl Arrival {
    /// The number of the last message that it brings. What is brought is read after the number is.
    fn seen(&self) -> i64 {
        self.inbox.last().map_or(0, |news| news.seq).max(self.seen)
    }
}

impl Turn {
    pub(crate) fn new(
        engine: Arc<Engine>,
        record: RunRecord,
        mut entries: Vec<Entry>,
        doing: Vec<Doing>,
        arrival: Arrival,
    ) -> Turn {
        let limits = engine.limits;
        let is_void = |entry: &&Entry| entry.phase == Phase::Void || entry.op == Op::Revise;
        let void = entries.iter().filter(is_void).count() as u32;
        // What another version wrote waits for that.
        let (anew, misfit) = match repair::revise(&mut entries) {
            Ok(anew) => (anew, None),
            Err(error) => (BTreeMap::new(), Some(Verdict::of_error(error, None))),
        };
        let continued = entries.iter().rev().find(|entry| entry.op == Op::Continue);
        let life = continued.map_or(0, |entry| entry.pos);
        let input = continued.and_then(|entry| entry.body.clone()).unwrap_or_else(|| record.input.clone());
        let last = entries.last().map_or(0, |entry| entry.pos);
        let replaying = !entries.is_empty();
        // What `continue_as_new` carried over stands under a name that no code can use.
        let carries = |entry: &&Entry| entry.op == Op::State && entry.name.starts_with('=');
        let carried: Vec<Entry> = entries.iter().filter(carries).cloned().collect();
        let mut replay = Replay::new(entries);
        replay.take(Op::Continue, "continue");
        let mut saved = HashMap::new();
        for entry in &carried {
            replay.take(Op::State, &entry.name);
            saved.insert(entry.name[1..].to_owned(), entry.body.clone().unwrap_or_default());
        }
        replay.ask(Op::Cancel, CANCEL_NAME, CANCEL_SLOT);
        replay.ask(Op::Cancel, CUT_NAME, CUT_SLOT);
        let did = !doing.is_empty();
        let beats = doing.into_iter().filter_map(|d| d.saved.map(|saved| (d.name, saved))).collect();
        let state = State {
            epoch: arrival.epoch,
            replay,
            replaying,
            slots: BTreeMap::new(),
            next_slot: CANCEL_SLOT + 1,
            counts: HashMap::new(),
            next_pos: last + 1,
            outbox: Outbox::default(),
            now: arrival.at,
            // When a node first took it stands in its row.
            recorded_at: (arrival.epoch == 1 && last == 0).then_some(arrival.at),
            waits: true,
            durable: last,
            submitted: last,
            reserved: false,
            reserving: Vec::new(),
            granted: false,
            seen: arrival.seen(),
            inbox: arrival.inbox.into(),
            ended: VecDeque::new(),
            cancelled: Cancelled::No,
            expires_at: arrival.expires_at,
            was_early: arrival.was_early,
            arrived_at: arrival.at,
            continue_with: None,
            misfit,
            strayed: None,
            mail: Mail::default(),
            saved,
            patches: HashMap::new(),
            tags: HashSet::new(),
            beats,
            did,
            listeners: HashSet::new(),
            ended_children: HashMap::new(),
            log_lines: 0,
            undoable: Vec::new(),
            undoing: false,
            cut: None,
            undo_failed: None,
            failed: None,
        };
        let turn = Turn {
            engine,
            record,
            input,
            life,
            void,
            anew,
            limits,
            checks: false,
            state: Mutex::new(state),
            waker: AtomicWaker::new(),
            cancel: watch::Sender::new(None),
            in_body: AtomicBool::new(false),
            without_bodies: AtomicBool::new(false),
            left: Mutex::default(),
        };
        turn.notice_cancel(&mut turn.state());
        turn
    }

    /// A warm turn goes on with a new claim.
    pub(crate) fn arrive(&self, arrival: Arrival) {
        let mut state = self.state();
        state.epoch = arrival.epoch;
        // What it had read and not consumed before is still here.
        let seen = state.seen;
        state.seen = arrival.seen().max(seen);
        state.inbox.extend(arrival.inbox.into_iter().filter(|news| news.seq > seen));
        state.expires_at = arrival.expires_at;
        state.was_early = arrival.was_early;
        state.arrived_at = arrival.at;
        (state.now, state.recorded_at, state.waits) = (arrival.at, None, true);
        state.mail = Mail::default();
        state.log_lines = 0;
        self.notice_cancel(&mut state);
    }

    pub(crate) fn id(&self) -> RunId {
        self.record.id
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    // ---- what the engine does

    /// News that arrived while the turn runs.
    pub(crate) fn bring(&self, news: Vec<News>) {
        let mut state = self.state();
        for news in news {
            if news.seq > state.seen {
                state.seen = news.seq;
                state.inbox.push_back(news);
            }
        }
        self.notice_cancel(&mut state);
        drop(state);
        self.waker.wake();
    }

    fn notice_cancel(&self, state: &mut State) {
        if let Some(news) = state.inbox.iter().find(|news| news.kind == NewsKind::Cancel) {
            self.cancel.send_replace(Some(cancel_reason(news)));
        }
    }

    /// The committer made everything up to `pos` durable.
    pub(crate) fn acked(&self, pos: u32, ended: bool) {
        let mut state = self.state();
        state.durable = state.durable.max(pos);
        state.mail.ended |= ended;
        drop(state);
        self.waker.wake();
    }

    /// The run is no longer ours.
    pub(crate) fn lose(&self) {
        self.state().mail.lost = true;
        self.waker.wake();
    }

    /// The engine stops: hand the run back.
    pub(crate) fn stop(&self) {
        self.state().mail.stop = true;
        self.waker.wake();
    }

    /// How long the run has existed, by the database's clock.
    pub(crate) fn run_time(&self) -> Duration {
        self.engine.clock.at_least().since(self.record.created_at)
    }

    /// Waits until the commit that ends the turn is durable (`true`) or refused (`false`).
    pub(crate) async fn settled(&self) -> bool {
        std::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            match self.state().mail {
                Mail { lost: true, .. } => Poll::Ready(false),
                Mail { ended: true, .. } => Poll::Ready(true),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Gives everything that is recorded to the committer, with how the turn ends.
    pub(crate) fn submit(self: &Arc<Self>, next: Option<Next>) {
        let mut state = self.state();
        if self.checks || state.mail.lost || (state.reserved && next.is_none()) {
            return;
        }
        state.record_openings(matches!(next, Some(Next::Suspend { .. })));
        let outbox = std::mem::take(&mut state.outbox);
        state.did |= !outbox.doing.is_empty();
        if next.is_none() && outbox.is_empty() {
            return;
        }
        let commit = RunCommit {
            run: self.id(),
            epoch: state.epoch,
            entries: outbox.entries,
            consumed: outbox.consumed,
            starts: outbox.starts,
            sends: outbox.sends,
            prunes: outbox.prunes,
            doing: outbox.doing,
            did: state.did,
            had_news: state.seen > 0,
            logs: outbox.logs,
            tags: outbox.tags,
            next,
        };
        state.submitted = commit.entries.last().map_or(state.submitted, |entry| entry.pos);
        let (upto, is_over, epoch) = (state.submitted, commit.next.is_some(), commit.epoch);
        drop(state);
        self.engine.committer.submit(commit, upto, self.clone());
        if is_over {
            self.engine.turn_is_over(self.id(), epoch);
        }
    }

    // ---- what operations do

    /// Fixes the identity of an operation: its name, and its occurrence when it is not the first.
    pub(crate) fn name(&self, op: Op, plain: &Arc<str>) -> Arc<str> {
        let mut state = self.state();
        self.refuse_in_body(&mut state, op, plain);
        match state.counts.get_mut(&OpName(op, plain)) {
            Some(count) => {
                *count += 1;
                format!("{plain}#{count}").into()
            }
            None => {
                state.counts.insert((op, plain.clone()), 1);
                plain.clone()
            }
        }
    }

    /// The name of an operation for others: after a repair another one, if what it did before was taken back.
    pub(crate) fn name_for_others(&self, op: Op, name: &Arc<str>) -> String {
        let operated = Operated { op: repair::OpWord(op), name: name.clone() };
        name_anew(name, self.anew.get(&operated).copied().unwrap_or_default())
    }

    /// Polls or calls the body of this step, which must not use the run's context.
    pub(crate) fn in_body<T>(&self, name: Arc<str>, work: impl FnOnce() -> T) -> T {
        in_step(name, || within(&self.in_body, true, work))
    }

    /// Polls the code, without the bodies of its steps if so.
    pub(crate) fn without_bodies<T>(&self, so: bool, work: impl FnOnce() -> T) -> T {
        within(&self.without_bodies, so, work)
    }

    /// Whether bodies of steps are left as they are. Whoever is left is woken when that is over: what woke it
    /// before may have been for its body.
    pub(crate) fn leaves_body(&self, cx: &Context<'_>) -> bool {
        let leaves = self.without_bodies.load(Ordering::Relaxed);
        if leaves {
            self.left.lock().push(cx.waker().clone());
        }
        leaves
    }

    /// Bodies are polled again.
    pub(crate) fn wake_left(&self) {
        std::mem::take(&mut *self.left.lock()).into_iter().for_each(Waker::wake);
    }

    /// What a body does is not repeated, and so nothing that it asks of the run would be found again: the code
    /// has to change. `true` when that was the case.
    fn refuse_in_body(&self, state: &mut State, op: Op, name: &str) -> bool {
        let refused = self.in_body.load(Ordering::Relaxed);
        if refused {
            let reason = format!(
                "the body of a step uses the workflow's context for {} {name:?}: a replay would not come to it; \
                 do that outside of the step",
                op.word()
            );
            state.misfit = Some(Verdict::Blocks { reason });
        }
        refused
    }

    /// An operation begins to wait. Gives its slot.
    pub(crate) fn ask(&self, ask: Ask) -> usize {
        let mut state = self.state();
        let slot = state.next_slot;
        state.next_slot += 1;
        let asked = state.replay.ask(ask.op, &ask.name, slot);
        let mut attempts: Vec<AttemptNote> =
            asked.attempts.iter().filter_map(|entry| entry.note::<AttemptNote>().ok()).collect();
        // Whoever wants an undo tried again that gave up begins to count anew.
        if let Some(last) = attempts.iter().rposition(|attempt| attempt.gave_up) {
            attempts.drain(..=last);
        }
        let opened: Option<OpenNote> = asked.opened.as_ref().and_then(|entry| entry.note().ok());
        if !asked.recorded && opened.is_none() && attempts.is_empty() {
            state.replaying = false;
        }
        let until = match (&opened, ask.within) {
            (Some(OpenNote { until: Some(until), .. }), _) => Some(*until),
            (_, Some(Deadline::After(duration))) => Some(self.engine.clock.at_most() + duration),
            (_, Some(Deadline::At(time))) => Some(time),
            (_, None) => None,
        };
        let ended = (ask.op == Op::Child).then(|| state.ended_children.get(&ask.name).cloned()).flatten();
        let (stage, until) = match (&state.cancelled, asked.recorded, attempts.last()) {
            _ if let Some(ended) = ended => (Stage::Handed(Handed::Entry(ended)), until),
            (_, true, _) => (Stage::Recorded, until),
            (Cancelled::Enforced(reason), ..) if ask.op != Op::Undo => {
                (Stage::Handed(Handed::Cancelled(reason.clone())), until)
            }
            (_, _, Some(failed)) => (Stage::Backoff, Some(failed.next_at)),
            (..) if ask.body => (Stage::WantsBody, until),
            (..) => (Stage::Wait, until),
        };
        let waits = !ask.body;
        let within_ms = match ask.within {
            Some(Deadline::After(duration)) => duration.as_millis() as u64,
            _ => 0,
        };
        state.slots.insert(
            slot,
            Slot {
                op: ask.op,
                name: ask.name,
                plain: ask.plain,
                stage,
                until,
                within_ms,
                // A child was opened when it was started.
                opened: opened.is_some() || !waits || matches!(ask.op, Op::Cancel | Op::Child),
                attempts,
                began: Default::default(),
                source: ask.source,
                waker: None,
            },
        );
        slot
    }

    /// An operation is undone if the run does not end well. One that said so before knows more now.
    pub(crate) fn can_undo(&self, undo: Undoable) {
        let mut state = self.state();
        match state.undoable.iter_mut().find(|known| known.name == undo.name) {
            Some(known) => *known = undo,
            None => {
                state.mark_undo(undo.name.clone());
                state.undoable.push(undo);
            }
        }
    }

    /// Whether an operation has its result; `None` while it waits.
    pub(crate) fn poll_slot(&self, slot: usize, cx: &mut Context<'_>) -> Poll<Handed> {
        let mut state = self.state();
        let Some(place) = state.slots.get_mut(&slot) else { return Poll::Pending };
        if let Stage::Handed(handed) = &place.stage {
            let handed = handed.clone();
            state.slots.remove(&slot);
            return Poll::Ready(handed);
        }
        place.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// A step's body may start: takes the permission. Gives the attempt's number and what the last saved.
    pub(crate) fn may_start(&self, slot: usize) -> Option<(u32, Option<Payload>)> {
        let mut state = self.state();
        let place = state.slots.get_mut(&slot).filter(|place| matches!(place.stage, Stage::MayStart))?;
        place.stage = Stage::Body;
        let attempt = place.attempts.len() as u32 + 1;
        let saved = place.attempts.last().and_then(|note| note.saved.as_ref());
        let saved = saved.map(|saved| Payload { codec: None, bytes: saved.get().to_owned().into() });
        let name = place.name.clone();
        Some((attempt, saved.or_else(|| state.beats.remove(&*name))))
    }

    /// Takes the next position for a transaction, once the code has taken everything that was handed to
    /// it: one of these may be what drops the transaction. Results that come later wait for it; what was
    /// handed over before may become durable after it, since nothing durable depends on it yet.
    pub(crate) async fn reserve(&self) -> u32 {
        std::future::poll_fn(|cx| {
            let mut state = self.state();
            if std::mem::take(&mut state.granted) {
                return Poll::Ready(state.reserve());
            }
            state.reserving.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// How long the body of a transaction took that is about to be recorded, if that has to be said.
    pub(crate) fn took(&self, name: &str) -> Option<Duration> {
        let state = self.state();
        let slot = state.slots.values().find(|slot| slot.op == Op::Transaction && *slot.name == *name)?;
        slot.took(state.now, state.recorded_at)
    }

    /// The transaction failed: other entries may go on.
    pub(crate) fn unreserve(&self) {
        self.state().unreserve();
        self.waker.wake();
    }

    /// A body ended: its result waits for its position.
    pub(crate) fn body_ended(&self, slot: usize, end: BodyEnd) {
        let mut state = self.state();
        if let Some(place) = state.slots.get_mut(&slot) {
            place.stage = Stage::Ended(end);
            let name = place.name.clone();
            state.ended.push_back(slot);
            state.listeners.remove(&name);
        }
    }

    /// The operation was dropped.
    pub(crate) fn forget(&self, slot: usize) {
        let mut state = self.state();
        if let Some(place) = state.slots.remove(&slot) {
            state.listeners.remove(&place.name);
            if matches!(place.stage, Stage::Ended(BodyEnd::Recorded(_))) {
                state.unreserve();
            }
        }
    }

    /// A value that is fixed at its first use: the recorded one, or a new one that is recorded.
    pub(crate) fn fixed(
        &self,
        op: Op,
        name: &str,
        make: impl FnOnce() -> Result<Payload, Error>,
    ) -> Result<Payload, Error> {
        let mut state = self.state();
        if self.refuse_in_body(&mut state, op, name) {
            return make();
        }
        if let Some(entry) = state.replay.take(op, name) {
            return Ok(entry.body.unwrap_or_default());
        }
        let payload = make()?;
        state.replaying = false;
        state.record(op, Phase::Done, name.into(), Some(payload.clone()));
        Ok(payload)
    }

    /// Notes a line that a handler logged, unless it was logged before.
    pub(crate) fn log(&self, level: &str, message: String, step: Option<String>) {
        let mut state = self.state();
        if state.replaying || state.log_lines >= LOG_LINES {
            return;
        }
        state.log_lines += 1;
        let (n, at) = (state.log_lines, Timestamp::default());
        let line = LogLine { epoch: state.epoch, n, at, level: level.to_owned(), message, step };
        state.outbox.logs.push(line);
    }
}

/// Does something while a flag is set, if `so`.
fn within<T>(flag: &AtomicBool, so: bool, work: impl FnOnce() -> T) -> T {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    flag.store(so, Ordering::Relaxed);
    let _over = Over(flag);
    work()
}

/// Our own small notes always fit into JSON.
pub(crate) fn note_payload<T: serde::Serialize>(note: &T) -> Payload {
    Payload { codec: None, bytes: serde_json::to_vec(note).unwrap_or_default().into() }
}

/// Why someone asked the run to stop.
pub(crate) fn cancel_reason(news: &News) -> String {
    let reason = news.body.as_ref().and_then(|body| body.decode::<String>("the reason").ok());
    reason.unwrap_or_else(|| "no reason given".to_owned())
}
