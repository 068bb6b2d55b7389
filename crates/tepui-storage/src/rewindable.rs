//! An engine with named snapshots that it can be rewound to, for servers that are test benches.
//!
//! A snapshot is a transaction of the engine below that is held, and the set of keys that were written since. Taking one costs
//! nothing that grows with what is stored; rewinding reads the keys of the set as the held transaction sees them, and writes
//! back those that differ. The engine below must be able to hold a transaction for long: those of this workspace are.
//!
//! | What | Costs |
//! | --- | --- |
//! | a key that was written since a snapshot, once | its bytes and about 80 more, in memory |
//! | what a snapshot sees and was overwritten or deleted since | stays where it was, in memory or on disk |
//!
//! Snapshots are in memory: they end with the process. `rewindable/exclusive.rs` takes them and goes back to them.

mod exclusive;

pub use exclusive::{Exclusive, Rewound};

use crate::{
    Commit, CommitError, CommitPipeline, Engine, Key, KeyRange, Limits, ScanLimit, ScanPage, Snapshot,
    StorageError, Transaction, Value,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::task::JoinHandle;

/// The most snapshots at a time.
pub const MAX_SNAPSHOTS: usize = 100;

/// An engine that has snapshots if they are [on](Self::on), and otherwise is the one below.
pub struct RewindableEngine<E: Engine> {
    inner: Arc<E>,
    history: Option<Arc<History<E::Transaction>>>,
}

struct History<T> {
    /// Held shared by each commit until its outcome is known, and while a transaction begins; alone by [`Exclusive`].
    gate: Arc<RwLock<()>>,
    /// Raised by each change of [`Exclusive`]: transactions that began before it commit nothing any more.
    generation: AtomicU64,
    snapshots: Mutex<Snapshots<T>>,
}

struct Snapshots<T> {
    /// The oldest first. Where the state differs from one of them, the key is in its set or in one after it.
    list: Vec<NamedSnapshot<T>>,
    /// Keys of commits whose outcome is unknown: they may change at any time.
    unsettled: HashSet<Key>,
    /// Why the state is neither what it was nor a snapshot.
    mixed: Option<String>,
}

struct NamedSnapshot<T> {
    name: String,
    state: Arc<T>,
    /// The keys written since, up to the next snapshot.
    written: HashSet<Key>,
}

/// A snapshot in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    pub name: String,
    /// The keys that were written since. Rewinding looks at these.
    pub written_keys: usize,
}

/// Why a snapshot was not taken.
#[derive(Debug)]
pub enum SnapshotError {
    /// There is one of this name.
    Exists,
    /// There are [`MAX_SNAPSHOTS`].
    TooMany,
    Storage(StorageError),
}

impl<E: Engine> RewindableEngine<E> {
    /// The engine itself.
    pub fn off(inner: Arc<E>) -> Self {
        Self { inner, history: None }
    }

    /// With snapshots.
    pub fn on(inner: Arc<E>) -> Self {
        let snapshots = Snapshots { list: Vec::new(), unsettled: HashSet::new(), mixed: None };
        let history =
            History { gate: Arc::default(), generation: AtomicU64::new(0), snapshots: Mutex::new(snapshots) };
        Self { inner, history: Some(Arc::new(history)) }
    }

