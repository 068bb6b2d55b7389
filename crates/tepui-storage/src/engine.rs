//! The engine: ordered bytes with snapshots to read from, and atomic, durable commits.

use crate::CommitPipeline;
use bytes::Bytes;
use std::fmt;
use std::future::Future;

/// A key: any bytes, compared as bytes.
pub type Key = Bytes;

/// A value: any bytes.
pub type Value = Bytes;

/// A point in the order of commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Put(Key, Value),
    Delete(Key),
}

impl Write {
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }
}

/// The keys from `start` (included) up to `end` (not included).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Key,
    pub end: Key,
}

/// How much one call of [`Snapshot::scan`] may return.
#[derive(Debug, Clone, Copy)]
pub struct ScanLimit {
    pub max_rows: usize,
    pub max_bytes: usize,
}

/// One page of an ordered scan.
#[derive(Debug, Clone, Default)]
pub struct ScanPage {
    /// In key order. May be empty though there is more: a scan also ends after many tombstones.
    pub rows: Vec<(Key, Value)>,
    /// Where to continue: the rest of the range from here on was not scanned. `None`: the range is exhausted.
    pub next: Option<Key>,
}

/// Keys that begin with a lower byte than this are the catalogue: read often and seldom written.
/// See [`Snapshot::catalogue_version`].
pub const CATALOGUE_END: u8 = 0x40;

/// Why an operation failed. Each kind says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineError {
    /// Retry later: the engine is overloaded, waits for its disk, or is shutting down.
    Unavailable(String),
    /// The disk is full, or nearly so: only writes that free space are accepted.
    NoSpace(String),
    /// Stored bytes are not what was written. Never serve them.
    Corrupt(String),
    /// Any other failure: the message is for the log.
    Failed(String),
}

/// Why a commit did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitError {
    /// A guard or a written key has changed since the snapshot. Nothing was written: retry with a new snapshot.
    Conflict,
    /// The outcome is unknown: the commit may or may not be there, now or after a restart.
    Unknown(String),
    /// Nothing was written.
    Engine(EngineError),
}

/// What to write, and under which condition (optimistic concurrency control).
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// The version of the snapshot that it is based on.
    pub at: Version,
    /// Keys that were read and must not have changed since. Those in `writes` are guarded anyway.
    pub guards: Vec<Key>,
    pub writes: Vec<Write>,
    /// It frees more space than it takes, in the end: accepted though the disk is nearly full.
    pub frees_space: bool,
}

/// A store of ordered bytes.
///
/// # Contract
///
/// - A snapshot sees every commit acknowledged before it was taken, and nothing that a crash could undo. It never changes,
///   never blocks writers and is never blocked by them.
/// - `commit` applies every write or none. They are durable once it returns `Ok`.
/// - `commit` returns `Conflict` if a key in `guards` or `writes` has changed since `at`. It may also do so when none has
///   (for a snapshot that is too old, say); retries with a fresh snapshot succeed in the end.
/// - A key written twice in one commit ends with its last write.
/// - Commits of one [`CommitPipeline`] take effect in the order of the calls, and do not conflict with each other. Once one
///   of them has failed, none after it succeeds, so the durable commits of a pipeline are always a prefix. A commit's
///   outcome is the same whether or not those before it were awaited.
/// - There are no guards on ranges: two commits that insert different keys into one range do not conflict.
/// - A key has 1 to [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) bytes, and a commit writes at most
///   [`MAX_COMMIT_BYTES`](crate::MAX_COMMIT_BYTES). Others are refused with `Failed`; reads find nothing under such keys.
/// - Keys and values are kept as they are passed. Do not pass slices of a large buffer, which would stay in memory with
///   them.
/// - `reclaim` removes the rows of a range that no reader can reach any more and that will not be written again. It may run
///   in small steps, is not atomic, and may be repeated.
pub trait Engine: Send + Sync + 'static {
    type Snapshot: Snapshot;

    fn snapshot(&self) -> impl Future<Output = Result<Self::Snapshot, EngineError>> + Send;

    /// Submits a commit, which is queued when this returns. Commits of a pipeline see what earlier ones of it have written,
    /// acknowledged or not.
    fn submit(
        &self,
        pipeline: Option<&CommitPipeline>,
        commit: Commit,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static;

    /// Commits, and awaits the outcome.
    fn commit(
        &self,
        at: Version,
        guards: Vec<Key>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send {
        // Queued when it is first polled.
        async move { self.submit(None, Commit { at, guards, writes, frees_space: false }).await }
    }

    /// Like `commit`, for the next commit of a pipeline. It is queued when this returns.
    fn commit_next(
        &self,
        pipeline: &CommitPipeline,
        at: Version,
        guards: Vec<Key>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        self.submit(Some(pipeline), Commit { at, guards, writes, frees_space: false })
    }

    fn reclaim(&self, range: KeyRange) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Whether the engine accepts writes now; `Err` says why not. For health probes: cheap and never blocks.
    fn health(&self) -> Result<(), EngineError>;
}

/// The state of the store at one point in the order of commits.
pub trait Snapshot: Send + Sync {
    /// The point at which this snapshot was taken: `at` of [`Commit`].
    fn version(&self) -> Version;

    /// Rises with every change of a key below [`CATALOGUE_END`], and may rise without one. Snapshots of one engine with the
    /// same catalogue version see the same catalogue, so what was read from one of them may be cached for the others.
    fn catalogue_version(&self) -> Version;

    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Value>, EngineError>> + Send;

    /// The first row of `range`.
    fn first(
        &self,
        range: &KeyRange,
    ) -> impl Future<Output = Result<Option<(Key, Value)>, EngineError>> + Send {
        async move {
            let page = self.scan_some(range, ScanLimit { max_rows: 1, max_bytes: 0 }).await?;
            Ok(page.rows.into_iter().next())
        }
    }

    /// Like [`Snapshot::scan`], but continues until there is at least one row, or the range is exhausted.
    fn scan_some(
        &self,
        range: &KeyRange,
        limit: ScanLimit,
    ) -> impl Future<Output = Result<ScanPage, EngineError>> + Send {
        async move {
            let mut page = self.scan(range, limit).await?;
            while page.rows.is_empty()
                && let Some(start) = page.next
            {
                // There may be any number of tombstones: let other tasks run.
                tokio::task::yield_now().await;
                page = self.scan(&KeyRange { start, end: range.end.clone() }, limit).await?;
            }
            Ok(page)
        }
    }

    /// The first rows of `range`, as many as `limit` allows.
    fn scan(
        &self,
        range: &KeyRange,
        limit: ScanLimit,
    ) -> impl Future<Output = Result<ScanPage, EngineError>> + Send;
}

/// Whether a commit changes the catalogue: see [`CATALOGUE_END`].
pub fn changes_catalogue(writes: &[Write]) -> bool {
    writes.iter().any(|write| write.key().first().is_some_and(|first| *first < CATALOGUE_END))
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "storage is unavailable: {why}"),
            Self::NoSpace(why) => write!(f, "no space: {why}"),
            Self::Corrupt(what) => write!(f, "stored data is corrupt: {what}"),
            Self::Failed(why) => write!(f, "storage failed: {why}"),
        }
    }
}

impl std::error::Error for EngineError {}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => write!(f, "a key changed since the snapshot"),
            Self::Unknown(why) => write!(f, "the outcome of the commit is unknown: {why}"),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommitError {}

impl From<EngineError> for CommitError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}
