//! Who sends a request: signatures made with an account key, shared access signatures, and tokens of a directory.
//!
//! See the REST pages "Authorize with Shared Key", "Delegate access with a shared access signature" and "Authorize with
//! Microsoft Entra ID". Neither keys nor signatures nor tokens ever appear in errors.
//!
//! | | |
//! | --- | --- |
//! | `signing_keys.rs`, `delegation_key.rs` | the keys of accounts, and those that are made of their secrets for users |
//! | `shared_key.rs`, `shared_key_string_to_sign.rs` | requests that are signed as a whole |
//! | `sas.rs`, `sas_string_to_sign.rs` | shared access signatures |
//! | `token.rs` | tokens, their refusals, and the challenge |
//! | `sign.rs` | the other direction: signatures of clients |

mod delegation_key;
mod sas;
mod sas_string_to_sign;
mod shared_key;
mod shared_key_string_to_sign;
mod sign;
mod signing_keys;
mod token;

pub use delegation_key::Delegation;
pub use sas::{RequiredUser, SasToken, sas_version, service_letter};
pub use shared_key::Scheme;
pub use sign::{AccountSas, SasLimits, SasResource, ServiceSas, Signer};
pub use signing_keys::{InvalidKey, SigningKeys, decode_key};
pub use token::{Challenge, InvalidChallenge, TokenText, refuse as refuse_token};

use crate::address::Service;
use crate::head::Head;
use crate::version::ServiceVersion;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::net::IpAddr;
use tepui_model::{AuthFailure, ErrorCode, ServiceError, Timestamp};

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

/// Credentials whose signature is good, as far as it can be told here.
#[derive(Debug)]
pub enum Credentials {
    AccountKey,
    /// Still to be resolved: what it allows may depend on a stored access policy, or on the roles of a user.
    Sas(Box<SasToken>),
    /// Still to be verified.
    Token(TokenText),
    /// There are none. Only the Blob service has something for everybody.
    Anonymous,
}

impl Verifier<'_> {
    /// Checks the signature of a request.
    pub fn authenticate(&self, head: &Head<'_>) -> Result<Credentials, ServiceError> {
        if !self.keys.is_enabled() {
            return Err(ErrorCode::AccountIsDisabled.into());
        }
        let is_signed = head.query.get("sig").is_some();
        let mut sent = head.headers.get_all(AUTHORIZATION).into_iter();
        let Some(authorization) = sent.next() else {
            return match () {
                () if is_signed => self.sas(head, None),
                () if head.service == Service::Blob => Ok(Credentials::Anonymous),
                () => Err(no_credentials(head.service, head.version)),
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
            // Some SAS are good only together with a token. With others it is of no use, and does no harm.
            _ if scheme.eq_ignore_ascii_case("Bearer") && is_signed => return self.sas(head, Some(value)),
            _ if scheme.eq_ignore_ascii_case("Bearer") => {
                return token::read(head, self, value).map(Credentials::Token);
            }
            _ => return Err(ErrorCode::InvalidAuthenticationInfo.into()),
        }
        self.check_shared_keys()?;
        Ok(Credentials::AccountKey)
    }

    /// The SAS of a request. `bearer`: the token that came with it.
    fn sas(&self, head: &Head<'_>, bearer: Option<&str>) -> Result<Credentials, ServiceError> {
        let mut sas = sas::authenticate(head, self.keys)?;
        if sas.delegator_id().is_none() {
            self.check_shared_keys()?;
        }
        if sas.required_user().is_some()
            && let Some(value) = bearer
        {
            sas.set_bearer(token::read(head, self, value)?);
        }
        Ok(Credentials::Sas(Box::new(sas)))
    }

    /// Whether what is signed with a key of the account is good.
    fn check_shared_keys(&self) -> Result<(), ServiceError> {
        match self.keys.allow_shared_keys() {
            true => Ok(()),
            false => Err(ErrorCode::KeyBasedAuthenticationNotPermitted.into()),
        }
    }
}

/// Fidelity: only versions that know tokens answer 401 and ask for one. scenario: auth-none-new
fn no_credentials(service: Service, version: ServiceVersion) -> ServiceError {
    if version.challenges_bearer(service) {
        ServiceError::new(ErrorCode::NoAuthenticationInformation)
    } else {
        failed("no credentials").with_auth_failure(AuthFailure::Missing)
    }
}

/// The answer to callers without credentials who ask for what is not open to everybody. Those who say which
/// version they speak can be told to bring a token; browsers are told that there is nothing.
pub fn deny_anonymous(headers: &HeaderMap, version: ServiceVersion) -> ServiceError {
    match version.challenges_bearer(Service::Blob) && headers.contains_key("x-ms-version") {
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

/// As much of a string to sign is told to a caller who has signed another one.
const MAX_TOLD_BYTES: usize = 8 * 1024;

/// A string to sign, to compare with one's own. Of a long one the beginning: it is as long as the request makes it.
fn told(text: &[u8]) -> String {
    let mut told = String::from_utf8_lossy(text).into_owned();
    if told.len() > MAX_TOLD_BYTES {
        let is_whole = |end: &usize| told.is_char_boundary(*end);
        told.truncate((0..=MAX_TOLD_BYTES).rev().find(is_whole).unwrap_or(0));
        told.push('…');
    }
    told
}

#[cfg(test)]
mod tests;
