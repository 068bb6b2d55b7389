//! Writing an extent to disk.
//!
//! Content is gathered in memory until there is a chunk of it. While one chunk is written, on a thread that may
//! block, the next one is gathered. So a writer holds two chunks at most, and a volume only from its first chunk
//! on: small extents have one just while they are written and synced.

use crate::frame::Frames;
use crate::store::{Lease, Store, Working, failed};
use crate::volume::open_path;
use crate::{Extent, ExtentError, ExtentWriter};
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::oneshot::{self, error::RecvError};

/// How many frames are written at once.
const CHUNK_FRAMES: usize = 16;

/// An extent that is being written to a [`DiskExtents`](crate::DiskExtents).
pub struct DiskWriter {
    /// The chunk that is gathered.
    frames: Frames,
    /// What was written before. `None` once a write has failed or was not waited for.
    tail: Option<Tail>,
}

/// What was written of an extent, and an empty chunk.
enum Tail {
    Written(Part, Frames),
    Writing(oneshot::Receiver<Worked<(Part, Frames)>>),
}

/// What work came to. Dropped in this order, so that what follows from dropping the first counts as work too.
type Worked<T> = (Result<T, ExtentError>, Working);

impl DiskWriter {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let tail = Tail::Written(Part::new(store), Frames::new(CHUNK_FRAMES));
        Self { frames: Frames::new(CHUNK_FRAMES), tail: Some(tail) }
    }

    /// Starts to write the chunk, as soon as the one before it is written.
    async fn pass_on(&mut self, tail: Tail) -> Result<Tail, ExtentError> {
        let (mut part, empty) = tail.written().await?;
        let mut frames = std::mem::replace(&mut self.frames, empty);
        let store = Arc::clone(&part.store);
        Ok(Tail::Writing(store.start(move || {
            part.append(&mut frames)?;
            part.keep_pace()?;
            frames.clear();
            Ok((part, frames))
        })))
    }
}

impl ExtentWriter for DiskWriter {
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), ExtentError> {
        // Taken out for as long as this lasts: if the future is dropped, some bytes are missing.
        let mut tail = self.tail.take().ok_or_else(given_up)?;
        loop {
            self.frames.take(&mut bytes);
            if !self.frames.is_full() {
                break;
            }
            tail = self.pass_on(tail).await?;
        }
        self.tail = Some(tail);
        Ok(())
    }

    async fn finish(self) -> Result<Extent, ExtentError> {
        let (mut part, _) = self.tail.ok_or_else(given_up)?.written().await?;
        let mut frames = self.frames;
        // If nobody waits for the end of this, the part is dropped, and so undone.
        let store = Arc::clone(&part.store);
        let part = blocking(&store, move || {
            if !frames.is_empty() || part.lease.is_none() {
                part.append(&mut frames)?;
            }
            part.sync()?;
            Ok(part)
        });
        part.await?.keep()
    }
}

impl Tail {
    async fn written(self) -> Result<(Part, Frames), ExtentError> {
        match self {
            Self::Written(part, frames) => Ok((part, frames)),
            Self::Writing(work) => result(work.await),
        }
    }
}

/// What was written of an extent so far. Undone when it is dropped.
struct Part {
    store: Arc<Store>,
    /// The volume, whose end is where the extent begins. `None` before the first chunk.
    lease: Option<Lease>,
    content_bytes: u64,
    disk_bytes: u64,
    /// How much of it was there when the last sync began.
    synced_bytes: u64,
}

impl Part {
    fn new(store: Arc<Store>) -> Self {
        Self { store, lease: None, content_bytes: 0, disk_bytes: 0, synced_bytes: 0 }
    }

    fn append(&mut self, frames: &mut Frames) -> Result<(), ExtentError> {
        self.store.check_space(frames.disk_bytes())?;
        let lease = match &mut self.lease {
            Some(lease) => lease,
            none => none.insert(self.store.lease()?),
        };
        self.content_bytes += frames.content_bytes();
        let offset = lease.end + self.disk_bytes;
        let bytes = frames.finish(lease.volume.number, lease.end, offset);
        lease.volume.write(bytes, offset).map_err(|error| lease.failed(&self.store, "write to", &error))?;
        self.disk_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Begins to sync every now and then, so that there is little left to do at the end. Waits if the disk is
    /// two such steps behind.
    fn keep_pace(&mut self) -> Result<(), ExtentError> {
        let Some(lease) = &self.lease else { return Ok(()) };
        if lease.volume.is_direct() || self.disk_bytes - self.synced_bytes < self.store.sync_step_bytes() {
            return Ok(());
        }
        lease.volume.wait_for_sync();
        if !lease.volume.is_good() {
            return self.sync();
        }
        self.synced_bytes = self.disk_bytes;
        let volume = Arc::clone(&lease.volume);
        // How it ends is asked by the next sync.
        self.store.in_background(move || drop(volume.sync()));
        Ok(())
    }

    fn sync(&self) -> Result<(), ExtentError> {
        let Some(lease) = &self.lease else { return Ok(()) };
        lease.volume.sync().map_err(|error| lease.failed(&self.store, "sync", &error))
    }

    /// The extent, once all of it is synced.
    fn keep(mut self) -> Result<Extent, ExtentError> {
        let mut lease = self.lease.take().ok_or_else(given_up)?;
        let extent = Extent { volume: lease.volume.number, offset: lease.end, bytes: self.content_bytes };
        lease.end += self.disk_bytes;
        self.store.unsettle(extent.volume);
        self.store.give_back(lease);
        Ok(extent)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let store = Arc::clone(&self.store);
        self.store.in_background(move || {
            if let Err(error) = lease.volume.cut(lease.end) {
                tracing::warn!(%error, volume = lease.volume.number, "cannot take back what was written");
            }
            store.give_back(lease);
        });
    }
}

impl Lease {
    fn failed(&self, store: &Store, what: &str, error: &std::io::Error) -> ExtentError {
        failed(&format!("{what} a volume"), &open_path(store.folder(), self.volume.number), error)
    }
}

/// Waits for work that blocks, which is done on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce() -> Result<T, ExtentError> + Send + 'static,
) -> Result<T, ExtentError> {
    result(store.start(work).await)
}

fn result<T>(ended: Result<Worked<T>, RecvError>) -> Result<T, ExtentError> {
    match ended {
        Ok((result, _)) => result,
        Err(_) => Err(ExtentError::Unavailable("not done: the program is ending, or has a bug".into())),
    }
}

fn given_up() -> ExtentError {
    ExtentError::Failed("an earlier write of this extent failed: begin a new one".into())
}
