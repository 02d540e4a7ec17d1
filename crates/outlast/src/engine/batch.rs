//! Jobs that are done many at a time: claimed one by one, handed to their code together.
//!
//! Those that come gather until there are enough, or the first of them has waited for long enough. Each stays a run
//! of its own, held and ended like any other: what is gathered here is gone with the process, and due again.

use std::any::Any;
use std::sync::Arc;

use hashbrown::HashMap;
use outlast_core::{Error, FailureDoc, RunId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Engine;
use super::guarded::guarded;
use super::job::JobTurn;
use crate::ctx::{BatchCtx, note_of};
use crate::definition::Outcome;
use crate::registry::{Body, Registered};

/// The batches that gather.
#[derive(Default)]
pub(crate) struct Batches(Mutex<HashMap<Key, Gathering>>);

/// What jobs share that are done together: their code, and whose they are.
type Key = (String, String);

struct Gathering {
    /// Which one it is, so that its timer does not let go of a later one.
    number: u64,
    /// When it is handed over, however many there are.
    until: Timestamp,
    definition: Arc<Registered>,
    members: Vec<Member>,
}

/// A job that waits for others.
struct Member {
    job: Arc<JobTurn>,
    input: Box<dyn Any + Send>,
    expires_at: Option<Timestamp>,
    done: oneshot::Sender<Outcome>,
}

impl Batches {
    /// How many jobs gather, and when time alone ends that for the first of them.
    pub(super) fn gather(&self) -> (usize, Option<Timestamp>) {
        let gathering = self.0.lock();
        let waits = gathering.values().flat_map(|gather| {
            let waits = gather.members.iter().filter(|member| !member.done.is_closed());
            waits.map(|member| member.expires_at.map_or(gather.until, |at| at.min(gather.until)))
        });
        waits.fold((0, None), |(count, first), until| (count + 1, first.into_iter().chain([until]).min()))
    }

    /// Takes a job out again; says whether it had not been handed over yet.
    fn leave(&self, key: &Key, run: RunId) -> bool {
        let mut gathering = self.0.lock();
        let Some(gather) = gathering.get_mut(key) else { return false };
        let before = gather.members.len();
        gather.members.retain(|member| member.job.record.id != run);
        gather.members.len() < before
    }
}

/// Hands over what has gathered: no slot is free, so that nothing more comes, and others need those that it holds.
pub(super) fn hand_over(engine: &Arc<Engine>) {
    let gathered = std::mem::take(&mut *engine.batches.0.lock());
    for gather in gathered.into_values() {
        spawn(engine, gather);
    }
}

/// Has a job done with others; gives what became of all of them.
///
/// One that is asked to stop, or whose time is over, before it was handed over leaves the others.
pub(super) async fn attempt(
    job: &Arc<JobTurn>,
    definition: &Arc<Registered>,
    expires_at: Option<Timestamp>,
) -> Outcome {
    let engine = &job.engine;
    let Body::Batch(batch) = &definition.body else {
        return Err(FailureDoc::Outlast(Error::misconfigured("a job was claimed as a batch")));
    };
    let input = match (batch.decode)(&job.record.input) {
        Ok(input) => input,
        Err(undecodable) => {
            // Alone, and another attempt decodes no better.
            job.give_up();
            return Err(FailureDoc::Outlast(undecodable));
        }
    };
    let (run, tenant) = (job.record.id, job.record.tenant.clone());
    let (done, mut outcome) = oneshot::channel();
    let code = outlast_store::code(definition.options.name, definition.options.version);
    let key = (code, tenant);
    gather(engine, definition, &key, Member { job: job.clone(), input, expires_at, done });

    let mut stop = job.cancel.subscribe();
    let (mut is_handed_over, mut is_dropped) = (false, false);
    loop {
        tokio::select! {
            biased;
            outcome = &mut outcome, if !is_dropped => match outcome {
                Ok(outcome) => return outcome,
                // The process stops: whoever waits for this hears it too, and it is no attempt that failed.
                Err(_) => is_dropped = true,
            },
            asked = stop.wait_for(Option::is_some), if !is_handed_over => {
                let reason = asked.ok().and_then(|reason| reason.clone()).unwrap_or_default();
                if engine.batches.leave(&key, run) {
                    return Err(FailureDoc::Outlast(Error::Cancelled { reason }));
                }
                is_handed_over = true;
            }
            () = expires(engine, expires_at) => {
                engine.batches.leave(&key, run);
                // Another attempt comes too late.
                job.give_up();
                return Err(job.timed_out());
            }
        }
    }
}

/// Adds a job to those of its kind; hands them over when there are enough.
fn gather(engine: &Arc<Engine>, definition: &Arc<Registered>, key: &Key, member: Member) {
    let Body::Batch(batch) = &definition.body else { return };
    let until = engine.clock.at_most() + batch.wait;
    let (number, first, full) = {
        let mut gathering = engine.batches.0.lock();
        let gather = gathering.entry(key.clone()).or_insert_with(|| Gathering {
            number: fastrand::u64(..),
            until,
            definition: definition.clone(),
            members: Vec::new(),
        });
        // One that was lost meanwhile waits for nothing.
        gather.members.retain(|member| !member.done.is_closed());
        let first = gather.members.is_empty();
        if first {
            // Its time begins anew: a timer of one that everybody left is not this one's.
            (gather.number, gather.until) = (fastrand::u64(..), until);
        }
        gather.members.push(member);
        let (number, full) = (gather.number, gather.members.len() >= batch.most);
        (number, first, full.then(|| gathering.remove(key)).flatten())
    };
    match full {
        Some(full) => spawn(engine, full),
        None if engine.is_full() => hand_over(engine),
        None if first => {
            let (home, key) = (engine.clone(), key.clone());
            engine.spawn(async move {
                pass(&home, until).await;
                let gathered = {
                    let mut gathering = home.batches.0.lock();
                    let is_ours = gathering.get(&key).is_some_and(|gather| gather.number == number);
                    is_ours.then(|| gathering.remove(&key)).flatten()
                };
                if let Some(gathered) = gathered {
                    spawn(&home, gathered);
                }
            });
        }
        None => {}
    }
    engine.changed.notify_waiters();
}

/// Waits until the time of a run is over; without one, or when the node stops before, for ever.
async fn expires(engine: &Engine, at: Option<Timestamp>) {
    if let Some(at) = at {
        pass(engine, at).await;
        if engine.clock.until(at).is_zero() {
            return;
        }
    }
    std::future::pending().await
}

/// Waits by the clock of the store, or until nothing more is to be done.
async fn pass(engine: &Engine, until: Timestamp) {
    let mut moves = engine.store.clock().moves();
    loop {
        let left = engine.clock.until(until);
        if left.is_zero() {
            return;
        }
        let stopped = engine.clock.is_stopped();
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            _ = moves.changed() => {}
            () = tokio::time::sleep(left), if !stopped => {}
        }
    }
}

