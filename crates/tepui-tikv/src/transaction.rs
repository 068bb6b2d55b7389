//! Transactions.

use crate::commit::{CommitMode, ReadState, commit_now};
use crate::connection::{no_answer, read_options};
use crate::engine::{Begun, Store};
use crate::keys::{self, LIMITS, MAX_SHARED_WRITES, MAX_VALUE_BYTES};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tepui_storage::{
    Commit, CommitError, Key, KeyRange, ScanLimit, ScanPage, Snapshot, StorageError, Transaction, Value,
    Write,
};
use tikv_client::{Error, KvPair, Timestamp, TransactionClient};
use tokio::sync::OnceCell;

/// A transaction: an optimistic one of TiKV, which begins with the first read.
pub struct TikvTransaction {
    pub(crate) store: Arc<Store>,
    begun: OnceCell<Reader>,
}

/// A transaction that has begun. Reads do not go through it, so that several can be under way.
struct Reader {
    client: TransactionClient,
    timestamp: Timestamp,
    at: Instant,
    /// For the commit. In a lock only because it cannot be shared between threads otherwise.
    transaction: Mutex<tikv_client::Transaction>,
}

impl TikvTransaction {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, begun: OnceCell::new() }
    }

    async fn reader(&self) -> Result<&Reader, StorageError> {
        let begin = || async {
            let Begun { client, transaction, timestamp, at } = self.store.begin().await?;
            Ok(Reader { client, timestamp, at, transaction: Mutex::new(transaction) })
        };
        self.begun.get_or_try_init(begin).await
    }

    /// Makes a call that reads the state of this transaction.
    pub(crate) async fn read<T, F>(
        &self,
        call: impl Fn(tikv_client::Snapshot) -> F,
    ) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let reader = self.reader().await?;
        let snapshot = || reader.client.snapshot(reader.timestamp.clone(), read_options());
        let found = self.store.connection.read_rows(|| call(snapshot())).await?;
        // Looked at afterwards: it was kept during the call as well.
        if self.store.is_too_old(reader.at, &reader.timestamp) {
            return Err(StorageError::too_old("TiKV does not keep such old states"));
        }
        Ok(found)
    }

    /// A row of this crate.
    pub(crate) async fn own_row(&self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let key = self.store.keys.own(name);
        self.read(|snapshot| get(snapshot, key.clone())).await
    }
}

async fn get(mut snapshot: tikv_client::Snapshot, row: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
    snapshot.get(row).await
}

pub(crate) async fn batch_get(
    mut snapshot: tikv_client::Snapshot,
    rows: Vec<Vec<u8>>,
) -> Result<Vec<KvPair>, Error> {
    Ok(snapshot.batch_get(rows).await?.collect())
}

impl Snapshot for TikvTransaction {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        if !LIMITS.is_valid_key(key) {
            return Ok(None);
        }
        let row = self.store.keys.row(key);
        let found = self.read(|snapshot| get(snapshot, row.clone())).await?;
        found.map(keys::decode_value).transpose()
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        let valid = keys.iter().filter(|key| LIMITS.is_valid_key(key));
        let mut rows: Vec<Vec<u8>> = valid.map(|key| self.store.keys.row(key)).collect();
        // The client makes one request for neighbours in one region.
        rows.sort_unstable();
        rows.dedup();
        if rows.is_empty() {
            return Ok(vec![None; keys.len()]);
        }
        let found = self.read(|snapshot| batch_get(snapshot, rows.clone())).await?;
        let mut values = HashMap::with_capacity(found.len());
        for pair in found {
            let row: Vec<u8> = pair.0.into();
            if let Some(key) = self.store.keys.key_of(&row) {
                values.insert(Key::copy_from_slice(key), keys::decode_value(pair.1)?);
            }
        }
        Ok(keys.iter().map(|key| values.get(key).cloned()).collect())
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.scan_rows(range, limit).await
    }
}

impl Transaction for TikvTransaction {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        let shared = commit.writes().iter().filter(|write| self.store.has_copies(write.key())).count();
        check(&commit, shared)?;
        let mode = if shared > 0 { CommitMode::LocksFirst } else { CommitMode::Optimistic };
        self.commit_by(mode, commit).await
    }
}

impl TikvTransaction {
    pub(crate) async fn commit_by(self, mode: CommitMode, commit: Commit) -> Result<(), CommitError> {
        // What has read nothing rests on nothing.
        if commit.writes().is_empty() && (commit.guards().is_empty() || !self.begun.initialized()) {
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        let began = Instant::now();
        let outcome = self.commit_in_task(mode, commit).await;
        let stats = store.connection.stats();
        stats.commit.observe_time(began.elapsed());
        stats.commits.add(&outcome, 1);
        outcome
    }
}

/// Refuses a commit that exceeds a limit. `shared` is how many rows with copies it writes.
fn check(commit: &Commit, shared: usize) -> Result<(), StorageError> {
    LIMITS.check(commit)?;
    if shared > MAX_SHARED_WRITES {
        let message =
            format!("a commit to TiKV writes at most {MAX_SHARED_WRITES} rows that have copies: {shared}");
        return Err(StorageError::failed(message));
    }
    let is_too_large =
        |write: &&Write| matches!(write, Write::Put(_, value) if value.len() > MAX_VALUE_BYTES);
    match commit.writes().iter().find(is_too_large) {
        Some(write) => {
            let message = format!("a value in TiKV has at most {MAX_VALUE_BYTES} bytes: {}", write.bytes());
            Err(StorageError::failed(message))
        }
        None => Ok(()),
    }
}

impl TikvTransaction {
    /// Commits in a task of its own: a commit that is dropped half way leaves locks, which hold up others.
    async fn commit_in_task(self, mode: CommitMode, commit: Commit) -> Result<(), CommitError> {
        let has_read = self.begun.initialized();
        self.reader().await?;
        let Self { store, begun } = self;
        let Some(Reader { client, timestamp, at, transaction }) = begun.into_inner() else {
            return Err(CommitError::Conflict);
        };
        // What has changed since then may be forgotten. It is looked at again before anything is written.
        if store.is_too_old(at, &timestamp) {
            return Err(CommitError::Conflict);
        }
        let timeout = store.connection.timeout();
        let read = ReadState { client, timestamp, at, has_read };
        let task = tokio::spawn(commit_now(store, read, transaction.into_inner(), mode, commit));
        match tokio::time::timeout(timeout, task).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Err(CommitError::Unknown(error.to_string())),
            Err(_) => Err(CommitError::Unknown(no_answer(timeout).to_string())),
        }
    }
}
