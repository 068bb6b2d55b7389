//! Extents in memory, for tests and for data that may be lost.

use crate::{Extent, ExtentWriter, Extents, ReadGuard, Readers, StorageError, StoreId};
use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes are kept in pieces of this size, the last one of an extent shorter.
const PIECE_BYTES: usize = 256 << 10;

/// Keeps everything in memory. A clone is the same store.
///
/// ```
/// # use tepui_storage::{ExtentWriter, Extents, MemoryExtents};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let extents = MemoryExtents::new();
/// let mut writer = extents.begin().await?;
/// writer.write("some ".into()).await?;
/// writer.write("bytes".into()).await?;
/// let extent = writer.finish().await?;
/// assert_eq!(extents.read(extent, 3..7).await?.concat(), b"e by");
/// extents.free(vec![extent]).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryExtents {
    store: Arc<Mutex<ExtentMap>>,
    readers: Arc<Readers>,
}

#[derive(Default)]
struct ExtentMap {
    /// By their offset in the only volume.
    extents: HashMap<u64, Vec<Bytes>>,
    /// Of all of them.
    bytes: u64,
    next: u64,
}

impl MemoryExtents {
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> u64 {
        self.store.lock().bytes
    }
}

impl Extents for MemoryExtents {
    type Writer = MemoryWriter;
    type ReadGuard = ReadGuard;

    async fn begin(&self) -> Result<MemoryWriter, StorageError> {
        Ok(MemoryWriter { store: Arc::clone(&self.store), pieces: Vec::new(), last: BytesMut::new() })
    }

    fn store(&self) -> StoreId {
        StoreId::LOCAL
    }

    fn unpin(&self, _: Extent) {}

    fn read_guard(&self) -> ReadGuard {
        self.readers.enter()
    }

    fn expired(&self, guard: &ReadGuard) -> bool {
        self.readers.expired(guard)
    }

    async fn wait_for_readers(&self) {
        self.readers.wait().await;
    }

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        extent.check_store(self.store())?;
        extent.check_range(&range)?;
        let store = self.store.lock();
        let pieces = store.extents.get(&extent.offset).filter(|pieces| length(pieces) == extent.bytes);
        let pieces = pieces.ok_or_else(|| StorageError::corrupt(format!("no such extent: {extent:?}")))?;
        let mut found = Vec::new();
        for (piece, begins) in pieces.iter().zip((0..).step_by(PIECE_BYTES)) {
            let from = range.start.saturating_sub(begins).min(piece.len() as u64) as usize;
            let to = range.end.saturating_sub(begins).min(piece.len() as u64) as usize;
            if from < to {
                found.push(piece.slice(from..to));
            }
        }
        Ok(found)
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        extents.iter().try_for_each(|extent| extent.check_store(self.store()))?;
        let mut store = self.store.lock();
        for extent in extents {
            if let Some(pieces) = store.extents.remove(&extent.offset) {
                store.bytes -= length(&pieces);
            }
        }
        Ok(())
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        Ok(Vec::new())
    }

    async fn sweep(&self, volume: u64, _: Vec<Extent>) -> Result<(), StorageError> {
        Err(StorageError::not_sweepable(volume))
    }
}

/// An extent that is being written to a [`MemoryExtents`].
pub struct MemoryWriter {
    store: Arc<Mutex<ExtentMap>>,
    pieces: Vec<Bytes>,
    last: BytesMut,
}

impl ExtentWriter for MemoryWriter {
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            // Copied: they may be a slice of a larger buffer.
            let count = bytes.len().min(PIECE_BYTES - self.last.len());
            self.last.extend_from_slice(&bytes[..count]);
            bytes.advance(count);
            if self.last.len() == PIECE_BYTES {
                self.pieces.push(std::mem::take(&mut self.last).freeze());
            }
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Extent, StorageError> {
        if !self.last.is_empty() {
            self.pieces.push(Bytes::copy_from_slice(&self.last));
        }
        let mut store = self.store.lock();
        let (offset, bytes) = (store.next, length(&self.pieces));
        let extent = Extent { store: StoreId::LOCAL, volume: 1, offset, bytes };
        store.next += extent.bytes.max(1);
        store.bytes += extent.bytes;
        store.extents.insert(extent.offset, self.pieces);
        Ok(extent)
    }
}

fn length(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}
