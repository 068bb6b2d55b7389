//! Where the database is, as a URL.

use std::path::PathBuf;
use std::time::Duration;
use tepui_storage::StorageError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// Where the database is and how long to wait for it.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host1:5432,host2:5432/database?option=value`, as libpq reads it. Of several hosts the one
    /// that accepts writes is used, unless `target_session_attrs` says otherwise. A schema is chosen with
    /// `options=-csearch_path%3Dschema`; `sslmode` is `disable`, `prefer` (the default), `require` or `verify-full`, the
    /// last with the certificate authorities of `sslrootcert` or, without it, those that browsers trust.
    pub url: String,
    /// The most connections that are open at once.
    pub max_connections: usize,
    /// How long a call may take, with all that it waits for.
    pub timeout: Duration,
}

impl std::fmt::Debug for PostgresOptions {
    /// Without the URL, which may have a password in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("max_connections", &self.max_connections)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), max_connections: 32, timeout: Duration::from_secs(10) }
    }
}

/// How long it may take to connect to one host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How a server is to be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verification {
    /// Encrypted for whoever answers.
    None,
    /// Its certificate is for its name, and from one of these authorities; `None`: from one that browsers trust.
    Full { roots: Option<PathBuf> },
}

/// A URL that was read.
pub(crate) struct Endpoints {
    /// One for each host.
    pub(crate) hosts: Vec<Endpoint>,
    pub(crate) verification: Verification,
    pub(crate) connect_timeout: Duration,
}

pub(crate) struct Endpoint {
    pub(crate) config: Config,
    /// For messages.
    pub(crate) name: String,
}

impl Endpoints {
    /// No error repeats any part of the URL: a password may be anywhere in it.
    pub(crate) fn parse(url: &str, timeout: Duration) -> Result<Self, StorageError> {
        let (url, ssl) = SslOptions::take(url)?;
        let mut config: Config = url.parse().map_err(|error| unreadable(&error))?;
        config.ssl_mode(ssl.mode);
        let connect_timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT).min(timeout);
        config.connect_timeout(connect_timeout);
        if config.get_application_name().is_none() {
            config.application_name("tepui");
        }
        if !url.contains("target_session_attrs=") {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(timeout);
        }
        if !url.contains("keepalives_idle=") {
            config.keepalives_idle(Duration::from_secs(5));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(Duration::from_secs(2));
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(3);
        }
        Ok(Self { hosts: one_by_one(&config)?, verification: ssl.verification, connect_timeout })
    }
}

/// The options about TLS, of which the library knows only some.
struct SslOptions {
    mode: SslMode,
    verification: Verification,
}

impl SslOptions {
    /// Takes them out of the URL.
    fn take(url: &str) -> Result<(String, Self), StorageError> {
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        if !is_url {
            return Err(StorageError::failed("the URL of a PostgreSQL database begins with postgres://"));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = ("prefer", None, Vec::new());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", "system")) => roots = None,
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(percent_decoded(path)?)),
                _ => rest.push(option),
            }
        }
        if roots.is_some() && mode != "verify-full" {
            return Err(StorageError::failed("sslrootcert asks for sslmode=verify-full"));
        }
        let full = Verification::Full { roots };
        let (mode, verification) = match mode {
            "disable" => (SslMode::Disable, Verification::None),
            "prefer" => (SslMode::Prefer, Verification::None),
            "require" => (SslMode::Require, Verification::None),
            "verify-full" => (SslMode::Require, full),
            _ => {
                let known = "sslmode is disable, prefer, require or verify-full";
                return Err(StorageError::failed(known));
            }
        };
        let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        Ok((url, Self { mode, verification }))
    }
}

fn percent_decoded(text: &str) -> Result<String, StorageError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |digit: Option<u8>| digit.and_then(|digit| char::from(digit).to_digit(16));
        match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
                _ => return Err(StorageError::failed("a value of the URL ends in half a %-escape")),
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| StorageError::failed("a value of the URL is not UTF-8"))
}

/// Only what is known to have no value in it.
fn unreadable(error: &tokio_postgres::Error) -> StorageError {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    match cause.strip_prefix("invalid value for option ") {
        Some(option) => {
            StorageError::failed(format!("the URL of the database has an invalid value for {option}"))
        }
        None => StorageError::failed(
            "the URL of the database cannot be read (special characters have to be %-encoded)",
        ),
    }
}

