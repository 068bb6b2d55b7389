//! The extents.

use crate::{AT_RANDOM, Calm, Faults, Rates};
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::{Deref, Range};
use std::sync::Arc;
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StoreId};

/// A store of extents around another one, every call of which may take long or be refused. A clone is the same store.
#[derive(Clone)]
pub struct FaultyExtents<X> {
    inner: X,
    faults: Arc<Faults>,
    orphans: Orphans,
}

/// Extents that were finished, and that nobody knows of.
type Orphans = Arc<Mutex<Vec<Extent>>>;

impl<X: Extents> FaultyExtents<X> {
    pub fn new(inner: X, faults: Faults) -> Self {
        Self { inner, faults: Arc::new(faults), orphans: Orphans::default() }
    }

    /// While this is held, nothing goes wrong.
    pub fn calm(&self) -> Calm {
        self.faults.calm()
    }

    /// The extents that were finished, and that nobody was told of.
    pub fn orphans(&self) -> Vec<Extent> {
        self.orphans.lock().clone()
    }

    pub fn without_faults(inner: X) -> Self {
        Self::new(inner, Faults::new(Rates::NONE, 0))
    }
}

impl<X> Deref for FaultyExtents<X> {
    type Target = X;

    fn deref(&self) -> &X {
        &self.inner
    }
}

impl<X: Extents> Extents for FaultyExtents<X> {
    type Writer = FaultyWriter<X::Writer>;
    type ReadGuard = X::ReadGuard;

    fn store(&self) -> StoreId {
        self.inner.store()
    }

    async fn begin(&self) -> Result<Self::Writer, StorageError> {
        self.faults.enter().await?;
        let (inner, faults) = (self.inner.begin().await?, Arc::clone(&self.faults));
        Ok(FaultyWriter { inner, faults, orphans: Arc::clone(&self.orphans), is_broken: false })
    }

    fn unpin(&self, extent: Extent) {
        self.inner.unpin(extent);
    }

    fn read_guard(&self) -> X::ReadGuard {
        self.inner.read_guard()
    }

    fn expired(&self, guard: &X::ReadGuard) -> bool {
        self.inner.expired(guard)
    }

    async fn wait_for_readers(&self) {
        // Those who come later are not waited for.
        self.inner.wait_for_readers().await;
        self.faults.pause().await;
    }

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        self.faults.enter().await?;
        self.inner.read(extent, range).await
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        self.faults.enter().await?;
        self.inner.free(extents).await
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        self.faults.enter().await?;
        self.inner.sweepable_volumes().await
    }

    async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        self.faults.enter().await?;
        self.inner.sweep(volume, kept).await
    }
}

/// An extent that is being written to such a store.
pub struct FaultyWriter<W> {
    inner: W,
    faults: Arc<Faults>,
    orphans: Orphans,
    /// Whether a write has failed, or its future was dropped.
    is_broken: bool,
}

impl<W: ExtentWriter> ExtentWriter for FaultyWriter<W> {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let was_broken = std::mem::replace(&mut self.is_broken, true);
        self.faults.enter_step().await?;
        self.inner.write(bytes).await?;
        self.is_broken = was_broken;
        Ok(())
    }

    async fn finish(self) -> Result<Extent, StorageError> {
        if self.is_broken {
            return Err(StorageError::failed("an earlier write of this extent failed"));
        }
        let is_refused = self.faults.enter().await;
        if is_refused.is_err() && self.faults.below(2) == 0 {
            return Err(StorageError::unavailable(AT_RANDOM));
        }
        let extent = self.inner.finish().await?;
        if is_refused.is_err() {
            self.orphans.lock().push(extent);
        }
        is_refused.map(|()| extent)
    }
}
