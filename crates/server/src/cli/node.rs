//! What starts a node or a server.

use clap::Args;

use crate::fault::Fault;
use crate::http::Proxy;
use crate::words::{parse_duration, parse_number};

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Run nothing of our own: only watch
    #[arg(long)]
    pub(crate) no_samples: bool,

    /// The port of the HTTP API, on this machine alone; 0 takes a free one [default: 7777, or a free one]
    #[arg(long, value_name = "PORT", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 0..=65_535_u16))]
    pub(crate) port: Option<u16>,

    /// What the dashboard calls this installation [env: OUTLAST_ENVIRONMENT]
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Option<String>,

    /// Open the dashboard in a browser
    #[cfg(feature = "embed")]
    #[arg(long)]
    pub(crate) open: bool,

    /// Take the dashboard from the server of whoever changes it (`npm run dev` in ui/)
    #[cfg(feature = "embed")]
    #[arg(long, value_name = "URL", value_parser = |url: &str| crate::http::parse_ui_proxy(url).map(|_| url.to_owned()))]
    pub(crate) ui_proxy: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; anything but this machine needs a token first (`token create`)
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7777")]
    pub(crate) listen: std::net::SocketAddr,

    /// Serve at this Unix socket too, for the user who runs it alone; its folder has to exist
    #[cfg(unix)]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<std::path::PathBuf>,

    /// A name under which the API is reached; needs a token first; can be given several times
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,

    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,

    /// Bring the database's schema up to date first
    #[arg(long)]
    pub(crate) migrate: bool,

    /// What it does: `api` only answers; `scheduler` fires schedules, does bulks and deletes what is old; `all` does both
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) role: ServeRole,

    /// Serve by TLS, with this chain of certificates (PEM); read again when it changes, and at a SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<std::path::PathBuf>,

    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<std::path::PathBuf>,

    /// Serve the metrics at an address of their own too, where no token is asked for
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics_listen: Option<std::net::SocketAddr>,

    /// How many requests a second one token may send, after a burst of twice as many
    #[arg(long, value_name = "REQUESTS", default_value = "500", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| parse_number(text, 1..=1_000_000_u32))]
    pub(crate) pace: u32,

    /// Hide the values of fields with this name, in payloads and errors, from all but admins; can be given several times
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub(crate) redact: Vec<String>,

    /// Whom the dashboard may ask to decode payloads, such as https://codec.example.com; which address there, browsers are told in
    /// their settings
    #[arg(long, value_name = "ORIGIN", value_parser = crate::http::parse_origin)]
    pub(crate) codec_origin: Option<String>,

    /// How long lines of the audit log are kept
    #[arg(long, value_name = "DURATION", default_value = "400d", value_parser = parse_duration)]
    pub(crate) keep_audit: std::time::Duration,

    /// What the dashboard calls this installation, such as production [env: OUTLAST_ENVIRONMENT]
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Option<String>,

    /// Serve the API alone, without the dashboard [env: OUTLAST_DASHBOARD=off]
    #[arg(long)]
    pub(crate) no_dashboard: bool,

    /// Ask for no token until somebody has made one, also beyond this machine: whoever reaches it may do everything
    #[arg(long)]
    pub(crate) insecure_no_auth_i_understand: bool,
}

/// Whom to believe that says for whom they ask.
#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Believe a proxy at this address when it says who asks: 10.1.0.4, 10.1.0.0/16, or unix for the socket; can be given several times
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) proxy: Vec<String>,

    /// The header in which it says who asks [default: X-Forwarded-User]
    #[arg(long, value_name = "HEADER", requires = "proxy")]
    pub(crate) proxy_user_header: Option<String>,

    /// The header in which it says what they may do: viewer, operator or admin
    #[arg(long, value_name = "HEADER", requires = "proxy")]
    pub(crate) proxy_role_header: Option<String>,

    /// What all may do whom it lets through, where no header says it [default: viewer]
    #[arg(long, value_name = "ROLE", requires = "proxy", conflicts_with = "proxy_role_header")]
    pub(crate) proxy_role: Option<crate::http::Role>,

    /// The header in which it says to which tenant they are bound; * in it is all of them
    #[arg(long, value_name = "HEADER", requires = "proxy")]
    pub(crate) proxy_tenant_header: Option<String>,
}

impl ProxyArgs {
    /// The proxy that is believed, if there is one.
    pub(crate) fn believed(&self) -> Result<Option<Proxy>, Fault> {
        if self.proxy.is_empty() {
            return Ok(None);
        }
        let mut proxy = Proxy::at(&self.proxy)?;
        if let Some(name) = &self.proxy_user_header {
            proxy = proxy.user_header(name)?;
        }
        if let Some(name) = &self.proxy_role_header {
            proxy = proxy.role_header(name)?;
        }
        if let Some(role) = self.proxy_role {
            proxy = proxy.role(role.word())?;
        }
        if let Some(name) = &self.proxy_tenant_header {
            proxy = proxy.tenant_header(name)?;
        }
        Ok(Some(proxy))
    }

    fn told(&self) -> [(&'static str, Option<String>, bool); 5] {
        let role = self.proxy_role.map(|role| role.word().to_owned());
        [
            ("proxy", Some(self.proxy.join(", ")).filter(|peers| !peers.is_empty()), false),
            ("proxy-user-header", self.proxy_user_header.clone(), false),
            ("proxy-role-header", self.proxy_role_header.clone(), false),
            ("proxy-role", role, false),
            ("proxy-tenant-header", self.proxy_tenant_header.clone(), false),
        ]
    }
}

impl ServeArgs {
    /// What was said or left as it is, by the names of flags: for whoever wants to know what a server goes by.
    pub(crate) fn told(&self) -> Vec<(&'static str, Option<String>, bool)> {
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let list = |words: &[String]| Some(words.join(", ")).filter(|words| !words.is_empty());
        let role = clap::ValueEnum::to_possible_value(&self.role).map(|role| role.get_name().to_owned());
        let keep = outlast_core::duration_text(self.keep_audit);
        #[cfg(unix)]
        let socket = path(&self.socket);
        #[cfg(not(unix))]
        let socket = None;
        let told = vec![
            ("listen", Some(self.listen.to_string()), self.listen.to_string() == "127.0.0.1:7777"),
            ("socket", socket, false),
            ("host", list(&self.hosts), false),
            ("role", role, self.role == ServeRole::All),
            ("migrate", self.migrate.then(|| "yes".to_owned()), false),
            ("tls-cert", path(&self.tls_cert), false),
            ("tls-key", path(&self.tls_key), false),
            ("metrics-listen", self.metrics_listen.map(|address| address.to_string()), false),
            ("pace", Some(self.pace.to_string()), self.pace == 500),
            ("redact", list(&self.redact), false),
            ("codec-origin", self.codec_origin.clone(), false),
            ("keep-audit", Some(keep), self.keep_audit == std::time::Duration::from_secs(400 * 86_400)),
        ];
        told.into_iter().chain(self.proxy.told()).collect()
    }
}

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ServeRole {
    /// Everything that needs no code of yours.
    All,
    /// Nothing but the API.
    Api,
    /// Everything but the API. There is no leader, and so no other part of it that could be served alone.
    #[value(alias = "maintenance")]
    Scheduler,
}
