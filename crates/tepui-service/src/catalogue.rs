//! Rows that every request looks up, such as that of its table, and that hardly ever change.

use crate::keyspace::{self, Incarnation};
use crate::record;
use crate::transact::engine_error;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use tepui_model::ServiceError;
use tepui_storage::{Key, Snapshot, Value, Version, Write};

/// How many rows are remembered.
const MAX_ROWS: usize = 4096;

/// Remembers rows of the catalogue for as long as nothing in it changes.
#[derive(Default)]
pub(crate) struct Catalogue {
    remembered: RwLock<Remembered>,
}

#[derive(Default)]
struct Remembered {
    at: Version,
    rows: HashMap<Key, Option<Value>>,
}

impl Catalogue {
    /// What `snapshot` has under a key of the catalogue.
    pub(crate) async fn get<S: Snapshot>(
        &self,
        snapshot: &S,
        key: &Key,
    ) -> Result<Option<Value>, ServiceError> {
        let at = snapshot.catalogue_version();
        {
            let remembered = self.remembered.read().unwrap_or_else(PoisonError::into_inner);
            if remembered.at == at
                && let Some(row) = remembered.rows.get(key)
            {
                return Ok(row.clone());
            }
        }
        let row = snapshot.get(key).await.map_err(engine_error)?;
        self.remember(at, key, &row);
        Ok(row)
    }

    fn remember(&self, at: Version, key: &Key, row: &Option<Value>) {
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        if remembered.at > at {
            return; // Read from an old snapshot.
        }
        if remembered.at < at || remembered.rows.len() >= MAX_ROWS {
            remembered.rows.clear();
            remembered.at = at;
        }
        // A copy, for what the engine returns may be a part of a larger block.
        let row = row.as_deref().map(Value::copy_from_slice);
        remembered.rows.insert(key.clone(), row);
    }
}

/// The number of what is about to be created, and the write that keeps it from being given out again.
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
        let catalogue = Catalogue::default();
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
    async fn what_is_remembered_is_bounded() {
        let engine = MemoryEngine::new();
        let catalogue = Catalogue::default();
        let snapshot = engine.snapshot().await.expect("memory does not fail");
        for number in 0..3 * MAX_ROWS {
            let key = Key::from(format!(" {number}"));
            catalogue.get(&snapshot, &key).await.expect("memory does not fail");
        }
        let remembered = catalogue.remembered.read().expect("nobody panicked");
        assert!(!remembered.rows.is_empty() && remembered.rows.len() <= MAX_ROWS);
    }
}
