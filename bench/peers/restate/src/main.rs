//! Measures Restate: a server with a log of its own, which calls the service in this program for
//! every invocation and takes each step's result back over the same stream.
//!
//! The server is the npm package `@restatedev/restate-server` in this folder (`npm ci`). This
//! program starts it in a folder of its own, registers the service, and ends it.
//!
//! Settings, and why:
//! - The log's fsync stays on, as it is by default: durable like the others.
//! - 4,000 invocations at once instead of 1,000, or half of the 2,000 timers would wait for the
//!   other half to end rather than for their time.
//! - 4 partitions instead of 24, as each is a thread's worth of work and there are few cores.
//! - Both directions speak HTTP/2 over connections that are kept, with TCP_NODELAY.
//! - A plain service rather than a workflow, which would add a key and state that nobody asked for.

use std::{
    collections::HashMap,
    net::TcpListener as StdListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use peer_common::{About, Bench, Landings, OWN, Tally, closed_loop, millis, one_by_one, until};
use restate_sdk::{
    ingress::{Client, RequestExecutor},
    prelude::*,
};
use tokio::net::TcpListener;

fn main() {
    let lock = include_str!("../Cargo.lock");
    peer_common::run(About { name: "sdk", package: "restate-sdk", lock, stores: &[OWN] }, measure);
}

static RAN: Tally = Tally::new();
static LANDINGS: Landings = Landings::new();
/// The awakeable each waiting run asked to be woken by.
static WAITING: Mutex<Option<HashMap<u64, String>>> = Mutex::new(None);

struct Peer;

#[restate_sdk::service]
impl Peer {
    #[handler]
    async fn job(&self, _ctx: Context<'_>, number: u64) -> HandlerResult<()> {
        RAN.add();
        LANDINGS.land(number);
        Ok(())
    }

    #[handler]
    async fn steps(&self, ctx: Context<'_>, count: u64) -> HandlerResult<()> {
        for _ in 0..count {
            ctx.run(|| async { Ok(()) }).name("nothing").await?;
        }
        Ok(())
    }

    #[handler]
    async fn waits(&self, ctx: Context<'_>, number: u64) -> HandlerResult<()> {
        let (id, event) = ctx.awakeable::<u64>();
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(number, id);
        event.await?;
        LANDINGS.land(number);
        Ok(())
    }

    #[handler]
    async fn sleeps(&self, ctx: Context<'_>, timer: Json<(u64, i64)>) -> HandlerResult<()> {
        let (number, due) = timer.into_inner();
        RAN.add();
        ctx.sleep(until(due)).await?;
        LANDINGS.land(number);
        Ok(())
    }
}

async fn measure(bench: Bench) -> Result<()> {
    let bench = bench.after(&format!("restate {}, ", server_version()?));
    let server = Server::start().await?;
    if bench.wants("W1") {
        jobs(&bench, &server).await?;
    }
    if bench.wants("W2") {
        steps(&bench, &server).await?;
    }
    if bench.wants("W3") {
        start_to_result(&bench, &server).await?;
    }
    if bench.wants("W4") {
        events(&bench, &server).await?;
    }
    if bench.wants("W5") {
        timers(&bench, &server).await?;
    }
    Ok(())
}

async fn jobs(bench: &Bench, server: &Server) -> Result<()> {
    bench.cannot("W1", "bulk enqueue", "jobs/s", "the ingress takes one invocation a request");

    let most = bench.pick(20_000, 4_000);
    let (sent, _) = send_jobs(server, 16, most, bench.budget()).await?;
    let note = "jobs run as soon as they are sent, so enqueueing and draining share the machine";
    bench.row("W1", "enqueue one by one, 16 tasks", 16, sent, "jobs/s", note);

    // No backlog can be built, so as many come in at once as the workers of other peers take.
    let (_, drained) = send_jobs(server, 256, most, bench.budget()).await?;
    bench.row("W1", "drain", 256, drained, "jobs/s", note);
    Ok(())
}

/// How many jobs a second were taken in, and how many ran.
async fn send_jobs(server: &Server, tasks: usize, most: usize, budget: Duration) -> Result<(f64, f64)> {
    RAN.clear();
    let peer = server.peer.clone();
    let begin = Instant::now();
    let pace = closed_loop(tasks, most, budget, move |number| {
        let peer = peer.clone();
        async move {
            peer.job(number as u64).send().await?;
            Ok(())
        }
    })
    .await?;
    RAN.reach(pace.done, Duration::from_secs(60)).await?;
    Ok((pace.per_second(), pace.done as f64 / begin.elapsed().as_secs_f64()))
}

async fn steps(bench: &Bench, server: &Server) -> Result<()> {
    for &level in bench.levels() {
        let peer = server.peer.clone();
        let pace = closed_loop(level, bench.runs(), bench.budget(), move |_| {
            let peer = peer.clone();
            async move {
                peer.steps(10).call().await?.into_body()?;
                Ok(())
            }
        })
        .await?;
        bench.row("W2", "", level, pace.per_second() * 10.0, "steps/s", &format!("{} runs", pace.done));
    }
    Ok(())
}

async fn start_to_result(bench: &Bench, server: &Server) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |_| {
        let begin = Instant::now();
        server.peer.steps(1).call().await?.into_body()?;
        Ok(begin.elapsed())
    })
    .await?;
    bench.latency("W3", "workflow", samples, "")?;

    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let landing = LANDINGS.expect(number as u64);
        let begin = Instant::now();
        server.peer.job(number as u64).send().await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W3", "job", samples, "")
}

