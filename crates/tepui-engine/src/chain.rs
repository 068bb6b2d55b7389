//! Chains: commits that rest on one another and need not wait for each other.

use crate::Version;
use crate::recent::VersionsByHash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A row of commits each of which rests on those before it. See [`crate::Engine::commit_in`].
///
/// A clone is the same chain. It remembers the hash of every key that it has written: begin a new one now and
/// then, and use it with one engine.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    links: Arc<Mutex<Links>>,
}

#[derive(Debug, Default)]
struct Links {
    /// The keys written so far, and the version that each had after that.
    written: VersionsByHash,
    broken: bool,
}

impl Chain {
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the last change of a key, which made it `version`, was one of this chain.
    pub(crate) fn wrote(&self, hash: u64, version: Version) -> bool {
        self.links().written.get(&hash) == Some(&version)
    }

    pub(crate) fn record(&self, hashes: impl Iterator<Item = u64>, version: Version) {
        self.links().written.extend(hashes.map(|hash| (hash, version)));
    }

    /// No commit of this chain succeeds from here on.
    pub(crate) fn break_off(&self) {
        self.links().broken = true;
    }

    /// Whether one of its commits has failed, so that no later one succeeds.
    pub fn is_broken(&self) -> bool {
        self.links().broken
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
