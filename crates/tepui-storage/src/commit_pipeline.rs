//! Commit pipelines: commits that depend on one another and need not wait for each other.

use crate::{Version, VersionsByHash};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// An ordered sequence of commits, each of which may depend on those before it. See [`crate::Engine::commit_next`].
///
/// A clone is the same pipeline. It remembers the hash of every key that it has written: start a new one now and then,
/// and use it with one engine only.
#[derive(Debug, Clone, Default)]
pub struct CommitPipeline {
    state: Arc<Mutex<PipelineState>>,
}

#[derive(Debug, Default)]
struct PipelineState {
    /// The keys written so far, and the version of the last write of each.
    written: VersionsByHash,
    is_poisoned: bool,
}

impl CommitPipeline {
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether this pipeline made the change that gave a key this version.
    pub fn wrote(&self, hash: u64, version: Version) -> bool {
        self.state().written.get(&hash) == Some(&version)
    }

    /// Records keys that a commit of this pipeline has written.
    pub fn record(&self, hashes: impl Iterator<Item = u64>, version: Version) {
        self.state().written.extend(hashes.map(|hash| (hash, version)));
    }

    /// No commit of this pipeline succeeds from here on.
    pub fn poison(&self) {
        self.state().is_poisoned = true;
    }

    /// Whether one of its commits has failed, so that no later one succeeds.
    pub fn is_poisoned(&self) -> bool {
        self.state().is_poisoned
    }

    fn state(&self) -> MutexGuard<'_, PipelineState> {
        self.state.lock()
    }
}