/// A configuration for each host.
fn one_by_one(all: &Config) -> Result<Vec<Endpoint>, StorageError> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = hosts.len().max(addresses.len());
    if count == 0 {
        return Err(StorageError::failed("the URL of the database names no host"));
    }
    let fits = |length: usize| length <= 1 || length == count;
    if !fits(ports.len()) || (!addresses.is_empty() && !hosts.is_empty() && addresses.len() != hosts.len()) {
        return Err(StorageError::failed("the URL of the database does not have as many ports as hosts"));
    }
    let endpoint = |index: usize| {
        let mut config = without_hosts(all);
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let mut name = match hosts.get(index) {
            Some(Host::Tcp(host)) => {
                config.host(host);
                format!("{host}:{port}")
            }
            #[cfg(unix)]
            Some(Host::Unix(path)) => {
                config.host_path(path);
                format!("{}:{port}", path.display())
            }
            _ => String::new(),
        };
        if let Some(address) = addresses.get(index) {
            config.hostaddr(*address);
            if name.is_empty() {
                name = format!("{address}:{port}");
            }
        }
        config.port(port);
        Endpoint { config, name }
    };
    Ok((0..count).map(endpoint).collect())
}

/// The library cannot take hosts out of a configuration.
fn without_hosts(all: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(database) = all.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = all.get_options() {
        config.options(options);
    }
    if let Some(name) = all.get_application_name() {
        config.application_name(name);
    }
    if let Some(timeout) = all.get_connect_timeout() {
        config.connect_timeout(*timeout);
    }
    if let Some(timeout) = all.get_tcp_user_timeout() {
        config.tcp_user_timeout(*timeout);
    }
    config.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
    if let Some(interval) = all.get_keepalives_interval() {
        config.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        config.keepalives_retries(retries);
    }
    config
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .target_session_attrs(all.get_target_session_attrs())
        .channel_binding(all.get_channel_binding());
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoints, StorageError> {
        Endpoints::parse(url, Duration::from_secs(10))
    }

    #[test]
    fn a_url_names_hosts_and_how_to_trust_them() {
        let endpoints = parse(
            "postgresql://me:p%40ss@one:1,two:2/db?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem&options=-csearch_path%3Dmine&connect_timeout=1",
        );
        let endpoints = endpoints.expect("it is valid");
        let names: Vec<&str> = endpoints.hosts.iter().map(|host| &host.name[..]).collect();
        assert_eq!(names, ["one:1", "two:2"]);
        assert_eq!(endpoints.verification, Verification::Full { roots: Some("/etc/ca.pem".into()) });
        assert_eq!(endpoints.connect_timeout, Duration::from_secs(1));
        let config = &endpoints.hosts[1].config;
        assert_eq!(config.get_hosts(), [Host::Tcp("two".to_owned())]);
        assert_eq!((config.get_ports(), config.get_dbname()), (&[2][..], Some("db")));
        assert_eq!((config.get_user(), config.get_password()), (Some("me"), Some(&b"p@ss"[..])));
        assert_eq!(config.get_options(), Some("-csearch_path=mine"));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        let plain = parse("postgres:///db?host=%2Ftmp&port=7&target_session_attrs=any").expect("it is valid");
        assert_eq!(plain.hosts[0].name, "/tmp:7");
        assert_eq!(plain.hosts[0].config.get_target_session_attrs(), TargetSessionAttrs::Any);
        assert_eq!(
            (plain.hosts[0].config.get_ssl_mode(), plain.verification),
            (SslMode::Prefer, Verification::None)
        );
    }

    #[test]
    fn no_error_shows_a_part_of_the_url() {
        for url in [
            "secret",
            "host=h password=secret",
            "postgres://me:secret@h:port/db",
            "postgres://me:sec@ret@h/db?secret",
            "postgres://me@h/db?secret=secret",
            "postgres://me@h/db?sslmode=secret",
            "postgres://me:secret@h1,h2/db?port=1,2,3&password=secret",
            "postgres://me@h/db?sslrootcert=secret%2",
            "postgres://me:secret@/db",
        ] {
            let error = parse(url).err().unwrap_or_else(|| panic!("{url} is refused"));
            assert!(!format!("{error} {error:?}").contains("secret"), "{url}: {error:?}");
        }
        let options = PostgresOptions::new("postgres://me:secret@h/db");
        assert!(!format!("{options:?}").contains("secret"));
    }
}
