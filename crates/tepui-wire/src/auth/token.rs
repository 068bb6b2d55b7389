//! Tokens of a directory: how they come, and how they are refused. Whether one is good, the server asks whoever knows the
//! directory.

use super::{Verifier, failed};
use crate::address::Service;
use crate::head::Head;
use crate::version::ServiceVersion;
use http::HeaderValue;
use std::fmt;
use tepui_model::{AuthFailure, ErrorCode, ServiceError, TokenFailure};

/// The text of a token, not verified. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

impl TokenText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For whoever verifies it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// Takes the token of a request: only over TLS, and only in versions that know tokens.
pub(super) fn read(head: &Head<'_>, verifier: &Verifier<'_>, value: &str) -> Result<TokenText, ServiceError> {
    let refused = |detail: &str| failed(detail).with_auth_failure(AuthFailure::Token);
    if !verifier.secure {
        return Err(refused("Authentication scheme Bearer is not allowed with HTTP."));
    }
    if !head.version.has_tokens() {
        return Err(refused("Authentication scheme Bearer is not supported in this version."));
    }
    match value.trim() {
        "" => Err(refuse(TokenFailure::Form, head.service, head.version)),
        text => Ok(TokenText::new(text)),
    }
}

/// The answer to a token that is not accepted.
///
/// Fidelity: only versions that know the challenge answer 401. scenario: auth-bearer-refused
pub fn refuse(failure: TokenFailure, service: Service, version: ServiceVersion) -> ServiceError {
    let error = if version.challenges_bearer(service) {
        ServiceError::new(ErrorCode::InvalidAuthenticationInfo)
            .with_message(ErrorCode::NoAuthenticationInformation.message())
            .with_status(401)
            .with_cause(failure.detail())
            .with_detail("AuthenticationErrorDetail", failure.detail())
    } else {
        failed(failure.detail())
    };
    error.with_auth_failure(failure.auth_failure())
}

/// Where a token can be had: what `WWW-Authenticate` says with every 401.
///
/// Clients take it apart at its blanks, and some of them keep quotes: it has neither quotes nor commas, and its URLs no `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge(HeaderValue);

/// A challenge cannot be written with such an address or tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidChallenge;

impl fmt::Display for InvalidChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the address of an authority and a tenant have no blanks, commas, quotes or '='")
    }
}

impl std::error::Error for InvalidChallenge {}

impl Challenge {
    /// `authority`: the address before the tenant, such as `https://login.microsoftonline.com`. Some clients go on only if
    /// the tenant is a GUID.
    pub fn new(authority: &str, tenant: &str) -> Result<Self, InvalidChallenge> {
        let is_plain = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"=,\"'".contains(&b))
        };
        let authority = authority.trim_end_matches('/');
        if !is_plain(authority) || !is_plain(tenant) || tenant.contains('/') {
            return Err(InvalidChallenge);
        }
        let text = format!(
            "Bearer authorization_uri={authority}/{tenant}/oauth2/authorize resource_id=https://storage.azure.com"
        );
        HeaderValue::try_from(text).map(Self).map_err(|_| InvalidChallenge)
    }

    pub fn header(&self) -> &HeaderValue {
        &self.0
    }
}

/// For servers that accept no tokens: clients expect the challenge to be readable all the same.
impl Default for Challenge {
    fn default() -> Self {
        Self(HeaderValue::from_static(
            "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize \
             resource_id=https://storage.azure.com",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_written_as_clients_read_them() {
        let tenant = "72f988bf-86f1-41af-91ab-2d7cd011db47";
        let expected = format!(
            "Bearer authorization_uri=https://login.example.org/{tenant}/oauth2/authorize \
             resource_id=https://storage.azure.com"
        );
        for authority in ["https://login.example.org", "https://login.example.org/"] {
            assert_eq!(Challenge::new(authority, tenant).unwrap().header(), expected.as_str());
        }
        let default = Challenge::new("https://login.microsoftonline.com", "common").unwrap();
        assert_eq!(default, Challenge::default());
        for (authority, tenant) in [
            ("", "t"),
            ("https://a", ""),
            ("https://a?b=c", "t"),
            ("https://a b", "t"),
            ("https://a,b", "t"),
            ("https://a\r\nx: y", "t"),
            ("https://é", "t"),
            ("https://a", "t/u"),
            ("https://a", "\"t\""),
        ] {
            assert_eq!(Challenge::new(authority, tenant), Err(InvalidChallenge), "{authority} {tenant}");
        }
    }

    #[test]
    fn refusals() {
        let version = |text| ServiceVersion::parse(text).unwrap();
        for (service, old, new) in [
            (Service::Blob, "2019-10-10", "2019-12-12"),
            (Service::Queue, "2019-10-10", "2019-12-12"),
            (Service::Table, "2020-10-02", "2020-12-06"),
        ] {
            for failure in TokenFailure::ALL {
                for (text, status, code) in [
                    (old, 403, ErrorCode::AuthenticationFailed),
                    (new, 401, ErrorCode::InvalidAuthenticationInfo),
                ] {
                    let error = refuse(failure, service, version(text));
                    assert_eq!(
                        (error.status(), error.code),
                        (status, code),
                        "{service:?} {text} {failure:?}"
                    );
                    assert_eq!(error.details, [("AuthenticationErrorDetail", failure.detail().to_owned())]);
                    assert_eq!(error.auth_failure(), Some(failure.auth_failure()));
                }
            }
        }
    }

    #[test]
    fn tokens_are_not_printed() {
        let token = TokenText::new("eyJhbGciOi.hunter2");
        assert_eq!(format!("{token:?}"), "TokenText(…)");
        assert_eq!(token.as_str(), "eyJhbGciOi.hunter2");
    }
}
