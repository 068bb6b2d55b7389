//! Extents in memory that remember what was freed. Where two nodes share them, a sweep ends their volume, as if the node that
//! wrote it were dead.

use crate::store::Course;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StoreId};

#[derive(Default, Clone)]
pub(crate) struct PlainExtents {
    /// By their offsets, with their volumes.
    stored: Arc<Mutex<BTreeMap<u64, (u64, Bytes)>>>,
    written: Arc<Mutex<u64>>,
    swept: Arc<AtomicU64>,
}

pub(crate) struct PlainWriter {
    extents: PlainExtents,
    bytes: Vec<u8>,
}

impl PlainExtents {
    /// How many extents are there.
    pub(crate) fn count(&self) -> usize {
        self.stored.lock().unwrap().len()
    }

    fn number() -> StoreId {
        if Course::current() == Course::TwoNodes { StoreId(7) } else { StoreId::LOCAL }
    }

    /// The one that is written to.
    fn volume(&self) -> u64 {
        1 + self.swept.load(Ordering::SeqCst)
    }
}

impl Extents for PlainExtents {
    type Writer = PlainWriter;
    type ReadGuard = ();

    async fn begin(&self) -> Result<PlainWriter, StorageError> {
        Ok(PlainWriter { extents: self.clone(), bytes: Vec::new() })
    }

    fn store(&self) -> StoreId {
        Self::number()
    }

    fn unpin(&self, _: Extent) {}

    fn read_guard(&self) {}

    fn expired(&self, (): &()) -> bool {
        false
    }

    async fn wait_for_readers(&self) {}

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        let stored = self.stored.lock().unwrap();
        let (_, bytes) = stored.get(&extent.offset).ok_or(StorageError::corrupt("freed"))?;
        Ok(vec![bytes.slice(range.start as usize..range.end as usize)])
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        let mut stored = self.stored.lock().unwrap();
        extents.iter().for_each(|extent| drop(stored.remove(&extent.offset)));
        Ok(())
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        Ok(vec![self.volume()])
    }

    async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        let is_kept = |offset: u64| kept.iter().any(|extent| extent.offset == offset);
        self.stored.lock().unwrap().retain(|offset, (of, _)| *of != volume || is_kept(*offset));
        if self.store() != StoreId::LOCAL && volume == self.volume() {
            self.swept.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl ExtentWriter for PlainWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self) -> Result<Extent, StorageError> {
        let bytes = self.bytes.len() as u64;
        let mut written = self.extents.written.lock().unwrap();
        let offset = *written;
        *written += bytes.max(1);
        let volume = self.extents.volume();
        self.extents.stored.lock().unwrap().insert(offset, (volume, self.bytes.into()));
        Ok(Extent { store: PlainExtents::number(), volume, offset, bytes })
    }
}
