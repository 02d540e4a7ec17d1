//! The lease: a node's right to change runs, renewed while it lives, and what happens when others' ran out.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use outlast_core::{Limits, NodeId, RunId};
use outlast_store::{DynStore, Mark, Renew, StoreError, Sweep};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use super::Engine;
use super::lease_thread::Breath;

/// How long ids of deliveries and of written values are remembered, so that a repeated one arrives once.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 3600);
/// The most rows that one sweep changes.
const SWEEP_ROWS: u32 = 1000;
/// How often a shard is swept again at once while as many rows as that are old.
const SWEEPS: u32 = 100;

/// The part of a lease after which work in hand is dropped: it has stopped when others begin theirs.
const SAFE: f64 = 0.8;

/// How long a renewal that a hint asks for waits for more hints, and how long after the last one it comes: where much
/// happens, hints that name no run never end.
const GATHER: Duration = Duration::from_millis(20);
const APART: Duration = Duration::from_millis(200);

/// Renews through `store` until the engine stops. Waits for nothing on the runtime where handlers run.
pub(super) async fn renew_loop(engine: Arc<Engine>, store: DynStore) {
    let mut pause = engine.settings.renew_every;
    let mut breath = Breath::default();
    let mut last = Instant::now();
    loop {
        let hinted = async {
            engine.look.notified().await;
            tokio::time::sleep_until((last + APART).max(Instant::now() + GATHER)).await;
        };
        tokio::select! {
            biased;
            () = engine.abort.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            () = hinted => {}
        }
        breath.look(&engine);
        // After a failure the next try comes soon, so that none falls beyond the end of the lease.
        pause = (engine.settings.renew_every / 6).mul_f64(0.5 + fastrand::f64());
        let (asked, asks) = (Instant::now(), engine.clock.asks());
        last = asked;
        let ask = Renew {
            node: engine.node(),
            lease: engine.settings.lease,
            settled: engine.settled_claims(),
            known: engine.known(),
        };
        let deadline = engine.settings.lease / 2;
        match tokio::time::timeout(deadline, store.renew(&ask)).await {
            Ok(Ok(renewed)) if renewed.alive => {
                engine.note_renewal(asked);
                pause = engine.settings.renew_every;
                engine.clock.told(renewed.now, asks);
                engine.schedules.told(renewed.next_fire);
                *engine.lapse.lock() = renewed.next_lapse;
                if !engine.queues.knows(renewed.rules_changes) {
                    let (home, changes) = (engine.clone(), renewed.rules_changes);
                    engine.spawn(async move { super::queues::learn(&home, Some(changes)).await });
                }
                for run in renewed.lost {
                    // It may have been handed in between our list and the answer: the epoch tells.
                    let known = ask.known.iter().find(|known| known.run == run).map(|known| known.epoch);
                    let held = engine
                        .running
                        .lock()
                        .get(&run)
                        .filter(|held| Some(held.epoch) == known)
                        .map(|h| h.who.clone());
                    if let Some(holder) = held {
                        tracing::warn!(%run, "the run was taken from this node");
                        holder.lose();
                    }
                }
                renewed.pausing.into_iter().for_each(|run| engine.pause(run));
                if !renewed.news.is_empty() {
                    let home = engine.clone();
                    engine.spawn(async move { super::claim::bring_news(&home, None).await });
                }
                if renewed.freed > 0 {
                    tracing::warn!(
                        runs = renewed.freed,
                        "runs of a claim whose answer was lost are due again"
                    );
                    engine.nudge();
                }
                drop(engine.warm.lock().age(Instant::now()));
            }
            Ok(Ok(_)) => rejoin(&engine, &store).await,
            Ok(Err(error)) => say_late(&engine, &error),
            Err(_) => say_late(&engine, &"the database does not answer"),
        }
    }
}

/// Drops the turn of a run that somebody ended while this node held it, and tells its end to those who wait here.
/// Where that cannot be looked up, the next renewal finds it.
pub(super) async fn drop_taken(engine: &Engine, run: RunId) {
    let held = |engine: &Engine| engine.running.lock().get(&run).map(|held| held.epoch);
    let Some(epoch) = held(engine) else { return };
    let ended = match engine.store.ended(&[run]).await {
        Ok(mut ended) => ended.pop(),
        Err(error) => return tracing::debug!(%error, %run, "whether the run was taken is not known yet"),
    };
    // It may have been made ready and claimed anew meanwhile.
    if let Some((_, ended)) = ended
        && held(engine) == Some(epoch)
        && let Some(holder) = engine.holder(run)
    {
        engine.note_end(run, &ended);
        holder.lose();
    }
}

