//! A cache of catalogue rows, such as that of a table: every request reads one, and they hardly ever change.

use crate::keyspace::{self, Incarnation};
use crate::record;
use crate::transact::engine_error;
use parking_lot::RwLock;
use std::collections::HashMap;
use tepui_model::ServiceError;
use tepui_storage::{Key, Snapshot, Value, Version, Write};

/// The most rows in the cache.
const MAX_ROWS: usize = 4096;

/// Caches catalogue rows for one version of the catalogue.
#[derive(Default)]
pub(crate) struct CatalogueCache {
    cached: RwLock<Cached>,
}

#[derive(Default)]
struct Cached {
    at: Version,
    rows: HashMap<Key, Option<Value>>,
}

impl CatalogueCache {
    /// The value of a catalogue key in `snapshot`.
    pub(crate) async fn get<S: Snapshot>(
        &self,
        snapshot: &S,
        key: &Key,
    ) -> Result<Option<Value>, ServiceError> {
        let at = snapshot.catalogue_version();
        {
            let cached = self.cached.read();
            if cached.at == at
                && let Some(row) = cached.rows.get(key)
            {
                return Ok(row.clone());
            }
        }
        let row = snapshot.get(key).await.map_err(engine_error)?;
        self.insert(at, key, &row);
        Ok(row)
    }

    fn insert(&self, at: Version, key: &Key, row: &Option<Value>) {
        let mut cached = self.cached.write();
        if cached.at > at {
            return; // Read from an old snapshot.
        }
        if cached.at < at || cached.rows.len() >= MAX_ROWS {
            cached.rows.clear();
            cached.at = at;
        }
        // A copy, because the engine may return a slice of a larger block.
        let row = row.as_deref().map(Value::copy_from_slice);
        cached.rows.insert(key.clone(), row);
    }
}

/// A new incarnation, and the write that makes it unique.
pub(crate) async fn next_incarnation<S: Snapshot>(
    snapshot: &S,
) -> Result<(Incarnation, Write), ServiceError> {
    let counter = keyspace::incarnation_counter();
    let last = match snapshot.get(&counter).await.map_err(engine_error)? {
        Some(value) => record::decode_number(&value)?,
        None => 0,
    };
    Ok((Incarnation(last + 1), Write::Put(counter, record::encode_number(last + 1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::{Engine, MemoryEngine};

    #[tokio::test]
    async fn every_snapshot_gets_its_own_rows() {
        let engine = MemoryEngine::new();
        let catalogue = CatalogueCache::default();
        let (key, other) = (Key::from_static(b"\x20key"), Key::from_static(b"\x80other"));
        let mut snapshots = Vec::new();
        for number in 0..20u8 {
            let snapshot = engine.snapshot().await.expect("memory does not fail");
            let write = match number % 3 {
                0 => Write::Put(key.clone(), Value::copy_from_slice(&[number])),
                1 => Write::Put(other.clone(), Value::copy_from_slice(&[number])),
                _ => Write::Delete(key.clone()),
            };
            engine.commit(snapshot.version(), Vec::new(), vec![write]).await.expect("nobody else writes");
            snapshots.push(snapshot);
        }
        for snapshot in snapshots.iter().chain(snapshots.iter().rev()) {
            let expected = snapshot.get(&key).await.expect("memory does not fail");
            for _ in 0..2 {
                assert_eq!(catalogue.get(snapshot, &key).await.expect("memory does not fail"), expected);
            }
        }
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let engine = MemoryEngine::new();
        let catalogue = CatalogueCache::default();
        let snapshot = engine.snapshot().await.expect("memory does not fail");
        for number in 0..3 * MAX_ROWS {
            let key = Key::from(format!(" {number}"));
            catalogue.get(&snapshot, &key).await.expect("memory does not fail");
        }
        let cached = catalogue.cached.read();
        assert!(!cached.rows.is_empty() && cached.rows.len() <= MAX_ROWS);
    }
}
