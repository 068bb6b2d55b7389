//! The state that readers see: published by the committer, shared by every snapshot.
//!
//! Views are made only between two batches, by the one thread that writes: at any other time the
//! newest number may belong to a batch that is still on its way to the journal.

use crate::tree::{Sources, Tree};
use crate::{EngineError, Version};
use std::sync::{Arc, PoisonError, RwLock};

/// One state of the store: what was written up to its number.
pub(crate) struct View {
    pub(crate) tree: Arc<Tree>,
    pub(crate) sources: Arc<Sources>,
    /// Of the last batch that it shows.
    pub(crate) number: u64,
    pub(crate) version: Version,
    pub(crate) catalogue_version: Version,
}

/// Where the committer puts the newest [`View`] and readers find it.
pub(crate) struct Published {
    current: RwLock<Result<Arc<View>, EngineError>>,
}

impl Published {
    pub(crate) fn new(view: View) -> Self {
        Self { current: RwLock::new(Ok(Arc::new(view))) }
    }

    /// The newest view.
    pub(crate) fn get(&self) -> Result<Arc<View>, EngineError> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, view: View) {
        self.replace(Ok(Arc::new(view)));
    }

    /// There is nothing to read any more.
    pub(crate) fn close(&self, error: EngineError) {
        self.replace(Err(error));
    }

    fn replace(&self, next: Result<Arc<View>, EngineError>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let previous = std::mem::replace(&mut *current, next);
        drop(current);
        // Takes its time if it was the last to hold a memtable.
        drop(previous);
    }
}
