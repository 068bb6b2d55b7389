//! The catalogue: the rows of tables, queues and containers. Every request reads one, and they hardly ever change.
//!
//! Every commit that changes one of them also raises a version: a row of its own, read in each transaction that uses
//! the cache. So what is cached is right on every node of a cluster. There is one version for each bucket of rows, by
//! the hash of their keys, so that a change makes few cached rows obsolete and seldom conflicts with another change.

use crate::keyspace::{self, CATALOGUE_BUCKETS, Incarnation};
use crate::record;
use crate::transact::storage_error;
use parking_lot::RwLock;
use std::collections::{BTreeSet, HashMap};
use tepui_model::ServiceError;
use tepui_storage::{Key, KeyRange, Snapshot, Value, Write};

/// The most cached rows of a bucket.
const MAX_ROWS: usize = 256;

/// The rows that are read in every transaction, which an engine should keep in memory: at most 256, of a few bytes each.
pub fn catalogue_versions() -> KeyRange {
    keyspace::catalogue_versions()
}

/// The rows that any number of commits guard at once, and that are seldom written: for engines without shared locks, which
/// keep copies of them.
pub fn shared_guard_ranges() -> Vec<KeyRange> {
    keyspace::rows_that_many_guard()
}

/// Caches catalogue rows.
pub(crate) struct CatalogueCache {
    buckets: Vec<RwLock<HashMap<Key, CachedRow>>>,
}

/// A row that was read before.
#[derive(Clone)]
pub(crate) struct CachedRow {
    bucket: u8,
    /// The version of the bucket that it was read at.
    version: u64,
    /// `None`: there was none.
    pub(crate) row: Option<Value>,
}

impl CachedRow {
    /// The key of the row's version.
    pub(crate) fn version_key(&self) -> Key {
        Key::from_static(keyspace::catalogue_version(self.bucket))
    }

    /// Whether it is right where the version has this value.
    pub(crate) fn is_of(&self, version: Option<&Value>) -> Result<bool, ServiceError> {
        Ok(decode(version)? == self.version)
    }
}

impl Default for CatalogueCache {
    fn default() -> Self {
        Self { buckets: (0..CATALOGUE_BUCKETS).map(|_| RwLock::default()).collect() }
    }
}

impl CatalogueCache {
    /// The value of a catalogue key in `snapshot`.
    pub(crate) async fn get<S: Snapshot>(
        &self,
        snapshot: &S,
        key: &Key,
    ) -> Result<Option<Value>, ServiceError> {
        self.get_with(snapshot, key, |row| std::future::ready(Ok(row))).await
    }

    /// What `read` reads of `snapshot` under the row of a catalogue key. If the row is cached, `read` begins with that while
    /// the version is looked up: one round trip to a store behind a network. If the row has changed, it begins again, so it
    /// must change nothing.
    pub(crate) async fn get_with<S: Snapshot, T, F>(
        &self,
        snapshot: &S,
        key: &Key,
        read: impl Fn(Option<Value>) -> F,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        if let Some(cached) = self.cached(key) {
            let version = async { snapshot.get(&cached.version_key()).await.map_err(storage_error) };
            let (version, found) = tokio::join!(biased; version, read(cached.row.clone()));
            if cached.is_of(version?.as_ref())? {
                return found;
            }
        }
        read(self.refresh(snapshot, key).await?).await
    }

    /// The row of a catalogue key as it was read last, by which other keys can be guessed. It is right only if the version is
    /// still the same.
    pub(crate) fn cached(&self, key: &Key) -> Option<CachedRow> {
        self.bucket(key).read().get(key).cloned()
    }

    /// Reads a row that is not cached, or has changed.
    pub(crate) async fn refresh<S: Snapshot>(
        &self,
        snapshot: &S,
        key: &Key,
    ) -> Result<Option<Value>, ServiceError> {
        let bucket = keyspace::catalogue_bucket(key);
        let keys = [Key::from_static(keyspace::catalogue_version(bucket)), key.clone()];
        let mut values = snapshot.get_many(&keys).await.map_err(storage_error)?.into_iter();
        let version = decode(values.next().flatten().as_ref())?;
        let row = values.next().flatten();
        insert(&mut self.bucket(key).write(), bucket, version, key, row.as_deref());
        Ok(row)
    }

    fn bucket(&self, key: &Key) -> &RwLock<HashMap<Key, CachedRow>> {
        &self.buckets[usize::from(keyspace::catalogue_bucket(key))]
    }
}

fn insert(rows: &mut HashMap<Key, CachedRow>, bucket: u8, version: u64, key: &Key, row: Option<&[u8]>) {
    match rows.get(key) {
        // Read in an older transaction.
        Some(cached) if cached.version > version => return,
        None if rows.len() >= MAX_ROWS => rows.clear(),
        _ => {}
    }
    // A copy, because the engine may return a slice of a larger block.
    rows.insert(key.clone(), CachedRow { bucket, version, row: row.map(Value::copy_from_slice) });
}

/// Adds the versions of the catalogue rows that are written.
pub(crate) async fn add_versions<S: Snapshot>(
    snapshot: &S,
    writes: &mut Vec<Write>,
) -> Result<(), ServiceError> {
    let changed = writes.iter().map(Write::key).filter(|key| keyspace::is_catalogue_row(key));
    let buckets: BTreeSet<u8> = changed.map(|key| keyspace::catalogue_bucket(key)).collect();
    if buckets.is_empty() {
        return Ok(());
    }
    let keys = buckets.into_iter().map(|bucket| Key::from_static(keyspace::catalogue_version(bucket)));
    let keys: Vec<Key> = keys.collect();
    let versions = snapshot.get_many(&keys).await.map_err(storage_error)?;
    for (key, version) in keys.into_iter().zip(versions) {
        writes.push(Write::Put(key, record::encode_number(decode(version.as_ref())? + 1)));
    }
    Ok(())
}

