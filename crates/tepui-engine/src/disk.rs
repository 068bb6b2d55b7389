//! The engine on disk: a journal and a tree of sorted tables behind one committer.
//!
//! | | |
//! | --- | --- |
//! | `disk.rs` | options; reading from what was published |
//! | `committer.rs` `recent.rs` | the queue, groups, conflicts; what to do when the disk fails |
//! | `view.rs` | the published state |
//! | `store.rs` | opening and writing; errors of the disk |
//! | `journal.rs` | what is not in tables yet |
//! | `tree.rs` | memtables and tables |
//! | `background.rs` | the threads that write and merge tables |
//! | `directory.rs` | format, lock, free space |
//! | `reclaim.rs` | freeing ranges |

use crate::committer::{Committer, Kind, QueueLimits, Request, Shared};
use crate::directory;
use crate::limits;
use crate::store::{Store, TreeStore};
use crate::view::Held;
use crate::{
    Chain, CommitError, Engine, EngineError, Key, KeyRange, ScanLimit, ScanPage, Snapshot, Value, Version,
    Write,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Asks how many bytes are free on the disk of a path.
pub type FreeSpace = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// How a [`DiskEngine`] is opened.
///
/// The defaults were chosen with `examples/engine_bench.rs` and over HTTP, rows of 1 KiB, on two cores. What
/// was tried and put aside, some of it with the tables of another library:
///
/// - Larger blocks: a get that finds nothing in the processor's caches takes the longer the more it reads. Scans
///   read several blocks at once, so they do not mind small ones.
/// - A cache of blocks: the operating system has the files in memory as well, so a miss costs a copy and a
///   checksum. Between 8 and 128 MiB made no difference to gets spread over 4 GB of rows.
/// - Compression, without a measurement: it costs time in every read, flush and merge.
/// - One thread for merges: it falls behind when rows arrive in random order.
#[derive(Clone)]
pub struct DiskOptions {
    /// The data directory. Created if it is not there.
    pub path: PathBuf,
    /// How much is written to memory before it becomes a table. Up to three times as much is held
    /// while writers are faster than the disk. Default: 48 MiB.
    pub memtable_bytes: u64,
    /// The size of a block in new tables. Default: 4 KiB.
    pub block_bytes: u32,
    /// How large the journal may grow, about, before what holds it back is written to tables. It is
    /// read when the directory is opened. Default: 256 MiB.
    pub journal_bytes: u64,
    /// Threads that merge tables; one more writes them. Default: 2.
    pub merge_threads: usize,
    /// Writes are refused while less than this is free on the disk. Default: 128 MiB.
    pub free_space_reserve_bytes: u64,
    /// How many commits may wait. More are refused as busy. Default: 4096.
    pub max_queued_commits: usize,
    /// How many bytes of commits may wait. Default: 64 MiB.
    pub max_queued_bytes: usize,
    /// How long a commit waits for its answer before its outcome counts as unknown. Default: 20 s.
    pub commit_wait: Duration,
    /// How long the committer may work at one group before the engine counts as unhealthy.
    /// Default: 5 s.
    pub stall_after: Duration,
    /// Where free space is asked for; replaced in tests.
    pub free_space: FreeSpace,
}

impl DiskOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            memtable_bytes: 48 << 20,
            block_bytes: 4 << 10,
            journal_bytes: 256 << 20,
            merge_threads: 2,
            free_space_reserve_bytes: 128 << 20,
            max_queued_commits: 4096,
            max_queued_bytes: 64 << 20,
            commit_wait: Duration::from_secs(20),
            stall_after: Duration::from_secs(5),
            free_space: Arc::new(directory::free_space),
        }
    }
}

