//! From a claim to the commit that ends the turn: one task per run in hand.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{
    Error, FailureDoc, NodeId, Op, Payload, Phase, RunId, Status, crashes, split_life, strip_anew,
};
use outlast_store::{
    Address, Claimed, Delivery, Ended, Loaded, NewRun, NewsKind, Next, Parent, RunRecord, StoreError, code,
};
use tokio::time::Instant;
use tracing::Instrument;

use super::drive::{Drive, TurnEnd, panic_message};
use super::job::JobTurn;
use super::misfit::misfit_at_end;
use super::turn::{Arrival, Cancelled, Turn};
use super::verify::verify;
use super::{Engine, Holder, Running, Slot, poison, strict};
use crate::definition::Outcome;
use crate::registry::{Body, Registered};
use crate::{Ctx, JobCtx, Verdict};

/// How long a suspect waits for its turn.
const SUSPECT_PAUSE: Duration = Duration::from_millis(500);

/// How many entries of a long journal are read at once.
const PAGE: u32 = 5000;

/// Begins the turn of a run that was loaded. A suspect brings the right to run one.
pub(crate) fn begin(engine: &Arc<Engine>, loaded: Loaded, claimed: Claimed, slot: Slot, alone: Option<Slot>) {
    let engine = engine.clone();
    // Known before the task runs, so that no renewal takes the run for a stranger.
    let placeholder = JobTurn::new(engine.clone(), &loaded, &claimed);
    let node = slot.node;
    let in_hand =
        InHand::new(&engine, (claimed.id, claimed.epoch), Some(slot), Holder::Job(placeholder.clone()));
    if !may_begin(&engine, node, claimed.id) {
        return;
    }
    engine.clone().spawn(async move {
        match engine.registry.get(&claimed.code) {
            None => {
                let record = &loaded.record;
                let reason = engine.registry.missing(&record.definition, record.version).to_string();
                placeholder.end(Next::Block { reason }, Vec::new()).await;
            }
            Some(_) if loaded.unreadable.is_some() => {
                let reason = unreadable(loaded.unreadable.unwrap_or_default());
                placeholder.end(Next::Block { reason }, Vec::new()).await;
            }
            Some(definition) if crashes::is_poison(claimed.crashes, engine.settings.crashes) => {
                let mut loaded = loaded;
                if load_rest(&placeholder, &mut loaded).await {
                    poison::end(&placeholder, &definition, &loaded, claimed.crashes).await;
                }
            }
            Some(definition) => match &definition.body {
                Body::Job(_) | Body::Batch(_) => begin_job(placeholder, definition, loaded, claimed).await,
                Body::Workflow(_) => begin_workflow(&placeholder, definition, loaded, claimed).await,
            },
        }
        drop(alone);
        drop(in_hand);
    });
}

/// Hands a suspect back until its turn comes, without charging an attempt.
pub(super) async fn hand_suspect_back(engine: &Arc<Engine>, loaded: Loaded, claimed: Claimed, slot: Slot) {
    let next = Next::Retry { after: SUSPECT_PAUSE, attempt: claimed.attempt };
    hand_back(engine, &loaded, &claimed, Some(slot), next).await;
}

/// Hands back at once what was claimed and has no slot.
pub(super) async fn let_go(engine: &Arc<Engine>, loaded: Loaded, claimed: Claimed) {
    hand_back(engine, &loaded, &claimed, None, Next::Release).await;
}

async fn hand_back(engine: &Arc<Engine>, loaded: &Loaded, claimed: &Claimed, slot: Option<Slot>, next: Next) {
    let placeholder = JobTurn::new(engine.clone(), loaded, claimed);
    let _in_hand = InHand::new(engine, (claimed.id, claimed.epoch), slot, Holder::Job(placeholder.clone()));
    placeholder.end(next, Vec::new()).await;
}

