//! The claim loop: the scheduler. It knows when the next run is due, or when to look again, and sleeps until
//! then, until it is nudged, or until a slot comes free.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use hashbrown::HashMap;
use outlast_core::{NodeId, RunId, Timestamp, crashes};
use outlast_store::{Claim, Claimed, Claims, Loaded, Signal, StoreError};
use tokio::sync::broadcast::error::RecvError;

use super::clock::Asked;
use super::floor::Floors;
use super::slots::Aside;
use super::{Engine, OpenClaim, Slot, batch, queues};

/// The most runs of one claim.
pub(super) const MOST: usize = 1000;
/// How soon a due run that somebody's transaction has locked is asked for again: at first, and at most.
const LOCKED_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How long before its timer goes off a run that waits may be taken, and how soon a timer has to be for a run not
/// to be put aside for it. Everybody whose time comes together is in hand then, and is late by microseconds.
pub(super) const EARLY: Duration = Duration::from_millis(200);
/// How soon after something was done a node looks again that cannot hear of others' work. It waits twice as long after
/// each look that finds nothing, up to [`Settings::poll_every`](super::Settings::poll_every).
const DEAF_PAUSE: Duration = Duration::from_millis(100);
/// How long more slots are waited for at most.
const LONGEST_REST: Duration = Duration::from_millis(20);
/// How long hints gather before news are looked up.
const GATHER: Duration = Duration::from_millis(2);

pub(super) async fn run(engine: Arc<Engine>) {
    let mut moves = engine.store.clock().moves();
    let mut locked_pause = LOCKED_PAUSE.0;
    // Whether nothing but time has passed since there was nothing to do.
    let mut quiet = false;
    // Whether those who wait for a timer may be taken before their time.
    let mut early = false;
    let mut looks = Looks::default();
    let mut deaf_pause = DEAF_PAUSE;
    while !engine.stop.is_cancelled() {
        // A saturated node claims nothing: wait for a slot first. What only gathers gives its slots up.
        if engine.slots.count() == 0 {
            batch::hand_over(&engine);
        }
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            () = free_slots(&engine, &looks) => {}
        }
        engine.claiming.store(true, Ordering::SeqCst);
        let found = match quiet {
            true => look_first(&engine, &mut looks).await,
            false => claim_all(&engine, &mut looks, early).await,
        };
        engine.claiming.store(false, Ordering::SeqCst);
        engine.changed.notify_waiters();
        if found.has_begun {
            deaf_pause = DEAF_PAUSE;
        }
        if found.maybe_more {
            continue;
        }
        let poll_every = engine.settings.poll_every;
        let poll = if engine.store.hears_others() { poll_every } else { deaf_pause.min(poll_every) };
        let next = found.next_due.filter(|_| !engine.clock.is_stopped()).map(|due| engine.clock.until(due));
        let was_early = std::mem::take(&mut early);
        let (pause, before_time) = match next {
            _ if found.locked => (locked_pause, false),
            // Soon: whoever can wait in hand is taken now, the others when their time comes.
            Some(left) if left <= EARLY && !was_early && engine.room() > 0 => {
                (early, quiet) = (true, false);
                continue;
            }
            Some(left) if left <= EARLY => (left, false),
            // Half of it, so that one claim takes what is due within the other half as well.
            Some(left) => (left - EARLY / 2, true),
            None => (poll, false),
        };
        let rest = found.rest.into_iter().chain(found.look_again).min();
        let before_time = before_time && rest.is_none_or(|rest| rest >= pause);
        let pause = pause.min(rest.unwrap_or(pause)).min(poll);
        locked_pause = if found.locked { (locked_pause * 2).min(LOCKED_PAUSE.1) } else { LOCKED_PAUSE.0 };
        quiet = false;
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            _ = moves.changed() => engine.each_running(|holder| holder.look()),
            () = engine.work.notified() => deaf_pause = DEAF_PAUSE,
            // A timer is waited for to the end: never early, late by less than a millisecond.
            () = tokio::time::sleep(pause) => {
                quiet = pause == poll;
                early = before_time && !quiet;
                deaf_pause = if quiet { (deaf_pause * 2).min(poll_every) } else { deaf_pause };
            }
        }
    }
}

/// Waits for a slot; for some of them where the last claim got all that it could take: a claim for the first that comes
/// free would cost as much as one for all.
async fn free_slots(engine: &Engine, looks: &Looks) {
    engine.slots.some().await;
    if let Some(rest) = looks.rest {
        let some = engine.settings.concurrency.min(MOST) / 2;
        // Whether in time or not: by then there is at least one.
        let _ = tokio::time::timeout(rest.min(LONGEST_REST), engine.slots.several(some)).await;
    }
}

