//! A pipeline of commits for engines behind a network: one transaction, and one commit for all that is submitted within a
//! short time.

use crate::{
    Commit, CommitError, CommitPipeline, Guard, Key, KeyRange, Limits, ScanLimit, ScanPage, Snapshot,
    StorageError, Transaction, Value, Write,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock, RwLockReadGuard, watch};

/// The commits are gathered until none came for this long, and nobody reads.
const QUIET: Duration = Duration::from_micros(300);
/// And never for longer than this after the first.
const MAX_GATHERING: Duration = Duration::from_millis(2);
/// Unless somebody reads, who would be told that the pipeline has ended, and have to begin again.
const MAX_GATHERING_WITH_READERS: Duration = Duration::from_millis(20);

/// A pipeline that is one transaction.
///
/// Reads run in the transaction. The commits that are submitted are gathered for a short time, merged and committed in it
/// together: all of them succeed, or none does. The pipeline has ended with that: reads fail with
/// [`TooOld`](crate::StorageErrorKind::TooOld), and what is submitted then conflicts, but for a commit of nothing, which
/// succeeds if those before it did. Every answer comes after the outcome is known.
///
/// It runs in a task of its own, so commits have to be submitted within a Tokio runtime.
pub struct TransactionPipeline<T> {
    shared: Arc<Shared<T>>,
    limits: Limits,
}

struct Shared<T> {
    /// `None`: it is being committed, or has been.
    transaction: RwLock<Option<T>>,
    batch: Mutex<Batch>,
    /// Reads under way. Whoever reads may be about to submit another commit.
    reads: Reads,
    outcome: watch::Sender<Option<Result<(), CommitError>>>,
}

/// What was submitted so far.
#[derive(Default)]
struct Batch {
    guards: HashMap<Key, Guard>,
    writes: HashMap<Key, Write>,
    bytes: usize,
    commits: usize,
    keeps_space: bool,
    phase: Phase,
    last: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Empty,
    Gathering,
    /// Nothing is added any more, but what was added will be committed.
    Full,
    /// One that could not be queued was submitted first: nothing will be committed.
    Failed,
}

impl<T: Transaction> TransactionPipeline<T> {
    /// A pipeline on a transaction that has read nothing. `limits` are those of its engine.
    pub fn new(transaction: T, limits: Limits) -> Self {
        let shared = Shared {
            transaction: RwLock::new(Some(transaction)),
            batch: Mutex::default(),
            reads: Reads::default(),
            outcome: watch::Sender::new(None),
        };
        Self { shared: Arc::new(shared), limits }
    }

    /// Adds a commit to the batch, and starts the task that commits it with the first.
    fn add(&self, commit: Commit) -> Result<Added, StorageError> {
        let mut batch = self.shared.batch.lock();
        match batch.phase {
            Phase::Full | Phase::Failed => return Ok(Added::TooLate(batch.phase)),
            Phase::Empty | Phase::Gathering => {}
        }
        if let Err(error) = self.limits.check(&commit) {
            batch.end();
            return Err(error);
        }
        if batch.bytes + commit.bytes() > self.limits.max_commit_bytes {
            batch.end();
            return Ok(Added::TooLate(batch.phase));
        }
        if batch.phase == Phase::Empty {
            let runtime = match Handle::try_current() {
                Ok(runtime) => runtime,
                Err(_) => {
                    batch.end();
                    return Err(StorageError::failed("a commit was submitted outside of a runtime"));
                }
            };
            batch.phase = Phase::Gathering;
            runtime.spawn(commit_batch(Arc::clone(&self.shared)));
        }
        batch.add(commit);
        Ok(Added::Queued)
    }

    /// Lets somebody read in the transaction.
    async fn enter(&self) -> Result<Reading<'_, T>, StorageError> {
        let count = ReadCount::begin(&self.shared.reads);
        let transaction = self.shared.transaction.read().await;
        match RwLockReadGuard::try_map(transaction, Option::as_ref) {
            Ok(transaction) => Ok(Reading { transaction, _count: count }),
            Err(_) => Err(StorageError::too_old("the pipeline has ended")),
        }
    }
}

enum Added {
    Queued,
    TooLate(Phase),
}

/// A read that is under way.
struct Reading<'a, T> {
    transaction: RwLockReadGuard<'a, T>,
    _count: ReadCount<'a>,
}

/// The reads that are under way.
#[derive(Default)]
struct Reads {
    count: AtomicUsize,
    ended: Notify,
}