/// Begins the turn of a run that was started and held in one go: it has no journal and no news.
pub(crate) fn begin_started(engine: &Arc<Engine>, run: NewRun, slot: Slot) {
    let now = engine.clock.at_least();
    let claimed = Claimed {
        id: run.id,
        epoch: 1,
        priority: run.priority,
        due_at: now,
        code: code(&run.definition, run.version),
        attempt: 1,
        crashes: 0,
        expires_at: run.timeout.map(|timeout| engine.clock.at_most() + timeout),
        news: 0,
        inbox: Vec::new(),
    };
    let record = RunRecord {
        id: run.id,
        kind: run.kind,
        tenant: run.tenant,
        definition: run.definition,
        version: run.version,
        key: run.key,
        queue: run.queue,
        priority: run.priority,
        created_at: now,
        input: run.input,
        owner: run.owner,
        roles: run.roles,
        trace: run.trace,
        parent: run.parent,
    };
    let loaded = Loaded { record, entries: Vec::new(), more: false, doing: Vec::new(), unreadable: None };
    begin(engine, loaded, claimed, slot, None);
}

/// A warm run goes on.
pub(crate) fn go_on(engine: &Arc<Engine>, drive: Drive, claimed: Claimed, slot: Slot) {
    let (turn, held) = (drive.turn.clone(), (claimed.id, claimed.epoch));
    turn.arrive(arrival(engine, claimed));
    let node = slot.node;
    let in_hand = InHand::new(engine, held, Some(slot), Holder::Workflow(turn.clone()));
    if !may_begin(engine, node, held.0) {
        return;
    }
    if engine.stop.is_cancelled() {
        turn.stop();
    }
    engine.spawn(async move {
        drive_turn(&in_hand.engine, drive).await;
    });
}

/// Whether a run that was claimed is still this node's. Asked once it is in hand, so that whoever drops work when the
/// lease ends has either seen it there, or is noticed here. The run is due again with the next renewal, or for others.
fn may_begin(engine: &Engine, node: NodeId, run: RunId) -> bool {
    let may = engine.has_lease_as(node);
    if !may {
        tracing::debug!(%run, "the lease ended before the run could begin");
        if let Some(unsaid) = engine.troubles.fenced.say() {
            tracing::warn!(%run, unsaid, "the lease ended before a run could begin");
        }
    }
    may
}

/// A run in hand; released when dropped, however its task ended.
struct InHand {
    engine: Arc<Engine>,
    id: RunId,
    epoch: i64,
}

impl InHand {
    fn new(engine: &Arc<Engine>, (id, epoch): (RunId, i64), slot: Option<Slot>, who: Holder) -> InHand {
        let mut running = engine.running.lock();
        let held = Running { epoch, who, ended: None, slot, is_ending: false };
        let before = running.insert(id, held);
        metrics::gauge!("outlast_running").set(running.len() as f64);
        drop(running);
        before.into_iter().for_each(|before| engine.give_back(before.slot, before.is_ending));
        InHand { engine: engine.clone(), id, epoch }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        release(&self.engine, self.id, self.epoch);
    }
}

fn release(engine: &Engine, id: RunId, epoch: i64) {
    let mut running = engine.running.lock();
    let is_ours = running.get(&id).is_some_and(|held| held.epoch == epoch);
    let gone = is_ours.then(|| running.remove(&id)).flatten();
    metrics::gauge!("outlast_running").set(running.len() as f64);
    drop(running);
    let ended = gone.and_then(|held| {
        engine.give_back(held.slot, held.is_ending);
        held.ended
    });
    engine.queues.note_change();
    if engine.queues.take_full() {
        engine.nudge();
    }
    if let Some(ended) = ended {
        engine.client.tell_end(id, &ended);
    }
    engine.changed.notify_waiters();
}

fn arrival(engine: &Engine, claimed: Claimed) -> Arrival {
    Arrival {
        was_early: claimed.due_at > engine.clock.at_least(),
        at: engine.clock.at_least(),
        epoch: claimed.epoch,
        seen: claimed.news,
        inbox: claimed.inbox,
        expires_at: claimed.expires_at,
    }
}

