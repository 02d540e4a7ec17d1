//! How often a node asks its store: when there is reason to, and seldom when the store is away.
//!
//! These stories are told by a store that is watched, in paused time: minutes pass in a moment, and each call
//! has the time at which it was made. They are about the engine, so one database is enough.

use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast_store::{OpenOptions, Reads, Signal, Store, open};
use outlast_testkit::Watched;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::harness::Ledger;

pub async fn watched() -> Arc<Watched> {
    Watched::over(open("sqlite::memory:", OpenOptions::default()).await.unwrap())
}

/// Lets time pass: whatever happens on the way happens at its own time.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// What has to come, and without which the story would never end.
pub async fn comes<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(10.minutes(), what).await.expect("it comes")
}

/// How long it was from each of these times to the next.
fn gaps(times: &[Instant]) -> Vec<Duration> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// What a body shares with its test: that it runs, and that it may end.
#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    open: Arc<Notify>,
}

/// Notes that a body is no longer there, however it ended.
struct Gone(Arc<Ledger>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.note("gone");
    }
}

/// One step that notes that it runs, and ends when it may.
fn gated() -> Workflow<(), (), AnyError> {
    Workflow::new("gated", |ctx: Ctx, (): ()| async move {
        let (ledger, gate) = (ctx.state::<Ledger>(), ctx.state::<Gate>());
        ctx.step("body", |_| {
            let (ledger, gate) = (ledger.clone(), gate.clone());
            async move {
                ledger.note("body");
                let _gone = Gone(ledger);
                gate.begun.notify_one();
                gate.open.notified().await;
                Ok::<(), AnyError>(())
            }
        })
        .await?;
        Ok(())
    })
}

