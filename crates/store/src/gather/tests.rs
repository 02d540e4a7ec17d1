//! Who shares a transaction with whom, and whose trouble is whose.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::*;

/// What the database was asked for: how many calls in each transaction, and when it may answer.
#[derive(Clone)]
struct Desk {
    gather: Arc<Gather<u32, u32>>,
    asked: Arc<Mutex<Vec<Vec<u32>>>>,
    begun: Arc<Semaphore>,
    may_answer: Arc<Semaphore>,
}

/// The database cannot do this one.
const IMPOSSIBLE: u32 = 13;

impl Desk {
    fn on(runtime: Handle) -> Desk {
        Desk {
            gather: Arc::new(Gather::on(runtime)),
            asked: Arc::default(),
            begun: Arc::new(Semaphore::new(0)),
            may_answer: Arc::new(Semaphore::new(0)),
        }
    }

    async fn call(self, call: u32) -> Result<u32, StoreError> {
        let desk = self.clone();
        let work = move |calls: Arc<[u32]>| {
            let desk = desk.clone();
            async move {
                desk.asked.lock().push(calls.to_vec());
                desk.begun.add_permits(1);
                desk.may_answer.acquire().await.unwrap().forget();
                match calls.contains(&IMPOSSIBLE) {
                    true => Err(StoreError::Refused("impossible".into())),
                    false => Ok(calls.iter().map(|call| call * 10).collect()),
                }
            }
            .boxed()
        };
        self.gather.call(call, work).await
    }

    /// A call is on its way, and waits for its answer.
    async fn begun(&self) {
        soon(self.begun.acquire()).await.unwrap().forget();
    }

    /// So many calls wait for the next transaction.
    async fn queued(&self, count: usize) {
        let queued = async {
            while self.gather.gathered.lock().waiting.len() != count {
                tokio::task::yield_now().await;
            }
        };
        soon(queued).await;
    }

    /// From now on every answer comes at once.
    fn answers(&self) {
        self.may_answer.add_permits(1_000_000);
    }

    fn sizes(&self) -> Vec<usize> {
        self.asked.lock().iter().map(Vec::len).collect()
    }
}

/// What has to come, and without which a test would never end.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), what).await.expect("it comes")
}

#[tokio::test]
async fn a_lone_call_goes_at_once_and_those_that_come_meanwhile_share_the_next_transaction() {
    let desk = Desk::on(Handle::current());
    let first = tokio::spawn(desk.clone().call(1));
    desk.begun().await;
    let others: Vec<_> = (2..=9).map(|call| tokio::spawn(desk.clone().call(call))).collect();
    desk.queued(8).await;
    desk.answers();
    assert_eq!(soon(first).await.unwrap().unwrap(), 10);
    let others: Vec<u32> =
        soon(join_all(others)).await.into_iter().map(|told| told.unwrap().unwrap()).collect();
    assert_eq!(others, (2..=9).map(|call| call * 10).collect::<Vec<_>>(), "each gets its own answer");
    assert_eq!(*desk.asked.lock(), [vec![1], (2..=9).collect()]);

    assert_eq!(soon(desk.clone().call(5)).await.unwrap(), 50, "and the next one begins anew");
}

#[tokio::test]
async fn no_transaction_has_more_calls_than_its_bound() {
    let desk = Desk::on(Handle::current());
    let first = tokio::spawn(desk.clone().call(1));
    desk.begun().await;
    let others: Vec<_> = (0..=MOST).map(|_| tokio::spawn(desk.clone().call(1))).collect();
    desk.queued(MOST + 1).await;
    desk.answers();
    soon(first).await.unwrap().unwrap();
    soon(join_all(others)).await;
    assert_eq!(desk.sizes(), [1, MOST, 1]);
}

