//! Writing an extent to disk.
//!
//! Content is buffered until there is a chunk of it. While one chunk is written, on a thread for blocking work, the next one is
//! buffered. So a writer holds two chunks at most, and a volume only from its first chunk on: small extents hold one just while
//! they are written and synced.

use crate::extents::frame::FrameBuffer;
use crate::extents::volume::open_path;
use crate::extents::volume_store::{VolumeGuard, VolumeStore, WorkGuard, failed};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;
use tepui_storage::{Extent, ExtentWriter, StorageError};
use tokio::sync::oneshot::{self, error::RecvError};

/// How many frames a chunk has.
const CHUNK_FRAMES: usize = 16;

/// An extent that is being written to a [`DiskExtents`](crate::DiskExtents).
pub struct DiskWriter {
    /// The chunk that is being filled.
    frames: FrameBuffer,
    /// The chunks before. `None` once a write has failed or its future was dropped.
    state: Option<ChunkState>,
}

/// The extent so far, and an empty chunk.
enum ChunkState {
    Written(PendingExtent, FrameBuffer),
    InFlight(oneshot::Receiver<Finished<(PendingExtent, FrameBuffer)>>),
}

/// The result of work. Dropped in this order, so that work that follows from dropping the first is counted too.
type Finished<T> = (Result<T, StorageError>, WorkGuard);

impl DiskWriter {
    pub(crate) fn new(store: Arc<VolumeStore>) -> Self {
        let state = ChunkState::Written(PendingExtent::new(store), FrameBuffer::new(CHUNK_FRAMES));
        Self { frames: FrameBuffer::new(CHUNK_FRAMES), state: Some(state) }
    }

    /// Starts to write the chunk once the one before it is written.
    async fn start_write(&mut self, state: ChunkState) -> Result<ChunkState, StorageError> {
        let (mut part, empty) = state.written().await?;
        let mut frames = std::mem::replace(&mut self.frames, empty);
        let store = Arc::clone(&part.store);
        Ok(ChunkState::InFlight(store.start(move || {
            part.append(&mut frames)?;
            part.sync_incrementally()?;
            frames.clear();
            Ok((part, frames))
        })))
    }
}

impl ExtentWriter for DiskWriter {
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), StorageError> {
        // Put back at the end: if the future is dropped meanwhile, bytes are missing.
        let mut state = self.state.take().ok_or_else(given_up)?;
        loop {
            self.frames.take(&mut bytes);
            if !self.frames.is_full() {
                break;
            }
            state = self.start_write(state).await?;
        }
        self.state = Some(state);
        Ok(())
    }

    async fn finish(self) -> Result<Extent, StorageError> {
        let (mut part, _) = self.state.ok_or_else(given_up)?.written().await?;
        let mut frames = self.frames;
        // If this future is dropped, so is the result, and the extent is undone.
        let store = Arc::clone(&part.store);
        let part = blocking(&store, move || {
            if !frames.is_empty() || part.guard.is_none() {
                part.append(&mut frames)?;
            }
            part.sync()?;
            Ok(part)
        });
        part.await?.into_extent()
    }
}

impl ChunkState {
    async fn written(self) -> Result<(PendingExtent, FrameBuffer), StorageError> {
        match self {
            Self::Written(part, frames) => Ok((part, frames)),
            Self::InFlight(work) => result(work.await),
        }
    }
}

/// An extent that is not finished. Undone when it is dropped.
struct PendingExtent {
    store: Arc<VolumeStore>,
    /// The volume, at whose end the extent begins. `None` before the first chunk.
    guard: Option<VolumeGuard>,
    content_bytes: u64,
    disk_bytes: u64,
    /// How much of it was written when the last sync started.
    synced_bytes: u64,
}

impl PendingExtent {
    fn new(store: Arc<VolumeStore>) -> Self {
        Self { store, guard: None, content_bytes: 0, disk_bytes: 0, synced_bytes: 0 }
    }

    fn append(&mut self, frames: &mut FrameBuffer) -> Result<(), StorageError> {
        self.store.check_space(frames.disk_bytes())?;
        let guard = match &mut self.guard {
            Some(guard) => guard,
            none => none.insert(self.store.acquire()?),
        };
        self.content_bytes += frames.content_bytes();
        let offset = guard.end + self.disk_bytes;
        let bytes = frames.finish(guard.volume.number, guard.end, offset);
        guard.volume.write(bytes, offset).map_err(|error| guard.failed(&self.store, "write to", &error))?;
        self.disk_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Starts a sync after each step, so that little is left for the last one. Waits if the disk is two steps behind.
    fn sync_incrementally(&mut self) -> Result<(), StorageError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        if guard.volume.is_direct() || self.disk_bytes - self.synced_bytes < self.store.sync_step_bytes() {
            return Ok(());
        }
        guard.volume.wait_for_sync();
        if !guard.volume.is_good() {
            return self.sync();
        }
        self.synced_bytes = self.disk_bytes;
        let volume = Arc::clone(&guard.volume);
        // The next sync reports its failure.
        self.store.in_background(move || drop(volume.sync()));
        Ok(())
    }

    fn sync(&self) -> Result<(), StorageError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let began = Instant::now();
        guard.volume.sync().map_err(|error| guard.failed(&self.store, "sync", &error))?;
        self.store.counters().sync.observe_time(began.elapsed());
        Ok(())
    }

    /// The extent, once all of it is synced. Pins its volume.
    fn into_extent(mut self) -> Result<Extent, StorageError> {
        let mut guard = self.guard.take().ok_or_else(given_up)?;
        let extent = Extent {
            store: self.store.id(),
            volume: guard.volume.number,
            offset: guard.end,
            bytes: self.content_bytes,
        };
        guard.end += self.disk_bytes;
        self.store.pin(extent.volume);
        self.store.release(guard);
        Ok(extent)
    }
}

impl Drop for PendingExtent {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        let store = Arc::clone(&self.store);
        self.store.in_background(move || {
            if let Err(error) = guard.volume.truncate(guard.end) {
                tracing::warn!(%error, volume = guard.volume.number, "cannot truncate an extent that was not finished");
            }
            store.release(guard);
        });
    }
}

impl VolumeGuard {
    fn failed(&self, store: &VolumeStore, what: &str, error: &std::io::Error) -> StorageError {
        failed(&format!("{what} a volume"), &open_path(store.folder(), self.volume.number), error)
    }
}

/// Awaits blocking work, on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    store: &Arc<VolumeStore>,
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    result(store.start(work).await)
}

fn result<T>(ended: Result<Finished<T>, RecvError>) -> Result<T, StorageError> {
    match ended {
        Ok((result, _)) => result,
        Err(_) => Err(StorageError::unavailable("not done: the program is ending, or has a bug")),
    }
}

fn given_up() -> StorageError {
    StorageError::failed("an earlier write of this extent failed: begin a new one")
}
