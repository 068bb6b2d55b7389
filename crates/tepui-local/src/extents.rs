//! The store that keeps extents on disk.
//!
//! | File | What it does |
//! |---|---|
//! | `volume_store.rs` | the folder of volumes: opening, reading, closing |
//! | `volume_store/pool.rs` | which volume is written, by whom, and when it is sealed |
//! | `volume_store/reclaim.rs` | freeing extents, sweeping and deleting volumes |
//! | `volume.rs` | one file: names, writes, syncs |
//! | `frame.rs` | how content is stored in a volume |
//! | `aligned_buffer.rs` `read_buffer.rs` | buffers for writing and reading |
//! | `open_files.rs` | the files that were read last |
//! | `holes.rs` | space that is released inside of files |
//! | `writer.rs` | writing content in chunks |
//! | `verify.rs` | offline checks |
//! | `checkpoint.rs` | what is copied in a backup, and frees that wait for it |

mod aligned_buffer;
pub(crate) mod checkpoint;
mod frame;
mod holes;
mod open_files;
mod read_buffer;
pub(crate) mod verify;
pub(crate) mod volume;
mod volume_store;
mod writer;

use crate::stats::ExtentStats;
use bytes::Bytes;
use checkpoint::FreeGate;
use frame::FrameRange;
use read_buffer::ReadBuffer;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tepui_files::{FileSystem, SystemFiles};
use tepui_storage::{Extent, Extents, ReadGuard, Readers, StorageError, StoreId};
use volume_store::VolumeStore;
pub use writer::DiskWriter;
use writer::blocking;

/// How a [`DiskExtents`] is opened.
#[derive(Clone)]
pub struct ExtentsOptions {
    /// The folder of volumes. Created if it is not there. It is not locked: it belongs to a data directory that is.
    pub path: PathBuf,
    /// A volume is sealed at this size. Default: 1 GiB.
    pub volume_bytes: u64,
    /// Writes with direct I/O, where the file system supports it. Default: true.
    pub direct: bool,
    /// Without direct I/O, how much of an extent is written before it is synced in the background. Up to twice as much may be in
    /// the page cache and not on disk. Default: 16 MiB.
    pub sync_step_bytes: u64,
    /// Writes are refused while less than this is free on the disk. Default: 128 MiB.
    pub free_space_reserve_bytes: u64,
    /// How long frees wait for readers. Default: a minute.
    pub reader_timeout: Duration,
    /// How long freeing much of a volume waits for its writer. Default: a second.
    pub writer_timeout: Duration,
    /// Whether the folder must be there already. If it is missing, it was lost: opening fails as corrupt instead of creating it.
    /// Default: false.
    pub must_exist: bool,
    /// Seeds the random parts of volume numbers, for tests. It must not be the same for two openings. Default: random.
    pub number_seed: Option<u64>,
    /// The number of the store in the names of its extents. Default: [`StoreId::LOCAL`].
    pub store: StoreId,
    /// Where the folder is. Default: the file system of the operating system.
    pub files: Arc<dyn FileSystem>,
}

impl ExtentsOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            volume_bytes: 1 << 30,
            direct: true,
            sync_step_bytes: 16 << 20,
            free_space_reserve_bytes: 128 << 20,
            reader_timeout: tepui_storage::READER_TIMEOUT,
            writer_timeout: Duration::from_secs(1),
            must_exist: false,
            number_seed: None,
            store: StoreId::LOCAL,
            files: Arc::new(SystemFiles),
        }
    }
}

