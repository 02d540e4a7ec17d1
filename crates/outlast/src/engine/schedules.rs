//! Fires schedules when their time has come.
//!
//! Every node does. Who decides what a time asks for has it happen only if the schedule still stands there: of all of
//! them one starts the run. When the next time comes is known from what was fired last, from hints, and from every
//! renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlast_core::{Error, RunId, Timestamp};
use outlast_store::{Address, Control, Fire, Fired, ScheduleView};
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
            () = tokio::time::sleep(left.unwrap_or(Duration::from_secs(3600)).max(Duration::from_millis(1))) => {}
            () = engine.schedules.changed.notified() => {}
            _ = moves.changed() => engine.schedules.look(),
            () = engine.stop.cancelled() => return,
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
    let come = come(&plan, at, now);
    let previous = match view.last_run {
        Some(run) if !has_ended(engine, run).await? => Some(run),
        _ => None,
    };
    let Decided { times, skipped, waits } = decide(&plan, &come, now, previous.is_some());
    if waits && times.is_empty() {
        return Ok(Went::Waits);
    }
    // In order and one at a time where each waits for the one before.
    let last = if waits { *times.last().unwrap_or(&at) } else { *come.last().unwrap_or(&at) };
    let (next_at, due_at) = plan.next(name, last);
    let mut runs = Vec::with_capacity(times.len());
    if let Some(first) = times.first() {
        let model = client.scheduled_run(view, plan.options.starts(name, *first)).await?;
        for time in &times {
            let mut run = model.clone();
            client.apply(&mut run, plan.options.starts(name, *time))?;
            runs.push(run);
        }
    }
    let ask = Fire { name: name.clone(), at, last_at: last, next_at, due_at, runs, skipped };
    let fired = crate::client::repeated(|| engine.store.fire(&ask)).await?;
    if let Fired::Done(started) = fired {
        metrics::counter!("outlast_schedule_starts_total").increment(started.len() as u64);
        metrics::counter!("outlast_schedule_skips_total").increment(u64::from(skipped));
        let older = previous.into_iter().chain(ask.runs.iter().rev().skip(1).map(|run| run.id));
        if plan.options.overlap == Overlap::CancelPrevious && !ask.runs.is_empty() {
            for run in older {
                stop(engine, run, name).await;
            }
        }
        engine.nudge();
    }
    Ok(Went::On)
}

/// The times from `at` on that have come, the last of very many.
fn come(plan: &Plan, at: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    let just_after = Timestamp::from_micros(now.micros().saturating_add(1));
    let times = plan.timetable.fire_times(at, just_after, TIMES);
    if plan.options.catch_up == CatchUp::All || times.len() < TIMES {
        return times;
    }
    // Only the last matters: those before it are not counted one by one.
    let mut from = *times.last().unwrap_or(&at);
    let mut last = times;
    loop {
        let more = plan.timetable.fire_times(from, just_after, TIMES);
        let Some(end) = more.last().copied().filter(|end| *end > from) else { return last };
        (from, last) = (end, more);
    }
}

/// Which of the times that have come start runs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decided {
    times: Vec<Timestamp>,
    skipped: u32,
    /// The others wait for the run before.
    waits: bool,
}

fn decide(plan: &Plan, come: &[Timestamp], now: Timestamp, is_running: bool) -> Decided {
    let wanted: Vec<Timestamp> = match plan.options.catch_up {
        CatchUp::All => come.to_vec(),
        CatchUp::Last => come.last().copied().into_iter().collect(),
        CatchUp::Skip => {
            let jitter = Duration::from_micros(plan.options.jitter_us);
            let in_time = |at: &&Timestamp| now.since(**at) <= GRACE + jitter;
            come.iter().filter(in_time).copied().collect()
        }
    };
    let first = || wanted.first().copied().into_iter().collect::<Vec<_>>();
    let times = match (plan.options.overlap, is_running) {
        (Overlap::Allow | Overlap::CancelPrevious, _) => wanted,
        (Overlap::Skip, true) => Vec::new(),
        (Overlap::Skip, false) => first(),
        (Overlap::Queue, true) => return Decided { waits: !wanted.is_empty(), ..Decided::default() },
        (Overlap::Queue, false) => {
            let waits = wanted.len() > 1;
            return Decided { times: first(), skipped: (come.len() - wanted.len()) as u32, waits };
        }
    };
    Decided { skipped: (come.len() - times.len()) as u32, times, waits: false }
}

/// Whether a run has ended, or is gone.
async fn has_ended(engine: &Engine, run: RunId) -> Result<bool, Error> {
    let view = crate::client::repeated(|| engine.store.run(run)).await?;
    Ok(view.is_none_or(|view| view.status.is_final()))
}

/// Asks the run of an earlier time to stop.
async fn stop(engine: &Engine, run: RunId, schedule: &str) {
    let reason = format!("the next time of schedule {schedule} has come");
    let cancel = Control::Cancel { run: Address::Run(run), reason };
    if let Err(error) = crate::client::repeated(|| engine.store.control(&cancel)).await {
        tracing::warn!(%error, %run, schedule, "the run before could not be asked to stop");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ScheduleOptions;
    use outlast_core::Timetable;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_micros(minutes * 60_000_000)
    }

    fn plan(overlap: Overlap, catch_up: CatchUp) -> Plan {
        let options = ScheduleOptions { overlap, catch_up, ..ScheduleOptions::default() };
        Plan { timetable: Timetable::parse("* * * * *", "UTC").unwrap(), options }
    }

    #[test]
    fn what_was_missed_is_caught_up_as_the_policy_says() {
        let (missed, now) = ([at(1), at(2), at(3)], at(3) + Duration::from_secs(5));
        let times = |catch_up| decide(&plan(Overlap::Allow, catch_up), &missed, now, false);
        assert_eq!(times(CatchUp::All).times, missed);
        assert_eq!((times(CatchUp::Last).times, times(CatchUp::Last).skipped), (vec![at(3)], 2));
        assert_eq!(times(CatchUp::Skip).times, [at(3)], "that one is in time");
        let late = decide(&plan(Overlap::Allow, CatchUp::Skip), &missed, at(30), false);
        assert_eq!((late.times, late.skipped), (vec![], 3));
    }

    #[test]
    fn while_the_run_before_runs_the_policy_says_what_becomes_of_a_time() {
        let come = [at(1), at(2)];
        let decided = |overlap, running| decide(&plan(overlap, CatchUp::All), &come, at(2), running);
        assert_eq!(decided(Overlap::Skip, true), Decided { skipped: 2, ..Decided::default() });
        assert_eq!(decided(Overlap::Skip, false).times, [at(1)]);
        assert_eq!(decided(Overlap::Allow, true).times, come);
        assert_eq!(decided(Overlap::CancelPrevious, true).times, come);
        assert_eq!(decided(Overlap::Queue, true), Decided { waits: true, ..Decided::default() });
        assert_eq!(decided(Overlap::Queue, false), Decided { times: vec![at(1)], skipped: 0, waits: true });
    }

    #[test]
    fn of_very_many_missed_times_the_last_is_found_without_starting_the_others() {
        let year = 365 * 24 * 60;
        let come = come(&plan(Overlap::Skip, CatchUp::Last), at(0), at(year));
        assert_eq!(come.last(), Some(&at(year)));
        assert!(come.len() <= TIMES);
    }
}
