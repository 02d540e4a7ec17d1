//! A proxy that has looked who asks, and says so in headers.
//!
//! Headers are as good as whoever sets them. So they count from addresses that were named, and from nobody else: the guard
//! takes them away from every other request before anybody reads them. Each that was named has to come once; whoever sends
//! a token beside them is refused, so that nobody has to know which of the two counts.

use std::net::IpAddr;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use outlast::Error;
use outlast_core::check_name;

use super::access::{Caller, Role};
use super::code::Code;
use super::problem::Problem;

/// Where a proxy says for whom it asks.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Who asks, unless another header is named.
const USER: &str = "x-forwarded-user";
/// Headers with a meaning of their own, here or on the way: a proxy says nothing else in them.
const MEANT: [&str; 28] = [
    "authorization",
    "connection",
    "cookie",
    "date",
    "dnt",
    "expect",
    "forwarded",
    "from",
    "host",
    "idempotency-key",
    "keep-alive",
    "last-event-id",
    "max-forwards",
    "origin",
    "pragma",
    "priority",
    "range",
    "referer",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-request-id",
];
/// How others of them begin.
const MEANT_ALL: [&str; 9] = [
    "accept",
    "access-control-",
    "cache-",
    "content-",
    "if-",
    "proxy-",
    "sec-",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// A proxy that is believed: see [`Api::proxy`](super::Api::proxy).
///
/// ```
/// use outlast_server::http::Proxy;
///
/// let proxy = Proxy::at(["10.1.0.4", "fd00::/8"])?.role_header("X-Forwarded-Role")?;
/// assert!(Proxy::at(["0.0.0.0/0"]).is_err(), "whoever believes everybody needs no proxy");
/// # Ok::<(), outlast::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Proxy {
    peers: Vec<Peers>,
    user: HeaderName,
    role: Option<HeaderName>,
    /// What all may do where no header says it.
    everybody: Role,
    tenant: Option<HeaderName>,
}

/// From where a request comes to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Address(IpAddr),
    /// The Unix socket of our own server.
    Socket,
    Unknown,
}

/// Peers that are believed.
#[derive(Debug, Clone, Copy)]
enum Peers {
    /// Addresses that begin with the same bits.
    Net {
        address: IpAddr,
        bits: u32,
    },
    Socket,
}

impl Proxy {
    /// A proxy at one of these addresses: `10.1.0.4`, `10.1.0.0/16`, or `unix` for whoever reaches the Unix socket.
    pub fn at<S: AsRef<str>>(peers: impl IntoIterator<Item = S>) -> Result<Proxy, Error> {
        let peers: Vec<Peers> =
            peers.into_iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>()?;
        if peers.is_empty() {
            return Err(Error::misconfigured("a proxy that is believed has an address: name it"));
        }
        let user = HeaderName::from_static(USER);
        Ok(Proxy { peers, user, role: None, everybody: Role::Viewer, tenant: None })
    }

    /// Who asks is in this header: `X-Forwarded-User` unless said.
    pub fn user_header(mut self, name: &str) -> Result<Proxy, Error> {
        self.user = free(name, [&self.role, &self.tenant])?;
        Ok(self)
    }

    /// What they may do is in this header: `viewer`, `operator` or `admin`. It is another than who asks is in, which is said
    /// before: else whoever is called admin would be one.
    pub fn role_header(mut self, name: &str) -> Result<Proxy, Error> {
        self.role = Some(free(name, [&Some(self.user.clone()), &self.tenant])?);
        Ok(self)
    }

    /// What everybody may do whom it lets through, where no header says it: `viewer` unless said.
    pub fn role(mut self, role: &str) -> Result<Proxy, Error> {
        self.everybody =
            Role::of(role).ok_or_else(|| Error::invalid("role", role, "viewer, operator or admin"))?;
        Ok(self)
    }

    /// The tenant to which they are bound is in this header, or `*`: all of them.
    pub fn tenant_header(mut self, name: &str) -> Result<Proxy, Error> {
        self.tenant = Some(free(name, [&Some(self.user.clone()), &self.role])?);
        Ok(self)
    }