/// Keeps everything in one directory. A clone is the same engine; the directory is closed when the
/// last one is dropped or by [`DiskEngine::close`].
///
/// Commits and snapshots need a Tokio runtime with its timer. Reads are done where they are called:
/// they take microseconds when the blocks are in memory, and a page of a scan is bounded by its limit.
///
/// ```
/// # use tepui_engine::{DiskEngine, DiskOptions, Engine, Snapshot, Write};
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// let engine = DiskEngine::open(DiskOptions::new(directory.path()))?;
/// let at = engine.snapshot().await?.version();
/// engine.commit(at, vec![], vec![Write::Put("key".into(), "value".into())]).await?;
/// engine.close();
///
/// let engine = DiskEngine::open(DiskOptions::new(directory.path()))?;
/// assert_eq!(engine.snapshot().await?.get(b"key").await?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DiskEngine {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    commit_wait: Duration,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl DiskEngine {
    /// Opens the directory, and creates it if it is not there. Takes a moment: it reads the
    /// journals.
    pub fn open(options: DiskOptions) -> Result<Self, EngineError> {
        let limits = QueueLimits {
            commits: options.max_queued_commits,
            bytes: options.max_queued_bytes,
            stall_after: options.stall_after,
        };
        let commit_wait = options.commit_wait;
        let version = Version(1);
        let store = TreeStore::open(options)?;
        let shared = Arc::new(Shared::new(store.view(version, version), limits));
        let committer = Committer::new(Arc::clone(&shared), store, version);
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || committer.run())
            .map_err(|error| EngineError::Failed(format!("cannot start the committer: {error}")))?;
        Ok(Self { inner: Arc::new(Inner { shared, commit_wait, committer: Mutex::new(Some(thread)) }) })
    }

    /// Finishes the commits that wait, syncs, and closes the directory. Blocks until that is done.
    pub fn close(&self) {
        self.inner.close();
    }

    pub(crate) async fn request(&self, kind: Kind, writes: Vec<Write>) -> Result<(), CommitError> {
        outcome(self.submit(kind, writes)?, self.inner.commit_wait).await
    }

    fn submit(&self, kind: Kind, writes: Vec<Write>) -> Result<Answer, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.inner.shared.submit(Request { kind, writes, reply })?;
        Ok(answer)
    }
}

type Answer = oneshot::Receiver<Result<(), CommitError>>;

async fn outcome(answer: Answer, wait: Duration) -> Result<(), CommitError> {
    match tokio::time::timeout(wait, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(CommitError::Unknown("the committer stopped".into())),
        Err(_) => Err(CommitError::Unknown("the committer did not answer in time".into())),
    }
}

impl Inner {
    fn close(&self) {
        self.shared.close();
        let thread = self.committer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in the committer was seen by everyone who waited for it.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Engine for DiskEngine {
    type Snapshot = DiskSnapshot;

    async fn snapshot(&self) -> Result<DiskSnapshot, EngineError> {
        let view = self.inner.shared.published.get(self.inner.commit_wait).await?;
        Ok(DiskSnapshot { view })
    }

    async fn commit(&self, at: Version, guards: Vec<Key>, writes: Vec<Write>) -> Result<(), CommitError> {
        limits::check(&guards, &writes)?;
        self.request(Kind::Checked { at, guards, chain: None }, writes).await
    }

    fn commit_in(
        &self,
        chain: &Chain,
        at: Version,
        guards: Vec<Key>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let kind = |guards| Kind::Checked { at, guards, chain: Some(chain.clone()) };
        let submitted = limits::check(&guards, &writes).and_then(|()| self.submit(kind(guards), writes));
        if submitted.is_err() {
            chain.break_off();
        }
        let commit_wait = self.inner.commit_wait;
        async move { outcome(submitted?, commit_wait).await }
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), EngineError> {
        crate::reclaim::reclaim(self, range).await
    }

    fn health(&self) -> Result<(), EngineError> {
        self.inner.shared.health()
    }
}

/// What a [`DiskEngine`] held when the snapshot was taken.
pub struct DiskSnapshot {
    view: Arc<Held>,
}

impl DiskSnapshot {
    pub(crate) fn view(&self) -> &Held {
        &self.view
    }
}

impl Snapshot for DiskSnapshot {
    fn version(&self) -> Version {
        self.view.version
    }

    fn catalogue_version(&self) -> Version {
        self.view.catalogue_version
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        if !limits::is_key(key) {
            return Ok(None);
        }
        self.view.sources.get(key, self.view.number)
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, EngineError> {
        let Some(bounds) = limits::bounds(range) else { return Ok(ScanPage::default()) };
        self.view.sources.scan(bounds, limit, self.view.number)
    }
}
