//! `outlast serve`: the HTTP API of a database, and the work that needs no code of its users.
//!
//! Refuses a schema that is not this version's, and any address but this machine's while nobody has a token.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use outlast::{App, Client, Outlast};
use outlast_store::{DynStore, StoreError};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Program;
use crate::cli::{ServeArgs, ServeRole};
use crate::config::{Settings, ShownSetting};
use crate::database::{Place, without_password};
use crate::dev::{StopSignals, keep_logs};
use crate::fault::{Exit, Fault};
use crate::http::{self, Api, Proxy, Tls, Tokens};
use crate::output::{call, note, print};
#[cfg(unix)]
use crate::socket::Socket;

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
    proxy: Option<Proxy>,
    /// Whether nobody needs a token until somebody has made one.
    is_open: bool,
    tls: Option<Tls>,
    /// Where the metrics have an address of their own.
    metrics: Option<SocketAddr>,
    #[cfg(unix)]
    socket: Option<std::path::PathBuf>,
    keep_audit: Option<Duration>,
    pace: Option<u32>,
    redact: Vec<String>,
    codec: Option<String>,
    settings: Vec<ShownSetting>,
    environment: Option<String>,
    /// Whether there is a dashboard beside the API.
    dashboard: bool,
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
            proxy: None,
            // Whoever types the first command sees a dashboard, and not a login.
            is_open: true,
            tls: None,
            metrics: None,
            #[cfg(unix)]
            socket: None,
            keep_audit: None,
            pace: None,
            redact: Vec::new(),
            codec: None,
            settings: Vec::new(),
            environment: None,
            dashboard: true,
        }
    }

    /// With what the command goes by: for the dashboard.
    pub(crate) fn settings(mut self, settings: &Settings) -> Result<Listen, Fault> {
        // They are for commands that say something, and for those that ask a server.
        let is_other =
            |key: &str| ["url", "token", "ca", "output", "color", "time", "timeout"].contains(&key);
        let all = settings.all();
        let own = all.iter().filter(|setting| !is_other(setting.key)).map(ShownSetting::from);
        let mut own: Vec<ShownSetting> = own.collect();
        // Where a file names a server for other commands, this one is on the default.
        if own.iter().all(|setting| setting.key != "database_url") {
            let (key, value) = ("database_url".to_owned(), without_password(settings.place().url()));
            own.insert(0, ShownSetting { key, value, origin: "default".to_owned() });
        }
        self.settings.splice(0..0, own);
        self.environment = settings.environment()?;
        self.dashboard = settings.dashboard()?;
        Ok(self)
    }
}

/// An address that is taken and may be served: nobody is answered yet.
pub(crate) struct Bound {
    listener: TcpListener,
    tokens: Tokens,
    is_open: bool,
    hosts: Option<Vec<String>>,
    proxy: Option<Proxy>,
    tls: Option<Tls>,
    metrics: Option<Apart>,
    #[cfg(unix)]
    socket: Option<Socket>,
    keep_audit: Option<Duration>,
    #[cfg(feature = "embed")]
    ui_proxy: Option<String>,
    pace: Option<u32>,
    redact: Vec<String>,
    codec: Option<String>,
    settings: Vec<ShownSetting>,
    environment: Option<String>,
    /// Whether there is a dashboard beside the API.
    dashboard: bool,
}

impl Bound {
    /// Takes the dashboard from there.
    #[cfg(feature = "embed")]
    pub(crate) fn ui_proxy(mut self, url: Option<String>) -> Bound {
        self.ui_proxy = url;
        self
    }

