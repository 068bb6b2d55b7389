//! Who sends a request: signatures made with an account key, and shared access signatures.
//!
//! See the REST pages "Authorize with Shared Key" and "Delegate access with a shared access signature".
//! Neither keys nor signatures ever appear in errors.

mod keys;
mod sas;
mod sas_string_to_sign;
mod shared_key;
mod shared_key_string_to_sign;
mod sign;

pub use keys::{Delegation, InvalidKey, KeyRing, SigningKeys, decode_key};
pub use sas::{SasToken, sas_version};
pub use shared_key::Scheme;
pub use sign::{AccountSas, SasLimits, SasResource, ServiceSas, Signer};

use crate::address::Service;
use crate::head::Head;
use crate::version::ServiceVersion;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::net::IpAddr;
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// What the credentials of a request are checked against.
#[derive(Debug, Clone, Copy)]
pub struct Verifier<'a> {
    /// Of the account that is addressed.
    pub keys: &'a SigningKeys,
    pub now: Timestamp,
    /// The time by the clocks of clients, for the dates that they sign: see [`Clock::of_machine`](tepui_model::Clock::of_machine).
    pub now_of_clients: Timestamp,
    pub peer_ip: IpAddr,
    pub secure: bool,
}

/// Credentials whose signature is good.
#[derive(Debug)]
pub enum Credentials {
    AccountKey,
    /// Still to be resolved: what it allows may depend on a stored access policy.
    Sas(Box<SasToken>),
    /// There are none. Only the Blob service has something for everybody.
    Anonymous,
}

impl Verifier<'_> {
    /// Checks the signature of a request.
    pub fn authenticate(&self, head: &Head<'_>) -> Result<Credentials, ServiceError> {
        let mut sent = head.headers.get_all(AUTHORIZATION).into_iter();
        let Some(authorization) = sent.next() else {
            return match head.query.get("sig") {
                Some(_) => sas::authenticate(head, self.keys).map(|token| Credentials::Sas(Box::new(token))),
                None if head.service == Service::Blob => Ok(Credentials::Anonymous),
                None => Err(no_credentials(head.version)),
            };
        };
        if sent.next().is_some() {
            return Err(ErrorCode::InvalidAuthenticationInfo.into());
        }
        let text = authorization.to_str().map_err(|_| ErrorCode::InvalidAuthenticationInfo)?.trim();
        let (scheme, value) = text.split_once(' ').unwrap_or((text, ""));
        match scheme {
            "SharedKey" => shared_key::check(head, self, Scheme::SharedKey, value)?,
            "SharedKeyLite" => shared_key::check(head, self, Scheme::SharedKeyLite, value)?,
            _ if scheme.eq_ignore_ascii_case("Bearer") => return Err(self.refuse_token(head.version)),
            _ => return Err(ErrorCode::InvalidAuthenticationInfo.into()),
        }
        Ok(Credentials::AccountKey)
    }

    /// Tokens are not served: there is no directory that could vouch for them.
    fn refuse_token(&self, version: ServiceVersion) -> ServiceError {
        if !self.secure {
            failed("Authentication scheme Bearer is not allowed with HTTP.")
        } else if version.challenges_bearer() {
            ServiceError::new(ErrorCode::InvalidAuthenticationInfo)
                .with_message(ErrorCode::NoAuthenticationInformation.message())
                .with_status(401)
        } else {
            failed("bearer tokens are not accepted")
        }
    }
}

/// Fidelity: only versions that know tokens answer 401 and ask for one. scenario: auth-none-new
fn no_credentials(version: ServiceVersion) -> ServiceError {
    if version.challenges_bearer() {
        ServiceError::new(ErrorCode::NoAuthenticationInformation)
    } else {
        failed("no credentials")
    }
}

/// The answer to callers without credentials who ask for what is not open to everybody. Those who say which
/// version they speak can be told to bring a token; browsers are told that there is nothing.
pub fn deny_anonymous(headers: &HeaderMap, version: ServiceVersion) -> ServiceError {
    match version.challenges_bearer() && headers.contains_key("x-ms-version") {
        true => ErrorCode::NoAuthenticationInformation.into(),
        false => ErrorCode::ResourceNotFound.into(),
    }
}

/// The answer to credentials that are not good. The detail is for the log, and for callers of those
/// services that tell them.
fn failed(detail: impl Into<String>) -> ServiceError {
    let detail = detail.into();
    ServiceError::new(ErrorCode::AuthenticationFailed)
        .with_cause(&detail)
        .with_detail("AuthenticationErrorDetail", detail)
}

#[cfg(test)]
mod tests;
