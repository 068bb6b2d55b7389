//! Any engine and any extents behind one type each, with boxed futures: for programs that know only when they start which store
//! they use, and that are compiled for one type instead of one for each store.
//!
//! Every method is passed on, also those that the traits implement: a store may have a better way.

use crate::{
    Commit, CommitError, CommitPipeline, Engine, Extent, ExtentWriter, Extents, Key, KeyRange, Limits,
    ScanLimit, ScanPage, Snapshot, StorageError, StoreId, Transaction, Value,
};
use bytes::Bytes;
use std::any::Any;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// A future of any kind.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Any engine. A clone is the same one.
#[derive(Clone)]
pub struct DynEngine(Arc<dyn ErasedEngine>);

impl DynEngine {
    pub fn new<E: Engine>(engine: E) -> Self {
        Self::from_arc(Arc::new(engine))
    }

    /// An engine that somebody else uses, too.
    pub fn from_arc<E: Engine>(engine: Arc<E>) -> Self {
        Self(engine)
    }
}

/// A transaction of a [`DynEngine`].
pub struct DynTransaction(Box<dyn ErasedTransaction>);

/// A pipeline of a [`DynEngine`].
pub struct DynPipeline(Box<dyn ErasedPipeline>);

trait ErasedEngine: Send + Sync {
    fn begin(&self) -> BoxFuture<'_, Result<DynTransaction, StorageError>>;
    fn get_many<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Option<Value>>, StorageError>>;
    fn begin_pipeline(&self) -> BoxFuture<'_, Result<DynPipeline, StorageError>>;
    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<(), StorageError>>;
    fn health(&self) -> BoxFuture<'_, Result<(), StorageError>>;
    fn limits(&self) -> Limits;
}

trait ErasedSnapshot: Send + Sync {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Value>, StorageError>>;
    fn get_many<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Option<Value>>, StorageError>>;
    fn scan<'a>(
        &'a self,
        range: &'a KeyRange,
        limit: ScanLimit,
    ) -> BoxFuture<'a, Result<ScanPage, StorageError>>;
    fn first<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<Option<(Key, Value)>, StorageError>>;
    fn scan_some<'a>(
        &'a self,
        range: &'a KeyRange,
        limit: ScanLimit,
    ) -> BoxFuture<'a, Result<ScanPage, StorageError>>;
}

trait ErasedTransaction: ErasedSnapshot {
    fn commit(self: Box<Self>, commit: Commit) -> BoxFuture<'static, Result<(), CommitError>>;
}

trait ErasedPipeline: ErasedSnapshot {
    fn submit(&self, commit: Commit) -> BoxFuture<'static, Result<(), CommitError>>;
    fn is_ended(&self) -> bool;
}

impl<E: Engine> ErasedEngine for E {
    fn begin(&self) -> BoxFuture<'_, Result<DynTransaction, StorageError>> {
        Box::pin(async { Ok(DynTransaction(Box::new(Engine::begin(self).await?))) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Option<Value>>, StorageError>> {
        Box::pin(Engine::get_many(self, keys))
    }

    fn begin_pipeline(&self) -> BoxFuture<'_, Result<DynPipeline, StorageError>> {
        Box::pin(async { Ok(DynPipeline(Box::new(Engine::begin_pipeline(self).await?))) })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(Engine::reclaim(self, range))
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(Engine::health(self))
    }

    fn limits(&self) -> Limits {
        Engine::limits(self)
    }
}

impl<S: Snapshot> ErasedSnapshot for S {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Value>, StorageError>> {
        Box::pin(Snapshot::get(self, key))
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Option<Value>>, StorageError>> {
        Box::pin(Snapshot::get_many(self, keys))
    }

    fn scan<'a>(
        &'a self,
        range: &'a KeyRange,
        limit: ScanLimit,
    ) -> BoxFuture<'a, Result<ScanPage, StorageError>> {
        Box::pin(Snapshot::scan(self, range, limit))
    }

    fn first<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<Option<(Key, Value)>, StorageError>> {
        Box::pin(Snapshot::first(self, range))
    }

    fn scan_some<'a>(
        &'a self,
        range: &'a KeyRange,
        limit: ScanLimit,
    ) -> BoxFuture<'a, Result<ScanPage, StorageError>> {
        Box::pin(Snapshot::scan_some(self, range, limit))
    }
}

impl<T: Transaction> ErasedTransaction for T {
    fn commit(self: Box<Self>, commit: Commit) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(Transaction::commit(*self, commit))
    }
}

impl<P: CommitPipeline> ErasedPipeline for P {
    fn submit(&self, commit: Commit) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(CommitPipeline::submit(self, commit))
    }

    fn is_ended(&self) -> bool {
        CommitPipeline::is_ended(self)
    }
}

impl Engine for DynEngine {
    type Transaction = DynTransaction;
    type Pipeline = DynPipeline;

    async fn begin(&self) -> Result<DynTransaction, StorageError> {
        ErasedEngine::begin(&*self.0).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        ErasedEngine::get_many(&*self.0, keys).await
    }

    async fn begin_pipeline(&self) -> Result<DynPipeline, StorageError> {
        ErasedEngine::begin_pipeline(&*self.0).await
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        ErasedEngine::reclaim(&*self.0, range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        ErasedEngine::health(&*self.0).await
    }

    fn limits(&self) -> Limits {
        ErasedEngine::limits(&*self.0)
    }
}

/// Reads of what is in the box.
macro_rules! passes_reads_on {
    ($reader:ty) => {
        impl Snapshot for $reader {
            async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
                ErasedSnapshot::get(&*self.0, key).await
            }

            async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
                ErasedSnapshot::get_many(&*self.0, keys).await
            }

            async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
                ErasedSnapshot::scan(&*self.0, range, limit).await
            }