    /// Takes an address, or refuses one that others can reach while nobody has a token. As soon as there has been a
    /// token, tokens are needed.
    pub(crate) async fn new(client: &Client, listen: Listen) -> Result<Bound, Fault> {
        let tokens = http::tokens(client).await?;
        let is_local = listen.first.ip().is_loopback();
        // Where a proxy says who asks, nobody is let in who is not known, token or not.
        if !listen.is_open && listen.proxy.is_none() {
            let addresses = [Some(listen.first), listen.metrics];
            check_reach(tokens, addresses.into_iter().flatten(), listen.hosts.first())?;
        }
        let listener = take(listen.first, listen.second).await?;
        let metrics = match listen.metrics {
            Some(address) => Some(Apart::take(address).await?),
            None => None,
        };
        // Beyond this machine, tokens say who may ask, under whatever name.
        let is_named = is_local || !listen.hosts.is_empty();
        let own = listener.local_addr()?.ip().to_string();
        let hosts = http::LOOPBACK.map(str::to_owned).into_iter().chain([own]).chain(listen.hosts);
        Ok(Bound {
            listener,
            tokens,
            is_open: listen.is_open,
            hosts: is_named.then(|| hosts.collect()),
            proxy: listen.proxy,
            tls: listen.tls,
            metrics,
            #[cfg(unix)]
            socket: listen.socket.map(Socket::take).transpose()?,
            keep_audit: listen.keep_audit,
            #[cfg(feature = "embed")]
            ui_proxy: None,
            pace: listen.pace,
            redact: listen.redact,
            codec: listen.codec,
            settings: listen.settings,
            environment: listen.environment,
            dashboard: listen.dashboard,
        })
    }

    /// Begins to answer.
    pub(crate) async fn serve(self, client: &Client) -> Result<Server, Fault> {
        let Bound {
            listener, tokens, hosts, tls, metrics: apart, keep_audit, pace, redact, settings, ..
        } = self;
        let address = listener.local_addr()?;
        let stopping = CancellationToken::new();
        let mut api = Api::new(client.clone()).stopping(stopping.clone()).redact(redact).settings(settings);
        if let Some(environment) = self.environment {
            api = api.environment(environment);
        }
        #[cfg(feature = "embed")]
        if !self.dashboard {
            api = api.without_dashboard();
        }
        if let Some(origin) = self.codec {
            api = api.codec_origin(&origin)?;
        }
        // Where a proxy says who asks, nobody may do everything, and somebody may do something: nobody else has to be let in.
        let tokens = if self.proxy.is_some() { Tokens::Valid } else { tokens };
        let ticket = match tokens {
            Tokens::Never if self.is_open => {
                api = api.until_token();
                None
            }
            // Only a page of the dashboard takes one.
            Tokens::Never if !self.dashboard => None,
            Tokens::Never => Some(http::first_ticket(client).await?),
            Tokens::Over | Tokens::Valid => None,
        };
        if let Some(proxy) = self.proxy {
            api = api.proxy(proxy);
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
        let metrics_address = apart.as_ref().map(|apart| apart.listener.local_addr()).transpose()?;
        if let (Some(apart), Some(metrics)) = (apart, metrics) {
            apart.serve(metrics, stopping.clone());
        }
        #[cfg(feature = "embed")]
        if let Some(url) = &self.ui_proxy {
            api = api.ui_proxy(url)?;
        }
        let router = api.router().await?;
        #[cfg(unix)]
        let beside = self.socket.map(|socket| tokio::spawn(socket.serve(router.clone(), stopping.clone())));
        #[cfg(not(unix))]
        let beside = None;
        let is_secure = tls.is_some();
        let task = match tls {
            None => tokio::spawn(http::serve(listener, router, stopping.clone())),
            Some(tls) => tokio::spawn(serve_fresh(listener, router, tls, stopping.clone())),
        };
        let (is_open, has_dashboard) = (self.is_open, self.dashboard && cfg!(feature = "embed"));
        Ok(Server {
            address,
            is_secure,
            has_dashboard,
            is_open,
            tokens,
            ticket,
            metrics_address,
            stopping,
            task,
            beside,
        })
    }
}

/// Refuses what other machines reach while nobody has a token.
fn check_reach(
    tokens: Tokens,
    mut addresses: impl Iterator<Item = SocketAddr>,
    host: Option<&String>,
) -> Result<(), Fault> {
    let reached = match (addresses.find(|address| !address.ip().is_loopback()), host) {
        (Some(address), _) if tokens != Tokens::Valid => address.to_string(),
        // Whoever names a host has something before this machine that others reach.
        (None, Some(host)) if tokens == Tokens::Never => host.clone(),
        _ => return Ok(()),
    };
    let make = call("token create NAME --role admin");
    let none = if tokens == Tokens::Never { "no token" } else { "no token that is valid" };
    let message =
        format!("{reached} can be reached from other machines, and there is {none}: make one with `{make}`");
    Err(Fault::new(Exit::Conflict, "precondition_failed", message))
}

/// An address where there are only metrics, and nobody is asked who they are.
struct Apart {
    listener: TcpListener,
    /// What it may be called, where only this machine reaches it: against pages that reach it under another name.
    hosts: Option<Vec<String>>,
}

impl Apart {
    async fn take(address: SocketAddr) -> Result<Apart, Fault> {
        let listener = take(address, None).await?;
        let own = http::LOOPBACK.map(str::to_owned).into_iter().chain([address.ip().to_string()]);
        Ok(Apart { listener, hosts: address.ip().is_loopback().then(|| own.collect()) })
    }