    /// The snapshots, the oldest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let Some(history) = &self.history else { return Vec::new() };
        let snapshots = history.snapshots.lock();
        let mut written = HashSet::new();
        let mut infos: Vec<SnapshotInfo> = Vec::new();
        for snapshot in snapshots.list.iter().rev() {
            written.extend(&snapshot.written);
            infos.push(SnapshotInfo { name: snapshot.name.clone(), written_keys: written.len() });
        }
        infos.reverse();
        infos
    }

    pub fn has_snapshots(&self) -> bool {
        self.history.as_ref().is_some_and(|history| !history.snapshots.lock().list.is_empty())
    }

    /// Deletes a snapshot. Returns whether there was one.
    pub fn delete_snapshot(&self, name: &str) -> bool {
        let Some(history) = &self.history else { return false };
        let mut snapshots = history.snapshots.lock();
        let Some(index) = snapshots.list.iter().position(|snapshot| snapshot.name == name) else {
            return false;
        };
        let mut deleted = snapshots.list.remove(index);
        if let Some(before) = index.checked_sub(1).and_then(|index| snapshots.list.get_mut(index)) {
            // Sets are large: the smaller one is moved.
            if before.written.len() < deleted.written.len() {
                std::mem::swap(&mut before.written, &mut deleted.written);
            }
            before.written.extend(deleted.written.drain());
        }
        drop(snapshots);
        // Without the lock: it may be the last to hold files or memory.
        drop(deleted);
        true
    }

    /// Waits until no commit is under way, and lets nobody else begin or commit until the result is dropped. Fails after `wait`,
    /// or if snapshots are off.
    pub async fn exclusive(&self, wait: Duration) -> Result<Exclusive<E>, StorageError> {
        let history = self.history.as_ref();
        let history = history.ok_or_else(|| StorageError::failed("the engine has no snapshots"))?;
        let alone = tokio::time::timeout(wait, Arc::clone(&history.gate).write_owned()).await;
        let alone = alone.map_err(|_| StorageError::unavailable("commits are under way for too long"))?;
        Ok(Exclusive::new(Arc::clone(&self.inner), Arc::clone(history), alone))
    }
}

impl<T> History<T> {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Notes that keys are about to be written.
    fn record<'a>(&self, keys: impl Iterator<Item = &'a Key>) {
        if let Some(newest) = self.snapshots.lock().list.last_mut() {
            for key in keys {
                if !newest.written.contains(key) {
                    // A copy, because the key may be a slice of something larger.
                    newest.written.insert(Key::copy_from_slice(key));
                }
            }
        }
    }

    /// Notes that keys may be written at any time from now on.
    fn record_unsettled(&self, keys: Vec<Key>) {
        self.record(keys.iter());
        self.snapshots.lock().unsettled.extend(keys);
    }

    /// Waits for the outcome of a commit, whether or not its caller does, and keeps the gate open meanwhile.
    fn settle(
        self: Arc<Self>,
        open: OwnedRwLockReadGuard<()>,
        keys: Vec<Key>,
        commit: impl Future<Output = Result<(), CommitError>> + Send + 'static,
    ) -> JoinHandle<Result<(), CommitError>>
    where
        T: Send + Sync + 'static,
    {
        tokio::spawn(async move {
            let outcome = commit.await;
            if matches!(outcome, Err(CommitError::Unknown(_))) {
                self.record_unsettled(keys);
            }
            drop(open);
            outcome
        })
    }

    /// Fails if the state is no state to be read.
    fn check(&self) -> Result<(), StorageError> {
        match &self.snapshots.lock().mixed {
            None => Ok(()),
            Some(why) => Err(StorageError::unavailable(format!("a rewind failed half-way: {why}"))),
        }
    }
}

/// The outcome of [`History::settle`].
async fn settled(task: JoinHandle<Result<(), CommitError>>) -> Result<(), CommitError> {
    task.await.unwrap_or_else(|panic| Err(CommitError::Unknown(panic.to_string())))
}

impl<E: Engine> Engine for RewindableEngine<E> {
    type Transaction = RewindableTransaction<E::Transaction>;
    type Pipeline = RewindablePipeline<E::Pipeline, E::Transaction>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        let Some(history) = &self.history else {
            return Ok(RewindableTransaction { inner: self.inner.begin().await?, history: None });
        };
        let (_open, began) = began(history).await?;
        Ok(RewindableTransaction { inner: self.inner.begin().await?, history: Some(began) })
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        let Some(history) = &self.history else { return self.inner.get_many(keys).await };
        let (_open, _) = began(history).await?;
        self.inner.get_many(keys).await
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        let Some(history) = &self.history else {
            let inner = self.inner.begin_pipeline().await?;
            return Ok(RewindablePipeline { inner, history: None, is_refused: AtomicBool::new(false) });
        };
        let (_open, began) = began(history).await?;
        let inner = self.inner.begin_pipeline().await?;
        Ok(RewindablePipeline { inner, history: Some(began), is_refused: AtomicBool::new(false) })
    }

    /// Refused while there are snapshots, which may see the rows.
    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        if self.has_snapshots() {
            return Err(StorageError::unavailable("nothing is reclaimed while there are snapshots"));
        }
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        if let Some(history) = &self.history {
            history.check()?;
        }
        self.inner.health().await
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