#[tokio::test]
async fn no_more_calls_wait_than_there_are_places_and_whoever_gives_up_leaves_one() {
    let desk = Desk::on(Handle::current());
    let first = tokio::spawn(desk.clone().call(1));
    desk.begun().await;
    let mut others: Vec<_> = (0..QUEUE + 7).map(|_| tokio::spawn(desk.clone().call(2))).collect();
    desk.queued(QUEUE - 1).await;
    // All have come by now, and none got further.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    desk.queued(QUEUE - 1).await;
    others.drain(..10).for_each(|given_up| given_up.abort());
    desk.answers();
    soon(first).await.unwrap().unwrap();
    for told in soon(join_all(others)).await {
        assert_eq!(told.unwrap().unwrap(), 20, "everybody gets an answer in the end");
    }
    assert_eq!(desk.gather.places.available_permits(), QUEUE);
}

#[tokio::test(start_paused = true)]
async fn whoever_finds_no_place_hears_that_the_database_cannot_keep_up_and_the_others_go_on() {
    let desk = Desk::on(Handle::current());
    let others: Vec<_> = (0..QUEUE).map(|_| tokio::spawn(desk.clone().call(2))).collect();
    desk.begun().await;
    while desk.gather.places.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let refused = desk.clone().call(3).await.unwrap_err();
    assert!(refused.is_retryable() && refused.to_string().contains("unavailable"), "{refused}");
    desk.answers();
    for told in join_all(others).await {
        assert_eq!(told.unwrap().unwrap(), 20);
    }
    assert_eq!(desk.call(4).await.unwrap(), 40, "and there is a place again");
}

#[tokio::test]
async fn a_call_that_cannot_be_done_fails_nobody_else() {
    let desk = Desk::on(Handle::current());
    let first = tokio::spawn(desk.clone().call(1));
    desk.begun().await;
    let others: Vec<_> = [2, IMPOSSIBLE, 4].map(|call| tokio::spawn(desk.clone().call(call))).into();
    desk.queued(3).await;
    desk.answers();
    soon(first).await.unwrap().unwrap();
    let told: Vec<Option<u32>> =
        soon(join_all(others)).await.into_iter().map(|told| told.unwrap().ok()).collect();
    assert_eq!(told, [Some(20), None, Some(40)]);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_does_not_happen() {
    let desk = Desk::on(Handle::current());
    let first = tokio::spawn(desk.clone().call(1));
    desk.begun().await;
    let (given_up, other) = (tokio::spawn(desk.clone().call(2)), tokio::spawn(desk.clone().call(3)));
    desk.queued(2).await;
    given_up.abort();
    assert!(soon(given_up).await.is_err());
    desk.answers();
    soon(first).await.unwrap().unwrap();
    soon(other).await.unwrap().unwrap();
    assert_eq!(*desk.asked.lock(), [vec![1], vec![3]]);
}

#[tokio::test]
async fn a_first_caller_whose_runtime_ends_holds_up_nobody() {
    let desk = Desk::on(Handle::current());
    let strangers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    strangers.spawn(desk.clone().call(1));
    desk.begun().await;
    let other = tokio::spawn(desk.clone().call(2));
    desk.queued(1).await;
    strangers.shutdown_background();
    desk.answers();
    assert_eq!(soon(other).await.unwrap().unwrap(), 20);
    assert_eq!(*desk.asked.lock(), [vec![1], vec![2]]);
}

#[tokio::test]
async fn when_the_work_dies_whoever_waits_is_told_and_the_next_call_begins_anew() {
    let gather = Arc::new(Gather::<u32, u32>::on(Handle::current()));
    let tries = Arc::new(AtomicUsize::new(0));
    let call = || {
        let tries = tries.clone();
        gather.call(1, move |calls: Arc<[u32]>| {
            let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                assert!(!first, "the work dies");
                Ok(calls.to_vec())
            }
            .boxed()
        })
    };
    assert!(soon(call()).await.unwrap_err().is_retryable());
    assert_eq!(soon(call()).await.unwrap(), 1);
}
