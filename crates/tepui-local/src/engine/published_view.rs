//! The state that readers see: published by the committer, shared by every transaction.
//!
//! Views are taken only between two batches, by the one thread that writes: at any other time the newest sequence number
//! may belong to a batch that is not durable yet.

use crate::blocking::ReadMode;
use crate::engine::resident_rows::ResidentRows;
use crate::lsm::{LsmTree, ReadError, ReadView, SeqNo};
use parking_lot::RwLock;
use std::sync::Arc;
use tepui_storage::versions::Version;
use tepui_storage::{Limits, StorageError, Value};

/// What a transaction reads: everything up to its sequence number.
pub(crate) struct SnapshotView {
    pub(crate) tree: Arc<LsmTree>,
    pub(crate) read_view: Arc<ReadView>,
    /// The last batch that it shows.
    pub(crate) seq_no: SeqNo,
    pub(crate) version: Version,
    pub(crate) resident: Arc<ResidentRows>,
}

impl SnapshotView {
    pub(crate) fn get(&self, key: &[u8], mode: ReadMode) -> Result<Option<Value>, ReadError> {
        if !Limits::LOCAL.is_valid_key(key) {
            return Ok(None);
        }
        match self.resident.get(key) {
            Some(row) => Ok(row),
            None => self.read_view.get(key, self.seq_no, mode),
        }
    }
}

/// Where the committer puts the newest [`SnapshotView`] and readers find it.
pub(crate) struct PublishedView {
    current: RwLock<Result<Arc<SnapshotView>, StorageError>>,
}

impl PublishedView {
    pub(crate) fn new(view: SnapshotView) -> Self {
        Self { current: RwLock::new(Ok(Arc::new(view))) }
    }

    /// The newest view.
    pub(crate) fn get(&self) -> Result<Arc<SnapshotView>, StorageError> {
        self.current.read().clone()
    }

    pub(crate) fn set(&self, view: SnapshotView) {
        self.replace(Ok(Arc::new(view)));
    }

    /// Reads fail from here on.
    pub(crate) fn close(&self, error: StorageError) {
        self.replace(Err(error));
    }

    fn replace(&self, next: Result<Arc<SnapshotView>, StorageError>) {
        let mut current = self.current.write();
        let previous = std::mem::replace(&mut *current, next);
        drop(current);
        // Without the lock: it may be the last to hold a memtable.
        drop(previous);
    }
}
