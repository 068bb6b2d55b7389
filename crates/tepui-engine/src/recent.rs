//! Which keys were written lately, and when: what a commit is checked against.

use crate::Version;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// How many keys one generation remembers before it becomes the older one. A few megabytes in all.
const GENERATION: usize = 1 << 16;

/// The hashes of recently written keys with the version that wrote them.
///
/// Two keys with one hash make a needless conflict at worst. What was written before the older of
/// the two generations is forgotten, and for snapshots from before then every key counts as changed.
pub(crate) struct Recent {
    hasher: RandomState,
    new: VersionsByHash,
    old: VersionsByHash,
    /// Nothing at or before this version is remembered.
    forgotten: Version,
}

/// A set of what [`Recent::hash`] returns.
pub(crate) type Hashes = HashSet<u64, BuildHasherDefault<AlreadyHashed>>;

/// Versions that keys have, by the hashes of the keys.
pub(crate) type VersionsByHash = HashMap<u64, Version, BuildHasherDefault<AlreadyHashed>>;

impl Recent {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            hasher: RandomState::new(),
            new: VersionsByHash::default(),
            old: VersionsByHash::default(),
            forgotten: version,
        }
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The last change of a key, if it is remembered.
    pub(crate) fn last_change(&self, hash: u64) -> Option<Version> {
        self.new.get(&hash).or_else(|| self.old.get(&hash)).copied()
    }

    /// Whether changes made after `at` may have been forgotten.
    pub(crate) fn forgot_since(&self, at: Version) -> bool {
        at < self.forgotten
    }

    pub(crate) fn record(&mut self, hashes: impl IntoIterator<Item = u64>, version: Version) {
        self.new.extend(hashes.into_iter().map(|hash| (hash, version)));
        if self.new.len() >= GENERATION {
            let dropped = std::mem::replace(&mut self.old, std::mem::take(&mut self.new));
            self.forgotten = dropped.into_values().max().unwrap_or(self.forgotten).max(self.forgotten);
        }
    }
}

/// The keys are hashes already.
#[derive(Default)]
pub(crate) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_what_changed_and_admits_what_it_forgot() {
        let mut recent = Recent::new(Version(1));
        let key = recent.hash(b"key");
        recent.record([key], Version(2));
        assert_eq!(recent.last_change(key), Some(Version(2)));
        assert_eq!(recent.last_change(recent.hash(b"other")), None);
        assert!(!recent.forgot_since(Version(1)));

        for version in 3..=(2 * GENERATION as u64 + 3) {
            recent.record([recent.hash(&version.to_be_bytes())], Version(version));
        }
        assert!(recent.forgot_since(Version(2)), "a key may have changed after an old snapshot");
        assert!(!recent.forgot_since(Version(2 * GENERATION as u64)));
    }
}
