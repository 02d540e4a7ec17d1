//! The engine on one thread, over a store that keeps nothing. What is left is what the engine itself does.

use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast_core::Entry;

use crate::counted;
use crate::pure::journal;
use crate::store::{Made, NAME};

/// One run that has everything in its journal and only has to come to its end again.
pub(crate) fn replay(count: usize) {
    drive(1, count, journal(count));
}

/// One run that has nothing in its journal.
pub(crate) fn steps(count: usize) {
    drive(1, count, Vec::new());
}

/// Many runs at a time.
pub(crate) fn runs(count: usize) {
    drive(count, 1, Vec::new());
}

fn drive(runs: usize, steps: usize, journal: Vec<Entry>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime needs nothing");
    let store = Arc::new(Made::new(runs, steps, journal));
    counted(|| runtime.block_on(run_all(store))).expect("nothing refuses it");
}

async fn run_all(store: Arc<Made>) -> Result<(), Error> {
    let app = Outlast::on(store.clone()).workflow(Workflow::new(NAME, lines)).settings(|settings| {
        // Nothing may come between that happens by the clock.
        (settings.lease, settings.renew_every) = (HOUR, HOUR / 2);
        settings.poll_every = HOUR;
        // Nor may a run be repeated to see whether it would go the same way.
        settings.verify = 0;
    });
    let app = app.run().await?;
    store.all_ended.notified().await;
    while !app.is_idle() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn lines(ctx: Ctx, count: u64) -> Result<u64, AnyError> {
    let mut sum = 0;
    for line in 1..=count {
        sum += ctx.step("line", |_| async move { Ok::<_, AnyError>(line) }).await?;
    }
    Ok(sum)
}

const HOUR: Duration = Duration::from_secs(3600);
