//! `outlast serve`: the HTTP API of a database, and the work that needs no code of its users.
//!
//! Refuses a schema that is not this version's, and any address but this machine's while nobody has a token.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use outlast::{App, Client, Outlast};
use outlast_store::StoreError;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Program;
use crate::cli::{ServeArgs, ServeRole};
use crate::database::Place;
use crate::dev::{StopSignals, keep_logs};
use crate::fault::{Exit, Fault};
use crate::http::{self, Api, Tls};
use crate::output::{Format, call, note, print};

/// The port when nobody says otherwise.
const PORT: u16 = 7777;
/// How often it is looked whether a certificate has changed.
const FRESH_EVERY: Duration = Duration::from_secs(60);
/// How long work in hand gets to finish.
const GRACE: Duration = Duration::from_secs(10);

/// Where to listen, and for whom.
pub(crate) struct Listen {
    first: SocketAddr,
    /// Where to, if that is taken.
    second: Option<SocketAddr>,
    hosts: Vec<String>,
    is_insecure: bool,
    tls: Option<Tls>,
    /// Where the metrics have an address of their own.
    metrics: Option<SocketAddr>,
    keep_audit: Option<Duration>,
    pace: Option<u32>,
}

impl Listen {
    /// On this machine alone: on the port that was named, or else on the usual one or any that is free.
    pub(crate) fn dev(port: Option<u16>) -> Listen {
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let second = port.is_none().then(|| local(0));
        Listen {
            first: local(port.unwrap_or(PORT)),
            second,
            hosts: Vec::new(),
            is_insecure: false,
            tls: None,
            metrics: None,
            keep_audit: None,
            pace: None,
        }
    }
}

/// An address that is taken and may be served: nobody is answered yet.
pub(crate) struct Bound {
    listener: TcpListener,
    needs_tokens: bool,
    hosts: Option<Vec<String>>,
    tls: Option<Tls>,
    metrics: Option<TcpListener>,
    keep_audit: Option<Duration>,
    #[cfg(feature = "embed")]
    ui_proxy: Option<String>,
    pace: Option<u32>,
}

impl Bound {
    /// Takes the dashboard from there.
    #[cfg(feature = "embed")]
    pub(crate) fn ui_proxy(mut self, url: Option<String>) -> Bound {
        self.ui_proxy = url;
        self
    }

    /// Takes an address, or refuses one that others can reach while nobody has a token. As soon as there is a token,
    /// tokens are needed.
    pub(crate) async fn new(client: &Client, listen: Listen) -> Result<Bound, Fault> {
        let needs_tokens = http::any_token(client).await?;
        let is_local = listen.first.ip().is_loopback();
        if !is_local && !needs_tokens && !listen.is_insecure {
            let make = call("token create NAME --role admin");
            let message = format!(
                "{} can be reached from other machines, and there is no token: make one with `{make}`",
                listen.first
            );
            return Err(Fault::new(Exit::Conflict, "precondition_failed", message));
        }
        let taken = |address: SocketAddr| {
            move |error: std::io::Error| {
                Fault::new(Exit::Conflict, "conflict", format!("cannot listen on {address}: {error}"))
            }
        };
        let listener = http::bind(listen.first, listen.second).await.map_err(taken(listen.first))?;
        let metrics = match listen.metrics {
            Some(address) => Some(http::bind(address, None).await.map_err(taken(address))?),
            None => None,
        };
        // Beyond this machine, tokens say who may ask, under whatever name.
        let is_named = is_local || !listen.hosts.is_empty();
        let own = listener.local_addr()?.ip().to_string();
        let hosts = http::LOOPBACK.map(str::to_owned).into_iter().chain([own]).chain(listen.hosts);
        Ok(Bound {
            listener,
            needs_tokens,
            hosts: is_named.then(|| hosts.collect()),
            tls: listen.tls,
            metrics,
            keep_audit: listen.keep_audit,
            #[cfg(feature = "embed")]
            ui_proxy: None,
            pace: listen.pace,
        })
    }

    /// Begins to answer.
    pub(crate) async fn serve(self, client: &Client) -> Result<Server, Fault> {
        let Bound { listener, needs_tokens, hosts, tls, metrics: apart, keep_audit, pace, .. } = self;
        let address = listener.local_addr()?;
        let stopping = CancellationToken::new();
        let mut api = Api::new(client.clone()).stopping(stopping.clone());
        if !needs_tokens {
            api = api.without_tokens();
        }
        if let Some(hosts) = hosts {
            api = api.hosts(hosts);
        }
        if let Some(pace) = pace {
            api = api.pace(pace, pace.saturating_mul(2));
        }
        if let Some(keep) = keep_audit {
            api = api.keep_audit(keep);
        }
        if tls.is_some() {
            api = api.secure();
        }
        let metrics = recorder();
        if let Some(metrics) = &metrics {
            api = api.metrics(metrics.clone());
        }
        let metrics_address = apart.as_ref().map(TcpListener::local_addr).transpose()?;
        if let (Some(listener), Some(metrics)) = (apart, metrics) {
            tokio::spawn(http::serve(listener, http::metrics_alone(metrics), stopping.clone()));
        }
        #[cfg(feature = "embed")]
        if let Some(url) = &self.ui_proxy {
            api = api.ui_proxy(url)?;
        }
        let router = api.router().await?;
        let is_secure = tls.is_some();
        let task = match tls {
            None => tokio::spawn(http::serve(listener, router, stopping.clone())),
            Some(tls) => tokio::spawn(serve_fresh(listener, router, tls, stopping.clone())),
        };
        Ok(Server { address, is_secure, needs_tokens, metrics_address, stopping, task })
    }
}

