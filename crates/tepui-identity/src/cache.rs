//! Tokens that were verified before. Clients send the same one for an hour; its signature is checked once.

use crate::audience::AllowedBy;
use crate::claims::Lifetime;
use crate::keys::Key;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tepui_model::role::Principal;

/// The SHA-256 of a token: the cache holds no tokens.
type Hash = [u8; 32];

/// What is known of a token.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) owner: Arc<Principal>,
    pub(crate) allowed: AllowedBy,
    pub(crate) lifetime: Lifetime,
    /// The key that it was verified with: gone as soon as its issuer has it no more.
    pub(crate) key: Weak<Key>,
}

/// So that requests seldom wait for each other.
const SHARDS: usize = 16;

/// A cache of a bounded size. Nothing is ever searched: each shard has two halves, and the older one is forgotten as a whole
/// when the younger one is full. What is asked for moves to the younger half.
pub(crate) struct Cache {
    shards: [Mutex<Halves>; SHARDS],
    /// Of one half of a shard.
    max_entries: usize,
}

#[derive(Default)]
struct Halves {
    younger: HashMap<Hash, Arc<Verified>>,
    older: HashMap<Hash, Arc<Verified>>,
}

impl Cache {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self { shards: Default::default(), max_entries: (max_entries / SHARDS / 2).max(1) }
    }

    pub(crate) fn hash(token: &str) -> Hash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        hash
    }

    /// `None` also if its key is not known any more.
    pub(crate) fn get(&self, hash: &Hash) -> Option<Arc<Verified>> {
        let mut shard = self.shard(hash).lock();
        let found = match shard.younger.get(hash) {
            Some(found) => Arc::clone(found),
            None => {
                let found = shard.older.remove(hash)?;
                self.insert(&mut shard, *hash, Arc::clone(&found));
                found
            }
        };
        if found.key.strong_count() == 0 {
            shard.younger.remove(hash);
            return None;
        }
        Some(found)
    }

    pub(crate) fn put(&self, hash: Hash, verified: Arc<Verified>) {
        self.insert(&mut self.shard(&hash).lock(), hash, verified);
    }

    pub(crate) fn remove(&self, hash: &Hash) {
        let mut shard = self.shard(hash).lock();
        shard.younger.remove(hash);
        shard.older.remove(hash);
    }

    fn insert(&self, shard: &mut Halves, hash: Hash, verified: Arc<Verified>) {
        if shard.younger.len() >= self.max_entries {
            shard.older = std::mem::take(&mut shard.younger);
        }
        shard.younger.insert(hash, verified);
    }

    fn shard(&self, hash: &Hash) -> &Mutex<Halves> {
        &self.shards[usize::from(hash[0]) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audience::Audiences;
    use crate::keys::{Algorithm, Material};
    use serde_json::json;

    fn verified(key: &Arc<Key>) -> Arc<Verified> {
        let claims = json!({"exp": 1});
        let owner = Principal {
            issuer: String::new(),
            object_id: String::new(),
            tenant_id: String::new(),
            names: Vec::new(),
        };
        Arc::new(Verified {
            owner: Arc::new(owner),
            allowed: Audiences::azure().allowed_by(None),
            lifetime: Lifetime::of(claims.as_object().unwrap(), 0).unwrap(),
            key: Arc::downgrade(key),
        })
    }

    fn key() -> Arc<Key> {
        Arc::new(Key { id: None, algorithm: Algorithm::Es256, material: Material::Point(Vec::new()) })
    }

    #[test]
    fn it_stays_small_and_keeps_what_is_asked_for() {
        let (cache, key) = (Cache::new(1000), key());
        let often = Cache::hash("often");
        cache.put(often, verified(&key));
        for number in 0..10_000 {
            cache.put(Cache::hash(&number.to_string()), verified(&key));
            assert!(cache.get(&often).is_some(), "{number}");
        }
        let held_by = |shard: &Mutex<Halves>| {
            let halves = shard.lock();
            halves.younger.len() + halves.older.len()
        };
        let held: usize = cache.shards.iter().map(held_by).sum();
        assert!((400..=1000).contains(&held), "{held}");
    }

    #[test]
    fn tokens_end_with_their_key() {
        let (cache, key) = (Cache::new(1000), key());
        let hash = Cache::hash("a");
        cache.put(hash, verified(&key));
        assert!(cache.get(&hash).is_some());
        drop(key);
        assert!(cache.get(&hash).is_none());
    }

    #[test]
    fn removed_is_gone() {
        let (cache, key) = (Cache::new(1000), key());
        let hash = Cache::hash("a");
        cache.put(hash, verified(&key));
        cache.remove(&hash);
        assert!(cache.get(&hash).is_none());
    }
}
