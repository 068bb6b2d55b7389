//! Why a bearer token is refused.

use crate::AuthFailure;

/// What is wrong with a token. It is never told more than this, and the token itself is in no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenFailure {
    /// The server takes no tokens.
    NotAccepted,
    /// It is no signed JWT, it is too long, or it lacks what every token must have.
    Form,
    /// Its issuer is none that the server trusts.
    Issuer,
    /// It is of another tenant of its issuer, or says no tenant where one is asked for.
    Tenant,
    /// It was made for something else than this service of this account.
    Audience,
    Expired,
    NotYetValid,
    /// It, or its signature, was changed; or it is signed in a way that its key is not for.
    Signature,
    /// Its issuer has no such key.
    UnknownKey,
    /// Its issuer does not tell its keys now, and this one is not known from before.
    KeysUnavailable,
}

impl TokenFailure {
    pub const ALL: [Self; 10] = [
        Self::NotAccepted,
        Self::Form,
        Self::Issuer,
        Self::Tenant,
        Self::Audience,
        Self::Expired,
        Self::NotYetValid,
        Self::Signature,
        Self::UnknownKey,
        Self::KeysUnavailable,
    ];

    /// For logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAccepted => "not-accepted",
            Self::Form => "form",
            Self::Issuer => "issuer",
            Self::Tenant => "tenant",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::NotYetValid => "not-yet-valid",
            Self::Signature => "signature",
            Self::UnknownKey => "unknown-key",
            Self::KeysUnavailable => "keys-unavailable",
        }
    }

    /// The text of `AuthenticationErrorDetail`. Those of audience, issuer, tenant and expiry are the real service's; how it
    /// puts the others is not known.
    pub fn detail(&self) -> &'static str {
        match self {
            Self::NotAccepted => "This server accepts no bearer tokens.",
            Self::Form => "Token validation failed. The token is not a signed JWT.",
            Self::Issuer | Self::Tenant => "Issuer validation failed. Issuer did not match.",
            Self::Audience => "Audience validation failed. Audience did not match.",
            Self::Expired => "Lifetime validation failed. The token is expired.",
            Self::NotYetValid => "Lifetime validation failed. The token is not yet valid.",
            Self::Signature => "Signature validation failed. Signature did not match.",
            Self::UnknownKey => "Signature validation failed. The signing key is not known.",
            Self::KeysUnavailable => {
                "Signature validation failed. The signing keys of the issuer are not available."
            }
        }
    }

    /// Which kind of refusal it is.
    pub fn auth_failure(self) -> AuthFailure {
        match self {
            Self::Expired | Self::NotYetValid => AuthFailure::Time,
            Self::NotAccepted
            | Self::Form
            | Self::Issuer
            | Self::Tenant
            | Self::Audience
            | Self::Signature
            | Self::UnknownKey
            | Self::KeysUnavailable => AuthFailure::Token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_name_of_its_own() {
        let mut names = TokenFailure::ALL.map(TokenFailure::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TokenFailure::ALL.len());
        assert!(TokenFailure::ALL.iter().all(|failure| failure.detail().ends_with('.')));
    }
}
