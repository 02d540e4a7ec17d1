//! The laboratory of the engine's tests: a real store, an engine that can be killed and started again,
//! a ledger of effects outside of it, and time that passes when the test says so.

use std::sync::Arc;
use std::time::Duration;

use outlast::testing::{self, Test};
use outlast::{App, Outlast};
use outlast_testkit::{StoreKind, World};
use parking_lot::Mutex;

/// What bodies really did, in order; the engine never sees it.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    pub fn note(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    pub fn notes(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// All notes so far, which are forgotten.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    pub fn count(&self, what: &str) -> usize {
        self.0.lock().iter().filter(|note| *note == what).count()
    }
}

/// For stories that count what code does outside of its steps: it is called once, and not replayed to see that it repeats
/// itself.
pub fn once(app: Outlast) -> Outlast {
    app.settings(|settings| settings.verify = 0)
}

pub struct Lab {
    pub world: World,
    pub ledger: Ledger,
    warm: usize,
    test: Option<Test>,
}

impl Lab {
    pub async fn new(kind: StoreKind, shards: u16, warm: usize) -> Lab {
        // `OUTLAST_TEST_LOG=1` shows what the engine says.
        if std::env::var_os("OUTLAST_TEST_LOG").is_some() {
            let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).try_init();
        }
        Lab { world: World::open(kind, shards).await, ledger: Ledger::default(), warm, test: None }
    }

    /// How many waiting runs an engine of this story keeps warm.
    pub fn warm(&self) -> usize {
        self.warm
    }

    /// Starts an engine; a second call without [`Lab::kill`] is a second start.
    pub async fn start(&mut self, with: impl FnOnce(Outlast) -> Outlast) {
        let warm = self.warm;
        let ledger = self.ledger.clone();
        let test = testing::start_on(self.world.store().clone(), |app| {
            with(app.state(ledger).settings(|settings| settings.warm = warm))
        });
        self.test = Some(test.await.expect("the engine starts"));
    }

    /// The process dies: nothing is handed back. Its lease ends as time passes.
    pub async fn kill(&mut self) {
        if let Some(test) = self.test.take() {
            test.kill().await;
        }
        self.world.store().clock().advance(Duration::from_secs(60));
    }

    /// The process dies and another starts.
    pub async fn restart(&mut self, with: impl FnOnce(Outlast) -> Outlast) {
        self.kill().await;
        self.start(with).await;
    }

    /// Another engine takes the place of this one, which goes on beside it.
    pub fn replace(&mut self, test: Test) -> Test {
        self.test.replace(test).expect("an engine was started")
    }

    pub fn test(&self) -> &Test {
        self.test.as_ref().expect("an engine was started")
    }

    pub fn app(&self) -> &App {
        self.test().app()
    }

    pub async fn advance(&self, by: Duration) {
        self.test().advance(by).await.expect("time passes");
    }

    /// Until nothing is due and nothing runs.
    pub async fn settle(&self) {
        self.test().settle().await.expect("the engine settles");
    }

    /// Until `holds`, or the test fails after half a minute.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, holds: impl Fn() -> F) {
        let waits = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waits).await.unwrap_or_else(|_| panic!("never {what}"));
    }
}

/// A story that takes longer waits for something that will not come: most take a few hundredths of it.
const LIMIT: Duration = Duration::from_secs(60);

/// Lets a story happen that fails when it never ends.
pub async fn bounded(story: impl Future<Output = ()>) {
    let told = tokio::time::timeout(LIMIT, story).await;
    told.unwrap_or_else(|_| panic!("the story has not ended after {LIMIT:?}"));
}

/// A story that is told on SQLite and PostgreSQL, with waiting runs kept warm and with every turn replayed.
#[macro_export]
macro_rules! engine_test {
    ($(async fn $name:ident($lab:ident: Lab) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            #[allow(unused_mut)]
            async fn story(mut $lab: $crate::harness::Lab) $body

            async fn tell(kind: outlast_testkit::StoreKind, shards: u16, warm: usize) {
                $crate::harness::bounded(async {
                    story($crate::harness::Lab::new(kind, shards, warm).await).await;
                }).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite_warm() {
                tell(outlast_testkit::StoreKind::Sqlite, 1, 100).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite_cold_with_four_shards() {
                tell(outlast_testkit::StoreKind::Sqlite, 4, 0).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres_warm_with_four_shards() {
                if !outlast_testkit::skipped() {
                    tell(outlast_testkit::StoreKind::Postgres, 4, 100).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres_cold() {
                if !outlast_testkit::skipped() {
                    tell(outlast_testkit::StoreKind::Postgres, 1, 0).await;
                }
            }
        }
    )*};
}
