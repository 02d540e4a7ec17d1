//! Which addresses are nobody's business outside of a network, and how IPv6 dresses them up.
//!
//! Tables instead of the methods of `std::net`, which know fewer ranges (and call the interesting ones
//! unstable): whoever reads this file sees everything that the guard refuses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// The rule of the egress guard that refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// Only `http` and `https` are spoken.
    Scheme,
    /// A URL has no user and password: they end up in logs. Use a header.
    Userinfo,
    /// A URL names a host.
    Host,
    /// Of the ports below 1024 only 80 and 443 are called.
    Port,
    /// `localhost` and whatever ends in it.
    Localhost,
    /// This machine: 127.0.0.0/8, ::1.
    Loopback,
    /// Private networks: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7, fec0::/10.
    Private,
    /// Networks behind a provider's address translation: 100.64.0.0/10.
    Shared,
    /// The same wire: 169.254.0.0/16, fe80::/10.
    LinkLocal,
    /// Where clouds hand out credentials: 169.254.169.254 and its like.
    Metadata,
    /// No address, or "this network": 0.0.0.0/8, ::.
    Unspecified,
    /// Many receivers: 224.0.0.0/4, ff00::/8.
    Multicast,
    /// Everybody on the wire: 255.255.255.255.
    Broadcast,
    /// Addresses for documentation: 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32, 3fff::/20.
    Documentation,
    /// Addresses for measurements: 198.18.0.0/15, 2001:2::/48.
    Benchmark,
    /// Addresses that are not (or no longer) given to anybody.
    Reserved,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Scheme => "only http and https are spoken",
            Rule::Userinfo => "a URL cannot carry a user or password: use a header",
            Rule::Host => "a URL has to name a host",
            Rule::Port => "of the ports below 1024 only 80 and 443 are called",
            Rule::Localhost => "localhost is this machine",
            Rule::Loopback => "it is a loopback address",
            Rule::Private => "it is an address of a private network",
            Rule::Shared => "it is an address behind a provider's address translation",
            Rule::LinkLocal => "it is a link-local address",
            Rule::Metadata => "it is a cloud's metadata service",
            Rule::Unspecified => "it is an unspecified address",
            Rule::Multicast => "it is a multicast address",
            Rule::Broadcast => "it is the broadcast address",
            Rule::Documentation => "it is an address for documentation",
            Rule::Benchmark => "it is an address for benchmarks",
            Rule::Reserved => "it is a reserved address",
        })
    }
}

/// All that is refused; the first that fits gives the reason.
const V4: [(Ipv4Addr, u8, Rule); 20] = [
    (Ipv4Addr::new(169, 254, 169, 254), 32, Rule::Metadata),
    // Credentials of containers at AWS.
    (Ipv4Addr::new(169, 254, 170, 2), 32, Rule::Metadata),
    (Ipv4Addr::new(169, 254, 170, 23), 32, Rule::Metadata),
    // Azure's, which looks public, Alibaba's and Oracle's.
    (Ipv4Addr::new(168, 63, 129, 16), 32, Rule::Metadata),
    (Ipv4Addr::new(100, 100, 100, 200), 32, Rule::Metadata),
    (Ipv4Addr::new(192, 0, 0, 192), 32, Rule::Metadata),
    (Ipv4Addr::new(255, 255, 255, 255), 32, Rule::Broadcast),
    (Ipv4Addr::new(0, 0, 0, 0), 8, Rule::Unspecified),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Rule::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Rule::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Rule::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Rule::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Rule::Private),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Rule::Private),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Rule::Documentation),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Rule::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Rule::Documentation),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Rule::Benchmark),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Rule::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Rule::Reserved),
];

/// Protocol assignments, and relays that are gone.
const V4_RESERVED: [(Ipv4Addr, u8); 2] =
    [(Ipv4Addr::new(192, 0, 0, 0), 24), (Ipv4Addr::new(192, 88, 99, 0), 24)];

const V6: [(Ipv6Addr, u8, Rule); 11] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, Rule::Metadata),
    (Ipv6Addr::UNSPECIFIED, 128, Rule::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, Rule::Loopback),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, Rule::Private),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, Rule::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, Rule::LinkLocal),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, Rule::Multicast),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Rule::Documentation),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Rule::Documentation),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, Rule::Benchmark),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, Rule::Reserved),
];

/// All that is given to anybody in the world lies in here.
const V6_GLOBAL: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Why an address is refused. Say [`canonical`] first.
pub(super) fn rule_for(address: IpAddr) -> Option<Rule> {
    match address {
        IpAddr::V4(address) => {
            let named = V4.iter().find(|(base, bits, _)| v4_within(address, *base, *bits));
            let reserved = V4_RESERVED.iter().any(|(base, bits)| v4_within(address, *base, *bits));
            named.map(|(.., rule)| *rule).or(reserved.then_some(Rule::Reserved))
        }
        IpAddr::V6(address) => {
            let named = V6.iter().find(|(base, bits, _)| v6_within(address, *base, *bits));
            let (base, bits) = V6_GLOBAL;
            let reserved = !v6_within(address, base, bits);
            named.map(|(.., rule)| *rule).or(reserved.then_some(Rule::Reserved))
        }
    }
}

/// The address that is really meant: an IPv4 address in IPv6 clothes leads to the IPv4 address.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        // These two are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        // Compatible, mapped, translated.
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        // NAT64.
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4.
        | [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, which turns every bit over.
        [0x2001, 0, .., high, low] => embedded(!high, !low),
        _ => address,
    }
}

/// A network as people write it: `10.0.0.0/8`, `fd12::/16`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    base: IpAddr,
    bits: u8,
}

