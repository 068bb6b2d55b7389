//! Snapshots are taken, and gone back to, while nobody else uses the engine.

use super::{History, MAX_SNAPSHOTS, NamedSnapshot, SnapshotError, Snapshots};
use crate::{
    Commit, CommitError, Engine, Key, Limits, Snapshot as _, StorageError, Transaction as _, Value, Write,
};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::OwnedRwLockWriteGuard;

/// How much a commit of [`Exclusive::rewind`] writes, approximately. Most rewinds are one commit.
const REWIND_BYTES: usize = 16 << 20;
/// How many keys it looks at, at a time.
const REWIND_KEYS: usize = 4096;

/// What a key is to have after a rewind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewound {
    pub value: Option<Value>,
    /// A write of another key that follows from it.
    pub also: Option<Write>,
}

/// The engine alone: nobody else begins or commits anything until it is dropped.
pub struct Exclusive<E: Engine> {
    inner: Arc<E>,
    history: Arc<History<E::Transaction>>,
    _alone: OwnedRwLockWriteGuard<()>,
}

impl<E: Engine> Exclusive<E> {
    pub(super) fn new(
        inner: Arc<E>,
        history: Arc<History<E::Transaction>>,
        alone: OwnedRwLockWriteGuard<()>,
    ) -> Self {
        Self { inner, history, _alone: alone }
    }

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