/// Drops the work of a node that cannot renew, before others may start it. Beside the renewals, because whatever they
/// wait for may come too late.
pub(super) async fn watch_loop(engine: Arc<Engine>) {
    // Where there are no others, because the file is ours, being late harms nobody.
    if engine.is_sole_owner {
        return;
    }
    let mut renewed = engine.renewed.subscribe();
    loop {
        let until = *renewed.borrow_and_update() + engine.settings.lease.mul_f64(SAFE);
        let is_over = tokio::select! {
            biased;
            () = engine.abort.cancelled() => return,
            _ = renewed.changed() => false,
            () = tokio::time::sleep_until(until) => true,
        };
        if !is_over {
            continue;
        }
        if !engine.known().is_empty() {
            tracing::error!("the lease is about to end: work in hand is dropped");
            metrics::counter!("outlast_lost_leases_total").increment(1);
            engine.each_running(|holder| holder.lose());
            drop(engine.warm.lock().clear());
        }
        tokio::select! {
            biased;
            () = engine.abort.cancelled() => return,
            _ = renewed.changed() => {}
        }
    }
}

impl Engine {
    /// The lease was renewed. If that was late, others may be late as well, because the database was away: they get
    /// time for it before anybody takes them for dead.
    fn note_renewal(&self, asked: Instant) {
        if asked - self.renewed.send_replace(asked) > self.late() {
            *self.spares_until.lock() = Some(asked + self.settings.renew_every);
        }
    }

    /// After how long a renewal is late.
    fn late(&self) -> Duration {
        self.settings.renew_every * 2
    }

    /// Whether other nodes that live may not have been able to say so.
    fn spares_others(&self) -> bool {
        let is_late = self.renewed.borrow().elapsed() > self.late();
        !self.is_sole_owner
            && (is_late || self.spares_until.lock().is_some_and(|until| until > Instant::now()))
    }

    /// Whether what this process claimed as `node` is its own for a while yet.
    pub(super) fn has_lease_as(&self, node: NodeId) -> bool {
        let is_safe = || self.renewed.borrow().elapsed() < self.settings.lease.mul_f64(SAFE);
        self.node() == node && (self.is_sole_owner || is_safe())
    }
}

fn say_late(engine: &Engine, error: &dyn std::fmt::Display) {
    if let Some(unsaid) = engine.troubles.renew.say() {
        tracing::warn!(%error, unsaid, "the lease could not be renewed; it is tried again");
    }
}

/// The lease is gone: everything in hand belongs to others now. Begin again as a new node.
async fn rejoin(engine: &Arc<Engine>, store: &DynStore) {
    metrics::counter!("outlast_lost_leases_total").increment(1);
    tracing::error!("this node lost its lease; its work is dropped and it joins again");
    // First, so that nothing begins any more that was claimed as the one before.
    *engine.node.lock() = NodeId::new(fastrand::u128(..));
    engine.each_running(|holder| holder.lose());
    drop(engine.warm.lock().clear());
    let asked = Instant::now();
    match store.join(&engine.card()).await {
        Ok(()) => {
            engine.note_renewal(asked);
            engine.nudge();
        }
        Err(error) => tracing::warn!(%error, "joining again failed; it is tried with the next renewal"),
    }
}

/// Until another node may be dead whose lease was not renewed, as far as is known. Not at the same moment on every node.
fn until_lapse(engine: &Engine) -> Option<Duration> {
    let lapse = (*engine.lapse.lock()).filter(|lapse| *lapse > engine.clock.at_least())?;
    Some(engine.clock.until(lapse) + engine.settings.lease.mul_f64(fastrand::f64() * 0.02))
}

