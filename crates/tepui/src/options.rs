//! The options of `tepui serve`, and how they become a configuration.
//!
//! A flag wins over the environment, which wins over the file, which wins over the defaults. The
//! spellings of Azurite are understood beside our own; what it serves and we do not is said, not hidden.

use clap::Args;
use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tepui_model::account::Account;
use tepui_server::config::{self, Config, ConfigError, LogFormat, LogLevel, ServiceName};
use tepui_server::{Network, TrustedProxies};

/// Serves Azure Storage.
///
/// A flag wins over the environment, that over the configuration file, and that over the defaults.
/// Azurite's spellings of these options are understood as well.
#[derive(Args, Debug, Default)]
#[command(after_long_help = long_help())]
pub(crate) struct Options {
    /// Read this TOML file first
    #[arg(long, value_name = "FILE", env = "TEPUI_CONFIG", help_heading = "General")]
    config: Option<PathBuf>,

    /// Keep the data here [default: tepui in the user's data directory, ~/.local/share/tepui]
    #[arg(
        long,
        short = 'l',
        alias = "location",
        value_name = "DIR",
        env = "TEPUI_DATA_DIR",
        help_heading = "General"
    )]
    data_dir: Option<PathBuf>,

    /// Keep everything in memory: it is gone when the server stops (also --inMemoryPersistence)
    #[arg(long, alias = "inMemoryPersistence", env = "TEPUI_IN_MEMORY", help_heading = "General",
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true,
        value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    in_memory: Option<bool>,

    /// Serve this account instead of the development account; may be repeated
    ///
    /// Everyone on the machine can see the arguments of a process: keep real keys in the configuration
    /// file, or in the environment as TEPUI_ACCOUNTS (or AZURITE_ACCOUNTS): `NAME:KEY[:KEY2];NAME:KEY`
    #[arg(long, value_name = "NAME:KEY[:KEY2]", help_heading = "General")]
    account: Vec<String>,

    /// Show the keys of configured accounts in the connection strings printed at the start
    #[arg(long, help_heading = "General")]
    pub(crate) show_keys: bool,

    /// Serve only these services, such as --services table [default: blob,queue,table]
    #[arg(
        long,
        value_name = "SERVICES",
        value_delimiter = ',',
        env = "TEPUI_SERVICES",
        help_heading = "Network"
    )]
    services: Vec<ServiceName>,

    /// Listen on this address for all services [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", env = "TEPUI_HOST", help_heading = "Network")]
    host: Option<String>,

    /// Listen on this address for the Blob service [default: that of --host]
    #[arg(long, alias = "blobHost", value_name = "HOST", env = "TEPUI_BLOB_HOST", help_heading = "Network")]
    blob_host: Option<String>,

    /// Listen on this port for the Blob service; 0 picks a free one [default: 10000]
    #[arg(long, alias = "blobPort", value_name = "PORT", env = "TEPUI_BLOB_PORT", help_heading = "Network")]
    blob_port: Option<u16>,

    /// Listen on this address for the Queue service [default: that of --host]
    #[arg(
        long,
        alias = "queueHost",
        value_name = "HOST",
        env = "TEPUI_QUEUE_HOST",
        help_heading = "Network"
    )]
    queue_host: Option<String>,

    /// Listen on this port for the Queue service; 0 picks a free one [default: 10001]
    #[arg(
        long,
        alias = "queuePort",
        value_name = "PORT",
        env = "TEPUI_QUEUE_PORT",
        help_heading = "Network"
    )]
    queue_port: Option<u16>,

    /// Listen on this address for the Table service [default: that of --host]
    #[arg(
        long,
        alias = "tableHost",
        value_name = "HOST",
        env = "TEPUI_TABLE_HOST",
        help_heading = "Network"
    )]
    table_host: Option<String>,

    /// Listen on this port for the Table service; 0 picks a free one [default: 10002]
    #[arg(
        long,
        alias = "tablePort",
        value_name = "PORT",
        env = "TEPUI_TABLE_PORT",
        help_heading = "Network"
    )]
    table_port: Option<u16>,

    /// Write the ports to this file once the server listens, as JSON
    #[arg(long, value_name = "FILE", env = "TEPUI_PORTS_FILE", help_heading = "Network")]
    pub(crate) ports_file: Option<PathBuf>,

    /// Close connections that are idle for so long [default: 180]
    #[arg(long = "keep-alive-timeout", aliases = ["table-keep-alive-timeout", "tableKeepAliveTimeout", "queueKeepAliveTimeout", "blobKeepAliveTimeout"], overrides_with = "keep_alive_timeout", value_name = "SECONDS", help_heading = "Network")]
    keep_alive_timeout: Option<u64>,

    /// Take the account from the path always, never from the host name
    #[arg(long, alias = "disableProductStyleUrl", env = "TEPUI_DISABLE_PRODUCT_STYLE_URL",
        help_heading = "Network",
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true,
        value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    disable_product_style_url: Option<bool>,

    /// Believe this proxy, or a network of them such as 10.0.0.0/8, where requests come from (X-Forwarded-For) and
    /// whether over TLS (X-Forwarded-Proto); may be repeated
    #[arg(
        long = "trusted-proxy",
        value_name = "ADDRESS",
        value_delimiter = ',',
        env = "TEPUI_TRUSTED_PROXIES",
        help_heading = "Network"
    )]
    trusted_proxies: Vec<Network>,

    /// Know the server by this host name and those below it, too; may be repeated
    #[arg(
        long = "allowed-host",
        value_name = "NAME",
        value_delimiter = ',',
        env = "TEPUI_ALLOWED_HOSTS",
        help_heading = "Network"
    )]
    allowed_hosts: Vec<String>,

    /// Serve what pages of other sites send to the development account, whether or not a CORS rule allows it
    #[arg(long, env = "TEPUI_ALLOW_CROSS_SITE", help_heading = "Network",
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true,
        value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    allow_cross_site: Option<bool>,

    /// Copy blobs from the http URLs of other servers, too, if their addresses are public
    #[arg(long, env = "TEPUI_ALLOW_REMOTE_COPY", help_heading = "Network",
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true,
        value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    allow_remote_copy: Option<bool>,

    /// Copy blobs from this server, whatever address it has: HOST, HOST:PORT or ADDRESS/BITS; may be repeated
    #[arg(
        long = "remote-copy-host",
        value_name = "HOST",
        value_delimiter = ',',
        env = "TEPUI_REMOTE_COPY_HOSTS",
        help_heading = "Network"
    )]
    remote_copy_hosts: Vec<String>,

    /// Keep the previous versions of blobs in this account; may be repeated
    #[arg(
        long = "versioned-account",
        value_name = "NAME",
        value_delimiter = ',',
        env = "TEPUI_VERSIONED_ACCOUNTS",
        help_heading = "Blobs"
    )]
    versioned_accounts: Vec<String>,

    /// Let deleted containers be restored for so many days [default: 0]
    #[arg(long, value_name = "DAYS", env = "TEPUI_CONTAINER_RETENTION_DAYS", help_heading = "Blobs")]
    container_retention_days: Option<u32>,

    /// Let blobs take so long to come back from the archive [default: 5]
    #[arg(long, value_name = "SECONDS", env = "TEPUI_REHYDRATION_SECONDS", help_heading = "Blobs")]
    rehydration_seconds: Option<u64>,

    /// Serve requests whatever version of the protocol they name
    #[arg(long, alias = "skipApiVersionCheck", env = "TEPUI_SKIP_API_VERSION_CHECK", help_heading = "Protocol",
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true,
        value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    skip_api_version_check: Option<bool>,

    /// Answer reads at ACCOUNT-secondary [default: true]
    #[arg(long, env = "TEPUI_SECONDARY", help_heading = "Protocol",
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true,
        value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    secondary: Option<bool>,

    /// Write the log as text or as json [default: text]
    #[arg(long, value_name = "FORMAT", env = "TEPUI_LOG_FORMAT", help_heading = "Log")]
    log_format: Option<LogFormat>,

    /// Log off, error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL", env = "TEPUI_LOG_LEVEL", help_heading = "Log")]
    log_level: Option<LogLevel>,

    /// Write the log to this file instead of standard error
    #[arg(long, value_name = "FILE", env = "TEPUI_LOG_FILE", help_heading = "Log")]
    log_file: Option<PathBuf>,

    /// Write no line for each request
    #[arg(long, short = 's', help_heading = "Log")]
    silent: bool,

    /// Write a log of level debug to this file: --log-level debug --log-file FILE
    #[arg(long, short = 'd', value_name = "FILE", help_heading = "Log")]
    debug: Option<PathBuf>,

    #[command(flatten)]
    azurite: AzuriteOptions,
}