/// Why a run waits whose journal this version cannot read.
fn unreadable(detail: impl std::fmt::Display) -> String {
    format!("its journal holds what this version cannot read: {detail}")
}

/// Reads the rest of a long journal. `false` when that cannot be read, and the turn is over.
async fn load_rest(placeholder: &Arc<JobTurn>, loaded: &mut Loaded) -> bool {
    let id = loaded.record.id;
    while loaded.more {
        let after = loaded.entries.last().map_or(0, |entry| entry.pos);
        match placeholder.engine.store.journal(id, after, PAGE).await {
            Ok(page) => {
                loaded.more = page.len() == PAGE as usize;
                loaded.entries.extend(page);
            }
            Err(StoreError::Unreadable { detail, .. }) => {
                placeholder.end(Next::Block { reason: unreadable(detail) }, Vec::new()).await;
                return false;
            }
            // Not ours to guess: the run is due again when the next renewal finds it unknown.
            Err(error) => {
                if let Some(unsaid) = placeholder.engine.troubles.load.say() {
                    tracing::error!(%error, run = %id, unsaid, "the journal could not be read");
                }
                return false;
            }
        }
    }
    true
}

/// After very many attempts too it goes on behind the last, and knows whether it is undone.
async fn begin_job(
    placeholder: Arc<JobTurn>,
    definition: Arc<Registered>,
    mut loaded: Loaded,
    claimed: Claimed,
) {
    if !load_rest(&placeholder, &mut loaded).await {
        return;
    }
    // Each attempt begins anew, and may need a role that the code did not ask for before. What undoes one goes on with it.
    let is_undone = loaded.entries.iter().any(|entry| entry.op == Op::Undo);
    match definition.refuses(&loaded.record.roles).filter(|_| !is_undone) {
        Some(error) => refuse(&placeholder, &loaded.record, error).await,
        None => super::job::run(placeholder, definition, claimed, &loaded.entries).await,
    }
}

/// Fails a run whose code must not be called for whoever started it.
async fn refuse(placeholder: &Arc<JobTurn>, record: &RunRecord, error: Error) {
    let (next, sends) = finish(record, Status::Failed, None, Some(&FailureDoc::Outlast(error)));
    placeholder.end_with(next, sends).await;
}

async fn begin_workflow(
    placeholder: &Arc<JobTurn>,
    definition: Arc<Registered>,
    mut loaded: Loaded,
    claimed: Claimed,
) {
    let (engine, id, epoch) = (&placeholder.engine, claimed.id, claimed.epoch);
    // Not in the middle of a run that was begun before its code asked for a role.
    if loaded.entries.is_empty()
        && let Some(error) = definition.refuses(&loaded.record.roles)
    {
        return refuse(placeholder, &loaded.record, error).await;
    }
    if !load_rest(placeholder, &mut loaded).await {
        return;
    }
    let turn =
        Turn::new(engine.clone(), loaded.record, loaded.entries, loaded.doing, arrival(engine, claimed));
    let turn = Arc::new(turn);
    if let Some(held) = engine.running.lock().get_mut(&id).filter(|held| held.epoch == epoch) {
        held.who = Holder::Workflow(turn.clone());
    }
    let Body::Workflow(call) = &definition.body else { return };
    if let Some(differs) = strict::differs(&turn, &definition) {
        turn.submit(Some(Next::Block { reason: differs.to_string() }));
        turn.settled().await;
        return;
    }
    let ctx = Ctx::new(turn.clone());
    let code = std::panic::catch_unwind(AssertUnwindSafe(|| call(ctx, &turn.input, engine.limits)));
    let drive = match code {
        Ok(Ok(code)) => Drive::new(turn, code),
        // What never fitted has failed; what fitted before meets code that changed.
        Ok(Err(error)) if turn.state().replay.is_empty() => {
            return end_at_once(&turn, FailureDoc::Outlast(error)).await;
        }
        Ok(Err(error)) => {
            turn.submit(Some(Next::Block { reason: error.to_string() }));
            turn.settled().await;
            return;
        }
        Err(panic) => {
            let what = definition.options.name.to_owned();
            let error = Error::Panicked { what, message: panic_message(&*panic) };
            return end_at_once(&turn, FailureDoc::Outlast(error)).await;
        }
    };
    drive_turn(engine, drive).await;
}

