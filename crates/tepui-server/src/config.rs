//! The settings of a server: one struct, with defaults that work.
//!
//! A setting is added as a field of [`Config`] (or of [`Limits`]), and nowhere else.

mod accounts;
mod admin_token;
mod issuers;
mod roles;
mod sources;
mod storage;
mod tls;

pub use accounts::{AccountSwitches, development_account, key_text, parse_account, parse_accounts};
pub use admin_token::AdminToken;
pub use issuers::Oauth;
pub use sources::{Given, path, template};
pub use storage::{StorageSetting, StorageUrl, is_storage_url};
pub use tls::{PfxPassword, TlsMode, TlsSetting};

use crate::net::limits::Limits;
use crate::proxies::Network;
use crate::remote_hosts::{ListedHost, RemoteHosts};
use crate::targets::TargetSetting;
use clap::{Args, value_parser};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use tepui_identity::IssuerSettings;
use tepui_model::account::Account;
use tepui_model::role::RoleAssignment;

/// How a server is to run. Every setting is one field: its documentation is the help text, and its attributes are the
/// default and the range. The key in the file and the environment variable follow from its name (`config/sources.rs`).
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// Keep the data here [default: tepui in the user's data directory, ~/.local/share/tepui]
    #[arg(long, short = 'l', alias = "location", value_name = "DIR", help_heading = "General", value_parser = path)]
    pub data_dir: Option<PathBuf>,

    /// Keep everything in memory: it is gone when the server stops (also --inMemoryPersistence)
    #[arg(long, alias = "inMemoryPersistence", help_heading = "General")]
    pub in_memory: bool,

    /// Keep the data in local:DIR (as --data-dir DIR), memory (as --in-memory), or a store that several servers share:
    /// postgres://USER:PASSWORD@HOST/DATABASE or tikv://HOST:PORT [default: that of --data-dir]
    ///
    /// Everyone on the machine can see the arguments of a process: keep a URL with a password in the environment or the file. See
    /// docs/cluster.md.
    #[arg(long, value_name = "STORAGE", hide_env_values = true, help_heading = "Storage")]
    pub storage: Option<StorageUrl>,

    /// Keep the bytes of blobs in s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX, where --storage is a store that
    /// several servers share [default: where the rest is, if that is local or in memory; otherwise there is none]
    #[arg(long, value_name = "BLOBS", hide_env_values = true, help_heading = "Storage")]
    pub blobs: Option<StorageUrl>,

    /// Open so many connections to a store over a network at most
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = value_parser!(u32).range(1..=1000),
        help_heading = "Storage")]
    pub storage_connections: u32,

    /// Wait so long for each answer of a store over a network
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = value_parser!(u64).range(1..=60),
        help_heading = "Storage")]
    pub storage_timeout_seconds: u64,

    /// Wait so long at the start for a store over a network that cannot be reached
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(..=3600),
        help_heading = "Storage")]
    pub storage_start_seconds: u64,

    /// The accounts to serve. None: the development account, with the key that is public.
    // Not an argument, as errors of arguments show their values. `[[account]]` in the file.
    #[arg(skip)]
    pub accounts: Vec<Account>,

    /// What is said of accounts besides their keys, by their names.
    #[arg(skip)]
    pub account_switches: HashMap<String, AccountSwitches>,

    /// Who has which roles. `[[role-assignment]]` in the file.
    #[arg(skip)]
    pub role_assignments: Vec<RoleAssignment>,

    /// Serve any account name, with data of its own and the public development key: a tenant for each test
    ///
    /// Accounts that are given keep their keys.
    #[arg(long, help_heading = "General")]
    pub any_account: bool,

    /// The issuers whose tokens are taken. None: no tokens are, unless the two settings below say so.
    // `[[issuer]]` in the file.
    #[arg(skip)]
    pub issuers: Vec<IssuerSettings>,

    /// Take tokens for what they say, without looking at their signatures, as Azurite does with `basic`: only if all services
    /// listen on this machine itself and no proxy is trusted. Everybody has all roles then
    #[arg(long, value_name = "basic", help_heading = "Identity")]
    pub oauth: Option<Oauth>,

    /// Be an issuer of tokens for development: those who may use the admin API get tokens for anybody (tepui admin token)
    ///
    /// See docs/identity.md.
    #[arg(long, help_heading = "Identity")]
    pub dev_issuer: bool,

    /// Put what this directory or tar file holds into the server at its start: tables, queues, containers
    ///
    /// Entities and blobs that differ are replaced, and messages are put only into empty queues. Nothing is deleted. See docs/seed.md.
    #[arg(long, value_name = "DIR|FILE", help_heading = "General", value_parser = path)]
    pub seed: Option<PathBuf>,

    /// Serve only these services, such as --services table
    #[arg(
        long,
        value_name = "SERVICES",
        value_delimiter = ',',
        default_value = "blob,queue,table",
        help_heading = "Network"
    )]
    pub services: Vec<ServiceName>,

    /// Listen on this address for all services
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", help_heading = "Network")]
    pub host: String,

    /// Listen on this address for the Blob service [default: that of --host]
    #[arg(long, alias = "blobHost", value_name = "HOST", help_heading = "Network")]
    pub blob_host: Option<String>,

    /// Listen on this port for the Blob service; 0 picks a free one
    #[arg(long, alias = "blobPort", value_name = "PORT", default_value_t = 10000, help_heading = "Network")]
    pub blob_port: u16,

    /// Listen on this address for the Queue service [default: that of --host]
    #[arg(long, alias = "queueHost", value_name = "HOST", help_heading = "Network")]
    pub queue_host: Option<String>,

    /// Listen on this port for the Queue service; 0 picks a free one
    #[arg(long, alias = "queuePort", value_name = "PORT", default_value_t = 10001, help_heading = "Network")]
    pub queue_port: u16,

    /// Listen on this address for the Table service [default: that of --host]
    #[arg(long, alias = "tableHost", value_name = "HOST", help_heading = "Network")]
    pub table_host: Option<String>,

    /// Listen on this port for the Table service; 0 picks a free one
    #[arg(long, alias = "tablePort", value_name = "PORT", default_value_t = 10002, help_heading = "Network")]
    pub table_port: u16,

    /// When the server is asked to stop, answer /health with 503 for so long before connections are closed, so that load
    /// balancers send requests elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = value_parser!(u64).range(..=3600),
        help_heading = "Network")]
    pub drain_seconds: u64,

    /// Take the account from the path always, never from the host name
    #[arg(long, alias = "disableProductStyleUrl", help_heading = "Network")]
    pub disable_product_style_url: bool,

    /// Believe this proxy, or a network of them such as 10.0.0.0/8, where requests come from (X-Forwarded-For) and
    /// whether over TLS (X-Forwarded-Proto); may be repeated
    #[arg(long = "trusted-proxy", value_name = "ADDRESS", value_delimiter = ',', help_heading = "Network")]
    pub trusted_proxies: Vec<Network>,

    /// Know the server by this host name and those below it, too; may be repeated
    ///
    /// Where the server listens on the machine itself and serves the development account, host names that others could
    /// have pointed there are refused.
    #[arg(long = "allowed-host", value_name = "NAME", value_delimiter = ',', help_heading = "Network")]
    pub allowed_hosts: Vec<String>,

    /// Serve what pages of other sites send to the development account, whether or not a CORS rule allows it
    #[arg(long, help_heading = "Network")]
    pub allow_cross_site: bool,

    /// Copy blobs from the http URLs of other servers, too, if their addresses are public
    #[arg(long, help_heading = "Network")]
    pub allow_remote_copy: bool,

    /// Copy blobs from this server, whatever address it has: HOST, HOST:PORT or ADDRESS/BITS; may be repeated
    #[arg(long = "remote-copy-host", value_name = "HOST", value_delimiter = ',', help_heading = "Network")]
    pub remote_copy_hosts: Vec<ListedHost>,

    /// Serve TLS with this certificate, beside plain HTTP: a chain in PEM with --key, or a PFX file with --pwd
    ///
    /// It is read again when it changes, and on SIGHUP. See docs/tls.md.
    #[arg(long, value_name = "FILE", help_heading = "TLS", value_parser = path)]
    pub cert: Option<PathBuf>,

    /// The key of the certificate, in PEM: PKCS#8, PKCS#1 or SEC1
    #[arg(long, value_name = "FILE", help_heading = "TLS", value_parser = path)]
    pub key: Option<PathBuf>,

    /// The password of the PFX file
    ///
    /// Everyone on the machine can see the arguments of a process: keep it in the environment or the file.
    // Never invalid here, as errors of arguments show their values.
    #[arg(long, value_name = "PASSWORD", hide_env_values = true, help_heading = "TLS")]
    pub pwd: Option<PfxPassword>,

    /// Make a certificate authority and a certificate for this server (auto), and renew it, or do not (off)
    #[arg(long, value_name = "auto", default_value = "off", help_heading = "TLS")]
    pub tls: TlsMode,

    /// Keep what --tls auto makes here [default: tls in the data directory]
    #[arg(long, value_name = "DIR", help_heading = "TLS", value_parser = path)]
    pub tls_dir: Option<PathBuf>,

    /// Refuse plain HTTP, but for /health
    ///
    /// What a trusted proxy was asked over TLS is served.
    #[arg(long, help_heading = "TLS")]
    pub require_tls: bool,

    /// Keep the previous versions of blobs in this account; may be repeated
    #[arg(long = "versioned-account", value_name = "NAME", value_delimiter = ',', help_heading = "Blobs")]
    pub versioned_accounts: Vec<String>,

    /// Let deleted containers be restored for so many days, 365 at most as on Azure; 0: not at all
    #[arg(long, value_name = "DAYS", default_value_t = 0, value_parser = value_parser!(u32).range(..=365),
        help_heading = "Blobs")]
    pub container_retention_days: u32,

    /// Let blobs take so long to come back from the archive, which takes hours on Azure
    #[arg(long, value_name = "SECONDS", default_value_t = 5, help_heading = "Blobs")]
    pub rehydration_seconds: u64,

    /// Serve requests whatever version of the protocol they name
    #[arg(long, alias = "skipApiVersionCheck", help_heading = "Protocol")]
    pub skip_api_version_check: bool,

    /// Answer reads at ACCOUNT-secondary
    #[arg(long, default_value_t = true, help_heading = "Protocol")]
    pub secondary: bool,

    /// Say in the header tepui-receipt what a read, a query, a list, a change or a batch has cost: always, never, or when
    /// it was asked for by the request header `tepui-receipt: want`. Unless never, `tepui-receipt: timing` asks for
    /// Server-Timing
    #[arg(long, value_name = "WHEN", default_value = "always", help_heading = "Insight")]
    pub receipts: Receipts,

    /// Hold the scalability targets of Azure: off, seed-2016, azure-2026 or a TOML file; in the configuration file they may be a table of their own
    #[arg(long, value_name = "TARGETS", default_value = "off", help_heading = "Insight")]
    pub targets: TargetSetting,

    /// Serve metrics for Prometheus at /metrics and the admin API at /admin/v1 on this port; 0 picks a free one [default:
    /// not at all; 10003 with --test-bench]
    #[arg(long, value_name = "PORT", help_heading = "Insight")]
    pub admin_port: Option<u16>,

    /// Listen on this address for the admin port
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", help_heading = "Insight")]
    pub admin_host: String,

    /// Let those use the admin API who know this secret of 16 to 256 letters, digits and signs [default: a random one,
    /// which is printed at the start]
    ///
    /// Everyone on the machine can see the arguments of a process: keep it in the environment or the file.
    // Never invalid here, as errors of arguments show their values.
    #[arg(long, value_name = "TOKEN", hide_env_values = true, help_heading = "Insight")]
    pub admin_token: Option<AdminToken>,

    /// Offer a clock that can be set, faults and what else tests need by the admin API: not for data that matters
    #[arg(long, help_heading = "Insight")]
    pub test_bench: bool,

    /// Write analytics logs and metrics, where an account has switched them on, when they have waited for so long; 60 at most
    #[arg(long, value_name = "SECONDS", default_value_t = 50, value_parser = value_parser!(u64).range(1..=60),
        help_heading = "Insight")]
    pub analytics_flush_seconds: u64,

    /// Write the log as text or as json, one object a line
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = "Log")]
    pub log_format: LogFormat,

    /// Log off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", help_heading = "Log")]
    pub log_level: LogLevel,

    /// Write a line of level info for each request
    #[arg(long, default_value_t = true, help_heading = "Log")]
    pub log_requests: bool,

    /// Write the log to this file instead of standard error
    #[arg(long, value_name = "FILE", help_heading = "Log", value_parser = path)]
    pub log_file: Option<PathBuf>,

    #[command(flatten)]
    pub limits: Limits,

    /// The build that runs, for metrics.
    #[arg(skip)]
    pub build: Build,
}

