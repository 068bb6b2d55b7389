//! Who may use the admin port: those who come by a name of this server, and to the API those who know its token.
//!
//! A page in a browser on the same machine could reach the port, too. It cannot know the token, and it is refused before
//! that is asked for: by its origin, or by a host name that others have pointed here (DNS rebinding).

use super::call::AdminError;
use crate::config::{AdminToken, Config};
use crate::net::accept::Peer;
use crate::proxies::TrustedProxies;
use crate::remote_hosts::without_brackets;
use hyper::header::{AUTHORIZATION, ORIGIN};
use hyper::http::{HeaderMap, request};
use std::net::{IpAddr, SocketAddr};
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::address;

const FETCH_SITE: &str = "sec-fetch-site";
/// Where programs on Azure send the secret that their environment has for them.
const IDENTITY_HEADER: &str = "x-identity-header";

/// The rules of one admin port.
pub(crate) struct Guard {
    address: IpAddr,
    /// In lower case.
    allowed_hosts: Vec<String>,
    token: AdminToken,
    /// Plain requests are refused, unless such a proxy was asked over TLS.
    requires_tls: bool,
    proxies: TrustedProxies,
}

impl Guard {
    /// `address`: where the port listens.
    pub(crate) fn new(config: &Config, address: SocketAddr, token: AdminToken) -> Self {
        let allowed_hosts = config.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self {
            address: address.ip().to_canonical(),
            allowed_hosts,
            token,
            requires_tls: config.require_tls,
            proxies: TrustedProxies(config.trusted_proxies.clone()),
        }
    }

    /// Refuses plain requests, where that is wanted: they would show the token.
    pub(super) fn check_tls(&self, peer: Peer, headers: &HeaderMap) -> Result<(), AdminError> {
        match self.requires_tls && !self.proxies.client(peer, headers).tls {
            true => Err(ServiceError::from(ErrorCode::AccountRequiresHttps).into()),
            false => Ok(()),
        }
    }

    /// Refuses requests by a name that is not this server's, and those of pages.
    pub(super) fn check_origin(&self, head: &request::Parts) -> Result<(), AdminError> {
        let host = address::host(&head.uri, &head.headers);
        if !self.is_known(address::without_port(host)) {
            return Err(AdminError::forbidden(
                "UnknownHost",
                "This server is not known by the name in the header Host: use its address, localhost, or a name that was \
                 allowed (--allowed-host).",
            ));
        }
        match is_of_other_page(host, &head.headers) {
            true => {
                Err(AdminError::forbidden("ForeignOrigin", "A page of another site has sent this request."))
            }
            false => Ok(()),
        }
    }

    fn is_known(&self, host: &str) -> bool {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        if let Ok(address) = without_brackets(&name).parse::<IpAddr>() {
            let address = address.to_canonical();
            return address == self.address
                || self.address.is_unspecified()
                || (self.address.is_loopback() && address.is_loopback())
                || self.allowed_hosts.contains(&name);
        }
        let is_under = |domain: &str| {
            name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        is_under("localhost") || self.allowed_hosts.iter().any(|allowed| is_under(allowed))
    }

    /// Refuses those who do not know the token.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), AdminError> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let token = given.next().and_then(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
        });
        match token {
            Some(token) if given.next().is_none() && self.token.is(token) => Ok(()),
            Some(_) => Err(AdminError::unauthorized("The token is not the one of this server.")),
            None => Err(AdminError::unauthorized(
                "This needs the header `Authorization: Bearer TOKEN`. The server prints its token at the start, unless it \
                 was configured (--admin-token).",
            )),
        }
    }
}

impl Guard {
    /// Refuses those who do not know the token, where they ask as programs on Azure do.
    pub(super) fn check_identity_header(&self, headers: &HeaderMap) -> Result<(), AdminError> {
        let mut given = headers.get_all(IDENTITY_HEADER).iter();
        match (given.next(), given.next()) {
            (Some(value), None) if self.token.is(value.as_bytes()) => Ok(()),
            _ => Err(AdminError::unauthorized(
                "This needs the header `X-IDENTITY-HEADER` with the token of the admin API (IDENTITY_HEADER).",
            )),
        }
    }
}

