//! Jobs that are done many at a time: claimed one by one, handed to their code together.
//!
//! Those that come gather until there are enough, or the first of them has waited for long enough. Each stays a run
//! of its own, held and ended like any other: what is gathered here is gone with the process, and due again.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hashbrown::HashMap;
use outlast_core::{Error, FailureDoc, RunId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Engine;
use super::drive::panic_message;
use super::job::JobTurn;
use crate::ctx::{BatchCtx, note_of};
use crate::definition::Outcome;
use crate::registry::{Body, Registered};

/// The batches that gather, by the code of their jobs.
#[derive(Default)]
pub(crate) struct Batches(Mutex<HashMap<String, Gathering>>);

struct Gathering {
    /// Which one it is, so that its timer does not let go of a later one.
    number: u64,
    members: Vec<Member>,
}

/// A job that waits for others.
struct Member {
    run: RunId,
    input: Box<dyn Any + Send>,
    done: oneshot::Sender<Outcome>,
}

/// Has a job done with others; gives what became of all of them.
pub(super) async fn attempt(job: &Arc<JobTurn>, definition: &Arc<Registered>) -> Outcome {
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
    let (done, outcome) = oneshot::channel();
    let member = Member { run: job.record.id, input, done };
    let code = outlast_store::code(definition.options.name, definition.options.version);
    let (number, first, full) = {
        let mut gathering = engine.batches.0.lock();
        let numbers = gathering.len() as u64;
        let gather = gathering.entry(code.clone()).or_insert_with(|| Gathering {
            number: fastrand::u64(..).wrapping_add(numbers),
            members: Vec::new(),
        });
        // One that was lost meanwhile waits for nothing.
        gather.members.retain(|member| !member.done.is_closed());
        let first = gather.members.is_empty();
        gather.members.push(member);
        let (number, full) = (gather.number, gather.members.len() >= batch.most);
        (number, first, full.then(|| gathering.remove(&code)).flatten())
    };
    match full {
        Some(full) => spawn(engine, definition, full.members),
        None if first => {
            let (engine, definition) = (engine.clone(), definition.clone());
            let wait = batch.wait;
            engine.clone().spawn(async move {
                pass(&engine, wait).await;
                let gathered = {
                    let mut gathering = engine.batches.0.lock();
                    let is_ours = gathering.get(&code).is_some_and(|gather| gather.number == number);
                    is_ours.then(|| gathering.remove(&code)).flatten()
                };
                if let Some(gathered) = gathered {
                    spawn(&engine, &definition, gathered.members);
                }
            });
        }
        None => {}
    }
    let lost = || Err(FailureDoc::Outlast(Error::ShuttingDown));
    outcome.await.unwrap_or_else(|_| lost())
}

/// Waits by the clock of the store, or until nothing more is to be done.
async fn pass(engine: &Engine, wait: Duration) {
    let mut moves = engine.store.clock().moves();
    let until = engine.clock.at_most() + wait;
    loop {
        let left = engine.clock.until(until);
        if left.is_zero() {
            return;
        }
        let stopped = engine.clock.is_stopped();
        tokio::select! {
            () = tokio::time::sleep(left), if !stopped => {}
            _ = moves.changed() => {}
            () = engine.stop.cancelled() => return,
        }
    }
}

fn spawn(engine: &Arc<Engine>, definition: &Arc<Registered>, members: Vec<Member>) {
    let members: Vec<Member> = members.into_iter().filter(|member| !member.done.is_closed()).collect();
    if members.is_empty() {
        return;
    }
    let (home, definition) = (engine.clone(), definition.clone());
    engine.spawn(async move {
        let mut runs = Vec::with_capacity(members.len());
        let (mut inputs, mut dones) = (Vec::new(), Vec::new());
        for member in members {
            runs.push(member.run);
            inputs.push(member.input);
            dones.push(member.done);
        }
        let work = call(&home, &definition, runs, inputs);
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = home.abort.cancelled() => return,
        };
        for done in dones {
            let _ = done.send(outcome.clone());
        }
    });
}

/// Calls the handler, within its timeout; a panic is a failure with its message.
async fn call(
    engine: &Arc<Engine>,
    definition: &Registered,
    runs: Vec<RunId>,
    inputs: Vec<Box<dyn Any + Send>>,
) -> Outcome {
    let Body::Batch(batch) = &definition.body else { return Ok(note_of(&())) };
    let name = definition.options.name;
    let panicked = |panic: Box<dyn Any + Send>| {
        let error = Error::Panicked { what: format!("job {name:?}"), message: panic_message(&*panic) };
        Err(FailureDoc::Outlast(error))
    };
    let ctx = BatchCtx::new(engine.clone(), runs);
    let called = std::panic::catch_unwind(AssertUnwindSafe(|| (batch.call)(ctx, inputs, engine.limits)));
    let work = match called {
        Ok(work) => AssertUnwindSafe(work).catch_unwind(),
        Err(panic) => return panicked(panic),
    };
    let Some(limit) = definition.options.timeout else {
        return work.await.unwrap_or_else(panicked);
    };
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done.unwrap_or_else(panicked),
        Err(_) => {
            let after_ms = limit.as_millis() as u64;
            Err(FailureDoc::Outlast(Error::TimedOut { what: format!("job {name:?}"), after_ms }))
        }
    }
}
