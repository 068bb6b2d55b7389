//! Transactions and pipelines: reads of one published view, and commits that wait for the committer.

use super::committer::{CommitKind, CommitQueue, PendingCommit};
use super::lsm_store::Purpose;
use super::published_view::SnapshotView;
use crate::blocking::{self, ReadMode};
use crate::lsm::ReadError;
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::versions::PipelineHistory;
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Key, KeyRange, Limits, ScanLimit, ScanPage, Snapshot, StorageError,
    StorageErrorKind, Transaction, Value,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A transaction of a [`DiskEngine`](super::DiskEngine). Until it ends, what it reads is kept, in memory and on disk.
pub struct DiskTransaction {
    pub(super) view: Arc<SnapshotView>,
    pub(super) queue: Arc<CommitQueue>,
    pub(super) commit_wait: Duration,
}

impl DiskTransaction {
    pub(crate) fn view(&self) -> &SnapshotView {
        &self.view
    }

    /// Reads at once what is in memory, otherwise on a thread for blocking work.
    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&SnapshotView, ReadMode) -> Result<T, ReadError>,
        again: impl FnOnce() -> Box<dyn FnOnce(&SnapshotView) -> Result<T, ReadError> + Send>,
    ) -> Result<T, StorageError> {
        match read(&self.view, ReadMode::Cached) {
            Err(ReadError::WouldBlock) => {}
            done => return done.map_err(|error| self.counted(error.into())),
        }
        let (view, again) = (Arc::clone(&self.view), again());
        let answer = blocking::spawn(&**self.view.tree.files(), move || again(&view));
        let stopped = |_| StorageError::unavailable("the program is ending");
        answer.await.map_err(stopped)?.map_err(|error| self.counted(error.into()))
    }

    /// Counts a failed read, if what is stored is damaged.
    fn counted(&self, error: StorageError) -> StorageError {
        if error.kind() == StorageErrorKind::Corrupt {
            self.view.tree.counters().corrupt_reads.add(1);
        }
        error
    }

    /// Queues a commit.
    fn submit(
        &self,
        pipeline: Option<&PipelineHistory>,
        commit: Commit,
    ) -> Result<CommitReply, StorageError> {
        Limits::LOCAL.check(&commit)?;
        let kind = CommitKind::Checked { at: self.view.version, pipeline: pipeline.cloned() };
        submit(&self.queue, kind, commit)
    }
}

impl Snapshot for DiskTransaction {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        let again = || -> Box<dyn FnOnce(&SnapshotView) -> _ + Send> {
            let key = Key::copy_from_slice(key);
            Box::new(move |view| view.get(&key, ReadMode::Blocking))
        };
        self.read(|view, mode| view.get(key, mode), again).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            match self.view.get(key, ReadMode::Cached) {
                Ok(value) => values.push(value),
                Err(ReadError::WouldBlock) => break,
                Err(error) => return Err(self.counted(error.into())),
            }
        }
        if let Some(rest) = keys.get(values.len()..).filter(|rest| !rest.is_empty()) {
            // If one is not in memory, others may not be either: one thread reads them all.
            let (view, rest) = (Arc::clone(&self.view), rest.to_vec());
            let answer = blocking::spawn(&**self.view.tree.files(), move || {
                rest.iter().map(|key| view.get(key, ReadMode::Blocking)).collect::<Result<Vec<_>, _>>()
            });
            let stopped = |_| StorageError::unavailable("the program is ending");
            let found = answer.await.map_err(stopped)?;
            values.extend(found.map_err(|error| self.counted(error.into()))?);
        }
        Ok(values)
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        let Some(bounds) = Limits::LOCAL.bounds(range) else { return Ok(ScanPage::default()) };
        let again = || -> Box<dyn FnOnce(&SnapshotView) -> _ + Send> {
            let range = range.clone();
            Box::new(move |view| {
                let Some(bounds) = Limits::LOCAL.bounds(&range) else { return Ok(ScanPage::default()) };
                view.read_view.scan(bounds, limit, view.seq_no, ReadMode::Blocking)
            })
        };
        self.read(|view, mode| view.read_view.scan(bounds, limit, view.seq_no, mode), again).await
    }
}

impl Transaction for DiskTransaction {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        let (submitted, commit_wait) = (self.submit(None, commit)?, self.commit_wait);
        // What was read need not be kept during the fsync.
        drop(self);
        outcome(submitted, commit_wait).await
    }
}

/// A pipeline of commits of a [`DiskEngine`](super::DiskEngine).
pub struct DiskPipeline {
    pub(super) base: DiskTransaction,
    pub(super) history: PipelineHistory,
}

impl Snapshot for DiskPipeline {
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

impl CommitPipeline for DiskPipeline {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let submitted = self.base.submit(Some(&self.history), commit);
        if submitted.is_err() {
            self.history.poison();
        }
        let commit_wait = self.base.commit_wait;
        async move { outcome(submitted?, commit_wait).await }
    }

    fn is_ended(&self) -> bool {
        self.history.is_poisoned()
    }
}

/// Queues a commit.
pub(super) fn submit(
    queue: &CommitQueue,
    kind: CommitKind,
    commit: Commit,
) -> Result<CommitReply, StorageError> {
    // A commit without writes takes no space: it only waits for those before it.
    let takes_space = !commit.frees_space() && !commit.writes().is_empty();
    let purpose = if takes_space { Purpose::Ordinary } else { Purpose::FreesSpace };
    let (reply, answer) = oneshot::channel();
    queue.submit(PendingCommit { kind, purpose, commit, queued: Instant::now(), reply })?;
    Ok(answer)
}

pub(super) type CommitReply = oneshot::Receiver<Result<(), CommitError>>;

pub(super) async fn outcome(answer: CommitReply, wait: Duration) -> Result<(), CommitError> {
    match tokio::time::timeout(wait, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(CommitError::Unknown("the committer stopped".into())),
        Err(_) => Err(CommitError::Unknown("the committer did not answer in time".into())),
    }
}
