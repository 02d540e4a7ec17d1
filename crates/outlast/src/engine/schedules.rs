//! Fires schedules when their time has come.
//!
//! Every node does. Who decides what a time asks for has it happen only if the schedule still stands there: of all of
//! them one starts the run. When the next time comes is known from what was fired last, from hints, and from every
//! renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlast_core::{Error, RunId, Timestamp};
use outlast_store::{Fire, Fired, ScheduleView};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Engine;
use crate::schedule::{CatchUp, Overlap, Plan};

/// How many schedules of a shard are read at a time.
const MOST: u32 = 100;
/// The most times of one schedule that are acted on in one go.
const TIMES: usize = 100;
/// How late a time may be without being missed.
const GRACE: Duration = Duration::from_secs(60);
/// How soon a schedule is looked at again that waits for its run to end, or could not be fired.
const AGAIN: Duration = Duration::from_secs(1);

/// When the next schedule is due.
#[derive(Default)]
pub(crate) struct Schedules {
    next: Mutex<Option<Timestamp>>,
    changed: Notify,
    /// Whether one waits until the run before has ended.
    is_waiting: AtomicBool,
}

impl Schedules {
    /// Something is due then, or somebody said something new.
    pub(super) fn told(&self, next: Option<Timestamp>) {
        let mut known = self.next.lock();
        if let Some(next) = next
            && known.is_none_or(|known| next < known)
        {
            *known = Some(next);
            self.changed.notify_one();
        }
    }

    /// Look anew.
    pub(crate) fn look(&self) {
        self.told(Some(Timestamp::from_micros(i64::MIN)));
    }

    /// A run has ended for which somebody may wait.
    pub(super) fn run_ended(&self) {
        if self.is_waiting.load(Ordering::Relaxed) {
            self.look();
        }
    }
}

/// Fires what is due, until the engine stops.
pub(super) async fn run(engine: Arc<Engine>) {
    let mut moves = engine.store.clock().moves();
    engine.schedules.look();
    loop {
        let next = *engine.schedules.next.lock();
        let is_due = next.is_some_and(|next| next <= engine.clock.at_least());
        if is_due {
            // What is said while it is fired is heard in the next round.
            *engine.schedules.next.lock() = None;
            let next = fire_all(&engine).await;
            engine.schedules.told(next);
            continue;
        }
        let left = next.map(|next| engine.clock.until(next)).filter(|_| !engine.clock.is_stopped());
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            _ = moves.changed() => engine.schedules.look(),
            () = engine.schedules.changed.notified() => {}
            () = tokio::time::sleep(left.unwrap_or(Duration::from_secs(3600)).max(Duration::from_millis(1))) => {}
        }
    }
}

