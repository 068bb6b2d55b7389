//! Which other servers blobs may be copied from. Every client that may write a blob can make this server
//! send requests to them, so servers without a public address have to be listed.

use crate::config::ConfigError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The servers that may be asked for sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteHosts {
    /// Whether all with a public address may be.
    pub any_public: bool,
    pub listed: Vec<ListedHost>,
}

/// An entry of the list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedHost {
    /// A host by its name or address, whatever address it has; `None`: on every port.
    Named { host: String, port: Option<u16> },
    /// All addresses that begin with so many bits of this one.
    Network { address: IpAddr, bits: u32 },
}

impl ListedHost {
    /// Reads `HOST`, `HOST:PORT` or `ADDRESS/BITS`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((address, bits)) = text.split_once('/') {
            let (address, bits): (IpAddr, u32) = (address.parse().ok()?, bits.parse().ok()?);
            return (bits <= width(address)).then_some(Self::Network { address, bits });
        }
        let bare_address = text.parse::<IpAddr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !bare_address && !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (text, None),
        };
        let host = without_brackets(host);
        let written = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '*' || c == '@');
        written.then(|| Self::Named { host: host.to_ascii_lowercase(), port })
    }
}

impl FromStr for ListedHost {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text).ok_or_else(|| {
            ConfigError(format!("a host to copy from is HOST, HOST:PORT or ADDRESS/BITS: {text}"))
        })
    }
}

impl RemoteHosts {
    /// Whether any server may be asked at all.
    pub fn is_empty(&self) -> bool {
        !self.any_public && self.listed.is_empty()
    }

    /// Whether a host is listed by its name: then its addresses do not matter.
    pub fn allows_host(&self, host: &str, port: u16) -> bool {
        let asked = without_brackets(host);
        self.listed.iter().any(|listed| match listed {
            ListedHost::Named { host, port: only } => {
                asked.eq_ignore_ascii_case(host) && only.is_none_or(|only| only == port)
            }
            ListedHost::Network { .. } => false,
        })
    }

    /// Whether an address may be asked, whatever name leads to it.
    pub fn allows_address(&self, asked: IpAddr) -> bool {
        let asked = asked.to_canonical();
        let listed = self.listed.iter().any(|listed| match listed {
            ListedHost::Network { address, bits } => begins_with(asked, *address, *bits),
            ListedHost::Named { .. } => false,
        });
        listed || (self.any_public && is_public(asked))
    }
}

pub(crate) fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

pub(crate) fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Whether an address begins with so many bits of another.
pub(crate) fn begins_with(asked: IpAddr, network: IpAddr, bits: u32) -> bool {
    let differs = match (asked, network) {
        (IpAddr::V4(asked), IpAddr::V4(network)) => {
            u128::from(asked.to_bits() ^ network.to_bits()).checked_shr(32 - bits)
        }
        (IpAddr::V6(asked), IpAddr::V6(network)) => {
            (asked.to_bits() ^ network.to_bits()).checked_shr(128 - bits)
        }
        _ => return false,
    };
    // Nothing is left of no bits.
    differs.unwrap_or(0) == 0
}

/// Whether an address means the same server wherever it is asked from. See the registries of special addresses of
/// RFC 6890.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b)) // Shared by the customers of a provider.
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19));
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Others are not routed; of these, some are reserved, and some lead to an address of the older kind.
    let global = segments[0] & 0xE000 == 0x2000;
    let reserved = segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xDB8);
    let is_6to4 = segments[0] == 0x2002;
    let documentation = segments[0] == 0x3FFF;
    global && !reserved && !is_6to4 && !documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(any_public: bool, listed: &[&str]) -> RemoteHosts {
        let listed = listed.iter().map(|text| ListedHost::parse(text).unwrap()).collect();
        RemoteHosts { any_public, listed }
    }

    #[test]
    fn entries_are_read_or_refused() {
        let named = |host: &str, port| Some(ListedHost::Named { host: host.to_owned(), port });
        for (text, expected) in [
            ("Files.example", named("files.example", None)),
            ("files.example:8080", named("files.example", Some(8080))),
            ("10.0.0.1", named("10.0.0.1", None)),
            ("10.0.0.1:80", named("10.0.0.1", Some(80))),
            ("::1", named("::1", None)),
            ("[::1]", named("::1", None)),
            ("[::1]:81", named("::1", Some(81))),
            ("10.0.0.0/8", Some(ListedHost::Network { address: Ipv4Addr::new(10, 0, 0, 0).into(), bits: 8 })),
            ("10.0.0.0/33", None),
            ("files.example/8", None),
            ("files.example:port", None),
            ("http://files.example", None),
            ("*.example", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(ListedHost::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn listed_hosts_may_be_anywhere() {
        let hosts = hosts(false, &["files.example", "10.0.0.1:80", "[::1]"]);
        for (host, port, expected) in [
            ("FILES.example", 1, true),
            ("sub.files.example", 1, false),
            ("10.0.0.1", 80, true),
            ("10.0.0.1", 81, false),
            ("[::1]", 5, true),
            ("localhost", 5, false),
        ] {
            assert_eq!(hosts.allows_host(host, port), expected, "{host}:{port}");
        }
        assert!(!hosts.allows_address(Ipv4Addr::new(10, 0, 0, 1).into()), "only by its name");
    }

    #[test]
    fn networks_are_listed_by_their_first_bits() {
        for (listed, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("10.0.0.0/8", "::1", false),
            ("192.168.7.1/32", "192.168.7.1", true),
            ("192.168.7.1/32", "192.168.7.2", false),
            ("0.0.0.0/0", "127.0.0.1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "::1", true),
        ] {
            assert_eq!(
                hosts(false, &[listed]).allows_address(address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
    }

    #[test]
    fn only_public_addresses_need_no_entry() {
        for (address, expected) in [
            ("93.184.215.14", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:2800:21f:cb07::1", true),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:93.184.215.14", true),
            ("64:ff9b::a00:1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::1", false),
            ("fc00::1", false),
            ("fe80::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(hosts(true, &[]).allows_address(address.parse().unwrap()), expected, "{address}");
        }
    }
}