/// A service that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Which build this is.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    pub version: &'static str,
    /// The commit that it was built from; empty if that is not known.
    pub revision: &'static str,
}

impl Default for Build {
    fn default() -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), revision: "" }
    }
}

/// When answers say what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipts {
    Always,
    Asked,
    Never,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    /// One object a line.
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl Config {
    /// The accounts to serve: those configured, or the development account.
    pub fn effective_accounts(&self) -> Vec<Account> {
        if self.accounts.is_empty() { vec![development_account()] } else { self.accounts.clone() }
    }

    /// Serves these accounts instead of those before.
    pub fn replace_accounts(&mut self, accounts: Vec<Account>) {
        self.accounts = accounts;
        self.account_switches.clear();
    }

    /// The account of what names none: the first one.
    pub(crate) fn default_account(&self) -> String {
        self.effective_accounts().into_iter().next().map(|account| account.name).unwrap_or_default()
    }

    /// The servers that blobs are copied from.
    pub(crate) fn remote_hosts(&self) -> RemoteHosts {
        RemoteHosts { any_public: self.allow_remote_copy, listed: self.remote_copy_hosts.clone() }
    }

    /// The host and the port on which a service listens.
    pub fn address(&self, service: ServiceName) -> (&str, u16) {
        let (host, port) = match service {
            ServiceName::Blob => (&self.blob_host, self.blob_port),
            ServiceName::Queue => (&self.queue_host, self.queue_port),
            ServiceName::Table => (&self.table_host, self.table_port),
        };
        (host.as_ref().unwrap_or(&self.host), port)
    }

    /// The directory for data that is local: `data_dir`, or `tepui` in the user's data directory.
    fn default_dir(&self) -> Result<PathBuf, ConfigError> {
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

    /// The port of metrics and the admin API. `None`: there is none.
    pub fn effective_admin_port(&self) -> Option<u16> {
        const OF_TEST_BENCHES: u16 = 10003;
        self.admin_port.or(self.test_bench.then_some(OF_TEST_BENCHES))
    }

    /// Fails if settings contradict each other. That each has a value in its range is checked where it is read.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut names: Vec<&str> = self.accounts.iter().map(|account| account.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ConfigError(format!("an account is given twice: {}", twice[0])));
        }
        if self.storage.is_some() || self.blobs.is_some() {
            self.storage()?;
        }
        self.check_issuers()?;
        self.tls_setting()?;
        self.admin_token.as_ref().map_or(Ok(()), AdminToken::check)
    }
}

