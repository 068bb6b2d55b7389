//! The engine in memory, for tests and for data that may be lost.
//!
//! Multi-version concurrency control: every key has a short list of versions. A transaction reads at one version, registered
//! in the list of live ones; versions that no live transaction can see are dropped by later commits. A transaction that is held
//! for long keeps the versions that it sees, and none of those written since.

use crate::stats::CommitOutcomes;
use crate::versions::{PipelineHistory, Version};
use crate::{
    Commit, CommitError, CommitPipeline, Engine, Key, KeyRange, Limits, ScanLimit, ScanPage, Snapshot,
    StorageError, Transaction, Value, Write,
};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many commits a tombstone is kept for, so that a commit that depends on the deleted key conflicts. A commit with an
/// older snapshot conflicts with every key that is not there.
const TOMBSTONE_RETENTION: u64 = 4096;

/// A transaction that began more commits ago than this is held for long: others do not wait for it to end.
const YOUNG_COMMITS: u64 = 4096;

/// How many rows `reclaim` removes before it releases the lock.
const RECLAIM_STEP: usize = 1024;

/// Keeps everything in memory. A clone is the same store.
///
/// ```
/// # use tepui_storage::{Engine, MemoryEngine, Snapshot, Transaction, Write};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let engine = MemoryEngine::new();
/// let before = engine.begin().await?;
/// engine.begin().await?.commit(vec![Write::Put("key".into(), "value".into())].into()).await?;
/// assert_eq!(before.get(b"key").await?, None);
/// assert_eq!(engine.begin().await?.get(b"key").await?.as_deref(), Some(&b"value"[..]));
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
    published: RwLock<u64>,
    live: Mutex<BTreeMap<u64, usize>>,
    /// A transaction has ended: what was kept only for old ones may be dropped.
    ended: AtomicBool,
    /// Hashes keys for commit pipelines.
    hasher: RandomState,
    commits: CommitOutcomes,
}

#[derive(Default)]
struct VersionedRows {
    rows: BTreeMap<Key, Versions>,
    /// Keys that have something to drop once no snapshot is older than the version beside them.
    stale: VecDeque<(u64, Key)>,
    /// Keys with versions that only old transactions see.
    held: HashSet<Key>,
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

    /// How commits ended so far.
    pub fn commits(&self) -> &CommitOutcomes {
        &self.store.commits
    }
}

impl Engine for MemoryEngine {
    type Transaction = MemoryTransaction;
    type Pipeline = MemoryPipeline;

    async fn begin(&self) -> Result<MemoryTransaction, StorageError> {
        let mut live = self.store.live();
        // Read while `live` is locked: versions are dropped under the same lock.
        let at = self.store.published();
        *live.entry(at).or_insert(0) += 1;
        drop(live);
        Ok(MemoryTransaction { store: Arc::clone(&self.store), at })
    }

