//! TLS: what `--cert`, `--key`, `--pwd`, `--tls` and `--tls-dir` say together.

use super::{Config, ConfigError};
use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Whether the server makes certificates itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    Off,
    Auto,
}

impl FromStr for TlsMode {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            _ => Err(ConfigError(format!(
                "TLS is off or auto (with certificates of your own, --cert): {text}"
            ))),
        }
    }
}

/// The password of a PFX file. It is never shown by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct PfxPassword(String);

impl PfxPassword {
    /// The secret itself, for whoever opens the file.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for PfxPassword {
    /// What is wrong is found by [`Config::check`]: an error here would be shown with the value.
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for PfxPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PfxPassword")
    }
}

/// Where the certificate of a server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsSetting {
    /// There is none: all ports are plain.
    Off,
    /// A chain and a key in PEM.
    Pem {
        cert: PathBuf,
        key: PathBuf,
    },
    Pfx {
        file: PathBuf,
        password: PfxPassword,
    },
    /// Made by the server, and kept here.
    Auto {
        directory: PathBuf,
    },
}

impl Config {
    /// Where the certificate comes from. Fails if the settings contradict each other.
    pub fn tls_setting(&self) -> Result<TlsSetting, ConfigError> {
        let refuse = |message: &str| Err(ConfigError(message.to_owned()));
        // A variable that is empty is as good as none.
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        let password = self.pwd.clone().filter(|password| !password.0.is_empty());
        if self.tls == TlsMode::Off && given(&self.tls_dir).is_some() {
            return refuse("--tls-dir is for certificates that the server makes: it needs --tls auto");
        }
        let setting = match (self.tls, given(&self.cert), given(&self.key), password) {
            (TlsMode::Auto, None, None, None) => TlsSetting::Auto { directory: self.tls_directory()? },
            (TlsMode::Auto, ..) => {
                return refuse(
                    "either the server makes its certificate, or it is given one: --tls auto contradicts --cert, --key and --pwd",
                );
            }
            (TlsMode::Off, None, None, None) => TlsSetting::Off,
            (TlsMode::Off, None, Some(_), _) => return refuse("--key is of no use without --cert"),
            (TlsMode::Off, None, None, Some(_)) => return refuse("--pwd is of no use without --cert"),
            (TlsMode::Off, Some(_), Some(_), Some(_)) => {
                return refuse(
                    "a certificate is in PEM, with --key, or in a PFX file, with --pwd: both were given",
                );
            }
            (TlsMode::Off, Some(cert), Some(key), None) => TlsSetting::Pem { cert, key },
            (TlsMode::Off, Some(file), None, Some(password)) => TlsSetting::Pfx { file, password },
            (TlsMode::Off, Some(cert), None, None) => {
                return Err(ConfigError(format!(
                    "a certificate needs its key: --key FILE if it is in PEM, --pwd PASSWORD (not empty) if it is a PFX file: --cert {}",
                    cert.display()
                )));
            }
        };
        if self.require_tls && setting == TlsSetting::Off && self.trusted_proxies.is_empty() {
            return refuse(
                "--require-tls would refuse every request: it needs a certificate (--cert, --tls auto), or a proxy that has one (--trusted-proxy)",
            );
        }
        Ok(setting)
    }

    fn tls_directory(&self) -> Result<PathBuf, ConfigError> {
        if let Some(directory) = self.tls_dir.clone().filter(|path| !path.as_os_str().is_empty()) {
            return Ok(directory);
        }
        match self.local_dir() {
            Some(directory) => Ok(directory.join("tls")),
            None => Err(ConfigError(
                "there is no data directory to keep certificates in: --tls auto needs --tls-dir DIR"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_go_together() {
        let pem = TlsSetting::Pem { cert: "c".into(), key: "k".into() };
        let pfx = TlsSetting::Pfx { file: "c".into(), password: PfxPassword("hunter2".to_owned()) };
        let auto = |directory: &str| TlsSetting::Auto { directory: directory.into() };
        for (flags, expected) in [
            ("", Ok(TlsSetting::Off)),
            ("cert=c key=k", Ok(pem)),
            ("cert=c pwd=hunter2", Ok(pfx)),
            ("tls=auto data-dir=d", Ok(auto("d/tls"))),
            ("tls=auto data-dir=d tls-dir=t", Ok(auto("t"))),
            ("tls=auto in-memory tls-dir=t", Ok(auto("t"))),
            ("tls=auto in-memory", Err("needs --tls-dir DIR")),
            ("cert=c", Err("needs its key")),
            ("cert=c pwd=", Err("needs its key")),
            ("key=k", Err("--key is of no use")),
            ("pwd=hunter2", Err("--pwd is of no use")),
            ("cert=c key=k pwd=hunter2", Err("both were given")),
            ("tls=auto data-dir=d cert=c key=k", Err("contradicts --cert")),
            ("tls=auto data-dir=d pwd=hunter2", Err("contradicts --cert")),
            ("tls-dir=t", Err("needs --tls auto")),
            ("require-tls", Err("would refuse every request")),
            ("require-tls cert=c", Err("needs its key")),
        ] {
            let text: String = flags
                .split_whitespace()
                .map(|flag| match flag.split_once('=') {
                    Some((key, value)) => format!("{key} = '{value}'\n"),
                    None => format!("{flag} = true\n"),
                })
                .collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let config = Config::from_file(file.path()).unwrap();
            let found = config.tls_setting();
            assert!(!format!("{config:?} {found:?}").contains("hunter2"), "{flags}");
            assert_eq!(config.check().is_ok(), found.is_ok(), "{flags}");
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{flags}"),
                (Err(error), Err(says)) => assert!(error.0.contains(says), "{flags}: {error}"),
                (found, _) => panic!("{flags}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_proxy_may_have_the_certificate() {
        let proxies = vec!["10.0.0.1".parse().unwrap()];
        let config = Config { require_tls: true, trusted_proxies: proxies, ..Config::default() };
        assert_eq!(config.tls_setting(), Ok(TlsSetting::Off));
    }
}
