//! Accounts and their keys in settings. No error shows a key.

use super::ConfigError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tepui_model::account::{
    Account, AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64, is_account_name,
};

/// As many as the signatures have that are made with it. Azure's keys have 64.
const MIN_KEY_BYTES: usize = 32;

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
    if !is_account_name(name) {
        // What is long, or after a colon, may be a key at the wrong place.
        let shown = name.split(':').next().filter(|name| name.len() < MIN_KEY_BYTES).unwrap_or("(not shown)");
        return Err(ConfigError(format!(
            "an account's name has letters, digits, - and _ and does not end in -secondary: {shown}"
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

/// What can be said of an account besides its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountSwitches {
    /// Whether nobody is served.
    pub disabled: bool,
    /// Whether its keys, and what is signed with them, are accepted.
    pub allow_shared_keys: bool,
}

impl Default for AccountSwitches {
    fn default() -> Self {
        Self { disabled: false, allow_shared_keys: true }
    }
}

/// The part of the configuration file that has accounts.
#[derive(Deserialize)]
pub(super) struct File {
    #[serde(default, rename = "account", deserialize_with = "accounts_of_file")]
    pub(super) accounts: Vec<(Account, AccountSwitches)>,
}

type Entries = Vec<(Account, AccountSwitches)>;

fn accounts_of_file<'de, D: Deserializer<'de>>(from: D) -> Result<Entries, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Entry {
        name: String,
        keys: Vec<String>,
        #[serde(default)]
        disabled: bool,
        #[serde(alias = "allow_shared_keys", default = "yes")]
        allow_shared_keys: bool,
    }
    let entries = Vec::<Entry>::deserialize(from)?;
    let parse = |Entry { name, keys, disabled, allow_shared_keys }: &Entry| {
        let account = account(name, &keys.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok((account, AccountSwitches { disabled: *disabled, allow_shared_keys: *allow_shared_keys }))
    };
    entries.iter().map(parse).collect::<Result<_, ConfigError>>().map_err(D::Error::custom)
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("a name that means another account", "one-secondary:YQ==", "-secondary: one-secondary"),
            ("a key without a name", "aHVudGVyMi9odW50ZXIyL2h1bnRlcjIvaHVudGVyMi8=", "name"),
        ] {
            let error = parse_accounts(text).unwrap_err().to_string();
            assert!(error.contains(says), "{case}: {error}");
            assert!(
                !error.contains("hunter2") && !error.contains("aHVudGVyMi9"),
                "{case} shows the key: {error}"
            );
        }
    }
}