impl Network {
    pub(super) fn parse(text: &str) -> Option<Network> {
        let (base, bits) = text.split_once('/').map_or((text, None), |(base, bits)| (base, Some(bits)));
        let base: IpAddr = base.parse().ok()?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        (bits <= most).then_some(Network { base, bits })
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        match (address, self.base) {
            (IpAddr::V4(address), IpAddr::V4(base)) => v4_within(address, base, self.bits),
            (IpAddr::V6(address), IpAddr::V6(base)) => v6_within(address, base, self.bits),
            _ => false,
        }
    }
}

fn v4_within(address: Ipv4Addr, base: Ipv4Addr, bits: u8) -> bool {
    let differs = address.to_bits() ^ base.to_bits();
    differs.leading_zeros() >= u32::from(bits)
}

fn v6_within(address: Ipv6Addr, base: Ipv6Addr, bits: u8) -> bool {
    let differs = address.to_bits() ^ base.to_bits();
    differs.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(address: &str) -> Option<Rule> {
        rule_for(canonical(address.parse().unwrap()))
    }

    #[test]
    fn every_range_that_is_not_public_is_refused_from_its_first_address_to_its_last() {
        let ranges = [
            ("0.0.0.0", "0.255.255.255", Rule::Unspecified),
            ("10.0.0.0", "10.255.255.255", Rule::Private),
            ("100.64.0.0", "100.127.255.255", Rule::Shared),
            ("127.0.0.0", "127.255.255.255", Rule::Loopback),
            ("169.254.0.0", "169.254.255.255", Rule::LinkLocal),
            ("169.254.169.254", "169.254.169.254", Rule::Metadata),
            ("169.254.170.2", "169.254.170.2", Rule::Metadata),
            ("100.100.100.200", "100.100.100.200", Rule::Metadata),
            ("168.63.129.16", "168.63.129.16", Rule::Metadata),
            ("192.0.0.192", "192.0.0.192", Rule::Metadata),
            ("172.16.0.0", "172.31.255.255", Rule::Private),
            ("192.0.0.0", "192.0.0.255", Rule::Reserved),
            ("192.0.2.0", "192.0.2.255", Rule::Documentation),
            ("192.88.99.0", "192.88.99.255", Rule::Reserved),
            ("192.168.0.0", "192.168.255.255", Rule::Private),
            ("198.18.0.0", "198.19.255.255", Rule::Benchmark),
            ("198.51.100.0", "198.51.100.255", Rule::Documentation),
            ("203.0.113.0", "203.0.113.255", Rule::Documentation),
            ("224.0.0.0", "239.255.255.255", Rule::Multicast),
            ("240.0.0.0", "255.255.255.254", Rule::Reserved),
            ("255.255.255.255", "255.255.255.255", Rule::Broadcast),
            ("::", "::", Rule::Unspecified),
            ("::1", "::1", Rule::Loopback),
            ("fd00:ec2::254", "fd00:ec2::254", Rule::Metadata),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Rule::Private),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Rule::LinkLocal),
            ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Rule::Private),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Rule::Multicast),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Rule::Documentation),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Rule::Documentation),
            ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", Rule::Benchmark),
            ("2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Rule::Reserved),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Rule::Reserved),
            ("100::", "100::ffff:ffff:ffff:ffff", Rule::Reserved),
            ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Rule::Reserved),
        ];
        for (first, last, expected) in ranges {
            assert_eq!((rule(first), rule(last)), (Some(expected), Some(expected)), "{first} to {last}");
        }
    }

    #[test]
    fn the_neighbours_of_those_ranges_are_public() {
        let public = [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "8.8.8.8",
            "2000::1",
            "2001:200::",
            "2001:db7::",
            "2606:4700::1111",
            "3ffe::1",
        ];
        for address in public {
            assert_eq!(rule(address), None, "{address}");
        }
    }

    #[test]
    fn an_ipv4_address_inside_an_ipv6_one_is_judged_as_what_it_is() {
        let clothes = |v4: &str| {
            let [a, b, c, d] = v4.parse::<Ipv4Addr>().unwrap().octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            [
                format!("::ffff:{v4}"),
                format!("::{v4}"),
                format!("::ffff:0:{v4}"),
                format!("64:ff9b::{v4}"),
                format!("2002:{high:x}:{low:x}::1"),
                format!("2001:0:4136:e378:8000:63bf:{:x}:{:x}", !high, !low),
            ]
        };
        let cases = [
            ("127.0.0.1", Some(Rule::Loopback)),
            ("10.1.2.3", Some(Rule::Private)),
            ("192.168.0.1", Some(Rule::Private)),
            ("169.254.169.254", Some(Rule::Metadata)),
            ("100.64.0.1", Some(Rule::Shared)),
            ("0.1.2.3", Some(Rule::Unspecified)),
            ("224.0.0.1", Some(Rule::Multicast)),
            ("8.8.8.8", None),
        ];
        for (v4, expected) in cases {
            for dressed in clothes(v4) {
                assert_eq!(rule(&dressed), expected, "{dressed}");
            }
        }
        assert_eq!(rule("::ffff:7f00:1"), Some(Rule::Loopback));
    }

    #[test]
    fn networks_are_read_as_people_write_them() {
        let contains = |network: &str, address: &str| {
            Network::parse(network).unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("10.1.2.3", "10.1.2.3") && !contains("10.1.2.3", "10.1.2.4"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("fd12::/16", "fd12:1::1") && !contains("fd12::/16", "fd13::1"));
        assert!(contains("::/0", "fd13::1") && !contains("::/0", "127.0.0.1"));
        for wrong in
            ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "internal", "10.0.0.0/8/8"]
        {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
