//! The data directory: its format, its lock, and how much space is left.
//!
//! ```text
//! FORMAT     the number of the format in which the directory is written
//! LOCK       locked while a process has the directory open
//! journal/   what was committed and is not in tables yet
//! rows/      tables of rows
//! ```

use crate::EngineError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The format that this version writes, and the only one that it reads.
const FORMAT: u32 = 3;

/// A process that was killed holds its lock until the kernel is done with it.
const LOCK_WAIT: Duration = Duration::from_millis(500);

pub(crate) struct Directory {
    path: PathBuf,
    /// Unlocked when dropped.
    _lock: File,
}

impl Directory {
    /// Creates the directory if need be, locks it and checks its format.
    pub(crate) fn open(path: &Path) -> Result<Self, EngineError> {
        let failed = |what: &str, error: io::Error| {
            EngineError::Failed(format!("cannot {what} the data directory: {error}: {}", path.display()))
        };
        std::fs::create_dir_all(path).map_err(|error| failed("create", error))?;
        let lock = lock(path).map_err(|error| match error {
            TryLockError::WouldBlock => EngineError::Unavailable(format!(
                "the data directory is in use by another process: {}",
                path.display()
            )),
            TryLockError::Error(error) => failed("lock", error),
        })?;
        check_format(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
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

    /// Writes and syncs a small file and removes it again.
    pub(crate) fn check_writable(&self) -> Result<(), EngineError> {
        let path = self.path.join("PROBE");
        let probe = || {
            let mut file = File::create(&path)?;
            file.write_all(&[0; 4096])?;
            file.sync_all()?;
            drop(file);
            std::fs::remove_file(&path)
        };
        probe().map_err(|error: io::Error| {
            EngineError::Unavailable(format!("the disk takes no writes: {error}: {}", self.path.display()))
        })
    }
}

/// How many bytes are free for us on the disk that holds `path`.
#[cfg(unix)]
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Not asked for on this system: a full disk shows when it is written to.
#[cfg(not(unix))]
pub(crate) fn free_space(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

#[cfg(unix)]
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Directories cannot be synced on this system, and need not be.
#[cfg(not(unix))]
pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

fn lock(path: &Path) -> Result<File, TryLockError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join("LOCK"))
        .map_err(TryLockError::Error)?;
    let give_up = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error),
        }
    }
}

fn check_format(path: &Path) -> Result<(), EngineError> {
    let file = path.join("FORMAT");
    match std::fs::read_to_string(&file) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(FORMAT) => Ok(()),
            Ok(other) => Err(EngineError::Failed(format!(
                "the data directory has format {other}, this version reads format {FORMAT}: {}",
                path.display()
            ))),
            Err(_) => Err(EngineError::Corrupt(format!("not a format number: {}", file.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.join("rows").exists() {
                return Err(EngineError::Corrupt(format!("the file is missing: {}", file.display())));
            }
            write_format(path, &file)
                .map_err(|error| EngineError::Failed(format!("cannot write: {error}: {}", file.display())))
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(EngineError::Corrupt(format!("not a format number: {}", file.display())))
        }
        Err(error) => Err(EngineError::Failed(format!("cannot read: {error}: {}", file.display()))),
    }
}

fn write_format(path: &Path, file: &Path) -> io::Result<()> {
    // In two steps, so that a crash leaves either no file or all of it.
    let new = path.join("FORMAT.new");
    let mut writer = File::create(&new)?;
    writeln!(writer, "{FORMAT}")?;
    writer.sync_all()?;
    std::fs::rename(&new, file)?;
    sync_directory(path)
}
