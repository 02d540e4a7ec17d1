//! Waiting for runs to end: one look-up for everybody who waits, when there is reason to look.
//!
//! A hint from the store (this run ended; anything may have happened) or, rarely, the clock gives the
//! reason. However many wait, it is one statement. Runs that this process has in hand need no look-up at
//! all: the engine tells how they ended as soon as that is durable.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use outlast_core::{Error, RunId};
use outlast_store::{DynStore, Ended, Signal, StoreError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::client::repeated;
use crate::engine::Engine;

/// How often to look without any hint: hints may get lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long hints gather.
const GATHER: Duration = Duration::from_millis(10);
/// The most runs of one look-up.
const MOST: usize = 1000;

pub(crate) struct Waiter(Arc<Shared>);

struct Shared {
    store: DynStore,
    engine: OnceLock<Weak<Engine>>,
    waiting: Mutex<Waiting>,
    more: Notify,
    /// Where to look: a caller's own runtime may end while others wait.
    home: Option<Handle>,
}

#[derive(Default)]
struct Waiting {
    by_run: HashMap<RunId, Vec<oneshot::Sender<Ended>>>,
    /// Whether the task that looks is running.
    looking: bool,
}

impl Waiter {
    pub(crate) fn new(store: DynStore, home: Option<Handle>) -> Waiter {
        Waiter(Arc::new(Shared {
            store,
            engine: OnceLock::new(),
            waiting: Mutex::default(),
            more: Notify::new(),
            home,
        }))
    }

    /// Learns which runs this process has in hand.
    pub(crate) fn attach(&self, engine: &Arc<Engine>) {
        let _ = self.0.engine.set(Arc::downgrade(engine));
    }

    /// A run that this process had in hand ended like this, durably.
    pub(crate) fn ended(&self, run: RunId, ended: &Ended) {
        self.0.tell(run, ended);
    }

    /// Waits until `run` has ended; an unknown run is an error at once.
    pub(crate) async fn wait(&self, run: RunId) -> Result<Ended, Error> {
        let (tell, told) = oneshot::channel();
        // Listed before looking, so that an end in between is not missed.
        let start = {
            let mut waiting = self.0.waiting.lock();
            waiting.by_run.entry(run).or_default().push(tell);
            !std::mem::replace(&mut waiting.looking, true)
        };
        if start {
            let looking = Looking { shared: Arc::downgrade(&self.0), over: false };
            self.0.home.clone().unwrap_or_else(Handle::current).spawn(look(looking, self.0.store.signals()));
        }
        if !self.0.is_in_hand(run) {
            let this = [run];
            if let Some((_, ended)) = answered(|| self.0.store.ended(&this)).await?.pop() {
                return Ok(ended);
            }
            if answered(|| self.0.store.run(run)).await?.is_none() {
                return Err(Error::UnknownRun { run: run.to_string() });
            }
        }
        told.await.map_err(|_| Error::ShuttingDown)
    }
}

impl Shared {
    fn is_in_hand(&self, run: RunId) -> bool {
        self.engine.get().and_then(Weak::upgrade).is_some_and(|engine| engine.has_in_hand(run))
    }

    fn tell(&self, run: RunId, ended: &Ended) {
        let waiting = self.waiting.lock().by_run.remove(&run);
        for tell in waiting.unwrap_or_default() {
            let _ = tell.send(ended.clone());
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.more.notify_one();
    }
}

/// Who looks. Whoever waits when it ends early is told so, and the next one to wait begins anew.
struct Looking {
    shared: Weak<Shared>,
    over: bool,
}

impl Drop for Looking {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade().filter(|_| !self.over) {
            let mut waiting = shared.waiting.lock();
            waiting.looking = false;
            waiting.by_run.clear();
        }
    }
}

/// Asks until there is an answer: whoever waits for a run waits for its database too.
async fn answered<T, Fut>(call: impl Fn() -> Fut) -> Result<T, StoreError>
where
    Fut: Future<Output = Result<T, StoreError>>,
{
    loop {
        match repeated(&call).await {
            Err(error) if error.is_retryable() => tokio::time::sleep(LOOK_EVERY).await,
            other => return other,
        }
    }
}

/// Looks whenever there is reason to, as long as somebody waits.
async fn look(mut looking: Looking, mut signals: tokio::sync::broadcast::Receiver<Signal>) {
    // Not pushed back by hints, which never end on a busy node: one that got lost is made up for.
    let mut next_look = Instant::now() + LOOK_EVERY;
    loop {
        let mut hinted: Vec<RunId> = Vec::new();
        let mut all = false;
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(next_look) => all = true,
            signal = signals.recv() => note(signal, &mut hinted, &mut all),
        }
        loop {
            match signals.try_recv() {
                Ok(signal) => note(Ok(signal), &mut hinted, &mut all),
                Err(TryRecvError::Lagged(_)) => all = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        if all {
            next_look = Instant::now() + LOOK_EVERY;
        }
        let Some(shared) = looking.shared.upgrade() else { return };
        let wanted: Vec<RunId> = {
            let mut waiting = shared.waiting.lock();
            if all {
                waiting.by_run.retain(|_, tell| {
                    tell.retain(|tell| !tell.is_closed());
                    !tell.is_empty()
                });
            }
            if waiting.by_run.is_empty() {
                // From here on another may look.
                waiting.looking = false;
                looking.over = true;
                return;
            }
            match all {
                true => {
                    let mut all: Vec<RunId> = waiting.by_run.keys().copied().collect();
                    all.sort_unstable();
                    all
                }
                false => {
                    let wanted = |run: &RunId| waiting.by_run.contains_key(run) && !shared.is_in_hand(*run);
                    hinted.into_iter().filter(wanted).collect()
                }
            }
        };
        for runs in wanted.chunks(MOST) {
            match shared.store.ended(runs).await {
                Ok(ended) => ended.iter().for_each(|(run, ended)| shared.tell(*run, ended)),
                Err(error) => tracing::debug!(%error, "results could not be read"),
            }
        }
        if all {
            drop(shared);
            tokio::time::sleep(GATHER).await;
        }
    }
}

fn note(signal: Result<Signal, RecvError>, hinted: &mut Vec<RunId>, all: &mut bool) {
    match signal {
        Ok(Signal::Ended(runs)) if !runs.is_empty() => hinted.extend_from_slice(&runs),
        Ok(Signal::Anything | Signal::Ended(_)) | Err(_) => *all = true,
        Ok(
            Signal::Due
            | Signal::Orphans
            | Signal::Queues
            | Signal::Schedules
            | Signal::News(_)
            | Signal::Taken(_)
            | Signal::Pause(_),
        ) => {}
    }
}
