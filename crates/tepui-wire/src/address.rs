//! Which account a request is for, and which part of its path is left for the service.
//!
//! Two styles of URL: the account is the first label of the host (`account.table.suffix`) or the first
//! segment of the path (`host:port/account`). Whether the account exists is not known here.

use crate::percent;
use http::header::HOST;
use http::{HeaderMap, Uri};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
pub use tepui_model::Service;
use tepui_model::{ErrorCode, ServiceError};

/// How the addresses of one port are read.
#[derive(Debug, Clone)]
pub struct AddressRules {
    pub service: Service,
    /// Whether `account.table.suffix` names an account. If not, the path always does.
    pub product_style_urls: bool,
    /// Hosts that look like `account.table.suffix` but are not: with these the path names the account.
    pub path_style_hosts: Vec<String>,
    /// Hosts, with their ports, that lead to this server whatever name it was asked by.
    pub own_hosts: Vec<String>,
    /// The accounts that are served.
    pub accounts: AccountNames,
}

impl AddressRules {
    pub fn new(service: Service) -> Self {
        Self {
            service,
            product_style_urls: true,
            path_style_hosts: Vec::new(),
            own_hosts: Vec::new(),
            accounts: AccountNames::default(),
        }
    }
}

/// Tells the name of an account in its own case. Accounts may come and go while the server runs.
#[derive(Clone)]
pub struct AccountNames(Arc<FindName>);

type FindName = dyn Fn(&str) -> Option<String> + Send + Sync;

impl AccountNames {
    pub fn new(find: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub fn find(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }
}

/// There are none.
impl Default for AccountNames {
    fn default() -> Self {
        Self::new(|_| None)
    }
}

impl fmt::Debug for AccountNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountNames")
    }
}

/// What a request is addressed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Without `-secondary`.
    pub account: String,
    pub secondary: bool,
    /// `scheme://host[/account]` as the client addressed it, for links in answers. No slash at the end.
    pub base: String,
    /// The path as sent: what clients sign.
    pub raw_path: String,
    /// The path after the account, still percent-encoded, without the slash in front, or two. One that still begins
    /// with a slash names nothing.
    pub path: String,
    pub host_style: bool,
}

/// Why a request has no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// Refused before any service sees it: see [`crate::error_body::invalid_url_page`].
    InvalidUrl {
        /// Whether the connection is closed after the answer.
        close: bool,
    },
    Service(ServiceError),
}

impl From<ErrorCode> for AddressError {
    fn from(code: ErrorCode) -> Self {
        Self::Service(code.into())
    }
}

pub(crate) const SECONDARY_SUFFIX: &str = "-secondary";
/// Hosts of accounts that are reached by other versions of IP have these after the account.
const NETWORK_SUFFIXES: [&str; 2] = ["-ipv6", "-dualstack"];

/// Finds the target of a request. `secure` tells whether it came over TLS.
pub fn parse(
    uri: &Uri,
    headers: &HeaderMap,
    secure: bool,
    rules: &AddressRules,
) -> Result<Target, AddressError> {
    let raw_path = uri.path();
    if let Some(close) = forbidden_escape(raw_path) {
        return Err(AddressError::InvalidUrl { close });
    }
    // One that goes by the first and one that goes by the second would not agree on what was asked for.
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Err(AddressError::InvalidUrl { close: true });
    }
    let host = host(uri, headers);
    if host.is_empty() {
        return Err(ErrorCode::HostInformationNotPresent.into());
    }
    let after_slash = raw_path.strip_prefix('/').unwrap_or(raw_path);
    let host_account = account_of_host(host, rules);
    let (addressed, path) = match host_account {
        Some(account) => (account, after_slash),
        None => after_slash.split_once('/').unwrap_or((after_slash, "")),
    };
    if addressed.is_empty() {
        return Err(ErrorCode::InvalidUri.into());
    }
    let name = match host_account {
        Some(account) => {
            NETWORK_SUFFIXES.iter().find_map(|suffix| account.strip_suffix(suffix)).unwrap_or(account)
        }
        None => addressed,
    };
    let (account, secondary) = match name.strip_suffix(SECONDARY_SUFFIX) {
        Some(account) => (account, true),
        None => (name, false),
    };
    let path = match host_account {
        None if secondary => after_doubled_account(path, account, rules.service, uri.query()),
        _ => path,
    };
    let scheme = if secure { "https://" } else { "http://" };
    let mut base = String::with_capacity(scheme.len() + host.len() + 1 + addressed.len());
    base.push_str(scheme);
    base.push_str(host);
    if host_account.is_none() {
        base.push('/');
        base.push_str(addressed);
    }
    Ok(Target {
        account: account.to_owned(),
        secondary,
        base,
        raw_path: raw_path.to_owned(),
        // Clients that join addresses carelessly make two slashes of one.
        path: path.strip_prefix('/').unwrap_or(path).to_owned(),
        host_style: host_account.is_some(),
    })
}