/// Whether a browser sends a request for a page that is not this server's own.
fn is_of_other_page(host: &str, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let other_origin = text(ORIGIN.as_str()).is_some_and(|origin| {
        origin.split_once("://").is_none_or(|(_, of_page)| !of_page.eq_ignore_ascii_case(host))
    });
    other_origin || text(FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::http::Request;

    const TOKEN: &str = "0123456789abcdef";

    fn guard(address: &str) -> Guard {
        let config = Config { allowed_hosts: vec!["Ops.Contoso.com".to_owned()], ..Config::default() };
        Guard::new(&config, address.parse().unwrap(), TOKEN.parse().unwrap())
    }

    fn head(headers: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().uri("/admin/v1/clock");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn hosts() {
        for (listens, host, is_known) in [
            ("127.0.0.1:10003", "127.0.0.1:10003", true),
            ("127.0.0.1:10003", "127.0.0.1", true),
            ("127.0.0.1:10003", "localhost:10003", true),
            ("127.0.0.1:10003", "LOCALHOST.:10003", true),
            ("127.0.0.1:10003", "[::1]:10003", true),
            ("127.0.0.1:10003", "ops.contoso.com", true),
            ("127.0.0.1:10003", "a.ops.contoso.com:80", true),
            ("127.0.0.1:10003", "10.0.0.7:10003", false),
            ("127.0.0.1:10003", "evil.com:10003", false),
            ("127.0.0.1:10003", "127.0.0.1.evil.com", false),
            ("127.0.0.1:10003", "localhost.evil.com", false),
            ("127.0.0.1:10003", "notops.contoso.com", false),
            ("127.0.0.1:10003", "tepui", false),
            ("127.0.0.1:10003", "", false),
            ("10.0.0.7:1", "10.0.0.7:1", true),
            ("10.0.0.7:1", "10.0.0.8:1", false),
            ("10.0.0.7:1", "127.0.0.1:1", false),
            ("0.0.0.0:1", "10.0.0.8:1", true),
            ("[::]:1", "[fd00::1]:1", true),
            ("0.0.0.0:1", "evil.com", false),
        ] {
            let checked = guard(listens).check_origin(&head(&[("host", host)]));
            assert_eq!(checked.is_ok(), is_known, "{listens} by {host}");
        }
        assert!(guard("127.0.0.1:1").check_origin(&head(&[])).is_err());
    }

    #[test]
    fn pages() {
        for (name, value, is_allowed) in [
            ("origin", "http://localhost:10003", true),
            ("origin", "http://evil.com", false),
            ("origin", "http://localhost:8080", false),
            ("origin", "null", false),
            ("sec-fetch-site", "same-origin", true),
            ("sec-fetch-site", "none", true),
            ("sec-fetch-site", "same-site", false),
            ("sec-fetch-site", "cross-site", false),
        ] {
            let checked =
                guard("127.0.0.1:10003").check_origin(&head(&[("host", "localhost:10003"), (name, value)]));
            assert_eq!(checked.is_ok(), is_allowed, "{name}: {value}");
        }
    }

    #[test]
    fn tokens() {
        for (case, headers, is_allowed) in [
            ("right", &[("authorization", "Bearer 0123456789abcdef")][..], true),
            ("in another case", &[("authorization", "bearer 0123456789abcdef")], true),
            ("with a space", &[("authorization", "Bearer  0123456789abcdef ")], true),
            ("none", &[], false),
            ("empty", &[("authorization", "")], false),
            ("wrong", &[("authorization", "Bearer 0123456789abcdeF")], false),
            ("too long", &[("authorization", "Bearer 0123456789abcdef0")], false),
            ("another scheme", &[("authorization", "Basic 0123456789abcdef")], false),
            (
                "twice",
                &[("authorization", "Bearer 0123456789abcdef"), ("authorization", "Bearer 0123456789abcdef")],
                false,
            ),
        ] {
            assert_eq!(
                guard("127.0.0.1:1").check_token(&head(headers).headers).is_ok(),
                is_allowed,
                "{case}"
            );
        }
    }
}