impl Reads {
    /// Waits until there are none, but not for longer than `limit`. Returns whether there were any.
    async fn wait(&self, limit: Duration) -> bool {
        let ended = self.ended.notified();
        let were_any = self.count.load(Ordering::Acquire) > 0;
        if were_any {
            let _ = tokio::time::timeout(limit, ended).await;
        }
        were_any
    }
}

/// Counts a read until it is dropped.
struct ReadCount<'a>(&'a Reads);

impl<'a> ReadCount<'a> {
    fn begin(reads: &'a Reads) -> Self {
        reads.count.fetch_add(1, Ordering::AcqRel);
        Self(reads)
    }
}

impl Drop for ReadCount<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

impl Batch {
    fn add(&mut self, mut commit: Commit) {
        self.bytes += commit.bytes();
        self.commits += 1;
        self.keeps_space |= !commit.frees_space();
        self.last = Some(Instant::now());
        for guard in commit.guards() {
            let kept = self.guards.entry(guard.key().clone()).or_insert_with(|| guard.clone());
            // The stricter one holds for both.
            if matches!(guard, Guard::Unchanged(_)) {
                *kept = guard.clone();
            }
        }
        for write in commit.take_writes() {
            self.writes.insert(write.key().clone(), write);
        }
    }

    /// Adds nothing any more.
    fn end(&mut self) {
        self.phase = if self.phase == Phase::Empty { Phase::Failed } else { Phase::Full };
    }

    /// The commits as one. A key that is written is guarded by that.
    fn merged(&mut self) -> Commit {
        let writes = std::mem::take(&mut self.writes);
        let guards = std::mem::take(&mut self.guards);
        let guards = guards.into_values().filter(|guard| !writes.contains_key(guard.key())).collect();
        Commit::new(guards, writes.into_values().collect()).with_frees_space(!self.keeps_space)
    }
}

/// Gathers commits until there is a pause, and commits them.
async fn commit_batch<T: Transaction>(shared: Arc<Shared<T>>) {
    gather(&shared).await;
    // Waits for the reads that have begun. Those that begin later find nothing.
    let transaction = shared.transaction.write().await.take();
    let commit = {
        let mut batch = shared.batch.lock();
        batch.end();
        batch.merged()
    };
    let outcome = match transaction {
        Some(transaction) => transaction.commit(commit).await,
        None => Err(CommitError::Conflict),
    };
    shared.outcome.send_replace(Some(outcome));
}

/// Waits for more commits. Timers are too coarse for a pause, so it lets other tasks run until that is over.
async fn gather<T>(shared: &Shared<T>) {
    let began = Instant::now();
    let mut last_read = None;
    loop {
        tokio::task::yield_now().await;
        if shared.reads.wait(MAX_GATHERING_WITH_READERS.saturating_sub(began.elapsed())).await {
            last_read = Some(Instant::now());
        }
        let now = Instant::now();
        let (phase, last) = {
            let batch = shared.batch.lock();
            (batch.phase, batch.last.unwrap_or(began))
        };
        let last = last_read.map_or(last, |read| last.max(read));
        let limit = if last_read.is_some() { MAX_GATHERING_WITH_READERS } else { MAX_GATHERING };
        let is_quiet = now.saturating_duration_since(last) >= QUIET;
        if is_quiet || phase != Phase::Gathering || now.saturating_duration_since(began) >= limit {
            return;
        }
    }
}

/// The outcome of the batch, once it is known.
async fn wait(mut outcome: watch::Receiver<Option<Result<(), CommitError>>>) -> Result<(), CommitError> {
    match outcome.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone().unwrap_or(Err(CommitError::Conflict)),
        Err(_) => Err(CommitError::Unknown("the task that commits was ended".to_owned())),
    }
}

impl<T: Transaction> Snapshot for TransactionPipeline<T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.enter().await?.transaction.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.enter().await?.transaction.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.enter().await?.transaction.scan(range, limit).await
    }
}

impl<T: Transaction> CommitPipeline for TransactionPipeline<T> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let is_nothing = commit.writes().is_empty() && commit.guards().is_empty();
        let added = match self.add(commit) {
            // Nothing was before it.
            Ok(Added::TooLate(Phase::Failed)) => Err(CommitError::Conflict),
            Ok(added) => Ok(added),
            Err(error) => Err(error.into()),
        };
        let outcome = self.shared.outcome.subscribe();
        async move {
            match added? {
                Added::Queued => wait(outcome).await,
                Added::TooLate(_) => {
                    let before = wait(outcome).await;
                    if is_nothing { before } else { Err(CommitError::Conflict) }
                }
            }
        }
    }

    fn is_ended(&self) -> bool {
        matches!(self.shared.batch.lock().phase, Phase::Full | Phase::Failed)
    }
}

#[cfg(test)]
mod tests;
