//! `outlast serve`: the HTTP API of a database, and the work that needs no code of its users.
//!
//! Refuses a schema that is not this version's, and any address but this machine's while nobody has a token.

use std::net::SocketAddr;
use std::time::Duration;

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
use crate::http::{self, Api};
use crate::output::{Format, call, note, print};

/// The port when nobody says otherwise.
const PORT: u16 = 7777;
/// How long work in hand gets to finish.
const GRACE: Duration = Duration::from_secs(10);

/// Where to listen, and for whom.
pub(crate) struct Listen {
    first: SocketAddr,
    /// Where to, if that is taken.
    second: Option<SocketAddr>,
    hosts: Vec<String>,
    is_insecure: bool,
}

impl Listen {
    /// On this machine alone: on the port that was named, or else on the usual one or any that is free.
    pub(crate) fn dev(port: Option<u16>) -> Listen {
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let second = port.is_none().then(|| local(0));
        Listen { first: local(port.unwrap_or(PORT)), second, hosts: Vec::new(), is_insecure: false }
    }
}

/// An address that is taken and may be served: nobody is answered yet.
pub(crate) struct Bound {
    listener: TcpListener,
    needs_tokens: bool,
    hosts: Option<Vec<String>>,
}

impl Bound {
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
        let bound = http::bind(listen.first, listen.second).await;
        let taken = |error: std::io::Error| {
            Fault::new(Exit::Conflict, "conflict", format!("cannot listen on {}: {error}", listen.first))
        };
        let listener = bound.map_err(taken)?;
        // Beyond this machine, tokens say who may ask, under whatever name.
        let is_named = is_local || !listen.hosts.is_empty();
        let own = listener.local_addr()?.ip().to_string();
        let hosts = http::LOOPBACK.map(str::to_owned).into_iter().chain([own]).chain(listen.hosts);
        Ok(Bound { listener, needs_tokens, hosts: is_named.then(|| hosts.collect()) })
    }

    /// Begins to answer.
    pub(crate) async fn serve(self, client: &Client) -> Result<Server, Fault> {
        let Bound { listener, needs_tokens, hosts } = self;
        let address = listener.local_addr()?;
        let stopping = CancellationToken::new();
        let mut api = Api::new(client.clone()).stopping(stopping.clone());
        if !needs_tokens {
            api = api.without_tokens();
        }
        if let Some(hosts) = hosts {
            api = api.hosts(hosts);
        }
        if let Some(metrics) = recorder() {
            api = api.metrics(metrics);
        }
        let router = api.router().await?;
        let task = tokio::spawn(http::serve(listener, router, stopping.clone()));
        Ok(Server { address, needs_tokens, stopping, task })
    }
}

/// A server that answers.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) needs_tokens: bool,
    stopping: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    /// Where it is reached.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
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
    let store = place.open_to_serve(args.migrate).await?;
    let listen = Listen {
        first: args.listen,
        second: None,
        hosts: args.hosts,
        is_insecure: args.insecure_no_auth_i_understand,
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
    note("stopped");
    Ok(())
}

async fn stop_node(app: Option<App>) -> Result<(), Fault> {
    match app {
        Some(app) => Ok(app.shutdown(GRACE).await?),
        None => Ok(()),
    }
}