async fn events(bench: &Bench, server: &Server) -> Result<()> {
    let samples = one_by_one(bench.samples(), bench.budget(), async |number| {
        let number = number as u64;
        let landing = LANDINGS.expect(number);
        server.peer.waits(number).send().await?;
        // It must be waiting, or the send would measure its start too.
        let id = loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(id) = waiting.as_mut().and_then(|all| all.remove(&number)) {
                break id;
            }
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        let begin = Instant::now();
        let uri = format!("{}/restate/awakeables/{id}/resolve", server.ingress);
        server.http.post(&uri, Bytes::from_static(b"1")).await?;
        landing.after(begin).await
    })
    .await?;
    bench.latency("W4", "send to continuation", samples, "")
}

async fn timers(bench: &Bench, server: &Server) -> Result<()> {
    const TIMERS: usize = 2_000;
    RAN.clear();
    let due = SystemTime::now() + bench.lead();
    let landings: Vec<_> = (0..TIMERS as u64).map(|number| LANDINGS.expect(number)).collect();
    let (peer, due_at) = (server.peer.clone(), millis(due));
    let pace = closed_loop(64, TIMERS, bench.lead(), move |number| {
        let peer = peer.clone();
        async move {
            peer.sleeps(Json((number as u64, due_at))).send().await?;
            Ok(())
        }
    })
    .await?;
    if bench.too_few_timers(pace.done, TIMERS) {
        return Ok(());
    }
    RAN.reach(TIMERS, Duration::from_secs(30)).await?;
    let set = SystemTime::now();

    let mut fired = Vec::with_capacity(TIMERS);
    for landing in landings {
        fired.push(landing.at(bench.lead() + Duration::from_secs(30)).await?);
    }
    bench.lateness(due, fired, set, "")
}

/// A server with our service registered.
struct Server {
    peer: Arc<PeerIngressClient<Http>>,
    http: Http,
    ingress: String,
}

