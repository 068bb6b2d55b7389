//! Tokens that were verified before. Clients send the same one for an hour; its signature is checked once.

use crate::audience::AllowedBy;
use crate::claims::Lifetime;
use crate::keys::Key;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tepui_model::role::{Principal, PrincipalName};

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

impl Verified {
    /// About what it takes in memory. A token may have a thousand groups.
    fn bytes(&self) -> usize {
        /// What the entry, its owner and their ids take, and a name beside its text.
        const ENTRY: usize = 512;
        const NAME: usize = size_of::<PrincipalName>() + 16;
        let text = |name: &PrincipalName| {
            let (PrincipalName::Object(text)
            | PrincipalName::Subject(text)
            | PrincipalName::Client(text)
            | PrincipalName::Group(text)) = name;
            text.len()
        };
        let names: usize = self.owner.names.iter().map(|name| NAME + text(name)).sum();
        ENTRY + names + self.allowed.bytes()
    }
}

/// So that requests seldom wait for each other.
const SHARDS: usize = 16;

/// A cache of a bounded size, in entries and in bytes. Nothing is ever searched: each shard has two halves, and the older one is forgotten as a
/// whole when the younger one is full. What is asked for moves to the younger half.
pub(crate) struct TokenCache {
    shards: [Mutex<Halves>; SHARDS],
    /// Of one half of a shard.
    max_entries: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct Halves {
    younger: Half,
    older: Half,
}

#[derive(Default)]
struct Half {
    entries: HashMap<Hash, Arc<Verified>>,
    bytes: usize,
}

impl Half {
    fn insert(&mut self, hash: Hash, verified: Arc<Verified>) {
        self.bytes += verified.bytes();
        if let Some(before) = self.entries.insert(hash, verified) {
            self.bytes -= before.bytes();
        }
    }

    fn remove(&mut self, hash: &Hash) -> Option<Arc<Verified>> {
        let removed = self.entries.remove(hash)?;
        self.bytes -= removed.bytes();
        Some(removed)
    }
}

impl TokenCache {
    pub(crate) fn new(max_entries: usize, max_bytes: usize) -> Self {
        let of_half = |all: usize| (all / SHARDS / 2).max(1);
        Self { shards: Default::default(), max_entries: of_half(max_entries), max_bytes: of_half(max_bytes) }
    }

    pub(crate) fn hash(token: &str) -> Hash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        hash
    }

    /// `None` also if its key is not known any more.
    pub(crate) fn get(&self, hash: &Hash) -> Option<Arc<Verified>> {
        let mut shard = self.shard(hash).lock();
        let found = match shard.younger.entries.get(hash) {
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
        let Half { entries, bytes } = &shard.younger;
        if entries.len() >= self.max_entries || bytes + verified.bytes() > self.max_bytes {
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
        with_groups(key, 0)
    }

    fn with_groups(key: &Arc<Key>, groups: usize) -> Arc<Verified> {
        let claims = json!({"exp": 1});
        let owner = Principal {
            issuer: String::new(),
            object_id: String::new(),
            tenant_id: String::new(),
            names: (0..groups).map(|number| PrincipalName::Group(format!("group {number}"))).collect(),
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
        let (cache, key) = (TokenCache::new(1000, usize::MAX), key());
        let often = TokenCache::hash("often");
        cache.put(often, verified(&key));
        for number in 0..10_000 {
            cache.put(TokenCache::hash(&number.to_string()), verified(&key));
            assert!(cache.get(&often).is_some(), "{number}");
        }
        let held_by = |shard: &Mutex<Halves>| {
            let halves = shard.lock();
            halves.younger.entries.len() + halves.older.entries.len()
        };
        let held: usize = cache.shards.iter().map(held_by).sum();
        assert!((400..=1000).contains(&held), "{held}");
    }

    #[test]
    fn many_groups_take_the_place_of_many_tokens() {
        const MAX_BYTES: usize = 16 << 20;
        let (cache, key) = (TokenCache::new(10_000, MAX_BYTES), key());
        let last = TokenCache::hash("1999");
        for number in 0..2000 {
            cache.put(TokenCache::hash(&number.to_string()), with_groups(&key, 1000));
        }
        assert!(cache.get(&last).is_some());
        let counted = |half: &Half| half.entries.values().map(|entry| entry.bytes()).sum::<usize>();
        let mut held = 0;
        for shard in &cache.shards {
            let halves = shard.lock();
            for half in [&halves.younger, &halves.older] {
                assert_eq!(half.bytes, counted(half));
                held += half.bytes;
            }
        }
        assert!((MAX_BYTES / 3..=MAX_BYTES).contains(&held), "{held}");
        for number in 0..2000 {
            cache.remove(&TokenCache::hash(&number.to_string()));
        }
        assert!(cache.shards.iter().all(|shard| shard.lock().younger.bytes == 0));
    }

    #[test]
    fn tokens_end_with_their_key() {
        let (cache, key) = (TokenCache::new(1000, usize::MAX), key());
        let hash = TokenCache::hash("a");
        cache.put(hash, verified(&key));
        assert!(cache.get(&hash).is_some());
        drop(key);
        assert!(cache.get(&hash).is_none());
    }

    #[test]
    fn removed_is_gone() {
        let (cache, key) = (TokenCache::new(1000, usize::MAX), key());
        let hash = TokenCache::hash("a");
        cache.put(hash, verified(&key));
        cache.remove(&hash);
        assert!(cache.get(&hash).is_none());
    }
}
