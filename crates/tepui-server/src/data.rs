//! Where everything is kept: rows in an engine, and beside it the bytes of large blobs.

mod no_extents;
mod shared;

pub use no_extents::NoExtents;
pub use shared::SharedStorage;

use crate::StartError;
use crate::accounts::{self, AccountDirectory};
use crate::config::{Config, ConfigError, StorageSetting};
use crate::node::Node;
use crate::seed::{self, SeedError};
use shared::SharedData;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_local::{Checkpoint, DiskEngine, DiskExtents, EngineOptions};
use tepui_storage::dynamic::{DynEngine, DynExtents};
use tepui_storage::{Engine, MemoryEngine, MemoryExtents, StorageError};

#[derive(Clone)]
pub(crate) enum Data {
    Memory(Arc<MemoryEngine>, Arc<MemoryExtents>),
    Disk(Arc<DiskEngine>, Arc<DiskExtents>, PathBuf),
    Shared(Arc<SharedData>),
}

impl Data {
    /// Opens data that is this process's own.
    pub(crate) async fn open(config: &Config) -> Result<Self, StartError> {
        let directory = match config.storage().map_err(StartError::Config)? {
            StorageSetting::Memory => {
                return Ok(Self::Memory(Arc::new(MemoryEngine::new()), Arc::new(MemoryExtents::new())));
            }
            StorageSetting::Local(directory) => directory,
            StorageSetting::Shared { rows, .. } => {
                let message = format!("storage over a network has to be opened before the server: {rows}");
                return Err(StartError::Config(ConfigError(message)));
            }
        };
        let open = move || {
            let mut engine = EngineOptions::new(&directory);
            engine.resident_range = tepui_service::catalogue_versions();
            let mut extents = tepui_local::ExtentsOptions::new(directory.join("extents"));
            // Both are made before the engine says that everything is there: from then on, what is missing is damage.
            extents.must_exist = tepui_local::is_initialized(&*engine.files, &directory).unwrap_or(true);
            let is_new = !extents.must_exist;
            let extents = DiskExtents::open(extents).map_err(StartError::Extents)?;
            if is_new && !extents.unsealed_volumes().is_empty() {
                let message = format!(
                    "there are bytes of blobs, but the file FORMAT is missing, and perhaps more: {}",
                    directory.display()
                );
                return Err(StartError::Data(StorageError::corrupt(message)));
            }
            let engine = DiskEngine::open(engine).map_err(StartError::Data)?;
            Ok(Self::Disk(Arc::new(engine), Arc::new(extents), directory))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let opened =
            opened.unwrap_or_else(|panic| Err(StartError::Data(StorageError::failed(panic.to_string()))))?;
        if let Self::Disk(engine, _, directory) = &opened
            && let Err(error) = refuse_unfinished(&**engine, &directory.display().to_string()).await
        {
            opened.close().await;
            return Err(error);
        }
        Ok(opened)
    }

    /// Joins the nodes that share a storage.
    pub(crate) async fn join(storage: SharedStorage) -> Result<Self, StartError> {
        refuse_unfinished(&storage.engine, "this storage").await?;
        Ok(Self::Shared(Arc::new(SharedData::join(storage).await.map_err(StartError::Node)?)))
    }

    /// What the services use: one type, whatever it is, so that the server is compiled once (docs/decisions/0023-one-engine-type.md).
    pub(crate) fn stores(&self) -> (Arc<DynEngine>, Arc<DynExtents>) {
        let (engine, extents) = match self {
            Self::Memory(engine, extents) => {
                (DynEngine::from_arc(Arc::clone(engine)), DynExtents::from_arc(Arc::clone(extents)))
            }
            Self::Disk(engine, extents, _) => {
                (DynEngine::from_arc(Arc::clone(engine)), DynExtents::from_arc(Arc::clone(extents)))
            }
            Self::Shared(shared) => (DynEngine::from_arc(Arc::clone(&shared.engine)), shared.extents.clone()),
        };
        (Arc::new(engine), Arc::new(extents))
    }

    /// Does something for as long as this process is one of those that share the data. `None`: it had to leave before.
    pub(crate) async fn while_joined<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        match self {
            Self::Memory(..) | Self::Disk(..) => Some(what.await),
            Self::Shared(shared) => tokio::select! {
                done = what => Some(done),
                () = shared.stay() => None,
            },
        }
    }

