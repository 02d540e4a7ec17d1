//! The users' drivers made alike: a world with an engine and a table, and a transaction of whichever driver.

use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast::{KvCall, RunHandle, Target};
use outlast_testkit::{StoreKind, World};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

/// Whose transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Sqlx,
    TokioPostgres,
    Rusqlite,
}

/// A world, an engine in it that looks for work only when told, and a user with a table.
pub struct Lab {
    pub driver: Driver,
    pub world: World,
    pub app: App,
    pub gate: Arc<Notify>,
    pub lent: Mutex<mpsc::UnboundedReceiver<JobCtx>>,
}

/// A user's transaction.
pub enum Own {
    Sqlx(sqlx::Transaction<'static, sqlx::Postgres>),
    TokioPostgres(tokio_postgres::Transaction<'static>),
    /// With `begin immediate` sent.
    Rusqlite(rusqlite::Connection),
}

pub fn double() -> Workflow<u32, u32, AnyError> {
    Workflow::new("double", |ctx: Ctx, n: u32| async move {
        Ok(ctx.step("double", |_| async move { Ok::<u32, AnyError>(2 * n) }).await?)
    })
}

pub fn listen() -> Workflow<(), u32, AnyError> {
    Workflow::new("listen", |ctx: Ctx, ()| async move { Ok(ctx.event::<u32>("go").await?) })
}

pub fn trust() -> Workflow<(), u32, AnyError> {
    Workflow::new("trust", |ctx: Ctx, ()| async move { Ok(ctx.promise::<u32>("paid").await?) })
}

/// Waits inside a step until the test lets it go, then for an event.
pub fn work() -> Workflow<(), u32, AnyError> {
    Workflow::new("work", |ctx: Ctx, ()| async move {
        let gate = ctx.state::<Arc<Notify>>();
        ctx.step("work", |_| async {
            gate.notified().await;
            Ok::<(), AnyError>(())
        })
        .await?;
        Ok(ctx.event::<u32>("go").await?)
    })
}

/// Lends what completes it to the test, and returns when the test lets it go.
pub fn lend() -> Job<(), String, AnyError> {
    Job::new("lend", |job: JobCtx, ()| async move {
        job.state::<mpsc::UnboundedSender<JobCtx>>().send(job.clone())?;
        job.state::<Arc<Notify>>().notified().await;
        Ok("by its handler".to_owned())
    })
}

impl Lab {
    pub async fn new(driver: Driver, world: World) -> Lab {
        let gate = Arc::new(Notify::new());
        let (lends, lent) = mpsc::unbounded_channel::<JobCtx>();
        let app = Outlast::on(world.store().clone())
            .settings(|settings| settings.poll_every = Duration::from_secs(3600))
            .state(gate.clone())
            .state(lends)
            .job(lend())
            .workflow(double())
            .workflow(listen())
            .workflow(trust())
            .workflow(work());
        let app = app.run().await.expect("the engine starts");
        world.raw("create table orders (id bigint primary key)").await;
        Lab { driver, world, app, gate, lent: Mutex::new(lent) }
    }

    pub async fn begin(&self) -> Own {
        begin(self.driver, self.world.url()).await
    }

    /// How many orders others see.
    pub async fn orders(&self) -> i64 {
        let count = "select count(*) from orders";
        match self.world.kind() {
            // Not through the store, which would wait for whoever writes.
            StoreKind::Sqlite => file(self.world.url()).query_row(count, [], |row| row.get(0)).unwrap(),
            StoreKind::Postgres => self.world.count(count).await,
        }
    }

    /// A run that waits for what the story is about.
    pub async fn waiting<D: outlast::Definition<Input = ()>>(&self, flow: D) -> RunHandle<D> {
        let run = self.app.start(flow, ()).await.expect("a run starts");
        self.until(run.id(), Status::Waiting).await;
        run
    }

    /// A job that runs, with what completes it.
    pub async fn lends(&self) -> (RunHandle<Job<(), String, AnyError>>, JobCtx) {
        let run = self.app.start(lend(), ()).await.expect("a job starts");
        let job = soon(async { self.lent.lock().await.recv().await }).await.expect("it lends itself");
        (run, job)
    }

    pub async fn until(&self, run: RunId, status: Status) {
        soon(async {
            while self.world.status(run).await != status {
                sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
}

/// Something that needs no look without a hint: those are an hour apart.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), what).await.expect("it happens soon")
}

pub async fn pool(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(2).connect(url).await.expect("sqlx connects")
}

pub async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("tokio-postgres connects");
    tokio::spawn(connection);
    client
}

pub fn file(url: &str) -> rusqlite::Connection {
    let file = url.strip_prefix("sqlite://").expect("a file");
    rusqlite::Connection::open(file).expect("rusqlite opens it")
}

pub async fn begin(driver: Driver, url: &str) -> Own {
    match driver {
        Driver::Sqlx => Own::Sqlx(pool(url).await.begin().await.unwrap()),
        // Leaked, for a transaction that borrows its connection can be kept in no other way.
        Driver::TokioPostgres => {
            let client = Box::leak(Box::new(client(url).await));
            Own::TokioPostgres(client.transaction().await.unwrap())
        }
        Driver::Rusqlite => {
            let connection = file(url);
            let begin = move || connection.execute_batch("begin immediate").map(|()| connection);
            Own::Rusqlite(tokio::task::spawn_blocking(begin).await.unwrap().unwrap())
        }
    }
}

impl Own {
    pub async fn insert(&mut self, order: i64) {
        let sql = "insert into orders (id) values ($1)";
        match self {
            Own::Sqlx(tx) => drop(sqlx::query(sql).bind(order).execute(&mut **tx).await.unwrap()),
            Own::TokioPostgres(tx) => drop(tx.execute(sql, &[&order]).await.unwrap()),
            Own::Rusqlite(tx) => drop(tx.execute(sql, [order]).unwrap()),
        }
    }

    pub async fn start<D: 'static>(&mut self, start: outlast::Start<D>) -> Result<RunHandle<D>, Error> {
        match self {
            Own::Sqlx(tx) => start.in_tx(&mut **tx).await,
            Own::TokioPostgres(tx) => start.in_tx(&*tx).await,
            Own::Rusqlite(tx) => start.in_tx_blocking(tx),
        }
    }

    pub async fn send(&mut self, client: &Client, to: impl Into<Target>, value: u32) -> Result<(), Error> {
        match self {
            Own::Sqlx(tx) => client.send_in_tx(&mut **tx, to, "go", &value).await,
            Own::TokioPostgres(tx) => client.send_in_tx(&*tx, to, "go", &value).await,
            Own::Rusqlite(tx) => client.send_in_tx_blocking(tx, to, "go", &value),
        }
    }

    pub async fn settle(&mut self, client: &Client, of: impl Into<Target>, value: u32) -> Result<(), Error> {
        match self {
            Own::Sqlx(tx) => client.settle_in_tx(&mut **tx, of, "paid", &value).await,
            Own::TokioPostgres(tx) => client.settle_in_tx(&*tx, of, "paid", &value).await,
            Own::Rusqlite(tx) => client.settle_in_tx_blocking(tx, of, "paid", &value),
        }
    }

    pub async fn cancel(&mut self, client: &Client, run: impl Into<Target>) -> Result<bool, Error> {
        match self {
            Own::Sqlx(tx) => client.cancel_in_tx(&mut **tx, run, "enough").await,
            Own::TokioPostgres(tx) => client.cancel_in_tx(&*tx, run, "enough").await,
            Own::Rusqlite(tx) => client.cancel_in_tx_blocking(tx, run, "enough"),
        }
    }

    pub async fn complete(&mut self, job: &JobCtx, output: &str) -> Result<(), Error> {
        match self {
            Own::Sqlx(tx) => job.complete_in(&mut **tx, &output).await,
            Own::TokioPostgres(tx) => job.complete_in(&*tx, &output).await,
            Own::Rusqlite(tx) => job.complete_in_blocking(tx, &output),
        }
    }

    pub async fn kv<T>(&mut self, call: KvCall<T>) -> Result<T, Error> {
        match self {
            Own::Sqlx(tx) => call.in_tx(&mut **tx).await,
            Own::TokioPostgres(tx) => call.in_tx(&*tx).await,
            Own::Rusqlite(tx) => call.in_tx_blocking(tx),
        }
    }

    pub async fn commit(self) {
        match self {
            Own::Sqlx(tx) => tx.commit().await.unwrap(),
            Own::TokioPostgres(tx) => tx.commit().await.unwrap(),
            Own::Rusqlite(tx) => tx.execute_batch("commit").unwrap(),
        }
    }

    pub async fn roll_back(self) {
        match self {
            Own::Sqlx(tx) => tx.rollback().await.unwrap(),
            Own::TokioPostgres(tx) => tx.rollback().await.unwrap(),
            Own::Rusqlite(tx) => tx.execute_batch("rollback").unwrap(),
        }
    }
}
