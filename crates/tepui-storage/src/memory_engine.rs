//! The engine in memory, for tests and for data that may be lost.
//!
//! Multi-version concurrency control: every key has a short list of versions. A snapshot is a version, registered in the list
//! of live snapshots; versions that no live snapshot can see are dropped by later commits.

use crate::{
    Commit, CommitError, CommitPipeline, Engine, EngineError, Key, KeyRange, ScanLimit, ScanPage, Snapshot,
    Value, Version, Write,
};
use crate::{changes_catalogue, limits};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Bound;
use std::sync::Arc;

/// How many commits a tombstone is kept for, so that a commit that depends on the deleted key conflicts. A commit with an
/// older snapshot conflicts with every key that is not there.
const TOMBSTONE_RETENTION: u64 = 4096;

/// How many rows `reclaim` removes before it releases the lock.
const RECLAIM_STEP: usize = 1024;

/// Keeps everything in memory. A clone is the same store.
///
/// ```
/// # use tepui_storage::{Engine, MemoryEngine, Snapshot, Write};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let engine = MemoryEngine::new();
/// let before = engine.snapshot().await?;
/// engine.commit(before.version(), vec![], vec![Write::Put("key".into(), "value".into())]).await?;
/// assert_eq!(before.get(b"key").await?, None);
/// assert_eq!(engine.snapshot().await?.get(b"key").await?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryEngine {
    store: Arc<MemoryStore>,
}

#[derive(Default)]
struct MemoryStore {
    state: RwLock<VersionedRows>,
    /// What readers may see. Changed only while `state` is locked for writing.
    published: RwLock<PublishedVersions>,
    live: Mutex<BTreeMap<u64, usize>>,
    /// Hashes keys for commit pipelines.
    hasher: RandomState,
}

#[derive(Default, Clone, Copy)]
struct PublishedVersions {
    version: u64,
    catalogue_version: u64,
}

#[derive(Default)]
struct VersionedRows {
    rows: BTreeMap<Key, Versions>,
    /// Keys that have something to drop once no snapshot is older than the version beside them.
    stale: VecDeque<(u64, Key)>,
    /// Keys of which only a tombstone is left, and its version.
    tombstones: VecDeque<(u64, Key)>,
    /// The newest tombstone that was dropped.
    forgotten: u64,
}

/// The versions of one key, oldest first. `None` is a tombstone.
type Versions = Vec<(u64, Option<Value>)>;

impl MemoryEngine {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Engine for MemoryEngine {
    type Snapshot = MemorySnapshot;

    async fn snapshot(&self) -> Result<MemorySnapshot, EngineError> {
        let mut live = self.store.live();
        // Read while `live` is locked: versions are dropped under the same lock.
        let at = self.store.published();
        *live.entry(at.version).or_insert(0) += 1;
        drop(live);
        Ok(MemorySnapshot { store: Arc::clone(&self.store), at })
    }

