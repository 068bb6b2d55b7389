//! Who sends a request: signatures with an account key, and shared access signatures.

use crate::address::{Service, Target};
use crate::query::Query;
use crate::version::ServiceVersion;
use http::{HeaderMap, Method};
use std::net::IpAddr;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::account::{AccountKey, Accounts};
use tepui_model::grant::Grant;
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// The keys of all accounts, ready to sign with.
#[derive(Clone, Default)]
pub struct KeyRing {}

impl KeyRing {
    pub fn new(_accounts: &Accounts) -> Self {
        Self {}
    }

    pub fn get(&self, _account: &str) -> Option<&SigningKeys> {
        None
    }
}

/// The keys of one account, ready to sign with.
pub struct SigningKeys {}

/// A key as configuration and connection strings have it.
pub fn decode_key(_base64: &str) -> Result<AccountKey, InvalidKey> {
    Err(InvalidKey)
}

/// The text of a key was not base64, or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidKey;

/// The parts of a request that signatures cover, and what they are checked against.
pub struct Signed<'a> {
    pub service: Service,
    pub method: &'a Method,
    pub headers: &'a HeaderMap,
    pub query: &'a Query,
    pub target: &'a Target,
    /// Of the account in `target`.
    pub keys: &'a SigningKeys,
    pub now: Timestamp,
    pub version: ServiceVersion,
    pub peer_ip: IpAddr,
    pub secure: bool,
}

/// Credentials whose signature is good.
pub enum Credentials {
    AccountKey,
    Sas(SasToken),
}

/// The version of the SAS of a request, if it has one: what [`crate::version::negotiate`] asks for.
pub fn sas_version(_query: &Query) -> Option<ServiceVersion> {
    None
}

/// Checks the signature of a request. A SAS is still to be resolved.
pub fn authenticate(_request: &Signed<'_>) -> Result<Credentials, ServiceError> {
    Err(ErrorCode::AuthenticationFailed.into())
}

/// A SAS whose signature is good.
pub struct SasToken {}

impl SasToken {
    /// The stored access policy that it refers to.
    pub fn policy_id(&self) -> Option<&str> {
        None
    }

    /// The table that it is for: where the policy is stored.
    pub fn table(&self) -> Option<&str> {
        None
    }

    /// What the token allows, given the policy that it refers to.
    pub fn resolve(
        self,
        _policy: Option<&SignedIdentifier>,
        _request: &Signed<'_>,
    ) -> Result<Grant, ServiceError> {
        Err(ErrorCode::AuthenticationFailed.into())
    }
}
