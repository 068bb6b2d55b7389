//! The names that a server is reached by, for a certificate that is made for it.

use super::x509::Name;
use crate::config::{Config, ServiceName};
use crate::remote_hosts::without_brackets;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All names: those of this machine, those that are configured, and those of accounts below them.
pub(super) fn names(config: &Config, machine: Option<&str>) -> BTreeSet<Name> {
    let mut names = BTreeSet::from([
        Name::Dns("localhost".to_owned()),
        Name::Ip(Ipv4Addr::LOCALHOST.into()),
        Name::Ip(Ipv6Addr::LOCALHOST.into()),
    ]);
    let hosts = ServiceName::ALL.iter().map(|service| config.address(*service).0);
    let hosts = hosts.chain([config.admin_host.as_str()]).chain(machine);
    names.extend(hosts.filter_map(name));
    let mut suffixes = BTreeSet::from(["localhost".to_owned()]);
    for host in &config.allowed_hosts {
        match name(host) {
            Some(Name::Dns(host)) => {
                suffixes.insert(host.clone());
                // The server is also known by the names below it.
                names.insert(Name::Dns(format!("*.{host}")));
                names.insert(Name::Dns(host));
            }
            Some(address) => {
                names.insert(address);
            }
            None => {}
        }
    }
    for suffix in suffixes {
        for service in ServiceName::ALL {
            let service = service.name();
            names.insert(Name::Dns(format!("{service}.{suffix}")));
            if !config.disable_product_style_url {
                names.insert(Name::Dns(format!("*.{service}.{suffix}")));
            }
        }
    }
    names
}

/// A host as a name of a certificate. `None`: it is every address, or nothing that a certificate can be for.
fn name(host: &str) -> Option<Name> {
    if let Ok(address) = without_brackets(host).parse::<IpAddr>() {
        return (!address.is_unspecified()).then_some(Name::Ip(address.to_canonical()));
    }
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // Some room is left for what is put before it.
    (host.len() <= 200 && host.split('.').all(is_label)).then_some(Name::Dns(host))
}

/// The name of this machine.
#[cfg(unix)]
pub(super) fn of_machine() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

#[cfg(not(unix))]
pub(super) fn of_machine() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_server_is_called() {
        let config = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config
        };
        const ALWAYS: &[&str] =
            &["localhost", "127.0.0.1", "::1", "blob.localhost", "queue.localhost", "table.localhost"];
        const OF_ACCOUNTS: &[&str] = &["*.blob.localhost", "*.queue.localhost", "*.table.localhost"];
        for (case, config, machine, more) in [
            ("defaults", config(|_| {}), None, &[][..]),
            ("the machine", config(|_| {}), Some("Box-7"), &["box-7"]),
            ("no name of a machine", config(|_| {}), Some("(none)"), &[]),
            ("every address", config(|config| config.host = "0.0.0.0".to_owned()), None, &[]),
            ("an address", config(|config| config.host = "10.0.0.7".to_owned()), None, &["10.0.0.7"]),
            (
                "of one service",
                config(|config| config.blob_host = Some("fd00::7".to_owned())),
                None,
                &["fd00::7"],
            ),
            ("a name", config(|config| config.host = "Store.Example".to_owned()), None, &["store.example"]),
            (
                "allowed hosts",
                config(|config| config.allowed_hosts = vec!["s.example".to_owned(), "10.0.0.8".to_owned()]),
                None,
                &[
                    "s.example",
                    "*.s.example",
                    "blob.s.example",
                    "queue.s.example",
                    "table.s.example",
                    "*.blob.s.example",
                    "*.queue.s.example",
                    "*.table.s.example",
                    "10.0.0.8",
                ],
            ),
            (
                "what is no name",
                config(|config| {
                    config.allowed_hosts = vec!["a b".to_owned(), "münchen".to_owned(), String::new()]
                }),
                None,
                &[],
            ),
        ] {
            let found: BTreeSet<String> = names(&config, machine)
                .into_iter()
                .map(|name| match name {
                    Name::Dns(name) => name,
                    Name::Ip(address) => address.to_string(),
                })
                .collect();
            let all = [ALWAYS, OF_ACCOUNTS, more].concat();
            assert_eq!(found, all.into_iter().map(str::to_owned).collect(), "{case}");
        }
        let plain = config(|config| config.disable_product_style_url = true);
        assert_eq!(names(&plain, None).len(), ALWAYS.len());
    }
}