    fn submit(
        &self,
        pipeline: Option<&CommitPipeline>,
        commit: Commit,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let Commit { at, guards, writes, .. } = commit;
        std::future::ready(self.store.commit(pipeline, at, &guards, writes))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), EngineError> {
        while self.store.write().remove_some(&range) == RECLAIM_STEP {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn health(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl MemoryStore {
    fn commit(
        &self,
        pipeline: Option<&CommitPipeline>,
        at: Version,
        guards: &[Key],
        writes: Vec<Write>,
    ) -> Result<(), CommitError> {
        let result = self.try_commit(pipeline, at, guards, writes);
        if let (Err(_), Some(pipeline)) = (&result, pipeline) {
            pipeline.poison();
        }
        result
    }

    fn try_commit(
        &self,
        pipeline: Option<&CommitPipeline>,
        at: Version,
        guards: &[Key],
        writes: Vec<Write>,
    ) -> Result<(), CommitError> {
        limits::check(guards, &writes)?;
        let mut state = self.write();
        if pipeline.is_some_and(CommitPipeline::is_poisoned) {
            return Err(CommitError::Conflict);
        }
        for key in guards.iter().chain(writes.iter().map(Write::key)) {
            let last = state.last_change(key);
            let is_ours =
                || pipeline.is_some_and(|pipeline| pipeline.wrote(self.hasher.hash_one(key), Version(last)));
            if last > at.0 && !is_ours() {
                return Err(CommitError::Conflict);
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        let PublishedVersions { version, catalogue_version } = self.published();
        let version = version + 1;
        let catalogue_version = if changes_catalogue(&writes) { version } else { catalogue_version };
        if let Some(pipeline) = pipeline {
            let hashes = writes.iter().map(|write| self.hasher.hash_one(write.key()));
            pipeline.record(hashes, Version(version));
        }
        for write in writes {
            state.apply(version, write);
        }
        state.drop_unseen(self.oldest_live(version - 1), version);
        *self.published.write() = PublishedVersions { version, catalogue_version };
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, VersionedRows> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, VersionedRows> {
        self.state.write()
    }

    fn published(&self) -> PublishedVersions {
        *self.published.read()
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.live.lock()
    }

    fn oldest_live(&self, published: u64) -> u64 {
        self.live().first_key_value().map_or(published, |(version, _)| *version)
    }
}

impl VersionedRows {
    fn range(&self, start: &[u8], end: &[u8]) -> impl Iterator<Item = (&Key, &Versions)> {
        // An inverted range is empty; `BTreeMap::range` would panic on it.
        let end = end.max(start);
        self.rows.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
    }

    /// Removes the first rows of an unreachable range, and returns how many.
    fn remove_some(&mut self, range: &KeyRange) -> usize {
        let rows = self.range(&range.start, &range.end).take(RECLAIM_STEP);
        let keys: Vec<Key> = rows.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.rows.remove(key);
        }
        keys.len()
    }

    fn last_change(&self, key: &[u8]) -> u64 {
        match self.rows.get(key).and_then(|versions| versions.last()) {
            Some((version, _)) => *version,
            None => self.forgotten,
        }
    }

    fn apply(&mut self, version: u64, write: Write) {
        let (key, value) = match write {
            Write::Put(key, value) => (key, Some(value)),
            Write::Delete(key) => (key, None),
        };
        let versions = self.rows.entry(key.clone()).or_default();
        let stale = value.is_none() || !versions.is_empty();
        match versions.last_mut() {
            Some(last) if last.0 == version => last.1 = value,
            _ => versions.push((version, value)),
        }
        if stale {
            self.stale.push_back((version, key));
        }
    }

    /// Drops the versions that no snapshot from `oldest` on can see.
    fn drop_unseen(&mut self, oldest: u64, now: u64) {
        while let Some((version, key)) = pop_until(&mut self.stale, oldest) {
            let Some(versions) = self.rows.get_mut(&key) else { continue };
            let seen = versions.partition_point(|(version, _)| *version <= oldest);
            versions.drain(..seen.saturating_sub(1));
            if matches!(versions.as_slice(), [(last, None)] if *last == version) {
                self.tombstones.push_back((version, key));
            }
        }
        let remembered = now.saturating_sub(TOMBSTONE_RETENTION);
        while let Some((version, key)) = pop_until(&mut self.tombstones, remembered) {
            // It may have been written again since.
            if matches!(self.rows.get(&key).map(Vec::as_slice), Some([(last, None)]) if *last == version) {
                self.rows.remove(&key);
                self.forgotten = self.forgotten.max(version);
            }
        }
    }
}

/// Takes the first entry if it is not newer than `version`.
fn pop_until(queue: &mut VecDeque<(u64, Key)>, version: u64) -> Option<(u64, Key)> {
    let is_due = queue.front().is_some_and(|(first, _)| *first <= version);
    if is_due { queue.pop_front() } else { None }
}

/// What a [`MemoryEngine`] held when the snapshot was taken.
pub struct MemorySnapshot {
    store: Arc<MemoryStore>,
    at: PublishedVersions,
}

impl MemorySnapshot {
    fn visible<'a>(&self, versions: &'a Versions) -> Option<&'a Value> {
        versions
            .iter()
            .rev()
            .find(|(version, _)| *version <= self.at.version)
            .and_then(|(_, value)| value.as_ref())
    }
}

impl Snapshot for MemorySnapshot {
    fn version(&self) -> Version {
        Version(self.at.version)
    }

    fn catalogue_version(&self) -> Version {
        Version(self.at.catalogue_version)
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        let state = self.store.read();
        Ok(state.rows.get(key).and_then(|versions| self.visible(versions)).cloned())
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, EngineError> {
        let state = self.store.read();
        let mut page = ScanPage::default();
        let mut bytes = 0;
        for (key, versions) in state.range(&range.start, &range.end) {
            let Some(value) = self.visible(versions) else { continue };
            bytes += key.len() + value.len();
            let full = page.rows.len() >= limit.max_rows || bytes > limit.max_bytes;
            if full && !page.rows.is_empty() {
                page.next = Some(key.clone());
                break;
            }
            page.rows.push((key.clone(), value.clone()));
        }
        Ok(page)
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        let mut live = self.store.live();
        if let Some(count) = live.get_mut(&self.at.version) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.at.version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_kept_for_snapshots_that_are_gone() {
        let engine = MemoryEngine::new();
        for number in 0..3 * TOMBSTONE_RETENTION {
            let at = engine.snapshot().await.expect("memory does not fail").version();
            let gone = Key::from(format!("gone {number}"));
            let value = Value::from(number.to_string());
            let put = vec![Write::Put("kept".into(), value.clone()), Write::Put(gone.clone(), value)];
            engine.commit(at, vec![], put).await.expect("nobody else writes");
            let at = engine.snapshot().await.expect("memory does not fail").version();
            engine.commit(at, vec![], vec![Write::Delete(gone)]).await.expect("nobody else writes");
        }
        let state = engine.store.read();
        assert!(state.rows.len() as u64 <= TOMBSTONE_RETENTION + 1, "{} rows", state.rows.len());
        assert!(state.rows.values().map(Vec::len).max() <= Some(2));
        assert!(state.stale.len() + state.tombstones.len() <= TOMBSTONE_RETENTION as usize + 2);
    }
}