            async fn first(&self, range: &KeyRange) -> Result<Option<(Key, Value)>, StorageError> {
                ErasedSnapshot::first(&*self.0, range).await
            }

            async fn scan_some(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
                ErasedSnapshot::scan_some(&*self.0, range, limit).await
            }
        }
    };
}

passes_reads_on!(DynTransaction);
passes_reads_on!(DynPipeline);

impl Transaction for DynTransaction {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.0.commit(commit).await
    }
}

impl CommitPipeline for DynPipeline {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        ErasedPipeline::submit(&*self.0, commit)
    }

    fn is_ended(&self) -> bool {
        ErasedPipeline::is_ended(&*self.0)
    }
}

/// Any store of extents. A clone is the same one.
#[derive(Clone)]
pub struct DynExtents(Arc<dyn ErasedExtents>);

impl DynExtents {
    pub fn new<X: Extents>(extents: X) -> Self {
        Self::from_arc(Arc::new(extents))
    }

    /// A store that somebody else uses, too.
    pub fn from_arc<X: Extents>(extents: Arc<X>) -> Self {
        Self(extents)
    }
}

/// An extent that is being written to [`DynExtents`].
pub struct DynWriter(Box<dyn ErasedWriter>);

/// A read guard of [`DynExtents`].
pub struct DynReadGuard(Box<dyn Any + Send + Sync>);

trait ErasedExtents: Send + Sync {
    fn store(&self) -> StoreId;
    fn begin(&self) -> BoxFuture<'_, Result<DynWriter, StorageError>>;
    fn unpin(&self, extent: Extent);
    fn read_guard(&self) -> DynReadGuard;
    fn expired(&self, guard: &DynReadGuard) -> bool;
    fn wait_for_readers(&self) -> BoxFuture<'_, ()>;
    fn read(&self, extent: Extent, range: Range<u64>) -> BoxFuture<'_, Result<Vec<Bytes>, StorageError>>;
    fn free(&self, extents: Vec<Extent>) -> BoxFuture<'_, Result<(), StorageError>>;
    fn sweepable_volumes(&self) -> BoxFuture<'_, Result<Vec<u64>, StorageError>>;
    fn sweep(&self, volume: u64, kept: Vec<Extent>) -> BoxFuture<'_, Result<(), StorageError>>;
}

trait ErasedWriter: Send {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), StorageError>>;
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Extent, StorageError>>;
}

impl<X: Extents> ErasedExtents for X {
    fn store(&self) -> StoreId {
        Extents::store(self)
    }

    fn begin(&self) -> BoxFuture<'_, Result<DynWriter, StorageError>> {
        Box::pin(async { Ok(DynWriter(Box::new(Extents::begin(self).await?))) })
    }

    fn unpin(&self, extent: Extent) {
        Extents::unpin(self, extent);
    }

    fn read_guard(&self) -> DynReadGuard {
        DynReadGuard(Box::new(Extents::read_guard(self)))
    }

    fn expired(&self, guard: &DynReadGuard) -> bool {
        // A guard of another store protects nothing here.
        guard.0.downcast_ref::<X::ReadGuard>().is_none_or(|guard| Extents::expired(self, guard))
    }

    fn wait_for_readers(&self) -> BoxFuture<'_, ()> {
        Box::pin(Extents::wait_for_readers(self))
    }

    fn read(&self, extent: Extent, range: Range<u64>) -> BoxFuture<'_, Result<Vec<Bytes>, StorageError>> {
        Box::pin(Extents::read(self, extent, range))
    }

    fn free(&self, extents: Vec<Extent>) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(Extents::free(self, extents))
    }

    fn sweepable_volumes(&self) -> BoxFuture<'_, Result<Vec<u64>, StorageError>> {
        Box::pin(Extents::sweepable_volumes(self))
    }

    fn sweep(&self, volume: u64, kept: Vec<Extent>) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(Extents::sweep(self, volume, kept))
    }
}

impl<W: ExtentWriter> ErasedWriter for W {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(ExtentWriter::write(self, bytes))
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Extent, StorageError>> {
        Box::pin(ExtentWriter::finish(*self))
    }
}

impl Extents for DynExtents {
    type Writer = DynWriter;
    type ReadGuard = DynReadGuard;

    fn store(&self) -> StoreId {
        ErasedExtents::store(&*self.0)
    }

    async fn begin(&self) -> Result<DynWriter, StorageError> {
        ErasedExtents::begin(&*self.0).await
    }

    fn unpin(&self, extent: Extent) {
        ErasedExtents::unpin(&*self.0, extent);
    }

    fn read_guard(&self) -> DynReadGuard {
        ErasedExtents::read_guard(&*self.0)
    }

    fn expired(&self, guard: &DynReadGuard) -> bool {
        ErasedExtents::expired(&*self.0, guard)
    }

    async fn wait_for_readers(&self) {
        ErasedExtents::wait_for_readers(&*self.0).await;
    }

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        ErasedExtents::read(&*self.0, extent, range).await
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        ErasedExtents::free(&*self.0, extents).await
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        ErasedExtents::sweepable_volumes(&*self.0).await
    }

    async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        ErasedExtents::sweep(&*self.0, volume, kept).await
    }
}

impl ExtentWriter for DynWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        ErasedWriter::write(&mut *self.0, bytes).await
    }

    async fn finish(self) -> Result<Extent, StorageError> {
        self.0.finish().await
    }
}

#[cfg(test)]
mod tests;
