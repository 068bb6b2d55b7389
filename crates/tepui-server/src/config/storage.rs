//! Where data is kept: what `--storage` and `--blobs` name, and which of it goes together.

use super::{Config, ConfigError, ServiceName, sources};
use crate::redact::without_credentials;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A value of `--storage` or `--blobs`, as it was given. It is shown without the secrets that it may hold.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageUrl(String);

impl StorageUrl {
    /// The part before the colon.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(scheme, _)| scheme)
    }

    /// With its secrets, for whoever connects.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it holds a secret.
    pub fn has_secret(&self) -> bool {
        without_credentials(&self.0) != self.0
    }

    /// A message in which the URL, or a part of it, may be quoted, without its secrets.
    pub fn redact(&self, message: &str) -> String {
        let mut message = message.replace(&self.0, &self.to_string());
        for secret in crate::redact::secrets(&self.0) {
            message = message.replace(&secret, crate::redact::HIDDEN);
        }
        message
    }

    /// The directory of `local:DIR`.
    fn directory(&self) -> Option<Result<PathBuf, ConfigError>> {
        let path = self.0.strip_prefix("local:")?;
        Some(match path {
            "" => Err(ConfigError("local storage needs a directory: local:DIR".to_owned())),
            path => sources::path(path).map_err(ConfigError),
        })
    }
}

impl FromStr for StorageUrl {
    /// What is wrong is found by [`Config::check`]: an error here would be shown with the value.
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for StorageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_credentials(&self.0))
    }
}

impl fmt::Debug for StorageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Where a server keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageSetting {
    Memory,
    /// Everything in one directory.
    Local(PathBuf),
    /// In stores that several nodes share.
    Shared {
        rows: StorageUrl,
        /// The bytes of larger blobs. `None`: there are none, as the Blob service is not served.
        blobs: Option<StorageUrl>,
    },
}

/// What rows can be in, over a network.
const ROW_SCHEMES: &[&str] = &["postgres", "postgresql", "tikv"];
/// What the bytes of blobs can be in, over a network.
const BLOB_SCHEMES: &[&str] = &["s3", "az", "gs"];

impl Config {
    /// Where data is kept. Fails if the settings contradict each other.
    pub fn storage(&self) -> Result<StorageSetting, ConfigError> {
        let refuse = |message: String| Err(ConfigError(message));
        // A variable that is empty is as good as none.
        let given = |url: &Option<StorageUrl>| url.clone().filter(|url| !url.0.is_empty());
        let (rows, blobs) = (given(&self.storage), given(&self.blobs));
        let Some(rows) = rows else {
            if let Some(blobs) = &blobs {
                return self.beside_local(blobs, self.in_memory);
            }
            return match self.in_memory {
                true => Ok(StorageSetting::Memory),
                false => self.default_dir().map(StorageSetting::Local),
            };
        };
        if self.in_memory && rows.0 != "memory" {
            return refuse(format!("--in-memory contradicts --storage {rows}"));
        }
        if rows.0 == "memory" {
            return match &blobs {
                Some(blobs) => self.beside_local(blobs, true),
                None => Ok(StorageSetting::Memory),
            };
        }
        if let Some(directory) = rows.directory() {
            let directory = directory?;
            if let Some(other) = self.data_dir.as_ref().filter(|other| **other != directory) {
                let (directory, other) = (directory.display(), other.display());
                return refuse(format!("--storage local:{directory} contradicts --data-dir {other}"));
            }
            return match &blobs {
                Some(blobs) => self.beside_local(blobs, false),
                None => Ok(StorageSetting::Local(directory)),
            };
        }
        if !is_url(&rows, ROW_SCHEMES) {
            return refuse(format!(
                "storage is local:DIR, memory, postgres://… or tikv://…: --storage {rows}"
            ));
        }
        if self.test_bench {
            return refuse(format!(
                "a test bench needs storage of its own, local or in memory: --test-bench with --storage {rows}"
            ));
        }
        let blobs = match blobs {
            Some(blobs) if is_url(&blobs, BLOB_SCHEMES) => Some(blobs),
            Some(blobs) => {
                return refuse(format!(
                    "every node must reach the bytes of blobs, so with --storage {rows} they are in s3://…, az://… or gs://…: --blobs {blobs}"
                ));
            }
            None if self.services.contains(&ServiceName::Blob) => {
                return refuse(format!(
                    "with --storage {rows}, --blobs must say where the bytes of blobs are (s3://…, az://… or gs://…), unless the Blob service is not served (--services queue,table)"
                ));
            }
            None => None,
        };
        Ok(StorageSetting::Shared { rows, blobs })
    }

    /// With data of this process alone, blobs are beside it: backups and `tepui check` are of all of it.
    fn beside_local(&self, blobs: &StorageUrl, in_memory: bool) -> Result<StorageSetting, ConfigError> {
        let refuse = |where_it_is: String| {
            Err(ConfigError(format!(
                "{where_it_is}, and the bytes of blobs are there, too (--storage postgres://… is for stores over a network): --blobs {blobs}"
            )))
        };
        if in_memory {
            return match blobs.0.as_str() {
                "memory" => Ok(StorageSetting::Memory),
                _ => refuse("everything is kept in memory".to_owned()),
            };
        }
        let directory = match self.storage.as_ref().and_then(StorageUrl::directory) {
            Some(directory) => directory?,
            None => self.default_dir()?,
        };
        match blobs.directory() {
            Some(Ok(given)) if given == directory => Ok(StorageSetting::Local(directory)),
            _ => refuse(format!("everything is kept in {}", directory.display())),
        }
    }

