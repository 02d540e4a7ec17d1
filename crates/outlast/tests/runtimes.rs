//! Callers with a runtime of their own, which may end: the runs that they started or woke go on, and so do
//! those who wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use outlast::prelude::*;
use outlast_testkit::{StoreKind, World};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

/// Works for a moment, waits for an event, works again.
fn flow() -> Workflow<u32, u32, AnyError> {
    Workflow::new("flow", |ctx: Ctx, n: u32| async move {
        let work = |_| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok::<(), AnyError>(())
        };
        ctx.step("before", work).await?;
        let more = ctx.event::<u32>("go").await?;
        ctx.step("after", work).await?;
        Ok::<u32, AnyError>(n + more)
    })
}

/// Does something on a runtime that ends at once.
fn briefly<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn opened(url: &str) -> (Runtime, outlast::App) {
    let home = Runtime::new().unwrap();
    let open = async { Outlast::open(url).await?.workflow(flow()).run().await };
    let app = home.block_on(open).unwrap();
    (home, app)
}

async fn is_waiting(run: &outlast::RunHandle<Workflow<u32, u32, AnyError>>) {
    while run.status().await.unwrap().status != Status::Waiting {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn a_run_goes_on_when_the_runtime_that_started_it_ends() {
    let (home, app) = opened("sqlite::memory:");
    let run = briefly(app.start(flow(), 1).into_future()).unwrap();
    home.block_on(async {
        timeout(LONG, is_waiting(&run)).await.expect("its first step is done");
        run.send("go", &2_u32).await.unwrap();
        assert_eq!(timeout(LONG, run.result()).await.expect("it ends").unwrap(), 3);
    });
}

#[test]
fn a_run_goes_on_when_the_runtime_that_woke_it_ends() {
    let (home, app) = opened("sqlite::memory:");
    let run = home.block_on(async {
        let run = app.start(flow(), 1).await.unwrap();
        timeout(LONG, is_waiting(&run)).await.expect("its first step is done");
        run
    });
    briefly(run.send("go", &2_u32)).unwrap();
    let ended = home.block_on(async { timeout(LONG, run.result()).await.expect("it ends") });
    assert_eq!(ended.unwrap(), 3);
}

#[test]
fn others_are_told_when_the_runtime_of_the_first_who_waited_ends() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("runs.db").display());
    let (home, app) = opened(&url);
    let run = home.block_on(app.start(flow(), 1).into_future()).unwrap();
    // A client in which nobody else looks for results.
    let client = home.block_on(Outlast::open(&url)).unwrap().client();
    let seen = client.handle(&flow(), run.id());
    briefly(async {
        assert!(timeout(Duration::from_millis(20), seen.result()).await.is_err());
    });
    home.block_on(async {
        timeout(LONG, is_waiting(&run)).await.expect("its first step is done");
        run.send("go", &2_u32).await.unwrap();
        assert_eq!(timeout(LONG, seen.result()).await.expect("they are told").unwrap(), 3);
    });
}

/// Its body keeps its thread to itself until it is let go.
fn computing(
    begun: Arc<AtomicU32>,
    tell: mpsc::Sender<()>,
    go: mpsc::Receiver<()>,
) -> Workflow<(), (), AnyError> {
    let go = Arc::new(Mutex::new(go));
    Workflow::new("computing", move |ctx: Ctx, ()| {
        let (begun, tell, go) = (begun.clone(), tell.clone(), go.clone());
        async move {
            let body = move |_| {
                let (begun, tell, go) = (begun.clone(), tell.clone(), go.clone());
                async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    let _ = tell.send(());
                    let _ = go.lock().unwrap().recv_timeout(LONG);
                    Ok::<(), AnyError>(())
                }
            };
            ctx.step("compute", body).await?;
            Ok::<(), AnyError>(())
        }
    })
}

#[test]
fn a_handler_that_computes_without_a_pause_does_not_cost_its_node_the_lease() {
    if outlast_testkit::skipped() {
        return;
    }
    const LEASE: Duration = Duration::from_secs(1);
    let (home, other) =
        (Builder::new_current_thread().enable_all().build().unwrap(), Runtime::new().unwrap());
    let world = other.block_on(World::open(StoreKind::Postgres, 1));
    let (tell, told) = mpsc::channel();
    let (let_go, go) = mpsc::channel();
    let begun = Arc::new(AtomicU32::new(0));
    let flow = computing(begun.clone(), tell, go);
    let node = |name: &'static str| {
        let (url, flow) = (world.url().to_owned(), flow.clone());
        async move {
            let app = Outlast::open(&url).await?.workflow(flow).settings(|settings| {
                settings.name = name.into();
                (settings.lease, settings.renew_every) = (LEASE, LEASE / 10);
            });
            app.run().await
        }
    };
    let busy = home.block_on(node("busy")).unwrap();
    let run = home.block_on(busy.start(flow.clone(), ()).into_future()).unwrap();
    let watching = other.block_on(node("watching")).unwrap();
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| home.block_on(async { timeout(LONG, run.result()).await }));
        told.recv_timeout(LONG).expect("the body begins");
        other.block_on(async {
            let now = async || world.store().now().await.unwrap();
            let began = now().await;
            while now().await.since(began) < 2 * LEASE {
                watching.store().next_due().await.unwrap();
            }
        });
        let_go.send(()).unwrap();
        ended.join().unwrap().expect("it ends").expect("it succeeds");
    });
    assert_eq!(begun.load(Ordering::SeqCst), 1, "nobody else began it");
}
