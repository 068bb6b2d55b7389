//! What pages in a browser must not do to a server whose key they know.
//!
//! The key of the development account is public, so every page could sign requests to a server that its reader's browser can
//! reach. Two checks prevent that. Requests that a browser sends for a page of another site without a preflight are refused,
//! unless a CORS rule allows them. This is so wherever the server listens: the ports of a container are on all its addresses,
//! and may be published on the machine itself. Host names that others could have pointed here (DNS rebinding) are refused
//! where the server listens on the machine itself, as others have any names.

use crate::config::{Config, development_account};
use crate::remote_hosts::without_brackets;
use hyper::header::{AUTHORIZATION, ORIGIN};
use hyper::http::{HeaderMap, Method, request};
use std::net::{IpAddr, SocketAddr};
use tepui_model::service_properties::CorsRule;
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::address::{self, Service};
use tepui_wire::cors;

const FETCH_SITE: &str = "sec-fetch-site";

/// Domains in which others cannot make a name resolve to this machine: its own, those of local networks, and Azure's.
const OWN_DOMAINS: [&str; 9] =
    ["localhost", "local", "internal", "lan", "test", "example", "invalid", "home.arpa", "core.windows.net"];

/// The guard of a server that serves the development account.
pub(super) struct Browsers {
    /// The server listens on the machine itself.
    is_local: bool,
    allowed_hosts: Vec<String>,
    allow_cross_site: bool,
}

impl Browsers {
    /// `None` where there is nothing to guard: all keys are secrets.
    pub(super) fn new(config: &Config, address: SocketAddr) -> Option<Self> {
        let known = development_account();
        let is_public = |key| known.keys.contains(key);
        let guards = config.any_account
            || config.effective_accounts().iter().any(|account| account.keys.iter().any(is_public));
        guards.then(|| Self {
            is_local: address.ip().to_canonical().is_loopback(),
            allowed_hosts: config.allowed_hosts.clone(),
            allow_cross_site: config.allow_cross_site,
        })
    }

    /// Refuses host names that a page could have pointed here to be taken for this server's own.
    pub(super) fn check_host(&self, head: &request::Parts) -> Result<(), ServiceError> {
        if !self.is_local {
            return Ok(());
        }
        let host = address::without_port(address::host(&head.uri, &head.headers));
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let is_under = |domain: &str| {
            name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_known = !name.contains('.')
            || without_brackets(&name).parse::<IpAddr>().is_ok()
            || OWN_DOMAINS.iter().any(|domain| is_under(domain))
            || self.allowed_hosts.iter().any(|allowed| is_under(&allowed.to_ascii_lowercase()));
        match is_known {
            true => Ok(()),
            false => Err(ServiceError::new(ErrorCode::AuthorizationFailure).with_message(format!(
                "This server is not known as {host}. If it is meant to be reached by that name, add the name to \
                 allowed-hosts in its configuration (--allowed-host)."
            ))),
        }
    }

    /// The origin of a page that is not this server's own, if the request is one that browsers send for it without
    /// asking first, and does something.
    pub(super) fn foreign_page<'a>(&self, service: Service, head: &'a request::Parts) -> Option<&'a str> {
        let headers = &head.headers;
        // What is read this way no page gets to see. Messages are another matter: who gets one takes it.
        let only_reads = matches!(head.method, Method::GET | Method::HEAD) && service != Service::Queue;
        if self.allow_cross_site || only_reads || was_asked_for(headers) {
            return None;
        }
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let origin = text(ORIGIN.as_str());
        let is_foreign = match text(FETCH_SITE) {
            Some(site) => !matches!(site, "same-origin" | "none"),
            None => origin.is_some_and(|origin| {
                let own = address::host(&head.uri, headers);
                origin.split_once("://").is_none_or(|(_, host)| !host.eq_ignore_ascii_case(own))
            }),
        };
        is_foreign.then(|| origin.unwrap_or_default())
    }

    /// Refuses what a page of another origin asks for, unless a rule allows it.
    pub(super) fn check_rules(rules: &[CorsRule], origin: &str, method: &Method) -> Result<(), ServiceError> {
        match cors::allows(rules, origin, method) {
            true => Ok(()),
            false => Err(ServiceError::new(ErrorCode::CorsPreflightFailure).with_message(
                "A page of another origin has sent this request, and no CORS rule of the account allows it. \
                 With allow-cross-site in the configuration of the server all are allowed (--allow-cross-site).",
            )),
        }
    }
}

