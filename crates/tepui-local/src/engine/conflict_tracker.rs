//! The write history that commits are validated against (optimistic concurrency control).

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use tepui_storage::versions::{Version, VersionsByHash};

/// How many keys a generation holds.
const GENERATION: usize = 1 << 16;

/// How many generations are kept always, and at most if commits with older snapshots are queued. A generation takes about
/// two megabytes.
const GENERATIONS: usize = 3;
const MAX_GENERATIONS: usize = 32;

/// The hashes of recently written keys with the version that wrote them.
///
/// Two keys with one hash cause a needless conflict at worst. Writes before the oldest generation are forgotten: every
/// commit with an older snapshot conflicts.
pub(crate) struct ConflictTracker {
    hasher: RandomState,
    /// The newest first.
    generations: VecDeque<Generation>,
    /// Writes up to this version are forgotten.
    forgotten: Version,
}

#[derive(Default)]
struct Generation {
    versions: VersionsByHash,
    newest: Version,
}

impl ConflictTracker {
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

    /// Records a write. `oldest` is the oldest snapshot of the queued commits.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_what_changed_and_knows_what_it_forgot() {
        let mut tracker = ConflictTracker::new(Version(1));
        let key = tracker.hash(b"key");
        tracker.record([key], Version(2), None);
        assert_eq!(tracker.last_change(key), Some(Version(2)));
        assert_eq!(tracker.last_change(tracker.hash(b"other")), None);
        assert!(!tracker.forgot_since(Version(1)));

        let end = (GENERATIONS * GENERATION) as u64 + 3;
        for version in 3..=end {
            tracker.record([tracker.hash(&version.to_be_bytes())], Version(version), Some(Version(1)));
        }
        assert!(!tracker.forgot_since(Version(1)), "a commit is queued whose snapshot is as old");
        for version in end..2 * end {
            tracker.record([tracker.hash(&version.to_be_bytes())], Version(version), None);
        }
        assert!(tracker.forgot_since(Version(2)), "a key may have changed after an old snapshot");
        assert!(!tracker.forgot_since(Version(2 * end - GENERATION as u64)));
    }
}
