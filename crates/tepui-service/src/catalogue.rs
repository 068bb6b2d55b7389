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

/// Caches catalogue rows.
pub(crate) struct CatalogueCache {
    buckets: Vec<RwLock<HashMap<Key, CachedRow>>>,
}

#[derive(Clone)]
struct CachedRow {
    /// The version of the bucket that it was read at.
    version: u64,
    row: Option<Value>,
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
        let bucket = keyspace::catalogue_bucket(key);
        let cached = &self.buckets[usize::from(bucket)];
        let version_key = keyspace::catalogue_version(bucket);
        let found = cached.read().get(key).cloned();
        if let Some(CachedRow { version, row }) = found
            && version == decode(snapshot.get(&version_key).await.map_err(storage_error)?)?
        {
            return Ok(row);
        }
        let keys = [Key::copy_from_slice(&version_key), key.clone()];
        let mut values = snapshot.get_many(&keys).await.map_err(storage_error)?.into_iter();
        let version = decode(values.next().flatten())?;
        let row = values.next().flatten();
        insert(&mut cached.write(), version, key, row.as_deref());
        Ok(row)
    }
}

fn insert(rows: &mut HashMap<Key, CachedRow>, version: u64, key: &Key, row: Option<&[u8]>) {
    match rows.get(key) {
        // Read in an older transaction.
        Some(cached) if cached.version > version => return,
        None if rows.len() >= MAX_ROWS => rows.clear(),
        _ => {}
    }
    // A copy, because the engine may return a slice of a larger block.
    rows.insert(key.clone(), CachedRow { version, row: row.map(Value::copy_from_slice) });
}

/// Adds the versions of the catalogue rows that are written.
pub(crate) async fn add_versions<S: Snapshot>(
    snapshot: &S,
    writes: &mut Vec<Write>,
) -> Result<(), ServiceError> {
    let changed = writes.iter().map(Write::key).filter(|key| keyspace::is_catalogue_row(key));
    let buckets: BTreeSet<u8> = changed.map(|key| keyspace::catalogue_bucket(key)).collect();
    for bucket in buckets {
        writes.push(next_version(snapshot, bucket).await?);
    }
    Ok(())
}

/// The write that raises the version of a bucket.
pub(crate) async fn next_version<S: Snapshot>(snapshot: &S, bucket: u8) -> Result<Write, ServiceError> {
    let key = keyspace::catalogue_version(bucket);
    let version = decode(snapshot.get(&key).await.map_err(storage_error)?)?;
    Ok(Write::Put(Key::copy_from_slice(&key), record::encode_number(version + 1)))
}

/// A counter. It is 0 before it is first written.
fn decode(value: Option<Value>) -> Result<u64, ServiceError> {
    value.map_or(Ok(0), |value| record::decode_number(&value))
}

/// A new incarnation, and the write that makes it unique.
pub(crate) async fn next_incarnation<S: Snapshot>(
    snapshot: &S,
) -> Result<(Incarnation, Write), ServiceError> {
    let counter = keyspace::incarnation_counter();
    let last = decode(snapshot.get(&counter).await.map_err(storage_error)?)?;
    Ok((Incarnation(last + 1), Write::Put(counter, record::encode_number(last + 1))))
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
            let version = now.get(&keyspace::catalogue_version(bucket)).await.expect("memory does not fail");
            let version = decode(version).expect("a number");
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