/// Keeps extents in files in one folder. A clone is the same store; it is closed when the last one is dropped and
/// the last writer done, or by [`DiskExtents::close`].
///
/// Needs a Tokio runtime. Blocking work runs on the threads of the file system for it; what is in the page cache is read at once.
///
/// ```
/// # use tepui_local::{DiskExtents, ExtentsOptions};
/// # use tepui_storage::{ExtentWriter, Extents};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// let extents = DiskExtents::open(ExtentsOptions::new(directory.path().join("extents")))?;
/// let mut writer = extents.begin().await?;
/// writer.write("some bytes".into()).await?;
/// let extent = writer.finish().await?;
/// extents.unpin(extent);
/// extents.close();
///
/// let extents = DiskExtents::open(ExtentsOptions::new(directory.path().join("extents")))?;
/// assert_eq!(extents.read(extent, 5..10).await?.concat(), b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DiskExtents {
    store: Arc<VolumeStore>,
    readers: Arc<Readers>,
    gate: Arc<FreeGate>,
}

impl DiskExtents {
    /// Opens the folder. Takes a moment: it lists the volumes.
    pub fn open(options: ExtentsOptions) -> Result<Self, StorageError> {
        let readers = Arc::new(Readers::new(options.reader_timeout));
        Ok(Self { store: VolumeStore::open(options)?, readers, gate: Arc::default() })
    }

    /// Starts no more extents and seals the volumes, so that the next start has nothing to sweep. Volumes in use are sealed when
    /// their writers are done, and all when their extents are unpinned. Reading and freeing stay possible.
    ///
    /// Blocks until work under way has ended, and its caller has seen that or was dropped. So drop writers that wait for more
    /// bytes first.
    pub fn close(&self) {
        self.store.close();
    }

    pub(crate) fn gate(&self) -> &Arc<FreeGate> {
        &self.gate
    }

    pub(crate) fn folder(&self) -> (&Arc<dyn FileSystem>, &Path) {
        (self.store.file_system(), self.store.folder())
    }

    /// The figures of now. Asks for the size of every volume, so it may wait for the disk.
    pub fn stats(&self) -> ExtentStats {
        self.store.stats()
    }

    /// The volumes that an earlier run did not seal, and that were not swept since.
    pub fn unsealed_volumes(&self) -> Vec<u64> {
        self.store.unsealed_volumes()
    }
}

impl Extents for DiskExtents {
    type Writer = DiskWriter;
    type ReadGuard = ReadGuard;

    async fn begin(&self) -> Result<DiskWriter, StorageError> {
        self.store.check_open()?;
        Ok(DiskWriter::new(Arc::clone(&self.store)))
    }

    fn store(&self) -> StoreId {
        self.store.id()
    }

    fn unpin(&self, extent: Extent) {
        self.store.unpin(extent.volume);
    }

    fn read_guard(&self) -> ReadGuard {
        self.readers.enter()
    }

    fn expired(&self, guard: &ReadGuard) -> bool {
        self.readers.expired(guard)
    }

    async fn wait_for_readers(&self) {
        // A backup reads everything.
        self.gate.wait_until_open().await;
        self.readers.wait().await;
    }

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        extent.check_store(self.store.id())?;
        extent.check_range(&range)?;
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let frames = FrameRange::new(extent, range);
        let place = frames.disk_range();
        // Allocated here, where it is dropped: buffers are reused by thread.
        let mut buffer = ReadBuffer::new((place.end - place.start) as usize);
        if self.store.read_cached(&frames, &mut buffer) {
            return self.store.content(&frames, buffer);
        }
        let store = Arc::clone(&self.store);
        blocking(&self.store, move || store.read(&frames, buffer)).await
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        extents.iter().try_for_each(|extent| extent.check_store(self.store.id()))?;
        let permit = self.gate.enter(&extents)?;
        let store = Arc::clone(&self.store);
        blocking(&self.store, move || {
            let _permit = permit;
            store.free(&extents)
        })
        .await
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        // The data directory is locked, so whoever wrote them has ended.
        Ok(self.store.unsealed_volumes())
    }

    async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        // Readers may hold extents that are about to be freed.
        self.readers.wait().await;
        let permit = self.gate.enter_when_open().await;
        let store = Arc::clone(&self.store);
        blocking(&self.store, move || {
            let _permit = permit;
            store.sweep(volume, &kept)
        })
        .await
    }
}
