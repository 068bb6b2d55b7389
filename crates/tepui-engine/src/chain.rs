//! Chains: commits that rest on one another and need not wait for each other.

use crate::{Key, Version};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A row of commits each of which rests on those before it. See [`crate::Engine::commit_in`].
///
/// A clone is the same chain. It remembers every key that it has written: begin a new one now and then.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    links: Arc<Mutex<Links>>,
}

#[derive(Debug, Default)]
struct Links {
    /// The keys written so far, and the version that each had after that.
    written: HashMap<Key, Version>,
    broken: bool,
}

impl Chain {
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the last change of `key`, which made it `version`, was one of this chain.
    pub(crate) fn wrote(&self, key: &[u8], version: Version) -> bool {
        self.links().written.get(key) == Some(&version)
    }

    pub(crate) fn record<'a>(&self, keys: impl Iterator<Item = &'a Key>, version: Version) {
        self.links().written.extend(keys.map(|key| (key.clone(), version)));
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
