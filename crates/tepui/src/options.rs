//! The options of `tepui serve`, and how they become a configuration.
//!
//! A flag wins over the environment, which wins over the file, which wins over the defaults. The
//! spellings of Azurite are understood beside our own; options of it that are not supported are refused or reported.

use clap::Args;
use clap::error::{ContextKind, ContextValue};
use std::path::{Path, PathBuf};
use tepui_model::account::Account;
use tepui_server::config::{self, Config, ConfigError, Given, LogLevel, StorageSetting, StorageUrl};

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

    /// Serve this account instead of the development account; may be repeated
    ///
    /// Everyone on the machine can see the arguments of a process: keep real keys in the configuration
    /// file, or in the environment as TEPUI_ACCOUNTS (or AZURITE_ACCOUNTS): `NAME:KEY[:KEY2];NAME:KEY`
    #[arg(long, value_name = "NAME:KEY[:KEY2]", help_heading = "General")]
    account: Vec<String>,

    /// Show the keys of configured accounts in the connection strings printed at the start
    #[arg(long, help_heading = "General")]
    pub(crate) show_keys: bool,

    /// Write the ports to this file once the server listens, as JSON
    #[arg(long, value_name = "FILE", env = "TEPUI_PORTS_FILE", help_heading = "General")]
    pub(crate) ports_file: Option<PathBuf>,

    #[command(flatten)]
    given: Given,

    /// Write no line for each request: --log-requests=false
    #[arg(long, short = 's', help_heading = "Log")]
    silent: bool,

    /// Write a log of level debug to this file: --log-level debug --log-file FILE
    #[arg(long, short = 'd', value_name = "FILE", help_heading = "Log", value_parser = config::path)]
    debug: Option<PathBuf>,

    #[command(flatten)]
    azurite: AzuriteOptions,
}

/// What became of the options of Azurite, for those who come from there.
const AZURITE: &str = "\
Azurite's options:
  --location, --inMemoryPersistence, --blobHost, --blobPort, --queueHost, --queuePort, --tableHost,
  --tablePort, --skipApiVersionCheck, --disableProductStyleUrl: as above, in our spelling
  --blobKeepAliveTimeout, --queueKeepAliveTimeout, --tableKeepAliveTimeout: one for all,
  --keep-alive-timeout
  --silent, --debug, --cert, --key, --pwd: as above
  --loose: without effect, as headers and parameters that mean nothing here are overlooked always
  --disableTelemetry: there is none
  --extentMemoryLimit: without effect, as there is no such limit
  --oauth basic: as above; other values are refused";

fn long_help() -> String {
    let indented: String = config::template().lines().map(|line| format!("  {line}\n")).collect();
    let file = indented.replace("  \n", "\n");
    format!("{AZURITE}\n\nThe configuration file, with the defaults:\n{file}")
}

/// Options of Azurite that change nothing here.
#[derive(Args, Debug, Default)]
struct AzuriteOptions {
    #[arg(long = "extentMemoryLimit", hide = true)]
    extent_memory_limit: Option<String>,
    #[arg(long, short = 'L', hide = true)]
    loose: bool,
    #[arg(long = "disableTelemetry", hide = true)]
    disable_telemetry: bool,
}