/// Whether a browser asks first, with OPTIONS, before it sends such headers for a page of another origin.
fn was_asked_for(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| *name == AUTHORIZATION || name.as_str().starts_with("x-ms-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::http::Request;

    fn head(method: &str, headers: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).uri("/devstoreaccount1/jobs/messages");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn guard(config: &Config) -> Option<Browsers> {
        Browsers::new(config, "127.0.0.1:10000".parse().unwrap())
    }

    #[test]
    fn it_is_there_for_the_public_key_and_knows_hosts_on_the_machine_itself() {
        let secret =
            crate::config::parse_accounts("devstoreaccount1:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
                .unwrap();
        let secret = Config { accounts: secret, ..Config::default() };
        let rebound = head("POST", &[("host", "evil.com"), ("origin", "http://evil.com")]);
        let page = head("POST", &[("host", "127.0.0.1:10000"), ("origin", "http://evil.com")]);
        for (address, checks_hosts) in [
            ("127.0.0.1:10000", true),
            ("127.8.0.1:10000", true),
            ("[::1]:10000", true),
            ("[::ffff:127.0.0.1]:10000", true),
            ("0.0.0.0:10000", false),
            ("[::]:10000", false),
            ("10.0.0.7:10000", false),
        ] {
            let address = address.parse().unwrap();
            assert!(Browsers::new(&secret, address).is_none(), "{address}");
            let any_account = Config { any_account: true, ..secret.clone() };
            assert!(Browsers::new(&any_account, address).is_some(), "{address}");
            let guard = Browsers::new(&Config::default(), address).unwrap();
            assert_eq!(guard.check_host(&rebound).is_err(), checks_hosts, "{address}");
            assert_eq!(guard.foreign_page(Service::Blob, &page), Some("http://evil.com"), "{address}");
        }
    }

    #[test]
    fn hosts_that_others_could_point_here() {
        let allowed_hosts = vec!["storage.contoso.com".to_owned()];
        let guard = guard(&Config { allowed_hosts, ..Config::default() }).unwrap();
        for (host, is_known) in [
            ("127.0.0.1:10000", true),
            ("[::1]:10000", true),
            ("[::ffff:127.0.0.1]:10000", true),
            ("[::ffff:127.0.0.1]", true),
            ("192.168.1.7:10000", true),
            ("localhost:10000", true),
            ("azurite", true),
            ("devstoreaccount1.blob.localhost:10000", true),
            ("devstoreaccount1.blob.core.windows.net", true),
            ("storage.local", true),
            ("Storage.Contoso.com:10000", true),
            ("one.storage.contoso.com", true),
            ("evil.com", false),
            ("evil.com:10000", false),
            ("127.0.0.1.evil.com", false),
            ("localhost.evil.com", false),
            ("evil-core.windows.net", false),
            ("evil.com.", false),
            ("[::1]evil.com", false),
            ("[::1].evil.com:10000", false),
            ("[evil.com]", false),
            ("otherstorage.contoso.com", false),
        ] {
            let checked = guard.check_host(&head("GET", &[("host", host)]));
            assert_eq!(checked.is_ok(), is_known, "{host}");
            let names_setting = checked.err().is_none_or(|error| error.message().contains("allowed-hosts"));
            assert!(names_setting, "{host}");
        }
    }

    #[test]
    fn pages_of_others() {
        let host = ("host", "127.0.0.1:10000");
        for (case, method, service, headers, is_foreign) in [
            ("no browser", "POST", Service::Blob, &[][..], false),
            ("a form", "POST", Service::Blob, &[("origin", "http://evil.com")], true),
            ("no origin", "POST", Service::Blob, &[("origin", "null")], true),
            ("a form, with its site", "POST", Service::Table, &[("sec-fetch-site", "cross-site")], true),
            ("another port", "POST", Service::Queue, &[("sec-fetch-site", "same-site")], true),
            ("its own page", "POST", Service::Blob, &[("origin", "http://127.0.0.1:10000")], false),
            (
                "its own page, with its site",
                "POST",
                Service::Blob,
                &[("origin", "http://127.0.0.1:10000"), ("sec-fetch-site", "same-origin")],
                false,
            ),
            ("typed in", "GET", Service::Queue, &[("sec-fetch-site", "none")], false),
            ("an image", "GET", Service::Blob, &[("sec-fetch-site", "cross-site")], false),
            ("messages that are taken", "GET", Service::Queue, &[("sec-fetch-site", "cross-site")], true),
            (
                "what a browser asks for first",
                "PUT",
                Service::Blob,
                &[("origin", "http://localhost:3000"), ("x-ms-version", "2021-12-02")],
                false,
            ),
        ] {
            let head = head(method, &[&[host], headers].concat());
            let guard = guard(&Config::default()).unwrap();
            assert_eq!(guard.foreign_page(service, &head).is_some(), is_foreign, "{case}");
            let config = Config { allow_cross_site: true, ..Config::default() };
            assert_eq!(super::tests::guard(&config).unwrap().foreign_page(service, &head), None, "{case}");
        }
    }
}
