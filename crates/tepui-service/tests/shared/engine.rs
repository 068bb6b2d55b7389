//! An engine in memory that records scans, counts commits, and fails on demand.

#![allow(dead_code, reason = "not every suite needs all of it")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Engine, Key, KeyRange, Limits, MemoryEngine, ScanLimit, ScanPage,
    Snapshot, StorageError, Transaction, Value, Write,
};

#[derive(Clone)]
pub(crate) struct TestEngine {
    inner: Arc<MemoryEngine>,
    control: Control,
    /// Whether commits of pipelines complete late.
    is_late: bool,
}

pub(crate) type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What its transactions do, and what they have done.
#[derive(Clone, Default)]
pub(crate) struct Control {
    pub(crate) scanned: Arc<Mutex<Scanned>>,
    /// What becomes of the next commit.
    pub(crate) fault: Arc<Mutex<Option<Fault>>>,
    pub(crate) meanwhile: Arc<Mutex<Option<BoxFuture>>>,
    /// How often the next commits let others run before they begin.
    pub(crate) delays: Arc<Mutex<VecDeque<usize>>>,
    /// After how many reads the next transactions are too old.
    pub(crate) reads_left: Arc<Mutex<VecDeque<usize>>>,
    /// If not 0: every eighth transaction is too old after some reads, at random.
    random: Arc<AtomicU64>,
    /// Commits that have written something.
    pub(crate) commits: Arc<AtomicU64>,
    /// Transactions that have begun and not ended.
    open: Arc<AtomicUsize>,
    /// How many were open each time that something was reclaimed.
    pub(crate) open_at_reclaim: Arc<Mutex<Vec<usize>>>,
    /// The most rows that many commits guard that one of them has written.
    pub(crate) most_shared_writes: Arc<AtomicUsize>,
    /// The most rows of all kinds that one of them has written with such a row.
    pub(crate) most_with_shared: Arc<AtomicUsize>,
}

/// What was scanned.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) rows: usize,
    pub(crate) ranges: Vec<KeyRange>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Refused,
    /// Nobody can tell, and nothing was written.
    UnknownLost,
    /// Nobody can tell, and all was written.
    UnknownKept,
    /// Nobody can tell, nothing was written, and until the caller hears of it somebody else does [`Control::meanwhile`].
    UnknownOvertaken,
}

/// A transaction or a pipeline of the engine in memory.
pub(crate) struct Controlled<T> {
    inner: T,
    control: Control,
    reads_left: AtomicUsize,
    is_late: bool,
    _open: Open,
}

/// Counts a transaction while it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestEngine {
    pub(crate) fn new() -> Self {
        Self { inner: Arc::new(MemoryEngine::new()), control: Control::default(), is_late: false }
    }

    pub(crate) fn late() -> Self {
        Self { is_late: true, ..Self::new() }
    }

    /// Many of its transactions become too old.
    pub(crate) fn forgetful(seed: u64) -> Self {
        let engine = Self::new();
        engine.control.random.store(seed | 1, Ordering::Relaxed);
        engine
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    fn random_lifetime(&self) -> usize {
        let mut random = self.control.random.load(Ordering::Relaxed);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.control.random.store(random, Ordering::Relaxed);
        if random == 0 || !random.is_multiple_of(8) { usize::MAX } else { (random >> 32) as usize % 12 }
    }

    fn controlled<T>(&self, inner: T) -> Controlled<T> {
        let reads_left = self.control.reads_left.lock().unwrap().pop_front();
        let reads_left = reads_left.unwrap_or_else(|| self.random_lifetime());
        let (control, is_late) = (self.control.clone(), self.is_late);
        let _open = Open::new(&control.open);
        Controlled { inner, control, reads_left: AtomicUsize::new(reads_left), is_late, _open }
    }
}

impl Engine for TestEngine {
    type Transaction = Controlled<<MemoryEngine as Engine>::Transaction>;
    type Pipeline = Controlled<<MemoryEngine as Engine>::Pipeline>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        Ok(self.controlled(self.inner.begin().await?))
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        Ok(self.controlled(self.inner.begin_pipeline().await?))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.control.open_at_reclaim.lock().unwrap().push(self.control.open.load(Ordering::SeqCst));
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.inner.health().await
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

impl<T> Controlled<T> {
    fn count_read(&self) -> Result<(), StorageError> {
        let left = self.reads_left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(StorageError::too_old("a test"));
        }
        self.reads_left.store(left.saturating_sub(usize::from(left != usize::MAX)), Ordering::Relaxed);
        Ok(())
    }
}

impl<T: Snapshot> Snapshot for Controlled<T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.count_read()?;
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.count_read()?;
        self.inner.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.count_read()?;
        let page = self.inner.scan(range, limit).await?;
        let mut scanned = self.control.scanned.lock().unwrap();
        scanned.rows += page.rows.len();
        scanned.ranges.push(range.clone());
        Ok(page)
    }
}

impl<T: Transaction> Transaction for Controlled<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        let delay = self.control.delays.lock().unwrap().pop_front().unwrap_or(0);
        for _ in 0..delay {
            tokio::task::yield_now().await;
        }
        let fault = self.control.fault.lock().unwrap().take();
        let writes = u64::from(!commit.writes().is_empty());
        let shared = tepui_service::shared_guard_ranges();
        let is_shared = |write: &&Write| shared.iter().any(|range| range.contains(write.key()));
        let shared_writes = commit.writes().iter().filter(is_shared).count();
        self.control.most_shared_writes.fetch_max(shared_writes, Ordering::Relaxed);
        let with_shared = if shared_writes > 0 { commit.writes().len() } else { 0 };
        self.control.most_with_shared.fetch_max(with_shared, Ordering::Relaxed);
        match fault {
            Some(Fault::Refused) => return Err(StorageError::unavailable("full").into()),
            Some(Fault::UnknownLost) => return Err(CommitError::Unknown("lost".to_owned())),
            Some(Fault::UnknownOvertaken) => {
                let meanwhile = self.control.meanwhile.lock().unwrap().take().expect("it is set");
                meanwhile.await;
                return Err(CommitError::Unknown("overtaken".to_owned()));
            }
            Some(Fault::UnknownKept) | None => self.inner.commit(commit).await?,
        }
        self.control.commits.fetch_add(writes, Ordering::Relaxed);
        match fault {
            Some(_) => Err(CommitError::Unknown("kept".to_owned())),
            None => Ok(()),
        }
    }
}

impl<T: CommitPipeline> CommitPipeline for Controlled<T> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        self.control.commits.fetch_add(u64::from(!commit.writes().is_empty()), Ordering::Relaxed);
        let (outcome, is_late) = (self.inner.submit(commit), self.is_late);
        async move {
            if is_late {
                tokio::task::yield_now().await;
            }
            outcome.await
        }
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended()
    }
}