    async fn begin_pipeline(&self) -> Result<MemoryPipeline, StorageError> {
        Ok(MemoryPipeline { base: self.begin().await?, history: PipelineHistory::new() })
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        while self.store.write().remove_some(&range) == RECLAIM_STEP {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn health(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits::LOCAL
    }
}

impl MemoryStore {
    fn commit(&self, at: u64, pipeline: Option<&PipelineHistory>, commit: Commit) -> Result<(), CommitError> {
        let result = self.try_commit(at, pipeline, commit);
        self.commits.add(&result, 1);
        if let (Err(_), Some(pipeline)) = (&result, pipeline) {
            pipeline.poison();
        }
        result
    }

    fn try_commit(
        &self,
        at: u64,
        pipeline: Option<&PipelineHistory>,
        mut commit: Commit,
    ) -> Result<(), CommitError> {
        Limits::LOCAL.check(&commit)?;
        let mut state = self.write();
        if pipeline.is_some_and(PipelineHistory::is_poisoned) {
            return Err(CommitError::Conflict);
        }
        for key in commit.checked_keys() {
            let last = state.last_change(key);
            let is_ours =
                || pipeline.is_some_and(|pipeline| pipeline.wrote(self.hasher.hash_one(key), Version(last)));
            if last > at && !is_ours() {
                return Err(CommitError::Conflict);
            }
        }
        if commit.writes().is_empty() {
            return Ok(());
        }
        let version = self.published() + 1;
        if let Some(pipeline) = pipeline {
            let hashes = commit.writes().iter().map(|write| self.hasher.hash_one(write.key()));
            pipeline.record(hashes, Version(version));
        }
        for write in commit.take_writes() {
            state.apply(version, write);
        }
        if !state.held.is_empty() && self.ended.swap(false, Ordering::Relaxed) {
            state.requeue_held();
        }
        let (oldest, old) = self.live_versions(version - 1);
        state.drop_unseen(oldest, &old, version);
        *self.published.write() = version;
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, VersionedRows> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, VersionedRows> {
        self.state.write()
    }

    fn published(&self) -> u64 {
        *self.published.read()
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.live.lock()
    }

    /// The oldest version that a young transaction reads, and those of all old ones.
    fn live_versions(&self, published: u64) -> (u64, Vec<u64>) {
        let live = self.live();
        let young_from = published.saturating_sub(YOUNG_COMMITS);
        let oldest = live.range(young_from..).next().map_or(published, |(version, _)| *version);
        (oldest, live.range(..young_from).map(|(version, _)| *version).collect())
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

    /// Makes keys stale again that were kept for an old transaction.
    fn requeue_held(&mut self) {
        for key in std::mem::take(&mut self.held) {
            if let Some((version, _)) = self.rows.get(&key).and_then(|versions| versions.last()) {
                self.stale.push_back((*version, key));
            }
        }
    }

    /// Drops the versions that no snapshot from `oldest` on can see, nor one of the `old` ones before it.
    fn drop_unseen(&mut self, oldest: u64, old: &[u64], now: u64) {
        while let Some((version, key)) = pop_until(&mut self.stale, oldest) {
            let Some(versions) = self.rows.get_mut(&key) else { continue };
            let seen = versions.partition_point(|(version, _)| *version <= oldest);
            if keep_for(old, versions, seen) {
                self.held.insert(key);
            } else if matches!(versions.as_slice(), [(last, None)] if *last == version) {
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

/// Drops those of the first `seen` versions, but for the last of them, that none of the `old` snapshots sees. Returns whether
/// any is left.
fn keep_for(old: &[u64], versions: &mut Versions, seen: usize) -> bool {
    let unseen = seen.saturating_sub(1);
    if old.is_empty() {
        versions.drain(..unseen);
        return false;
    }
    let ends: Vec<u64> = versions.iter().skip(1).take(unseen).map(|(version, _)| *version).collect();
    let (mut index, mut kept) = (0, 0);
    versions.retain(|(version, _)| {
        let end = ends.get(index);
        index += 1;
        let is_seen = end.is_none_or(|end| old.iter().any(|old| (*version..*end).contains(old)));
        kept += usize::from(end.is_some() && is_seen);
        is_seen
    });
    kept > 0
}

/// Takes the first entry if it is not newer than `version`.
fn pop_until(queue: &mut VecDeque<(u64, Key)>, version: u64) -> Option<(u64, Key)> {
    let is_due = queue.front().is_some_and(|(first, _)| *first <= version);
    if is_due { queue.pop_front() } else { None }
}

/// A transaction of a [`MemoryEngine`].
pub struct MemoryTransaction {
    store: Arc<MemoryStore>,
    at: u64,
}

impl MemoryTransaction {
    fn visible<'a>(&self, versions: &'a Versions) -> Option<&'a Value> {
        versions.iter().rev().find(|(version, _)| *version <= self.at).and_then(|(_, value)| value.as_ref())
    }

    fn value(&self, rows: &VersionedRows, key: &[u8]) -> Option<Value> {
        rows.rows.get(key).and_then(|versions| self.visible(versions)).cloned()
    }
}

impl Snapshot for MemoryTransaction {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        Ok(self.value(&self.store.read(), key))
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        let rows = self.store.read();
        Ok(keys.iter().map(|key| self.value(&rows, key)).collect())
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
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

impl Transaction for MemoryTransaction {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.store.commit(self.at, None, commit)
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        let mut live = self.store.live();
        if let Some(count) = live.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.at);
                self.store.ended.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// A pipeline of commits of a [`MemoryEngine`].
pub struct MemoryPipeline {
    base: MemoryTransaction,
    history: PipelineHistory,
}

impl Snapshot for MemoryPipeline {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.base.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.base.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.base.scan(range, limit).await
    }
}

impl CommitPipeline for MemoryPipeline {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        std::future::ready(self.base.store.commit(self.base.at, Some(&self.history), commit))
    }

    fn is_ended(&self) -> bool {
        self.history.is_poisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_kept_for_snapshots_that_are_gone() {
        let engine = MemoryEngine::new();
        for number in 0..3 * TOMBSTONE_RETENTION {
            let gone = Key::from(format!("gone {number}"));
            let value = Value::from(number.to_string());
            let put = vec![Write::Put("kept".into(), value.clone()), Write::Put(gone.clone(), value)];
            for writes in [put, vec![Write::Delete(gone)]] {
                let transaction = engine.begin().await.expect("memory does not fail");
                transaction.commit(writes.into()).await.expect("nobody else writes");
            }
        }
        let state = engine.store.read();
        assert!(state.rows.len() as u64 <= TOMBSTONE_RETENTION + 1, "{} rows", state.rows.len());
        assert!(state.rows.values().map(Vec::len).max() <= Some(2));
        assert!(state.stale.len() + state.tombstones.len() <= TOMBSTONE_RETENTION as usize + 2);
    }

    #[tokio::test]
    async fn a_transaction_that_is_held_keeps_what_it_sees_and_nothing_else() {
        let engine = MemoryEngine::new();
        let put = |key: &str, value: u64| Write::Put(Key::from(key.to_owned()), value.to_string().into());
        let commit = async |writes: Vec<Write>| {
            let transaction = engine.begin().await.expect("memory does not fail");
            transaction.commit(writes.into()).await.expect("nobody else writes");
        };
        commit(vec![put("hot", 0), put("deleted", 0), put("kept", 0)]).await;
        let held = engine.begin().await.expect("memory does not fail");
        let see = async || {
            let keys = ["hot", "deleted", "kept"].map(|key| Key::from(key.to_owned()));
            let values = held.get_many(&keys).await.expect("memory does not fail");
            assert!(values.iter().all(|value| value.as_deref() == Some(b"0")), "{values:?}");
        };
        commit(vec![Write::Delete("deleted".into())]).await;
        for number in 1..4 * YOUNG_COMMITS {
            let fresh = format!("fresh {number}");
            commit(vec![put("hot", number), put(&fresh, number)]).await;
            commit(vec![Write::Delete(fresh.into())]).await;
        }
        see().await;
        {
            let state = engine.store.read();
            assert!(state.rows.len() as u64 <= TOMBSTONE_RETENTION + YOUNG_COMMITS, "{}", state.rows.len());
            let versions: usize = state.rows.values().map(Vec::len).sum();
            assert!(versions as u64 <= 2 * (TOMBSTONE_RETENTION + YOUNG_COMMITS), "{versions}");
            assert!(state.held.len() <= 3, "{}", state.held.len());
            assert!(state.stale.len() as u64 <= 2 * YOUNG_COMMITS, "{}", state.stale.len());
        }
        drop(held);
        for number in 0..2 * TOMBSTONE_RETENTION {
            commit(vec![put("hot", number)]).await;
        }
        let state = engine.store.read();
        let rows: Vec<&Key> = state.rows.keys().collect();
        assert_eq!(rows, [&Key::from("hot"), &Key::from("kept")]);
        assert!(state.rows.values().all(|versions| versions.len() <= 2));
        assert!(state.held.is_empty() && state.tombstones.is_empty());
    }
}
