//! What one operation is going to write, while it is being decided.

use crate::transact::{Outcome, engine_error};
use std::collections::BTreeMap;
use tepui_model::ServiceError;
use tepui_storage::{Key, KeyRange, ScanLimit, Snapshot, Value, Write};

/// A snapshot and the changes to it that are to be committed together.
pub(super) struct Edit<'s, S> {
    pub(super) snapshot: &'s S,
    guards: Vec<Key>,
    /// `None`: deleted.
    writes: BTreeMap<Key, Option<Value>>,
    /// The key whose value no other commit writes.
    proof: Option<Key>,
}

impl<'s, S: Snapshot> Edit<'s, S> {
    pub(super) fn of(snapshot: &'s S) -> Self {
        Self { snapshot, guards: Vec::new(), writes: BTreeMap::new(), proof: None }
    }

    /// What is there once the changes so far are made.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Value>, ServiceError> {
        match self.writes.get(key) {
            Some(written) => Ok(written.clone()),
            None => self.snapshot.get(key).await.map_err(engine_error),
        }
    }

    /// The commit fails if the key changes meanwhile.
    pub(super) fn guard(&mut self, key: Key) {
        self.guards.push(key);
    }

    pub(super) fn put(&mut self, key: Key, value: Value) {
        self.writes.insert(key, Some(value));
    }

    /// Puts a value that carries a timestamp of its own: finding it proves the commit.
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

/// The rows of a range, one after the other, read in chunks.
pub(super) struct Rows<'s, S> {
    snapshot: &'s S,
    /// What was not read yet.
    rest: Option<KeyRange>,
    read: std::vec::IntoIter<(Key, Value)>,
    limit: ScanLimit,
}

impl<'s, S: Snapshot> Rows<'s, S> {
    pub(super) fn of(snapshot: &'s S, range: KeyRange, max_rows: usize) -> Self {
        let limit = ScanLimit { max_rows, max_bytes: 1024 * 1024 };
        let rest = (range.start < range.end).then_some(range);
        Self { snapshot, rest, read: Vec::new().into_iter(), limit }
    }

    pub(super) async fn next(&mut self) -> Result<Option<(Key, Value)>, ServiceError> {
        loop {
            if let Some(row) = self.read.next() {
                return Ok(Some(row));
            }
            let Some(range) = self.rest.take() else { return Ok(None) };
            let page = self.snapshot.scan(&range, self.limit).await.map_err(engine_error)?;
            self.read = page.rows.into_iter();
            self.rest = page.next.map(|start| KeyRange { start, end: range.end });
        }
    }

    /// Goes on with the first row that is not before `key`.
    pub(super) fn skip_to(&mut self, key: &Key) {
        while self.read.as_slice().first().is_some_and(|(read, _)| read < key) {
            self.read.next();
        }
        if self.read.as_slice().is_empty()
            && let Some(range) = &mut self.rest
            && range.start < *key
        {
            range.start = key.clone();
            if range.start >= range.end {
                self.rest = None;
            }
        }
    }
}
