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
use crate::limits;
use crate::store::{Purpose, Store, Threads, TreeStore};
use crate::tree::{Pressure, ReadError, ReadMode};
use crate::view::View;
use crate::{
    Chain, Commit, CommitError, Engine, EngineError, Key, KeyRange, ScanLimit, ScanPage, Snapshot, Value,
    Version, Write,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tepui_files::{FileSystem, SystemFiles};
use tokio::sync::oneshot;

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
    /// Writes are refused while less than this is free on the disk, but for those that free space: they may use
    /// three quarters of it. Default: 128 MiB.
    pub free_space_reserve_bytes: u64,
    /// How many files of tables may be open at once, about. Default: 256.
    pub max_open_tables: usize,
    /// How much memory the indexes and filters of open tables may take, about: some hundredth of the rows that they
    /// are for. Default: 512 MiB.
    pub table_cache_bytes: u64,
    /// How many commits may wait. More are refused as busy. Default: 4096.
    pub max_queued_commits: usize,
    /// How many bytes of commits may wait. Default: 64 MiB.
    pub max_queued_bytes: usize,
    /// How long a commit waits for its answer before its outcome counts as unknown. Default: 20 s.
    pub commit_wait: Duration,
    /// How long the committer may work at one group before the engine counts as unhealthy.
    /// Default: 5 s.
    pub stall_after: Duration,
    /// The file system; another one in tests.
    pub files: Arc<dyn FileSystem>,
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
            max_open_tables: 256,
            table_cache_bytes: 512 << 20,
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
/// Commits and reads need a Tokio runtime with its timer. What is in memory is read where it is asked for, which takes
/// microseconds; what is not, on a thread of the runtime that may wait for the disk.
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
        let (engine, committer) = Self::open_with(options, Threads::Own)?;
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || committer.run())
            .map_err(|error| EngineError::Failed(format!("cannot start the committer: {error}")))?;
        *engine.inner.committer.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(engine)
    }

    /// The same without threads: commits are answered, and tables written and merged, when the [`Stepper`] is told
    /// to. For simulations, in which one thread decides what happens when.
    pub fn open_stepped(options: DiskOptions) -> Result<(Self, Stepper), EngineError> {
        let (engine, committer) = Self::open_with(options, Threads::None)?;
        Ok((engine, Stepper { committer }))
    }

    fn open_with(
        options: DiskOptions,
        threads: Threads,
    ) -> Result<(Self, Committer<TreeStore>), EngineError> {
        let limits = QueueLimits {
            commits: options.max_queued_commits,
            bytes: options.max_queued_bytes,
            stall_after: options.stall_after,
        };
        let commit_wait = options.commit_wait;
        let version = Version(1);
        let store = TreeStore::open(options, threads)?;
        let shared = Arc::new(Shared::new(store.view(version, version), limits));
        let committer = Committer::new(Arc::clone(&shared), store, version);
        let inner = Inner { shared, commit_wait, committer: Mutex::new(None) };
        Ok((Self { inner: Arc::new(inner) }, committer))
    }

    /// Finishes the commits that wait, syncs, and closes the directory. Blocks until that is done.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Whether what nobody can reach may be removed now.
    pub(crate) fn check_removal(&self) -> Result<(), EngineError> {
        self.inner.shared.check(Purpose::FreesSpace)
    }

    /// Removes what nobody can reach.
    pub(crate) async fn remove(&self, writes: Vec<Write>) -> Result<(), CommitError> {
        outcome(self.submit(Kind::Reclaim, Purpose::FreesSpace, writes)?, self.inner.commit_wait).await
    }

    fn submit(&self, kind: Kind, purpose: Purpose, writes: Vec<Write>) -> Result<Answer, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.inner.shared.submit(Request { kind, purpose, writes, reply })?;
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
        Ok(DiskSnapshot { view: self.inner.shared.published.get()? })
    }

    fn submit(
        &self,
        chain: Option<&Chain>,
        commit: Commit,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let Commit { at, guards, writes, frees_space } = commit;
        // What writes nothing takes no space: it waits for those before it, whatever they do.
        let takes_space = !frees_space && !writes.is_empty();
        let purpose = if takes_space { Purpose::Ordinary } else { Purpose::FreesSpace };
        let kind = |guards| Kind::Checked { at, guards, chain: chain.cloned() };
        let submitted =
            limits::check(&guards, &writes).and_then(|()| self.submit(kind(guards), purpose, writes));
        if let (Err(_), Some(chain)) = (&submitted, chain) {
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

/// The work of an engine without threads, for simulations: see [`DiskEngine::open_stepped`].
pub struct Stepper {
    committer: Committer<TreeStore>,
}

impl Stepper {
    /// Commits a group of what waits, or looks after the store if nothing does. Says whether something did.
    pub fn commit(&mut self) -> bool {
        self.committer.step(Duration::ZERO)
    }

    /// Writes a full memtable to a table. Says whether there was one.
    pub fn flush(&self) -> bool {
        self.committer.store().background().flush_step()
    }

    /// Merges some tables; if nobody writes, all that are worth it. Says whether there were any.
    pub fn merge(&self, rests: bool) -> bool {
        let pressure = if rests { Pressure::Rest } else { Pressure::Haste };
        self.committer.store().background().merge_step(pressure)
    }

    /// Removes what nobody reads from any more.
    pub fn tidy(&self) {
        self.committer.store().background().tidy_step();
    }
}

/// What a [`DiskEngine`] held when the snapshot was taken.
pub struct DiskSnapshot {
    view: Arc<View>,
}

impl DiskSnapshot {
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Reads at once if what is needed is in memory, otherwise where waiting for the disk holds up nobody.
    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&View, ReadMode) -> Result<T, ReadError>,
        again: impl FnOnce() -> Box<dyn FnOnce(&View) -> Result<T, ReadError> + Send>,
    ) -> Result<T, EngineError> {
        match read(&self.view, ReadMode::Cached) {
            Err(ReadError::WouldBlock) => {}
            done => return done.map_err(EngineError::from),
        }
        let (view, again) = (Arc::clone(&self.view), again());
        let (reply, answer) = oneshot::channel();
        let work = move || {
            // Whoever no longer waits does not care.
            let _ = reply.send(again(&view));
        };
        self.view.tree.files().spawn_blocking(Box::new(work));
        let stopped = |_| EngineError::Unavailable("the program is ending".into());
        answer.await.map_err(stopped)?.map_err(EngineError::from)
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
        let again = || -> Box<dyn FnOnce(&View) -> _ + Send> {
            let key = Key::copy_from_slice(key);
            Box::new(move |view| view.sources.get(&key, view.number, ReadMode::Blocking))
        };
        self.read(|view, mode| view.sources.get(key, view.number, mode), again).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, EngineError> {
        let Some(bounds) = limits::bounds(range) else { return Ok(ScanPage::default()) };
        let again = || -> Box<dyn FnOnce(&View) -> _ + Send> {
            let range = range.clone();
            Box::new(move |view| {
                let Some(bounds) = limits::bounds(&range) else { return Ok(ScanPage::default()) };
                view.sources.scan(bounds, limit, view.number, ReadMode::Blocking)
            })
        };
        self.read(|view, mode| view.sources.scan(bounds, limit, view.number, mode), again).await
    }
}