async fn end_at_once(turn: &Arc<Turn>, failure: FailureDoc) {
    let (next, sends) = finish(&turn.record, Status::Failed, None, Some(&failure));
    turn.state().outbox.sends.extend(sends);
    turn.submit(Some(next));
    turn.settled().await;
}

/// Drives one turn to its end and commits it.
async fn drive_turn(engine: &Arc<Engine>, mut drive: Drive) {
    let turn = drive.turn.clone();
    let span = tracing::info_span!(
        "outlast.run",
        run.id = %turn.id(),
        run.definition = %turn.record.definition,
        queue = %turn.record.queue,
        run.trace = turn.record.trace.as_deref(),
        otel.name = %turn.record.definition,
    );
    let logs = crate::logs::Sink::Turn(Arc::downgrade(&turn));
    let began = Instant::now();
    let end = tokio::select! {
        biased;
        () = engine.abort.cancelled() => return,
        end = crate::logs::keep(logs, &mut drive).instrument(span) => end,
    };
    let repeats = repeats(&end);
    let (next, warm) = match end {
        TurnEnd::Lost => return,
        TurnEnd::Finished(outcome) => (returned(&turn, outcome), false),
        TurnEnd::Cut(failure) => (end_of(&turn, Err(failure)), false),
        TurnEnd::Undoing => (Next::Undo, true),
        TurnEnd::UndoFailed(reason) => {
            tracing::error!(run = %turn.id(), definition = %turn.record.definition, "undo failed: {reason}");
            (Next::GiveUp { reason }, false)
        }
        TurnEnd::Waiting { wake_at, seen } => (Next::Suspend { wake_at, seen }, true),
        TurnEnd::Misfit(misfit) => {
            tracing::error!(run = %turn.id(), definition = %turn.record.definition, "blocked: {misfit}");
            (Next::Block { reason: misfit.to_string() }, false)
        }
        TurnEnd::Continue => (start_over(&turn), false),
        TurnEnd::Stopped => (Next::Release, false),
    };
    if !warm {
        drive.give_up();
    }
    let outcome = outcome_label(&next);
    turn.submit(Some(next));
    if !turn.settled().await {
        return;
    }
    let definition = turn.record.definition.clone();
    metrics::counter!("outlast_turns_total", "definition" => definition.clone(), "outcome" => outcome)
        .increment(1);
    metrics::histogram!("outlast_turn_seconds", "definition" => definition)
        .record(began.elapsed().as_secs_f64());
    if warm && !engine.stop.is_cancelled() {
        let epoch = turn.state().epoch;
        let gone = engine.warm.lock().keep(drive, epoch);
        drop(gone);
    }
    if let Some(ended) = repeats.filter(|_| outcome != "blocked") {
        tokio::select! {
            biased;
            () = engine.abort.cancelled() => {}
            () = verify(engine, &turn, ended) => {}
        }
    }
}

/// Whether a replay has to come to the same place: `Some(true)` when that is the code's end.
fn repeats(end: &TurnEnd) -> Option<bool> {
    match end {
        TurnEnd::Waiting { .. } => Some(false),
        TurnEnd::Finished(Err(FailureDoc::Outlast(Error::Panicked { .. }))) => None,
        TurnEnd::Finished(_) => Some(true),
        _ => None,
    }
}

