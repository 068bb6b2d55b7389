//! The configuration of a server: one struct, with defaults that work.
//!
//! Read from a TOML file whose keys are the long flags of `tepui serve`; the command line then puts
//! what the environment and the flags say on top. Keys that mean nothing are refused.

use crate::limits::Limits;
use crate::proxies::TrustedProxies;
use crate::remote_hosts::{ListedHost, RemoteHosts};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tepui_model::account::{Account, AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};

/// As many as the signatures have that are made with it. Azure's keys have 64.
const MIN_KEY_BYTES: usize = 32;
/// The longest that Azure keeps what was deleted.
const MAX_RETENTION_DAYS: u32 = 365;

/// How a server is to run.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Where the data is kept; `None`: in [the user's data directory](Self::data_dir).
    pub data_dir: Option<PathBuf>,
    /// Keep everything in memory: it is gone when the server stops.
    pub in_memory: bool,
    /// The accounts that the server knows: `[[account]]` in the file, each with a `name` and its
    /// `keys`. None: the development account, with the key that everybody knows.
    #[serde(rename = "account", deserialize_with = "accounts_of_file")]
    pub accounts: Vec<Account>,
    /// The services to serve.
    pub services: Vec<ServiceName>,
    /// The address on which the Blob service listens.
    pub blob_host: String,
    /// Its port; 0 picks a free one.
    pub blob_port: u16,
    /// The address on which the Queue service listens.
    pub queue_host: String,
    /// Its port; 0 picks a free one.
    pub queue_port: u16,
    /// The address on which the Table service listens.
    pub table_host: String,
    /// Its port; 0 picks a free one.
    pub table_port: u16,
    /// Copy blobs from the URLs of other servers, too, which this one then asks for them. Over `http` only, and only
    /// if their addresses are public.
    pub allow_remote_copy: bool,
    /// Servers that blobs are copied from whatever addresses they have: `HOST`, `HOST:PORT` or `ADDRESS/BITS`.
    pub remote_copy_hosts: Vec<String>,
    /// The accounts that keep the previous versions of their blobs.
    pub versioned_accounts: Vec<String>,
    /// For how many days a deleted container can be restored; 0: deleted is deleted.
    pub container_retention_days: u32,
    /// How long a blob takes to come back from the archive. Azure takes hours.
    pub rehydration_seconds: u64,
    /// Answer reads at the secondary endpoint, `ACCOUNT-secondary`.
    pub secondary: bool,
    /// Serve requests whatever version of the protocol they name.
    pub skip_api_version_check: bool,
    /// Take the account from the path always, never from the host name.
    pub disable_product_style_url: bool,
    /// Addresses and networks of proxies that say in `X-Forwarded-For` and `X-Forwarded-Proto` who has sent a request,
    /// and whether it came over TLS.
    pub trusted_proxies: TrustedProxies,
    /// Names of hosts by which the server is reached, with all below them. Where it listens on the machine itself and
    /// serves the development account, names that anybody could have pointed there are refused.
    pub allowed_hosts: Vec<String>,
    /// Serve what pages in a browser send there from other sites, whether or not a CORS rule allows it.
    pub allow_cross_site: bool,
    pub log_format: LogFormat,
    pub log_level: LogLevel,
    /// Write a line for each request. They are of level `info`.
    pub log_requests: bool,
    /// Where the log goes; `None`: to standard error.
    pub log_file: Option<PathBuf>,
    pub limits: Limits,
}

/// A service that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceName {
    Blob,
    Queue,
    Table,
}

impl ServiceName {
    pub const ALL: &[Self] = &[Self::Blob, Self::Queue, Self::Table];