impl Server {
    async fn start() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("peer-restate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let log = std::fs::File::create(folder.join("server.log")).context("creating the server's log")?;

        let service = TcpListener::bind("127.0.0.1:0").await.context("binding the service")?;
        let (service_at, ports) = (service.local_addr()?, free_ports::<3>()?);
        let [ingress, admin, node] = ports.map(|port| format!("127.0.0.1:{port}"));
        let endpoint = Endpoint::builder().bind(Peer).build();
        tokio::spawn(HttpServer::new(endpoint).serve(service));

        let child = Command::new(server_binary()?)
            .args(["--no-logo", "--node-name", "peer", "--listen-mode", "tcp", "--base-dir"])
            .arg(&folder)
            .env("RESTATE_INGRESS__BIND_ADDRESS", &ingress)
            .env("RESTATE_ADMIN__BIND_ADDRESS", &admin)
            .env("RESTATE_BIND_ADDRESS", &node)
            .env("RESTATE_ADVERTISED_ADDRESS", format!("http://{node}"))
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
            .env("RESTATE_WORKER__INVOKER__CONCURRENT_INVOCATIONS_LIMIT", "4000")
            .env("RESTATE_LOG_FILTER", "warn")
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing the server's log")?)
            .stderr(log)
            .spawn()
            .context("starting restate-server")?;
        peer_common::adopt(child, folder.clone());

        let http = Http::new();
        let (ingress, admin) = (format!("http://{ingress}"), format!("http://{admin}"));
        let register = format!(r#"{{"uri":"http://{service_at}/"}}"#);
        let begin = Instant::now();
        loop {
            let registered = http.post(&format!("{admin}/deployments"), register.clone().into()).await;
            let healthy = http.send(Method::GET, &format!("{ingress}/restate/health"), Bytes::new()).await;
            match registered.and(healthy) {
                Ok(_) => break,
                Err(error) if begin.elapsed() > Duration::from_secs(40) => {
                    let said = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
                    bail!("the server did not come up: {error:#}\n{said}");
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
        let client = Client::new(ingress.parse::<Uri>()?, http.clone())?;
        let server = Server { peer: Arc::new(PeerIngressClient::from_client(client)), http, ingress };

        // The first invocations meet partitions that have no leader yet.
        let begin = Instant::now();
        while let Err(error) = server.peer.steps(1).call().await {
            if begin.elapsed() > Duration::from_secs(40) {
                return Err(error).context("the first invocation");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(server)
    }
}

/// The program itself, not its starter in Node, which would leave it behind when killed.
fn server_binary() -> Result<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("node_modules/@restatedev");
    let packages =
        std::fs::read_dir(&modules).context("no restate-server; run `npm ci` in bench/peers/restate")?;
    for package in packages {
        let binary = package?.path().join("bin/restate-server");
        if binary.is_file() {
            return Ok(binary);
        }
    }
    bail!("no restate-server for this machine in {}", modules.display())
}

fn server_version() -> Result<String> {
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("node_modules/@restatedev/restate-server/package.json");
    let text = std::fs::read_to_string(manifest)
        .context("no restate-server; run `npm ci` in bench/peers/restate")?;
    let package: serde_json::Value =
        serde_json::from_str(&text).context("reading restate-server's package.json")?;
    Ok(package["version"].as_str().unwrap_or("of unknown version").to_owned())
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held until all are known, so that none is named twice.
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = StdListener::bind("127.0.0.1:0").context("looking for a free port")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// HTTP/2 without TLS, for the SDK's ingress client and for what it does not cover.
#[derive(Clone)]
struct Http(Hyper<HttpConnector, Full<Bytes>>);

impl Http {
    fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Http(Hyper::builder(TokioExecutor::new()).http2_only(true).build(connector))
    }

    async fn post(&self, uri: &str, body: Bytes) -> Result<()> {
        self.send(Method::POST, uri, body).await
    }

    async fn send(&self, method: Method, uri: &str, body: Bytes) -> Result<()> {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/json")
            .body(body)
            .with_context(|| format!("asking {uri}"))?;
        let response = self.execute(request).await.with_context(|| format!("asking {uri}"))?;
        if !response.status().is_success() {
            bail!("{uri} answered {}: {}", response.status(), String::from_utf8_lossy(response.body()));
        }
        Ok(())
    }
}

impl RequestExecutor for Http {
    type Error = std::io::Error;

    async fn execute(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Self::Error> {
        let response = self.0.request(request.map(Full::new)).await.map_err(std::io::Error::other)?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
}