/// What a round of claims found.
#[derive(Default)]
pub(super) struct Found {
    /// There may be more that is due: claim again as soon as a slot is free.
    pub(super) maybe_more: bool,
    /// A run is due that somebody's transaction has locked, or for which its queue has no room.
    pub(super) locked: bool,
    /// How soon a queue is asked again that was not asked because it was asked just now.
    pub(super) rest: Option<Duration>,
    /// Something was begun.
    has_begun: bool,
    /// When the next run is due.
    pub(super) next_due: Option<Timestamp>,
    /// How soon a look at everything is worth it, where looks did not begin at the front.
    look_again: Option<Duration>,
}

impl Found {
    pub(super) fn looks_again(&mut self, after: Option<Duration>) {
        self.look_again = self.look_again.into_iter().chain(after).min();
    }
}

/// What is remembered from one round to the next.
#[derive(Default)]
struct Looks {
    floors: Floors,
    rounds: u64,
    /// Whether the last round got all that it could take.
    is_full: bool,
    /// How long that claim took: for as long more slots may come free before the next.
    rest: Option<Duration>,
}

/// Claims if a look, which costs the database less, says that there is something to claim.
async fn look_first(engine: &Arc<Engine>, looks: &mut Looks) -> Found {
    match engine.store.next_due().await {
        Ok(next_due) if next_due.is_none_or(|due| due > engine.clock.at_most()) => {
            Found { next_due, ..Found::default() }
        }
        _ => claim_all(engine, looks, false).await,
    }
}

/// A round of claims, and what it brought.
#[derive(Default)]
pub(super) struct Round {
    /// Its number.
    number: u64,
    pub(super) found: Found,
    pub(super) opened: Vec<OpenClaim>,
    suspects: Vec<(Claimed, Slot)>,
    /// Whether slots that it sets aside for queues without rules are lent: not where the last round got all that it could take.
    lends: bool,
    /// Whether a claim got all that it could take.
    is_full: bool,
    /// What was claimed, and others have begun in its slots meanwhile.
    without_slot: Vec<Claimed>,
}

impl Round {
    /// Whose turn it is. Every other round begins with the queues that have rules: both kinds have all turns.
    pub(super) fn turn(&self) -> u64 {
        self.number / 2
    }

    /// Begins what a claim took; suspects wait for the end of the round.
    pub(super) async fn begin(
        &mut self,
        engine: &Arc<Engine>,
        mut claims: Claims,
        slots: Aside<'_>,
        asked: Asked,
    ) {
        metrics::histogram!("outlast_claim_seconds").record(asked.at.elapsed().as_secs_f64());
        self.found.next_due = self.found.next_due.into_iter().chain(claims.next_due).min();
        self.found.looks_again(claims.look_again);
        if claims.runs.is_empty() {
            return;
        }
        self.found.has_begun = true;
        metrics::counter!("outlast_claimed_total").increment(claims.runs.len() as u64);
        for run in &claims.runs {
            let late = claims.now.since(run.due_at).as_secs_f64();
            metrics::histogram!("outlast_lateness_seconds").record(late);
        }
        let slots: Vec<Slot> =
            slots.take(claims.runs.len()).into_iter().map(|slot| engine.slot(slot)).collect();
        self.without_slot.extend(claims.runs.split_off(slots.len()));
        let claimed = claims.runs.into_iter().zip(slots);
        let (suspect, fine): (Vec<_>, Vec<_>) = claimed.partition(|(run, _)| run.crashes >= crashes::SUSPECT);
        self.suspects.extend(suspect);
        begin(engine, fine).await;
    }

    /// Begins the suspects, and hands back what has no slot. Their claims are open until the last one is in hand: a
    /// renewal would take it for a stranger and free it.
    async fn end(self, engine: &Arc<Engine>) -> Found {
        engine.queues.note_round(self.found.has_begun || self.found.rest.is_some(), self.found.next_due);
        begin_suspects(engine, self.suspects).await;
        let without_slot = self.without_slot.into_iter().map(|run| (run, ())).collect();
        let let_go = |(loaded, run, ())| super::run::let_go(engine, loaded, run);
        join_all(load(engine, without_slot).await.into_iter().map(let_go)).await;
        drop(self.opened);
        self.found
    }
}