    pub fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Queue => "queue",
            Self::Table => "table",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    #[default]
    Text,
    /// One object a line.
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: None,
            in_memory: false,
            accounts: Vec::new(),
            services: ServiceName::ALL.to_vec(),
            blob_host: "127.0.0.1".to_owned(),
            blob_port: 10000,
            queue_host: "127.0.0.1".to_owned(),
            queue_port: 10001,
            table_host: "127.0.0.1".to_owned(),
            table_port: 10002,
            allow_remote_copy: false,
            remote_copy_hosts: Vec::new(),
            versioned_accounts: Vec::new(),
            container_retention_days: 0,
            rehydration_seconds: 5,
            secondary: true,
            skip_api_version_check: false,
            disable_product_style_url: false,
            trusted_proxies: TrustedProxies::default(),
            allowed_hosts: Vec::new(),
            allow_cross_site: false,
            log_format: LogFormat::default(),
            log_level: LogLevel::default(),
            log_requests: true,
            log_file: None,
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// The defaults, and what the file says instead.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let named = |what: &dyn fmt::Display| ConfigError(format!("{what}: {}", path.display()));
        let text = std::fs::read_to_string(path)
            .map_err(|error| named(&format_args!("cannot read the configuration ({error})")))?;
        Self::from_text(&text).map_err(|error| named(&error))
    }

    fn from_text(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            ConfigError(format!("{} (line {line})", error.message().replace("unknown field", "unknown key")))
        })
    }

    /// The accounts to serve: those configured, or the development account.
    pub fn effective_accounts(&self) -> Vec<Account> {
        if self.accounts.is_empty() { vec![development_account()] } else { self.accounts.clone() }
    }

    /// The servers that blobs are copied from.
    pub(crate) fn remote_hosts(&self) -> RemoteHosts {
        let listed = self.remote_copy_hosts.iter().filter_map(|text| ListedHost::parse(text)).collect();
        RemoteHosts { any_public: self.allow_remote_copy, listed }
    }

    /// The host and the port on which a service listens.
    pub fn address(&self, service: ServiceName) -> (&str, u16) {
        match service {
            ServiceName::Blob => (&self.blob_host, self.blob_port),
            ServiceName::Queue => (&self.queue_host, self.queue_port),
            ServiceName::Table => (&self.table_host, self.table_port),
        }
    }

    /// The directory for the data: `data_dir`, or `tepui` in the user's data directory.
    pub fn data_dir(&self) -> Result<PathBuf, ConfigError> {
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        self.data_dir
            .clone()
            .or_else(|| from("XDG_DATA_HOME").map(|data| data.join("tepui")))
            .or_else(|| from("LOCALAPPDATA").map(|data| data.join("tepui")))
            .or_else(|| from("HOME").map(|home| home.join(".local/share/tepui")))
            .ok_or_else(|| {
                ConfigError("no data directory is given, and there is no HOME to put one".to_owned())
            })
    }

    /// Says what is wrong with a configuration that cannot work.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut names: Vec<&str> = self.accounts.iter().map(|account| account.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ConfigError(format!("an account is given twice: {}", twice[0])));
        }
        let served = self.effective_accounts();
        let is_served = |name: &&String| served.iter().any(|account| account.name == **name);
        if let Some(unknown) = self.versioned_accounts.iter().find(|name| !is_served(name)) {
            return Err(ConfigError(format!(
                "versions are to be kept of an account that is not served: {unknown}"
            )));
        }
        if self.container_retention_days > MAX_RETENTION_DAYS {
            let days = self.container_retention_days;
            return Err(ConfigError(format!(
                "containers are kept for {MAX_RETENTION_DAYS} days at most: {days}"
            )));
        }
        if let Some(bad) = self.remote_copy_hosts.iter().find(|text| ListedHost::parse(text).is_none()) {
            return Err(ConfigError(format!(
                "a host to copy from is HOST, HOST:PORT or ADDRESS/BITS: {bad}"
            )));
        }
        if self.services.is_empty() {
            return Err(ConfigError("there is no service to serve".to_owned()));
        }
        self.limits.check().map_err(ConfigError)
    }
}

/// The account that every tool uses for development.
pub fn development_account() -> Account {
    let key = BASE64.decode(DEVELOPMENT_KEY_BASE64).unwrap_or_default();
    Account { name: DEVELOPMENT_ACCOUNT.to_owned(), keys: vec![AccountKey::new(key)] }
}

/// A key as connection strings have it.
pub fn key_text(key: &AccountKey) -> String {
    BASE64.encode(key.bytes())
}

/// Parses `NAME:KEY[:KEY2]`. The message of an error names the account, never a key.
pub fn parse_account(text: &str) -> Result<Account, ConfigError> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    account(name, &parts.collect::<Vec<_>>())
}

/// Parses `NAME:KEY[:KEY2];NAME:KEY…`, as the environment has it.
pub fn parse_accounts(text: &str) -> Result<Vec<Account>, ConfigError> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(parse_account).collect()
}

fn account(name: &str, keys: &[&str]) -> Result<Account, ConfigError> {
    let spelled = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !(1..=63).contains(&name.len()) || !name.bytes().all(spelled) || name.ends_with("-secondary") {
        return Err(ConfigError(format!(
            "an account's name has letters, digits, - and _ and does not end in -secondary: {name}"
        )));
    }
    if !(1..=2).contains(&keys.len()) {
        return Err(ConfigError(format!(
            "an account has one or two keys (NAME:KEY or NAME:KEY:KEY2): {name}"
        )));
    }
    let decode = |key: &&str| match BASE64.decode(key.trim()) {
        Ok(bytes) if bytes.len() >= MIN_KEY_BYTES => Ok(AccountKey::new(bytes)),
        Ok(bytes) if !bytes.is_empty() => Err(ConfigError(format!(
            "a key has {} bytes and needs {MIN_KEY_BYTES} or more (`openssl rand -base64 64` makes one), for account: {name}",
            bytes.len()
        ))),
        _ => Err(ConfigError(format!("a key is not base64, for account: {name}"))),
    };
    Ok(Account { name: name.to_owned(), keys: keys.iter().map(decode).collect::<Result<_, _>>()? })
}