fn outcome_label(next: &Next) -> &'static str {
    match next {
        Next::Suspend { .. } => "waiting",
        Next::Retry { .. } => "retry",
        Next::Release => "released",
        Next::Block { .. } => "blocked",
        Next::Undo => "undoing",
        Next::GiveUp { .. } => "undo_failed",
        Next::Finish(ended) => ended.status.word(),
    }
}

/// How a run whose code returned ends: well, if the code asked for all that the journal holds.
fn returned(turn: &Arc<Turn>, outcome: Outcome) -> Next {
    let misfit = {
        let mut state = turn.state();
        state.misfit.take().or_else(|| misfit_at_end(&state, false))
    };
    let misfit = match (misfit, &outcome) {
        // That is why it did not come to the rest.
        (Some(Verdict::Diverges(_)), Err(FailureDoc::Outlast(Error::Panicked { message, .. }))) => {
            Some(Verdict::Panics { message: message.clone() })
        }
        (misfit, _) => misfit,
    };
    match misfit {
        Some(misfit) => Next::Block { reason: misfit.to_string() },
        None => end_of(turn, outcome),
    }
}

/// The end of a run with this outcome; one that was asked to stop is cancelled, whatever its code said.
fn end_of(turn: &Arc<Turn>, outcome: Outcome) -> Next {
    let mut state = turn.state();
    let (status, output, failure) = match (&state.cancelled, outcome) {
        (Cancelled::Told(reason) | Cancelled::Enforced(reason), _) => {
            let error = Error::Cancelled { reason: reason.clone() };
            (Status::Cancelled, None, Some(FailureDoc::Outlast(error)))
        }
        (Cancelled::No, Ok(output)) => (Status::Completed, Some(output), None),
        (Cancelled::No, Err(failure)) => (Status::Failed, None, Some(failure)),
    };
    let failed = state.failed.as_deref().map(|name| strip_anew(split_life(name).0));
    let failure = failure.map(|failure| failure.after(failed));
    let (next, sends) = finish(&turn.record, status, output, failure.as_ref());
    state.outbox.sends.extend(sends);
    next
}

/// The end of a run, and the message to whoever wants to hear of it.
pub(super) fn finish(
    record: &RunRecord,
    status: Status,
    output: Option<Payload>,
    failure: Option<&FailureDoc>,
) -> (Next, Vec<Delivery>) {
    let error = failure.map(|failure| serde_json::to_string(failure).unwrap_or_default());
    let ended = Ended { status, output, error };
    let sends = match &record.parent {
        Some(Parent { run, op: Some(op) }) => vec![Delivery {
            id: record.id.uuid(),
            to: Address::Run(*run),
            kind: NewsKind::Child,
            name: op.clone(),
            body: Some(ended.to_payload()),
        }],
        _ => Vec::new(),
    };
    if status == Status::Failed {
        let failure = failure.map(FailureDoc::message).unwrap_or_default();
        tracing::debug!(run = %record.id, definition = %record.definition, "failed: {failure}");
    }
    (Next::Finish(ended), sends)
}

/// `continue_as_new`: the journal keeps nothing but the new input and the saved state. A run that was asked
/// to stop has no next life: it would not know.
fn start_over(turn: &Arc<Turn>) -> Next {
    if turn.state().cancelled != Cancelled::No {
        return end_of(turn, Ok(Payload::default()));
    }
    let mut state = turn.state();
    let input = state.continue_with.take().unwrap_or_default();
    state.outbox.entries.clear();
    let first = state.record(Op::Continue, Phase::Done, "continue".into(), Some(input));
    let saved: Vec<(String, Payload)> = state.saved.clone().into_iter().collect();
    for (name, value) in saved {
        state.record(Op::State, Phase::Done, format!("={name}").into(), Some(value));
    }
    state.outbox.prunes = Some(turn.life..first.pos);
    Next::Release
}

/// The context of a job.
pub(super) fn job_ctx(job: &Arc<JobTurn>, attempt: u32) -> JobCtx {
    JobCtx::new(job.clone(), attempt)
}
