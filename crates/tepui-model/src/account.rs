//! Storage accounts and their keys.

use std::fmt;
use zeroize::Zeroize as _;

/// The well-known account that every tool uses for development, and its well-known key.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
pub const DEVELOPMENT_KEY_BASE64: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A key of an account, or another of its secrets. Never printed, and overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountKey(Vec<u8>);

impl Drop for AccountKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl AccountKey {
    /// From its decoded bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(…)")
    }
}

/// Whether an account can have this name: 1 to 63 letters, digits, `-` and `_`, and not the name of a secondary endpoint.
///
/// ```
/// # use tepui_model::account::is_account_name;
/// assert!(is_account_name("devstoreaccount1"));
/// assert!(!is_account_name("devstoreaccount1-secondary"));
/// ```
pub fn is_account_name(name: &str) -> bool {
    let spelled = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&name.len()) && name.bytes().all(spelled) && !name.ends_with("-secondary")
}

/// One of the two keys that an account has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySlot {
    Key1,
    Key2,
}

impl KeySlot {
    pub const ALL: [Self; 2] = [Self::Key1, Self::Key2];

    /// As on Azure.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key1 => "key1",
            Self::Key2 => "key2",
        }
    }

    /// Its place among the keys of an account.
    pub fn index(self) -> usize {
        match self {
            Self::Key1 => 0,
            Self::Key2 => 1,
        }
    }

    /// By its name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|slot| slot.name() == name)
    }
}

/// An account: its name and the one or two keys that are good for it.
#[derive(Debug, Clone)]
pub struct Account {
    pub name: String,
    pub keys: Vec<AccountKey>,
}