    /// The directory of local data, if it is local.
    pub fn local_dir(&self) -> Option<PathBuf> {
        match self.storage() {
            Ok(StorageSetting::Local(directory)) => Some(directory),
            _ => None,
        }
    }
}

fn is_url(url: &StorageUrl, schemes: &[&str]) -> bool {
    url.0.split_once("://").is_some_and(|(scheme, rest)| schemes.contains(&scheme) && !rest.is_empty())
}

/// Whether what was given instead of a directory is the URL of a store.
pub fn is_storage_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTGRES: &str = "postgres://tepui:hunter2@db/tepui";

    #[derive(Default)]
    struct Case {
        storage: Option<&'static str>,
        blobs: Option<&'static str>,
        data_dir: Option<&'static str>,
        in_memory: bool,
        test_bench: bool,
        services: Option<ServiceName>,
    }

    impl Case {
        fn config(&self) -> Config {
            let url = |text: Option<&str>| text.map(|text| StorageUrl(text.to_owned()));
            let default = Config::default();
            Config {
                storage: url(self.storage),
                blobs: url(self.blobs),
                data_dir: self.data_dir.map(PathBuf::from),
                in_memory: self.in_memory,
                test_bench: self.test_bench,
                services: self.services.map_or(default.services.clone(), |service| vec![service]),
                ..default
            }
        }
    }

    #[test]
    fn what_goes_together() {
        let url = |text: &str| StorageUrl(text.to_owned());
        let local = |path: &str| StorageSetting::Local(path.into());
        let shared =
            |blobs: Option<&str>| StorageSetting::Shared { rows: url(POSTGRES), blobs: blobs.map(url) };
        let all = || Case { storage: Some(POSTGRES), ..Case::default() };
        for (case, expected) in [
            (Case { data_dir: Some("d"), ..Case::default() }, local("d")),
            (Case { in_memory: true, ..Case::default() }, StorageSetting::Memory),
            (Case { in_memory: true, data_dir: Some("d"), ..Case::default() }, StorageSetting::Memory),
            (Case { storage: Some("memory"), ..Case::default() }, StorageSetting::Memory),
            (Case { storage: Some("memory"), in_memory: true, ..Case::default() }, StorageSetting::Memory),
            (
                Case { storage: Some("memory"), blobs: Some("memory"), ..Case::default() },
                StorageSetting::Memory,
            ),
            (Case { storage: Some("local:d"), ..Case::default() }, local("d")),
            (Case { storage: Some("local:d"), data_dir: Some("d"), ..Case::default() }, local("d")),
            (Case { storage: Some("local:d"), blobs: Some("local:d"), ..Case::default() }, local("d")),
            (Case { blobs: Some("s3://b/p"), ..all() }, shared(Some("s3://b/p"))),
            (Case { blobs: Some("az://c"), data_dir: Some("d"), ..all() }, shared(Some("az://c"))),
            (Case { services: Some(ServiceName::Table), ..all() }, shared(None)),
        ] {
            assert_eq!(case.config().storage(), Ok(expected));
            assert_eq!(case.config().check(), Ok(()));
        }
    }

    #[test]
    fn what_does_not_is_refused_without_the_password() {
        let all = || Case { storage: Some(POSTGRES), ..Case::default() };
        for (case, says) in [
            (all(), "--blobs must say where the bytes of blobs are"),
            (Case { blobs: Some("local:d"), ..all() }, "every node must reach the bytes of blobs"),
            (Case { blobs: Some("file://d"), ..all() }, "--blobs file://d"),
            (
                Case { in_memory: true, ..all() },
                "--in-memory contradicts --storage postgres://tepui:XXXXX@db/tepui",
            ),
            (
                Case { test_bench: true, blobs: Some("s3://b"), ..all() },
                "a test bench needs storage of its own",
            ),
            (Case { storage: Some("mysql://a"), ..Case::default() }, "storage is local:DIR, memory"),
            (Case { storage: Some("postgres://"), ..Case::default() }, "storage is local:DIR, memory"),
            (Case { storage: Some("hunter2"), ..Case::default() }, "storage is local:DIR, memory"),
            (Case { storage: Some("/var/lib"), ..Case::default() }, "--storage /var/lib"),
            (Case { storage: Some("local:"), ..Case::default() }, "local storage needs a directory"),
            (
                Case { storage: Some("local:d"), data_dir: Some("e"), ..Case::default() },
                "--storage local:d contradicts --data-dir e",
            ),
            (
                Case { storage: Some("local:d"), blobs: Some("s3://b"), ..Case::default() },
                "everything is kept in d",
            ),
            (
                Case { storage: Some("local:d"), blobs: Some("local:e"), ..Case::default() },
                "everything is kept in d",
            ),
            (
                Case { data_dir: Some("d"), blobs: Some("s3://b"), ..Case::default() },
                "everything is kept in d",
            ),
            (
                Case { in_memory: true, blobs: Some("s3://b"), ..Case::default() },
                "everything is kept in memory",
            ),
        ] {
            let config = case.config();
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
            assert!(
                case.storage == Some("hunter2") || !format!("{error} {config:?}").contains("hunter2"),
                "{error}"
            );
        }
    }

    #[test]
    fn messages_are_shown_without_secrets() {
        let url = StorageUrl("postgres://tepui:hunter2@db/tepui?sslpassword=swordfish".to_owned());
        let said = url.redact(&format!("cannot connect: {}: password hunter2 or swordfish", url.reveal()));
        assert!(!said.contains("hunter2") && !said.contains("swordfish"), "{said}");
        assert!(url.has_secret() && !StorageUrl("postgres://db/tepui".to_owned()).has_secret());
        assert_eq!(url.scheme(), "postgres");
    }
}
