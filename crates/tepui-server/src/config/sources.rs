//! Where settings come from: defaults, a TOML file, the environment and flags, each over the one before.
//!
//! All of them are read by the arguments that clap derives from [`Config`], so that each setting has one parser with one
//! range. The names follow from the name of the argument: `blob_port` is `blob-port` in the file and `TEPUI_BLOB_PORT` in
//! the environment.

use super::{Config, ConfigError, accounts, issuers, roles};
use crate::net::limits::Limits;
use crate::redact::without_value;
use crate::targets::TargetSetting;
use clap::builder::{BoolishValueParser, Resettable};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::Deserialize;
use std::any::TypeId;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// The settings given by flags and variables. To be flattened into the arguments of a command.
#[derive(Debug, Clone)]
pub struct Given(ArgMatches);

impl Given {
    /// Puts what was given on top of a configuration.
    pub fn apply_to(&self, config: &mut Config) -> Result<(), ConfigError> {
        apply(self.0.clone(), config)
    }

    /// Whether a setting was given as a flag.
    pub fn has_flag(&self, id: &str) -> bool {
        self.0.value_source(id) == Some(ValueSource::CommandLine)
    }
}

impl Default for Given {
    fn default() -> Self {
        Self(without_environment().get_matches_from([""; 0]))
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command.args(arguments().get_arguments().cloned())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Default for Config {
    fn default() -> Self {
        let matches = without_environment().get_matches_from([""; 0]);
        Self::from_arg_matches(&matches).expect("every setting that needs a value has a default")
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
        let at = |offset: usize, what: &dyn fmt::Display| {
            ConfigError(format!("{what} (line {})", text[..offset].matches('\n').count() + 1))
        };
        let explained = |error: toml::de::Error| {
            let what = without_value(error.message()).replace("unknown field", "unknown key");
            at(error.span().map_or(0, |span| span.start), &what)
        };
        let file: accounts::File = toml::from_str(text).map_err(explained)?;
        let issuers = toml::from_str::<issuers::File>(text).map_err(explained)?.issuers;
        let role_assignments = toml::from_str::<roles::File>(text).map_err(explained)?.assignments;
        let mut config = Self { issuers, role_assignments, ..Self::default() };
        for (account, switches) in file.accounts {
            config.account_switches.insert(account.name.clone(), switches);
            config.accounts.push(account);
        }
        let table = DeTable::parse(text).map_err(explained)?;
        let command = without_environment();
        let mut given = Vec::new();
        for (key, value) in table.get_ref() {
            let (section, entries) = match (key.get_ref().as_ref(), value.get_ref()) {
                ("account" | "issuer" | "role-assignment" | "role_assignment", _) => continue,
                ("targets", DeValue::Table(_)) => {
                    let file: TargetsOfFile = toml::from_str(text).map_err(explained)?;
                    config.targets = file.targets;
                    continue;
                }
                (section, DeValue::Table(entries)) => (Some(section), entries.iter().collect()),
                _ => (None, vec![(key, value)]),
            };
            for (key, value) in entries {
                let arguments = arguments_of_file(&command, section, key.get_ref(), value.get_ref())
                    .map_err(|what| at(key.span().start, &what))?;
                given.extend(arguments);
            }
        }
        let matches = command.try_get_matches_from(given);
        apply(matches.map_err(|error| ConfigError(error.to_string()))?, &mut config)?;
        Ok(config)
    }
}

/// The part of the configuration file that has a table of targets.
#[derive(Deserialize)]
struct TargetsOfFile {
    targets: TargetSetting,
}

/// Puts what was given by arguments, their defaults aside, on top of a configuration.
fn apply(mut matches: ArgMatches, config: &mut Config) -> Result<(), ConfigError> {
    let ids: Vec<String> = matches.ids().map(|id| id.as_str().to_owned()).collect();
    for id in &ids {
        if matches.value_source(id) == Some(ValueSource::DefaultValue) {
            let _ = matches.try_clear_id(id);
        }
    }
    // An address for all services wins over one for a single service from an earlier source.
    if matches.contains_id("host") {
        (config.blob_host, config.queue_host, config.table_host) = (None, None, None);
    }
    config.update_from_arg_matches(&matches).map_err(|error| ConfigError(error.to_string()))
}

/// Every setting as an argument.
fn arguments() -> Command {
    Config::augment_args(Command::new("settings").no_binary_name(true)).mut_args(|argument| {
        let variable = format!("TEPUI_{}", argument.get_id().as_str().to_ascii_uppercase());
        let argument = argument.env(variable);
        match argument.get_action() {
            ArgAction::SetTrue => boolean(argument),
            _ => argument,
        }
    })
}

/// `--flag` and `--flag=BOOL`.
fn boolean(argument: Arg) -> Arg {
    let argument = match argument.get_default_values() {
        [] => argument.default_value("false").hide_default_value(true),
        _ => argument,
    };
    let argument = argument.action(ArgAction::Set).num_args(0..=1).require_equals(true);
    argument
        .default_missing_value("true")
        .value_parser(BoolishValueParser::new())
        .value_name("BOOL")
        .hide_possible_values(true)
}

fn without_environment() -> Command {
    arguments().mut_args(|argument| argument.env(Resettable::Reset))
}

/// The key of a setting in the file.
fn key(argument: &Arg) -> String {
    argument.get_id().as_str().replace('_', "-")
}

/// The table that a setting is in, in the file.
fn section(argument: &Arg) -> Option<String> {
    let heading = argument.get_help_heading()?;
    (heading == Limits::HEADING).then(|| heading.to_ascii_lowercase())
}

fn is_list(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

/// How a setting is written in TOML.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Boolean,
    Number,
    Text,
}

impl Kind {
    fn of(argument: &Arg) -> Self {
        let id = argument.get_value_parser().type_id();
        let numbers = [
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<Duration>(),
        ];
        match () {
            () if id == TypeId::of::<bool>() => Self::Boolean,
            () if numbers.into_iter().any(|number| id == number) => Self::Number,
            () => Self::Text,
        }
    }

    fn write(self, text: &str) -> String {
        match self {
            Self::Boolean | Self::Number => text.to_owned(),
            Self::Text => format!("{text:?}"),
        }
    }

    fn read(self, value: &DeValue<'_>) -> Result<String, String> {
        match (self, value) {
            (Self::Boolean, DeValue::Boolean(value)) => Ok(value.to_string()),
            (Self::Number, DeValue::Integer(number)) => i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|error| error.to_string()),
            (Self::Number, DeValue::Float(number)) => Ok(number.as_str().to_owned()),
            (Self::Text, DeValue::String(text)) => Ok(text.clone().into_owned()),
            _ => Err(format!("expected {self}, found {}", value.type_str())),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::Text => "a string",
        })
    }
}

