//! The egress guard: which services handlers may call.
//!
//! URLs come from data, and data comes from strangers. Without a guard, a webhook to `http://10.0.0.7/` or
//! `http://169.254.169.254/` reads what only the inside may see. The guard is pure: a URL or the answer of
//! a name server comes in, a verdict goes out. What it has judged is what is connected to: see `client.rs`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use outlast_core::Error;
use reqwest::Url;

use super::HttpError;
use super::ranges::{Network, Rule, canonical, rule_for};

/// What handlers may call with [`ctx.http()`](crate::Ctx::http), and when they stop trying.
///
/// By default everything public, and nothing else: no loopback, private, link-local or metadata addresses, however they
/// are written and whatever name leads to them, no ports below 1024 but 80 and 443. What a name leads to
/// is looked up once, judged, and connected to; the target of a redirect is judged like any other.
///
/// ```
/// use outlast::http::Egress;
/// # use outlast::prelude::*;
/// # async fn example() -> Result<(), AnyError> {
/// let egress = Egress::new().allow_host("billing.internal").allow_network("10.20.0.0/16");
/// let app = Outlast::open("sqlite::memory:").await?.egress(egress).run().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "give it to Outlast::egress"]
pub struct Egress {
    open: bool,
    hosts: Vec<String>,
    networks: Vec<Network>,
    ports: Vec<u16>,
    resolver: Option<Resolver>,
    pub(super) failures: u32,
    pub(super) pause: Duration,
    wrong: Option<Error>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

impl Egress {
    /// Everything public, and nothing else.
    pub fn new() -> Egress {
        Egress {
            open: false,
            hosts: Vec::new(),
            networks: Vec::new(),
            ports: Vec::new(),
            resolver: None,
            failures: 5,
            pause: Duration::from_secs(30),
            wrong: None,
        }
    }

    /// Everything, with all ports: for tests that have a server on this machine.
    pub fn open() -> Egress {
        Egress { open: true, ..Egress::new() }
    }

    /// Lets this host be called by its name (or address), wherever that leads. Not its subdomains.
    pub fn allow_host(mut self, host: &str) -> Egress {
        let parsed = Url::parse(&format!("http://{host}/")).ok().filter(|url| {
            let after_brackets = host.rsplit(']').next().unwrap_or(host);
            url.path() == "/" && !host.contains(['@', '?', '#', '/']) && !after_brackets.contains(':')
        });
        match parsed.as_ref().and_then(host_of) {
            Some(host) => self.hosts.push(host.to_owned()),
            None => {
                self.refuse("host", host, "a name or an address (like [::1]), without scheme, port and path")
            }
        }
        self
    }

    /// Lets addresses of this network be called, as in `10.0.0.0/8` or `fd12::/16`.
    pub fn allow_network(mut self, network: &str) -> Egress {
        match Network::parse(network) {
            Some(network) => self.networks.push(network),
            None => self.refuse("network", network, "an address and a number of bits, like 10.0.0.0/8"),
        }
        self
    }

    /// Lets this port be called, on every host that may be.
    pub fn allow_port(mut self, port: u16) -> Egress {
        self.ports.push(port);
        self
    }

    /// Looks names up with this instead of the system's resolver. Its answers are judged like any.
    pub fn resolver<F, Fut>(mut self, look_up: F) -> Egress
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.resolver = Some(Arc::new(move |name| Box::pin(look_up(name))));
        self
    }

    /// After how many failures in a row (5) calls to a host fail at once, and how long (30 s) until one is let
    /// through to see whether it is back.
    pub fn breaker(mut self, failures: u32, pause: Duration) -> Egress {
        if failures == 0 {
            self.refuse("number of failures", failures, "1 or more: with 0 nobody could ever be called");
        }
        (self.failures, self.pause) = (failures, pause);
        self
    }

    fn refuse(&mut self, what: &str, value: impl fmt::Display, remedy: &str) {
        self.wrong.get_or_insert(Error::invalid(what, value, remedy));
    }