/// Claims from every queue: those with rules by themselves, and all others, in turn first. Those who wait are taken
/// before their time only into slots that are not needed.
async fn claim_all(engine: &Arc<Engine>, looks: &mut Looks, early: bool) -> Found {
    looks.rounds += 1;
    let mut round = Round { number: looks.rounds, lends: !looks.is_full, ..Round::default() };
    if looks.rounds.is_multiple_of(2) {
        queues::claim_all(engine, &mut round).await;
        claim_plain(engine, looks, &mut round, early).await;
    } else {
        claim_plain(engine, looks, &mut round, early).await;
        queues::claim_all(engine, &mut round).await;
    }
    looks.is_full = round.is_full;
    round.end(engine).await
}

/// Puts `things` into the order of a turn, and gives what is left of its number for others. Within so many turns as there
/// are orders everybody is first, and of any two each is as often before the other: one with very much to do cannot
/// keep the slots from the rest.
pub(super) fn in_turn<T>(things: &mut [T], turn: u64) -> u64 {
    let orders = 2 * things.len().max(1) as u64;
    let order = (turn % orders) as usize;
    if things.len() > 1 {
        things.rotate_left(order / 2);
        if !order.is_multiple_of(2) {
            things.reverse();
        }
    }
    turn / orders
}

/// Claims from every shard.
async fn claim_plain(engine: &Arc<Engine>, looks: &mut Looks, round: &mut Round, early: bool) {
    let _asking = engine.queues.gate.read().await;
    let mut plain = engine.plain_queues();
    if plain.is_empty() {
        return;
    }
    looks.rest = None;
    let mut shards: Vec<u16> = (0..engine.store.shards()).collect();
    in_turn(&mut shards, in_turn(&mut plain, round.turn()));
    for shard in shards.into_iter().take_while(|_| !engine.stop.is_cancelled()) {
        let room = if early { engine.room() } else { 0 };
        let most = if room > 0 { MOST.min(room) } else { MOST };
        let slots = engine.slots.set_aside(most, round.lends);
        if slots.count == 0 {
            round.found.maybe_more = true;
            break;
        }
        let open = engine.open_claim();
        let ask = Claim {
            node: open.hold.node,
            number: open.hold.claim,
            shard,
            queues: plain.clone(),
            codes: engine.registry.codes(),
            limit: slots.count as u32,
            early: if room > 0 { EARLY } else { Duration::ZERO },
            from: looks.floors.of(shard),
        };
        let asked = engine.clock.asks();
        if let Some(claims) = answer(engine, ask.node, || engine.store.claim(&ask)).await {
            engine.clock.told(claims.now, asked);
            looks.floors.told(&ask, &claims, asked.at.elapsed());
            let is_due = claims.next_due.is_some_and(|due| due <= claims.now);
            let is_full = claims.runs.len() == slots.count;
            round.is_full |= is_full;
            looks.rest = looks.rest.max(is_full.then(|| asked.at.elapsed()));
            round.found.maybe_more |= is_full;
            // Due and not taken: somebody has locked it.
            round.found.locked |= is_due;
            round.found.looks_again(looks.floors.look_again(&ask).filter(|_| !is_full));
            round.begin(engine, claims, slots, asked).await;
        }
        round.opened.push(open);
    }
}

/// Begins as many suspects as there is room for, once all others are handed back for good: if one of those
/// kills the process, they do not pay.
async fn begin_suspects(engine: &Arc<Engine>, suspects: Vec<(Claimed, Slot)>) {
    let mut chosen = Vec::new();
    let mut others = Vec::new();
    for (loaded, run, slot) in load(engine, suspects).await {
        match engine.suspects.clone().try_acquire_many_owned(crashes::places(run.crashes)) {
            Ok(places) => chosen.push((loaded, run, slot, engine.slot(places))),
            Err(_) => others.push(super::run::hand_suspect_back(engine, loaded, run, slot)),
        }
    }
    join_all(others).await;
    for (loaded, run, slot, places) in chosen {
        if run.crashes >= crashes::ALONE && !engine.abort.is_cancelled() {
            single_out(engine, &run).await;
        }
        super::run::begin(engine, loaded, run, slot, Some(places));
    }
}

/// Notes that a suspect runs alone. Where that fails it runs all the same: if the process dies, it does not pay.
async fn single_out(engine: &Arc<Engine>, run: &Claimed) {
    if let Err(error) = engine.store.single_out(engine.node(), run.id, run.epoch).await {
        tracing::warn!(%error, run = %run.id, "it could not be noted that the run is alone");
    }
}