    fn serve(self, metrics: PrometheusHandle, stopping: CancellationToken) {
        tokio::spawn(http::serve(self.listener, http::metrics_alone(metrics, self.hosts), stopping));
    }
}

/// Takes an address; the second one where the first is taken and there is one.
async fn take(first: SocketAddr, second: Option<SocketAddr>) -> Result<TcpListener, Fault> {
    http::bind(first, second)
        .await
        .map_err(|error| Fault::new(Exit::Conflict, "conflict", format!("cannot listen on {first}: {error}")))
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
    has_dashboard: bool,
    /// Whether nobody needs a token until somebody has made one.
    is_open: bool,
    metrics_address: Option<SocketAddr>,
    tokens: Tokens,
    /// What whoever started it for the first time gets in with, once.
    ticket: Option<String>,
    stopping: CancellationToken,
    task: JoinHandle<()>,
    /// At the Unix socket.
    beside: Option<JoinHandle<()>>,
}

impl Server {
    /// Whether people can look at it with a browser.
    pub(crate) fn has_dashboard(&self) -> bool {
        self.has_dashboard
    }

    /// Where it is reached.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Answers what has been asked, and nothing more.
    pub(crate) async fn stop(self) {
        self.stopping.cancel();
        let _ = self.task.await;
        if let Some(beside) = self.beside {
            let _ = beside.await;
        }
    }
}

/// What this process measures; nothing where a binary has a recorder of its own.
fn recorder() -> Option<PrometheusHandle> {
    // Histograms, and not quantiles: those of several servers can be added up.
    let counted = |builder: PrometheusBuilder| {
        let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?;
        builder.set_buckets(&COUNTS)
    };
    let metrics = counted(PrometheusBuilder::new()).ok()?.install_recorder().ok()?;
    crate::measures::describe();
    Some(metrics)
}

/// Where the counts of a histogram of times end.
const SECONDS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// The same of any other.
const COUNTS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// Serves until somebody asks it to stop.
pub(crate) async fn serve(
    place: &Place,
    program: &Program,
    args: ServeArgs,
    settings: &Settings,
) -> Result<(), Fault> {
    if !settings.format()?.is_text() {
        return Err(Fault::usage("`serve` tells what it does as text: leave -o away"));
    }
    keep_logs();
    let signals = StopSignals::new()?;
    // A service manager's reload ends nothing, also where there is nothing to read again.
    let _hangups = Hangups::new();
    let shown = args.told().into_iter().filter_map(|(name, value, is_default)| {
        let origin = if is_default { "default".to_owned() } else { format!("flag --{name}") };
        Some(ShownSetting { key: name.replace('-', "_"), value: value?, origin })
    });
    let shown: Vec<ShownSetting> = shown.collect();
    let proxy = args.proxy.believed()?;
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
        settings: shown,
        environment: None,
        dashboard: true,
        first: args.listen,
        second: None,
        hosts: args.hosts,
        proxy,
        is_open: args.insecure_no_auth_i_understand,
        tls,
        metrics: args.metrics_listen,
        #[cfg(unix)]
        socket: args.socket.clone(),
        keep_audit: Some(args.keep_audit),
        pace: Some(args.pace),
        redact: args.redact,
        codec: args.codec_origin,
    }
    .settings(settings)?;
    if args.role == ServeRole::Scheduler {
        return work(place, program, store, listen.metrics, signals).await;
    }
    // Whatever stands against it is said before anything is done.
    let bound = Bound::new(&Outlast::on(store.clone()).client(), listen).await?;
    let app = match args.role {
        ServeRole::Api | ServeRole::Scheduler => None,
        ServeRole::All => {
            store.own().await.map_err(owned)?;
            Some(program.own_code(Outlast::on(store.clone())).run().await?)
        }
    };
    let client = match &app {
        Some(app) => app.client().clone(),
        None => Outlast::on(store).client(),
    };
    let server = bound.serve(&client).await?;
    print(&format!("outlast serves {} at {}/api/v1", place.shown(), server.url()))?;
    #[cfg(unix)]
    if let Some(socket) = &args.socket {
        print(&format!("and at the socket {}, for this user alone", socket.display()))?;
    }
    if let Some(metrics) = server.metrics_address {
        print(&format!("metrics are at http://{metrics}/metrics, for whoever reaches it"))?;
    }
    let make = call("token create NAME --role admin");
    if let Some(ticket) = &server.ticket {
        let address = format!("{}/#ticket={ticket}", server.url());
        print(&format!("this address lets one browser in, as an admin, within an hour: {address}"))?;
        note(&format!("it is the first start, and nobody has a token yet: `{make}` makes one"));
    }
    match server.tokens {
        Tokens::Valid => {}
        Tokens::Never if server.ticket.is_some() => {}
        Tokens::Never if !server.is_open => note(&format!("nobody has a token yet: `{make}` makes one")),
        Tokens::Over => note(&format!(
            "every token is revoked or over, and nobody may do anything: `{make}` changes that"
        )),
        Tokens::Never => note(&format!("whoever reaches it may do everything: `{make}` changes that")),
    }
    let stop = async {
        server.stop().await;
        stop_node(app).await
    };
    until_stopped(signals, stop).await
}