    /// Reads the accounts and roles that are stored.
    pub(crate) async fn open_accounts(&self, config: &Config) -> Result<Arc<AccountDirectory>, StartError> {
        let Node { clock, .. } = self.node();
        // Without a role nobody gets a user delegation key, unless everybody is believed.
        let with_secret = !config.role_assignments.is_empty() || config.oauth.is_some();
        let identity = accounts::open(&self.stores().0, &clock, with_secret).await;
        let identity = identity.map_err(|error| StartError::Accounts(error.to_string()))?;
        if let Self::Disk(_, _, directory) = self
            && !identity.accounts.is_empty()
        {
            warn_of_readers(directory);
        }
        Ok(Arc::new(AccountDirectory::new(config, &identity)))
    }

    /// Puts what a path holds into the server, before it serves anybody.
    pub(crate) async fn seed(
        &self,
        config: &Config,
        accounts: &Arc<AccountDirectory>,
        path: &Path,
    ) -> Result<(), SeedError> {
        let (engine, extents) = self.stores();
        let node = self.node();
        let seeded = seed::at_start(&engine, &extents, &node, (config, accounts), path);
        // It may take longer than the number of a node is kept without a word.
        self.while_joined(seeded).await.unwrap_or(Ok(()))
    }

    /// How this process shares it.
    pub(crate) fn node(&self) -> Node {
        match self {
            Self::Memory(..) | Self::Disk(..) => Node::alone(),
            Self::Shared(shared) => shared.node(),
        }
    }

    /// Whether it takes writes now, as far as is known without waiting.
    pub(crate) fn takes_writes(&self) -> bool {
        match self {
            Self::Memory(..) => true,
            Self::Disk(engine, ..) => engine.status().is_ok(),
            Self::Shared(shared) => shared.engine.status().is_ok(),
        }
    }

    pub(crate) async fn checkpoint(&self) -> io::Result<Checkpoint> {
        let unsupported = |why| Err(io::Error::new(io::ErrorKind::Unsupported, why));
        match self {
            Self::Memory(..) => unsupported("everything is in memory only"),
            Self::Disk(engine, extents, _) => Checkpoint::take(engine, extents).await,
            Self::Shared(_) => unsupported(
                "backups are of local data only: storage over a network has its own, and `tepui storage copy` copies it",
            ),
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Memory(..) => {}
            Self::Disk(engine, extents, _) => {
                let close = move || {
                    extents.close();
                    engine.close();
                };
                let _ = tokio::task::spawn_blocking(close).await;
            }
            Self::Shared(shared) => shared.leave().await,
        }
    }
}

/// Refuses storage that something is still copied to.
async fn refuse_unfinished<E: Engine>(engine: &E, name: &str) -> Result<(), StartError> {
    match tepui_service::copy::unfinished(engine).await.map_err(StartError::Data)? {
        true => {
            let message = format!("{}: {name}", tepui_service::copy::UNFINISHED);
            Err(StartError::Data(StorageError::failed(message)))
        }
        false => Ok(()),
    }
}

/// Keys of accounts are for the owner of the directory alone. What somebody has chosen otherwise is not changed.
#[cfg(unix)]
fn warn_of_readers(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS: u32 = 0o077;
    let mode = directory.metadata().map_or(0, |found| found.permissions().mode());
    if mode & OTHERS != 0 {
        tracing::warn!(
            directory = %directory.display(),
            mode = format!("{:o}", mode & 0o777),
            "the data directory has keys of accounts, and others than its owner have access to it: chmod 700"
        );
    }
}

#[cfg(not(unix))]
fn warn_of_readers(_: &Path) {}