/// Asks until there is an answer: the same number again gives the same runs again.
pub(super) async fn answer<F>(engine: &Arc<Engine>, node: NodeId, ask: impl Fn() -> F) -> Option<Claims>
where
    F: Future<Output = Result<Claims, StoreError>>,
{
    let mut pause = Duration::from_millis(20);
    loop {
        match ask().await {
            Ok(claims) => return Some(claims),
            Err(error) => {
                if let Some(unsaid) = engine.troubles.claim.say() {
                    tracing::warn!(%error, unsaid, "a claim failed and is tried again");
                }
                // Another node took our place: the number means nothing any more.
                if engine.stop.is_cancelled() || engine.node() != node || !error.is_retryable() {
                    tokio::time::sleep(pause).await;
                    return None;
                }
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        }
    }
}

/// Begins a turn for each claimed run: a warm one goes on, a cold one is loaded.
pub(super) async fn begin(engine: &Arc<Engine>, claimed: Vec<(Claimed, Slot)>) {
    let mut cold = Vec::new();
    for (run, slot) in claimed {
        let kept = engine.warm.lock().take(run.id, run.epoch);
        match kept {
            Ok(drive) => super::run::go_on(engine, drive, run, slot),
            Err(stale) => {
                drop(stale);
                cold.push((run, slot));
            }
        }
    }
    for (loaded, run, slot) in load(engine, cold).await {
        super::run::begin(engine, loaded, run, slot, None);
    }
}

/// Loads claimed runs. Those that cannot be loaded are due again when the next renewal does not know them.
async fn load<S>(engine: &Arc<Engine>, claimed: Vec<(Claimed, S)>) -> Vec<(Loaded, Claimed, S)> {
    if claimed.is_empty() {
        return Vec::new();
    }
    let ids: Vec<RunId> = claimed.iter().map(|(run, _)| run.id).collect();
    let mut pause = Duration::from_millis(20);
    let loaded = loop {
        match engine.store.load(&ids).await {
            Ok(loaded) => break loaded,
            Err(error) if engine.stop.is_cancelled() || !error.is_retryable() => {
                tracing::error!(%error, "claimed runs could not be loaded");
                return Vec::new();
            }
            Err(error) => {
                if let Some(unsaid) = engine.troubles.load.say() {
                    tracing::warn!(%error, unsaid, "claimed runs could not be loaded yet");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        }
    };
    let mut by_id: HashMap<RunId, Loaded> = loaded.into_iter().map(|l| (l.record.id, l)).collect();
    claimed.into_iter().filter_map(|(run, slot)| Some((by_id.remove(&run.id)?, run, slot))).collect()
}

/// Passes hints on: work to the claim loop, news to the turns that run.
pub(super) async fn listen(engine: Arc<Engine>) {
    let mut signals = engine.store.signals();
    loop {
        let signal = tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            signal = signals.recv() => signal,
        };
        match signal {
            Ok(Signal::Due) => engine.nudge(),
            Ok(Signal::News(run)) => bring_news(&engine, Some(run)).await,
            Ok(Signal::Ended(_)) => engine.schedules.run_ended(),
            Ok(Signal::Taken(run)) => super::lease::drop_taken(&engine, run).await,
            Ok(Signal::Pause(run)) => engine.pause(run),
            Ok(Signal::Orphans) => engine.orphans.notify_one(),
            Ok(Signal::Schedules) => engine.schedules.look(),
            Ok(Signal::Queues) => queues::learn(&engine, None).await,
            Ok(Signal::Anything) | Err(RecvError::Lagged(_)) => {
                engine.nudge();
                tokio::time::sleep(GATHER).await;
                bring_news(&engine, None).await;
                // One of those in hand may have been killed, or asked to pause.
                if !engine.running.lock().is_empty() {
                    engine.look.notify_one();
                }
                queues::learn_at_times(&engine).await;
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// Looks up what is new for one running run, or for all.
pub(super) async fn bring_news(engine: &Arc<Engine>, only: Option<RunId>) {
    let known = engine.known();
    let wanted: Vec<(RunId, i64)> = known
        .iter()
        .filter(|known| only.is_none_or(|run| run == known.run))
        .map(|known| (known.run, known.seen))
        .collect();
    if wanted.is_empty() {
        return;
    }
    match engine.store.inbox(&wanted).await {
        Ok(news) => {
            for (run, news) in news {
                if let Some(holder) = engine.holder(run) {
                    holder.bring(vec![news]);
                }
            }
        }
        // The next renewal brings it.
        Err(error) => tracing::debug!(%error, "news could not be read"),
    }
}
