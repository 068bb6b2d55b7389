//! Where the keys of an issuer come from.

use crate::discovery;
use crate::fetch::{Document, FetchError, Trust, Url};
use crate::keys::KeySet;
use std::fmt::Display;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A place with keys.
#[derive(Debug)]
pub(crate) enum Source {
    /// A document says where the keys are. It must be of this issuer.
    Discovery {
        issuer: String,
        document: Url,
        ca_file: Option<PathBuf>,
    },
    Keys {
        url: Url,
        ca_file: Option<PathBuf>,
    },
    File(PathBuf),
    /// They were there from the start, and do not change.
    Fixed,
}

impl Source {
    /// The keys, and how long they are good, if that is said. `None` for those that do not change.
    pub(crate) async fn read(&self) -> Result<Option<(KeySet, Option<Duration>)>, FetchError> {
        let Document { bytes, max_age } = match self {
            Self::Fixed => return Ok(None),
            Self::File(path) => Document { bytes: read_file(path.clone()).await?, max_age: None },
            // Certificates are read each time: they may have been replaced.
            Self::Keys { url, ca_file } => trust(ca_file.clone()).await?.get(url, KeySet::MAX_BYTES).await?,
            Self::Discovery { issuer, document, ca_file } => {
                let trust = trust(ca_file.clone()).await?;
                let found = trust.get(document, discovery::MAX_BYTES).await?;
                let keys = discovery::keys_of(&found.bytes, issuer, document)?;
                trust.get(&keys, KeySet::MAX_BYTES).await?
            }
        };
        Ok(Some((KeySet::parse(&bytes)?, max_age)))
    }
}

async fn trust(ca_file: Option<PathBuf>) -> Result<Trust, FetchError> {
    blocking(move || Trust::new(ca_file.as_deref())).await
}

async fn read_file(path: PathBuf) -> Result<Vec<u8>, FetchError> {
    blocking(move || {
        let said = |what: &dyn Display| format!("cannot read the keys ({what}): {}", path.display());
        let file = std::fs::File::open(&path).map_err(|error| said(&error))?;
        let mut bytes = Vec::new();
        // One byte more than what is taken, to tell that it is too long.
        let limit = KeySet::MAX_BYTES as u64 + 1;
        file.take(limit).read_to_end(&mut bytes).map_err(|error| said(&error))?;
        Ok(bytes)
    })
    .await
}

/// What tells whether a file has changed.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

pub(crate) async fn stamp(path: PathBuf) -> Stamp {
    let stamp = blocking(move || {
        let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
        Ok((metadata.modified().map_err(|error| error.to_string())?, metadata.len()))
    });
    stamp.await.ok()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}
