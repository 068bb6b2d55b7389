//! The writes of one operation while it is being decided.

use crate::transact::{Outcome, engine_error};
use std::collections::BTreeMap;
use tepui_model::ServiceError;
use tepui_storage::{Key, Snapshot, Value, Write};

/// A snapshot and the writes to be committed on it, which reads through it see.
pub(super) struct WriteSet<'s, S> {
    pub(super) snapshot: &'s S,
    guards: Vec<Key>,
    /// `None`: deleted.
    writes: BTreeMap<Key, Option<Value>>,
    /// The key whose value no other commit writes: it resolves commits of unknown outcome.
    proof: Option<Key>,
}

impl<'s, S: Snapshot> WriteSet<'s, S> {
    pub(super) fn new(snapshot: &'s S) -> Self {
        Self { snapshot, guards: Vec::new(), writes: BTreeMap::new(), proof: None }
    }

    /// The value under a key, with the writes so far applied.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Value>, ServiceError> {
        match self.writes.get(key) {
            Some(written) => Ok(written.clone()),
            None => self.snapshot.get(key).await.map_err(engine_error),
        }
    }

    /// The commit conflicts if the key has changed since the snapshot.
    pub(super) fn guard(&mut self, key: Key) {
        self.guards.push(key);
    }

    pub(super) fn put(&mut self, key: Key, value: Value) {
        self.writes.insert(key, Some(value));
    }

    /// Puts a value that carries a timestamp of its own: search it proves the commit.
    pub(super) fn put_stamped(&mut self, key: Key, value: Value) {
        self.proof = Some(key.clone());
        self.put(key, value);
    }

    pub(super) fn delete(&mut self, key: Key) {
        self.writes.insert(key, None);
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