    /// What was wrong with the settings.
    pub(crate) fn check(&self) -> Result<(), Error> {
        crate::definition::check_duration("pause of the circuit breaker", self.pause)?;
        self.wrong.clone().map_or(Ok(()), Err)
    }

    /// Judges a URL, and the address in it when it has one.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), HttpError> {
        let denied = |rule| HttpError::Denied { target: authority(url), rule };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HttpError::Denied { target: url.scheme().to_owned(), rule: Rule::Scheme });
        }
        if has_userinfo(url) {
            return Err(denied(Rule::Userinfo));
        }
        let host = host_of(url).ok_or_else(|| denied(Rule::Host))?;
        let port = url.port_or_known_default().unwrap_or(0);
        if !self.open && matches!(port, 0..1024) && ![80, 443].contains(&port) && !self.ports.contains(&port)
        {
            return Err(denied(Rule::Port));
        }
        if self.trusts(host) {
            return Ok(());
        }
        if host == "localhost" || host.ends_with(".localhost") {
            return Err(denied(Rule::Localhost));
        }
        match literal(host).map(|address| self.judge(address)) {
            Some(Err(rule)) => Err(denied(rule)),
            // What a name leads to is judged when it was looked up.
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Looks a name up and judges every address it leads to: one that must not be called taints them all.
    pub(super) async fn look_up(&self, name: &str) -> Result<Vec<SocketAddr>, BoxError> {
        let found: Vec<SocketAddr> = match &self.resolver {
            Some(resolver) => {
                let found = resolver(name.to_owned()).await?;
                found.into_iter().map(|address| SocketAddr::new(address, 0)).collect()
            }
            None => tokio::net::lookup_host((name, 0)).await?.collect(),
        };
        if found.is_empty() {
            return Err("the name leads to no address".into());
        }
        self.check_answer(name, found.iter().map(SocketAddr::ip))?;
        Ok(found)
    }

    fn check_answer(&self, name: &str, found: impl Iterator<Item = IpAddr>) -> Result<(), HttpError> {
        if self.trusts(without_dot(name)) {
            return Ok(());
        }
        for address in found {
            let denied = |rule| HttpError::Denied { target: format!("{name} ({address})"), rule };
            self.judge(address).map_err(denied)?;
        }
        Ok(())
    }

    fn trusts(&self, host: &str) -> bool {
        self.open || self.hosts.iter().any(|trusted| trusted == host)
    }

    fn judge(&self, address: IpAddr) -> Result<(), Rule> {
        let address = canonical(address);
        let allowed = self.open || self.networks.iter().any(|network| network.contains(address));
        rule_for(address).filter(|_| !allowed).map_or(Ok(()), Err)
    }
}

impl Default for Egress {
    fn default() -> Egress {
        Egress::new()
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("open", &self.open)
            .field("hosts", &self.hosts)
            .field("networks", &self.networks)
            .field("ports", &self.ports)
            .field("failures", &self.failures)
            .field("pause", &self.pause)
            .finish_non_exhaustive()
    }
}