/// The write that raises the version of a bucket.
pub(crate) async fn next_version<S: Snapshot>(snapshot: &S, bucket: u8) -> Result<Write, ServiceError> {
    let key = Key::from_static(keyspace::catalogue_version(bucket));
    let version = decode(snapshot.get(&key).await.map_err(storage_error)?.as_ref())?;
    Ok(Write::Put(key, record::encode_number(version + 1)))
}

/// A counter. It is 0 before it is first written.
fn decode(value: Option<&Value>) -> Result<u64, ServiceError> {
    value.map_or(Ok(0), |value| record::decode_number(value))
}

/// A new incarnation, and the write that makes it unique.
pub(crate) async fn next_incarnation<S: Snapshot>(
    snapshot: &S,
) -> Result<(Incarnation, Write), ServiceError> {
    let last = snapshot.get(&keyspace::incarnation_counter()).await.map_err(storage_error)?;
    incarnation_after(last.as_ref())
}

/// The incarnation after the one that the counter says, and the write that makes it unique.
pub(crate) fn incarnation_after(last: Option<&Value>) -> Result<(Incarnation, Write), ServiceError> {
    let next = decode(last)? + 1;
    Ok((Incarnation(next), Write::Put(keyspace::incarnation_counter(), record::encode_number(next))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transact::{Attempt, Outcome, SpaceUse, commit};
    use tepui_storage::{Engine, MemoryEngine};

    #[tokio::test]
    async fn every_transaction_gets_its_own_rows() {
        let engine = MemoryEngine::new();
        // Two nodes, of which the second one never writes.
        let caches = [CatalogueCache::default(), CatalogueCache::default()];
        let key = keyspace::table("account", "table");
        let other = keyspace::entity(Incarnation(7), "p", "r");
        let mut transactions = Vec::new();
        for number in 0..20u8 {
            let transaction = engine.begin().await.expect("memory does not fail");
            let write = match number % 3 {
                0 => Write::Put(key.clone(), Value::copy_from_slice(&[number])),
                1 => Write::Put(other.clone(), Value::copy_from_slice(&[number])),
                _ => Write::Delete(key.clone()),
            };
            transactions.push(engine.begin().await.expect("memory does not fail"));
            let outcome = Outcome { reply: (), guards: Vec::new(), writes: vec![write] };
            let done = commit(&engine, transaction, outcome, SpaceUse::Consumes).await;
            assert!(matches!(done, Ok(Attempt::Done(()))));
        }
        for transaction in transactions.iter().chain(transactions.iter().rev()) {
            let expected = transaction.get(&key).await.expect("memory does not fail");
            for cache in caches.iter().chain(&caches) {
                assert_eq!(cache.get(transaction, &key).await.expect("memory does not fail"), expected);
            }
        }
    }

    #[test]
    fn rows_that_many_guard_are_within_the_shared_ranges() {
        let ranges = shared_guard_ranges();
        let is_shared = |key: &Key| ranges.iter().any(|range| range.contains(key));
        assert!(is_shared(&keyspace::table("account", "table")));
        assert!(is_shared(&keyspace::queue("account", "queue")));
        assert!(is_shared(&keyspace::container("account", "container")));
        assert!(is_shared(&keyspace::queue_state(Incarnation(7))));
        assert!(!is_shared(&keyspace::entity(Incarnation(7), "p", "r")));
        assert!(!is_shared(&keyspace::incarnation_counter()));
    }

    #[tokio::test]
    async fn a_change_leaves_other_rows_in_the_cache() {
        let engine = MemoryEngine::new();
        let cache = CatalogueCache::default();
        let keys: Vec<Key> =
            (0..1000).map(|number| keyspace::table("account", &format!("t{number}"))).collect();
        let transaction = engine.begin().await.expect("memory does not fail");
        for key in &keys {
            cache.get(&transaction, key).await.expect("memory does not fail");
        }
        let writes = vec![Write::Put(keys[0].clone(), "new".into())];
        let outcome = Outcome { reply: (), guards: Vec::new(), writes };
        assert!(commit(&engine, transaction, outcome, SpaceUse::Consumes).await.is_ok());
        let now = engine.begin().await.expect("memory does not fail");
        let mut valid = 0;
        for key in &keys {
            let bucket = keyspace::catalogue_bucket(key);
            let version = now.get(keyspace::catalogue_version(bucket)).await.expect("memory does not fail");
            let version = decode(version.as_ref()).expect("a number");
            let cached = cache.buckets[usize::from(bucket)].read();
            valid += usize::from(cached.get(key).is_some_and(|cached| cached.version == version));
        }
        assert!((950..1000).contains(&valid), "{valid}");
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let engine = MemoryEngine::new();
        let cache = CatalogueCache::default();
        let transaction = engine.begin().await.expect("memory does not fail");
        for number in 0..2 * MAX_ROWS * CATALOGUE_BUCKETS {
            let key = keyspace::table("account", &number.to_string());
            cache.get(&transaction, &key).await.expect("memory does not fail");
        }
        let rows: Vec<usize> = cache.buckets.iter().map(|bucket| bucket.read().len()).collect();
        assert!(rows.iter().all(|rows| (1..=MAX_ROWS).contains(rows)), "{rows:?}");
    }
}