fn spawn(engine: &Arc<Engine>, gathered: Gathering) {
    let Gathering { definition, members, .. } = gathered;
    let members: Vec<Member> = members.into_iter().filter(|member| !member.done.is_closed()).collect();
    if members.is_empty() {
        return;
    }
    let home = engine.clone();
    engine.spawn(async move {
        let mut jobs = Vec::with_capacity(members.len());
        let (mut inputs, mut dones) = (Vec::new(), Vec::new());
        for member in members {
            jobs.push(member.job);
            inputs.push(member.input);
            dones.push(member.done);
        }
        let work = call(&home, &definition, BatchCtx::new(jobs), inputs);
        let outcome = tokio::select! {
            biased;
            () = home.abort.cancelled() => return,
            outcome = work => outcome,
        };
        for done in dones {
            let _ = done.send(outcome.clone());
        }
    });
}

/// Calls the handler.
async fn call(
    engine: &Arc<Engine>,
    definition: &Registered,
    ctx: BatchCtx,
    inputs: Vec<Box<dyn Any + Send>>,
) -> Outcome {
    let Body::Batch(batch) = &definition.body else { return Ok(note_of(&())) };
    let what = format!("job {:?}", definition.options.name);
    let call = || Ok((batch.call)(ctx, inputs, engine.limits));
    guarded(&what, definition.options.timeout, call).await.unwrap_or_else(|e| Err(FailureDoc::Outlast(e)))
}