/// Fires all that are due; says when to look again.
async fn fire_all(engine: &Arc<Engine>) -> Option<Timestamp> {
    let again = engine.clock.at_most() + AGAIN;
    engine.schedules.is_waiting.store(false, Ordering::Relaxed);
    let (mut has_fired, mut next, mut seen) = (false, None, 0);
    loop {
        let (due, later) = match engine.store.schedules_due(seen, MOST).await {
            Ok(found) => found,
            Err(error) => {
                if let Some(unsaid) = engine.troubles.schedules.say() {
                    tracing::warn!(%error, unsaid, "schedules could not be read; it is tried again");
                }
                return Some(again);
            }
        };
        next = earlier(next, later);
        for schedule in &due {
            match fire(engine, schedule).await {
                Ok(Went::On) => has_fired = true,
                Ok(Went::Waits) => {
                    engine.schedules.is_waiting.store(true, Ordering::Relaxed);
                    next = earlier(next, Some(again));
                }
                Err(error) => {
                    let name = &schedule.name;
                    if let Some(unsaid) = engine.troubles.schedules.say() {
                        tracing::error!(%error, schedule = %name, unsaid, "a schedule could not be fired; it is tried again");
                    }
                    next = earlier(next, Some(again));
                }
            }
        }
        // Those that wait stay where they are: what is due behind them has to be read too.
        seen += MOST;
        if due.len() < MOST as usize {
            break;
        }
    }
    // What moved on may be due once more, and made others move up to where they were not read.
    if has_fired { Some(Timestamp::from_micros(i64::MIN)) } else { next }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

enum Went {
    /// It stands at another time now.
    On,
    /// It waits for the run before.
    Waits,
}

/// Acts on the times of a schedule that have come.
async fn fire(engine: &Arc<Engine>, view: &ScheduleView) -> Result<Went, Error> {
    let (client, name) = (&engine.client, &view.name);
    let Some(at) = view.card.next_at else { return Ok(Went::On) };
    let plan = Plan::read(&view.card)?;
    // By the database's clock, as it was at least when it said that the schedule is due.
    let now = engine.clock.at_least().max(view.card.due_at.unwrap_or(at));
    let unseen = match view.waiting.last() {
        Some((_, last)) => plan.timetable.next_after(*last),
        None => Some(at),
    };
    let come = unseen.map(|from| come(&plan, from, now)).unwrap_or_default();
    let previous = match view.last_run {
        Some(run) if !has_ended(engine, run).await? => Some(run),
        _ => None,
    };
    let Decided { times, skipped, waiting } = decide(&plan, &view.waiting, &come, now, previous.is_some());
    let come = come.times;
    let is_noted = times.is_empty() && !waiting.is_empty();
    if is_noted && waiting == view.waiting && skipped == 0 {
        return Ok(Went::Waits);
    }
    let last = come.last().copied().or(view.waiting.last().map(|(_, last)| *last)).unwrap_or(at);
    let (next_at, due_at) = match waiting.first() {
        Some((first, _)) => (Some(*first), Some(plan.options.acts_at(name, *first))),
        None => plan.next(name, last),
    };
    let mut runs = Vec::with_capacity(times.len());
    if let Some(first) = times.first() {
        let model = client.scheduled_run(view, plan.options.starts(name, *first)).await?;
        for time in &times {
            let mut run = model.clone();
            client.apply(&mut run, plan.options.starts(name, *time))?;
            runs.push(run);
        }
    }
    let is_stopped = plan.options.overlap == Overlap::CancelPrevious && !runs.is_empty();
    let reason = || format!("the next time of schedule {name} has come");
    let ask = Fire {
        name: name.clone(),
        at,
        waited: view.waiting.clone(),
        // One after another: what was acted on last is the one that started, not the last that came.
        last_at: if waiting.is_empty() { Some(last) } else { times.last().copied() },
        waiting,
        next_at,
        due_at,
        stops: previous.filter(|_| is_stopped).map(|run| (run, reason())),
        runs,
        skipped,
    };
    let fired = crate::client::repeated(|| engine.store.fire(&ask)).await?;
    if let Fired::Done(started) = fired {
        metrics::counter!("outlast_schedule_starts_total").increment(started.len() as u64);
        metrics::counter!("outlast_schedule_skips_total").increment(u64::from(skipped));
        if !started.is_empty() {
            engine.nudge();
        }
        // What has come since is looked at when the run before has ended.
        if is_noted && come.len() < TIMES {
            return Ok(Went::Waits);
        }
    }
    Ok(Went::On)
}

/// The times that have come and nobody has seen.
#[derive(Default)]
struct Come {
    /// The first of them: by this one it is judged whether anybody was up.
    first: Option<Timestamp>,
    /// All of them, or the last of very many.
    times: Vec<Timestamp>,
    /// How many were before those.
    before: u32,
}

/// The times from `at` on that have come.
fn come(plan: &Plan, at: Timestamp, now: Timestamp) -> Come {
    let just_after = Timestamp::from_micros(now.micros().saturating_add(1));
    let mut times = plan.timetable.fire_times(at, just_after, TIMES);
    let (first, mut before) = (times.first().copied(), 0);
    if plan.options.catch_up == CatchUp::All || times.len() < TIMES {
        return Come { first, times, before };
    }
    // Only the last matter: each page begins with the last time of the one before.
    while let Some(from) = times.last().copied() {
        let more = plan.timetable.fire_times(from, just_after, TIMES);
        if more.len() < 2 {
            break;
        }
        times.extend(more.into_iter().skip(1));
        let left_out = times.len() - TIMES;
        times.drain(..left_out);
        before += left_out as u32;
    }
    Come { first, times, before }
}

/// Which of the times that have come start runs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decided {
    times: Vec<Timestamp>,
    skipped: u32,
    /// Those that wait for the run before.
    waiting: Line,
}