/// The configuration file as the help shows it: every key, with its default.
const FILE: &str = include_str!("../default.toml");

/// What became of the options of Azurite, for those who come from there.
const AZURITE: &str = "\
Azurite's options:
  --location, --inMemoryPersistence, --blobHost, --blobPort, --queueHost, --queuePort, --tableHost,
  --tablePort, --skipApiVersionCheck, --disableProductStyleUrl: as above, in our spelling
  --blobKeepAliveTimeout, --queueKeepAliveTimeout, --tableKeepAliveTimeout: one for all,
  --keep-alive-timeout
  --silent, --debug: as above
  --loose: without effect, as headers and parameters that mean nothing here are overlooked always
  --disableTelemetry: there is none
  --extentMemoryLimit: without effect, as there is no such limit
  --oauth, --cert, --key, --pwd: refused, as OAuth and TLS are not supported yet";

fn long_help() -> String {
    let indented: String = FILE.lines().map(|line| format!("  {line}\n")).collect();
    let file = indented.replace("  \n", "\n");
    format!("{AZURITE}\n\nThe configuration file, with the defaults:\n{file}")
}

/// Options of Azurite that change nothing here, or cannot be honoured yet.
#[derive(Args, Debug, Default)]
struct AzuriteOptions {
    #[arg(long = "extentMemoryLimit", hide = true)]
    extent_memory_limit: Option<String>,
    #[arg(long, short = 'L', hide = true)]
    loose: bool,
    #[arg(long = "disableTelemetry", hide = true)]
    disable_telemetry: bool,
    #[arg(long, hide = true)]
    oauth: Option<String>,
    #[arg(long, hide = true)]
    cert: Option<String>,
    #[arg(long, hide = true)]
    key: Option<String>,
    #[arg(long, hide = true)]
    pwd: Option<String>,
}