/// Serves with a certificate that is read again when its files change, and when somebody sends a SIGHUP.
async fn serve_fresh(listener: TcpListener, router: Router, tls: Tls, stopping: CancellationToken) {
    let fresh = async {
        let mut hangups = Hangups::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep(FRESH_EVERY) => {}
                () = hangups.next() => {}
            }
            match tls.reload() {
                Ok(true) => note("the certificate has changed: new connections have the new one"),
                Ok(false) => {}
                Err(error) => note(&format!("the certificate stays as it was: {error}")),
            }
        }
    };
    tokio::select! {
        () = http::serve_tls(listener, router, tls.clone(), stopping) => {}
        () = fresh => {}
    }
}

/// What a service manager sends to have files read again.
struct Hangups(#[cfg(unix)] Option<tokio::signal::unix::Signal>);

impl Hangups {
    fn new() -> Hangups {
        #[cfg(unix)]
        return Hangups(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok());
        #[cfg(not(unix))]
        Hangups()
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(hangups) = &mut self.0 {
            hangups.recv().await;
            return;
        }
        std::future::pending().await
    }
}

/// A server that answers.
pub(crate) struct Server {
    address: SocketAddr,
    is_secure: bool,
    metrics_address: Option<SocketAddr>,
    pub(crate) needs_tokens: bool,
    stopping: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    /// Where it is reached.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Answers what has been asked, and nothing more.
    pub(crate) async fn stop(self) {
        self.stopping.cancel();
        let _ = self.task.await;
    }
}

/// What this process measures; nothing where a binary has a recorder of its own.
fn recorder() -> Option<PrometheusHandle> {
    PrometheusBuilder::new().install_recorder().ok()
}

/// Serves until somebody asks it to stop.
pub(crate) async fn serve(
    place: &Place,
    program: &Program,
    args: ServeArgs,
    format: Format,
) -> Result<(), Fault> {
    if format != Format::Text {
        return Err(Fault::usage("`serve` tells what it does as text: leave -o away"));
    }
    keep_logs();
    let mut signals = StopSignals::new()?;
    let tls = match (args.tls_cert, args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::from_files(certificate, key)?),
        _ => None,
    };
    if let Some(tls) = tls.as_ref().filter(|tls| tls.has_open_key()) {
        let file = tls.key_file().display();
        note(&format!("others on this machine can read the key {file}: chmod 600 {file}"));
    }
    let store = place.open_to_serve(args.migrate).await?;
    let listen = Listen {
        first: args.listen,
        second: None,
        hosts: args.hosts,
        is_insecure: args.insecure_no_auth_i_understand,
        tls,
        metrics: args.metrics_listen,
        keep_audit: Some(args.keep_audit),
        pace: Some(args.pace),
    };
    // Whatever stands against it is said before anything is done.
    let bound = Bound::new(&Outlast::on(store.clone()).client(), listen).await?;
    let app = match args.role {
        ServeRole::Api => None,
        // Where another process has the file, that one does the work.
        ServeRole::All => match store.own().await {
            Ok(()) => Some(program.own_code(Outlast::on(store.clone())).run().await?),
            Err(owned @ StoreError::Owned { .. }) => {
                note(&format!("only the API is served: {owned}"));
                None
            }
            Err(error) => return Err(error.into()),
        },
    };
    let client = match &app {
        Some(app) => app.client().clone(),
        None => Outlast::on(store).client(),
    };
    let server = bound.serve(&client).await?;
    print(&format!("outlast serves {} at {}/api/v1", place.shown(), server.url()))?;
    if let Some(metrics) = server.metrics_address {
        print(&format!("metrics are at http://{metrics}/metrics, for whoever reaches it"))?;
    }
    if !server.needs_tokens {
        let make = call("token create NAME --role admin");
        note(&format!("whoever reaches it may do everything: `{make}` and a restart change that"));
    }
    signals.next().await;
    note("stopping: what has begun may finish");
    let stopped = async {
        server.stop().await;
        stop_node(app).await
    };
    tokio::select! {
        stopped = stopped => stopped?,
        () = signals.next() => {
            note("stopped at once; nothing is lost");
            std::process::exit(Exit::Interrupted as i32);
        }
    }
    #[cfg(feature = "otlp")]
    crate::otlp::stop();
    note("stopped");
    Ok(())
}

async fn stop_node(app: Option<App>) -> Result<(), Fault> {
    match app {
        Some(app) => Ok(app.shutdown(GRACE).await?),
        None => Ok(()),
    }
}
