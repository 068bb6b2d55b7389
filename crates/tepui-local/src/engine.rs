//! The engine on disk: a write-ahead log and an LSM tree behind one committer.
//!
//! | | |
//! | --- | --- |
//! | `engine.rs` `transaction.rs` | options; transactions and pipelines |
//! | `committer.rs` `conflict_tracker.rs` | group commit, conflicts; recovery when the disk fails |
//! | `published_view.rs` `resident_rows.rs` | the state that transactions share; rows that stay in memory |
//! | `lsm_store.rs` | opening and writing both; write stalls |
//! | `background.rs` | the threads that flush and compact |
//! | `reclaim.rs` | freeing ranges |

mod background;
mod committer;
mod conflict_tracker;
mod lsm_store;
mod published_view;
mod reclaim;
mod resident_rows;
mod transaction;

use crate::lsm::{LsmTree, WriteLoad};
use crate::stats::{DiskSpace, EngineStats};
use committer::{CommitKind, CommitQueue, Committer, QueueLimits};
use lsm_store::{BatchStore, LsmStore, Purpose, Threads};
use parking_lot::Mutex;
use published_view::SnapshotView;
use resident_rows::ResidentRows;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tepui_files::{FileSystem, SystemFiles};
use tepui_storage::versions::{PipelineHistory, Version};
use tepui_storage::{Commit, CommitError, Engine, KeyRange, Limits, StorageError, Write};

pub use transaction::{DiskPipeline, DiskTransaction};
use transaction::{outcome, submit};

/// How a [`DiskEngine`] is opened.
///
/// The defaults were chosen with `examples/engine_bench.rs` and over HTTP, rows of 1 KiB, on two cores. Rejected, some of
/// it measured with the tables of another library:
///
/// - Larger blocks: a get with cold processor caches takes longer the more it reads. Scans read several blocks at once, so
///   small blocks cost them nothing.
/// - A block cache: the page cache holds the files as well, so a miss costs a copy and a checksum. Between 8 and 128 MiB
///   made no difference to gets spread over 4 GB of rows.
/// - Compression, without a measurement: it costs time in every read, flush and compaction.
/// - One compaction thread: it falls behind when rows arrive in random order.
#[derive(Clone)]
pub struct EngineOptions {
    /// The data directory. Created if it is not there.
    pub path: PathBuf,
    /// The size at which a memtable is flushed. Up to three times as much is in memory while writers are faster than the
    /// disk. Default: 48 MiB.
    pub memtable_bytes: u64,
    /// The size of a block in new tables. Default: 4 KiB.
    pub block_bytes: u32,
    /// The approximate size of the write-ahead log at which memtables are flushed. It is replayed when the directory is
    /// opened. Default: 256 MiB.
    pub wal_bytes: u64,
    /// Threads that compact tables; one more flushes memtables. Default: 2.
    pub compaction_threads: usize,
    /// Writes are refused while less than this is free on the disk, but for those that free space: they may use
    /// three quarters of it. Default: 128 MiB.
    pub free_space_reserve_bytes: u64,
    /// How many tables may be open, approximately. Default: 256.
    pub max_open_tables: usize,
    /// How much memory the indexes and Bloom filters of open tables may take, approximately: about a hundredth of their
    /// rows. Default: 512 MiB.
    pub table_cache_bytes: u64,
    /// Rows of this range are kept in memory. For a few small rows that are read in every transaction. Default: none.
    pub resident_range: KeyRange,
    /// How many commits may be queued. More are refused as busy. Default: 4096.
    pub max_queued_commits: usize,
    /// How many bytes of commits may be queued. Default: 64 MiB.
    pub max_queued_bytes: usize,
    /// How long a commit may take before its outcome counts as unknown. Default: 20 s.
    pub commit_wait: Duration,
    /// How long one group may take before the engine counts as unhealthy. Default: 5 s.
    pub stall_after: Duration,
    /// The file system; another one in tests.
    pub files: Arc<dyn FileSystem>,
}

