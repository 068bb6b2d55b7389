//! What the server reports once it listens, to people and to programs.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tepui_model::account::{Account, DEVELOPMENT_ACCOUNT};
use tepui_server::config::{AdminToken, ServiceName, StorageSetting, development_account, key_text};
use tepui_server::new_file::{Readers, create_new};
use tepui_server::{Config, Tls};

/// With TLS, without, or both.
pub(crate) struct Reach {
    has_tls: bool,
    is_tls_required: bool,
    /// The authority that clients have to trust, if the server has made one.
    ca_file: Option<PathBuf>,
}

impl Reach {
    pub(crate) fn of(config: &Config, tls: Option<&Tls>) -> Self {
        // Others need the whole path.
        let absolute = |file: PathBuf| std::path::absolute(&file).unwrap_or(file);
        Self {
            has_tls: tls.is_some(),
            is_tls_required: config.require_tls,
            ca_file: tls.and_then(Tls::ca_file).map(absolute),
        }
    }

    /// The schemes of URLs, the better one first.
    fn schemes(&self) -> &'static [&'static str] {
        match (self.has_tls, self.is_tls_required) {
            (true, true) => &["https"],
            (true, false) => &["https", "http"],
            (false, _) => &["http"],
        }
    }
}

/// The text that is printed at the start: where the server is, and how to reach it.
pub(crate) fn greeting(
    config: &Config,
    reach: &Reach,
    accounts: &[Account],
    addresses: &[(ServiceName, SocketAddr)],
    admin: Option<(SocketAddr, Option<&AdminToken>)>,
    show_keys: bool,
) -> String {
    let mut text = format!("Tepui {}\n", crate::version());
    for account in accounts {
        for scheme in reach.schemes() {
            for (service, address) in addresses {
                let _ =
                    writeln!(text, "  {:5}  {}", service.name(), endpoint(scheme, *address, &account.name));
            }
        }
    }
    if let Some((address, token)) = admin {
        let scheme = reach.schemes()[0];
        let _ = writeln!(text, "  admin  {scheme}://{address}/metrics, {scheme}://{address}/admin/v1");
        if let Some(token) = token {
            let _ = writeln!(text, "  token  {} (of the admin API, until the server stops)", token.reveal());
        }
    }
    if config.test_bench {
        text.push_str("  bench  its clock can be set and faults can be made: not for data that matters\n");
    }
    let _ = match config.storage() {
        Ok(StorageSetting::Local(path)) => writeln!(text, "  data   {}", path.display()),
        Ok(StorageSetting::Shared { rows, blobs: None }) => writeln!(text, "  data   {rows}"),
        Ok(StorageSetting::Shared { rows, blobs: Some(blobs) }) => {
            writeln!(text, "  data   {rows}, blobs in {blobs}")
        }
        _ => writeln!(text, "  data   in memory, gone when the server stops"),
    };
    if config.any_account {
        text.push_str("  any other account name is served, too, with the development key\n");
    }
    text.push_str("\nConnection string:\n");
    for account in accounts {
        for scheme in reach.schemes() {
            let _ = writeln!(text, "  {}", connection_string(account, scheme, addresses, show_keys));
        }
    }
    if let Some(file) = &reach.ca_file {
        text.push_str(&how_to_trust(file));
    }
    text
}

/// What makes clients trust a certificate authority, for a shell.
fn how_to_trust(ca_file: &Path) -> String {
    let file = quoted(&ca_file.display().to_string());
    format!(
        "\nFor https, clients have to trust the certificate authority of this server (docs/tls.md):\n\
         \x20 export REQUESTS_CA_BUNDLE={file}   # Python, az\n\
         \x20 export SSL_CERT_FILE={file}   # Go, Rust and .NET on Linux; asynchronous Python\n\
         \x20 export NODE_EXTRA_CA_CERTS={file}   # Node\n\
         \x20 keytool -importcert -noprompt -cacerts -storepass changeit -alias tepui -file {file}   # Java\n"
    )
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The warning if other machines can reach an account whose key is public. It must not be missed.
pub(crate) fn open_to_everybody(
    config: &Config,
    accounts: &[Account],
    addresses: &[(ServiceName, SocketAddr)],
) -> Option<String> {
    let known = development_account().keys;
    let account = accounts.iter().find(|account| account.keys.iter().any(|key| known.contains(key)));
    let (who, instead) = match (config.any_account, account) {
        (true, _) => ("Every account name".to_owned(), "do without --any-account.".to_owned()),
        (false, Some(Account { name, .. })) => (
            format!("The account {name}"),
            format!("choose a key: TEPUI_ACCOUNTS={name}:KEY\n!! (`openssl rand -base64 64` makes one)."),
        ),
        (false, None) => return None,
    };
    let (_, address) = addresses.iter().find(|(_, address)| !address.ip().to_canonical().is_loopback())?;
    let line = "!".repeat(78);
    Some(format!(
        "{line}\n\
         !! WARNING: everybody who can reach {address} can read, change and delete all data.\n\
         !! {who} is served with the development key, which is public.\n\
         !! Listen on 127.0.0.1 only, or {instead}\n\
         {line}\n"
    ))
}

/// The ports as JSON, and the token of the admin API if it was made for this run.
pub(crate) fn ports(
    addresses: &[(ServiceName, SocketAddr)],
    admin: Option<(SocketAddr, Option<&AdminToken>)>,
    reach: &Reach,
) -> String {
    let mut text = format!("{{\"pid\":{}", std::process::id());
    let services = addresses.iter().map(|(service, address)| (service.name(), *address, None));
    for (name, address, token) in services.chain(admin.map(|(address, token)| ("admin", address, token))) {
        let (host, port) = (address.ip(), address.port());
        let _ = write!(text, ",\"{name}\":{{\"host\":\"{host}\",\"port\":{port}");
        if let Some(token) = token {
            let _ = write!(text, ",\"token\":\"{}\"", token.reveal());
        }
        text.push('}');
    }
    if reach.has_tls {
        let ca_file = reach.ca_file.as_deref().map(Path::to_string_lossy);
        let tls = serde_json::json!({"required": reach.is_tls_required, "ca": ca_file});
        let _ = write!(text, ",\"tls\":{tls}");
    }
    text.push_str("}\n");
    text
}

/// Replaces a file, so that no reader sees half of it.
pub(crate) fn write_atomically(path: &Path, text: &str, readers: Readers) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    create_new(&new, readers)?.write_all(text.as_bytes())?;
    std::fs::rename(&new, path)
}

