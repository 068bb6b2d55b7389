//! The writes of one operation while it is being decided.

use crate::keyspace;
use crate::transact::{Outcome, storage_error};
use std::collections::{BTreeMap, HashMap};
use tepui_model::ServiceError;
use tepui_model::blob::DeleteRetention;
use tepui_storage::{Guard, Key, Snapshot, Value, Write};

/// A snapshot and the writes to be committed on it, which reads through it see.
pub(super) struct WriteSet<'s, S> {
    pub(super) snapshot: &'s S,
    guards: Vec<Guard>,
    /// Rows that were read before they are needed.
    prefetched: HashMap<Key, Option<Value>>,
    /// `None`: deleted.
    writes: BTreeMap<Key, Option<Value>>,
    /// The key whose value no other commit writes: it resolves commits of unknown outcome.
    proof: Option<Key>,
    delete_retention: Option<DeleteRetention>,
}

/// What is read before a blob is removed.
pub(super) struct ForRemoval {
    /// The key of the service properties, and what they say about deleted blobs.
    pub(super) settings: Option<(Key, DeleteRetention)>,
    /// The row that counts the references to the blob's content.
    pub(super) row: Option<(Key, Option<Value>)>,
}

impl<'s, S: Snapshot> WriteSet<'s, S> {
    pub(super) fn new(snapshot: &'s S) -> Self {
        let (guards, prefetched) = (Vec::new(), HashMap::new());
        let writes = BTreeMap::new();
        Self { snapshot, guards, prefetched, writes, proof: None, delete_retention: None }
    }

    /// The value under a key, with the writes so far applied.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Value>, ServiceError> {
        match self.writes.get(key) {
            Some(written) => Ok(written.clone()),
            None => match self.prefetched.get(key) {
                Some(value) => Ok(value.clone()),
                None => self.snapshot.get(key).await.map_err(storage_error),
            },
        }
    }

    /// Reads rows at once that are needed one by one.
    pub(super) async fn prefetch(&mut self, keys: impl IntoIterator<Item = Key>) -> Result<(), ServiceError> {
        let is_new = |key: &Key| !self.writes.contains_key(key) && !self.prefetched.contains_key(key);
        let keys: Vec<Key> = keys.into_iter().filter(is_new).collect();
        let values = self.snapshot.get_many(&keys).await.map_err(storage_error)?;
        self.prefetched.extend(keys.into_iter().zip(values));
        Ok(())
    }

    /// Adds rows that were read of the snapshot before they are needed.
    pub(super) fn add_prefetched(&mut self, keys: Vec<Key>, rows: Vec<Option<Value>>) {
        self.prefetched.extend(keys.into_iter().zip(rows));
    }

    /// Adds what was read for the removal of a blob. What rests on service properties fails if they change.
    pub(super) fn add_for_removal(&mut self, ForRemoval { settings, row }: ForRemoval) {
        if let Some((key, retention)) = settings {
            self.guard_shared(key);
            self.delete_retention = Some(retention);
        }
        self.prefetched.extend(row);
    }

    /// What service properties say about deleted blobs, if it was read before. They are a guard then.
    pub(super) fn delete_retention(&self) -> Option<DeleteRetention> {
        self.delete_retention
    }

    /// The commit conflicts if the key has changed since the snapshot.
    pub(super) fn guard(&mut self, key: Key) {
        self.guards.push(Guard::Unchanged(key));
    }

    /// Like `guard`, for a key that many commits guard at once.
    pub(super) fn guard_shared(&mut self, key: Key) {
        let guard = Guard::Shared(key);
        // One decision may need the same row many times.
        if self.guards.last() != Some(&guard) {
            self.guards.push(guard);
        }
    }

    pub(super) fn put(&mut self, key: Key, value: Value) {
        self.writes.insert(key, Some(value));
    }

    /// Puts a value that carries a timestamp of its own: it proves the commit.
    pub(super) fn put_stamped(&mut self, key: Key, value: Value) {
        self.proof = Some(key.clone());
        self.put(key, value);
    }

    pub(super) fn delete(&mut self, key: Key) {
        self.writes.insert(key, None);
    }

    /// Whether it writes as many rows that many commits guard as one commit may.
    pub(super) fn is_full(&self) -> bool {
        let shared = self.writes.keys().filter(|key| keyspace::is_guarded_by_many(key));
        shared.count() >= keyspace::MAX_SHARED_WRITES
    }

    pub(super) fn finish<T>(mut self, reply: T) -> Outcome<T> {
        let proof = self.proof.and_then(|key| self.writes.remove_entry(&key));
        let writes = self.writes.into_iter().chain(proof).map(|(key, value)| match value {
            Some(value) => Write::Put(key, value),
            None => Write::Delete(key),
        });
        Outcome { reply, guards: self.guards, writes: writes.collect() }
    }
}
