//! A server that really listens, over an engine that really runs, and requests as programs send them.

use std::sync::Once;
use std::time::Duration;

use outlast::prelude::*;
use outlast_server::http::{Api, serve};
use outlast_store::Clock;
use outlast_testkit::{StoreKind, World};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// An engine with a few definitions, and its API.
pub(crate) struct Lab {
    pub(crate) app: App,
    pub(crate) world: World,
    pub(crate) url: String,
    /// The same API without tokens, by which a test makes some.
    open_url: String,
    http: reqwest::Client,
    stopping: CancellationToken,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Told {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The code of a problem, which has to be a whole document.
    pub(crate) fn code(&self) -> String {
        let problem = self.json();
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        assert_eq!(problem["status"], self.status.as_u16(), "{self:?}");
        assert_eq!(problem["request_id"], self.headers["x-request-id"].to_str().unwrap());
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 5), "{self:?}");
        let code = problem["code"].as_str().unwrap().to_owned();
        assert!(problem["type"].as_str().is_some_and(|kind| kind.ends_with(&format!("#{code}"))), "{self:?}");
        assert!(problem["instance"].as_str().is_some_and(|path| path.starts_with('/')), "{self:?}");
        code
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn greet(ctx: Ctx, name: String) -> Result<String, AnyError> {
    Ok(ctx.step("greet", |_| async { Ok::<_, AnyError>(format!("Hello, {name}!")) }).await?)
}

async fn approve(ctx: Ctx, _: Value) -> Result<Value, AnyError> {
    ctx.step("ask", |_| async { Ok::<_, AnyError>("asked".to_owned()) }).await?;
    Ok(ctx.event::<Value>("approval").await?)
}

async fn talk(ctx: Ctx, _: Value) -> Result<(), AnyError> {
    ctx.step("first", |_| async {
        tracing::info!("one");
        Ok::<_, AnyError>(())
    })
    .await?;
    ctx.event::<Value>("more").await?;
    ctx.step("second", |_| async {
        tracing::warn!("two");
        Ok::<_, AnyError>(())
    })
    .await?;
    Ok(())
}

/// Logs so many lines, and one more when it is told to.
async fn chatter(ctx: Ctx, lines: u64) -> Result<(), AnyError> {
    ctx.step("many", |_| async move {
        (1..=lines).for_each(|line| tracing::info!(line, "on and on"));
        Ok::<_, AnyError>(())
    })
    .await?;
    ctx.event::<Value>("more").await?;
    tracing::info!("one more");
    Ok(())
}

/// Saves how far it is, and again whenever it is told something; starts over when it is told to.
async fn counts(ctx: Ctx, _: Value) -> Result<(), AnyError> {
    let last = ctx.scope("last");
    loop {
        let count = ctx.saved::<u64>("count")?.unwrap_or_default();
        last.save("told", &json!({ "password": "s", "count": count }))?;
        ctx.save("count", &(count + 1))?;
        if ctx.event::<String>("next").await? == "anew" {
            return ctx.continue_as_new(Value::Null).await;
        }
    }
}

async fn promised(ctx: Ctx, _: Value) -> Result<Value, AnyError> {
    Ok(ctx.promise::<Value>("paid").await?)
}

/// Can be undone from its first step on, and is as soon as it is told that it comes to nothing.
async fn revert(ctx: Ctx, _: Value) -> Result<(), AnyError> {
    let book = ctx.step("book", |_| async { Ok::<_, AnyError>(7) });
    book.undo(|_, _: u64| async { Ok::<_, AnyError>(()) }).await?;
    ctx.event::<Value>("over").await?;
    Err(AnyError::new("it came to nothing"))
}

/// Comes as far as its step.
async fn broken(ctx: Ctx, _: Value) -> Result<(), AnyError> {
    let charge = ctx.step("charge", |_| async { Err::<(), _>(AnyError::new("the card was declined")) });
    Ok(charge.retry(Retry::times(1)).await?)
}

/// Comes to its second step, and stays there.
async fn stays(ctx: Ctx, _: Value) -> Result<(), AnyError> {
    ctx.step("ask", |_| async { Ok::<_, AnyError>(()) }).await?;
    Ok(ctx.step("wait", |_| std::future::pending::<Result<(), AnyError>>()).await?)
}

/// Two steps at once; each lets two seconds pass, the second when the first has ended.
async fn together(ctx: Ctx, _: Value) -> Result<(), AnyError> {
    let (clock, over) = (ctx.state::<Clock>(), Notify::new());
    let first = async {
        let first = ctx.step("first", |_| pass(&clock)).await;
        over.notify_one();
        first
    };
    let second = ctx.step("second", |_| async {
        over.notified().await;
        pass(&clock).await
    });
    let (first, second) = tokio::join!(first, second);
    first?;
    Ok(second?)
}

async fn pass(clock: &Clock) -> Result<(), AnyError> {
    clock.advance(Duration::from_secs(2));
    Ok(())
}

async fn keeps(_job: JobCtx, _: Value) -> Result<(), AnyError> {
    Ok(())
}

async fn fail(_job: JobCtx, why: String) -> Result<(), AnyError> {
    Err(AnyError::new(why))
}

impl Lab {
    /// On SQLite, without tokens.
    pub(crate) async fn open() -> Lab {
        Lab::with(StoreKind::Sqlite, |api| api.without_tokens()).await
    }

