//! The folder of volumes: opening, reading, closing. Blocks its thread.
//!
//! `pool.rs` decides which volume is written and when it is sealed, `reclaim.rs` frees extents and deletes volumes.

mod pool;
mod reclaim;
#[cfg(test)]
mod tests;

use crate::blocking;
use crate::extents::ExtentsOptions;
use crate::extents::frame::FrameRange;
use crate::extents::holes::Holes;
use crate::extents::open_files::OpenFiles;
use crate::extents::read_buffer::ReadBuffer;
use crate::extents::volume::{self, VolumeFile, open_path, open_volume, sealed_path};
use crate::io_error::io_error;
use crate::stats::{ExtentCounters, ExtentStats};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use pool::Pool;
pub(crate) use pool::VolumeGuard;
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tepui_files::{File, FileSystem, OpenOptions, create_directories};
use tepui_storage::{StorageError, StoreId};
use tokio::sync::oneshot;

pub(crate) struct VolumeStore {
    options: ExtentsOptions,
    holes: Holes,
    pool: Mutex<Pool>,
    /// Signals that the last work has ended, and that a reserved volume was released.
    changed: Condvar,
    /// Volumes of earlier runs that were not sealed and are not swept yet.
    unsealed: Mutex<BTreeSet<u64>>,
    /// Files that were read.
    read_files: Mutex<OpenFiles>,
    /// Seeds the random parts of volume numbers.
    number_seed: u64,
    /// Held while parts of a volume of an earlier run are freed. One at a time: a failed sync may drop the holes of another
    /// free, whose own sync must then not succeed.
    freeing: Mutex<()>,
    counters: ExtentCounters,
}

impl VolumeStore {
    pub(crate) fn open(options: ExtentsOptions) -> Result<Arc<Self>, StorageError> {
        let found = prepare(&options)?;
        let highest = found.iter().map(|volume| volume.number()).max().unwrap_or(0);
        let numbers = |is_included: fn(&VolumeFile) -> bool| {
            found.iter().filter(move |volume| is_included(volume)).map(|volume| volume.number())
        };
        let unsealed: BTreeSet<u64> = numbers(|volume| matches!(volume, VolumeFile::Unsealed(_))).collect();
        let sealed: BTreeSet<u64> = numbers(|volume| matches!(volume, VolumeFile::Sealed(_))).collect();
        if let Some(number) = sealed.intersection(&unsealed).next() {
            return Err(corrupt("a volume is there twice", &open_path(&options.path, *number)));
        }
        let random = || RandomState::new().hash_one("numbers of volumes");
        let store = Arc::new(Self {
            holes: Holes::default(),
            number_seed: options.number_seed.unwrap_or_else(random),
            options,
            pool: Mutex::new(Pool::new(highest)),
            changed: Condvar::new(),
            unsealed: Mutex::new(unsealed),
            read_files: Mutex::default(),
            freeing: Mutex::default(),
            counters: ExtentCounters::default(),
        });
        store.remove_empty_volumes(sealed);
        Ok(store)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.options.path
    }

    pub(crate) fn id(&self) -> StoreId {
        self.options.store
    }

    fn files(&self) -> &dyn FileSystem {
        &*self.options.files
    }

