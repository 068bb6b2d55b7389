//! Extents in memory that remember what was freed.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StoreId};

#[derive(Default, Clone)]
pub(crate) struct PlainExtents {
    stored: Arc<Mutex<BTreeMap<u64, Bytes>>>,
    written: Arc<Mutex<u64>>,
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
}

impl Extents for PlainExtents {
    type Writer = PlainWriter;
    type ReadGuard = ();

    async fn begin(&self) -> Result<PlainWriter, StorageError> {
        Ok(PlainWriter { extents: self.clone(), bytes: Vec::new() })
    }

    fn store(&self) -> StoreId {
        StoreId::LOCAL
    }

    fn unpin(&self, _: Extent) {}

    fn read_guard(&self) {}

    fn expired(&self, (): &()) -> bool {
        false
    }

    async fn wait_for_readers(&self) {}

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        let stored = self.stored.lock().unwrap();
        let bytes = stored.get(&extent.offset).ok_or(StorageError::corrupt("freed"))?;
        Ok(vec![bytes.slice(range.start as usize..range.end as usize)])
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        let mut stored = self.stored.lock().unwrap();
        extents.iter().for_each(|extent| drop(stored.remove(&extent.offset)));
        Ok(())
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        Ok(vec![1])
    }

    async fn sweep(&self, _volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        self.stored.lock().unwrap().retain(|offset, _| kept.iter().any(|extent| extent.offset == *offset));
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
        self.extents.stored.lock().unwrap().insert(offset, self.bytes.into());
        Ok(Extent { store: StoreId::LOCAL, volume: 1, offset, bytes })
    }
}