impl Options {
    /// The configuration: the file, then the environment and the flags on top of it.
    pub(crate) fn config(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Config, String> {
        self.azurite.refuse_unsupported()?;
        let mut config = match &self.config {
            Some(path) => Config::from_file(path).map_err(|error| error.to_string())?,
            None => Config::default(),
        };
        let accounts = self.accounts(&environment)?;
        if !accounts.is_empty() {
            config.accounts = accounts;
        }
        put(&mut config.in_memory, self.in_memory);
        if !self.services.is_empty() {
            config.services = self.services.clone();
        }
        for host in [&mut config.blob_host, &mut config.queue_host, &mut config.table_host] {
            put(host, self.host.clone());
        }
        put(&mut config.blob_host, self.blob_host.clone());
        put(&mut config.blob_port, self.blob_port);
        put(&mut config.queue_host, self.queue_host.clone());
        put(&mut config.queue_port, self.queue_port);
        put(&mut config.table_host, self.table_host.clone());
        put(&mut config.table_port, self.table_port);
        put(&mut config.disable_product_style_url, self.disable_product_style_url);
        if !self.trusted_proxies.is_empty() {
            config.trusted_proxies = TrustedProxies(self.trusted_proxies.clone());
        }
        if !self.allowed_hosts.is_empty() {
            config.allowed_hosts = self.allowed_hosts.clone();
        }
        put(&mut config.allow_cross_site, self.allow_cross_site);
        put(&mut config.allow_remote_copy, self.allow_remote_copy);
        if !self.remote_copy_hosts.is_empty() {
            config.remote_copy_hosts = self.remote_copy_hosts.clone();
        }
        if !self.versioned_accounts.is_empty() {
            config.versioned_accounts = self.versioned_accounts.clone();
        }
        put(&mut config.container_retention_days, self.container_retention_days);
        put(&mut config.rehydration_seconds, self.rehydration_seconds);
        put(&mut config.skip_api_version_check, self.skip_api_version_check);
        put(&mut config.secondary, self.secondary);
        put(&mut config.log_format, self.log_format);
        put(&mut config.limits.idle_timeout, self.keep_alive_timeout.map(Duration::from_secs));
        put(&mut config.log_level, self.debug.as_ref().map(|_| LogLevel::Debug));
        put(&mut config.log_level, self.log_level);
        config.data_dir = self.data_dir.clone().or(config.data_dir);
        config.log_file = self.log_file.clone().or(self.debug.clone()).or(config.log_file);
        for path in [&mut config.data_dir, &mut config.log_file].into_iter().flatten() {
            *path = in_home(path, &environment)?;
        }
        config.log_requests &= !self.silent;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    /// What the user should know about what was given and has no effect. `variables`: the names of all there are.
    pub(crate) fn warnings(&self, config: &Config, variables: impl Iterator<Item = String>) -> Vec<String> {
        let mut warnings = unknown_variables(variables);
        if self.azurite.loose {
            warnings.push(
                "headers and parameters that mean nothing here are overlooked always: --loose has no effect"
                    .to_owned(),
            );
        }
        if let Some(directory) = config.data_dir().ok().filter(|_| !config.in_memory)
            && holds_data_of_azurite(&directory)
        {
            warnings.push(format!(
                "here is data of Azurite, which Tepui does not read: copy it with both running (AzCopy, for \
                 instance), or choose another directory: {}",
                directory.display()
            ));
        }
        if self.azurite.extent_memory_limit.is_some() {
            warnings.push(
                "there is no limit for what is kept in memory: --extentMemoryLimit has no effect".to_owned(),
            );
        }
        if config.in_memory && self.data_dir.is_some() {
            warnings.push("everything is kept in memory: the data directory is not used".to_owned());
        }
        warnings
    }

    fn accounts(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Vec<Account>, String> {
        if !self.account.is_empty() {
            let accounts = self.account.iter().map(|text| config::parse_account(text));
            return accounts.collect::<Result<_, ConfigError>>().map_err(|error| error.to_string());
        }
        let from = |name: &'static str| {
            environment(name).filter(|text| !text.trim().is_empty()).map(|text| (name, text))
        };
        match from(ACCOUNTS).or_else(|| from("AZURITE_ACCOUNTS")) {
            Some((name, text)) => config::parse_accounts(&text).map_err(|error| format!("{error} ({name})")),
            None => Ok(Vec::new()),
        }
    }
}

impl AzuriteOptions {
    fn refuse_unsupported(&self) -> Result<(), String> {
        for (flag, given, what) in [
            ("--oauth", &self.oauth, "OAuth"),
            ("--cert", &self.cert, "TLS"),
            ("--key", &self.key, "TLS"),
            ("--pwd", &self.pwd, "TLS"),
        ] {
            if given.is_some() {
                return Err(format!(
                    "{what} is not supported yet, so this option cannot be honoured: {flag}"
                ));
            }
        }
        Ok(())
    }
}

/// A path that begins with the sign of the user's own directory. Shells replace it; files and variables have none.
fn in_home(path: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
    let Ok(inside) = path.strip_prefix("~") else { return Ok(path.to_owned()) };
    match environment("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Ok(Path::new(&home).join(inside)),
        None => Err(format!("there is no HOME that ~ could stand for: {}", path.display())),
    }
}

/// Whether Azurite has kept its data in a directory.
fn holds_data_of_azurite(directory: &Path) -> bool {
    let Ok(entries) = directory.read_dir() else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("__azurite_db_"))
}

/// The only variable that is no option.
const ACCOUNTS: &str = "TEPUI_ACCOUNTS";

/// Variables that begin like ours: of tests, and those that Kubernetes sets for a service of our name.
const OTHER_VARIABLES: &[&str] =
    &["TEPUI_TEST_", "TEPUI_CRASH_", "TEPUI_FUZZ_", "TEPUI_ENDPOINT", "TEPUI_SERVICE_", "TEPUI_PORT"];

/// Complains of variables that would be ours if they meant anything.
fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let command = Options::augment_args(clap::Command::new("serve"));
    let known: Vec<String> = command
        .get_arguments()
        .filter_map(|argument| argument.get_env())
        .map(|name| name.to_string_lossy().into_owned())
        .chain([ACCOUNTS.to_owned()])
        .collect();
    let is_unknown = |name: &String| {
        name.starts_with("TEPUI_")
            && !known.contains(name)
            && (!OTHER_VARIABLES.iter().any(|other| name.starts_with(other)))
    };
    let mut unknown: Vec<String> = names.filter(is_unknown).collect();
    unknown.sort_unstable();
    unknown.iter().map(|name| format!("there is no such variable, so it has no effect: {name}")).collect()
}

