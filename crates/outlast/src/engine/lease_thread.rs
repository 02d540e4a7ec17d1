//! The thread on which a lease is renewed.
//!
//! A handler that computes without a pause keeps its runtime from everything else. That must not cost the node its
//! lease, and with it the work of everybody else there: so whoever shares a database renews on a thread and through
//! connections of their own.

use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Engine, lease};

/// Renews the engine's lease from now on, until it stops or its runtime ends.
pub(super) fn keep(engine: &Arc<Engine>) {
    // A process that a test imitates has no threads: what stops or kills it has to stop its renewals as well.
    if engine.is_sole_owner || engine.settings.process.is_some() {
        return here(engine);
    }
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::warn!(%error, "the lease has no thread of its own: handlers must not compute without a pause");
            return here(engine);
        }
    };
    let Some(store) = engine.store.apart(runtime.handle()) else {
        runtime.shutdown_background();
        return here(engine);
    };
    // It ends when the engine does, and is dropped when the runtime ends without a word.
    let life = CancellationToken::new();
    let (alive, abort) = (life.clone().drop_guard(), engine.abort.clone());
    engine.spawn(async move {
        abort.cancelled().await;
        drop(alive);
    });
    let renewing = lease::renew_loop(engine.clone(), store);
    let thread = std::thread::Builder::new().name("outlast-lease".to_owned()).spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                () = renewing => {}
                () = life.cancelled() => {}
            }
        });
        // Whatever is on its way to the database is not waited for.
        runtime.shutdown_background();
    });
    if let Err(error) = thread {
        tracing::warn!(%error, "the lease has no thread of its own: handlers must not compute without a pause");
        here(engine);
    }
}

/// Renews on the runtime where handlers run.
fn here(engine: &Arc<Engine>) {
    engine.spawn(lease::renew_loop(engine.clone(), engine.store.clone()));
}

/// Whether the runtime where handlers run still breathes: it is asked with every renewal.
#[derive(Default)]
pub(super) struct Breath(Option<(Instant, oneshot::Receiver<()>)>);

impl Breath {
    /// Says so if it has not answered for longer than a lease. The lease is kept all the same: a computation that
    /// takes long is no crash.
    pub(super) fn look(&mut self, engine: &Arc<Engine>) {
        if let Some((asked, answer)) = &mut self.0
            && answer.try_recv() == Err(TryRecvError::Empty)
        {
            let lag = asked.elapsed();
            metrics::gauge!("outlast_runtime_lag_seconds").set(lag.as_secs_f64());
            if lag > engine.settings.lease
                && let Some(unsaid) = engine.troubles.breath.say()
            {
                tracing::warn!(
                    ?lag,
                    unsaid,
                    "the runtime does not answer: a handler computes without a pause (tokio::task::spawn_blocking gives it \
                     a thread of its own); the lease is kept"
                );
            }
            return;
        }
        let (tell, answer) = oneshot::channel();
        metrics::gauge!("outlast_runtime_lag_seconds").set(0.0);
        self.0 = Some((Instant::now(), answer));
        engine.spawn(async move {
            let _ = tell.send(());
        });
    }
}