impl Config {
    /// Fails if it names accounts that are not served. Those of the admin API are known only when the data is open.
    pub(crate) fn check_names(&self, is_served: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        match self.versioned_accounts.iter().find(|name| !is_served(name)) {
            Some(unknown) => Err(ConfigError(format!(
                "versions are to be kept of an account that is not served: {unknown}"
            ))),
            None => Ok(()),
        }
    }
}

impl FromStr for ServiceName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.iter().find(|service| service.name() == text);
        found.copied().ok_or_else(|| ConfigError(format!("a service is blob, queue or table: {text}")))
    }
}

impl FromStr for Receipts {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "always" => Ok(Self::Always),
            "asked" => Ok(Self::Asked),
            "never" => Ok(Self::Never),
            _ => Err(ConfigError(format!("receipts are given always, asked or never: {text}"))),
        }
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
    fn versions_are_kept_of_accounts_that_are_served() {
        for (account, says) in [("devstoreaccount1", None), ("other", Some("not served: other"))] {
            let config = Config { versioned_accounts: vec![account.to_owned()], ..Config::default() };
            let is_served = |name: &str| name == "devstoreaccount1";
            let error = config.check_names(is_served).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), says.is_some(), "{account}: {error:?}");
            assert!(error.unwrap_or_default().contains(says.unwrap_or_default()), "{account}");
        }
    }

    #[test]
    fn a_test_bench_has_an_admin_port() {
        for (given, test_bench, expected) in [
            (None, false, None),
            (Some(1), false, Some(1)),
            (None, true, Some(10003)),
            (Some(0), true, Some(0)),
        ] {
            let config = Config { admin_port: given, test_bench, ..Config::default() };
            assert_eq!(config.effective_admin_port(), expected, "{given:?} {test_bench}");
        }
    }

    #[test]
    fn an_account_given_twice_is_refused() {
        let accounts = parse_accounts("one:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=;one:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=").unwrap();
        let error = Config { accounts, ..Config::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "an account is given twice: one");
    }
}
