//! What is told to people and programs once the server listens.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use tepui_model::account::{Account, DEVELOPMENT_ACCOUNT};
use tepui_server::Config;
use tepui_server::config::{ServiceName, development_account, key_text};

/// The text that is printed at the start: where the server is, and how to reach it.
pub(crate) fn greeting(config: &Config, addresses: &[(ServiceName, SocketAddr)], show_keys: bool) -> String {
    let mut text = format!("Tepui {}\n", env!("CARGO_PKG_VERSION"));
    let accounts = config.effective_accounts();
    for account in &accounts {
        for (service, address) in addresses {
            let _ = writeln!(text, "  {:5}  {}", service.name(), endpoint(*address, &account.name));
        }
    }
    let _ = match config.data_dir() {
        Ok(path) if !config.in_memory => writeln!(text, "  data   {}", path.display()),
        _ => writeln!(text, "  data   in memory, gone when the server stops"),
    };
    text.push_str("\nConnection string:\n");
    for account in &accounts {
        let _ = writeln!(text, "  {}", connection_string(account, addresses, show_keys));
    }
    text
}

/// The ports as JSON.
pub(crate) fn ports(addresses: &[(ServiceName, SocketAddr)]) -> String {
    let mut text = format!("{{\"pid\":{}", std::process::id());
    for (service, address) in addresses {
        let (name, host, port) = (service.name(), address.ip(), address.port());
        let _ = write!(text, ",\"{name}\":{{\"host\":\"{host}\",\"port\":{port}}}");
    }
    text.push_str("}\n");
    text
}

/// Writes a file so that nobody sees half of it.
pub(crate) fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

fn connection_string(account: &Account, addresses: &[(ServiceName, SocketAddr)], show_keys: bool) -> String {
    // The development key is known to everyone; any other key, even for that name, is a secret.
    let known = account.name == DEVELOPMENT_ACCOUNT && account.keys == development_account().keys;
    let key = match account.keys.first() {
        Some(key) if known || show_keys => key_text(key),
        _ => "<key>".to_owned(),
    };
    let mut text = format!("DefaultEndpointsProtocol=http;AccountName={};AccountKey={key};", account.name);
    for (service, address) in addresses {
        let name = match service {
            ServiceName::Blob => "BlobEndpoint",
            ServiceName::Queue => "QueueEndpoint",
            ServiceName::Table => "TableEndpoint",
        };
        let _ = write!(text, "{name}={};", endpoint(*address, &account.name));
    }
    text
}

/// A server that listens on every address is reached at this machine's own.
fn endpoint(mut address: SocketAddr, account: &str) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("http://{address}/{account}")
}

/// Tells systemd how the service is doing, if it asked for that (`Type=notify`).
#[cfg(target_os = "linux")]
pub(crate) fn notify_service_manager(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(to) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let send = || {
        let to = match to.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&to)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &to)
    };
    if let Err(error) = send() {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn notify_service_manager(_state: &str) {}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_server::config::parse_account;

    #[test]
    fn the_connection_string_shows_only_the_key_that_everyone_knows() {
        let at = |service, address: &str| (service, address.parse().unwrap());
        let all = [
            at(ServiceName::Blob, "127.0.0.1:10000"),
            at(ServiceName::Queue, "127.0.0.1:10001"),
            at(ServiceName::Table, "127.0.0.1:10002"),
        ];
        let own = parse_account("people:c2VjcmV0").unwrap();
        let renamed = parse_account("devstoreaccount1:c2VjcmV0").unwrap();
        for (case, account, show, key) in [
            ("development", &development_account(), false, "AccountKey=Eby8vdM02xNOcqFlqUwJPLlm"),
            ("configured", &own, false, "AccountKey=<key>;"),
            ("configured, shown", &own, true, "AccountKey=c2VjcmV0;"),
            ("the development account with a key of its own", &renamed, false, "AccountKey=<key>;"),
        ] {
            let text = connection_string(account, &all, show);
            assert!(text.contains(key), "{case}: {text}");
        }
        assert_eq!(
            connection_string(&own, &all, true),
            "DefaultEndpointsProtocol=http;AccountName=people;AccountKey=c2VjcmV0;\
             BlobEndpoint=http://127.0.0.1:10000/people;\
             QueueEndpoint=http://127.0.0.1:10001/people;TableEndpoint=http://127.0.0.1:10002/people;"
        );
    }

    #[test]
    fn endpoints_can_be_reached() {
        for (listening, endpoint_is) in [
            ("0.0.0.0:1", "http://127.0.0.1:1/a"),
            ("[::]:1", "http://[::1]:1/a"),
            ("10.0.0.7:1", "http://10.0.0.7:1/a"),
        ] {
            assert_eq!(endpoint(listening.parse().unwrap(), "a"), endpoint_is);
        }
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ports.json");
        std::fs::write(&path, "old").unwrap();
        write_atomically(&path, &ports(&[(ServiceName::Table, "127.0.0.1:7".parse().unwrap())])).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("\"table\":{\"host\":\"127.0.0.1\",\"port\":7}}\n"), "{text}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
