//! What the stores on disk ask of the file system, and nothing else: the one place where they meet the operating system.
//!
//! [`SystemFiles`] is the real one. With the feature `simulation` there is also `SimulatedFiles`: in memory, knows what was
//! written from what was synced, fails any call on demand, and loses what a crash may lose.
//!
//! The calls are those of POSIX, with its promises and no more: what was written is on disk after a sync of the file, what was
//! created, renamed or removed is on disk after a sync of the folder.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::Path;

mod lock;
#[cfg(feature = "simulation")]
mod simulated;
mod system;

pub use lock::{Lock, LockError};
#[cfg(feature = "simulation")]
pub use simulated::{
    Call, CrashOutcome, DirectWrites, Failure, SimulatedFiles, TracedCall, explore_seeds, repeated_seed,
};
pub use system::SystemFiles;

/// Work that waits for the disk.
pub type BlockingWork = Box<dyn FnOnce() + Send + 'static>;

/// How large a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSize {
    pub length: u64,
    /// What it takes on the disk: less than its length if it has holes.
    pub allocated: u64,
}

/// A file system.
pub trait FileSystem: Send + Sync + 'static {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>>;

    /// Makes a directory that only its owner may enter. Its parent must be there. It is no error if it is there already.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Gives a file another name, in place of whatever has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Brings to the disk what was created, renamed and removed in a directory.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// How many bytes are free for us on the disk that holds `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;

    /// How many bytes that disk has, in use or not. `None`: that is not known on this system.
    fn total_space(&self, path: &Path) -> io::Result<Option<u64>>;

    fn file_size(&self, path: &Path) -> io::Result<FileSize>;

    /// Locks a file against other processes, and creates it if need be.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError>;

    /// Does work that waits for the disk on a thread where it does not block other work.
    fn spawn_blocking(&self, work: BlockingWork);
}

/// An open file. Files have no position: reads and writes say where.
pub trait File: Send + Sync {
    fn length(&self) -> io::Result<u64>;

    /// Reads some bytes; none at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads all of these bytes if that takes no longer than a copy, because they are in memory. `false`: they are not, or that
    /// cannot be asked for here.
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool>;

    /// Writes some of the bytes, and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Brings what was written to the disk, with what is needed to read it back.
    fn sync_data(&self) -> io::Result<()>;

    /// The same, with everything that is known of the file.
    fn sync_all(&self) -> io::Result<()>;

    /// Gives back the space of a part, which reads as zeros from then on. `false`: this cannot be done here.
    fn punch_hole(&self, range: Range<u64>) -> io::Result<bool>;

    /// The first range at or after `from` that is no hole. `None`: there are only holes up to the end. Where holes are not known,
    /// the rest of the file.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>>;

    /// Says that reads come in no order, so that reading ahead is in vain.
    fn advise_random_reads(&self) {}

    /// So many bytes, which must be there.
    fn read_vec(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Fills the buffer.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of the bytes.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.write_at(&bytes[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub write: bool,
    pub create: Create,
    /// Past the page cache. Fails where the file system cannot, some only when the file is written to.
    pub direct: bool,
}

/// Whether opening makes a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Create {
    #[default]
    No,
    /// If it is not there.
    IfMissing,
    /// It must not be there.
    New,
    /// If it is not there; otherwise it is emptied.
    Truncate,
}

impl OpenOptions {
    pub fn read() -> Self {
        Self::default()
    }

    /// An existing file.
    pub fn write() -> Self {
        Self { write: true, ..Self::default() }
    }

    pub fn create(create: Create) -> Self {
        Self { create, ..Self::write() }
    }

    pub fn direct(self) -> Self {
        Self { direct: true, ..self }
    }
}

/// All of a file.
pub fn read_file(files: &dyn FileSystem, path: &Path) -> io::Result<Vec<u8>> {
    let file = files.open(path, OpenOptions::read())?;
    let length = file.length()?;
    file.read_vec(0, usize::try_from(length).map_err(io::Error::other)?)
}

/// Makes a directory and those above it, so that they survive a crash.
pub fn create_directories(files: &dyn FileSystem, path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let is_there = files.exists(path)?;
    if !is_there {
        create_directories(files, parent)?;
        files.create_directory(path)?;
    }
    match files.sync_directory(parent) {
        // It belongs to another user.
        Err(error) if is_there && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        // Also if it was there: who made it may have been killed before this.
        synced => synced,
    }
}

/// Why a file was not replaced.
#[derive(Debug)]
pub enum ReplaceError {
    /// The old one is there, also after a crash.
    Nothing(io::Error),
    /// The new one may be there, now or after a crash.
    Maybe(io::Error),
}

impl From<ReplaceError> for io::Error {
    fn from(error: ReplaceError) -> Self {
        match error {
            ReplaceError::Nothing(error) | ReplaceError::Maybe(error) => error,
        }
    }
}

/// Puts a file with these bytes in the place of whatever has its name, all at once. It is on disk when this returns, and so is every
/// other name in the directory.
///
/// It is written under the name `path` with the extension `new` first.
pub fn replace_file(files: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Result<(), ReplaceError> {
    let new = path.with_extension("new");
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let file = files.open(&new, OpenOptions::create(Create::Truncate))?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        // Whatever the new file speaks of is there before it is.
        files.sync_directory(directory)
    };
    write().map_err(ReplaceError::Nothing)?;
    files.rename(&new, path).map_err(ReplaceError::Maybe)?;
    files.sync_directory(directory).map_err(ReplaceError::Maybe)
}
