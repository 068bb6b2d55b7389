//! The engine.

use crate::commit::CommitMode;
use crate::connection::{Connection, commit_options};
use crate::copies::CopyChoice;
use crate::format::Format;
use crate::keys::{self, Keys, LIMITS, MAX_SHARED_WRITES};
use crate::regions::Regions;
use crate::safepoint;
use crate::{TikvOptions, TikvTransaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tepui_storage::stats::RemoteStats;
use tepui_storage::{
    CommitError, Engine, Key, KeyRange, Limits, Snapshot, StorageError, TransactionPipeline, Value, Write,
};
use tikv_client::{Timestamp, TransactionClient};
use tokio::task::AbortHandle;

/// How long a probe waits for an answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// How many rows a step of a reclaim deletes, and how many if they have copies: each is many keys then.
const RECLAIM_ROWS: u32 = 512;
const RECLAIM_SHARED_ROWS: u32 = 16;

/// An engine on TiKV.
pub struct TikvEngine {
    store: Arc<Store>,
    /// The task that moves the safepoint.
    safepoint: Option<AbortHandle>,
}

impl TikvEngine {
    /// The limits of every such engine.
    pub const LIMITS: Limits = LIMITS;

    /// The most rows with copies that a commit writes.
    pub const MAX_SHARED_WRITES: usize = MAX_SHARED_WRITES;

    /// Connects to a cluster, and writes down how keys are laid out if nobody has yet. It is refused if that was done otherwise.
    pub async fn open(options: TikvOptions) -> Result<Self, StorageError> {
        if options.endpoints.is_empty() {
            return Err(StorageError::failed("no address of PD was given"));
        }
        let format = Format::of(&options)?;
        let keys = Keys::new(&options.prefix)?;
        let store = Arc::new(Store {
            connection: Arc::new(Connection::open(&options, keys.all()).await?),
            keys,
            regions: Regions::new(&options.endpoints),
            choice: CopyChoice::new(options.shared_copies),
            shared_ranges: options.shared_ranges,
            history: options.history,
            latest: AtomicI64::new(0),
        });
        format.settle(&store).await?;
        let moved = options.moves_safepoint.then(|| safepoint::spawn(&store));
        Ok(Self { store, safepoint: moved })
    }

    pub fn stats(&self) -> &Arc<RemoteStats> {
        self.store.connection.stats()
    }
}

impl Drop for TikvEngine {
    fn drop(&mut self) {
        if let Some(task) = &self.safepoint {
            task.abort();
        }
    }
}

/// What transactions share.
pub(crate) struct Store {
    pub(crate) keys: Keys,
    pub(crate) connection: Arc<Connection>,
    pub(crate) regions: Regions,
    pub(crate) choice: CopyChoice,
    pub(crate) shared_ranges: Vec<KeyRange>,
    pub(crate) history: Duration,
    /// The time of the latest timestamp that was seen, in milliseconds.
    latest: AtomicI64,
}

/// A transaction of TiKV that has begun.
pub(crate) struct Begun {
    pub(crate) client: TransactionClient,
    pub(crate) transaction: tikv_client::Transaction,
    pub(crate) timestamp: Timestamp,
    pub(crate) at: Instant,
}

impl Store {
    pub(crate) async fn begin(&self) -> Result<Begun, StorageError> {
        let client = self.connection.client();
        let at = Instant::now();
        let transaction = self.connection.read(client.begin_with_options(commit_options())).await?;
        let timestamp = transaction.start_timestamp();
        self.note_time(&timestamp);
        Ok(Begun { client, transaction, timestamp, at })
    }

    /// Notes a timestamp that was just given.
    pub(crate) fn note_time(&self, timestamp: &Timestamp) {
        self.latest.fetch_max(timestamp.physical, Ordering::Relaxed);
    }

    /// Whether a row has copies.
    pub(crate) fn has_copies(&self, key: &Key) -> bool {
        keys::is_within(&self.shared_ranges, key)
    }

    /// Whether the state of a transaction may not be kept any longer. A machine that was suspended has not seen the time pass,
    /// but the timestamps that others have got since then tell it.
    pub(crate) fn is_too_old(&self, at: Instant, timestamp: &Timestamp) -> bool {
        let history = i64::try_from(self.history.as_millis()).unwrap_or(i64::MAX);
        let latest = self.latest.load(Ordering::Relaxed);
        at.elapsed() > self.history || latest.saturating_sub(timestamp.physical) > history
    }

    /// Deletes up to so many rows from `start` on, and returns where to continue.
    async fn reclaim_some(
        self: &Arc<Self>,
        (start, end): (&[u8], &[u8]),
        max_rows: u32,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let transaction = TikvTransaction::new(Arc::clone(self));
        let (found, next) = transaction.scan_keys(start, end, max_rows).await?;
        if found.is_empty() {
            return Ok(next);
        }
        let key = |row: &Vec<u8>| self.keys.key_of(row).map(Key::copy_from_slice);
        let deletions: Vec<Write> = found.iter().filter_map(key).map(Write::Delete).collect();
        // Nobody writes or guards these rows any more, so there is nobody to be held off by locks.
        match transaction.commit_by(CommitMode::Optimistic, deletions.into()).await {
            Ok(()) => Ok(next),
            // Somebody else deletes them as well, or nobody knows: again.
            Err(CommitError::Conflict) => Ok(Some(start.to_vec())),
            Err(CommitError::Unknown(why)) => Err(StorageError::unavailable(why)),
            Err(CommitError::Storage(error)) => Err(error),
        }
    }
}

impl Engine for TikvEngine {
    type Transaction = TikvTransaction;
    type Pipeline = TransactionPipeline<TikvTransaction>;

    /// Its timestamp is asked for by the first read.
    async fn begin(&self) -> Result<TikvTransaction, StorageError> {
        Ok(TikvTransaction::new(Arc::clone(&self.store)))
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        TikvTransaction::new(Arc::clone(&self.store)).get_many(keys).await
    }

    async fn begin_pipeline(&self) -> Result<TransactionPipeline<TikvTransaction>, StorageError> {
        Ok(TransactionPipeline::new(self.begin().await?, LIMITS))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        let Some((mut start, end)) = self.store.keys.rows(&range) else { return Ok(()) };
        let max_rows = match keys::meets(&self.store.shared_ranges, &range) {
            true => RECLAIM_SHARED_ROWS,
            false => RECLAIM_ROWS,
        };
        while let Some(next) = self.store.reclaim_some((&start, &end), max_rows).await? {
            start = next;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Asks PD for the time, and a store for a row.
    async fn health(&self) -> Result<(), StorageError> {
        let transaction = TikvTransaction::new(Arc::clone(&self.store));
        let (timeout, began) = (PROBE_TIMEOUT.min(self.store.connection.timeout()), Instant::now());
        match tokio::time::timeout(timeout, transaction.own_row(keys::FORMAT)).await {
            Ok(found) => found.map(drop),
            Err(_) => {
                self.store.connection.note_failure(began);
                Err(crate::connection::no_answer(timeout))
            }
        }
    }

    fn limits(&self) -> Limits {
        LIMITS
    }
}
