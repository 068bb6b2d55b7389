//! The data directory: its format and its lock.
//!
//! ```text
//! FORMAT     the version of the directory's format
//! LOCK       locked while a process has the directory open
//! journal/   the write-ahead log
//! rows/      sorted tables and their manifest
//! RESTORING  only while a backup is being restored to the directory
//! ```
//!
//! FORMAT is written last. Where it is, everything else was complete once; anything missing is damage.

use crate::io_error::io_error;
use crate::lsm::DirectoryState;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{FileSystem, Lock, LockError, create_directories, read_file, replace_file};
use tepui_storage::StorageError;

/// The format that this version writes.
pub(crate) const FORMAT: u32 = 4;
/// The oldest format that is upgraded when the directory is opened.
pub(crate) const OLDEST_FORMAT: u32 = 3;

/// The file that says that a restore was not finished.
pub(crate) const RESTORING: &str = "RESTORING";

pub(crate) struct DataDirectory {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    state: DirectoryState,
    /// The format of the directory.
    format: u32,
    /// Unlocked when dropped.
    _lock: Box<dyn Lock>,
}

impl DataDirectory {
    /// Creates the directory if need be, locks it and checks its format.
    pub(crate) fn open(files: &Arc<dyn FileSystem>, path: &Path) -> Result<Self, StorageError> {
        let failed = |what: &str, error: io::Error| {
            StorageError::failed(format!("cannot {what} the data directory: {error}: {}", path.display()))
        };
        create_directories(&**files, path).map_err(|error| failed("create", error))?;
        let lock = files.lock(&path.join("LOCK")).map_err(|error| match error {
            LockError::Taken => StorageError::unavailable(format!(
                "the data directory is in use by another process: {}",
                path.display()
            )),
            LockError::Failed(error) => failed("lock", error),
        })?;
        if files.exists(&path.join(RESTORING)).map_err(|error| failed("read", error))? {
            return Err(StorageError::corrupt(interrupted_restore(path)));
        }
        let found = read_format(&**files, path)?;
        let state = if found.is_some() { DirectoryState::Existing } else { DirectoryState::New };
        let format = found.unwrap_or(FORMAT);
        let directory = Self { files: Arc::clone(files), path: path.to_owned(), state, format, _lock: lock };
        for folder in [directory.rows(), directory.wal()] {
            match state {
                DirectoryState::New => {
                    create_directories(&**files, &folder).map_err(|error| failed("create", error))?;
                    // It may be there since an earlier attempt, but not durable.
                    files.sync_directory(path).map_err(|error| failed("sync", error))?;
                }
                DirectoryState::Existing
                    if !files.exists(&folder).map_err(|error| failed("read", error))? =>
                {
                    return Err(StorageError::corrupt(format!(
                        "the folder is missing: {}",
                        folder.display()
                    )));
                }
                DirectoryState::Existing => {}
            }
        }
        if state == DirectoryState::Existing {
            // The process that wrote FORMAT may have been killed before it was durable.
            files.sync_directory(path).map_err(|error| failed("sync", error))?;
        }
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn wal(&self) -> PathBuf {
        self.path.join("journal")
    }

    pub(crate) fn rows(&self) -> PathBuf {
        self.path.join("rows")
    }

    /// Whether it was complete before it was opened.
    pub(crate) fn state(&self) -> DirectoryState {
        self.state
    }

    /// Whether it has an earlier format.
    pub(crate) fn needs_upgrade(&self) -> bool {
        self.format != FORMAT
    }

    /// Records that the directory is complete, in the present format.
    pub(crate) fn set_complete(&mut self) -> Result<(), StorageError> {
        if self.state == DirectoryState::New || self.needs_upgrade() {
            let file = self.path.join("FORMAT");
            let written = replace_file(&*self.files, &file, format!("{FORMAT}\n").as_bytes());
            written.map_err(|error| {
                let error = io::Error::from(error);
                io_error(&error, format!("cannot write: {}", file.display()))
            })?;
            self.state = DirectoryState::Existing;
            self.format = FORMAT;
        }
        Ok(())
    }
}

/// Whether this directory was completely created once, so that anything missing is damage.
pub fn is_initialized(files: &dyn FileSystem, path: &Path) -> io::Result<bool> {
    files.exists(&path.join("FORMAT"))
}

pub(crate) fn interrupted_restore(path: &Path) -> String {
    let path = path.display();
    format!(
        "a backup was being restored to this directory, which was interrupted: remove it, and restore again: {path}"
    )
}

/// `None`: the directory was not completely created yet.
pub(crate) fn read_format(files: &dyn FileSystem, path: &Path) -> Result<Option<u32>, StorageError> {
    let file = path.join("FORMAT");
    match read_file(files, &file) {
        Ok(text) => match String::from_utf8_lossy(&text).trim().parse::<u32>() {
            Ok(format @ OLDEST_FORMAT..=FORMAT) => Ok(Some(format)),
            Ok(other) => Err(StorageError::failed(format!(
                "the data directory has format {other}, this version reads formats {OLDEST_FORMAT} to {FORMAT}: {}",
                path.display()
            ))),
            Err(_) => Err(StorageError::corrupt(format!("not a format number: {}", file.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StorageError::failed(format!("cannot read: {error}: {}", file.display()))),
    }
}