/// The path behind the account, where that is there twice: Python puts the secondary address, which ends with the
/// account, before the primary's path, which begins with it. Where the second one could be the name of a queue
/// or container, it counts as that unless the service is asked for.
///
/// Fidelity: scenario: address-secondary-account-twice
fn after_doubled_account<'a>(path: &'a str, account: &str, service: Service, query: Option<&str>) -> &'a str {
    let Some(rest) = path.strip_prefix(account).and_then(|rest| rest.strip_prefix('/')) else { return path };
    let asks_service = rest.is_empty() && query.is_some_and(|query| query.contains("restype=service"));
    if service == Service::Table || asks_service { rest } else { path }
}

/// The host that a request is for, with its port. Empty if it does not say.
pub fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    // In the absolute form of a request line the host there counts, not the header.
    match uri.authority() {
        Some(authority) => authority.as_str().rsplit('@').next().unwrap_or_default(),
        None => headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default().trim(),
    }
}

/// The account that a host names, if it is one of the hosts that do.
fn account_of_host<'a>(host: &'a str, rules: &AddressRules) -> Option<&'a str> {
    if !rules.product_style_urls {
        return None;
    }
    let name = without_port(host);
    let (account, rest) = name.split_once('.')?;
    let service = rest.split('.').next().unwrap_or_default();
    let names_service =
        ["table", "queue", "blob", "file"].iter().any(|known| service.eq_ignore_ascii_case(known));
    let is_path_style = !names_service
        || account.is_empty()
        || name.parse::<IpAddr>().is_ok()
        || rules.path_style_hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    (!is_path_style).then_some(account)
}

/// The name or number of a host.
pub fn without_port(host: &str) -> &str {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port))
            if is_number(port) && !(name.contains(':') && host.parse::<Ipv6Addr>().is_ok()) =>
        {
            name
        }
        _ => host,
    }
}

