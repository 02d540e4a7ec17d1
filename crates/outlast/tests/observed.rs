//! What operators see: the metrics and spans that the engine tells.

#![allow(missing_docs, reason = "tests")]

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use outlast::prelude::*;
use outlast_core::NodeId;
use outlast_store::{Mark, OpenOptions, Store, Sweep, open};
use outlast_testkit::Watched;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// The names that were told, and how far counters have come.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<BTreeSet<String>>>, Arc<Mutex<HashMap<String, Arc<AtomicU64>>>>);

/// A process has one recorder and one subscriber; its tests share what these hear.
static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let names = Names::default();
    metrics::set_global_recorder(names.clone()).expect("no other recorder in this process");
    let subscriber = tracing_subscriber::registry().with(names.clone());
    tracing::subscriber::set_global_default(subscriber).expect("no other subscriber in this process");
    names
});

impl Names {
    fn told(&self, name: &str) {
        self.0.lock().unwrap().insert(name.to_owned());
    }

    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().contains(name)
    }

    fn counter(&self, name: &str) -> Arc<AtomicU64> {
        self.1.lock().unwrap().entry(name.to_owned()).or_default().clone()
    }
}

impl Recorder for Names {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.told(key.name());
        Counter::from_arc(self.counter(key.name()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.told(key.name());
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.told(key.name());
        Histogram::noop()
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Names {
    fn on_new_span(&self, attrs: &tracing::span::Attributes<'_>, _: &tracing::span::Id, _: Context<'_, S>) {
        self.told(attrs.metadata().name());
    }
}

#[tokio::test]
async fn runs_steps_claims_and_commits_are_told() {
    let names = NAMES.clone();
    let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
        let _ = ctx.step("fails", |_| async { Err::<(), _>(AnyError::new("no")) }).await;
        ctx.sleep(300.millis()).await?;
        Ok::<(), AnyError>(())
    });
    let job = Job::new("job", |_: JobCtx, (): ()| async move { Ok::<(), AnyError>(()) });
    let app = Outlast::open("sqlite::memory:").await.unwrap().workflow(flow.clone()).job(job.clone());
    let app = app.run().await.unwrap();
    app.start(flow, ()).await.unwrap().result().await.unwrap();
    app.start(job, ()).await.unwrap().result().await.unwrap();
    app.shutdown(1.second()).await.unwrap();

    for name in [
        "outlast.run",
        "outlast.step",
        "outlast_running",
        "outlast_claimed_total",
        "outlast_claim_seconds",
        "outlast_lateness_seconds",
        "outlast_turns_total",
        "outlast_turn_seconds",
        "outlast_attempts_total",
        "outlast_attempt_seconds",
        "outlast_failed_step_attempts_total",
        "outlast_commit_runs",
        "outlast_commit_entries_total",
    ] {
        assert!(names.has(name), "{name} was not told: {:?}", names.0.lock().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_could_not_be_renewed_in_time_is_counted() {
    let lost = NAMES.counter("outlast_lost_leases_total");
    let store = open("sqlite::memory:", OpenOptions::default()).await.unwrap();
    // Only where others could take its work does a node lose its lease.
    let store = Watched::called("postgres", store);
    let flow = Workflow::new("long", |ctx: Ctx, (): ()| async move {
        ctx.step("body", |_| std::future::pending::<Result<(), AnyError>>()).await?;
        Ok::<(), AnyError>(())
    });
    let app = Outlast::on(store.clone()).workflow(flow.clone()).run().await.unwrap();
    app.start(flow, ()).await.unwrap();
    store.goes_away();
    tokio::time::sleep(6.seconds()).await;
    assert_eq!(lost.load(Ordering::Relaxed), 0, "there is time left to renew");
    tokio::time::sleep(4.seconds()).await;
    assert_eq!(lost.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_comes_after_the_lease_is_counted_and_its_turn_dropped() {
    let fenced = NAMES.counter("outlast_fenced_writes_total");
    let store = Watched::over(open("sqlite::memory:", OpenOptions::default()).await.unwrap());
    let (bodies, taken) = (Arc::new(AtomicU32::new(0)), store.clone());
    let flow = Workflow::new("late", move |ctx: Ctx, (): ()| {
        let (bodies, store) = (bodies.clone(), taken.clone());
        async move {
            let body = |_| async {
                let body = bodies.fetch_add(1, Ordering::Relaxed) + 1;
                if body == 1 {
                    // Meanwhile the lease ends, and another node notices.
                    store.clock().advance(1.minute());
                    let (by, day) = (NodeId::new(1), 1.day());
                    let ask = Sweep {
                        by,
                        shard: 0,
                        unknown_after: day,
                        after: Mark::default(),
                        forget_after: day,
                        limit: 10,
                        only_orphans: false,
                    };
                    assert_eq!(store.sweep(&ask).await?.freed, 1);
                }
                Ok::<u32, AnyError>(body)
            };
            Ok::<u32, AnyError>(ctx.step("body", body).await?)
        }
    });
    let app = Outlast::on(store).workflow(flow.clone()).run().await.unwrap();
    let run = app.start(flow, ()).await.unwrap();
    let result = tokio::time::timeout(1.minute(), run.result()).await.expect("it goes on").unwrap();
    assert_eq!(result, 2, "what the first body gave was dropped with its turn");
    assert_eq!(fenced.load(Ordering::Relaxed), 1);
}
