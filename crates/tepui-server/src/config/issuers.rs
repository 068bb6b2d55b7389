//! Issuers of tokens in settings.

use super::{Config, ConfigError, StorageSetting, path};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::str::FromStr;
use tepui_identity::{DevelopmentIssuer, IssuerSettings};

/// Which tokens are taken without an issuer that is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oauth {
    /// Those that say the right things, whoever signed them. As Azurite has it.
    Basic,
}

impl FromStr for Oauth {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "basic" => Ok(Self::Basic),
            _ => Err(ConfigError(format!("there is `basic` only, and [[issuer]] in the file: {text}"))),
        }
    }
}

/// The part of the configuration file that has issuers.
#[derive(Deserialize)]
pub(super) struct File {
    #[serde(default, rename = "issuer", deserialize_with = "issuers_of_file")]
    pub(super) issuers: Vec<IssuerSettings>,
}

fn issuers_of_file<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IssuerSettings>, D::Error> {
    let mut issuers = Vec::<IssuerSettings>::deserialize(from)?;
    for issuer in &mut issuers {
        for file in [&mut issuer.ca_file, &mut issuer.jwks_file].into_iter().flatten() {
            *file = in_home(file).map_err(D::Error::custom)?;
        }
        issuer.check().map_err(D::Error::custom)?;
    }
    Ok(issuers)
}

fn in_home(file: &std::path::Path) -> Result<PathBuf, String> {
    file.to_str().map_or_else(|| Ok(file.to_owned()), path)
}

impl Config {
    /// Whether tokens are taken at all.
    pub(crate) fn takes_tokens(&self) -> bool {
        self.oauth.is_some() || self.dev_issuer || !self.issuers.is_empty()
    }

    /// Fails if what is set about tokens contradicts itself.
    pub(super) fn check_issuers(&self) -> Result<(), ConfigError> {
        let refuse = |why: &str| Err(ConfigError(why.to_owned()));
        if self.oauth.is_some() && (self.dev_issuer || !self.issuers.is_empty()) {
            return refuse(
                "with --oauth basic anybody can be anybody, so that [[issuer]] and --dev-issuer mean nothing: choose one",
            );
        }
        if self.oauth.is_some() && !self.trusted_proxies.is_empty() {
            return refuse(
                "--oauth basic believes everybody, also whoever asks by way of a proxy: it cannot be used with --trusted-proxy",
            );
        }
        if self.dev_issuer && self.effective_admin_port().is_none() {
            return refuse(
                "the development issuer is asked for tokens at the admin port: --admin-port is needed, or --test-bench",
            );
        }
        if self.dev_issuer && matches!(self.storage(), Ok(StorageSetting::Shared { .. })) {
            return refuse(
                "a development issuer is of one server: it cannot be had with a store that several share",
            );
        }
        let mut names: Vec<&str> = self.issuers.iter().map(|issuer| issuer.issuer.as_str()).collect();
        names.extend(self.dev_issuer.then_some(DevelopmentIssuer::ISSUER));
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ConfigError(format!("an issuer is given twice: {}", twice[0])));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(name: &str) -> IssuerSettings {
        IssuerSettings { issuer: name.to_owned(), ..Default::default() }
    }

    #[test]
    fn settings_that_contradict_each_other() {
        let (a, b) = (issuer("https://a.example"), issuer("https://b.example"));
        let twice = vec![a.clone(), a.clone()];
        let basic = Some(Oauth::Basic);
        for (case, config, says) in [
            ("two issuers", Config { issuers: vec![a.clone(), b], ..Config::default() }, None),
            ("twice", Config { issuers: twice, ..Config::default() }, Some("given twice: https://a.example")),
            ("basic", Config { oauth: basic, ..Config::default() }, None),
            (
                "basic with an issuer",
                Config { oauth: basic, issuers: vec![a], ..Config::default() },
                Some("choose one"),
            ),
            (
                "basic with its own",
                Config { oauth: basic, dev_issuer: true, test_bench: true, ..Config::default() },
                Some("choose one"),
            ),
            (
                "basic behind a proxy",
                Config {
                    oauth: basic,
                    trusted_proxies: "127.0.0.1".parse().into_iter().collect(),
                    ..Config::default()
                },
                Some("cannot be used with --trusted-proxy"),
            ),
            (
                "an issuer behind a proxy",
                Config {
                    issuers: vec![issuer("https://a.example")],
                    trusted_proxies: "127.0.0.1".parse().into_iter().collect(),
                    ..Config::default()
                },
                None,
            ),
            ("nobody to ask", Config { dev_issuer: true, ..Config::default() }, Some("--admin-port")),
            ("somebody to ask", Config { dev_issuer: true, admin_port: Some(0), ..Config::default() }, None),
            (
                "of several servers",
                Config {
                    dev_issuer: true,
                    admin_port: Some(0),
                    storage: "postgres://h/d".parse().ok(),
                    services: vec![super::super::ServiceName::Table],
                    ..Config::default()
                },
                Some("of one server"),
            ),
        ] {
            let error = config.check_issuers().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), says.is_some(), "{case}: {error:?}");
            assert!(
                error.clone().unwrap_or_default().contains(says.unwrap_or_default()),
                "{case}: {error:?}"
            );
        }
    }
}