/// Whether the path has an escape that the HTTP layer of the real service refuses by itself, and if so,
/// whether the connection is closed too.
///
/// Fidelity: control characters never reach the service. scenario: address-control-characters
fn forbidden_escape(path: &str) -> Option<bool> {
    let bytes = path.as_bytes();
    memchr::memchr_iter(b'%', bytes).find_map(|at| match percent::escape(&bytes[at..])? {
        0 => Some(true),
        0x01..=0x1F | 0x7F => Some(false),
        // The lead byte of U+0080 to U+00BF.
        0xC2 => match percent::escape(&bytes[at + 3..])? {
            0x81 | 0x8D | 0x8F | 0x90 | 0x9D => Some(false),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(uri: &str, host: &str, rules: &AddressRules) -> Result<Target, AddressError> {
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.insert(HOST, host.parse().unwrap());
        }
        parse(&uri.parse().unwrap(), &headers, false, rules)
    }

    #[test]
    fn there_is_one_host() {
        let mut headers = HeaderMap::new();
        for count in 1..3 {
            headers.append(HOST, "127.0.0.1:10002".parse().unwrap());
            let uri = "/devstoreaccount1/People".parse().unwrap();
            let parsed = parse(&uri, &headers, false, &AddressRules::new(Service::Table)).map(drop);
            let expected = if count == 1 { Ok(()) } else { Err(AddressError::InvalidUrl { close: true }) };
            assert_eq!(parsed, expected, "{count}");
        }
    }

    #[test]
    fn accounts_are_found_in_either_style() {
        let mut rules = AddressRules::new(Service::Table);
        rules.path_style_hosts.push("tepui.table.svc.cluster.local".to_owned());
        for (uri, host, account, base, path) in [
            ("/d1/Tables", "127.0.0.1:10002", "d1", "http://127.0.0.1:10002/d1", "Tables"),
            ("/d1", "localhost", "d1", "http://localhost/d1", ""),
            ("/d1/", "[::1]:10002", "d1", "http://[::1]:10002/d1", ""),
            ("/d1//T()", "storage", "d1", "http://storage/d1", "T()"),
            ("/d1/T", "storage.example.com", "d1", "http://storage.example.com/d1", "T"),
            ("/d1/T", "tepui.table.svc.cluster.local", "d1", "http://tepui.table.svc.cluster.local/d1", "T"),
            ("/T('a%27')?x=1", "d1.table.local:80", "d1", "http://d1.table.local:80", "T('a%27')"),
            ("/", "d1.table.core.windows.net", "d1", "http://d1.table.core.windows.net", ""),
            ("/T", "d1-secondary.table.local", "d1*", "http://d1-secondary.table.local", "T"),
            ("/d1-secondary/T", "localhost", "d1*", "http://localhost/d1-secondary", "T"),
            ("/d1-secondary/d1/", "localhost", "d1*", "http://localhost/d1-secondary", ""),
            ("/d1-secondary/d1/T", "localhost", "d1*", "http://localhost/d1-secondary", "T"),
            ("/d1-secondary/d1()", "localhost", "d1*", "http://localhost/d1-secondary", "d1()"),
            ("/d1/d1/T", "localhost", "d1", "http://localhost/d1", "d1/T"),
            ("/T", "d1-ipv6.table.local", "d1", "http://d1-ipv6.table.local", "T"),
            (
                "/T",
                "d1-secondary-dualstack.table.local",
                "d1*",
                "http://d1-secondary-dualstack.table.local",
                "T",
            ),
            ("/d1-ipv6/T", "localhost", "d1-ipv6", "http://localhost/d1-ipv6", "T"),
            ("http://h:1/d1/T", "other.table.local", "d1", "http://h:1/d1", "T"),
            ("http://d1.table.local/T", "", "d1", "http://d1.table.local", "T"),
        ] {
            let found = target(uri, host, &rules).unwrap();
            assert_eq!(found.account, account.trim_end_matches('*'), "{uri} {host}");
            assert_eq!(found.secondary, account.ends_with('*'), "{uri} {host}");
            assert_eq!((found.base.as_str(), found.path.as_str()), (base, path), "{uri} {host}");
            assert_eq!(found.host_style, found.base.matches('/').count() == 2, "{uri} {host}");
        }
        let of_blobs = AddressRules::new(Service::Blob);
        for (uri, path) in [
            ("/d1-secondary/d1/?restype=service&comp=stats", ""),
            ("/d1-secondary/d1/blob", "d1/blob"),
            ("/d1-secondary/d1?restype=container", "d1"),
        ] {
            assert_eq!(target(uri, "localhost", &of_blobs).unwrap().path, path, "{uri}");
        }
        rules.product_style_urls = false;
        assert_eq!(target("/d2/T", "d1.table.local", &rules).unwrap().account, "d2");
    }

    #[test]
    fn addresses_are_refused() {
        let rules = AddressRules::new(Service::Table);
        let invalid = |close| AddressError::InvalidUrl { close };
        for (uri, host, expected) in [
            ("/d1/T", "", ErrorCode::HostInformationNotPresent.into()),
            ("/", "localhost", ErrorCode::InvalidUri.into()),
            ("/d1/T(PartitionKey='%00',RowKey='')", "h", invalid(true)),
            ("/d1/T(PartitionKey='%1f',RowKey='')", "h", invalid(false)),
            ("/d1/T(PartitionKey='%7F',RowKey='')", "h", invalid(false)),
            ("/d1/T(PartitionKey='%C2%9d',RowKey='')", "h", invalid(false)),
        ] {
            assert_eq!(target(uri, host, &rules), Err(expected), "{uri}");
        }
        for uri in ["/d1/T(PartitionKey='%C2%80',RowKey='')", "/d1/%C2", "/d1/%", "/d1/T?x=%00"] {
            assert!(target(uri, "h", &rules).is_ok(), "{uri}");
        }
    }

    proptest! {
        #[test]
        fn any_path_and_host_parse_or_not(path in "/[%a-zA-Z0-9/'-]{0,30}", host in "[a-z.:0-9\\[\\]-]{0,20}") {
            let _ = target(&path, &host, &AddressRules::new(Service::Table));
        }
    }
}
