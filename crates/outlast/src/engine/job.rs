//! Jobs: one unit of work without a journal, on the same claim, lease and committer as workflows.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use outlast_core::repair::BEGUN;
use outlast_core::{AttemptNote, Entry, Error, FailureDoc, Limits, Op, Payload, Phase, Status, Timestamp};
use outlast_store::{
    Claimed, Committed, Delivery, Doing, Loaded, LogLine, News, NewsKind, Next, RunCommit, RunRecord, TurnEnd,
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tracing::Instrument;

use super::Engine;
use super::committer::Hears;
use super::drive::panic_message;
use super::guarded::guarded;
use super::run::{finish, job_ctx};
use super::turn::{cancel_reason, note_payload};
use super::undo;
use crate::definition::Outcome;
use crate::in_tx::InTx;
use crate::registry::{Body, Registered};

/// How long whoever has to know waits before the database is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The most log lines kept for one attempt.
const LOG_LINES: u32 = 1000;

/// A job in hand.
pub(crate) struct JobTurn {
    pub(crate) engine: Arc<Engine>,
    pub(crate) record: RunRecord,
    epoch: i64,
    state: Mutex<JobState>,
    /// What is told is written in the order in which it was told.
    telling: Mutex<()>,
    waker: AtomicWaker,
    /// The number of the last word told of which it is known that it is durable.
    durable: watch::Sender<u32>,
    /// Set when someone asks the job to stop.
    pub(crate) cancel: watch::Sender<Option<String>>,
    /// The handler said that another attempt makes no sense.
    pub(crate) terminal: AtomicBool,
}

#[derive(Default)]
struct JobState {
    seen: i64,
    /// How far it is and what it saved, of this attempt or an earlier one.
    doing: Doing,
    /// Whether that stands in the database, or is on its way there.
    did: bool,
    /// How often that was told.
    told: u32,
    logs: Vec<LogLine>,
    log_lines: u32,
    stop: bool,
    lost: bool,
    ended: bool,
    /// The end of the attempt is on its way: whatever its handler left behind is not heard any more.
    over: bool,
    /// The handler completed it in a transaction of its own, which may or may not have committed.
    completing: bool,
    /// Why this node cannot run it.
    misfit: Option<String>,
    /// How long the handler wants to wait if this attempt fails.
    pause: Option<Duration>,
    /// How long the handler wants to wait, whatever else.
    snoozed: Option<Duration>,
}

impl Hears for JobTurn {
    fn acked(&self, told: u32, ended: bool) {
        self.state.lock().ended |= ended;
        self.durable.send_modify(|durable| *durable = told.max(*durable));
        self.waker.wake();
    }

    fn lost(&self) {
        self.lose();
    }
}

impl JobTurn {
    pub(super) fn new(engine: Arc<Engine>, loaded: &Loaded, claimed: &Claimed) -> Arc<JobTurn> {
        let asked = claimed.inbox.iter().find(|news| news.kind == NewsKind::Cancel).map(cancel_reason);
        let doing = Doing {
            name: loaded.record.definition.clone(),
            attempt: claimed.attempt.max(1),
            ..loaded.doing.first().cloned().unwrap_or_default()
        };
        let state =
            JobState { seen: claimed.news, doing, did: !loaded.doing.is_empty(), ..JobState::default() };
        Arc::new(JobTurn {
            engine,
            record: loaded.record.clone(),
            epoch: claimed.epoch,
            state: Mutex::new(state),
            telling: Mutex::default(),
            waker: AtomicWaker::new(),
            durable: watch::Sender::new(0),
            cancel: watch::Sender::new(asked),
            terminal: AtomicBool::new(false),
        })
    }

    pub(super) fn seen(&self) -> i64 {
        self.state.lock().seen
    }

    pub(super) fn bring(&self, news: Vec<News>) {
        for news in news {
            let mut state = self.state.lock();
            state.seen = state.seen.max(news.seq);
            drop(state);
            if news.kind == NewsKind::Cancel {
                self.cancel.send_replace(Some(cancel_reason(&news)));
            }
        }
        self.waker.wake();
    }

    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.waker.wake();
    }

    pub(super) fn lose(&self) {
        self.state.lock().lost = true;
        // Whoever waits until something is durable waits no longer.
        self.durable.send_replace(u32::MAX);
        self.waker.wake();
    }

    /// This node cannot run it: that is nobody's failed attempt.
    pub(crate) fn misfits(&self, reason: &str) {
        self.state.lock().misfit = Some(reason.to_owned());
    }

    /// What was saved last. It is the output of a run that ends without a result of its own.
    pub(crate) fn saved(&self) -> Option<Payload> {
        self.state.lock().doing.saved.clone()
    }

    /// Tells how far the job is. Of what is told while a commit is on its way, the last is kept. Gives the number of
    /// this word, or `None` when the attempt is over.
    pub(crate) fn tell(self: &Arc<Self>, change: impl FnOnce(&mut Doing)) -> Option<u32> {
        let _in_order = self.telling.lock();
        let (doing, told) = {
            let mut state = self.state.lock();
            if state.over || state.lost {
                return None;
            }
            change(&mut state.doing);
            state.did = true;
            state.told += 1;
            (state.doing.clone(), state.told)
        };
        let (run, epoch) = (self.record.id, self.epoch);
        let commit = RunCommit { doing: vec![doing], did: false, ..RunCommit::new(run, epoch) };
        self.engine.committer.submit(commit, told, self.clone());
        Some(told)
    }

    /// Waits until what was told is durable; `false` when the run is no longer this process's.
    pub(crate) async fn until_durable(&self, told: u32) -> bool {
        let known = self.durable.subscribe().wait_for(|durable| *durable >= told).await.is_ok();
        known && !self.state.lock().lost
    }

    /// If this attempt fails, the next one comes after this long.
    pub(crate) fn ask_pause(&self, pause: Duration) {
        self.state.lock().pause = Some(pause.min(Limits::DURATION));
    }

    /// The attempt is over, and was none.
    pub(crate) fn snooze(&self, pause: Duration) {
        self.state.lock().snoozed = Some(pause.min(Limits::DURATION));
        self.waker.wake();
    }

    /// The run's time is over.
    pub(super) fn timed_out(&self) -> FailureDoc {
        let after_ms = self.engine.clock.at_least().since(self.record.created_at).as_millis() as u64;
        FailureDoc::Outlast(Error::TimedOut { what: format!("run {}", self.record.id), after_ms })
    }

    /// Says that another attempt makes no sense.
    pub(crate) fn give_up(&self) {
        self.terminal.store(true, Ordering::Relaxed);
    }

    /// How long to wait after this failed attempt, of the job or of its undo; nothing when it was the last.
    pub(super) fn pause_after(&self, definition: &Registered, attempt: u32) -> Option<Duration> {
        let policy = definition.options.retry.pause(attempt, fastrand::f64());
        let policy = policy.filter(|_| !self.terminal.load(Ordering::Relaxed))?;
        let asked = self.state.lock().pause.take();
        Some(asked.or_else(|| own_pause(definition, attempt)).unwrap_or(policy))
    }

    /// Completes the run when the user's transaction commits.
    pub(crate) async fn complete_in<T: Serialize>(&self, tx: impl InTx, output: &T) -> Result<(), Error> {
        let end = self.completion(output)?;
        self.completed(self.engine.client.perform(tx, &end).await?)
    }

    /// The same in an SQLite transaction of rusqlite.
    #[cfg(feature = "rusqlite")]
    pub(crate) fn complete_in_blocking<T: Serialize>(
        &self,
        tx: &rusqlite::Connection,
        output: &T,
    ) -> Result<(), Error> {
        let end = self.completion(output)?;
        self.completed(self.engine.client.perform_blocking(tx, &end)?)
    }

    /// The end of the run with this output. From now on nobody but the database knows whether it has ended.
    fn completion<T: Serialize>(&self, output: &T) -> Result<TurnEnd, Error> {
        let what = format!("the output of {}", self.record.definition);
        let output = Payload::encode(what, output, &self.engine.limits)?;
        let (next, sends) = finish(&self.record, Status::Completed, Some(output), None);
        let logs = {
            let mut state = self.state.lock();
            state.completing = true;
            // Until the transaction has committed they are still to be told.
            state.logs.clone()
        };
        let commit =
            RunCommit { sends, logs, next: Some(next), ..RunCommit::new(self.record.id, self.epoch) };
        Ok(TurnEnd { node: self.engine.node(), commit })
    }

    /// What the store said of the end inside the user's transaction.
    fn completed(&self, answer: Committed) -> Result<(), Error> {
        match answer {
            Committed::Done => Ok(()),
            Committed::LeaseLost => Err(Error::misconfigured(format!(
                "run {} is no longer this process's: roll the transaction back",
                self.record.id
            ))),
            Committed::Busy => {
                let detail =
                    format!("somebody else's transaction holds what run {} has to tell", self.record.id);
                Err(Error::Store { detail, retryable: true })
            }
        }
    }

    /// Whether a transaction of the user's has completed the run; asked until there is an answer.
    async fn has_completed(&self) -> bool {
        if !self.state.lock().completing {
            return false;
        }
        let id = self.record.id;
        loop {
            match self.engine.store.ended(&[id]).await {
                Ok(ended) => {
                    let Some((_, ended)) = ended.into_iter().next() else { return false };
                    self.engine.note_end(id, &ended);
                    return true;
                }
                Err(_) if self.engine.abort.is_cancelled() => return true,
                Err(error) => {
                    if let Some(unsaid) = self.engine.troubles.commit.say() {
                        tracing::warn!(%error, run = %id, unsaid, "whether a transaction completed the run is not known yet");
                    }
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    pub(crate) fn log(&self, level: &str, message: String) {
        let mut state = self.state.lock();
        if state.log_lines < LOG_LINES {
            state.log_lines += 1;
            let n = state.log_lines;
            let (at, level) = (Timestamp::default(), level.to_owned());
            state.logs.push(LogLine { epoch: self.epoch, n, at, level, message, step: None });
        }
    }

    /// Ends the turn, with what was recorded, and waits until that is durable or refused.
    pub(super) async fn end(self: &Arc<Self>, next: Next, entries: Vec<Entry>) {
        self.submit(next, entries, Vec::new()).await;
    }

    /// Ends the turn with messages to others.
    pub(super) async fn end_with(self: &Arc<Self>, next: Next, sends: Vec<Delivery>) {
        self.submit(next, Vec::new(), sends).await;
    }

    async fn submit(self: &Arc<Self>, next: Next, entries: Vec<Entry>, sends: Vec<Delivery>) {
        let (logs, did, had_news) = {
            let mut state = self.state.lock();
            state.over = true;
            (std::mem::take(&mut state.logs), state.did, state.seen > 0)
        };
        // What it has saved is for the next attempt, as long as there may be one.
        let did = did && matches!(next, Next::Finish(_));
        let commit = RunCommit {
            entries,
            sends,
            did,
            had_news,
            logs,
            next: Some(next),
            ..RunCommit::new(self.record.id, self.epoch)
        };
        self.engine.committer.submit(commit, 0, self.clone());
        self.engine.turn_is_over(self.record.id, self.epoch);
        std::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            let state = self.state.lock();
            if state.lost || state.ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Waits until the run is lost, or its handler wants to be called later.
    pub(super) async fn cut_short(&self) -> Cut {
        std::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            let mut state = self.state.lock();
            match (state.lost, state.snoozed.take()) {
                (true, _) => Poll::Ready(Cut::Lost),
                (false, Some(pause)) => Poll::Ready(Cut::Snoozed(pause)),
                (false, None) => Poll::Pending,
            }
        })
        .await
    }
}

/// What a run of a job has recorded: one entry for each attempt that failed, of the job and of its undo.
#[derive(Clone, Copy, Default)]
pub(super) struct Past {
    last: u32,
    pub(super) undos: u32,
    /// Whether it says that it is being undone.
    pub(super) undoing: bool,
}

impl Past {
    /// Of the attempts of one that is about to begin its attempt of this number.
    fn of(entries: &[Entry], attempt: u32) -> Past {
        let (mut undos, mut undoing) = (0, false);
        for entry in entries.iter().filter(|entry| entry.op == Op::Undo) {
            if entry.phase == Phase::Opened {
                undoing = true;
                continue;
            }
            // Whoever wants one tried again that gave up begins to count anew.
            let gave_up = entry.note::<AttemptNote>().is_ok_and(|note| note.gave_up);
            undos = if gave_up { 0 } else { undos + 1 };
        }
        Past { last: entries.last().map_or(0, |entry| entry.pos).max(attempt - 1), undos, undoing }
    }

    /// The entry that tells that it is undone from here on.
    pub(super) fn begins_undo(self) -> Entry {
        let (op, phase) = (Op::Undo, Phase::Opened);
        Entry {
            pos: self.last + 1,
            op,
            phase,
            name: BEGUN.into(),
            at: Timestamp::default(),
            took: None,
            body: None,
        }
    }

    /// The entry that tells of another, which took so long: when it was due is not when it began.
    pub(super) fn next(self, op: Op, name: &str, note: &AttemptNote, took: Duration) -> Entry {
        Entry {
            pos: self.last + 1,
            op,
            phase: Phase::Attempt,
            name: name.into(),
            at: Timestamp::default(),
            took: Some(took),
            body: Some(note_payload(note)),
        }
    }
}

/// Why an attempt is over before its handler returned.
pub(super) enum Cut {
    Lost,
    Snoozed(Duration),
}

/// Runs one attempt and ends the turn.
pub(super) async fn run(job: Arc<JobTurn>, definition: Arc<Registered>, claimed: Claimed, entries: &[Entry]) {
    let engine = job.engine.clone();
    let attempt = claimed.attempt.max(1);
    let past = Past::of(entries, attempt);
    let cancelled = job.cancel.borrow().clone();
    if let Some(reason) = cancelled {
        return undo::cancel(&job, &definition, reason, attempt, past).await;
    }
    let expired = |at: Timestamp| at <= engine.clock.at_least();
    if claimed.expires_at.is_some_and(expired) {
        let failure = job.timed_out();
        let (next, sends) = finish(&job.record, Status::Failed, job.saved(), Some(&failure));
        return job.end_with(next, sends).await;
    }
    let span = tracing::info_span!(
        "outlast.run",
        run.id = %job.record.id,
        run.definition = %job.record.definition,
        queue = %job.record.queue,
        run.trace = job.record.trace.as_deref(),
        attempt,
    );
    let work = crate::logs::keep(
        crate::logs::Sink::Job(Arc::downgrade(&job)),
        attempt_once(&job, &definition, &claimed, attempt),
    );
    let began = tokio::time::Instant::now();
    let outcome = tokio::select! {
        biased;
        outcome = work.instrument(span) => outcome,
        cut = job.cut_short() => match cut {
            Cut::Lost => return,
            // Whoever asked it to stop does not wait until it wakes.
            Cut::Snoozed(_) if let Some(reason) = job.cancel.borrow().clone() => {
                Err(FailureDoc::Outlast(Error::Cancelled { reason }))
            }
            Cut::Snoozed(after) => return job.end(Next::Retry { after, attempt }, Vec::new()).await,
        },
        () = engine.abort.cancelled() => return,
    };
    if job.has_completed().await {
        return;
    }
    let misfit = job.state.lock().misfit.take();
    if let Some(reason) = misfit {
        return job.end(Next::Block { reason }, Vec::new()).await;
    }
    let asked = job.cancel.borrow().clone();
    let label = if outcome.is_ok() { "completed" } else { "failed" };
    metrics::counter!("outlast_attempts_total", "definition" => definition.options.name, "outcome" => label)
        .increment(1);
    let took = began.elapsed();
    metrics::histogram!("outlast_attempt_seconds", "definition" => definition.options.name)
        .record(took.as_secs_f64());
    match (outcome, asked) {
        // A success is not lost because someone asked to stop meanwhile.
        (Ok(output), _) => {
            let (next, sends) = finish(&job.record, Status::Completed, Some(output), None);
            job.end_with(next, sends).await;
        }
        (Err(_), Some(reason)) => undo::cancel(&job, &definition, reason, attempt, past).await,
        (Err(failure), None) => {
            let pause = job.pause_after(&definition, attempt);
            let next_at = engine.clock.at_most() + pause.unwrap_or_default();
            let node = Some(engine.node());
            let failed = failure.clone();
            let note = AttemptNote { attempt, failure: failed, next_at, saved: None, gave_up: false, node };
            let entry = past.next(Op::Job, definition.options.name, &note, took);
            match pause {
                Some(after) => job.end(Next::Retry { after, attempt: attempt + 1 }, vec![entry]).await,
                None => {
                    // How far it had come, for whoever tries it again by hand.
                    let (next, sends) = finish(&job.record, Status::Failed, job.saved(), Some(&failure));
                    job.submit(next, vec![entry], sends).await;
                }
            }
        }
    }
}

/// The pause that a job's own function says. If that panics, the policy has one too.
fn own_pause(definition: &Registered, attempt: u32) -> Option<Duration> {
    let pause = definition.backoff.as_ref()?;
    match std::panic::catch_unwind(AssertUnwindSafe(|| pause(attempt))) {
        Ok(pause) => Some(pause.min(Limits::DURATION)),
        Err(panic) => {
            let name = definition.options.name;
            tracing::error!("the backoff of job {name:?} panicked: {}", panic_message(&*panic));
            None
        }
    }
}

/// Calls the handler, within its timeout.
async fn attempt_once(
    job: &Arc<JobTurn>,
    definition: &Arc<Registered>,
    claimed: &Claimed,
    attempt: u32,
) -> Outcome {
    let engine = &job.engine;
    let call = match &definition.body {
        Body::Job(call) => call,
        Body::Batch(_) => return super::batch::attempt(job, definition, claimed.expires_at).await,
        Body::Workflow(_) => {
            return Err(FailureDoc::Outlast(Error::misconfigured("a workflow was claimed as a job")));
        }
    };
    let what = format!("job {:?}", definition.options.name);
    let left = claimed.expires_at.map(|at| engine.clock.until(at));
    let limit = definition.options.timeout.into_iter().chain(left).min();
    let done = guarded(&what, limit, || call(job_ctx(job, attempt), &job.record.input, engine.limits)).await;
    done.unwrap_or_else(|undecodable| {
        // Another attempt decodes no better.
        job.give_up();
        Err(FailureDoc::Outlast(undecodable))
    })
}