fn accounts_of_file<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Account>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        name: String,
        keys: Vec<String>,
    }
    let entries = Vec::<Entry>::deserialize(from)?;
    let parse =
        |entry: &Entry| account(&entry.name, &entry.keys.iter().map(String::as_str).collect::<Vec<_>>());
    entries.iter().map(parse).collect::<Result<_, _>>().map_err(D::Error::custom)
}

impl FromStr for ServiceName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.iter().find(|service| service.name() == text);
        found.copied().ok_or_else(|| ConfigError(format!("a service is blob, queue or table: {text}")))
    }
}

impl FromStr for LogFormat {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(ConfigError(format!("a log format is text or json: {text}"))),
        }
    }
}

impl LogLevel {
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl FromStr for LogLevel {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "off" => Self::Off,
            "error" => Self::Error,
            "warn" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => {
                return Err(ConfigError(format!(
                    "a log level is off, error, warn, info, debug or trace: {text}"
                )));
            }
        })
    }
}

/// What is wrong with a configuration, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_overrides_the_defaults() {
        let text = r#"
            table-port = 0
            log-format = "json"
            [[account]]
            name = "people"
            keys = ["c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=", "b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyISE="]
            [limits]
            max-connections = 9
        "#;
        let config = Config::from_text(text).unwrap();
        assert_eq!(config.table_port, 0);
        assert_eq!(config.log_format, LogFormat::Json);
        assert_eq!(config.limits.max_connections, 9);
        assert_eq!(config.accounts[0].name, "people");
        assert_eq!(config.accounts[0].keys[1].bytes(), b"otherotherotherotherotherother!!");
        assert_eq!(config.table_host, "127.0.0.1");
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        for (case, text, says) in [
            ("a key", "\ntabel-port = 1", "unknown key `tabel-port`"),
            ("its line", "\ntabel-port = 1", "(line 2)"),
            ("in limits", "[limits]\nmax-conections = 1", "unknown key `max-conections`"),
            ("in an account", "[[account]]\nname='a'\nkeys=[]\nkye='x'", "unknown key `kye`"),
            ("a port", "table-port = 70000", "70000"),
            ("a level", "log-level = 'loud'", "loud"),
        ] {
            let error = Config::from_text(text).unwrap_err().to_string();
            assert!(error.contains(says), "{case}: {error}");
        }
    }

    #[test]
    fn accounts_as_the_environment_has_them() {
        let accounts = parse_accounts("one:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=; two:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=:b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyISE=;").unwrap();
        let shape: Vec<_> = accounts.iter().map(|a| (a.name.as_str(), a.keys.len())).collect();
        assert_eq!(shape, [("one", 1), ("two", 2)]);
        for (case, text, says) in [
            ("no key", "one", "one or two keys"),
            ("three keys", "one:YQ==:YQ==:YQ==", "one or two keys"),
            ("not base64", "one:hunter2!", "not base64"),
            ("an empty key", "one:", "not base64"),
            ("a key that can be guessed", "one:c2VjcmV0", "a key has 6 bytes and needs 32 or more"),
            ("one byte too few", "one:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMQ==", "a key has 31 bytes"),
            ("no name", ":YQ==", "name"),
            ("a name that means another account", "one-secondary:YQ==", "-secondary"),
        ] {
            let error = parse_accounts(text).unwrap_err().to_string();
            assert!(error.contains(says), "{case}: {error}");
            assert!(!error.contains("hunter2"), "{case} shows the key: {error}");
        }
    }

    #[test]
    fn settings_of_blobs_are_checked() {
        for (text, says) in [
            ("versioned-accounts = ['devstoreaccount1']\ncontainer-retention-days = 365", None),
            ("versioned-accounts = ['other']", Some("not served: other")),
            ("container-retention-days = 366", Some("365 days at most: 366")),
        ] {
            let error = Config::from_text(text).unwrap().check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), says.is_some(), "{text}: {error:?}");
            assert!(error.unwrap_or_default().contains(says.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn an_account_given_twice_is_refused() {
        let accounts = parse_accounts("one:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=;one:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=").unwrap();
        let error = Config { accounts, ..Config::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "an account is given twice: one");
    }
}