    /// The headers that it sets.
    fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        [Some(&self.user), self.role.as_ref(), self.tenant.as_ref()].into_iter().flatten()
    }

    fn believes(&self, peer: Peer) -> bool {
        self.peers.iter().any(|peers| peers.has(peer))
    }

    /// Leaves of what a request says only what may be believed. Gives the address for which a proxy asks.
    pub(super) fn sift(&self, request: &mut Request, peer: Peer) -> Option<IpAddr> {
        if self.believes(peer) {
            return self.client(request.headers());
        }
        for name in self.headers() {
            request.headers_mut().remove(name);
        }
        None
    }

    /// The last address in the row that is none of ours: those before it are what the client itself says.
    fn client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lines: Vec<&str> =
            headers.get_all(FORWARDED_FOR).iter().map(|line| line.to_str()).collect::<Result<_, _>>().ok()?;
        for address in lines.join(",").rsplit(',') {
            let address: IpAddr = address.trim().parse::<IpAddr>().ok()?.to_canonical();
            if !self.believes(Peer::Address(address)) {
                return Some(address);
            }
        }
        None
    }

    /// Whom it says that it asks for; `None` where it says nobody. Only for headers that were sifted.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Option<Result<Caller, Problem>> {
        self.headers().any(|name| headers.contains_key(name)).then(|| self.read(headers))
    }

    fn read(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if headers.contains_key(header::AUTHORIZATION) {
            return Err(unbelieved(
                "a proxy says who asks, and there is a token beside it: send one of them",
            ));
        }
        let actor = once(headers, &self.user)?;
        let role = match &self.role {
            None => self.everybody,
            Some(name) => {
                let word = once(headers, name)?;
                Role::of(word)
                    .ok_or_else(|| unbelieved(format!("{name} is none of viewer, operator and admin")))?
            }
        };
        let tenant = match &self.tenant {
            None => None,
            Some(name) => Some(once(headers, name)?.to_owned()).filter(|tenant| tenant != "*"),
        };
        Ok(Caller { actor: actor.to_owned(), token: None, role, tenant, queues: None })
    }
}

/// A header that has no meaning of its own, and that none of the others is.
fn free(name: &str, others: [&Option<HeaderName>; 2]) -> Result<HeaderName, Error> {
    let known: HeaderName =
        name.parse().map_err(|_| Error::invalid("header", name, "a name, such as X-Forwarded-User"))?;
    let is_meant =
        MEANT.contains(&known.as_str()) || MEANT_ALL.iter().any(|begin| known.as_str().starts_with(begin));
    match is_meant || others.into_iter().flatten().any(|other| *other == known) {
        true => Err(Error::invalid("header", name, "one that nothing else is read from")),
        false => Ok(known),
    }
}

/// What a header says that has to come once. A comma is where somebody put two of them together.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Problem> {
    let mut sent = headers.get_all(name).iter();
    let (Some(sent), None) = (sent.next(), sent.next()) else {
        return Err(unbelieved(format!("{name} has to come once from a proxy")));
    };
    let text = sent.to_str().map(str::trim).unwrap_or_default();
    match check_name("header", text).is_ok() && !text.contains(',') {
        true => Ok(text),
        false => {
            Err(unbelieved(format!("{name} has to be one name, of visible characters and without a comma")))
        }
    }
}

