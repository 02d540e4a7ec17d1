//! What a step's body is given.

use std::any::{Any, TypeId};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlast_core::{Error, Op, Payload, RunId};
use outlast_store::Doing;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::place::Place;
use super::{limits_of, missing_state};
use crate::Verdict;
use crate::engine::turn::Turn;

/// What a step's body is given. Cheap to clone.
#[derive(Clone)]
pub struct StepCtx(Arc<StepInner>);

struct StepInner {
    turn: Arc<Turn>,
    op: Op,
    name: Arc<str>,
    attempt: u32,
    saved: Option<Payload>,
    beat: Mutex<Beat>,
    /// How many of its futures wait for the request to stop, or have heard of it.
    listening: AtomicU32,
    /// Whom this attempt has sent its key.
    #[cfg(feature = "http")]
    keyed: crate::http::Keyed,
}

struct Beat {
    at: Instant,
    saved: Option<Payload>,
}

/// While this exists, the request to stop waits for the end of the step's body.
struct Listening<'a>(&'a StepInner);

impl<'a> Listening<'a> {
    fn new(step: &'a StepInner) -> Listening<'a> {
        let mut state = step.turn.state();
        if step.listening.fetch_add(1, Ordering::Relaxed) == 0 {
            state.listeners.insert(step.name.clone());
        }
        Listening(step)
    }

    /// It has heard: the request waits until the body ends, whatever that does now.
    fn heard(self) {
        std::mem::forget(self);
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut state = self.0.turn.state();
        if self.0.listening.fetch_sub(1, Ordering::Relaxed) == 1 {
            state.listeners.remove(&self.0.name);
            drop(state);
            self.0.turn.waker.wake();
        }
    }
}

impl StepCtx {
    /// Of an attempt of the operation at this place, with what the last one saved.
    pub(super) fn new(place: &Place, attempt: u32, saved: Option<Payload>) -> StepCtx {
        StepCtx(Arc::new(StepInner {
            turn: place.turn.clone(),
            op: place.op,
            name: place.full_name(),
            attempt,
            saved: saved.clone(),
            beat: Mutex::new(Beat { at: Instant::now(), saved }),
            listening: AtomicU32::new(0),
            #[cfg(feature = "http")]
            keyed: crate::http::Keyed::default(),
        }))
    }

    pub(super) fn turn(&self) -> &Turn {
        &self.0.turn
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// When the body was last heard of.
    pub(super) fn heard_at(&self) -> Instant {
        self.0.beat.lock().at
    }

    /// What the body saved last.
    pub(super) fn saved_last(&self) -> Option<Payload> {
        self.0.beat.lock().saved.clone()
    }

    /// A row that people see and nothing waits for.
    pub(super) fn announce(&self) {
        let inner = &self.0;
        let doing = Doing {
            name: inner.name.to_string(),
            attempt: inner.attempt,
            saved: self.saved_last(),
            ..Doing::default()
        };
        inner.turn.state().outbox.doing.push(doing);
        inner.turn.submit(None);
    }

    /// The same for every attempt of this step and for no other: pass it on to whatever must not happen
    /// twice. After [`Ctx::continue_as_new`](crate::Ctx::continue_as_new) a step of the same name is another one, with
    /// another key; so is one that was undone and runs again because somebody had the run tried again.
    #[doc(alias = "idempotency")]
    pub fn key(&self) -> String {
        let undo = if self.0.op == Op::Undo { "#undo" } else { "" };
        let name = self.0.turn.name_for_others(self.0.op, &self.0.name);
        format!("{}/{name}{undo}", super::life(&self.0.turn))
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.0.turn.id()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Says that the body is alive, and saves a value that the next attempt gets from [`StepCtx::saved`].
    pub fn beat<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let payload = Payload::encode("heartbeat", value, limits_of(&self.0.turn))?;
        *self.0.beat.lock() = Beat { at: Instant::now(), saved: Some(payload) };
        self.announce();
        Ok(())
    }

    /// What an earlier attempt saved last.
    pub fn saved<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.0.saved.as_ref().map(|saved| saved.decode("heartbeat")).transpose()
    }

    /// Calls other services: see [`http`](crate::http).
    ///
    /// ```no_run
    /// # use outlast::prelude::*;
    /// # async fn example(ctx: Ctx) -> Result<(), AnyError> {
    /// let rate = ctx.step("rate", async |s| {
    ///     let answer = s.http().get("https://api.example.com/rates").query("of", "EUR").send().await?;
    ///     answer.error_for_status()?.json::<f64>()
    /// });
    /// let rate = rate.retry(Retry::times(5)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn http(&self) -> crate::http::Http {
        let (turn, keyed) = (&self.0.turn, self.0.keyed.clone());
        crate::http::Http::direct(&turn.engine, &turn.record, self.key(), keyed)
    }

    /// Waits until someone asks the run to stop; gives the reason. A body that awaits this may finish
    /// cleanly: its result is recorded before the run hears of the request. One that has stopped waiting is
    /// dropped like any other.
    pub async fn cancelled(&self) -> String {
        let listening = Listening::new(&self.0);
        let reason = super::stop_asked(&self.0.turn.cancel).await;
        listening.heard();
        reason
    }

    /// A value that was registered with [`Outlast::state`](crate::Outlast::state). Without one the run is
    /// blocked until a node that has it appears.
    pub fn state<T: Any + Send + Sync>(&self) -> Arc<T> {
        let found = self.0.turn.engine.states.get(&TypeId::of::<T>()).cloned();
        match found.and_then(|state| state.downcast::<T>().ok()) {
            Some(state) => state,
            None => {
                let reason = missing_state::<T>();
                self.0.turn.state().misfit = Some(Verdict::Blocks { reason: reason.clone() });
                resume_unwind(Box::new(reason))
            }
        }
    }
}