    /// On SQLite, where every request needs a token.
    pub(crate) async fn guarded() -> Lab {
        Lab::with(StoreKind::Sqlite, |api| api).await
    }

    pub(crate) async fn with(kind: StoreKind, change: impl FnOnce(Api) -> Api) -> Lab {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
            // What handlers log is kept with their runs.
            let _ = tracing_subscriber::registry().with(outlast::RunLogs::default()).try_init();
        });
        let world = World::open(kind, 1).await;
        let nightly = |tenant: &str, name: &str| Schedule::cron(name, "0 3 * * *").tenant(tenant);
        let greet = Workflow::new("greet", greet);
        let app = Outlast::on(world.store().clone())
            .workflow(greet.clone())
            .workflow(Workflow::new("approve", approve))
            .workflow(Workflow::new("counts", counts))
            .workflow(Workflow::new("promised", promised))
            .workflow(Workflow::new("talk", talk))
            .workflow(Workflow::new("chatter", chatter))
            .workflow(Workflow::new("revert", revert))
            .workflow(Workflow::new("stays", stays))
            .workflow(Workflow::new("together", together))
            .state(world.store().clock().clone())
            .workflow(Workflow::new("broken", broken))
            .workflow(Workflow::new("broken", broken).version(2))
            .job(
                Job::new("keeps", keeps).retention(Retention::forever().completed(Duration::from_secs(3600))),
            )
            .job(Job::new("fail", fail).retry(Retry::times(1)).queue("mail"))
            .queue(Queue::new("mail").limit(5))
            .schedule(nightly("acme", "nightly-acme"), &greet, "acme".to_owned())
            .schedule(nightly("globex", "nightly-globex"), &greet, "globex".to_owned())
            .run()
            .await
            .unwrap();
        let stopping = CancellationToken::new();
        let api = change(Api::new(app.client().clone())).stopping(stopping.clone());
        let url = listen(api, &stopping).await;
        let open_url = listen(Api::new(app.client().clone()).without_tokens(), &stopping).await;
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Lab { app, world, url, open_url, http, stopping }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.http.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> Told {
        told(self.request("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Told {
        told(with_json(self.request("POST", path), body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Told {
        told(with_json(self.request("PUT", path), body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Told {
        told(self.request("DELETE", path)).await
    }

    /// Starts a run that has to be new; gives its id.
    pub(crate) async fn start(&self, body: &str) -> String {
        let told = self.post("/api/v1/runs", body).await;
        assert_eq!(told.status, 201, "{told:?}");
        told.json()["id"].as_str().unwrap().to_owned()
    }

    /// The end of a run.
    pub(crate) async fn result(&self, run: &str) -> Value {
        let told = self.get(&format!("/api/v1/runs/{run}/result?wait=60s")).await;
        assert_eq!(told.status, 200, "{told:?}");
        told.json()
    }

    /// Waits until a run is in a status.
    pub(crate) async fn until(&self, run: &str, status: &str) {
        let mut signals = self.app.store().signals();
        for _ in 0..600 {
            if self.get(&format!("/api/v1/runs/{run}")).await.json()["status"] == status {
                return;
            }
            let _ = tokio::time::timeout(Duration::from_millis(100), signals.recv()).await;
        }
        panic!("{run} is not {status}");
    }

    /// Waits until these runs wait for something, as somebody who may see them.
    pub(crate) async fn until_waiting(&self, secret: &str, runs: &[&str]) {
        for run in runs {
            let path = format!("/api/v1/runs/{run}");
            for _ in 0..600 {
                let view = told(self.request("GET", &path).bearer_auth(secret)).await.json();
                if view["status"] == "waiting" {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// A token that was made in the database; gives its secret.
    pub(crate) async fn token(&self, role: &str, tenant: Option<&str>) -> String {
        self.token_of(&json!({ "subject": role, "role": role, "tenant": tenant })).await
    }

    /// A token that is bound to queues; gives its secret.
    pub(crate) async fn bound(&self, role: &str, queues: &[&str]) -> String {
        self.token_of(&json!({ "subject": role, "role": role, "queues": queues })).await
    }

    async fn token_of(&self, body: &Value) -> String {
        let ask = self.http.post(format!("{}/api/v1/tokens", self.open_url));
        let made = told(with_json(ask, &body.to_string())).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["secret"].as_str().unwrap().to_owned()
    }

    /// Has streams and long polls end, as a stop of the server does.
    pub(crate) fn stop(&self) {
        self.stopping.cancel();
    }
}

pub(crate) async fn listen(api: Api, stopping: &CancellationToken) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener, api.router().await.unwrap(), stopping.clone()));
    url
}

pub(crate) fn with_json(request: reqwest::RequestBuilder, body: &str) -> reqwest::RequestBuilder {
    request.header("content-type", "application/json").body(body.to_owned())
}

pub(crate) async fn told(request: reqwest::RequestBuilder) -> Told {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    Told { status, headers, text: answer.text().await.unwrap() }
}
