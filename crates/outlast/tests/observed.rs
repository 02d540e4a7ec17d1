//! What operators see: the metrics and spans that the engine tells.

#![allow(missing_docs, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use outlast::prelude::*;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// The names that were told.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<BTreeSet<String>>>);

impl Names {
    fn told(&self, name: &str) {
        self.0.lock().unwrap().insert(name.to_owned());
    }

    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().contains(name)
    }
}

impl Recorder for Names {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.told(key.name());
        Counter::noop()
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
    let names = Names::default();
    metrics::set_global_recorder(names.clone()).expect("no other recorder in this process");
    let subscriber = tracing_subscriber::registry().with(names.clone());
    tracing::subscriber::set_global_default(subscriber).expect("no other subscriber in this process");

    let flow = Workflow::new("flow", |ctx: Ctx, (): ()| async move {
        let _ = ctx.step("fails", |_| async { Err::<(), _>(AnyError::new("no")) }).await;
        ctx.sleep(5.millis()).await?;
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