/// The engine's history, and the generation in which something began.
type Began<T> = (Arc<History<T>>, u64);

async fn began<T>(
    history: &Arc<History<T>>,
) -> Result<(tokio::sync::RwLockReadGuard<'_, ()>, Began<T>), StorageError> {
    let open = history.gate.read().await;
    history.check()?;
    Ok((open, (Arc::clone(history), history.generation())))
}

/// A transaction of a [`RewindableEngine`].
pub struct RewindableTransaction<T> {
    inner: T,
    history: Option<Began<T>>,
}

impl<T: Snapshot> Snapshot for RewindableTransaction<T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.inner.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.inner.scan(range, limit).await
    }

    async fn first(&self, range: &KeyRange) -> Result<Option<(Key, Value)>, StorageError> {
        self.inner.first(range).await
    }

    async fn scan_some(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.inner.scan_some(range, limit).await
    }
}

impl<T: Transaction> Transaction for RewindableTransaction<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        let Some((history, generation)) = self.history else { return self.inner.commit(commit).await };
        let open = Arc::clone(&history.gate).read_owned().await;
        if history.generation() != generation {
            return Err(CommitError::Conflict);
        }
        let keys: Vec<Key> = commit.writes().iter().map(|write| write.key().clone()).collect();
        history.record(keys.iter());
        settled(history.settle(open, keys, self.inner.commit(commit))).await
    }
}

/// A pipeline of a [`RewindableEngine`].
pub struct RewindablePipeline<P, T> {
    inner: P,
    history: Option<Began<T>>,
    /// A commit came while the gate was closed, and none after it succeeds.
    is_refused: AtomicBool,
}

impl<P: Snapshot, T: Transaction> Snapshot for RewindablePipeline<P, T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.inner.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.inner.scan(range, limit).await
    }

    async fn first(&self, range: &KeyRange) -> Result<Option<(Key, Value)>, StorageError> {
        self.inner.first(range).await
    }

    async fn scan_some(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.inner.scan_some(range, limit).await
    }
}

impl<P: CommitPipeline, T: Transaction> CommitPipeline for RewindablePipeline<P, T> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let submitted = match &self.history {
            None => Submitted::Inner(self.inner.submit(commit)),
            Some((history, generation)) => {
                // If it is closed, what the pipeline rests on is about to change.
                let open = Arc::clone(&history.gate).try_read_owned().ok();
                match open.filter(|_| history.generation() == *generation) {
                    None => {
                        self.is_refused.store(true, Ordering::Release);
                        Submitted::Refused
                    }
                    Some(_) if self.is_refused.load(Ordering::Acquire) => Submitted::Refused,
                    Some(open) => {
                        let keys: Vec<Key> =
                            commit.writes().iter().map(|write| write.key().clone()).collect();
                        history.record(keys.iter());
                        let outcome = self.inner.submit(commit);
                        Submitted::Watched(Arc::clone(history).settle(open, keys, outcome))
                    }
                }
            }
        };
        async move {
            match submitted {
                Submitted::Inner(outcome) => outcome.await,
                Submitted::Watched(task) => settled(task).await,
                Submitted::Refused => Err(CommitError::Conflict),
            }
        }
    }

    fn is_ended(&self) -> bool {
        let is_outdated = |(history, generation): &Began<T>| history.generation() != *generation;
        self.is_refused.load(Ordering::Acquire)
            || self.history.as_ref().is_some_and(is_outdated)
            || self.inner.is_ended()
    }
}

enum Submitted<F> {
    Inner(F),
    Watched(JoinHandle<Result<(), CommitError>>),
    Refused,
}

#[cfg(test)]
mod tests;