impl EngineOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            memtable_bytes: 48 << 20,
            block_bytes: 4 << 10,
            wal_bytes: 256 << 20,
            compaction_threads: 2,
            free_space_reserve_bytes: 128 << 20,
            max_open_tables: 256,
            table_cache_bytes: 512 << 20,
            resident_range: KeyRange::default(),
            max_queued_commits: 4096,
            max_queued_bytes: 64 << 20,
            commit_wait: Duration::from_secs(20),
            stall_after: Duration::from_secs(5),
            files: Arc::new(SystemFiles),
        }
    }
}

/// Keeps everything in one directory. A clone is the same engine; the directory is closed when the
/// last one is dropped or by [`DiskEngine::close`].
///
/// Commits and reads need a Tokio runtime with its timer. What is in memory is read on the calling task, which takes
/// microseconds; the rest on a thread of the runtime for blocking work.
///
/// ```
/// # use tepui_local::{DiskEngine, EngineOptions};
/// # use tepui_storage::{Engine, Snapshot, Transaction, Write};
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// let engine = DiskEngine::open(EngineOptions::new(directory.path()))?;
/// engine.begin().await?.commit(vec![Write::Put("key".into(), "value".into())].into()).await?;
/// engine.close();
///
/// let engine = DiskEngine::open(EngineOptions::new(directory.path()))?;
/// assert_eq!(engine.begin().await?.get(b"key").await?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DiskEngine {
    inner: Arc<EngineInner>,
}

struct EngineInner {
    queue: Arc<CommitQueue>,
    commit_wait: Duration,
    committer: Mutex<Option<JoinHandle<()>>>,
    tree: Weak<LsmTree>,
    directory: PathBuf,
    files: Arc<dyn FileSystem>,
}

impl DiskEngine {
    /// Opens the directory, and creates it if it is not there. Takes a moment: it replays the write-ahead log.
    pub fn open(options: EngineOptions) -> Result<Self, StorageError> {
        let (engine, committer) = Self::open_with(options, Threads::Spawned)?;
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || committer.run())
            .map_err(|error| StorageError::failed(format!("cannot start the committer: {error}")))?;
        *engine.inner.committer.lock() = Some(thread);
        Ok(engine)
    }

    /// The same without threads: commits, flushes and compactions happen when the [`Stepper`] is called. For simulations,
    /// in which one thread decides what happens when.
    pub fn open_stepped(options: EngineOptions) -> Result<(Self, Stepper), StorageError> {
        let (engine, committer) = Self::open_with(options, Threads::Stepped)?;
        Ok((engine, Stepper { committer }))
    }

    fn open_with(
        options: EngineOptions,
        threads: Threads,
    ) -> Result<(Self, Committer<LsmStore>), StorageError> {
        let limits = QueueLimits {
            commits: options.max_queued_commits,
            bytes: options.max_queued_bytes,
            stall_after: options.stall_after,
        };
        let commit_wait = options.commit_wait;
        let resident_range = options.resident_range.clone();
        let (directory, files) = (options.path.clone(), Arc::clone(&options.files));
        let version = Version(1);
        let store = LsmStore::open(options, threads)?;
        let mut view = store.view(version, Arc::default());
        // If they cannot be read, those who need them are told why.
        view.resident = ResidentRows::read(resident_range, &view).map_or_else(|_| Arc::default(), Arc::new);
        let resident = Arc::clone(&view.resident);
        let tree = Arc::downgrade(&view.tree);
        let queue = Arc::new(CommitQueue::new(view, limits));
        let committer = Committer::new(Arc::clone(&queue), store, version, resident);
        let inner = EngineInner { queue, commit_wait, committer: Mutex::new(None), tree, directory, files };
        Ok((Self { inner: Arc::new(inner) }, committer))
    }

    /// Finishes the queued commits and closes the directory. Blocks until that is done.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Whether writes are accepted now; `Err` says why not.
    pub fn status(&self) -> Result<(), StorageError> {
        self.inner.queue.health()
    }

    /// The figures of now. Cheap, but not free: it looks at every table of the tree.
    pub fn stats(&self) -> EngineStats {
        let queue = &self.inner.queue;
        let counters = queue.counters();
        let size = self.inner.tree.upgrade().map(|tree| tree.size());
        EngineStats {
            commits_ok: counters.commits.ok.get(),
            commits_conflict: counters.commits.conflict.get(),
            commits_unknown: counters.commits.unknown.get(),
            commits_failed: counters.commits.failed.get(),
            group_size: counters.group_size.snapshot(),
            queue_length: queue.length() as u64,
            commit_wait: counters.commit_wait.snapshot(),
            sync: counters.sync.snapshot(),
            stalls: counters.stalls.snapshot(),
            slowdowns: counters.slowdowns.snapshot(),
            wal_bytes: counters.wal_bytes.get(),
            table_bytes: size.map_or(0, |size| size.table_bytes),
            memtable_bytes: size.map_or(0, |size| size.memtable_bytes),
            compaction_read_bytes: counters.compaction_read_bytes.get(),
            compaction_written_bytes: counters.compaction_written_bytes.get(),
            obsolete_bytes: size.map_or(0, |size| size.obsolete_bytes),
            corrupt_reads: counters.corrupt_reads.get(),
            lost_ranges: size.map_or(0, |size| size.lost_ranges as u64),
        }
    }

    /// The disk of the data directory, if the system tells. May wait for the disk.
    pub fn disk_space(&self) -> Option<DiskSpace> {
        let EngineInner { directory, files, .. } = &*self.inner;
        let free_bytes = files.free_space(directory).ok()?;
        let total_bytes = files.total_space(directory).ok()??;
        Some(DiskSpace { free_bytes, total_bytes })
    }

    /// What snapshots show now.
    pub(crate) fn view(&self) -> Result<Arc<SnapshotView>, StorageError> {
        self.inner.queue.published.get()
    }

    /// Whether unreachable rows may be removed now.
    pub(crate) fn check_removal(&self) -> Result<(), StorageError> {
        self.inner.queue.check(Purpose::FreesSpace)
    }

    /// Removes unreachable rows.
    pub(crate) async fn remove(&self, writes: Vec<Write>) -> Result<(), CommitError> {
        let commit = Commit::from(writes).with_frees_space(true);
        outcome(submit(&self.inner.queue, CommitKind::Reclaim, commit)?, self.inner.commit_wait).await
    }
}

