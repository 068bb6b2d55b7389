//! Who asks: the issuers whose tokens are taken, and the one that the server is itself.

use crate::StartError;
use crate::config::{Config, ConfigError};
use crate::data::Data;
use std::net::SocketAddr;
use std::sync::Arc;
use tepui_identity::{DevelopmentIssuer, Directory};

/// Where the development issuer keeps its key, below the data directory.
const KEY_FILE: &str = "identity/dev-issuer.p8";

/// What the server knows about tokens.
pub(crate) struct Identity {
    /// `None`: no tokens are taken.
    pub(crate) directory: Option<Arc<Directory>>,
    /// Makes tokens for development.
    pub(crate) issuer: Option<Arc<DevelopmentIssuer>>,
}

impl Identity {
    /// Asks nobody yet: the server starts although an issuer is down.
    pub(crate) async fn open(config: &Config, data: &Data) -> Result<Self, StartError> {
        let issuer = match config.dev_issuer {
            true => Some(Arc::new(open_issuer(data).await.map_err(StartError::Identity)?)),
            false => None,
        };
        let directory = match config.oauth {
            _ if !config.takes_tokens() => None,
            Some(crate::config::Oauth::Basic) => Some(Directory::basic()),
            None => {
                let directory = Directory::new(&config.issuers, issuer.as_deref());
                Some(directory.map_err(|error| StartError::Config(ConfigError(error.to_string())))?)
            }
        };
        Ok(Self { directory: directory.map(Arc::new), issuer })
    }
}

async fn open_issuer(data: &Data) -> std::io::Result<DevelopmentIssuer> {
    match data {
        // Shared storage is refused by `Config::check`; without a directory there is nowhere to keep a key.
        Data::Memory(..) | Data::Shared(_) => DevelopmentIssuer::new(),
        Data::Disk(_, _, directory) => {
            let path = directory.join(KEY_FILE);
            let opened = tokio::task::spawn_blocking(move || DevelopmentIssuer::open(&path)).await;
            opened.map_err(std::io::Error::other)?
        }
    }
}

/// Refuses to believe everybody where others than this machine can ask.
pub(crate) fn check_addresses(
    config: &Config,
    mut addresses: impl Iterator<Item = SocketAddr>,
) -> Result<(), ConfigError> {
    let other = addresses.find(|address| !address.ip().to_canonical().is_loopback());
    match (config.oauth, other) {
        (Some(_), Some(address)) => Err(ConfigError(format!(
            "--oauth basic believes everybody, so that all services must listen on this machine itself (127.0.0.1), not on: {address}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Oauth;

    #[test]
    fn everybody_is_believed_on_this_machine_only() {
        for (oauth, addresses, is_good) in [
            (Some(Oauth::Basic), &["127.0.0.1:1", "[::1]:1", "127.0.0.9:2"][..], true),
            (Some(Oauth::Basic), &["127.0.0.1:1", "0.0.0.0:1"], false),
            (Some(Oauth::Basic), &["[::]:1"], false),
            (Some(Oauth::Basic), &["10.0.0.7:1"], false),
            (None, &["0.0.0.0:1"], true),
        ] {
            let config = Config { oauth, ..Config::default() };
            let addresses = addresses.iter().map(|address| address.parse().unwrap());
            assert_eq!(check_addresses(&config, addresses).is_ok(), is_good, "{oauth:?}");
        }
    }

    #[tokio::test]
    async fn tokens_are_taken_only_if_somebody_is_trusted() {
        let data = Data::open(&Config { in_memory: true, ..Config::default() }).await.unwrap();
        let issuer =
            tepui_identity::IssuerSettings { issuer: "https://a.example".to_owned(), ..Default::default() };
        for (config, takes, is_basic, mints) in [
            (Config::default(), false, false, false),
            (Config { oauth: Some(Oauth::Basic), ..Config::default() }, true, true, false),
            (Config { issuers: vec![issuer], ..Config::default() }, true, false, false),
            (Config { dev_issuer: true, ..Config::default() }, true, false, true),
        ] {
            let identity = Identity::open(&config, &data).await.unwrap();
            assert_eq!(identity.directory.is_some(), takes);
            assert_eq!(identity.directory.is_some_and(|directory| directory.is_basic()), is_basic);
            assert_eq!(identity.issuer.is_some(), mints);
        }
    }
}