/// Does everything but answer: schedules, bulks, what is old, and the code of a binary with its own.
async fn work(
    place: &Place,
    program: &Program,
    store: DynStore,
    metrics: Option<SocketAddr>,
    signals: StopSignals,
) -> Result<(), Fault> {
    let stopping = CancellationToken::new();
    let apart = match metrics {
        Some(address) => {
            let tokens = http::tokens(&Outlast::on(store.clone()).client()).await?;
            check_reach(tokens, [address].into_iter(), None)?;
            Some(Apart::take(address).await?)
        }
        None => None,
    };
    store.own().await.map_err(owned)?;
    let app = program.own_code(Outlast::on(store)).run().await?;
    print(&format!("outlast works on {}, and answers nobody (--role scheduler)", place.shown()))?;
    if let (Some(apart), Some(metrics)) = (apart, recorder()) {
        let address = apart.listener.local_addr()?;
        print(&format!("metrics are at http://{address}/metrics, for whoever reaches it"))?;
        apart.serve(metrics, stopping.clone());
    }
    let stop = async {
        stopping.cancel();
        stop_node(Some(app)).await
    };
    until_stopped(signals, stop).await
}

/// Why the file is another's, and what can be had beside it. Whoever went on with less than was asked for would never come to
/// the rest, and look well.
fn owned(error: StoreError) -> Fault {
    match error {
        StoreError::Owned { file, pid } => {
            let message = format!(
                "{file} is in use by process {pid}, which does its work: stop that one, or serve only the API beside it \
                 (--role api)"
            );
            Fault::new(Exit::Conflict, "conflict", message)
        }
        other => other.into(),
    }
}

/// Waits until somebody asks it to stop, and lets what has begun finish; who asks twice does not wait for that.
async fn until_stopped(
    mut signals: StopSignals,
    stop: impl Future<Output = Result<(), Fault>>,
) -> Result<(), Fault> {
    signals.next().await;
    note("stopping: what has begun may finish");
    tokio::select! {
        stopped = stop => stopped?,
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