    pub(crate) fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.options.files
    }

    pub(crate) fn counters(&self) -> &ExtentCounters {
        &self.counters
    }

    pub(crate) fn stats(&self) -> ExtentStats {
        let mut stats = ExtentStats { bytes: 0, free_bytes: 0, sync: self.counters.sync.snapshot() };
        for volume in volume::find(self.files(), self.folder()).unwrap_or_default() {
            // It may have been sealed or deleted since.
            let Ok(size) = self.files().file_size(&volume.path(self.folder())) else { continue };
            stats.bytes += size.allocated;
            stats.free_bytes += size.length.saturating_sub(size.allocated);
        }
        stats
    }

    pub(crate) fn sync_step_bytes(&self) -> u64 {
        self.options.sync_step_bytes
    }

    pub(crate) fn check_open(&self) -> Result<(), StorageError> {
        match self.pool.lock().is_closed {
            true => Err(StorageError::unavailable(format!("closed: {}", self.folder().display()))),
            false => Ok(()),
        }
    }

    /// Whether there is space for so many bytes more.
    pub(crate) fn check_space(&self, bytes: u64) -> Result<(), StorageError> {
        let free = self
            .files()
            .free_space(self.folder())
            .map_err(|error| failed("ask for the free space of", self.folder(), &error))?;
        let reserve = self.options.free_space_reserve_bytes;
        if free < reserve.saturating_add(bytes) {
            return Err(StorageError::no_space(format!(
                "only {free} bytes are free on the disk, {reserve} of them are a reserve: delete something, or \
                 give it more space: {}",
                self.folder().display()
            )));
        }
        Ok(())
    }

    /// Starts blocking work on a thread for it.
    pub(crate) fn start<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<(T, WorkGuard)> {
        let guard = WorkGuard::new(self);
        blocking::spawn(self.files(), move || (work(), guard))
    }

    /// The same, for work whose result is not needed.
    pub(crate) fn in_background(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        drop(self.start(work));
    }

    /// Seals all volumes, those in use as soon as their writers are done and their extents unpinned.
    pub(crate) fn close(&self) {
        let idle = {
            let mut pool = self.pool.lock();
            pool.is_closed = true;
            self.changed.notify_all();
            self.changed.wait_while(&mut pool, |pool| pool.active_work > 0);
            pool.take_unpinned()
        };
        if !idle.is_empty() {
            self.seal(idle);
        }
    }

    /// Reads a part of an extent, and verifies it.
    pub(crate) fn read(
        &self,
        frames: &FrameRange,
        mut buffer: ReadBuffer,
    ) -> Result<Vec<Bytes>, StorageError> {
        let (volume, range) = (frames.volume(), frames.disk_range());
        let path = || self.path(volume);
        let file = self.file(volume).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => corrupt("the volume is missing", &path()),
            _ => failed("open a volume", &path(), &error),
        })?;
        file.read_exact_at(&mut buffer, range.start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                corrupt(&format!("the volume ends before {}", range.end), &path())
            }
            _ => failed("read a volume", &path(), &error),
        })?;
        self.content(frames, buffer)
    }

    /// Reads it if it is in the page cache. Returns whether it was; it is not verified yet.
    pub(crate) fn read_cached(&self, frames: &FrameRange, buffer: &mut ReadBuffer) -> bool {
        let file = self.file(frames.volume());
        file.and_then(|file| file.read_cached_at(buffer, frames.disk_range().start)).unwrap_or(false)
    }

    /// Verifies what was read, and returns its content.
    pub(crate) fn content(
        &self,
        frames: &FrameRange,
        buffer: ReadBuffer,
    ) -> Result<Vec<Bytes>, StorageError> {
        frames.content(&Bytes::from_owner(buffer)).map_err(|header| {
            let path = self.path(frames.volume());
            corrupt(&format!("the frame at {} is not what was written", header.offset), &path)
        })
    }

    /// The file of a volume, for reading.
    fn file(&self, number: u64) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.read_files.lock().get(number) {
            return Ok(file);
        }
        let file: Arc<dyn File> = Arc::from(self.open_file(number, OpenOptions::read())?);
        self.read_files.lock().insert(number, Arc::clone(&file));
        Ok(file)
    }

    fn open_file(&self, number: u64, options: OpenOptions) -> io::Result<Box<dyn File>> {
        open_volume(self.files(), self.folder(), number, options)
    }

    /// For messages.
    fn path(&self, number: u64) -> std::path::PathBuf {
        let open = open_path(self.folder(), number);
        if self.files().exists(&open).unwrap_or(false) { open } else { sealed_path(self.folder(), number) }
    }
}

/// Work under way: the store is not closed before it has ended and its result was dropped.
pub(crate) struct WorkGuard(Arc<VolumeStore>);

impl WorkGuard {
    fn new(store: &Arc<VolumeStore>) -> Self {
        store.pool.lock().active_work += 1;
        Self(Arc::clone(store))
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let mut pool = self.0.pool.lock();
        pool.active_work -= 1;
        if pool.active_work == 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for VolumeStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Creates the folder if need be, and lists its volumes.
fn prepare(options: &ExtentsOptions) -> Result<Vec<VolumeFile>, StorageError> {
    let (files, folder) = (&*options.files, &*options.path);
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let prepare = || {
        if options.must_exist && !files.exists(folder)? {
            return Ok(None);
        }
        create_directories(files, folder)?;
        // Names that are found must be durable: the process that created them may have been interrupted.
        files.sync_directory(parent.unwrap_or(Path::new(".")))?;
        files.sync_directory(folder)?;
        volume::find(files, folder).map(Some)
    };
    let found = prepare().map_err(|error| failed("open the folder of volumes", folder, &error))?;
    found.ok_or_else(|| corrupt("the folder of volumes is missing", folder))
}

fn corrupt(what: &str, path: &Path) -> StorageError {
    StorageError::corrupt(format!("{what}: check the disk, and restore from a backup: {}", path.display()))
}

pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> StorageError {
    io_error(error, format!("cannot {what}: {}", path.display()))
}
