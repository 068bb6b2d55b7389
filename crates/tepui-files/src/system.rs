//! The file system of the operating system.

use crate::{BlockingWork, Create, File, FileSize, FileSystem, Lock, LockError, OpenOptions};
use std::ffi::OsString;
use std::fs::TryLockError;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process that was killed holds its lock until the kernel is done with it.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// What is read at once where it cannot be asked if that takes time.
#[cfg(target_os = "linux")]
const SMALL_READ_BYTES: usize = 64 << 10;

/// The file system of the operating system. What it creates is its owner's alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

struct SystemFile(std::fs::File);

struct SystemLock(#[expect(dead_code, reason = "unlocked when dropped")] std::fs::File);

impl Lock for SystemLock {}

fn private() -> std::fs::OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "other systems have no modes"))]
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl FileSystem for SystemFiles {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>> {
        let mut open = private();
        open.read(!options.write).write(options.write);
        match options.create {
            Create::No => {}
            Create::IfMissing => drop(open.create(true)),
            Create::New => drop(open.create_new(true)),
            Create::Truncate => drop(open.create(true).truncate(true)),
        }
        if options.direct {
            #[cfg(target_os = "linux")]
            std::os::unix::fs::OpenOptionsExt::custom_flags(
                &mut open,
                rustix::fs::OFlags::DIRECT.bits() as i32,
            );
            #[cfg(not(target_os = "linux"))]
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Box::new(SystemFile(open.open(path)?)))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        #[cfg_attr(not(unix), expect(unused_mut, reason = "other systems have no modes"))]
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            created => created,
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    #[cfg(unix)]
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::File::open(path)?.sync_all()
    }

    /// Directories cannot be synced on this system, and need not be.
    #[cfg(not(unix))]
    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    #[cfg(unix)]
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Not asked for on this system: a full disk shows when it is written to.
    #[cfg(not(unix))]
    fn free_space(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    #[cfg(unix)]
    fn total_space(&self, path: &Path) -> io::Result<Option<u64>> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(Some(stat.f_blocks.saturating_mul(stat.f_frsize)))
    }

    #[cfg(not(unix))]
    fn total_space(&self, _: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn file_size(&self, path: &Path) -> io::Result<FileSize> {
        let metadata = std::fs::metadata(path)?;
        #[cfg(unix)]
        let allocated = std::os::unix::fs::MetadataExt::blocks(&metadata).saturating_mul(512);
        #[cfg(not(unix))]
        let allocated = metadata.len();
        Ok(FileSize { length: metadata.len(), allocated })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError> {
        let file = private().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(LockError::Failed)?;
        let give_up = Instant::now() + LOCK_WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Box::new(SystemLock(file))),
                Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => return Err(LockError::Taken),
                Err(TryLockError::Error(error)) => return Err(LockError::Failed(error)),
            }
        }
    }

    /// On a thread of the runtime for blocking work; without a runtime, when the program is ending, at once.
    fn spawn_blocking(&self, work: BlockingWork) {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(work)),
            Err(_) => work(),
        }
    }
}

impl File for SystemFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset)
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        let length = buffer.len();
        let into = &mut [io::IoSliceMut::new(buffer)];
        match preadv2(&self.0, into, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read == length),
            // Not every file system can be asked. Going to another thread for each small read would cost more than it gains.
            Err(Errno::OPNOTSUPP) if length <= SMALL_READ_BYTES => {
                self.read_exact_at(buffer, offset).map(|()| true)
            }
            Err(_) => Ok(false),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read_cached_at(&self, _: &mut [u8], _: u64) -> io::Result<bool> {
        Ok(false)
    }

    #[cfg(unix)]
    fn read_vec(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        // Not filled with zeros first, as a slice would have to be.
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.0, rustix::buffer::spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    #[cfg(unix)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&self.0, bytes, offset)
    }

    #[cfg(windows)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(&self.0, bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    #[cfg(target_os = "linux")]
    fn punch_hole(&self, range: Range<u64>) -> io::Result<bool> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.0, flags, range.start, range.end - range.start) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn punch_hole(&self, _: Range<u64>) -> io::Result<bool> {
        Ok(false)
    }

    #[cfg(target_os = "linux")]
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let start = match seek(&self.0, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL) => from,
            Err(error) => return Err(error.into()),
        };
        match seek(&self.0, SeekFrom::Hole(start)) {
            Ok(end) => Ok(Some(start..end)),
            // It was truncated meanwhile.
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL) => rest(from, self.length()?),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        rest(from, self.length()?)
    }

    fn advise_random_reads(&self) {
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::Random);
    }
}

/// What is left of a file whose holes are not known.
fn rest(from: u64, length: u64) -> io::Result<Option<Range<u64>>> {
    Ok((from < length).then_some(from..length))
}