/// Times that wait, as spans of a timetable: however many come one after another, they take two numbers.
type Line = Vec<(Timestamp, Timestamp)>;

fn decide(
    plan: &Plan,
    waiting: &[(Timestamp, Timestamp)],
    come: &Come,
    now: Timestamp,
    is_running: bool,
) -> Decided {
    let wanted = wanted(plan, come, now);
    let skipped = |wanted: &[Timestamp]| come.before + (come.times.len() - wanted.len()) as u32;
    let first = || wanted.first().copied().into_iter().collect::<Vec<_>>();
    let times = match (plan.options.overlap, is_running) {
        (Overlap::Allow, _) => wanted,
        // Those before would be stopped before they began.
        (Overlap::CancelPrevious, _) => wanted.last().copied().into_iter().collect(),
        (Overlap::Skip, true) => Vec::new(),
        (Overlap::Skip, false) => first(),
        (Overlap::Queue, _) => {
            // What waits was seen by a node that was up, and is not missed any more.
            let mut line = waiting.to_vec();
            wanted.iter().for_each(|time| join(&mut line, plan, *time));
            let next = if is_running { None } else { leave(&mut line, plan) };
            return Decided { times: next.into_iter().collect(), skipped: skipped(&wanted), waiting: line };
        }
    };
    Decided { skipped: skipped(&times), times, waiting: Line::new() }
}

/// Those of the times that have come which are not missed, or are to be caught up.
fn wanted(plan: &Plan, come: &Come, now: Timestamp) -> Vec<Timestamp> {
    let jitter = Duration::from_micros(plan.options.jitter_us);
    let in_time = |at: &Timestamp| now.since(*at) <= GRACE + jitter;
    match plan.options.catch_up {
        CatchUp::All => come.times.clone(),
        // Whoever is late by less than a minute was up, and busy.
        CatchUp::Last if come.first.as_ref().is_some_and(in_time) => come.times.clone(),
        CatchUp::Last => come.times.last().copied().into_iter().collect(),
        CatchUp::Skip => come.times.iter().filter(|at| in_time(at)).copied().collect(),
    }
}

/// Puts a time at the end of the line.
fn join(line: &mut Line, plan: &Plan, time: Timestamp) {
    match line.last_mut() {
        Some((_, last)) if plan.timetable.next_after(*last) == Some(time) => *last = time,
        _ => line.push((time, time)),
    }
}

/// Takes the time from the line that came first.
fn leave(line: &mut Line, plan: &Plan) -> Option<Timestamp> {
    let (first, last) = *line.first()?;
    match plan.timetable.next_after(first).filter(|next| *next <= last) {
        Some(next) => line[0].0 = next,
        None => drop(line.remove(0)),
    }
    Some(first)
}

