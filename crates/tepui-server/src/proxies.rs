//! Proxies that are trusted to say where a request comes from.

use crate::config::ConfigError;
use crate::net::accept::Peer;
use crate::remote_hosts::{begins_with, width, without_brackets};
use hyper::http::HeaderMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The networks of proxies that stand before the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(pub Vec<Network>);

/// An address, or all that begin like it: `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl TrustedProxies {
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Who is at the other end, as the proxies tell it. What others say about themselves does not count.
    pub(crate) fn client(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        if self.0.is_empty() || !self.trusts(peer.address.ip()) {
            return peer;
        }
        // Each proxy adds the address that it was asked from: the last one that is not a proxy's is the client's.
        let mut client = peer.address;
        for entry in values(headers, FORWARDED_FOR).rev() {
            let Some(address) = parse_address(entry) else { break };
            client = address;
            if !self.trusts(address.ip()) {
                break;
            }
        }
        let scheme = values(headers, FORWARDED_PROTO).next_back();
        let tls = scheme.map_or(peer.tls, |scheme| scheme.eq_ignore_ascii_case("https"));
        Peer { address: client, tls }
    }
}

/// The parts of a list, over all lines that it has.
fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl DoubleEndedIterator<Item = &'a str> {
    let lines: Vec<&str> =
        headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default()).collect();
    lines.into_iter().flat_map(|line| line.split(',')).map(str::trim)
}

/// With or without a port: proxies do not agree.
fn parse_address(text: &str) -> Option<SocketAddr> {
    match without_brackets(text).parse::<IpAddr>() {
        Ok(ip) => Some(SocketAddr::new(ip, 0)),
        Err(_) => text.parse().ok(),
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        begins_with(address.to_canonical(), self.address, self.prefix)
    }
}

impl FromStr for Network {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong =
            || ConfigError(format!("a trusted proxy is an address or a network such as 10.0.0.0/8: {text}"));
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let bits = width(address);
        let prefix = prefix.map_or(Ok(bits), |prefix| prefix.trim().parse().map_err(|_| wrong()))?;
        if prefix > bits { Err(wrong()) } else { Ok(Self { address, prefix }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(networks: &[&str]) -> TrustedProxies {
        TrustedProxies(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn networks() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::1", "::1", true),
        ] {
            let contains = network.parse::<Network>().unwrap().contains(address.parse().unwrap());
            assert_eq!(contains, expected, "{address} in {network}");
        }
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/x", "::/129", "10.0.0"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_proxies_say_counts_and_what_others_say_does_not() {
        let trusted = proxies(&["10.0.0.0/8", "::1"]);
        for (case, from, headers, ip, tls) in [
            ("no header", "10.0.0.1:5", &[][..], "10.0.0.1", false),
            (
                "one proxy",
                "10.0.0.1:5",
                &[(FORWARDED_FOR, "1.2.3.4"), (FORWARDED_PROTO, "https")],
                "1.2.3.4",
                true,
            ),
            ("with ports", "10.0.0.1:5", &[(FORWARDED_FOR, "1.2.3.4:567")], "1.2.3.4", false),
            ("IPv6", "[::1]:5", &[(FORWARDED_FOR, "[2001:db8::1]:567")], "2001:db8::1", false),
            ("IPv6 without a port", "[::1]:5", &[(FORWARDED_FOR, "2001:db8::1")], "2001:db8::1", false),
            ("two proxies", "10.0.0.1:5", &[(FORWARDED_FOR, "1.2.3.4, 10.9.9.9")], "1.2.3.4", false),
            (
                "two lines",
                "10.0.0.1:5",
                &[(FORWARDED_FOR, "1.2.3.4"), (FORWARDED_FOR, "10.9.9.9")],
                "1.2.3.4",
                false,
            ),
            ("a client that lies", "10.0.0.1:5", &[(FORWARDED_FOR, "9.9.9.9, 1.2.3.4")], "1.2.3.4", false),
            (
                "the last proxy knows best",
                "10.0.0.1:5",
                &[(FORWARDED_PROTO, "https, http")],
                "10.0.0.1",
                false,
            ),
            ("nonsense", "10.0.0.1:5", &[(FORWARDED_FOR, "1.2.3.4, who knows")], "10.0.0.1", false),
            (
                "not a proxy",
                "8.8.8.8:5",
                &[(FORWARDED_FOR, "1.2.3.4"), (FORWARDED_PROTO, "https")],
                "8.8.8.8",
                false,
            ),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, value.parse().unwrap());
            }
            let peer = trusted.client(Peer { address: from.parse().unwrap(), tls: false }, &map);
            assert_eq!((peer.address.ip(), peer.tls), (ip.parse().unwrap(), tls), "{case}");
        }
    }
}
