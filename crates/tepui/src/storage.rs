//! Storage over a network: opening it for a server, and `tepui storage`.
//!
//! | | |
//! | --- | --- |
//! | `postgres.rs` `tikv.rs` `objects.rs` | one store each, or the word that this build has none |
//! | `init.rs` | `tepui storage init` |
//!
//! `tepui storage copy` and `verify` are in `storage_copy.rs`.

mod init;
mod objects;
mod postgres;
mod tikv;

use crate::serve::Failure;
use crate::storage_copy::{self, CopyOptions, VerifyOptions};
use crate::{FAILED, USAGE};
use clap::{Args, Subcommand};
use std::sync::Arc;
use std::time::Duration;
use tepui_server::config::{StorageSetting, StorageUrl};
use tepui_server::{Config, NoExtents, SharedStorage};
use tepui_storage::dynamic::{BoxFuture, DynEngine, DynExtents};
use tepui_storage::stats::RemoteStats;
use tepui_storage::{StorageError, StorageErrorKind};
use tokio::time::Instant;

/// Prepares storage that several servers share, or moves everything to another storage.
#[derive(Args)]
pub(crate) struct StorageOptions {
    #[command(subcommand)]
    what: StorageCommand,
}

#[derive(Subcommand)]
enum StorageCommand {
    Init(init::InitOptions),
    Copy(CopyOptions),
    Verify(VerifyOptions),
}

pub(crate) fn storage(options: &StorageOptions) -> Result<(), Failure> {
    match &options.what {
        StorageCommand::Init(options) => init::init(options),
        StorageCommand::Copy(options) => storage_copy::copy(options),
        StorageCommand::Verify(options) => storage_copy::verify(options),
    }
}

/// An engine that was opened.
struct Rows {
    engine: DynEngine,
    stats: Arc<RemoteStats>,
}

/// A store of large bytes that was opened.
struct Blobs {
    extents: DynExtents,
    close: BoxFuture<'static, ()>,
}

/// Why a store was not opened.
enum OpenError {
    /// This build does not know it.
    #[cfg_attr(
        all(feature = "postgres", feature = "objects", feature = "tikv"),
        allow(dead_code, reason = "this build knows all of them")
    )]
    NoSupport {
        feature: &'static str,
    },
    Storage(StorageError),
}

impl From<StorageError> for OpenError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl OpenError {
    /// For people, without the secrets of the URL.
    fn explain(self, url: &StorageUrl) -> Failure {
        match self {
            Self::NoSupport { feature } => Failure {
                message: format!(
                    "this build has no support for {}:// (cargo feature `{feature}`)",
                    url.scheme()
                ),
                code: USAGE,
            },
            Self::Storage(error) => {
                let message = format!("cannot open the storage: {url}: {}", url.redact(&error.to_string()));
                Failure { message, code: FAILED }
            }
        }
    }
}

/// Opens the stores that a configuration names, if they are over a network. `None`: they are not.
pub(crate) async fn open(config: &Config) -> Result<Option<SharedStorage>, Failure> {
    let usage = |error: tepui_server::ConfigError| Failure { message: error.to_string(), code: USAGE };
    let StorageSetting::Shared { rows: url, blobs: blobs_url } = config.storage().map_err(usage)? else {
        return Ok(None);
    };
    let patience = Duration::from_secs(config.storage_start_seconds);
    let Rows { engine, stats } = reach(&url, patience, async || open_rows(&url, config).await).await?;
    let blobs = match &blobs_url {
        None => Blobs { extents: DynExtents::new(NoExtents), close: Box::pin(async {}) },
        Some(url) => reach(url, patience, async || open_blobs(url, config, &engine).await).await?,
    };
    let Blobs { extents, close } = blobs;
    Ok(Some(SharedStorage { engine, extents, stats, close }))
}

async fn open_rows(url: &StorageUrl, config: &Config) -> Result<Rows, OpenError> {
    match url.scheme() {
        "tikv" => tikv::open(url, config).await,
        // `Config::storage` knows no other.
        _ => postgres::open(url, config).await,
    }
}

async fn open_blobs(url: &StorageUrl, config: &Config, engine: &DynEngine) -> Result<Blobs, OpenError> {
    objects::open(url, config, engine).await
}

/// The pause after the first attempt to reach a store, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Tries to open a store until it answers, for a while: it may be started at the same time, or fail over just now.
async fn reach<T>(
    url: &StorageUrl,
    patience: Duration,
    open: impl AsyncFn() -> Result<T, OpenError>,
) -> Result<T, Failure> {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let error = match open().await {
            Ok(opened) => return Ok(opened),
            Err(OpenError::Storage(error)) if error.kind() == StorageErrorKind::Unavailable => error,
            Err(error) => return Err(error.explain(url)),
        };
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            let Failure { message, code } = OpenError::Storage(error).explain(url);
            let waited = patience.as_secs();
            return Err(Failure {
                message: format!("{message} (waited {waited} s: --storage-start-seconds)"),
                code,
            });
        }
        let reason = url.redact(&error.to_string());
        tracing::warn!(storage = %url, reason, seconds_left = left.as_secs(), "storage cannot be reached yet");
        tokio::time::sleep(pause.min(left)).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn url() -> StorageUrl {
        "postgres://me:hunter2@db/tepui".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_waited_for() {
        let attempts = Cell::new(0);
        let open = async || {
            attempts.set(attempts.get() + 1);
            match attempts.get() {
                5 => Ok(7),
                _ => Err(OpenError::Storage(StorageError::unavailable("hunter2 is refused"))),
            }
        };
        assert!(matches!(reach(&url(), Duration::from_secs(60), open).await, Ok(7)));
        assert_eq!(attempts.get(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn but_not_for_ever_and_not_if_it_refuses() {
        for (error, waited, says) in [
            (
                StorageError::unavailable("no route to hunter2"),
                60,
                "cannot open the storage: postgres://me:XXXXX@db/tepui: storage is unavailable: no route to XXXXX (waited 60 s: --storage-start-seconds)",
            ),
            (
                StorageError::failed("there are no tables: run `tepui storage init`"),
                0,
                "cannot open the storage: postgres://me:XXXXX@db/tepui: storage failed: there are no tables: run `tepui storage init`",
            ),
        ] {
            let began = Instant::now();
            let open = async || Err::<(), _>(OpenError::Storage(error.clone()));
            let failure = reach(&url(), Duration::from_secs(60), open).await.err().unwrap();
            assert_eq!((failure.message.as_str(), failure.code), (says, FAILED));
            assert_eq!(began.elapsed().as_secs(), waited);
        }
    }

    #[cfg(not(any(feature = "postgres", feature = "tikv", feature = "objects")))]
    #[tokio::test]
    async fn a_build_without_a_store_says_so() {
        for (storage, says) in [
            ("postgres://db/tepui", "this build has no support for postgres:// (cargo feature `postgres`)"),
            ("tikv://pd:2379", "this build has no support for tikv:// (cargo feature `tikv`)"),
        ] {
            let config = Config {
                storage: storage.parse().ok(),
                blobs: "s3://bucket".parse().ok(),
                ..Config::default()
            };
            let failure = open(&config).await.err().unwrap();
            assert_eq!((failure.message.as_str(), failure.code), (says, USAGE));
        }
        let engine = DynEngine::new(tepui_storage::MemoryEngine::new());
        let url: StorageUrl = "s3://bucket".parse().unwrap();
        let error = open_blobs(&url, &Config::default(), &engine).await.err().unwrap();
        assert_eq!(
            error.explain(&url).message,
            "this build has no support for s3:// (cargo feature `objects`)"
        );
    }
}