/// The arguments that mean the same as a line of the file.
fn arguments_of_file(
    command: &Command,
    in_section: Option<&str>,
    name: &str,
    value: &DeValue<'_>,
) -> Result<Vec<String>, String> {
    let is_named = |argument: &&Arg| key(argument) == name && section(argument).as_deref() == in_section;
    let Some(argument) = command.get_arguments().find(is_named) else {
        return Err(match in_section {
            Some(section) => format!("unknown key `{name}` in `[{section}]`"),
            None => format!("unknown key `{name}`"),
        });
    };
    let kind = Kind::of(argument);
    let texts = match (is_list(argument), value) {
        (true, DeValue::Array(items)) => items.iter().map(|item| kind.read(item.get_ref())).collect(),
        (true, _) => Err(format!("expected a list, found {}", value.type_str())),
        (false, _) => kind.read(value).map(|text| vec![text]),
    };
    let texts: Vec<String> = texts.map_err(|what| format!("{what}: {name}"))?;
    if texts.is_empty() && !argument.get_default_values().is_empty() {
        return Err(format!("the list is empty: {name}"));
    }
    let flag = argument.get_long().unwrap_or_default();
    let arguments: Vec<String> = texts.iter().map(|text| format!("--{flag}={text}")).collect();
    match command.clone().try_get_matches_from(&arguments) {
        Ok(_) => Ok(arguments),
        Err(error) => {
            let why = error.source().map(|why| format!(" ({why})")).unwrap_or_default();
            Err(format!("invalid value{why}: {name} = {}", texts.join(", ")))
        }
    }
}

