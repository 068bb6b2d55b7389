//! The keys that are handed out for users, for their SAS: user delegation keys. See the REST page "Get User Delegation Key".

use crate::crypto::MacKey;
use std::iter;

/// What a key is for that is handed out for a user. The texts are those that a SAS repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delegation<'a> {
    pub account: &'a str,
    pub object_id: &'a str,
    pub tenant_id: &'a str,
    pub start: &'a str,
    pub expiry: &'a str,
    pub service: &'a str,
    pub version: &'a str,
    /// Of the users who may use SAS of the key. Empty: that of whoever asked for it.
    pub delegated_tenant: &'a str,
}

impl Delegation<'_> {
    /// The key, made of a secret of the account.
    pub(super) fn key(&self, secret: &MacKey) -> [u8; 32] {
        let Self { account, object_id, tenant_id, start, expiry, service, version, delegated_tenant } = self;
        let texts = [account, object_id, tenant_id, start, expiry, service, version, delegated_tenant];
        let lengths = texts.map(|text| (text.len() as u64).to_be_bytes());
        let pieces = lengths.iter().zip(texts).flat_map(|(length, text)| [&length[..], text.as_bytes()]);
        // What else may be made of the secret one day begins otherwise.
        secret.sign(iter::once(&b"user delegation key"[..]).chain(pieces))
    }
}