/// What is wrong with a variable, if it is one that clap complains of: it speaks of the flag.
pub(crate) fn bad_variable(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    let (flag, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let mut command = Options::augment_args(clap::Command::new("serve"));
    command.build();
    let argument = command.get_arguments().find(|argument| argument.to_string() == flag)?;
    let name = argument.get_env()?.to_str()?;
    let given = std::env::var(name).ok()?;
    given.split(argument.get_value_delimiter().unwrap_or('\0')).find(|part| *part == value)?;
    let why = std::error::Error::source(error).map(|why| format!(" ({why})")).unwrap_or_default();
    Some(format!("a variable has a value that does not do{why}: {name}={value}"))
}

fn put<T>(into: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *into = given;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn config(line: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
        let line = Line::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
        line.options
            .config(|name| environment.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn the_spellings_of_azurite_are_understood() {
        let line = "tepui -l data --tableHost 0.0.0.0 --tablePort 1 -s -L --skipApiVersionCheck \
                    --disableProductStyleUrl --disableTelemetry --blobHost b --blobPort 2 --queueHost h --queuePort 3 -d log \
                    --tableKeepAliveTimeout 5";
        let config = config(line, &[]).unwrap();
        assert_eq!(config.data_dir, Some("data".into()));
        assert_eq!((config.table_host.as_str(), config.table_port), ("0.0.0.0", 1));
        assert_eq!((config.blob_host.as_str(), config.blob_port), ("b", 2));
        assert_eq!((config.queue_host.as_str(), config.queue_port), ("h", 3));
        assert!(config.skip_api_version_check && config.disable_product_style_url);
        assert!(!config.log_requests);
        assert_eq!((config.log_level, config.log_file), (LogLevel::Debug, Some("log".into())));
        assert_eq!(config.limits.idle_timeout, Duration::from_secs(5));
        assert!(super::tests::config("tepui --inMemoryPersistence", &[]).unwrap().in_memory);
        assert!(super::tests::config("tepui --location here", &[]).is_ok());
    }

    #[test]
    fn the_file_in_the_help_says_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tepui.toml");
        std::fs::write(&file, FILE).unwrap();
        let said = Config::from_file(&file).unwrap();
        assert_eq!(format!("{said:?}"), format!("{:?}", Config::default()));

        // What is commented out works as well.
        let all = FILE.replace("# ", "").replace("base64", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=");
        let all: String =
            all.lines().filter(|line| line.contains(['=', '['])).map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, all).unwrap();
        let said = Config::from_file(&file).unwrap();
        assert!(said.data_dir.is_some() && said.log_file.is_some());
        assert_eq!(said.accounts.len(), 1);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for (line, says) in [
            ("tepui --oauth basic", "OAuth is not supported yet"),
            ("tepui --cert a.pem --key b.pem", "TLS is not supported yet"),
            ("tepui --account one:nonsense!", "not base64"),
            ("tepui --tablePort 70000", "70000"),
            ("tepui --tabel-port 1", "--tabel-port"),
            ("tepui --remote-copy-host http://files", "a host to copy from is HOST"),
            ("tepui --services table,file", "a service is blob, queue or table: file"),
        ] {
            let error = config(line, &[]).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let line = "tepui --extentMemoryLimit 1 --in-memory --loose -l x";
        let options = Line::try_parse_from(line.split_whitespace()).unwrap().options;
        let config = options.config(|_| None).unwrap();
        let none = std::iter::empty;
        assert_eq!(options.warnings(&config, none()).len(), 3);
        assert!(Options::default().warnings(&config, none()).is_empty());

        let names = [
            "PATH",
            "TEPUI_TABEL_PORT",
            "TEPUI_TABLE_PORT",
            "TEPUI_ACCOUNTS",
            "TEPUI_TEST_SEED",
            "TEPUI_SERVICE_HOST",
            "TEPUI_PORT_10000_TCP",
            "TEPUI_LOOSE",
        ];
        let warnings = Options::default().warnings(&config, names.into_iter().map(str::to_owned));
        assert_eq!(
            warnings,
            ["TEPUI_LOOSE", "TEPUI_TABEL_PORT"]
                .map(|name| format!("there is no such variable, so it has no effect: {name}"))
        );
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tepui.toml");
        std::fs::write(&file, "secondary = false\n[[account]]\nname = 'file'\nkeys = ['c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=']\n").unwrap();
        let file = format!("tepui --config {}", file.display());
        let environment = [
            ("TEPUI_ACCOUNTS", "ours:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE="),
            ("AZURITE_ACCOUNTS", "theirs:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE="),
        ];
        for (case, line, environment, account) in [
            ("the default", "tepui", &[][..], "devstoreaccount1"),
            ("the file", &file, &[], "file"),
            ("Azurite's variable", &file, &environment[1..], "theirs"),
            ("our variable", &file, &environment[..], "ours"),
            (
                "a flag",
                &format!("{file} --account flag:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE="),
                &environment[..],
                "flag",
            ),
        ] {
            let config = config(line, environment).unwrap();
            assert_eq!(config.effective_accounts()[0].name, account, "{case}");
        }
        assert!(!config(&file, &[]).unwrap().secondary);
        assert!(config(&format!("{file} --secondary=true"), &[]).unwrap().secondary);
    }

    #[test]
    fn one_host_for_all_services_and_one_for_each() {
        let hosts = |line: &str| {
            let config = config(line, &[]).unwrap();
            [config.blob_host, config.queue_host, config.table_host]
        };
        assert_eq!(hosts("tepui"), ["127.0.0.1"; 3]);
        assert_eq!(hosts("tepui --host ::1"), ["::1"; 3]);
        assert_eq!(hosts("tepui --queue-host a --host b"), ["b", "a", "b"]);
    }

    #[test]
    fn a_path_in_the_home_of_the_user() {
        let home = [("HOME", "/home/ada")];
        for (given, expected) in [
            ("~/data", "/home/ada/data"),
            ("~", "/home/ada"),
            ("data/~/x", "data/~/x"),
            ("~other/x", "~other/x"),
        ] {
            let config = config(&format!("tepui --data-dir {given} --log-file {given}"), &home).unwrap();
            assert_eq!(config.data_dir, Some(expected.into()), "{given}");
            assert_eq!(config.log_file, Some(expected.into()), "{given}");
        }
        let error = config("tepui --data-dir ~/data", &[]).unwrap_err();
        assert_eq!(error, "there is no HOME that ~ could stand for: ~/data");
    }

    #[test]
    fn data_of_azurite_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("tepui --data-dir {}", dir.path().display());
        let options = Line::try_parse_from(line.split_whitespace()).unwrap().options;
        let config = options.config(|_| None).unwrap();
        assert!(options.warnings(&config, std::iter::empty()).is_empty());
        std::fs::write(dir.path().join("__azurite_db_blob__.json"), "{}").unwrap();
        let warnings = options.warnings(&config, std::iter::empty());
        assert!(warnings[0].starts_with("here is data of Azurite"), "{warnings:?}");
    }
}