fn connection_string(
    account: &Account,
    scheme: &str,
    addresses: &[(ServiceName, SocketAddr)],
    show_keys: bool,
) -> String {
    // The development key is known to everyone; any other key, even for that name, is a secret.
    let known = account.name == DEVELOPMENT_ACCOUNT && account.keys == development_account().keys;
    let key = match account.keys.first() {
        Some(key) if known || show_keys => key_text(key),
        _ => "<key>".to_owned(),
    };
    let mut text =
        format!("DefaultEndpointsProtocol={scheme};AccountName={};AccountKey={key};", account.name);
    for (service, address) in addresses {
        let name = match service {
            ServiceName::Blob => "BlobEndpoint",
            ServiceName::Queue => "QueueEndpoint",
            ServiceName::Table => "TableEndpoint",
        };
        let _ = write!(text, "{name}={};", endpoint(scheme, *address, &account.name));
    }
    text
}

fn endpoint(scheme: &str, address: SocketAddr, account: &str) -> String {
    format!("{scheme}://{}/{account}", reachable(address))
}

/// A server that listens on every address is reached at this machine's own.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
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

    const PLAIN: Reach = Reach { has_tls: false, is_tls_required: false, ca_file: None };

    #[test]
    fn the_greeting_says_how_to_reach_the_server() {
        let addresses = [(ServiceName::Table, "127.0.0.1:7".parse().unwrap())];
        let admin = Some(("127.0.0.1:8".parse().unwrap(), None));
        let own = |required| Reach {
            has_tls: true,
            is_tls_required: required,
            ca_file: Some("/it's here/ca.pem".into()),
        };
        let given = Reach { ca_file: None, ..own(false) };
        const HTTPS: &[&str] = &[
            "  table  https://127.0.0.1:7/devstoreaccount1\n",
            "  DefaultEndpointsProtocol=https;",
            "TableEndpoint=https://127.0.0.1:7/devstoreaccount1;",
            "  admin  https://127.0.0.1:8/metrics, https://127.0.0.1:8/admin/v1\n",
        ];
        const HTTP: &[&str] = &[
            "  table  http://127.0.0.1:7/devstoreaccount1\n",
            "  DefaultEndpointsProtocol=http;",
            "TableEndpoint=http://127.0.0.1:7/devstoreaccount1;",
        ];
        const TRUST: &[&str] = &[
            r"  export REQUESTS_CA_BUNDLE='/it'\''s here/ca.pem'   # Python",
            r"  export SSL_CERT_FILE='/it'\''s here/ca.pem'   # Go",
            r"  export NODE_EXTRA_CA_CERTS='/it'\''s here/ca.pem'   # Node",
        ];
        for (case, reach, has_https, has_http, says_whom_to_trust) in [
            ("plain", PLAIN, false, true, false),
            ("both", own(false), true, true, true),
            ("TLS only", own(true), true, false, true),
            ("with a certificate of somebody else", given, true, true, false),
        ] {
            let text =
                greeting(&Config::default(), &reach, &[development_account()], &addresses, admin, false);
            for (lines, expected) in [(HTTPS, has_https), (HTTP, has_http), (TRUST, says_whom_to_trust)] {
                for line in lines {
                    assert_eq!(text.contains(line), expected, "{case}: {line} in\n{text}");
                }
            }
            let ports: serde_json::Value = serde_json::from_str(&ports(&addresses, admin, &reach)).unwrap();
            assert_eq!(ports["tls"].is_object(), has_https, "{case}");
            assert_eq!(ports["tls"]["ca"] == "/it's here/ca.pem", says_whom_to_trust, "{case}");
            assert_eq!(ports["tls"]["required"] == true, !has_http, "{case}");
        }
    }

    #[test]
    fn the_connection_string_shows_only_the_key_that_everyone_knows() {
        let at = |service, address: &str| (service, address.parse().unwrap());
        let all = [
            at(ServiceName::Blob, "127.0.0.1:10000"),
            at(ServiceName::Queue, "127.0.0.1:10001"),
            at(ServiceName::Table, "127.0.0.1:10002"),
        ];
        let own = parse_account("people:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=").unwrap();
        let renamed = parse_account("devstoreaccount1:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=").unwrap();
        for (case, account, show, key) in [
            ("development", &development_account(), false, "AccountKey=Eby8vdM02xNOcqFlqUwJPLlm"),
            ("configured", &own, false, "AccountKey=<key>;"),
            ("configured, shown", &own, true, "AccountKey=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=;"),
            ("the development account with a key of its own", &renamed, false, "AccountKey=<key>;"),
        ] {
            let text = connection_string(account, "http", &all, show);
            assert!(text.contains(key), "{case}: {text}");
        }
        assert_eq!(
            connection_string(&own, "http", &all, true),
            "DefaultEndpointsProtocol=http;AccountName=people;AccountKey=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=;\
             BlobEndpoint=http://127.0.0.1:10000/people;\
             QueueEndpoint=http://127.0.0.1:10001/people;TableEndpoint=http://127.0.0.1:10002/people;"
        );
    }

    #[test]
    fn a_public_key_at_a_public_address_is_warned_of() {
        let known = key_text(&development_account().keys[0]);
        let own = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=";
        let public = |address: &str| vec![(ServiceName::Blob, address.parse().unwrap())];
        for (address, account, warned) in [
            ("127.0.0.1:1", None, false),
            ("127.8.0.1:1", None, false),
            ("[::1]:1", None, false),
            ("[::ffff:127.0.0.1]:1", None, false),
            ("0.0.0.0:1", None, true),
            ("[::]:1", None, true),
            ("10.0.0.7:1", None, true),
            ("0.0.0.0:1", Some(format!("mine:{own}")), false),
            ("0.0.0.0:1", Some(format!("devstoreaccount1:{own}")), false),
            ("0.0.0.0:1", Some(format!("mine:{own}:{known}")), true),
        ] {
            let accounts = account.iter().map(|account| parse_account(account).unwrap()).collect();
            let config = Config { accounts, ..Config::default() };
            assert_eq!(
                open_to_everybody(&config, &config.effective_accounts(), &public(address)).is_some(),
                warned,
                "{address} {account:?}"
            );
        }
        let accounts = vec![parse_account(&format!("mine:{own}")).unwrap()];
        let open = Config { accounts, any_account: true, ..Config::default() };
        assert_eq!(open_to_everybody(&open, &open.accounts, &public("127.0.0.1:1")), None);
        let warning = open_to_everybody(&open, &open.accounts, &public("0.0.0.0:1")).unwrap();
        assert!(warning.contains("Every account name is served"), "{warning}");
        assert!(warning.contains("or do without --any-account"), "{warning}");
    }

    #[test]
    fn endpoints_can_be_reached() {
        for (listening, endpoint_is) in [
            ("0.0.0.0:1", "http://127.0.0.1:1/a"),
            ("[::]:1", "http://[::1]:1/a"),
            ("10.0.0.7:1", "http://10.0.0.7:1/a"),
        ] {
            assert_eq!(endpoint("http", listening.parse().unwrap(), "a"), endpoint_is);
        }
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ports.json");
        std::fs::write(&path, "old").unwrap();
        write_atomically(
            &path,
            &ports(&[(ServiceName::Table, "127.0.0.1:7".parse().unwrap())], None, &PLAIN),
            Readers::Everybody,
        )
        .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("\"table\":{\"host\":\"127.0.0.1\",\"port\":7}}\n"), "{text}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_token_is_for_the_owner_only_whatever_was_left_there() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ports.json");
        let unfinished = dir.path().join(format!("ports.json.{}.new", std::process::id()));
        std::fs::write(&unfinished, "").unwrap();
        std::fs::set_permissions(&unfinished, std::fs::Permissions::from_mode(0o666)).unwrap();
        let before = std::fs::File::open(&unfinished).unwrap();
        write_atomically(&path, "{}", Readers::Owner).unwrap();
        let written = std::fs::metadata(&path).unwrap();
        assert_eq!(written.mode() & 0o777, 0o600);
        assert_ne!(written.ino(), before.metadata().unwrap().ino(), "somebody may have it open");
    }
}
