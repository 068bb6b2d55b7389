//! Which keys were written lately, and when: what a commit is checked against.

use crate::Version;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// How many keys one generation remembers before the next one begins.
const GENERATION: usize = 1 << 16;

/// How many generations are kept: so many for snapshots that nobody has shown yet, and so many if commits with older
/// snapshots wait. A generation takes some two megabytes.
const GENERATIONS: usize = 3;
const MAX_GENERATIONS: usize = 32;

/// The hashes of recently written keys with the version that wrote them.
///
/// Two keys with one hash make a needless conflict at worst. What was written before the oldest generation
/// is forgotten, and for snapshots from before then every key counts as changed.
pub(crate) struct Recent {
    hasher: RandomState,
    /// The newest first.
    generations: VecDeque<Generation>,
    /// Nothing at or before this version is remembered.
    forgotten: Version,
}

#[derive(Default)]
struct Generation {
    versions: VersionsByHash,
    newest: Version,
}

/// A set of what [`Recent::hash`] returns.
pub(crate) type Hashes = HashSet<u64, BuildHasherDefault<AlreadyHashed>>;

/// Versions that keys have, by the hashes of the keys.
pub(crate) type VersionsByHash = HashMap<u64, Version, BuildHasherDefault<AlreadyHashed>>;

impl Recent {
    pub(crate) fn new(version: Version) -> Self {
        let generations = VecDeque::from([Generation::default()]);
        Self { hasher: RandomState::new(), generations, forgotten: version }
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The last change of a key, if it is remembered.
    pub(crate) fn last_change(&self, hash: u64) -> Option<Version> {
        self.generations.iter().find_map(|generation| generation.versions.get(&hash)).copied()
    }

    /// Whether changes made after `at` may have been forgotten.
    pub(crate) fn forgot_since(&self, at: Version) -> bool {
        at < self.forgotten
    }

    /// Remembers what was written. `oldest` is the oldest snapshot of the commits that wait.
    pub(crate) fn record(
        &mut self,
        hashes: impl IntoIterator<Item = u64>,
        version: Version,
        oldest: Option<Version>,
    ) {
        let Some(newest) = self.generations.front_mut() else { return };
        newest.versions.extend(hashes.into_iter().map(|hash| (hash, version)));
        newest.newest = version;
        if newest.versions.len() < GENERATION {
            return;
        }
        self.generations.push_front(Generation::default());
        while self.generations.len() > GENERATIONS {
            let last = self.generations.back().map_or(Version(0), |generation| generation.newest);
            let is_needed = oldest.is_some_and(|oldest| oldest < last);
            if is_needed && self.generations.len() <= MAX_GENERATIONS {
                break;
            }
            self.generations.pop_back();
            self.forgotten = self.forgotten.max(last);
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
        recent.record([key], Version(2), None);
        assert_eq!(recent.last_change(key), Some(Version(2)));
        assert_eq!(recent.last_change(recent.hash(b"other")), None);
        assert!(!recent.forgot_since(Version(1)));

        let end = (GENERATIONS * GENERATION) as u64 + 3;
        for version in 3..=end {
            recent.record([recent.hash(&version.to_be_bytes())], Version(version), Some(Version(1)));
        }
        assert!(!recent.forgot_since(Version(1)), "a commit waits whose snapshot is as old");
        for version in end..2 * end {
            recent.record([recent.hash(&version.to_be_bytes())], Version(version), None);
        }
        assert!(recent.forgot_since(Version(2)), "a key may have changed after an old snapshot");
        assert!(!recent.forgot_since(Version(2 * end - GENERATION as u64)));
    }
}
