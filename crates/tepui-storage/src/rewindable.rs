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
//! Snapshots are in memory: they end with the process.

use crate::{
    Commit, CommitError, CommitPipeline, Engine, Key, KeyRange, Limits, ScanLimit, ScanPage, Snapshot,
    StorageError, Transaction, Value, Write,
};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinHandle;

/// The most snapshots at a time.
pub const MAX_SNAPSHOTS: usize = 100;

/// How much a commit of [`Exclusive::rewind`] writes, approximately. Most rewinds are one commit.
const REWIND_BYTES: usize = 16 << 20;
/// How many keys it looks at, at a time.
const REWIND_KEYS: usize = 4096;

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

/// What a key is to have after a rewind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewound {
    pub value: Option<Value>,
    /// A write of another key that follows from it.
    pub also: Option<Write>,
}

/// A rewind under way.
#[derive(Default)]
struct Rewind {
    /// Keys that do not have what the snapshot has.
    kept: Vec<Key>,
    seen: usize,
    written: usize,
    /// Something may have been written.
    has_begun: bool,
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
        Ok(Exclusive { inner: Arc::clone(&self.inner), history: Arc::clone(history), _alone: alone })
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

    fn is_poisoned(&self) -> bool {
        let is_outdated = |(history, generation): &Began<T>| history.generation() != *generation;
        self.is_refused.load(Ordering::Acquire)
            || self.history.as_ref().is_some_and(is_outdated)
            || self.inner.is_poisoned()
    }
}

enum Submitted<F> {
    Inner(F),
    Watched(JoinHandle<Result<(), CommitError>>),
    Refused,
}

/// The engine alone: nobody else begins or commits anything until it is dropped.
pub struct Exclusive<E: Engine> {
    inner: Arc<E>,
    history: Arc<History<E::Transaction>>,
    _alone: OwnedRwLockWriteGuard<()>,
}

impl<E: Engine> Exclusive<E> {
    /// The current state.
    pub async fn begin(&self) -> Result<E::Transaction, StorageError> {
        self.inner.begin().await
    }

    pub fn limits(&self) -> Limits {
        self.inner.limits()
    }

    /// Takes a snapshot.
    pub async fn take_snapshot(&self, name: &str) -> Result<(), SnapshotError> {
        let state = self.inner.begin().await.map_err(SnapshotError::Storage)?;
        let mut snapshots = self.history.snapshots.lock();
        if snapshots.list.iter().any(|snapshot| snapshot.name == name) {
            return Err(SnapshotError::Exists);
        }
        if snapshots.list.len() >= MAX_SNAPSHOTS {
            return Err(SnapshotError::TooMany);
        }
        let written = snapshots.unsettled.clone();
        snapshots.list.push(NamedSnapshot { name: name.to_owned(), state: Arc::new(state), written });
        Ok(())
    }

    /// Commits changes that others are to see as one with those that follow, until this is dropped. What others have begun
    /// before commits nothing any more.
    pub async fn commit(&self, transaction: E::Transaction, commit: Commit) -> Result<(), CommitError> {
        self.history.generation.fetch_add(1, Ordering::AcqRel);
        let keys: Vec<Key> = commit.writes().iter().map(|write| write.key().clone()).collect();
        self.history.record(keys.iter());
        let outcome = transaction.commit(commit).await;
        if matches!(outcome, Err(CommitError::Unknown(_))) {
            self.history.record_unsettled(keys);
        }
        outcome
    }