impl EngineInner {
    fn close(&self) {
        self.queue.close();
        let thread = self.committer.lock().take();
        if let Some(thread) = thread {
            // A panic of the committer was reported to everyone who waited.
            let _ = thread.join();
        }
    }
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Engine for DiskEngine {
    type Transaction = DiskTransaction;
    type Pipeline = DiskPipeline;

    async fn begin(&self) -> Result<DiskTransaction, StorageError> {
        let EngineInner { queue, commit_wait, .. } = &*self.inner;
        let view = queue.published.get()?;
        Ok(DiskTransaction { view, queue: Arc::clone(queue), commit_wait: *commit_wait })
    }

    async fn begin_pipeline(&self) -> Result<DiskPipeline, StorageError> {
        Ok(DiskPipeline { base: self.begin().await?, history: PipelineHistory::new() })
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        reclaim::reclaim(self, range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.status()
    }

    fn limits(&self) -> Limits {
        Limits::LOCAL
    }
}

/// The work of an engine without threads, for simulations: see [`DiskEngine::open_stepped`].
pub struct Stepper {
    committer: Committer<LsmStore>,
}

impl Stepper {
    /// Commits a group, or maintains the store if none is queued. Returns whether there was one.
    pub fn commit(&mut self) -> bool {
        self.committer.step(Duration::ZERO)
    }

    /// Flushes a sealed memtable. Returns whether there was one.
    pub fn flush(&self) -> bool {
        self.committer.store().background().flush_step()
    }

    /// Runs one compaction; if idle, also one that only saves space. Returns whether there was one.
    pub fn compact(&self, is_idle: bool) -> bool {
        let load = if is_idle { WriteLoad::Idle } else { WriteLoad::Heavy };
        self.committer.store().background().compaction_step(load)
    }

    /// Removes tables that were replaced and that no reader holds.
    pub fn remove_obsolete(&self) {
        self.committer.store().background().remove_obsolete_step();
    }
}