impl Options {
    /// The configuration: the file, then the environment and the flags on top of it.
    pub(crate) fn config(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Config, String> {
        let explained = |error: ConfigError| error.to_string();
        let mut config = match &self.config {
            Some(path) => Config::from_file(path).map_err(explained)?,
            None => Config::default(),
        };
        if let Some(path) = &self.debug {
            config.log_level = LogLevel::Debug;
            config.log_file = Some(path.clone());
        }
        self.given.apply_to(&mut config).map_err(explained)?;
        let accounts = self.accounts(&environment)?;
        if !accounts.is_empty() {
            config.replace_accounts(accounts);
        }
        config.log_requests &= !self.silent;
        config.check().map_err(explained)?;
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
        if let Some(directory) = config.local_dir()
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
        let has_secret = |url: &Option<StorageUrl>| url.as_ref().is_some_and(StorageUrl::has_secret);
        let visible = [
            ("storage", "TEPUI_STORAGE", has_secret(&config.storage)),
            ("blobs", "TEPUI_BLOBS", has_secret(&config.blobs)),
            ("pwd", "TEPUI_PWD", true),
        ];
        for (id, variable, _) in
            visible.into_iter().filter(|(id, _, is_secret)| *is_secret && self.given.has_flag(id))
        {
            warnings.push(format!(
                "everyone on the machine can see the secret in --{id}: keep it in the configuration file or in {variable}"
            ));
        }
        if matches!(config.storage(), Ok(StorageSetting::Memory)) && config.data_dir.is_some() {
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

/// Whether Azurite has kept its data in a directory.
fn holds_data_of_azurite(directory: &Path) -> bool {
    let Ok(entries) = directory.read_dir() else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("__azurite_db_"))
}

/// The only variable that is no option.
const ACCOUNTS: &str = "TEPUI_ACCOUNTS";

/// Variables that begin like ours: of other commands, of tests, and those that Kubernetes sets for a service of our name.
const OTHER_VARIABLES: &[&str] = &[
    "TEPUI_CA_FILE",
    "TEPUI_TEST_",
    "TEPUI_CRASH_",
    "TEPUI_FUZZ_",
    "TEPUI_ENDPOINT",
    "TEPUI_SERVICE_",
    "TEPUI_PORT",
];

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
    Some(format!("invalid value of a variable{why}: {name}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::time::Duration;
    use tepui_server::config::ServiceName;

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
                    --tableKeepAliveTimeout 5 --cert c.pem --key k.pem";
        let config = config(line, &[]).unwrap();
        assert_eq!(config.data_dir, Some("data".into()));
        assert_eq!(config.address(ServiceName::Table), ("0.0.0.0", 1));
        assert_eq!(config.address(ServiceName::Blob), ("b", 2));
        assert_eq!(config.address(ServiceName::Queue), ("h", 3));
        assert!(config.skip_api_version_check && config.disable_product_style_url);
        assert!(!config.log_requests);
        assert_eq!((config.log_level, config.log_file), (LogLevel::Debug, Some("log".into())));
        assert_eq!(config.limits.idle_timeout, Duration::from_secs(5));
        assert_eq!((config.cert, config.key), (Some("c.pem".into()), Some("k.pem".into())));
        assert!(super::tests::config("tepui --inMemoryPersistence", &[]).unwrap().in_memory);
        assert!(super::tests::config("tepui --location here", &[]).is_ok());
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for (line, says) in [
            ("tepui --oauth full", "there is `basic` only"),
            ("tepui --dev-issuer", "--admin-port is needed"),
            ("tepui --oauth basic --dev-issuer --test-bench", "choose one"),
            ("tepui --cert a.pem", "a certificate needs its key"),
            ("tepui --key a.pem", "--key is of no use without --cert"),
            ("tepui --in-memory --tls auto", "--tls auto needs --tls-dir DIR"),
            ("tepui --tls always", "TLS is off or auto"),
            ("tepui --require-tls", "--require-tls would refuse every request"),
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
        let config = Config { in_memory: true, ..Config::default() };
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
            ServiceName::ALL.iter().map(|service| config.address(*service).0.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(hosts("tepui"), ["127.0.0.1"; 3]);
        assert_eq!(hosts("tepui --host ::1"), ["::1"; 3]);
        assert_eq!(hosts("tepui --queue-host a --host b"), ["b", "a", "b"]);
    }

    #[test]
    fn a_password_is_nowhere_to_be_seen() {
        let url = "postgres://me:hunter2@db/tepui";
        let line = format!("tepui --storage {url} --blobs s3://bucket");
        let options = Line::try_parse_from(line.split_whitespace()).unwrap().options;
        let config = options.config(|_| None).unwrap();
        let warnings = options.warnings(&config, std::iter::empty());
        assert_eq!(
            warnings,
            [
                "everyone on the machine can see the secret in --storage: keep it in the configuration file or in TEPUI_STORAGE"
            ]
        );
        for line in
            [format!("tepui --storage {url}"), format!("tepui --storage {url} --blobs s3://b --in-memory")]
        {
            let error = super::tests::config(&line, &[]).unwrap_err();
            assert!(!error.contains("hunter2") && error.contains("postgres://me:XXXXX@db/tepui"), "{error}");
        }
        let reach = crate::ready::Reach::of(&config, None);
        let said = format!("{config:?} {}", crate::ready::greeting(&config, &reach, &[], &[], None, false));
        assert!(!said.contains("hunter2") && said.contains("postgres://me:XXXXX@db/tepui"), "{said}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tepui.toml");
        std::fs::write(&file, format!("storage = '{url}'\nblobs = 's3://bucket'\n")).unwrap();
        let line = format!("tepui --config {}", file.display());
        let options = Line::try_parse_from(line.split_whitespace()).unwrap().options;
        let config = options.config(|_| None).unwrap();
        assert_eq!(config.storage.as_ref().unwrap().reveal(), url);
        assert!(options.warnings(&config, std::iter::empty()).is_empty());
        let line = "tepui --cert c.pfx --pwd hunter2";
        let options = Line::try_parse_from(line.split_whitespace()).unwrap().options;
        let config = options.config(|_| None).unwrap();
        let warnings = options.warnings(&config, std::iter::empty());
        assert!(
            warnings[0].ends_with("in --pwd: keep it in the configuration file or in TEPUI_PWD"),
            "{warnings:?}"
        );
        assert!(!format!("{config:?} {warnings:?}").contains("hunter2"));
        // Help shows the values of variables, but not of these.
        let command = Options::augment_args(clap::Command::new("serve"));
        for id in ["storage", "blobs", "admin_token", "pwd"] {
            let argument = command.get_arguments().find(|argument| argument.get_id() == id).unwrap();
            assert!(argument.is_hide_env_values_set(), "{id}");
        }
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
