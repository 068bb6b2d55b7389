//! The keys of accounts, ready to sign with.
//!
//! The first half of an HMAC depends on the key alone. It is computed once per key, and copied for each
//! request.

use super::delegation_key::Delegation;
use crate::crypto::MacKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use tepui_model::account::{Account, AccountKey};

/// The keys of one account, each of which is good, and what else there is to say about its credentials.
#[derive(Clone)]
pub struct SigningKeys {
    keys: Vec<MacKey>,
    /// What the keys of users are made of. Boxed: clients have none, and signers are to be small.
    delegation_secret: Option<Box<MacKey>>,
    shared_keys: bool,
    enabled: bool,
}

impl SigningKeys {
    /// Enabled, and with no keys for users.
    pub fn new(account: &Account) -> Self {
        let keys = account.keys.iter().map(|key| MacKey::new(key.bytes())).collect();
        Self { keys, delegation_secret: None, shared_keys: true, enabled: true }
    }

    /// Users get keys that are made of this secret. It is none of the account's keys, so that they can be renewed without
    /// the users' noticing. Another secret revokes all keys of users.
    pub fn with_delegation_secret(self, secret: &[u8]) -> Self {
        Self { delegation_secret: Some(Box::new(MacKey::new(secret))), ..self }
    }

    /// Nothing that is signed with a key of the account is good. Tokens are, and SAS by keys of users.
    pub fn without_shared_keys(self) -> Self {
        Self { shared_keys: false, ..self }
    }

    /// No credentials are good.
    pub fn disabled(self) -> Self {
        Self { enabled: false, ..self }
    }

    pub fn allow_shared_keys(&self) -> bool {
        self.shared_keys
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The signature of a text by the first of the keys. `None` if there is none.
    pub(super) fn sign(&self, text: &[u8]) -> Option<String> {
        Some(STANDARD.encode(self.keys.first()?.sign([text])))
    }

    /// Whether one of the keys makes this signature for a text.
    pub(super) fn verify(&self, signature: &Signature, text: &[u8]) -> bool {
        self.keys.iter().any(|key| key.verify(text, &signature.0))
    }

    /// The key for a user, made of the account's secret and of what it is for. It need not be stored: it can be made
    /// again. `None` if the account has no such secret.
    pub fn delegate(&self, delegation: &Delegation<'_>) -> Option<[u8; 32]> {
        self.delegation_secret.as_ref().map(|secret| delegation.key(secret))
    }

    /// Whether the key of a user makes this signature.
    pub(super) fn verify_delegated(
        &self,
        signature: &Signature,
        delegation: &Delegation<'_>,
        text: &[u8],
    ) -> bool {
        let key = self.delegate(delegation).map(|key| MacKey::new(&key));
        key.is_some_and(|key| key.verify(text, &signature.0))
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKeys(…)")
    }
}

/// A signature that a request came with. Never printed.
pub(super) struct Signature([u8; 32]);

pub(super) enum SignatureError {
    NotBase64,
    WrongLength,
}

impl Signature {
    pub(super) fn decode(base64: &[u8]) -> Result<Self, SignatureError> {
        let mut buffer = [0; 48];
        if base64.len() > 64 {
            return Err(SignatureError::WrongLength);
        }
        let length = STANDARD.decode_slice(base64, &mut buffer).map_err(|_| SignatureError::NotBase64)?;
        buffer[..length].try_into().map(Self).map_err(|_| SignatureError::WrongLength)
    }
}

/// A key as configuration and connection strings have it.
pub fn decode_key(base64: &str) -> Result<AccountKey, InvalidKey> {
    match STANDARD.decode(base64.trim()) {
        Ok(bytes) if !bytes.is_empty() => Ok(AccountKey::new(bytes)),
        _ => Err(InvalidKey),
    }
}

/// The text of a key is empty or not base64. Does not say which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidKey;

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an account key must be base64 and not empty")
    }
}

impl std::error::Error for InvalidKey {}

#[cfg(test)]
mod tests {
    use super::*;

    use tepui_model::account::DEVELOPMENT_KEY_BASE64;

    #[test]
    fn keys_are_decoded() {
        for (text, length) in [
            (DEVELOPMENT_KEY_BASE64, Some(64)),
            (" AQI= ", Some(2)),
            ("", None),
            ("AQI", None),
            ("***", None),
        ] {
            assert_eq!(decode_key(text).ok().map(|key| key.bytes().len()), length, "{text}");
        }
    }

    #[test]
    fn keys_of_users_depend_on_the_secret_and_on_what_they_are_for() {
        let account =
            |key: &[u8]| Account { name: "a".to_owned(), keys: vec![AccountKey::new(key.to_vec())] };
        let keys = |secret: &[u8], key: &[u8]| SigningKeys::new(&account(key)).with_delegation_secret(secret);
        let of = |fields: [&str; 8], secret: &[u8], key: &[u8]| {
            let [account, object_id, tenant_id, start, expiry, service, version, delegated_tenant] = fields;
            keys(secret, key).delegate(&Delegation {
                account,
                object_id,
                tenant_id,
                start,
                expiry,
                service,
                version,
                delegated_tenant,
            })
        };
        let fields = ["a", "o", "t", "s", "e", "b", "v", ""];
        let value = of(fields, b"secret", b"key");
        assert!(value.is_some());
        assert_eq!(value, of(fields, b"secret", b"renewed"), "keys of the account do not matter");
        assert_ne!(value, of(fields, b"another", b"key"), "revoked");
        for at in 0..fields.len() {
            let mut other = fields;
            other[at] = "x";
            assert_ne!(value, of(other, b"secret", b"key"), "field {at}");
        }
        assert_ne!(of(["a", "ot", "", "s", "e", "b", "v", ""], b"secret", b"key"), value, "moved text");
        let none = SigningKeys::new(&account(b"key"));
        let delegation = Delegation {
            account: "a",
            object_id: "o",
            tenant_id: "t",
            start: "s",
            expiry: "e",
            service: "b",
            version: "v",
            delegated_tenant: "",
        };
        assert_eq!(none.delegate(&delegation), None);
        assert!(!none.verify_delegated(&Signature([0; 32]), &delegation, b"text"));
    }

    #[test]
    fn every_key_of_an_account_is_good_and_none_is_printed() {
        let account = Account {
            name: "a".to_owned(),
            keys: vec![AccountKey::new(b"one".to_vec()), AccountKey::new(b"two".to_vec())],
        };
        let keys = SigningKeys::new(&account);
        for (key, good) in [(b"one", true), (b"two", true), (b"six", false)] {
            let signature = Signature(MacKey::new(key).sign([&b"text"[..]]));
            assert_eq!(keys.verify(&signature, b"text"), good);
        }
        assert_eq!(format!("{keys:?}"), "SigningKeys(…)");
    }
}