fn sleepy() -> Workflow<Duration, (), AnyError> {
    Workflow::new("sleepy", |ctx: Ctx, time: Duration| async move {
        ctx.sleep(time).await?;
        Ok::<(), AnyError>(())
    })
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_asks_once_in_a_poll_and_not_more_often() {
    let store = watched().await;
    let settings = |settings: &mut outlast::Settings| settings.poll_every = 5.seconds();
    let _app = Outlast::on(store.clone()).workflow(gated()).settings(settings).run().await.unwrap();
    pass(1.minute()).await;
    // It looks whether anything is due, and claims nothing when nothing is.
    let gaps = gaps(&store.times("next_due"));
    assert!((10..=12).contains(&gaps.len()), "{gaps:?}");
    assert!(gaps.iter().all(|gap| (5.seconds()..6.seconds()).contains(gap)), "{gaps:?}");
    assert!(store.count("claim") <= 2, "{}", store.count("claim"));
    // Nothing wakes the other loops either.
    assert!(store.count("renew") <= 20 && store.count("sweep") <= 31);
    assert_eq!((store.count("commit"), store.count("inbox"), store.count("load")), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hears_of_orphans_all_the_time_still_does_everything_else_from_time_to_time() {
    let store = watched().await;
    let hints = store.hints().clone();
    let _app = Outlast::on(store.clone()).workflow(gated()).run().await.unwrap();
    let everything = || store.count("sweep") - store.count("orphans");
    // Until it listens.
    pass(1.second()).await;
    for _ in 0..5 {
        let before = (everything(), store.count("orphans"));
        // Half a lease: everything comes after two fifths of one at the latest.
        for _ in 0..100 {
            hints.send(Signal::Orphans).unwrap();
            pass(50.millis()).await;
        }
        assert!(
            everything() > before.0,
            "nothing was done in 5 s but for orphans: {:?}",
            store.times("sweep")
        );
        assert!(store.count("orphans") > before.1 + 40, "orphans wait for nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_knows_when_its_next_run_is_due_asks_then() {
    let store = watched().await;
    let settings = |settings: &mut outlast::Settings| settings.poll_every = 1.hour();
    let app = Outlast::on(store.clone()).workflow(sleepy()).settings(settings).run().await.unwrap();
    let run = app.start(sleepy(), 30.minutes()).await.unwrap();
    pass(29.minutes()).await;
    assert!(
        store.count("claim") <= 3,
        "at its start, and when the run began to wait: {:?}",
        store.times("claim")
    );

    // It is due half an hour after it began, and the database's clock has hardly moved.
    let before = store.count("claim");
    pass(2.minutes()).await;
    assert_eq!(store.count("claim"), before + 1);
    store.clock().advance(30.minutes());
    comes(run.result()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_free_when_its_turn_is_over_and_no_more_wait_for_their_commits_than_may_run() {
    let (store, ledger) = (watched().await, Ledger::default());
    let noting = Job::new("noting", |job: JobCtx, number: u32| async move {
        job.state::<Ledger>().note(number.to_string());
        Ok::<(), AnyError>(())
    });
    let app = Outlast::on(store.clone()).job(noting.clone()).state(ledger.clone());
    let app = app.concurrency(1).run().await.unwrap();
    let held = store.hold_commits();
    let mut runs = Vec::new();
    for number in 0..4 {
        runs.push(app.start(noting.clone(), number).await.unwrap());
    }
    comes(held.until_waiting(1)).await;
    pass(1.second()).await;
    let begun = ledger.notes();
    assert_eq!(begun.len(), 2, "the next begins while an end is on its way, and only one more: {begun:?}");
    held.let_go();
    for run in runs {
        comes(run.result()).await.unwrap();
    }
    assert_eq!(ledger.notes().len(), 4);
}

/// A step that ends when it may, beside a second of sleep.
fn beside() -> Workflow<(), (), AnyError> {
    Workflow::new("beside", |ctx: Ctx, (): ()| async move {
        let gate = ctx.state::<Gate>();
        let body = ctx.step("body", |_| {
            let gate = gate.clone();
            async move {
                gate.begun.notify_one();
                gate.open.notified().await;
                Ok::<(), AnyError>(())
            }
        });
        let (slept, done) = tokio::join!(ctx.sleep(1.second()), body);
        slept?;
        Ok(done?)
    })
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_goes_off_while_its_run_may_begin_nothing_more_keeps_nobody_busy() {
    // Whoever is busy keeps time from passing, and this test from ending.
    let (ended, end) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if end.recv_timeout(1.minute()) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            std::process::abort();
        }
    });
    let gate = Gate::default();
    let clock = outlast_store::Clock::of_runtime(outlast::Timestamp::from_micros(1_893_456_000_000_000));
    let store = outlast_store::SharedMemory::new(1).unwrap().open(clock).unwrap();
    let app = Outlast::on(store).workflow(beside()).state(gate.clone()).run().await.unwrap();
    app.start(beside(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    let stopping = tokio::spawn(app.shutdown(1.minute()));
    pass(5.seconds()).await;
    assert!(!stopping.is_finished(), "the body still runs");
    gate.open.notify_one();
    comes(stopping).await.unwrap().unwrap();
    drop(ended);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_free_slot_asks_for_nothing() {
    let (store, ledger, gate) = (watched().await, Ledger::default(), Gate::default());
    let app = Outlast::on(store.clone()).workflow(gated()).state(ledger.clone()).state(gate.clone());
    let app = app.concurrency(1).run().await.unwrap();
    let first = app.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    let before = store.count("claim");
    let second = app.start(gated(), ()).await.unwrap();
    pass(10.minutes()).await;
    assert_eq!(store.count("claim"), before, "there is work, and no slot for it");

    let freed = Instant::now();
    gate.open.notify_one();
    comes(gate.begun.notified()).await;
    assert!(freed.elapsed() < 100.millis(), "a free slot is used at once");
    gate.open.notify_one();
    comes(first.result()).await.unwrap();
    comes(second.result()).await.unwrap();
    assert_eq!(ledger.count("body"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hint_makes_an_idle_node_look_at_once() {
    let (store, gate) = (watched().await, Gate::default());
    let app = Outlast::on(store.clone()).workflow(gated()).state(Ledger::default()).state(gate.clone());
    let _app = app.settings(|settings| settings.poll_every = 1.hour()).run().await.unwrap();
    let client = Outlast::on(store.clone()).client();
    pass(1.minute()).await;
    let asked = Instant::now();
    client.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    assert!(asked.elapsed() < 100.millis());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_fell_behind_with_its_hints_looks_at_once() {
    let store = open("sqlite::memory:", OpenOptions::default()).await.unwrap();
    let (node, gate) = (Watched::over(store.clone()), Gate::default());
    let hints = node.hints().clone();
    let app = Outlast::on(node).workflow(gated()).state(Ledger::default()).state(gate.clone());
    let _app = app.settings(|settings| settings.poll_every = 1.hour()).run().await.unwrap();
    pass(1.minute()).await;
    let run = Outlast::on(store).client().start(gated(), ()).await.unwrap();
    let begun = tokio::time::timeout(1.minute(), gate.begun.notified()).await;
    assert!(begun.is_err(), "its hint got lost");

    // More than the buffer holds before anybody listens, and none of those that are left says what to do.
    let asked = Instant::now();
    (0..100).for_each(|_| drop(hints.send(Signal::ended(run.id()))));
    comes(gate.begun.notified()).await;
    assert!(asked.elapsed() < 100.millis());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_hear_others_looks_soon_after_it_worked_and_seldom_while_nothing_happens() {
    let store = open("sqlite::memory:", OpenOptions::default()).await.unwrap();
    let (node, gate) = (Watched::over(store.clone()), Gate::default());
    node.is_deaf(true);
    let _nothing_is_heard = node.hints();
    let app = Outlast::on(node.clone()).workflow(gated()).state(Ledger::default()).state(gate.clone());
    let _app = app.run().await.unwrap();
    pass(1.minute()).await;
    let gaps = gaps(&node.times("next_due"));
    let growing: Vec<u128> = gaps[..6].iter().map(Duration::as_millis).collect();
    assert!(growing.is_sorted() && growing[0] < 250, "{growing:?}");
    assert!(gaps[6..].iter().all(|gap| (5.seconds()..6.seconds()).contains(gap)), "{gaps:?}");
    assert!(gaps.len() < 20 && node.count("claim") <= 2, "{gaps:?}, {}", node.count("claim"));

    let elsewhere = Outlast::on(store).client();
    elsewhere.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    gate.open.notify_one();
    // Where something was done, more may come.
    for _ in 0..5 {
        pass(50.millis()).await;
        let asked = Instant::now();
        elsewhere.start(gated(), ()).await.unwrap();
        comes(gate.begun.notified()).await;
        assert!(asked.elapsed() < 250.millis(), "{:?}", asked.elapsed());
        gate.open.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_was_cut_off_with_all_others_takes_none_of_them_for_dead() {
    let clock = outlast_store::Clock::of_runtime(outlast::Timestamp::from_micros(1_893_456_000_000_000));
    let memory = outlast_store::SharedMemory::new(1).unwrap();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let store = Watched::called("postgres", memory.open(clock.clone()).unwrap());
        let app = Outlast::on(store.clone()).workflow(gated()).run().await.unwrap();
        nodes.push((store, app));
    }
    for _ in 0..10 {
        nodes.iter().for_each(|(store, _)| store.goes_away());
        pass(12.seconds()).await;
        nodes.iter().for_each(|(store, _)| store.comes_back());
        pass(20.seconds()).await;
    }
    let (store, _app) = &nodes[0];
    assert_eq!(store.lost_nodes().await.unwrap(), [], "all leases had ended, and nobody had died");

    // One that is gone is found out as soon as ever.
    let gone = Watched::called("postgres", memory.open(clock).unwrap());
    let _gone = Outlast::on(gone.clone()).workflow(gated()).run().await.unwrap();
    gone.goes_away();
    pass(11.seconds()).await;
    assert_eq!(store.lost_nodes().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn runs_that_others_have_locked_are_asked_for_after_growing_pauses() {
    let store = watched().await;
    let _app = Outlast::on(store.clone()).workflow(gated()).run().await.unwrap();
    store.lock_what_is_due(true);
    pass(1.minute()).await;
    let gaps = gaps(&store.times("claim"));
    let growing: Vec<u128> = gaps[1..8].iter().map(Duration::as_millis).collect();
    assert!(growing.is_sorted() && growing[0] < 50, "{growing:?}");
    assert!(gaps[8..].iter().all(|gap| (900.millis()..1100.millis()).contains(gap)), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_told_the_rules_of_queues_asks_again_before_it_claims() {
    let store = watched().await;
    store.lose_replies("queues", 2);
    let _app = Outlast::on(store.clone()).workflow(gated()).run().await.unwrap();
    pass(1.second()).await;
    let (asked, claimed) = (store.times("queues"), store.times("claim"));
    assert!(asked.len() >= 3 && asked[2] <= claimed[0], "{asked:?}, and then {claimed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_for_minutes_is_asked_seldom_and_used_when_it_is_back() {
    let (store, ledger, gate) = (watched().await, Ledger::default(), Gate::default());
    let app = Outlast::on(store.clone()).workflow(gated()).state(ledger.clone()).state(gate.clone());
    let app = app.run().await.unwrap();
    let run = app.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    pass(1.second()).await;
    store.goes_away();
    gate.open.notify_one();
    let left = Instant::now();
    pass(10.minutes()).await;
    for call in ["claim", "commit"] {
        let times: Vec<Instant> = store.times(call).into_iter().filter(|time| *time >= left).collect();
        let gaps = gaps(&times);
        assert!(gaps[0] < 100.millis() && gaps.len() > 250, "{call}: {gaps:?}");
        assert!(gaps.iter().all(|gap| *gap < 2100.millis()), "{call}: {gaps:?}");
        assert!(gaps[10..].iter().all(|gap| *gap >= 1.second()), "{call}: {gaps:?}");
    }
    assert!(app.start(gated(), ()).await.is_err(), "whoever asks is told");

    store.comes_back();
    comes(run.result()).await.unwrap();
    let next = app.start(gated(), ()).await.unwrap();
    gate.open.notify_one();
    comes(next.result()).await.unwrap();
    assert_eq!(ledger.count("body"), 2, "each once");
}

#[tokio::test(start_paused = true)]
async fn the_sole_owner_of_a_file_that_is_late_with_its_renewal_drops_no_work() {
    let (store, ledger, gate) = (watched().await, Ledger::default(), Gate::default());
    let app = Outlast::on(store.clone()).workflow(gated()).state(ledger.clone()).state(gate.clone());
    let app = app.run().await.unwrap();
    let run = app.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    store.goes_away();
    pass(5.minutes()).await;
    store.comes_back();
    pass(1.minute()).await;
    gate.open.notify_one();
    comes(run.result()).await.unwrap();
    assert_eq!(ledger.count("body"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_renew_drops_its_work_before_others_may_begin_it() {
    let store = open("sqlite::memory:", OpenOptions::default());
    let store = Watched::called("postgres", store.await.unwrap());
    let (ledger, gate) = (Ledger::default(), Gate::default());
    let app = Outlast::on(store.clone()).workflow(gated()).state(ledger.clone()).state(gate.clone());
    let app = app.run().await.unwrap();
    let run = app.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    store.goes_away();
    pass(6.seconds()).await;
    assert_eq!(ledger.notes(), ["body"], "there is time left to renew");
    pass(3.seconds()).await;
    assert_eq!(ledger.notes(), ["body", "gone"], "another second, and others may begin it");

    store.comes_back();
    comes(gate.begun.notified()).await;
    gate.open.notify_one();
    comes(run.result()).await.unwrap();
    assert_eq!(ledger.count("body"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_gets_no_answer_does_not_keep_work_in_hand_beyond_the_lease() {
    let store = open("sqlite::memory:", OpenOptions::default());
    let store = Watched::called("postgres", store.await.unwrap());
    let (ledger, gate) = (Ledger::default(), Gate::default());
    let app = Outlast::on(store.clone()).workflow(gated()).state(ledger.clone()).state(gate.clone());
    let app = app.run().await.unwrap();
    app.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    store.goes_away();
    pass(7.seconds()).await;
    // From now on it can be reached, and says nothing: a renewal waits for half a lease.
    let held = store.hold_renew();
    store.comes_back();
    comes(held.there.notified()).await;
    assert_eq!(ledger.notes(), ["body"], "there is time left to renew");
    pass(2.seconds()).await;
    assert_eq!(ledger.notes(), ["body", "gone"], "another second, and others may begin it");
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_before_the_lease_ended_is_not_begun_after_it() {
    let store = open("sqlite::memory:", OpenOptions::default());
    let store = Watched::called("postgres", store.await.unwrap());
    let (ledger, gate) = (Ledger::default(), Gate::default());
    let app = Outlast::on(store.clone()).workflow(gated()).state(ledger.clone()).state(gate.clone());
    let _app = app.run().await.unwrap();
    let loads = store.hold_load();
    let run = Outlast::on(store.clone()).client().start(gated(), ()).await.unwrap();
    comes(loads.there.notified()).await;
    store.goes_away();
    pass(20.seconds()).await;
    loads.go.notify_one();
    pass(1.second()).await;
    assert!(ledger.notes().is_empty(), "others may have it since half of that time");

    store.comes_back();
    comes(gate.begun.notified()).await;
    gate.open.notify_one();
    comes(run.result()).await.unwrap();
    assert_eq!(ledger.count("body"), 1);
}

#[tokio::test(start_paused = true)]
async fn runs_that_start_while_a_claim_is_on_its_way_are_lent_its_slots_and_what_it_brings_waits() {
    let store = Watched::over(open("sqlite::memory:", OpenOptions::default()).await.unwrap());
    let (ledger, gate) = (Ledger::default(), Gate::default());
    let app = Outlast::on(store.clone()).concurrency(2).workflow(gated());
    let app = app.state(ledger.clone()).state(gate.clone()).run().await.unwrap();
    pass(1.second()).await;
    let claim = store.hold_claim();
    let claimed = Outlast::on(store.clone()).client().start(gated(), ()).await.unwrap();
    comes(claim.there.notified()).await;

    let (claims, mut started) = (store.count("claim"), Vec::new());
    for _ in 0..2 {
        started.push(app.start(gated(), ()).await.unwrap());
        comes(gate.begun.notified()).await;
    }
    assert_eq!(store.count("claim"), claims, "nobody had to claim them");
    claim.go.notify_one();
    pass(1.second()).await;
    assert_eq!(ledger.notes(), ["body", "body"], "no slot is left for what was claimed");

    for run in started {
        gate.open.notify_one();
        comes(run.result()).await.unwrap();
    }
    comes(gate.begun.notified()).await;
    gate.open.notify_one();
    comes(claimed.result()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_result_whose_hint_got_lost_hears_of_it_soon_however_busy_the_store_is() {
    let store = open("sqlite::memory:", OpenOptions::default()).await.unwrap();
    let (deaf, gate) = (Watched::over(store.clone()), Gate::default());
    let node = Watched::over(store);
    let app = Outlast::on(node).workflow(gated()).state(Ledger::default()).state(gate.clone());
    let _app = app.run().await.unwrap();
    let hints = deaf.hints().clone();
    let run = Outlast::on(deaf).client().start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    let result = tokio::spawn(async move { run.result().await });
    let busy = tokio::spawn(async move {
        loop {
            let _ = hints.send(Signal::Due);
            tokio::time::sleep(10.millis()).await;
        }
    });
    pass(10.seconds()).await;
    let ended = Instant::now();
    gate.open.notify_one();
    comes(result).await.unwrap().unwrap();
    assert!(ended.elapsed() < 1500.millis(), "{:?}", ended.elapsed());
    busy.abort();
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_result_waits_for_a_database_that_is_away() {
    let store = open("sqlite::memory:", OpenOptions::default()).await.unwrap();
    let (far, node, gate) = (Watched::over(store.clone()), Watched::over(store), Gate::default());
    let app = Outlast::on(node).workflow(gated()).state(Ledger::default()).state(gate.clone());
    let _app = app.run().await.unwrap();
    let run = Outlast::on(far.clone()).client().start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    far.goes_away();
    let result = tokio::spawn(async move { run.result().await });
    pass(5.minutes()).await;
    assert!(!result.is_finished(), "the run may end at any time");
    assert!(far.count("ended") < 3000, "{}", far.count("ended"));
    gate.open.notify_one();
    far.comes_back();
    comes(result).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_takes_as_long_as_the_work_in_hand_and_not_its_whole_grace() {
    let (store, gate) = (watched().await, Gate::default());
    let node = || {
        let app = Outlast::on(store.clone()).workflow(gated()).state(Ledger::default()).state(gate.clone());
        app.settings(|settings| settings.poll_every = 1.hour()).run()
    };
    let idle = node().await.unwrap();
    pass(1.second()).await;
    let began = Instant::now();
    idle.shutdown(1.hour()).await.unwrap();
    assert!(began.elapsed() < 1.second(), "an idle node has nothing to wait for");

    let app = node().await.unwrap();
    app.start(gated(), ()).await.unwrap();
    comes(gate.begun.notified()).await;
    let open = gate.open.clone();
    tokio::spawn(async move {
        pass(1.minute()).await;
        open.notify_one();
    });
    let began = Instant::now();
    app.shutdown(1.hour()).await.unwrap();
    assert!((1.minute()..62.seconds()).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn heartbeats_share_commits_however_many_there_are() {
    let (store, gate) = (watched().await, Gate::default());
    let flow = Workflow::new("copy", |ctx: Ctx, (): ()| async move {
        let gate = ctx.state::<Gate>();
        let body = |step: StepCtx| {
            let gate = gate.clone();
            async move {
                if step.attempt() == 2 {
                    return step
                        .saved::<u32>()
                        .map(|saved| saved.unwrap_or_default())
                        .map_err(AnyError::from);
                }
                for n in 0..10_000 {
                    step.beat(&n)?;
                }
                gate.begun.notify_one();
                gate.open.notified().await;
                for n in 0..10_000_u32 {
                    step.beat(&(10_000 + n))?;
                    tokio::time::sleep(10.millis()).await;
                }
                Err(AnyError::new("once more"))
            }
        };
        Ok::<u32, AnyError>(ctx.step("copy", body).retry(Retry::fixed(2, Duration::ZERO)).await?)
    });
    let app = Outlast::on(store.clone()).workflow(flow.clone()).state(gate.clone()).run().await.unwrap();
    let run = app.start(flow, ()).await.unwrap();
    comes(gate.begun.notified()).await;
    pass(100.millis()).await;
    assert_eq!(store.count("commit"), 1, "in a loop that never waits");

    // These take a hundred seconds, and the failure comes while nothing can be written.
    pass(1.second()).await;
    store.goes_away();
    gate.open.notify_one();
    pass(5.minutes()).await;
    store.comes_back();
    let before = store.count("commit");
    assert_eq!(comes(run.result()).await.unwrap(), 19_999, "the last is what the next attempt gets");
    assert!(
        store.count("commit") <= before + 4,
        "{} commits for all of them",
        store.count("commit") - before
    );
}