/// A configuration file with every key and its default; keys without one are commented out.
pub fn template() -> String {
    let command = arguments();
    let mut text = String::new();
    let mut last = None;
    for argument in command.get_arguments() {
        let section = section(argument);
        if section != last {
            let _ = writeln!(text, "\n[{}]", section.as_deref().unwrap_or_default());
            last = section;
        }
        let (key, kind) = (key(argument), Kind::of(argument));
        let value = default_text(argument).map(|default| match is_list(argument) {
            true => format!(
                "[{}]",
                default.split(',').map(|item| kind.write(item)).collect::<Vec<_>>().join(", ")
            ),
            false => kind.write(&default),
        });
        let _ = match value {
            Some(value) => writeln!(text, "{key} = {value}"),
            None if is_list(argument) => writeln!(text, "{key} = []"),
            None => writeln!(text, "# {key} = {}", kind.write(&value_name(argument))),
        };
    }
    text.push_str(
        "\n# [[account]]\n# name = \"people\"\n# keys = [\"base64\"]\n# disabled = false\n# allow-shared-keys = true\n\
         \n# [[issuer]]\n# issuer = \"https://login.example.org/realms/storage\"\n# audiences = [\"tepui\"]\n\
         \n# [[role-assignment]]\n# principal = \"group:data-team\"\n# role = \"Storage Table Data Reader\"\n\
         # scope = \"/people/table/Orders\"\n",
    );
    text
}

fn default_text(argument: &Arg) -> Option<String> {
    argument.get_default_values().first().map(|text| text.to_string_lossy().into_owned())
}

fn value_name(argument: &Arg) -> String {
    argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default()
}

/// Reads a path. A `~` at its start is the home directory: shells replace it, files and variables do not.
pub fn path(text: &str) -> Result<PathBuf, String> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    in_home(Path::new(text), home.as_deref().map(Path::new))
}

