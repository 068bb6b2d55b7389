//! The store that keeps extents on disk.
//!
//! | File | What it does |
//! |---|---|
//! | `store.rs` | the folder: which volume is written to, sealed, freed, deleted |
//! | `volume.rs` | one file: names, writes, syncs |
//! | `frame.rs` | how content lies in a volume |
//! | `aligned.rs` | memory that can be written past the page cache |
//! | `open_files.rs` | the files that were read from last |
//! | `holes.rs` | space that is given back inside of files |
//! | `writer.rs` | content in chunks, on its way to the disk |
//! | `readers.rs` | who is reading |

use crate::frame::Cover;
use crate::readers::{Readers, Reading};
use crate::space::Space;
use crate::store::Store;
use crate::writer::{DiskWriter, blocking};
use crate::{Extent, ExtentError, Extents};
use bytes::Bytes;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tepui_files::{FileSystem, SystemFiles};

/// How a [`DiskExtents`] is opened.
#[derive(Clone)]
pub struct DiskOptions {
    /// The folder of volumes. Created if it is not there. Whoever opens it sees to it that nobody else does: it
    /// is not locked, for it lies in a data directory that is.
    pub path: PathBuf,
    /// A volume takes no more extents once it is so large. Default: 1 GiB.
    pub volume_bytes: u64,
    /// Writes past the page cache, where the file system can. Default: true.
    pub direct: bool,
    /// Elsewhere, how much of an extent is written before it is synced in the background. Up to twice as much
    /// may be in the operating system's memory and not on disk. Default: 16 MiB.
    pub sync_step_bytes: u64,
    /// Writes are refused while less than this is free on the disk. Default: 128 MiB.
    pub free_space_reserve_bytes: u64,
    /// How long those who read are waited for before something is freed. Default: a minute.
    pub readers_patience: Duration,
    /// How long who writes to a volume is waited for before much of it is freed. Default: a second.
    pub writers_patience: Duration,
    /// Whether the folder was there before, because something is known to be in it. If it is not there now, it is lost: it is not made
    /// anew, but refused as corrupt. Default: false.
    pub must_exist: bool,
    /// What the random parts of volumes' numbers follow from, for tests. It must not be the same for two openings. Default: chance.
    pub number_seed: Option<u64>,
    /// Where the folder is. Default: the file system of the operating system.
    pub files: Arc<dyn FileSystem>,
}

impl DiskOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            volume_bytes: 1 << 30,
            direct: true,
            sync_step_bytes: 16 << 20,
            free_space_reserve_bytes: 128 << 20,
            readers_patience: crate::readers::PATIENCE,
            writers_patience: Duration::from_secs(1),
            must_exist: false,
            number_seed: None,
            files: Arc::new(SystemFiles),
        }
    }
}

/// Keeps extents in files in one folder. A clone is the same store; it is closed when the last one is dropped and
/// the last writer done, or by [`DiskExtents::close`].
///
/// Works in a Tokio runtime, on the threads that its file system has for blocking work; what is in the page cache is read at once.
///
/// ```
/// # use tepui_extents::{DiskExtents, DiskOptions, ExtentWriter, Extents};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// let extents = DiskExtents::open(DiskOptions::new(directory.path().join("extents")))?;
/// let mut writer = extents.begin().await?;
/// writer.write("some bytes".into()).await?;
/// let extent = writer.finish().await?;
/// extents.settle(extent);
/// extents.close();
///
/// let extents = DiskExtents::open(DiskOptions::new(directory.path().join("extents")))?;
/// assert_eq!(extents.read(extent, 5..10).await?.concat(), b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DiskExtents {
    store: Arc<Store>,
    readers: Arc<Readers>,
}

impl DiskExtents {
    /// Opens the folder. Takes a moment, for it looks at the names in it.
    pub fn open(options: DiskOptions) -> Result<Self, ExtentError> {
        let readers = Arc::new(Readers::new(options.readers_patience));
        Ok(Self { store: Store::open(options)?, readers })
    }

    /// Begins no more extents and seals the volumes, so that the next start finds nothing to sweep. Volumes that
    /// are written to are sealed when their writers are done, and all when their extents are settled. Reading and
    /// freeing go on.
    ///
    /// Blocks its thread until work under way has ended, and whoever began it has seen that or was dropped. So a
    /// writer that waits for more bytes, perhaps for long, is to be dropped before.
    pub fn close(&self) {
        self.store.close();
    }
}

impl Extents for DiskExtents {
    type Writer = DiskWriter;
    type Reading = Reading;

    async fn begin(&self) -> Result<DiskWriter, ExtentError> {
        self.store.check_open()?;
        Ok(DiskWriter::new(Arc::clone(&self.store)))
    }

    fn settle(&self, extent: Extent) {
        self.store.settle(extent.volume);
    }

    fn reading(&self) -> Reading {
        self.readers.enter()
    }

    fn is_over(&self, reading: &Reading) -> bool {
        self.readers.is_over(reading)
    }

    async fn wait_for_readers(&self) {
        self.readers.wait().await;
    }

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, ExtentError> {
        crate::check_range(extent, &range)?;
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let cover = Cover::new(extent, range);
        let place = cover.place();
        // Taken here, where it is given back: what other threads gave back would be kept for them.
        let mut space = Space::new((place.end - place.start) as usize);
        if self.store.read_cached(&cover, &mut space) {
            return self.store.content(&cover, space);
        }
        let store = Arc::clone(&self.store);
        blocking(&self.store, move || store.read(&cover, space)).await
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), ExtentError> {
        let store = Arc::clone(&self.store);
        blocking(&self.store, move || store.free(&extents)).await
    }

    fn leftovers(&self) -> Vec<u64> {
        self.store.leftovers()
    }

    async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), ExtentError> {
        // Someone may read what is no longer kept, and is about to be freed.
        self.readers.wait().await;
        let store = Arc::clone(&self.store);
        blocking(&self.store, move || store.sweep(volume, &kept)).await
    }
}
