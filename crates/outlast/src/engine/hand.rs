//! Handing over: which result reaches the user's code next, and what is recorded of it.
//!
//! First everything recorded, in the order of the journal; then what is new: the request to stop, bodies that ended,
//! news, timers. What is new gets its position as it is handed over.

use outlast_core::{
    AttemptNote, Error, FailureDoc, Limits, Op, OpenNote, Payload, Phase, Timestamp, name_in_any_life,
    shorten,
};
use outlast_store::{Ended, News, NewsKind};

use super::turn::{
    BodyEnd, CANCEL_NAME, CANCEL_SLOT, CUT_SLOT, Cancelled, Handed, Slot, Stage, State, Turn, cancel_reason,
    note_payload,
};

/// The most names that a run says whose undo gave up.
pub(super) const MOST_LEFT: usize = 20;

/// Hands the next result over. `false` when there is none by the time `now`.
pub(super) fn hand_over(turn: &Turn, state: &mut State, now: Timestamp) -> bool {
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
    if state.mail.stop {
        return false;
    }
    if hand_news(state) {
        return true;
    }
    skip_timers(state, now);
    hand_timer(state, now)
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
    state.has_recorded();
    state.hand(slot, Handed::Entry(entry));
    true
}

fn hand_body(turn: &Turn, state: &mut State) -> bool {
    let Some(slot) = state.ended.pop_front() else { return false };
    let (now, recorded_at) = (state.now, state.recorded_at);
    let Some(place) = state.slots.get_mut(&slot) else { return true };
    let (op, name, attempt) = (place.op, place.name.clone(), place.attempts.len() as u32 + 1);
    let took = place.took(now, recorded_at);
    let Stage::Ended(end) = std::mem::replace(&mut place.stage, Stage::Body) else { return true };
    state.replaying = false;
    let node = Some(turn.engine.node());
    match end {
        BodyEnd::Done(payload) => {
            let entry = state.record_took(op, Phase::Done, name, Some(payload), took);
            state.hand(slot, Handed::Entry(entry));
        }
        BodyEnd::Recorded(entry) => state.hand(slot, Handed::Entry(entry)),
        BodyEnd::Failed(failure) if op == Op::Undo => {
            state.undo_failed = Some(left_to_undo(state, &name, attempt, &failure));
            let next_at = turn.engine.clock.at_most();
            let note = AttemptNote { attempt, failure, next_at, saved: None, gave_up: true, node };
            state.record_took(op, Phase::Attempt, name, Some(note_payload(&note)), took);
        }
        BodyEnd::Failed(failure) => {
            let entry = state.record_took(op, Phase::Failed, name, Some(note_payload(&failure)), took);
            state.hand(slot, Handed::Entry(entry));
        }
        BodyEnd::Again { failure, pause, saved } => {
            let next_at = turn.engine.clock.at_most() + pause;
            let saved = saved
                .as_ref()
                .and_then(|saved| serde_json::value::RawValue::from_string(saved.json()?.to_owned()).ok());
            let note = AttemptNote { attempt, failure, next_at, saved, gave_up: false, node };
            state.record_took(op, Phase::Attempt, name, Some(note_payload(&note)), took);
            // Behind the pause is where what follows would be taken to begin.
            state.recorded_at = Some(next_at);
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
                    NewsKind::Cancel | NewsKind::Skip => false,
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
fn child_end(body: Option<Payload>) -> (Phase, Option<Payload>) {
    let failed = |error: Error| (Phase::Failed, Some(note_payload(&FailureDoc::Outlast(error))));
    match body.map(|body| Ended::from_payload(&body)) {
        Some(Ok(Ended { error: Some(error), .. })) => {
            (Phase::Failed, Some(Payload { codec: None, bytes: error.into() }))
        }
        Some(Ok(ended)) => (Phase::Done, ended.output),
        Some(Err(error)) => failed(error),
        None => failed(Error::misconfigured("a child ended without saying how")),
    }
}

/// Somebody said that what ends at a time is over: sleeps and the pauses before attempts that end just then are due.
/// Whatever the code waits for by now instead ends at another time, and is left alone.
fn skip_timers(state: &mut State, now: Timestamp) {
    while let Some(place) = state.inbox.iter().position(|news| news.kind == NewsKind::Skip) {
        let Some(news) = state.inbox.remove(place) else { return };
        state.outbox.consumed.push(news.seq);
        let Some(end) = news.body.and_then(|body| body.decode::<i64>("a time").ok()) else { continue };
        let end = Timestamp::from_micros(end);
        let skipped = |slot: &&mut Slot| slot.waits_for_timer() && slot.is_sure() && slot.until == Some(end);
        state.slots.values_mut().filter(skipped).for_each(|slot| slot.until = Some(now.min(end)));
    }
}

/// Timers that are due by the database's clock, earliest first.
fn hand_timer(state: &mut State, now: Timestamp) -> bool {
    // What was sent in time has been read if the run was claimed after its time. Otherwise it goes to be claimed
    // anew, unless a body keeps it here.
    let busy = state.slots.values().any(|slot| slot.is_busy());
    let arrived_at = state.arrived_at;
    let due = |slot: &Slot| {
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

/// What a run says whose undo gave up.
fn left_to_undo(state: &State, name: &str, attempts: u32, failure: &FailureDoc) -> String {
    let left = state.undoable.iter().rev().map(|undo| &*undo.name).filter(|other| *other != name);
    let left: Vec<&str> = left.take(MOST_LEFT).collect();
    let more = if left.is_empty() { String::new() } else { format!("; left to undo: {}", left.join(", ")) };
    let message = failure.message();
    shorten(&format!("the undo of {name:?} failed {attempts} times: {message}{more}"), Limits::MESSAGE)
}
