//! Very much at once: what holds for a few holds for thousands, within bounds that have names.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use outlast::prelude::*;
use outlast::testing::{self, Test};
use outlast_store::{Clock, SharedMemory};
use outlast_testkit::{TestDatabase, skipped};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::harness::{bounded, once};

/// Who runs now, and how many ran at once at most.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

impl Crowd {
    async fn pass(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// An engine on a store that works where it is asked, without a thread: as quickly as there can be very much.
async fn in_memory(with: impl FnOnce(Outlast) -> Outlast) -> Test {
    let clock = Clock::stopped_at(outlast::Timestamp::from_micros(1_893_456_000_000_000));
    let store = SharedMemory::new(1).unwrap().open(clock).unwrap();
    testing::start_on(store, with).await.unwrap()
}

/// Numbers in the order in which they came.
#[derive(Clone, Default)]
struct Came(Arc<Mutex<Vec<u32>>>);

/// Whether the time has come.
#[derive(Clone, Default)]
struct IsTime(Arc<AtomicBool>);

fn come() -> Job<u32, (), AnyError> {
    Job::new("come", |job: JobCtx, n: u32| async move {
        assert!(job.state::<IsTime>().0.load(Ordering::SeqCst), "too early");
        job.state::<Came>().0.lock().push(n);
        job.state::<Crowd>().pass().await;
        Ok(())
    })
    .queue("line")
}

#[tokio::test]
async fn very_many_timers_at_one_instant_are_drained_within_bounds_and_none_is_early() {
    const TIMERS: u32 = 60_000;
    bounded(async {
        let (came, crowd, is_time) = (Came::default(), Crowd::default(), IsTime::default());
        let states = (came.clone(), crowd.clone(), is_time.clone());
        let with = |app: Outlast| app.job(come()).state(states.0).state(states.1).state(states.2);
        let test = in_memory(|app| with(app).concurrency(100)).await;
        let at = test.now().await.unwrap() + 1.hour();
        for first in (0..TIMERS).step_by(1000) {
            test.app().start_many(come(), first..first + 1000).at(at).await.unwrap();
        }
        test.advance(59.minutes()).await.unwrap();
        assert_eq!(came.0.lock().len(), 0);
        is_time.0.store(true, Ordering::SeqCst);
        test.advance(1.minute()).await.unwrap();
        let mut came = came.0.lock().clone();
        came.sort_unstable();
        assert!(came.into_iter().eq(0..TIMERS), "each once");
        assert!(crowd.most() <= 100, "{} ran at once", crowd.most());
    })
    .await;
}

#[tokio::test]
async fn very_many_runs_of_one_group_go_in_order_and_never_more_at_once_than_they_may() {
    const RUNS: u32 = 10_000;
    const AT_ONCE: u32 = 50;
    bounded(async {
        let (came, crowd, is_time) = (Came::default(), Crowd::default(), IsTime::default());
        let states = (came.clone(), crowd.clone(), is_time.clone());
        let line = || Queue::new("line").per_group(AT_ONCE);
        let with = |app: Outlast| app.job(come()).state(states.0).state(states.1).state(states.2);
        let test = in_memory(|app| with(app).queue(line())).await;
        test.app().pause_queue("line").await.unwrap();
        for first in (0..RUNS).step_by(1000) {
            test.app().start_many(come(), first..first + 1000).group("all").await.unwrap();
        }
        is_time.0.store(true, Ordering::SeqCst);
        test.app().resume_queue("line").await.unwrap();
        test.settle().await.unwrap();
        assert_eq!(came.0.lock().len(), RUNS as usize);
        let came = came.0.lock().clone();
        // Whoever is in hand at once may begin in any order among themselves.
        for (place, n) in (0..).zip(&came) {
            assert!(n.abs_diff(place) < 2 * AT_ONCE, "number {n} came as number {place}");
        }
        assert!(crowd.most() <= AT_ONCE as usize, "{} ran at once", crowd.most());
    })
    .await;
}

/// How often the code of a run was polled, and its steps called.
#[derive(Clone, Default)]
struct Counted(Arc<(AtomicUsize, AtomicUsize)>);

#[tokio::test]
async fn a_run_of_ten_thousand_steps_is_polled_once_for_each_when_it_is_replayed_and_ends_at_the_limit() {
    const STEPS: u32 = 10_000;
    bounded(async {
        let long = Workflow::new("long", |ctx: Ctx, (): ()| async move {
            let counted = ctx.state::<Counted>();
            let code = async {
                for n in 0.. {
                    let body = |_| {
                        counted.0.1.fetch_add(1, Ordering::SeqCst);
                        async move { Ok::<u32, AnyError>(n) }
                    };
                    ctx.step("step", body).await?;
                    if n == STEPS * 9 / 10 {
                        ctx.event::<()>("go on").await?;
                    }
                }
                Ok::<(), AnyError>(())
            };
            let mut code = pin!(code);
            std::future::poll_fn(|cx| {
                counted.0.0.fetch_add(1, Ordering::SeqCst);
                code.as_mut().poll(cx)
            })
            .await
        });
        let counted = Counted::default();
        let with = |app: Outlast| {
            let app = once(app).workflow(long.clone()).state(counted.clone());
            app.limits(|limits| limits.entries = STEPS).settings(|settings| settings.warm = 0)
        };
        let test = in_memory(with).await;
        let run = test.app().start(long.clone(), ()).await.unwrap();
        test.settle().await.unwrap();
        let before = counted.0.0.swap(0, Ordering::SeqCst);
        run.send("go on", &()).await.unwrap();
        let error = run.result().await.unwrap_err().to_string();
        assert_eq!(error, format!("the journal is too large: {}, the limit is {STEPS}", STEPS + 1));
        let replayed = counted.0.0.load(Ordering::SeqCst);
        let bodies = counted.0.1.load(Ordering::SeqCst);
        assert!((STEPS as usize - 2..=STEPS as usize).contains(&bodies), "{bodies}: none is called twice");
        // As it was polled for each when they were new, with a poll for the body: not once more for all that is behind it.
        assert!(before <= 4 * STEPS as usize && replayed <= 4 * STEPS as usize, "{before}, {replayed}");
    })
    .await;
}

/// When each attempt of each run began.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<(u32, u32, Instant)>>>);

#[tokio::test(start_paused = true)]
async fn while_whatever_they_call_is_down_very_many_runs_come_back_spread_out_and_less_and_less_often() {
    const RUNS: u32 = 500;
    const ATTEMPTS: u32 = 6;
    let call = Job::new("call", |job: JobCtx, n: u32| async move {
        job.state::<Attempts>().0.lock().push((n, job.attempt(), Instant::now()));
        Err::<(), _>(AnyError::new("503"))
    })
    .retry(Retry::times(ATTEMPTS));
    let clock = Clock::of_runtime(outlast::Timestamp::from_micros(1_893_456_000_000_000));
    let store = SharedMemory::new(1).unwrap().open(clock).unwrap();
    let attempts = Attempts::default();
    let app = Outlast::on(store).job(call.clone()).state(attempts.clone()).run().await.unwrap();
    let runs = app.start_many(call, 0..RUNS).await.unwrap();
    for run in runs {
        run.result().await.unwrap_err();
    }

    let mut attempts = attempts.0.lock().clone();
    assert_eq!(attempts.len() as u32, RUNS * ATTEMPTS, "as often as they may, and not once more");
    attempts.sort_unstable();
    for attempt in 1..ATTEMPTS {
        // All shares of the pause, and none longer than it: 1 s, 2 s, 4 s …
        let pause = f64::from(1 << (attempt - 1));
        let mut tenths = [0; 10];
        for pair in attempts.windows(2).filter(|pair| pair[0].1 == attempt) {
            let share = (pair[1].2 - pair[0].2).as_secs_f64() / pause;
            assert!(share < 1.2, "attempt {attempt} was followed after {share} of its pause");
            tenths[((share * 10.0) as usize).min(9)] += 1;
        }
        assert!(tenths.iter().all(|runs| (15..=100).contains(runs)), "after attempt {attempt}: {tenths:?}");
    }
    // However many there are, what is called is asked by a few of them at a time once it has been down for a while.
    let first = attempts.iter().map(|(_, _, at)| *at).min().unwrap();
    let mut seconds = [0_u32; 64];
    for (_, _, at) in &attempts {
        seconds[(*at - first).as_secs() as usize] += 1;
    }
    assert!(seconds[8..].iter().all(|count| *count <= RUNS / 4), "{seconds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_nodes_that_come_to_an_empty_database_at_once_all_join_and_work() {
    if skipped() {
        return;
    }
    bounded(async {
        let database = TestDatabase::create("outlast_empty", async |_| Ok(())).await.unwrap();
        let hello = Job::new("hello", async |_: JobCtx, n: u32| Ok::<u32, AnyError>(n));
        let nodes = (0..50).map(|n| {
            let (url, hello) = (format!("{}?pool=2", database.url()), hello.clone());
            tokio::spawn(async move {
                let app = Outlast::open(&url).await?.job(hello);
                app.settings(|settings| settings.name = format!("node-{n}")).run().await
            })
        });
        let mut apps = Vec::new();
        for node in nodes.collect::<Vec<_>>() {
            apps.push(node.await.unwrap().expect("it joins"));
        }
        assert_eq!(apps[0].nodes().await.unwrap().len(), 50);
        for (n, app) in (0..).zip(&apps) {
            assert_eq!(app.start(hello.clone(), n).await.unwrap().result().await.unwrap(), n);
        }
    })
    .await;
}
