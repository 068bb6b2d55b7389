//! For engines that number their commits: versions of keys by hash, and what a pipeline has written. Services see none of it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A point in the order of an engine's commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A set of key hashes.
pub type KeyHashes = HashSet<u64, BuildHasherDefault<IdentityHasher>>;

/// Versions of keys, by the hashes of the keys.
pub type VersionsByHash = HashMap<u64, Version, BuildHasherDefault<IdentityHasher>>;

/// Hashes keys that are hashes already.
#[derive(Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// What the commits of one [`CommitPipeline`](crate::CommitPipeline) have written: they do not conflict with each other.
///
/// A clone is the same history. It remembers the hash of every key that was written.
#[derive(Debug, Clone, Default)]
pub struct PipelineHistory {
    state: Arc<Mutex<HistoryState>>,
}

#[derive(Debug, Default)]
struct HistoryState {
    /// The keys written so far, and the version of the last write of each.
    written: VersionsByHash,
    is_poisoned: bool,
}

impl PipelineHistory {
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

    fn state(&self) -> MutexGuard<'_, HistoryState> {
        self.state.lock()
    }
}
