//! An issuer as it is configured.

use crate::audience::Audiences;
use crate::claims::{OwnerRules, TenantRule};
use crate::fetch::Url;
use crate::source::Source;
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;
use tepui_model::guid;

/// An issuer: `[[issuer]]` in the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IssuerSettings {
    /// What tokens have as `iss`, letter by letter.
    pub issuer: String,
    /// What it is called in the log. `None`: the issuer itself.
    #[serde(default)]
    pub name: Option<String>,
    /// Tokens for any one of these are taken. `https://storage.azure.com` stands for all audiences of Azure Storage. None: only that.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// The URL of the discovery document, if it is not below the issuer.
    #[serde(default)]
    pub discovery: Option<String>,
    /// The URL of the keys, for issuers whose discovery document is not to be used.
    #[serde(default)]
    pub jwks_uri: Option<String>,
    /// A file with the keys, for servers that cannot reach the issuer.
    #[serde(default)]
    pub jwks_file: Option<PathBuf>,
    /// Certificates of the authorities that are trusted instead of those that browsers trust, in PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The claim with the object id. `None`: `oid`, and `sub` where there is none.
    #[serde(default)]
    pub subject: Option<String>,
    /// The claim with the tenant, or a GUID that is the tenant of all tokens. `None`: `tid`, if the issuer's URL names the same one.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The claims with groups. `None`: `groups`.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// What the clocks of issuer and server may differ by. `None`: 60.
    #[serde(default)]
    pub skew_seconds: Option<u64>,
}

/// What is wrong with the settings of an issuer, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidIssuer(pub(crate) String);

impl fmt::Display for InvalidIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidIssuer {}

/// Settings that were checked.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) name: String,
    pub(crate) audiences: Audiences,
    pub(crate) owner: OwnerRules,
    pub(crate) skew_seconds: u64,
}

impl Rules {
    pub(crate) const DEFAULT_SKEW_SECONDS: u64 = 60;
}

const MAX_SKEW_SECONDS: u64 = 300;

impl IssuerSettings {
    /// Fails if it could not be used. Files are not looked at.
    pub fn check(&self) -> Result<(), InvalidIssuer> {
        self.rules()?;
        self.source().map(|_| ())
    }

    pub(crate) fn rules(&self) -> Result<Rules, InvalidIssuer> {
        let Self { issuer, subject, tenant, groups, .. } = self;
        if issuer.is_empty() {
            return Err(InvalidIssuer("an issuer has an `issuer`: what its tokens have as `iss`".to_owned()));
        }
        let given = [subject, tenant, &self.name].into_iter().flatten();
        if given.chain(self.audiences.iter()).chain(groups.iter().flatten()).any(String::is_empty) {
            return Err(self.invalid("a setting is empty"));
        }
        let skew_seconds = self.skew_seconds.unwrap_or(Rules::DEFAULT_SKEW_SECONDS);
        if skew_seconds > MAX_SKEW_SECONDS {
            return Err(self.invalid("skew-seconds is a number up to 300"));
        }
        let tenant = match tenant {
            None => TenantRule::OfIssuer,
            Some(text) => match guid::parse(text) {
                Some(id) => TenantRule::Fixed(guid::print(id)),
                None => TenantRule::Claim(text.clone()),
            },
        };
        Ok(Rules {
            name: self.name.clone().unwrap_or_else(|| issuer.clone()),
            audiences: match self.audiences.is_empty() {
                true => Audiences::azure(),
                false => Audiences::of(&self.audiences),
            },
            owner: OwnerRules {
                issuer: issuer.clone(),
                subject: subject.clone(),
                tenant,
                groups: groups.clone().unwrap_or_else(|| vec!["groups".to_owned()]),
            },
            skew_seconds,
        })
    }

    pub(crate) fn source(&self) -> Result<Source, InvalidIssuer> {
        let url = |text: &str| Url::parse(text).map_err(|what| self.invalid(&format!("{what}: {text}")));
        let ca_file = self.ca_file.clone();
        match (&self.discovery, &self.jwks_uri, &self.jwks_file) {
            (None, None, Some(path)) if ca_file.is_none() => Ok(Source::File(path.clone())),
            (None, None, Some(_)) => Err(self.invalid("ca-file has no meaning with jwks-file")),
            (None, Some(keys), None) => Ok(Source::Keys { url: url(keys)?, ca_file }),
            (discovery, None, None) => {
                let default =
                    || format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
                let document = url(&discovery.clone().unwrap_or_else(default))?;
                Ok(Source::Discovery { issuer: self.issuer.clone(), document, ca_file })
            }
            _ => Err(self.invalid("only one of discovery, jwks-uri and jwks-file can be given")),
        }
    }

    fn invalid(&self, what: &str) -> InvalidIssuer {
        InvalidIssuer(format!("{what}, for issuer: {}", self.issuer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_used() {
        let issuer = || IssuerSettings { issuer: "https://issuer.example".to_owned(), ..Default::default() };
        let some = |text: &str| Some(text.to_owned());
        for (case, settings, says) in [
            ("no more than the issuer", issuer(), None),
            ("nothing", IssuerSettings::default(), Some("an issuer has an `issuer`")),
            (
                "plain http",
                IssuerSettings { issuer: "http://issuer.example".to_owned(), ..issuer() },
                Some("https"),
            ),
            (
                "on this machine",
                IssuerSettings { issuer: "http://localhost:8080".to_owned(), ..issuer() },
                None,
            ),
            ("no URL", IssuerSettings { issuer: "issuer".to_owned(), ..issuer() }, Some("https")),
            (
                "no URL, and a file",
                IssuerSettings { issuer: "issuer".to_owned(), jwks_file: Some("k".into()), ..issuer() },
                None,
            ),
            (
                "two places for keys",
                IssuerSettings {
                    jwks_uri: some("https://a.example/k"),
                    jwks_file: Some("k".into()),
                    ..issuer()
                },
                Some("only one of"),
            ),
            (
                "a file from a server",
                IssuerSettings { ca_file: Some("ca".into()), jwks_file: Some("k".into()), ..issuer() },
                Some("ca-file"),
            ),
            ("an empty claim", IssuerSettings { subject: some(""), ..issuer() }, Some("is empty")),
            (
                "clocks too far apart",
                IssuerSettings { skew_seconds: Some(301), ..issuer() },
                Some("up to 300"),
            ),
            (
                "a password in the URL",
                IssuerSettings { discovery: some("https://u:p@a.example/d"), ..issuer() },
                Some("no user"),
            ),
        ] {
            let error = settings.check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), says.is_some(), "{case}: {error:?}");
            assert!(
                error.clone().unwrap_or_default().contains(says.unwrap_or_default()),
                "{case}: {error:?}"
            );
        }
    }

    #[test]
    fn discovery_is_below_the_issuer() {
        for issuer in ["https://issuer.example/a", "https://issuer.example/a/"] {
            let settings = IssuerSettings { issuer: issuer.to_owned(), ..Default::default() };
            let Ok(Source::Discovery { document, .. }) = settings.source() else { panic!("{issuer}") };
            assert_eq!(document.to_string(), "https://issuer.example/a/.well-known/openid-configuration");
        }
    }
}
