//! The engine: ordered bytes, read and written in transactions.

use crate::{Commit, CommitError, Limits, StorageError};
use bytes::Bytes;
use std::future::Future;

/// A key: any bytes, compared as bytes.
pub type Key = Bytes;

/// A value: any bytes.
pub type Value = Bytes;

/// The keys from `start` (included) up to `end` (not included). The default is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Key,
    pub end: Key,
}

impl KeyRange {
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && *key < *self.end
    }
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

/// A store of ordered bytes.
///
/// # Contract
///
/// - A transaction sees every commit acknowledged before it began, and nothing that a crash could undo. What it sees never
///   changes: it is the state at one moment between its beginning and the end of its first read, or of its commit if it reads
///   nothing. Its reads never block writers and are never blocked by them.
/// - A commit applies every write or none. They are durable once it returns `Ok`.
/// - A commit returns `Conflict` if a guard or a written key has changed since that moment. It may also do so when
///   none has (for a transaction that is too old, say); retries in new transactions succeed in the end. A key whose value was
///   changed and changed back may count as unchanged.
/// - What `Unknown` promises: see [`CommitError::Unknown`].
/// - A key written twice in one commit ends with its last write.
/// - There are no guards on ranges: two commits that insert different keys into one range do not conflict.
/// - An engine may stop keeping the state that an old transaction reads. Its reads then fail with
///   [`TooOld`](crate::StorageErrorKind::TooOld), and its commit with `Conflict`. Nobody holds one for longer than a request
///   takes, so a state should be kept for a minute.
/// - Keys and commits that exceed the [`limits`](Engine::limits) are refused with
///   [`Failed`](crate::StorageErrorKind::Failed); reads find nothing under such keys.
/// - An engine that keeps copies of rows that many commits guard ([`Guard::Shared`](crate::Guard::Shared)) may refuse in the same way
///   a commit that writes many of them. 32 are not too many.
/// - Keys and values are kept as they are passed. Do not pass slices of a large buffer, which would stay in memory with
///   them.
///
/// An engine can be a client of another store. A transaction is then one of that store's: on PostgreSQL a SQL transaction with
/// isolation REPEATABLE READ, whose reads run in it, whose guards are row locks, and whose commit is COMMIT; on TiKV an
/// optimistic transaction.
pub trait Engine: Send + Sync + 'static {
    type Transaction: Transaction;
    type Pipeline: CommitPipeline;

    /// Begins a transaction. One that only reads is dropped in the end.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, StorageError>> + Send;

    /// The values of keys at one moment, as a new transaction reads them. For an engine behind a network this is one round
    /// trip, without a transaction.
    fn get_many(
        &self,
        keys: &[Key],
    ) -> impl Future<Output = Result<Vec<Option<Value>>, StorageError>> + Send {
        async move { self.begin().await?.get_many(keys).await }
    }

    /// Begins a pipeline of commits.
    fn begin_pipeline(&self) -> impl Future<Output = Result<Self::Pipeline, StorageError>> + Send;

    /// Removes the rows of a range that no reader can reach any more and that will not be written again. It may run in small
    /// steps, is not atomic, and may be repeated.
    fn reclaim(&self, range: KeyRange) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Whether the engine accepts writes now; `Err` says why not. For health probes: cheap.
    fn health(&self) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// The limits of keys and commits.
    fn limits(&self) -> Limits;
}

/// Reads of the state of the store at one point in the order of commits.
pub trait Snapshot: Send + Sync + 'static {
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Value>, StorageError>> + Send;

    /// The values of keys, in the order of the keys. For an engine behind a network this is one round trip.
    fn get_many(&self, keys: &[Key])
    -> impl Future<Output = Result<Vec<Option<Value>>, StorageError>> + Send;

    /// The first rows of `range`, as many as `limit` allows.
    fn scan(
        &self,
        range: &KeyRange,
        limit: ScanLimit,
    ) -> impl Future<Output = Result<ScanPage, StorageError>> + Send;

    /// The first row of `range`.
    fn first(
        &self,
        range: &KeyRange,
    ) -> impl Future<Output = Result<Option<(Key, Value)>, StorageError>> + Send {
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
    ) -> impl Future<Output = Result<ScanPage, StorageError>> + Send {
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
}

/// Reads of one state, and at most one commit that is based on them.
pub trait Transaction: Snapshot {
    /// Ends the transaction. If the future is dropped before it is done, the outcome is unknown.
    fn commit(self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send;
}

/// Reads of one state, and any number of commits that depend on one another and need not wait for each other.
///
/// # Contract
///
/// - Reads show the state when the pipeline began, without its own commits: the caller knows what it has written.
/// - The commits take effect in the order of the calls of [`submit`](Self::submit), and do not conflict with each other. A
///   commit conflicts if somebody else has changed a guard or a written key since the pipeline began.
/// - Once one of them has failed, none after it succeeds: the durable commits are always a prefix.
/// - A commit's outcome is the same whether or not those before it were awaited, and whether or not its own future is.
/// - A commit without writes succeeds when all before it are durable.
/// - A pipeline may remember every key that was written: begin a new one now and then.
/// - An engine may end a pipeline at any time: it [is ended](Self::is_ended) then, reads fail with
///   [`TooOld`](crate::StorageErrorKind::TooOld), and further commits conflict.
///
/// An engine behind a network makes one transaction of it: reads run in it, the commits that are submitted within a short time
/// are applied together, and the pipeline ends with that.
pub trait CommitPipeline: Snapshot {
    /// Submits the next commit, which is queued when this returns.
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static;

    /// Whether no later commit succeeds: one of them is known to have failed, or the engine has ended the pipeline.
    fn is_ended(&self) -> bool;
}
