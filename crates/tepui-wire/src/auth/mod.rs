//! Who sends a request: signatures made with an account key, and shared access signatures.
//!
//! See the REST pages "Authorize with Shared Key" and "Delegate access with a shared access signature".
//! Neither keys nor signatures ever appear in errors.

mod keys;
mod sas;
mod sas_layout;
mod shared_key;
mod string_to_sign;

pub use keys::{Delegation, InvalidKey, KeyRing, SigningKeys, decode_key};
pub use sas::{SasToken, sas_version};

use crate::address::{Service, Target};
use crate::query::Query;
use crate::version::ServiceVersion;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use std::net::IpAddr;
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// The parts of a request that signatures cover, and what they are checked against.
#[derive(Clone, Copy)]
pub struct Signed<'a> {
    pub service: Service,
    /// As on the request line, also where another method is tunnelled through POST.
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
#[derive(Debug)]
pub enum Credentials {
    AccountKey,
    /// Still to be resolved: what it allows may depend on a stored access policy.
    Sas(Box<SasToken>),
    /// There are none. Only the Blob service has something for everybody.
    Anonymous,
}

/// Checks the signature of a request.
pub fn authenticate(request: &Signed<'_>) -> Result<Credentials, ServiceError> {
    let mut sent = request.headers.get_all(AUTHORIZATION).into_iter();
    let Some(authorization) = sent.next() else {
        return match request.query.get("sig") {
            Some(_) => sas::authenticate(request).map(|token| Credentials::Sas(Box::new(token))),
            None if request.service == Service::Blob => Ok(Credentials::Anonymous),
            None => Err(no_credentials(request.version)),
        };
    };
    if sent.next().is_some() {
        return Err(ErrorCode::InvalidAuthenticationInfo.into());
    }
    let text = authorization.to_str().map_err(|_| ErrorCode::InvalidAuthenticationInfo)?.trim();
    let (scheme, value) = text.split_once(' ').unwrap_or((text, ""));
    match scheme {
        "SharedKey" => shared_key::check(request, shared_key::Scheme::SharedKey, value)?,
        "SharedKeyLite" => shared_key::check(request, shared_key::Scheme::SharedKeyLite, value)?,
        _ if scheme.eq_ignore_ascii_case("Bearer") => return Err(refuse_token(request)),
        _ => return Err(ErrorCode::InvalidAuthenticationInfo.into()),
    }
    Ok(Credentials::AccountKey)
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

/// Tokens are not served: there is no directory that could vouch for them.
fn refuse_token(request: &Signed<'_>) -> ServiceError {
    if !request.secure {
        failed("Authentication scheme Bearer is not allowed with HTTP.")
    } else if request.version.challenges_bearer() {
        ServiceError::new(ErrorCode::InvalidAuthenticationInfo)
            .with_message(ErrorCode::NoAuthenticationInformation.message())
            .with_status(401)
    } else {
        failed("bearer tokens are not accepted")
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
