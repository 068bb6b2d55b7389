//! The data directory: its format and its lock.
//!
//! ```text
//! FORMAT     the number of the format in which the directory is written
//! LOCK       locked while a process has the directory open
//! journal/   what was committed and is not in tables yet
//! rows/      tables of rows
//! ```
//!
//! FORMAT is written last. Where it is, everything else was there once; what is missing was lost.

use crate::EngineError;
use crate::store::io_error;
use crate::tree::Expect;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{FileSystem, Lock, LockError, create_directories, read_file, replace_file};

/// The format that this version writes, and the only one that it reads.
const FORMAT: u32 = 4;

pub(crate) struct Directory {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    expect: Expect,
    /// Unlocked when dropped.
    _lock: Box<dyn Lock>,
}

impl Directory {
    /// Creates the directory if need be, locks it and checks its format.
    pub(crate) fn open(files: &Arc<dyn FileSystem>, path: &Path) -> Result<Self, EngineError> {
        let failed = |what: &str, error: io::Error| {
            EngineError::Failed(format!("cannot {what} the data directory: {error}: {}", path.display()))
        };
        create_directories(&**files, path).map_err(|error| failed("create", error))?;
        let lock = files.lock(&path.join("LOCK")).map_err(|error| match error {
            LockError::Taken => EngineError::Unavailable(format!(
                "the data directory is in use by another process: {}",
                path.display()
            )),
            LockError::Failed(error) => failed("lock", error),
        })?;
        let expect = check_format(&**files, path)?;
        let directory = Self { files: Arc::clone(files), path: path.to_owned(), expect, _lock: lock };
        for folder in [directory.rows(), directory.journal()] {
            match expect {
                Expect::Nothing => {
                    create_directories(&**files, &folder).map_err(|error| failed("create", error))?;
                    // It may be there since an earlier attempt, but not after a crash.
                    files.sync_directory(path).map_err(|error| failed("sync", error))?;
                }
                Expect::Everything if !files.exists(&folder).map_err(|error| failed("read", error))? => {
                    return Err(EngineError::Corrupt(format!("the folder is missing: {}", folder.display())));
                }
                Expect::Everything => {}
            }
        }
        if expect == Expect::Everything {
            // Who wrote the file FORMAT may have been killed before it was on disk.
            files.sync_directory(path).map_err(|error| failed("sync", error))?;
        }
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    pub(crate) fn rows(&self) -> PathBuf {
        self.path.join("rows")
    }

    /// What must be in it.
    pub(crate) fn expect(&self) -> Expect {
        self.expect
    }

    /// Says that everything is there from here on.
    pub(crate) fn set_complete(&mut self) -> Result<(), EngineError> {
        if self.expect == Expect::Nothing {
            let file = self.path.join("FORMAT");
            let written = replace_file(&*self.files, &file, format!("{FORMAT}\n").as_bytes());
            written.map_err(|error| {
                let error = io::Error::from(error);
                io_error(&error, &format!("cannot write: {error}: {}", file.display()))
            })?;
            self.expect = Expect::Everything;
        }
        Ok(())
    }
}

/// Whether an engine was made in this directory, so that everything that belongs to it must be there.
pub fn is_used(files: &dyn FileSystem, path: &Path) -> io::Result<bool> {
    files.exists(&path.join("FORMAT"))
}

fn check_format(files: &dyn FileSystem, path: &Path) -> Result<Expect, EngineError> {
    let file = path.join("FORMAT");
    match read_file(files, &file) {
        Ok(text) => match String::from_utf8_lossy(&text).trim().parse::<u32>() {
            Ok(FORMAT) => Ok(Expect::Everything),
            Ok(other) => Err(EngineError::Failed(format!(
                "the data directory has format {other}, this version reads format {FORMAT}: {}",
                path.display()
            ))),
            Err(_) => Err(EngineError::Corrupt(format!("not a format number: {}", file.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Expect::Nothing),
        Err(error) => Err(EngineError::Failed(format!("cannot read: {error}: {}", file.display()))),
    }
}
