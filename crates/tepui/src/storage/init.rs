//! `tepui storage init`: makes what a store needs before the first server runs on it.

use super::{postgres, reach};
use crate::USAGE;
use crate::serve::Failure;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tepui_server::Config;
use tepui_server::config::{ServiceName, StorageSetting, StorageUrl};

/// Makes the tables of a store, or upgrades them, before servers run on it.
///
/// Says what was done. May be repeated, and run by several at once. Exit code 0: the store is ready, 1: it is not, 2: wrong usage.
#[derive(Args)]
pub(crate) struct InitOptions {
    /// The storage, as for `tepui serve`
    ///
    /// Everyone on the machine can see the arguments of a process: keep a URL with a password in the environment or the file.
    #[arg(long, value_name = "STORAGE", env = "TEPUI_STORAGE", hide_env_values = true)]
    storage: Option<StorageUrl>,

    /// The configuration file of the server, which may name its storage
    #[arg(long, value_name = "FILE", env = "TEPUI_CONFIG")]
    config: Option<PathBuf>,

    /// Wait so long for a store that cannot be reached
    #[arg(long, value_name = "SECONDS", env = "TEPUI_STORAGE_START_SECONDS", default_value_t = 60)]
    storage_start_seconds: u64,
}

impl InitOptions {
    fn config(&self) -> Result<Config, Failure> {
        let usage = |error: tepui_server::ConfigError| Failure { message: error.to_string(), code: USAGE };
        let mut config = match &self.config {
            Some(path) => Config::from_file(path).map_err(usage)?,
            None => Config::default(),
        };
        if let Some(storage) = &self.storage {
            config.storage = Some(storage.clone());
        }
        // Whether there are blobs, and where, makes no difference.
        config.services = vec![ServiceName::Table];
        config.blobs = None;
        Ok(config)
    }
}

pub(super) fn init(options: &InitOptions) -> Result<(), Failure> {
    let usage = |message: String| Failure { message, code: USAGE };
    let config = options.config()?;
    let url = match config.storage().map_err(|error| usage(error.to_string()))? {
        StorageSetting::Shared { rows, .. } => rows,
        StorageSetting::Memory | StorageSetting::Local(_) if options.storage.is_none() => {
            return Err(usage(
                "which storage? --storage, TEPUI_STORAGE or the configuration file says".to_owned(),
            ));
        }
        StorageSetting::Memory | StorageSetting::Local(_) => {
            println!("nothing to do: `tepui serve` makes local data");
            return Ok(());
        }
    };
    if url.scheme() == "tikv" {
        println!("nothing to do, TiKV has no tables: {url}");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure { message: error.to_string(), code: crate::FAILED })?;
    let patience = Duration::from_secs(options.storage_start_seconds);
    let done = runtime.block_on(reach(&url, patience, async || postgres::init(&url, &config).await))?;
    println!("{done}: {url}");
    Ok(())
}