fn in_home(path: &Path, home: Option<&Path>) -> Result<PathBuf, String> {
    match (path.strip_prefix("~"), home) {
        (Err(_), _) => Ok(path.to_owned()),
        (Ok(inside), Some(home)) => Ok(home.join(inside)),
        (Ok(_), None) => Err(format!("there is no HOME that ~ could stand for: {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AccountSwitches, LogFormat, LogLevel};
    use super::*;

    #[test]
    fn a_file_overrides_the_defaults() {
        let text = r#"
            table-port = 0
            blob-port = 0x10
            log-format = "json"
            services = ["table", "blob"]
            trusted-proxies = ["10.0.0.0/8", "::1"]
            secondary = false
            [[account]]
            name = "people"
            keys = ["c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=", "b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyISE="]
            [limits]
            max-connections = 9
            idle-timeout-seconds = 0.5
        "#;
        let config = Config::from_text(text).unwrap();
        assert_eq!((config.table_port, config.blob_port, config.queue_port), (0, 16, 10001));
        assert_eq!(config.log_format, LogFormat::Json);
        assert_eq!(config.services.len(), 2);
        assert_eq!(config.trusted_proxies.len(), 2);
        assert!(!config.secondary && config.log_requests);
        assert_eq!(config.limits.max_connections, 9);
        assert_eq!(config.limits.idle_timeout, Duration::from_millis(500));
        assert_eq!(config.limits.head_timeout, Duration::from_secs(15));
        assert_eq!(config.accounts[0].name, "people");
        assert_eq!(config.accounts[0].keys[1].bytes(), b"otherotherotherotherotherother!!");
        assert_eq!(config.host, "127.0.0.1");
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        for (case, text, says) in [
            ("a key", "\ntabel-port = 1", "unknown key `tabel-port`"),
            ("its line", "\ntabel-port = 1", "(line 2)"),
            ("in limits", "[limits]\nmax-conections = 1", "unknown key `max-conections`"),
            ("in limits only", "max-connections = 1", "unknown key `max-connections`"),
            ("out of limits", "[limits]\nblob-port = 1", "unknown key `blob-port` in `[limits]` (line 2)"),
            ("a section", "[limit]\nmax-headers = 20", "unknown key `max-headers` in `[limit]`"),
            ("a spelling of flags", "trusted-proxy = ['::1']", "unknown key `trusted-proxy`"),
            (
                "in an issuer",
                "[[issuer]]\nissuer='https://a.example'\naudience='x'",
                "unknown key `audience`",
            ),
            (
                "an issuer without TLS",
                "[[issuer]]\nissuer='http://a.example'",
                "an issuer on another machine",
            ),
            ("no issuer", "[[issuer]]\naudiences=['x']", "missing field `issuer`"),
            ("a mode", "oauth = 'full'", "there is `basic` only"),
            ("in an account", "[[account]]\nname='a'\nkeys=[]\nkye='x'", "unknown key `kye`"),
            ("shared keys", "[[account]]\nname='a'\nkeys=[]\nallow-shared-keys=1", "expected a boolean"),
            (
                "a role",
                "[[role-assignment]]\nprincipal='oid:a'\nrole='Owner'\nscope='/'",
                "number 1, for oid:a: there is no role 'Owner'",
            ),
            ("its line", "\n\n[[role-assignment]]\nprincipal='oid:a'\nrole='Owner'\nscope='/'", "(line "),
            (
                "a scope",
                "[[role-assignment]]\nprincipal='oid:a'\nrole='Storage Blob Delegator'\nscope='a'",
                "a scope is /, /ACCOUNT",
            ),
            (
                "a principal",
                "[[role-assignment]]\nprincipal='ada'\nrole='Storage Blob Delegator'\nscope='/'",
                "a principal is oid:ID",
            ),
            (
                "an issuer",
                "[[role-assignment]]\nprincipal='oid:a'\nrole='Storage Blob Delegator'\nscope='/'\nissuer=''",
                "as tokens have it in `iss`",
            ),
            (
                "in a role",
                "[[role-assignment]]\nprincipal='oid:a'\nrolle='x'\nscope='/'",
                "unknown key `rolle`",
            ),
            (
                "no scope",
                "[[role-assignment]]\nprincipal='oid:a'\nrole='Storage Blob Delegator'",
                "missing field `scope`",
            ),
            ("a port", "table-port = 70000", "70000 is not in 0..=65535): table-port = 70000 (line 1)"),
            ("a level", "log-level = 'loud'", "trace: loud)"),
            ("text for a number", "table-port = '1'", "expected a number, found string: table-port"),
            ("a number for a switch", "in-memory = 1", "expected true or false, found integer: in-memory"),
            ("a switch for text", "data-dir = true", "expected a string, found boolean: data-dir"),
            ("text for a list", "services = 'blob'", "expected a list, found string: services"),
            ("a list for text", "log-level = ['info']", "expected a string, found array: log-level"),
            ("no service", "services = []", "the list is empty: services"),
            ("days", "container-retention-days = 366", "366 is not in 0..=365"),
            ("a small limit", "[limits]\nmax-headers = 15", "(must be at least 16): max-headers = 15"),
            ("a large limit", "[limits]\nmax-connections = 1_000_001", "(must be at most 1000000)"),
            ("no time", "[limits]\nidle-timeout-seconds = 0", "not a number of seconds above 0: 0"),
            ("a host", "remote-copy-hosts = ['http://a']", "a host to copy from is HOST"),
            ("targets", "targets = 'seed-2017'", "targets are off, seed-2016, azure-2026 or a TOML file"),
            ("a number of targets", "targets = 1", "expected a string, found integer: targets"),
            ("a target", "[targets]\nqueue-unit = 1", "unknown key `queue-unit`"),
            ("its line", "[targets]\nqueue-unit = 1", "(line 2)"),
            ("a figure", "\n[targets]\nqueue-units = -1", "queue-units must be from 1"),
            ("no TOML", "\n\n=", "(line 3)"),
        ] {
            let error = Config::from_text(text).unwrap_err().to_string();
            assert!(error.contains(says), "{case}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_secrets() {
        let key = "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjI=";
        for (case, text, says) in [
            ("a key without a list", "[[account]]\nname='a'\nkeys='SECRET'", "invalid type: string"),
            ("in a table", "[[account]]\nname='a'\nkeys={one='SECRET'}", "invalid type: map"),
            ("keys in a list", "[[account]]\nname='a'\nkeys=[['SECRET']]", "expected a string"),
            ("as a flag has it", "account = 'a:SECRET'", "expected a sequence"),
            ("in a list", "account = ['a:SECRET']", "expected struct Entry"),
            ("in the name", "[[account]]\nname='a:SECRET'\nkeys=[]", "an account's name has letters"),
            (
                "instead of the name",
                "[[account]]\nname='SECRET'\nkeys=['a']",
                "an account's name has letters",
            ),
            ("at a switch", "[[account]]\nname='a'\nkeys=[]\ndisabled='SECRET'", "expected a boolean"),
            ("no base64", "[[account]]\nname='a'\nkeys=['SECRET.']", "not base64"),
            (
                "an issuer",
                "[[issuer]]\nissuer='https://a.example'\naudiences='SECRET'",
                "expected a sequence",
            ),
            ("a role", "role-assignment = 'SECRET'", "expected a sequence"),
            ("the password of a PFX file", "pwd = ['SECRET']", "expected a string, found array: pwd"),
            ("an admin token", "admin-token = ['SECRET']", "expected a string, found array: admin-token"),
            ("a store", "storage = ['postgres://a:SECRET@b/c']", "expected a string, found array: storage"),
            ("blobs", "blobs = {url = 's3://a?secret_access_key=SECRET'}", "unknown key `url`"),
            ("a figure", "[targets]\nqueue-units = 'SECRET'", "expected f64"),
            ("no quotes", "pwd = SECRET", "(line 1)"),
            ("half of the quotes", "admin-token = 'SECRET", "(line 1)"),
            ("nothing after it", "[[account]]\nname='a'\nkeys=['SECRET' 'SECRET']", "(line 3)"),
        ] {
            let error = Config::from_text(&text.replace("SECRET", key)).unwrap_err().to_string();
            assert!(error.contains(says), "{case}: {error}");
            assert!(!error.contains(&key[..8]), "{case}: {error}");
            let is_at_a_line = error.ends_with(')') && error.contains("(line ");
            assert!(is_at_a_line, "{case}: {error}");
        }
    }

    #[test]
    fn accounts_and_roles_of_a_file() {
        let key = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=";
        let text = format!(
            "[[account]]\nname = 'one'\nkeys = ['{key}']\ndisabled = true\n\
             [[account]]\nname = 'two'\nkeys = ['{key}']\nallow_shared_keys = false\n\
             [[role-assignment]]\nprincipal = 'group:team'\nrole = 'storage table data reader'\nscope = '/one/table/T'\n\
             issuer = 'https://login.example'\n"
        );
        let mut config = Config::from_text(&text).unwrap();
        let switches = |disabled, allow_shared_keys| AccountSwitches { disabled, allow_shared_keys };
        assert_eq!(config.account_switches["one"], switches(true, true));
        assert_eq!(config.account_switches["two"], switches(false, false));
        let given = &config.role_assignments[0];
        assert_eq!(
            (given.principal.to_string(), given.scope.to_string()),
            ("group:team".into(), "/one/table/T".into())
        );
        assert_eq!(given.issuer.as_deref(), Some("https://login.example"));
        config.replace_accounts(Vec::new());
        assert!(config.account_switches.is_empty(), "those of other accounts of the same name");
    }

    #[test]
    fn targets_are_named_or_a_table() {
        use crate::targets::{AZURE_2026, Figures, SEED_2016};
        for (file, flags, expected) in [
            ("", &[][..], TargetSetting::Off),
            ("targets = 'seed-2016'", &[], TargetSetting::On(SEED_2016)),
            (
                "[targets]\nbase = 'seed-2016'\nqueue-units = 7",
                &[],
                TargetSetting::On(Figures { queue_units: Some(7.0), ..SEED_2016 }),
            ),
            ("[targets]\nqueue-units = 7", &["--targets=azure-2026"], TargetSetting::On(AZURE_2026)),
            ("targets = 'seed-2016'", &["--targets=off"], TargetSetting::Off),
        ] {
            let mut config = Config::from_text(file).unwrap();
            Given(without_environment().get_matches_from(flags)).apply_to(&mut config).unwrap();
            assert_eq!(config.targets, expected, "{file} {flags:?}");
        }
    }

    #[test]
    fn an_address_for_all_wins_over_one_of_an_earlier_source() {
        let file = "host = 'a'\nblob-host = 'b'\nqueue-host = 'q'";
        for (case, flags, expected) in [
            ("the file alone", &[][..], ["b", "q", "a"]),
            ("one for all", &["--host=x"], ["x", "x", "x"]),
            ("one for all and one", &["--queue-host=y", "--host=x"], ["x", "y", "x"]),
            ("one", &["--queue-host=y"], ["b", "y", "a"]),
        ] {
            let mut config = Config::from_text(file).unwrap();
            Given(without_environment().get_matches_from(flags)).apply_to(&mut config).unwrap();
            let hosts = super::super::ServiceName::ALL.iter().map(|service| config.address(*service).0);
            assert_eq!(hosts.collect::<Vec<_>>(), expected, "{case}");
        }
    }

    #[test]
    fn the_template_has_every_key_and_its_default() {
        let text = template();
        assert_eq!(format!("{:?}", Config::from_text(&text).unwrap()), format!("{:?}", Config::default()));
        for argument in arguments().get_arguments() {
            let key = key(argument);
            let is_there = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} = "));
            assert!(text.lines().any(is_there), "{key} is not in:\n{text}");
        }

        // What is commented out works as well, but for numbers, which have no example.
        let all = text.replace("# ", "").replace("base64", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=");
        let all = all
            .lines()
            .filter(|line| ![" = NUMBER", " = PORT"].iter().any(|end| line.ends_with(end)))
            .collect::<Vec<_>>()
            .join("\n");
        let config = Config::from_text(&all).unwrap();
        assert!(config.data_dir.is_some() && config.log_file.is_some());
        assert_eq!((config.accounts.len(), config.issuers.len()), (1, 1));
        assert_eq!(config.account_switches["people"], AccountSwitches::default());
        assert_eq!(config.role_assignments.len(), 1);
    }

    /// All settings as a table in Markdown.
    fn reference() -> String {
        let command = arguments();
        let mut text =
            String::from("| Flag | In the file | Variable | Default | |\n| --- | --- | --- | --- | --- |\n");
        for argument in command.get_arguments() {
            let section = section(argument).map(|section| format!("{section}.")).unwrap_or_default();
            let variable = argument.get_env().unwrap_or_default().to_string_lossy();
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
            let default = default_text(argument).map(|default| format!("`{default}`")).unwrap_or_default();
            let _ = writeln!(
                text,
                "| `--{}` | `{section}{}` | `{variable}` | {default} | {help} |",
                argument.get_long().unwrap_or_default(),
                key(argument),
            );
        }
        text
    }

    #[test]
    fn the_documentation_has_every_setting() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
        let text = std::fs::read_to_string(path).unwrap();
        let table = text.find("| Flag").expect("a table");
        let expected = format!("{}{}", &text[..table], reference());
        if std::env::var_os("TEPUI_TEST_UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        } else {
            assert_eq!(text, expected, "TEPUI_TEST_UPDATE=1 writes docs/settings.md anew");
        }
    }

    #[test]
    fn flags_win_over_what_was_there_and_defaults_do_not() {
        let mut config =
            Config { blob_port: 1, queue_port: 2, log_level: LogLevel::Warn, ..Config::default() };
        config.secondary = false;
        Given::default().apply_to(&mut config).unwrap();
        assert_eq!((config.blob_port, config.queue_port, config.secondary), (1, 2, false));
        let flags = ["--queue-port=3", "--secondary", "--allowed-host=a,b", "--tableKeepAliveTimeout=7"];
        Given(without_environment().get_matches_from(flags)).apply_to(&mut config).unwrap();
        assert_eq!((config.blob_port, config.queue_port, config.secondary), (1, 3, true));
        assert_eq!(config.allowed_hosts, ["a", "b"]);
        assert_eq!(config.limits.idle_timeout, Duration::from_secs(7));
        assert_eq!(config.log_level, LogLevel::Warn);
    }

    #[test]
    fn a_path_in_the_home_directory() {
        let home = Some(Path::new("/home/ada"));
        for (given, expected) in [
            ("~/data", "/home/ada/data"),
            ("~", "/home/ada"),
            ("data/~/x", "data/~/x"),
            ("~other/x", "~other/x"),
        ] {
            assert_eq!(in_home(Path::new(given), home), Ok(expected.into()), "{given}");
        }
        assert_eq!(
            in_home(Path::new("~/data"), None),
            Err("there is no HOME that ~ could stand for: ~/data".to_owned())
        );
    }
}