    /// Goes back to a snapshot, and returns how many keys were written; `None` if there is no such snapshot. All snapshots stay.
    ///
    /// `decide` says what a key is to have, by what it has now and what it has in the snapshot. Keys come in their order. If
    /// it fails when something may have been written, nothing can be read until a rewind succeeds.
    pub async fn rewind<F: From<CommitError>>(
        &self,
        name: &str,
        decide: impl Fn(&Key, Option<&Value>, Option<&Value>) -> Result<Rewound, F>,
    ) -> Result<Option<usize>, F> {
        let Some((target, keys)) = self.written_since(name) else { return Ok(None) };
        let keys: Vec<Key> = keys.into_iter().collect();
        let mut rewind = Rewind::default();
        match self.write_back(&*target, &keys, &mut rewind, decide).await {
            Ok(()) => {
                self.finish_rewind(name, rewind.kept);
                Ok(Some(rewind.written))
            }
            Err(error) => {
                if rewind.has_begun {
                    let why = format!("{} of {} keys were looked at", rewind.seen, keys.len());
                    self.history.snapshots.lock().mixed = Some(why);
                }
                Err(error)
            }
        }
    }

    /// Writes what keys are to have, in as few commits as possible.
    async fn write_back<F: From<CommitError>>(
        &self,
        target: &E::Transaction,
        keys: &[Key],
        rewind: &mut Rewind,
        decide: impl Fn(&Key, Option<&Value>, Option<&Value>) -> Result<Rewound, F>,
    ) -> Result<(), F> {
        let storage = |error: StorageError| F::from(CommitError::Storage(error));
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for chunk in keys.chunks(REWIND_KEYS) {
            let now = self.begin().await.map_err(storage)?;
            let before = now.get_many(chunk).await.map_err(storage)?;
            let wanted = target.get_many(chunk).await.map_err(storage)?;
            for ((key, before), wanted) in chunk.iter().zip(before).zip(wanted) {
                let Rewound { value, also } = decide(key, before.as_ref(), wanted.as_ref())?;
                if value != wanted {
                    rewind.kept.push(key.clone());
                }
                rewind.kept.extend(also.as_ref().map(|also| also.key().clone()));
                let write = (value != before).then(|| match value {
                    Some(value) => Write::Put(key.clone(), value),
                    None => Write::Delete(key.clone()),
                });
                for write in write.into_iter().chain(also) {
                    bytes += write.bytes();
                    writes.push(write);
                }
                if bytes >= REWIND_BYTES {
                    self.commit_back(std::mem::take(&mut writes), rewind).await?;
                    bytes = 0;
                }
            }
            rewind.seen += chunk.len();
            tokio::task::yield_now().await;
        }
        if !writes.is_empty() {
            self.commit_back(writes, rewind).await?;
        }
        Ok(())
    }

    async fn commit_back(&self, writes: Vec<Write>, rewind: &mut Rewind) -> Result<(), CommitError> {
        let count = writes.len();
        let transaction = self.begin().await?;
        let outcome = self.commit(transaction, Commit::from(writes).with_frees_space(true)).await;
        rewind.has_begun |= matches!(outcome, Ok(()) | Err(CommitError::Unknown(_)));
        rewind.written += count;
        outcome
    }

    /// Keys that may differ from a snapshot, and its state.
    fn written_since(&self, name: &str) -> Option<(Arc<E::Transaction>, BTreeSet<Key>)> {
        let snapshots = self.history.snapshots.lock();
        let index = snapshots.list.iter().position(|snapshot| snapshot.name == name)?;
        let since = snapshots.list.get(index..)?;
        let keys = since.iter().flat_map(|snapshot| &snapshot.written).cloned().collect();
        Some((Arc::clone(&since.first()?.state), keys))
    }

    /// The state is that of a snapshot, but for the keys `kept`.
    fn finish_rewind(&self, name: &str, kept: Vec<Key>) {
        let mut snapshots = self.history.snapshots.lock();
        let Snapshots { list, unsettled, mixed } = &mut *snapshots;
        *mixed = None;
        let Some(index) = list.iter().position(|snapshot| snapshot.name == name) else { return };
        let mut differing: HashSet<Key> = unsettled.clone();
        differing.extend(kept);
        if let Some((newest, others)) = list.split_last_mut() {
            // What was written after the newest one is as it was again, unless it was written between the others, too.
            differing.extend(others.iter().skip(index).flat_map(|snapshot| snapshot.written.iter().cloned()));
            newest.written = differing;
        }
    }
}

#[cfg(test)]
mod tests;
