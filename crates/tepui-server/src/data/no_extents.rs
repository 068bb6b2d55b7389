//! No store for the bytes of blobs: for servers on storage over a network that do not serve blobs.

use bytes::Bytes;
use std::ops::Range;
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StoreId};

/// Refuses everything.
pub struct NoExtents;

fn refused() -> StorageError {
    StorageError::failed("this server has no store for the bytes of blobs (--blobs)")
}

impl Extents for NoExtents {
    type Writer = Self;
    type ReadGuard = ();

    fn store(&self) -> StoreId {
        // No store has this number.
        StoreId(u64::MAX)
    }

    async fn begin(&self) -> Result<Self, StorageError> {
        Err(refused())
    }

    fn unpin(&self, _: Extent) {}

    fn read_guard(&self) {}

    fn expired(&self, (): &()) -> bool {
        false
    }

    async fn wait_for_readers(&self) {}

    async fn read(&self, _: Extent, _: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        Err(refused())
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        if extents.is_empty() { Ok(()) } else { Err(refused()) }
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        Ok(Vec::new())
    }

    async fn sweep(&self, volume: u64, _: Vec<Extent>) -> Result<(), StorageError> {
        Err(StorageError::not_sweepable(volume))
    }
}

impl ExtentWriter for NoExtents {
    async fn write(&mut self, _: Bytes) -> Result<(), StorageError> {
        Err(refused())
    }

    async fn finish(self) -> Result<Extent, StorageError> {
        Err(refused())
    }
}
