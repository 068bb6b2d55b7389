//! The engine that keeps everything in memory, for tests and for data that may be lost.
//!
//! Every key has a short chain of versions. A snapshot is a number and a place in the list of live
//! snapshots; versions that no live snapshot can see are dropped while later commits are made.

use crate::{
    Chain, Commit, CommitError, Engine, EngineError, Key, KeyRange, ScanLimit, ScanPage, Snapshot, Value,
    Version, Write,
};
use crate::{changes_catalogue, limits};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How many commits a deletion is remembered for, so that a commit that rests on the deleted key
/// is refused. A commit with an older snapshot is refused whenever it meets a key that is not there.
const DELETION_MEMORY: u64 = 4096;

/// How many rows `reclaim` removes before it lets others in.
const RECLAIM_STEP: usize = 1024;

/// Keeps everything in memory. A clone is the same store.
///
/// ```
/// # use tepui_engine::{Engine, MemoryEngine, Snapshot, Write};
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
    store: Arc<Store>,
}

#[derive(Default)]
struct Store {
    state: RwLock<State>,
    /// What readers may see. Changed only while `state` is locked for writing.
    published: RwLock<Published>,
    live: Mutex<BTreeMap<u64, usize>>,
    /// Of the keys that chains remember.
    hasher: RandomState,
}

#[derive(Default, Clone, Copy)]
struct Published {
    version: u64,
    catalogue_version: u64,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<Key, Versions>,
    /// Keys that have something to drop once no snapshot is older than the version beside them.
    stale: VecDeque<(u64, Key)>,
    /// Keys of which nothing is left but a deletion, and its version.
    deleted: VecDeque<(u64, Key)>,
    /// The newest deletion that is no longer remembered.
    forgotten: u64,
}

/// The versions of one key, oldest first. `None` is a deletion.
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
        // Read while `live` is locked: what is dropped is decided under the same lock.
        let at = self.store.published();
        *live.entry(at.version).or_insert(0) += 1;
        drop(live);
        Ok(MemorySnapshot { store: Arc::clone(&self.store), at })
    }

    fn submit(
        &self,
        chain: Option<&Chain>,
        commit: Commit,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let Commit { at, guards, writes, .. } = commit;
        std::future::ready(self.store.commit(chain, at, &guards, writes))
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

impl Store {
    fn commit(
        &self,
        chain: Option<&Chain>,
        at: Version,
        guards: &[Key],
        writes: Vec<Write>,
    ) -> Result<(), CommitError> {
        let result = self.try_commit(chain, at, guards, writes);
        if let (Err(_), Some(chain)) = (&result, chain) {
            chain.break_off();
        }
        result
    }

    fn try_commit(
        &self,
        chain: Option<&Chain>,
        at: Version,
        guards: &[Key],
        writes: Vec<Write>,
    ) -> Result<(), CommitError> {
        limits::check(guards, &writes)?;
        let mut state = self.write();
        if chain.is_some_and(Chain::is_broken) {
            return Err(CommitError::Conflict);
        }
        for key in guards.iter().chain(writes.iter().map(Write::key)) {
            let last = state.last_change(key);
            let is_ours = || chain.is_some_and(|chain| chain.wrote(self.hasher.hash_one(key), Version(last)));
            if last > at.0 && !is_ours() {
                return Err(CommitError::Conflict);
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        let Published { version, catalogue_version } = self.published();
        let version = version + 1;
        let catalogue_version = if changes_catalogue(&writes) { version } else { catalogue_version };
        if let Some(chain) = chain {
            let hashes = writes.iter().map(|write| self.hasher.hash_one(write.key()));
            chain.record(hashes, Version(version));
        }
        for write in writes {
            state.apply(version, write);
        }
        state.drop_unseen(self.oldest_live(version - 1), version);
        *self.published.write().unwrap_or_else(PoisonError::into_inner) =
            Published { version, catalogue_version };
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> Published {
        *self.published.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oldest_live(&self, published: u64) -> u64 {
        self.live().first_key_value().map_or(published, |(version, _)| *version)
    }
}

impl State {
    fn range(&self, start: &[u8], end: &[u8]) -> impl Iterator<Item = (&Key, &Versions)> {
        // An inverted range is empty; `BTreeMap::range` would panic on it.
        let end = end.max(start);
        self.rows.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
    }

    /// Removes the first rows of a range that nobody can reach, and says how many.
    fn remove_some(&mut self, range: &KeyRange) -> usize {
        let rows = self.range(&range.start, &range.end).take(RECLAIM_STEP);
        let keys: Vec<Key> = rows.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.rows.remove(key);
        }
        keys.len()
    }

    fn last_change(&self, key: &[u8]) -> u64 {
        match self.rows.get(key).and_then(|chain| chain.last()) {
            Some((version, _)) => *version,
            None => self.forgotten,
        }
    }

    fn apply(&mut self, version: u64, write: Write) {
        let (key, value) = match write {
            Write::Put(key, value) => (key, Some(value)),
            Write::Delete(key) => (key, None),
        };
        let chain = self.rows.entry(key.clone()).or_default();
        let stale = value.is_none() || !chain.is_empty();
        match chain.last_mut() {
            Some(last) if last.0 == version => last.1 = value,
            _ => chain.push((version, value)),
        }
        if stale {
            self.stale.push_back((version, key));
        }
    }

    /// Drops the versions that no snapshot from `oldest` on can see.
    fn drop_unseen(&mut self, oldest: u64, now: u64) {
        while let Some((version, key)) = pop_until(&mut self.stale, oldest) {
            let Some(chain) = self.rows.get_mut(&key) else { continue };
            let seen = chain.partition_point(|(version, _)| *version <= oldest);
            chain.drain(..seen.saturating_sub(1));
            if matches!(chain.as_slice(), [(last, None)] if *last == version) {
                self.deleted.push_back((version, key));
            }
        }
        let remembered = now.saturating_sub(DELETION_MEMORY);
        while let Some((version, key)) = pop_until(&mut self.deleted, remembered) {
            // It may have come back since.
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
    store: Arc<Store>,
    at: Published,
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
        Ok(state.rows.get(key).and_then(|chain| self.visible(chain)).cloned())
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, EngineError> {
        let state = self.store.read();
        let mut page = ScanPage::default();
        let mut bytes = 0;
        for (key, chain) in state.range(&range.start, &range.end) {
            let Some(value) = self.visible(chain) else { continue };
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
        for number in 0..3 * DELETION_MEMORY {
            let at = engine.snapshot().await.expect("memory does not fail").version();
            let gone = Key::from(format!("gone {number}"));
            let value = Value::from(number.to_string());
            let put = vec![Write::Put("kept".into(), value.clone()), Write::Put(gone.clone(), value)];
            engine.commit(at, vec![], put).await.expect("nobody else writes");
            let at = engine.snapshot().await.expect("memory does not fail").version();
            engine.commit(at, vec![], vec![Write::Delete(gone)]).await.expect("nobody else writes");
        }
        let state = engine.store.read();
        assert!(state.rows.len() as u64 <= DELETION_MEMORY + 1, "{} rows", state.rows.len());
        assert!(state.rows.values().map(Vec::len).max() <= Some(2));
        assert!(state.stale.len() + state.deleted.len() <= DELETION_MEMORY as usize + 2);
    }
}
