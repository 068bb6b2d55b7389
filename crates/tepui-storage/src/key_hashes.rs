//! Collections of key hashes, which need not be hashed again.

use crate::Version;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

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