/// Housekeeping from time to time, not at the same moment on every node; and as soon as another's lease is over.
pub(super) async fn sweep_loop(engine: Arc<Engine>) {
    loop {
        let pause = engine.settings.lease.mul_f64(0.2 + fastrand::f64() * 0.2);
        let pause = until_lapse(&engine).map_or(pause, |lapse| lapse.min(pause));
        let mut over = pin!(tokio::time::sleep(pause));
        loop {
            let hinted = tokio::select! {
                biased;
                () = engine.stop.cancelled() => return,
                hinted = hinted_before(over.as_mut(), &engine.orphans, !engine.spares_others()) => hinted,
            };
            if !hinted {
                break;
            }
            // Whoever waits for its children's end does not wait for the rest.
            stop_orphans(&engine).await;
            engine.changed.notify_waiters();
        }
        if engine.spares_others() {
            continue;
        }
        sweep_all(&engine).await;
        super::retention::sweep(&engine).await;
    }
}

/// Whether a hint came before the time was over, which hints put off no further, however many they are.
async fn hinted_before(over: Pin<&mut Sleep>, hints: &Notify, hears: bool) -> bool {
    tokio::select! {
        biased;
        () = over => false,
        () = hints.notified(), if hears => true,
    }
}

/// How far a node's sweeps have looked, in each shard, for overdue runs that nobody will take.
pub(crate) type Overdue = Mutex<HashMap<u16, Mark>>;

/// Frees the runs of dead nodes, blocks what nobody will take and deletes what is old, in every shard.
pub(super) async fn sweep_all(engine: &Arc<Engine>) {
    for shard in 0..engine.store.shards() {
        for _ in 0..SWEEPS {
            if sweep(engine, shard).await < u64::from(SWEEP_ROWS) {
                break;
            }
        }
    }
}

/// Asks children to stop whose parent did not end well, in every shard.
async fn stop_orphans(engine: &Arc<Engine>) {
    for shard in 0..engine.store.shards() {
        let ask = Sweep { only_orphans: true, ..ask(engine, shard) };
        if let Err(error) = engine.store.sweep(&ask).await {
            say_unswept(engine, shard, &error);
        }
    }
}

/// Sweeps one shard once; gives how many rows were old, of the kind that had the most.
async fn sweep(engine: &Arc<Engine>, shard: u16) -> u64 {
    match engine.store.sweep(&ask(engine, shard)).await {
        Ok(swept) => {
            engine.overdue.lock().insert(shard, swept.next);
            for node in &swept.dead_nodes {
                tracing::warn!(%node, runs = swept.freed, "a node is gone; its runs are due again");
            }
            if swept.freed > 0 {
                metrics::counter!("outlast_takeovers_total").increment(swept.freed);
                engine.nudge();
            }
            swept.freed.max(swept.blocked).max(swept.forgotten)
        }
        Err(error) => {
            say_unswept(engine, shard, &error);
            0
        }
    }
}

/// All that a sweep of a shard does.
fn ask(engine: &Engine, shard: u16) -> Sweep {
    // A node that is there for bulks alone does not know what others know who are not there now.
    let never = engine.settings.only_bulks.then_some(Limits::DURATION);
    Sweep {
        by: engine.node(),
        shard,
        unknown_after: never.unwrap_or(engine.settings.unknown_after),
        after: engine.overdue.lock().get(&shard).copied().unwrap_or_default(),
        forget_after: FORGET_AFTER,
        limit: SWEEP_ROWS,
        only_orphans: false,
    }
}

fn say_unswept(engine: &Engine, shard: u16, error: &StoreError) {
    if let Some(unsaid) = engine.troubles.sweep.say() {
        tracing::warn!(%error, shard, unsaid, "housekeeping failed; it is tried again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hints_that_come_all_the_time_put_nothing_off() {
        const EVERY: Duration = Duration::from_millis(100);
        let (hints, began, mut heard) = (Arc::new(Notify::new()), Instant::now(), 0);
        let others = hints.clone();
        let told = tokio::spawn(async move {
            loop {
                others.notify_one();
                tokio::time::sleep(EVERY).await;
            }
        });
        let mut over = pin!(tokio::time::sleep(EVERY * 50));
        while hinted_before(over.as_mut(), &hints, true).await {
            heard += 1;
        }
        told.abort();
        assert!(began.elapsed() <= EVERY * 51, "{:?}", began.elapsed());
        assert!(heard >= 40, "{heard}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hint_is_kept_while_nobody_may_act_on_it() {
        let hints = Notify::new();
        hints.notify_one();
        let over = async |hears| {
            hinted_before(pin!(tokio::time::sleep(Duration::from_secs(1))), &hints, hears).await
        };
        assert!(!over(false).await);
        assert!(over(true).await);
        assert!(!over(true).await);
    }
}
