//! Suspects: runs that processes died with. The more did, the fewer run beside each other, so that poison is
//! found, and a crowd of innocents is through soon all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlast::prelude::*;
use outlast::testing::{self, Test};
use outlast_core::RunId;
use outlast_store::Store;
use outlast_testkit::Watched;
use tokio::sync::Semaphore;

use crate::pace::{comes, pass, watched};

/// How many bodies run, and whether they may end.
#[derive(Clone)]
struct Crowd {
    running: Arc<AtomicU32>,
    may_end: Arc<Semaphore>,
}

struct Leaves(Arc<AtomicU32>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Crowd {
    fn new() -> Crowd {
        Crowd { running: Arc::default(), may_end: Arc::new(Semaphore::new(0)) }
    }

    fn job(&self) -> Job<(), (), AnyError> {
        let crowd = self.clone();
        Job::new("job", move |_: JobCtx, (): ()| {
            let crowd = crowd.clone();
            async move {
                crowd.running.fetch_add(1, Ordering::SeqCst);
                let _leaves = Leaves(crowd.running);
                let _ended = crowd.may_end.acquire().await;
                Ok::<(), AnyError>(())
            }
        })
    }

    fn running(&self) -> u32 {
        self.running.load(Ordering::SeqCst)
    }
}

/// From one process to the next: longer than its lease.
const DEATH: Duration = Duration::from_millis(300);

async fn process(store: &Arc<Watched>, crowd: &Crowd) -> Test {
    let app = |app: Outlast| {
        app.job(crowd.job()).settings(|settings| {
            settings.lease = DEATH / 2;
            settings.renew_every = DEATH / 4;
        })
    };
    testing::start_on(store.clone(), app).await.unwrap()
}

/// Lets this process die, and starts the next.
async fn dies(test: Test, store: &Arc<Watched>, crowd: &Crowd) -> Test {
    test.kill().await;
    assert_eq!(crowd.running(), 0);
    store.clock().advance(DEATH);
    process(store, crowd).await
}

/// Lets so many processes die with all of `runs`; gives the next process.
async fn after_deaths(store: &Arc<Watched>, crowd: &Crowd, runs: u32, deaths: u32) -> (Test, Vec<RunId>) {
    let mut test = process(store, crowd).await;
    let started = test.app().start_many(crowd.job(), (0..runs).map(|_| ())).await.unwrap();
    for _ in 0..deaths {
        pass(1.second()).await;
        assert_eq!(crowd.running(), runs, "all are there to be hit");
        test = dies(test, store, crowd).await;
        store.clock().advance(1.minute());
    }
    (test, started.into_iter().map(|run| run.id()).collect())
}

/// Lets runs end, whatever pauses they still have.
async fn end_well(test: &Test, store: &Arc<Watched>, crowd: &Crowd, runs: Vec<RunId>) {
    crowd.may_end.add_permits(1);
    for id in runs {
        let run = test.app().handle(&crowd.job(), id);
        let result = async {
            let mut result = std::pin::pin!(run.result());
            loop {
                tokio::select! {
                    ended = &mut result => return ended,
                    () = pass(100.millis()) => store.clock().advance(1.second()),
                }
            }
        };
        comes(result).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_more_processes_died_with_runs_the_fewer_of_them_run_at_once() {
    for (deaths, runs, at_once) in [(1, 20, 20), (2, 20, 16), (3, 5, 4), (4, 2, 1)] {
        let (store, crowd) = (watched().await, Crowd::new());
        let (test, ids) = after_deaths(&store, &crowd, runs, deaths).await;
        // Those for whom there is no room ask again from time to time, and in vain.
        for _ in 0..3 {
            pass(1.second()).await;
            assert_eq!(crowd.running(), at_once, "{runs} runs after {deaths} deaths");
            store.clock().advance(1.second());
        }

        end_well(&test, &store, &crowd, ids).await;
        test.app().clone().shutdown(Duration::ZERO).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn processes_that_die_before_they_begin_a_suspect_charge_nobody() {
    let (store, crowd) = (watched().await, Crowd::new());
    let (mut test, ids) = after_deaths(&store, &crowd, 3, 4).await;
    for _ in 0..20 {
        // All three are claimed, one shall be begun, and the others are not handed back yet.
        let held = store.hold_load();
        comes(held.there.notified()).await;
        test = tokio::join!(dies(test, &store, &crowd), async { held.go.notify_one() }).0;
        store.clock().advance(1.minute());
    }
    end_well(&test, &store, &crowd, ids).await;
}

#[tokio::test(start_paused = true)]
async fn a_lone_run_survives_a_process_that_is_killed_in_a_hurry() {
    let (store, crowd) = (watched().await, Crowd::new());
    let (mut test, ids) = after_deaths(&store, &crowd, 1, 0).await;
    let (kills, mut hits) = (30, 0);
    for _ in 0..kills {
        pass(1.second()).await;
        hits += crowd.running();
        test = dies(test, &store, &crowd).await;
    }
    assert!((5..kills).contains(&hits), "it was hit {hits} times");
    end_well(&test, &store, &crowd, ids).await;
}
