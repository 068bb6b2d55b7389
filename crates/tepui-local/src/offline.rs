//! A data directory that no server has open, read without changing it.

use crate::directory::{FORMAT, RESTORING, interrupted_restore, read_format};
use crate::lsm::{DirectoryState, LsmTree, SeqNo, Sizes, TableCacheLimits, WalPosition};
use crate::wal::Wal;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{FileSystem, Lock, LockError};
use tepui_storage::{StorageError, StorageErrorKind};

/// A data directory that is locked, so that no server opens it meanwhile.
pub struct OfflineDirectory {
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) path: PathBuf,
    _lock: Box<dyn Lock>,
}

/// Why a directory cannot be read.
#[derive(Debug)]
pub enum OfflineError {
    /// A server has it open.
    InUse(String),
    /// It is none, has another format, or cannot be reached.
    Unusable(String),
    Damaged(String),
}

impl fmt::Display for OfflineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(why) | Self::Unusable(why) | Self::Damaged(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OfflineError {}

impl From<OfflineError> for io::Error {
    fn from(error: OfflineError) -> Self {
        Self::other(error)
    }
}

impl OfflineDirectory {
    pub fn open(files: Arc<dyn FileSystem>, path: &Path) -> Result<Self, OfflineError> {
        let unusable = |error: io::Error| {
            OfflineError::Unusable(format!("cannot read the data directory: {error}: {}", path.display()))
        };
        let exists = |name: &str| files.exists(&path.join(name)).map_err(unusable);
        let is_data = exists("FORMAT")? || exists("rows")? || exists("journal")? || exists(RESTORING)?;
        if !is_data {
            return Err(OfflineError::Unusable(format!("not a data directory: {}", path.display())));
        }
        let lock = files.lock(&path.join("LOCK")).map_err(|error| match error {
            LockError::Taken => OfflineError::InUse(format!(
                "the data directory is in use by another process, a server perhaps: {}",
                path.display()
            )),
            LockError::Failed(error) => {
                OfflineError::Unusable(format!("cannot lock the data directory: {error}: {}", path.display()))
            }
        })?;
        if exists(RESTORING)? {
            return Err(OfflineError::Unusable(interrupted_restore(path)));
        }
        match read_format(&*files, path) {
            Ok(Some(FORMAT)) => Ok(Self { files, path: path.to_owned(), _lock: lock }),
            Ok(Some(older)) => Err(OfflineError::Unusable(format!(
                "the data directory has format {older}, this command reads format {FORMAT}: start and stop the server once, \
                 which upgrades it, or use the version that wrote it: {}",
                path.display()
            ))),
            Ok(None) if is_new(&files, path) => Err(OfflineError::Unusable(format!(
                "nothing was stored in the data directory yet: {}",
                path.display()
            ))),
            Ok(None) => Err(OfflineError::Damaged(format!(
                "the file FORMAT is missing, and perhaps more: {}",
                path.display()
            ))),
            Err(error) if error.kind() == StorageErrorKind::Corrupt => {
                Err(OfflineError::Damaged(error.to_string()))
            }
            Err(error) => Err(OfflineError::Unusable(error.to_string())),
        }
    }

    pub(crate) fn rows(&self) -> PathBuf {
        self.path.join("rows")
    }

    pub(crate) fn wal(&self) -> PathBuf {
        self.path.join("journal")
    }

    pub(crate) fn extents(&self) -> PathBuf {
        self.path.join("extents")
    }

    /// The tree with the batches of the log in its memtable, and the last of them.
    pub(crate) fn read_tree(&self) -> Result<(LsmTree, SeqNo), StorageError> {
        let (tree, found) = LsmTree::open(&self.files, &self.rows(), SIZES, DirectoryState::Existing)?;
        let memtable = tree.memtable();
        let mut seq_no = found.flushed;
        let expected = (DirectoryState::Existing, found.wal);
        Wal::read(&self.files, &self.wal(), 0, expected, found.flushed, |batch| {
            seq_no = batch.seq_no;
            memtable.insert(batch.seq_no, batch.writes);
        })?;
        Ok((tree, seq_no))
    }
}

/// Whether a directory without a format holds nothing: its first start was interrupted.
fn is_new(files: &Arc<dyn FileSystem>, path: &Path) -> bool {
    let is_missing = |folder: &Path| files.exists(folder).is_ok_and(|exists| !exists);
    let (rows, wal) = (path.join("rows"), path.join("journal"));
    let expected = (DirectoryState::New, WalPosition::default());
    (is_missing(&rows) || LsmTree::open(files, &rows, SIZES, DirectoryState::New).is_ok())
        && (is_missing(&wal) || Wal::read(files, &wal, 0, expected, 0, |_| {}).is_ok())
}

/// Those of a server, as far as reading goes.
pub(crate) const SIZES: Sizes = Sizes {
    memtable_bytes: 48 << 20,
    block_bytes: 4 << 10,
    free_bytes: 0,
    cache: TableCacheLimits { tables: 256, bytes: 256 << 20 },
};