/// Whether a run has ended, or is gone.
async fn has_ended(engine: &Engine, run: RunId) -> Result<bool, Error> {
    let view = crate::client::repeated(|| engine.store.run(run)).await?;
    Ok(view.is_none_or(|view| view.status.is_final()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ScheduleOptions;
    use outlast_core::Timetable;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_micros(minutes * 60_000_000)
    }

    /// All that have come, of which there are not many.
    fn all(times: &[Timestamp]) -> Come {
        Come { first: times.first().copied(), times: times.to_vec(), before: 0 }
    }

    fn plan(overlap: Overlap, catch_up: CatchUp) -> Plan {
        let options = ScheduleOptions { overlap, catch_up, ..ScheduleOptions::default() };
        Plan { timetable: Timetable::parse("* * * * *", "UTC").unwrap(), options }
    }

    #[test]
    fn what_was_missed_is_caught_up_as_the_policy_says() {
        let (missed, now) = ([at(1), at(2), at(3)], at(3) + Duration::from_secs(5));
        let times = |catch_up| decide(&plan(Overlap::Allow, catch_up), &[], &all(&missed), now, false);
        assert_eq!(times(CatchUp::All).times, missed);
        assert_eq!((times(CatchUp::Last).times, times(CatchUp::Last).skipped), (vec![at(3)], 2));
        assert_eq!(times(CatchUp::Skip).times, [at(3)], "that one is in time");
        let late = decide(&plan(Overlap::Allow, CatchUp::Skip), &[], &all(&missed), at(30), false);
        assert_eq!((late.times, late.skipped), (vec![], 3));
        let busy = decide(&plan(Overlap::Allow, CatchUp::Last), &[], &all(&missed[1..]), at(3), false);
        assert_eq!(
            (busy.times, busy.skipped),
            (vec![at(2), at(3)], 0),
            "nobody was away for more than a minute"
        );
    }

    #[test]
    fn while_the_run_before_runs_the_policy_says_what_becomes_of_a_time() {
        let come = [at(1), at(2)];
        let decided =
            |overlap, running| decide(&plan(overlap, CatchUp::All), &[], &all(&come), at(2), running);
        assert_eq!(decided(Overlap::Skip, true), Decided { skipped: 2, ..Decided::default() });
        assert_eq!(decided(Overlap::Skip, false).times, [at(1)]);
        assert_eq!(decided(Overlap::Allow, true).times, come);
        assert_eq!(decided(Overlap::CancelPrevious, true).times, [at(2)]);
        let line = |from, to| Decided { waiting: vec![(at(from), at(to))], ..Decided::default() };
        assert_eq!(decided(Overlap::Queue, true), line(1, 2));
        assert_eq!(decided(Overlap::Queue, false), Decided { times: vec![at(1)], ..line(2, 2) });
    }

    #[test]
    fn what_waits_was_seen_and_falls_under_no_catch_up() {
        let plan = plan(Overlap::Queue, CatchUp::Last);
        let minutes = |from: i64, to: i64| (from..=to).map(at).collect::<Vec<_>>();
        let waiting = decide(&plan, &[], &all(&minutes(1, 2)), at(2), true).waiting;
        // Nobody is up for an hour: of its times the last joins the line, and those after it as they come.
        let back = decide(&plan, &waiting, &all(&minutes(3, 62)), at(62), true);
        assert_eq!((&back.waiting, back.skipped), (&vec![(at(1), at(2)), (at(62), at(62))], 59));
        let mut line = decide(&plan, &back.waiting, &all(&minutes(63, 64)), at(64), true).waiting;
        let mut started = Vec::new();
        while !line.is_empty() {
            let decided = decide(&plan, &line, &all(&[]), at(500), false);
            started.extend(decided.times);
            line = decided.waiting;
        }
        assert_eq!(started, [at(1), at(2), at(62), at(63), at(64)]);
    }

    #[test]
    fn of_very_many_missed_times_the_last_is_found_without_starting_the_others() {
        let year = 365 * 24 * 60;
        let come = come(&plan(Overlap::Skip, CatchUp::Last), at(0), at(year));
        assert_eq!((come.first, come.times.last()), (Some(at(0)), Some(&at(year))));
        assert_eq!((come.times.len(), come.before as usize), (TIMES, year as usize + 1 - TIMES));
    }

    #[test]
    fn whether_anybody_was_up_is_judged_by_the_first_of_very_many_missed_times() {
        let seconds = |overlap, catch_up| {
            let every = Timetable::parse("* * * * * *", "UTC").unwrap();
            Plan { timetable: every, ..plan(overlap, catch_up) }
        };
        let now = Timestamp::from_micros(229_000_000);
        for overlap in [Overlap::Allow, Overlap::Skip, Overlap::CancelPrevious] {
            let plan = seconds(overlap, CatchUp::Last);
            let decided = decide(&plan, &[], &come(&plan, at(0), now), now, false);
            assert_eq!((decided.times, decided.skipped), (vec![now], 229), "{overlap:?}");
        }
        // Those of the last minute are not missed, on however many pages they are.
        let plan = seconds(Overlap::Allow, CatchUp::Skip);
        let decided = decide(&plan, &[], &come(&plan, at(0), now), now, false);
        assert_eq!((decided.times.len(), decided.skipped), (61, 230 - 61));
    }
}
