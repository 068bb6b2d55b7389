//! The store.

use crate::backend::open_store;
use crate::identity::Identity;
use crate::names::Names;
use crate::objects::Objects;
use crate::options::ObjectOptions;
use crate::pieces::{PieceRange, stored_bytes};
use crate::sweep::Sweeper;
use crate::volumes::Volumes;
use crate::writer::{ObjectWriter, WriterContext};
use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::{Extent, Extents, ReadGuard, Readers, StorageError, StorageErrorKind, StoreId};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// How long `close` waits for writers.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Extents as objects in a bucket that any number of nodes share. A clone is the same store.
#[derive(Clone)]
pub struct ObjectExtents(Arc<Inner>);

struct Inner {
    objects: Objects,
    names: Names,
    store: StoreId,
    volumes: Arc<Volumes>,
    writing: Arc<WriterContext>,
    sweeper: Sweeper,
    readers: Arc<Readers>,
    reader_timeout: Duration,
    wait_for_other_nodes: Duration,
    runtime: Handle,
}

/// Delays frees as long as it is held and has not expired.
pub struct ObjectReadGuard {
    guard: ReadGuard,
    taken: Instant,
}

impl ObjectExtents {
    /// Opens the store that the URL names, and makes it one if there is nothing yet. Credentials are those of the environment.
    pub async fn open(options: ObjectOptions) -> Result<Self, StorageError> {
        let (store, prefix) = open_store(&options)?;
        Self::open_on(store, prefix, options).await
    }

    /// Opens a store below a prefix of any store of objects. The URL is not read.
    pub async fn open_on(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        options: ObjectOptions,
    ) -> Result<Self, StorageError> {
        let (objects, names) = (Objects::new(store, options.timeout), Names::below(prefix));
        let identity = Identity::open(&objects, &names, options.installation).await?;
        let volumes = Arc::new(Volumes::new(objects.clone(), names.clone(), &options));
        let runtime = Handle::current();
        let sweeper = Sweeper::new(objects.clone(), names.clone(), Arc::clone(&volumes), &options);
        let writing = WriterContext {
            objects: objects.clone(),
            names: names.clone(),
            store: identity.store,
            part_bytes: options.part_bytes,
        };
        runtime.spawn(volumes.maintain_always());
        Ok(Self(Arc::new(Inner {
            objects,
            names,
            store: identity.store,
            volumes,
            writing: Arc::new(writing),
            sweeper,
            readers: Arc::new(Readers::new(options.reader_timeout)),
            reader_timeout: options.reader_timeout,
            wait_for_other_nodes: options.wait_for_other_nodes,
            runtime,
        })))
    }

    /// Ends in order: no more extents can be begun, and volumes that are done with are sealed, so that nobody has to sweep them.
    pub async fn close(&self) {
        self.0.volumes.close(CLOSE_PATIENCE).await;
    }

    /// What is wrong with an extent that could not be read, if it is the object.
    async fn damage(&self, extent: Extent, error: StorageError) -> StorageError {
        let expected = stored_bytes(extent.bytes);
        match self.0.objects.size(&self.0.names.extent(extent)).await {
            Ok(Some(found)) if found != expected => wrong_size(extent, found),
            Ok(None) => missing(extent),
            Ok(Some(_)) | Err(_) => error,
        }
    }
}

fn missing(extent: Extent) -> StorageError {
    StorageError::corrupt(format!("there is no object: {extent:?}"))
}

fn wrong_size(extent: Extent, found: u64) -> StorageError {
    StorageError::corrupt(format!("the object has {found} bytes: {extent:?}"))
}

impl Extents for ObjectExtents {
    type Writer = ObjectWriter;
    type ReadGuard = ObjectReadGuard;

    fn store(&self) -> StoreId {
        self.0.store
    }

    async fn begin(&self) -> Result<ObjectWriter, StorageError> {
        let pin = self.0.volumes.begin().await?;
        Ok(ObjectWriter::new(Arc::clone(&self.0.writing), pin, self.0.runtime.clone()))
    }

    fn unpin(&self, extent: Extent) {
        if extent.store == self.0.store {
            self.0.volumes.unpin(extent.volume);
        }
    }

    fn read_guard(&self) -> ObjectReadGuard {
        ObjectReadGuard { guard: self.0.readers.enter(), taken: Instant::now() }
    }

    fn expired(&self, guard: &ObjectReadGuard) -> bool {
        // Other nodes do not know it, and wait no longer than that.
        self.0.readers.expired(&guard.guard) || guard.taken.elapsed() >= self.0.reader_timeout
    }

    async fn wait_for_readers(&self) {
        let others = tokio::time::sleep(self.0.wait_for_other_nodes);
        tokio::join!(self.0.readers.wait(), others);
    }

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, StorageError> {
        extent.check_store(self.0.store)?;
        extent.check_range(&range)?;
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let pieces = PieceRange::new(extent, range);
        let (stored, size) =
            match self.0.objects.get_range(&self.0.names.extent(extent), pieces.stored()).await {
                Ok(found) => found,
                Err(error) if error.is_not_found => return Err(missing(extent)),
                // Some stores refuse a range beyond the end.
                Err(error) if error.error.kind() == StorageErrorKind::Failed => {
                    return Err(self.damage(extent, error.error).await);
                }
                Err(error) => return Err(error.into()),
            };
        if size != stored_bytes(extent.bytes) {
            return Err(wrong_size(extent, size));
        }
        let damaged =
            |index| StorageError::corrupt(format!("piece {index} is not what was written: {extent:?}"));
        pieces.content(stored).map_err(damaged)
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        extents.iter().try_for_each(|extent| extent.check_store(self.0.store))?;
        let names = extents.into_iter().map(|extent| self.0.names.extent(extent)).collect();
        Ok(self.0.objects.delete(names).await?)
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        self.0.sweeper.sweepable().await
    }

    async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        kept.iter().try_for_each(|extent| extent.check_store(self.0.store))?;
        self.0.sweeper.sweep(volume, kept).await
    }
}