fn unbelieved(detail: impl Into<String>) -> Problem {
    Problem::new(Code::UNAUTHENTICATED, detail.into())
        .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

impl Peers {
    fn has(self, peer: Peer) -> bool {
        match (self, peer) {
            (Peers::Socket, Peer::Socket) => true,
            (Peers::Net { address: IpAddr::V4(net), bits }, Peer::Address(IpAddr::V4(peer))) => {
                same(net.to_bits().into(), peer.to_bits().into(), 32 - bits)
            }
            (Peers::Net { address: IpAddr::V6(net), bits }, Peer::Address(IpAddr::V6(peer))) => {
                same(net.to_bits(), peer.to_bits(), 128 - bits)
            }
            _ => false,
        }
    }
}

/// Whether two addresses are the same but for their last bits.
fn same(one: u128, other: u128, last: u32) -> bool {
    (one ^ other).checked_shr(last).unwrap_or(0) == 0
}

impl FromStr for Peers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Peers, Error> {
        let wrong = || Error::invalid("proxy", text, "an address, such as 10.1.0.4 or 10.1.0.0/16, or unix");
        if text == "unix" {
            return Ok(Peers::Socket);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse::<IpAddr>().map_err(|_| wrong())?.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        match bits {
            0 => Err(Error::invalid("proxy", text, "fewer addresses than all there are")),
            bits if bits <= most => Ok(Peers::Net { address, bits }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn believes(peers: &str, peer: &str) -> bool {
        Proxy::at([peers]).unwrap().believes(Peer::Address(peer.parse().unwrap()))
    }

    #[test]
    fn peers_are_an_address_or_a_net() {
        assert!(believes("10.1.0.4", "10.1.0.4") && !believes("10.1.0.4", "10.1.0.5"));
        assert!(believes("10.1.0.0/16", "10.1.255.1") && !believes("10.1.0.0/16", "10.2.0.1"));
        assert!(believes("fd00::/8", "fdff::1") && !believes("fd00::/8", "fe00::1"));
        assert!(believes("::ffff:10.1.0.4", "10.1.0.4"), "an address is the same in either family's words");
        assert!(!believes("10.1.0.0/16", "::1") && !believes("unix", "127.0.0.1"));
        let unix = Proxy::at(["unix"]).unwrap();
        assert!(unix.believes(Peer::Socket) && !unix.believes(Peer::Unknown));
        for wrong in ["", "proxy", "10.1.0.4/33", "10.1.0.4/x", "::/0", "0.0.0.0/0", "10.1"] {
            assert!(Proxy::at([wrong]).is_err(), "{wrong:?}");
        }
        assert!(Proxy::at([""; 0]).is_err());
    }

    #[test]
    fn a_header_with_another_meaning_is_none_of_a_proxy() {
        let proxy = || Proxy::at(["10.1.0.4"]).unwrap();
        for wrong in [
            "Authorization",
            "cookie",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Request-Id",
            "Sec-Fetch-Site",
            "Content-Type",
            "Accept",
            "If-Match",
            "Idempotency-Key",
            "traceparent",
            "",
            "two words",
        ] {
            assert!(proxy().user_header(wrong).is_err(), "{wrong:?}");
            assert!(proxy().role_header(wrong).is_err(), "{wrong:?}");
            assert!(proxy().tenant_header(wrong).is_err(), "{wrong:?}");
        }
        for right in ["Remote-User", "X-Auth-Request-User", "Tailscale-User-Login", "X-Forwarded-User"] {
            assert!(proxy().user_header(right).is_ok(), "{right:?}");
        }
        assert!(proxy().role("worker").is_err());
    }

    #[test]
    fn who_asks_what_they_may_and_whose_they_are_stand_in_headers_of_their_own() {
        let proxy = || Proxy::at(["10.1.0.4"]).unwrap();
        assert!(proxy().role_header("X-Forwarded-User").is_err(), "whoever is called admin would be one");
        assert!(proxy().tenant_header("x-forwarded-user").is_err());
        assert!(proxy().user_header("X-Who").unwrap().role_header("x-who").is_err());
        assert!(proxy().role_header("x-who").unwrap().tenant_header("X-Who").is_err());
        assert!(proxy().role_header("x-who").unwrap().user_header("X-Who").is_err());
        let renamed = proxy().user_header("X-Who").unwrap();
        assert!(renamed.role_header("X-Forwarded-User").is_ok(), "nobody is read from it any more");
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy() {
        let proxy = Proxy::at(["10.1.0.0/16"]).unwrap();
        for (row, client) in [
            ("192.0.2.7", Some("192.0.2.7")),
            ("203.0.113.1, 192.0.2.7, 10.1.0.9", Some("192.0.2.7")),
            ("192.0.2.7, nonsense, 10.1.0.9", None),
            ("192.0.2.7:443", None),
            ("10.1.0.9", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(FORWARDED_FOR, row.parse().unwrap());
            let client = client.map(|client| client.parse().unwrap());
            assert_eq!(proxy.client(&headers), client, "{row:?}");
        }
    }
}