/// Host and port, for messages and for the circuit breaker: never a path, which may hold secrets.
pub(super) fn authority(url: &Url) -> String {
    let host = host_of(url).unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The host: lower case, odd spellings of addresses straightened (by `Url`), no dot at its end.
pub(super) fn host_of(url: &Url) -> Option<&str> {
    url.host_str().map(without_dot).filter(|host| !host.is_empty())
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(checked: Result<(), HttpError>) -> Option<Rule> {
        match checked {
            Ok(()) => None,
            Err(HttpError::Denied { rule, .. }) => Some(rule),
            Err(other) => panic!("not a verdict of the guard: {other}"),
        }
    }

    fn judged(egress: &Egress, url: &str) -> Option<Rule> {
        rule_of(egress.check_url(&Url::parse(url).unwrap()))
    }

    fn answered(egress: &Egress, name: &str, found: &[&str]) -> Option<Rule> {
        rule_of(egress.check_answer(name, found.iter().map(|address| address.parse().unwrap())))
    }

    #[test]
    fn public_services_may_be_called_and_other_schemes_and_ports_may_not() {
        let egress = Egress::new();
        for url in [
            "http://example.com",
            "https://example.com/a?b#c",
            "https://example.com:8443/",
            "http://example.com:1024",
            "http://93.184.216.34/",
            "http://[2606:4700::1111]/",
            "https://grüße.example/",
            "http://localhost.example.com/",
            "http://notlocalhost/",
        ] {
            assert_eq!(judged(&egress, url), None, "{url}");
        }
        let refused = [
            ("file:///etc/passwd", Rule::Scheme),
            ("gopher://example.com/", Rule::Scheme),
            ("ftp://example.com/", Rule::Scheme),
            ("unix:/run/docker.sock", Rule::Scheme),
            ("http://ada@example.com/", Rule::Userinfo),
            ("http://ada:secret@example.com/", Rule::Userinfo),
            ("http://:secret@example.com/", Rule::Userinfo),
            ("http://example.com:0/", Rule::Port),
            ("http://example.com:1/", Rule::Port),
            ("http://example.com:22/", Rule::Port),
            ("http://example.com:25/", Rule::Port),
            ("https://example.com:1023/", Rule::Port),
            ("http://./", Rule::Host),
        ];
        for (url, rule) in refused {
            assert_eq!(judged(&egress, url), Some(rule), "{url}");
        }
    }

    #[test]
    fn this_machine_is_refused_however_it_is_spelled() {
        let egress = Egress::new();
        let spellings = [
            ("http://localhost/", Rule::Localhost),
            ("http://LOCALHOST/", Rule::Localhost),
            ("http://localhost./", Rule::Localhost),
            ("http://app.localhost/", Rule::Localhost),
            ("http://app.localhost./", Rule::Localhost),
            ("http://loc%61lhost/", Rule::Localhost),
            ("http://127.0.0.1/", Rule::Loopback),
            ("http://127.0.0.1./", Rule::Loopback),
            ("http://127.1/", Rule::Loopback),
            ("http://0x7f.1/", Rule::Loopback),
            ("http://0177.0.0.1/", Rule::Loopback),
            ("http://2130706433/", Rule::Loopback),
            ("http://0x7f000001/", Rule::Loopback),
            ("http://017700000001/", Rule::Loopback),
            ("http://127.0.0.1:8080/", Rule::Loopback),
            ("http://１２７.0.0.1/", Rule::Loopback),
            ("http://127。0。0。1/", Rule::Loopback),
            ("http://[::1]/", Rule::Loopback),
            ("http://[0:0:0:0:0:0:0:1]/", Rule::Loopback),
            ("http://[::ffff:7f00:1]/", Rule::Loopback),
            ("http://[::ffff:127.0.0.1]/", Rule::Loopback),
            ("http://[::127.0.0.1]/", Rule::Loopback),
            ("http://[64:ff9b::7f00:1]/", Rule::Loopback),
            ("http://[2002:7f00:1::]/", Rule::Loopback),
            ("http://0/", Rule::Unspecified),
            ("http://0.0.0.0/", Rule::Unspecified),
            ("http://[::]/", Rule::Unspecified),
        ];
        for (url, rule) in spellings {
            assert_eq!(judged(&egress, url), Some(rule), "{url}");
        }
    }

    #[test]
    fn inner_networks_are_refused_as_literals() {
        let egress = Egress::new();
        let literals = [
            ("http://10.0.0.1/", Rule::Private),
            ("http://172.16.0.1/", Rule::Private),
            ("http://192.168.1.1/", Rule::Private),
            ("http://3232235777/", Rule::Private),
            ("http://100.64.0.1/", Rule::Shared),
            ("http://169.254.1.1/", Rule::LinkLocal),
            ("http://169.254.169.254/latest/meta-data/", Rule::Metadata),
            ("http://[::ffff:169.254.169.254]/", Rule::Metadata),
            ("http://[::ffff:a9fe:a9fe]/", Rule::Metadata),
            ("http://2852039166/", Rule::Metadata),
            ("http://224.0.0.1/", Rule::Multicast),
            ("http://255.255.255.255/", Rule::Broadcast),
            ("http://192.0.2.1/", Rule::Documentation),
            ("http://198.18.0.1/", Rule::Benchmark),
            ("http://[fd00::1]/", Rule::Private),
            ("http://[fe80::1]/", Rule::LinkLocal),
        ];
        for (url, rule) in literals {
            assert_eq!(judged(&egress, url), Some(rule), "{url}");
        }
    }

    #[test]
    fn one_inner_address_in_an_answer_taints_them_all() {
        let egress = Egress::new();
        assert_eq!(answered(&egress, "a.example", &["93.184.216.34", "2606:4700::1111"]), None);
        assert_eq!(answered(&egress, "a.example", &["93.184.216.34", "10.0.0.1"]), Some(Rule::Private));
        assert_eq!(answered(&egress, "a.example", &["::ffff:169.254.169.254"]), Some(Rule::Metadata));
    }

    #[test]
    fn what_is_allowed_by_name_or_network_is_allowed_and_nothing_beside_it() {
        let egress = Egress::new().allow_host("Internal.example").allow_network("10.0.0.0/8").allow_port(25);
        assert_eq!(judged(&egress, "http://internal.example./"), None);
        assert_eq!(answered(&egress, "internal.example", &["192.168.0.1"]), None);
        assert_eq!(answered(&egress, "internal.example.", &["192.168.0.1"]), None);
        assert_eq!(answered(&egress, "sub.internal.example", &["192.168.0.1"]), Some(Rule::Private));
        assert_eq!(judged(&egress, "http://10.1.2.3:25/"), None);
        assert_eq!(judged(&egress, "http://[::ffff:10.1.2.3]/"), None);
        assert_eq!(judged(&egress, "http://10.1.2.3:22/"), Some(Rule::Port));
        assert_eq!(judged(&egress, "http://ada@10.1.2.3/"), Some(Rule::Userinfo));
        assert_eq!(answered(&egress, "b.example", &["10.1.2.3", "127.0.0.1"]), Some(Rule::Loopback));
        assert_eq!(judged(&Egress::new().allow_host("localhost"), "http://localhost:8080/"), None);
        assert_eq!(judged(&Egress::new().allow_host("127.0.0.1"), "http://2130706433/"), None);
        // All of IPv6 is not the IPv4 that hides in it.
        assert_eq!(
            judged(&Egress::new().allow_network("::/0"), "http://[2002:7f00:1::]/"),
            Some(Rule::Loopback)
        );
    }

    #[test]
    fn open_is_open_to_every_address_and_to_no_other_scheme() {
        let open = Egress::open();
        assert_eq!(judged(&open, "http://127.0.0.1:22/"), None);
        assert_eq!(judged(&open, "http://localhost/"), None);
        assert_eq!(answered(&open, "a.example", &["169.254.169.254"]), None);
        assert_eq!(judged(&open, "file:///etc/passwd"), Some(Rule::Scheme));
    }

    #[test]
    fn settings_that_cannot_be_are_told_with_the_remedy() {
        let said = |egress: Egress| egress.check().unwrap_err().to_string();
        let wrong =
            ["http://a.example", "a.example:80", "a.example/b", "a.example?b", "a.example#b", "", "a b"];
        for host in wrong.into_iter().chain(["ada@a.example", ".", "::1"]) {
            assert!(said(Egress::new().allow_host(host)).starts_with("invalid host"), "{host}");
        }
        assert_eq!(
            said(Egress::new().allow_network("10.0.0.0/33")),
            "invalid network \"10.0.0.0/33\": an address and a number of bits, like 10.0.0.0/8"
        );
        assert!(said(Egress::new().breaker(0, Duration::ZERO)).starts_with("invalid number of failures"));
        assert!(said(Egress::new().breaker(1, Duration::MAX)).contains("circuit breaker"));
        assert!(Egress::new().allow_host("[::1]").allow_network("::1").check().is_ok());
    }
}
