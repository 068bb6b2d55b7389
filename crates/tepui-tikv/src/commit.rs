//! Commits: optimistic ones, and those that take their locks first.
//!
//! A write of a row that has copies writes all of them, and every commit that guards the row locks one. If there are many of
//! these, one of them always comes in between, and the write would conflict for ever. So it is done in a pessimistic
//! transaction: it locks a few copies at a time, and commits that come to these have to wait. It takes more round trips, but
//! such rows are seldom written.

use crate::connection::{UnderWay, locking_options, no_answer, read_options};
use crate::engine::Store;
use crate::keys;
use crate::outcome::{commit_error, is_conflict, unavailable};
use crate::transaction::batch_get;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_storage::{Commit, CommitError, Guard, StorageError, Write};
use tikv_client::transaction::Mutation;
use tikv_client::{Backoff, Error, ProtoLockInfo, Timestamp, TimestampExt, Transaction, TransactionClient};

/// How long a commit goes on after its caller has been told that nobody knows.
const LAST_DEADLINE: Duration = Duration::from_secs(60);
/// How long a transaction that has conflicted tries to remove its locks. Others remove them otherwise, after some seconds.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(2);
/// What the client waits for in a commit: that the keys are written, a timestamp, and that the first key is committed.
const COMMIT_ROUND_TRIPS: u64 = 3;
/// What the client waits for when it releases locks: two timestamps, the state of the transaction, and a region.
const RELEASE_ROUND_TRIPS: u64 = 4;
/// How many keys are locked at once, in two round trips, if not all of them can be. It fails if a single one of them is locked
/// by somebody else at that moment, so they are few.
const LOCKS_AT_ONCE: usize = 16;
/// How long it is tried to lock all of them at once: the client goes on for as long as it meets others that end. Longer than it
/// waits for one that does not.
const ALL_LOCKS_TIMEOUT: Duration = Duration::from_millis(200);

/// The state that a transaction has read.
pub(crate) struct ReadState {
    pub(crate) client: TransactionClient,
    pub(crate) timestamp: Timestamp,
    /// When the timestamp was asked for.
    pub(crate) at: Instant,
    /// Whether it has read anything before its commit.
    pub(crate) has_read: bool,
}

/// How a commit is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitMode {
    Optimistic,
    /// It takes its locks first: for rows that have copies.
    LocksFirst,
}

pub(crate) async fn commit_now(
    store: Arc<Store>,
    read: ReadState,
    mut transaction: Transaction,
    mode: CommitMode,
    commit: Commit,
) -> Result<(), CommitError> {
    let _under_way = UnderWay::enter(&store.connection);
    let began = Instant::now();
    let outcome = match mode {
        CommitMode::LocksFirst => commit_locked(&store, &read, &commit).await,
        CommitMode::Optimistic => commit_optimistic(&store, &read, &mut transaction, &commit).await,
    };
    if matches!(outcome, Err(CommitError::Unknown(_))) {
        store.connection.note_failure(began);
    }
    outcome
}

async fn commit_optimistic(
    store: &Store,
    read: &ReadState,
    transaction: &mut Transaction,
    commit: &Commit,
) -> Result<(), CommitError> {
    // Writes are first: the first key decides whether the transaction is committed, and it should be one that leaves something
    // behind. Nothing is sent yet.
    let prepared = async {
        transaction.batch_mutate(mutations(store, commit)).await?;
        transaction.lock_keys(guards(store, commit)).await
    };
    prepared.await.map_err(|error| unavailable(&error))?;
    let outcome = finish(store, read, transaction).await;
    if outcome == Err(CommitError::Conflict) {
        store.choice.jump();
        rollback(store, transaction).await;
    }
    outcome
}

async fn finish(store: &Store, read: &ReadState, transaction: &mut Transaction) -> Result<(), CommitError> {
    // What has changed since then may be forgotten. It may have waited for locks, or the machine may have been suspended.
    if store.is_too_old(read.at, &read.timestamp) {
        return Err(CommitError::Conflict);
    }
    store.connection.stats().round_trips.add(COMMIT_ROUND_TRIPS);
    match tokio::time::timeout(LAST_DEADLINE, transaction.commit()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            store.connection.note_conflict(&error);
            Err(commit_error(&error))
        }
        Err(_) => Err(CommitError::Unknown(no_answer(LAST_DEADLINE).to_string())),
    }
}

/// Removes the locks that are left: whoever tries again would have to wait for them.
async fn rollback(store: &Store, transaction: &mut Transaction) {
    store.connection.stats().round_trips.add(1);
    let _ = tokio::time::timeout(ROLLBACK_TIMEOUT, transaction.rollback()).await;
}

/// The writes of a commit, with those of copies.
fn mutations(store: &Store, commit: &Commit) -> Vec<Mutation> {
    let mut mutations = Vec::with_capacity(commit.writes().len());
    for write in commit.writes() {
        let row = store.keys.row(write.key());
        match write {
            Write::Put(_, value) => mutations.push(Mutation::Put(row.into(), keys::encode_value(value))),
            Write::Delete(_) => mutations.push(Mutation::Delete(row.into())),
        }
        if !store.has_copies(write.key()) {
            continue;
        }
        mutations.extend((0..store.choice.copies()).map(|number| {
            let copy = store.keys.copy(write.key(), number).into();
            match write {
                Write::Put(..) => Mutation::Put(copy, keys::encode_value(&[])),
                Write::Delete(_) => Mutation::Delete(copy),
            }
        }));
    }
    mutations
}

/// What is locked for the guards of a commit. Keys that are written are not locked by this.
fn guards(store: &Store, commit: &Commit) -> Vec<Vec<u8>> {
    let lock = |guard: &Guard| match guard {
        Guard::Shared(key) if store.has_copies(key) => store.keys.copy(key, store.choice.next()),
        Guard::Shared(key) | Guard::Unchanged(key) => store.keys.row(key),
    };
    commit.guards().iter().map(lock).collect()
}

/// Commits in a pessimistic transaction. Nothing changes any more once all is locked, and what has changed since the
/// transaction has read is then found by comparing.
async fn commit_locked(store: &Store, read: &ReadState, commit: &Commit) -> Result<(), CommitError> {
    let connection = &store.connection;
    let begun = read.client.begin_with_options(locking_options());
    let mut transaction = connection.call(connection.timeout(), begun).await?;
    let mutations = mutations(store, commit);
    let mut locked = guards(store, commit);
    locked.extend(mutations.iter().map(|mutation| Vec::from(mutation.key().clone())));
    // All in the same order, so that nobody waits for each other.
    locked.sort_unstable();
    locked.dedup();
    let outcome = lock_and_commit(store, read, &mut transaction, commit, mutations, &locked).await;
    if matches!(outcome, Err(CommitError::Conflict | CommitError::Storage(_))) {
        release(store, &read.client, &mut transaction, &locked).await;
    }
    outcome
}

/// Removes the locks of a transaction that has not been committed, also those that the client does not know of: it locks keys in
/// each region by a task of its own, which goes on when the call is given up, and it remembers only calls that have succeeded.
///
/// So the transaction is rolled back by its first key, as whoever meets one of its locks would do it when they have expired. This
/// is remembered with that key: locks that are taken even later are removed at once by whoever meets them.
async fn release(
    store: &Store,
    client: &TransactionClient,
    transaction: &mut Transaction,
    locked: &[Vec<u8>],
) {
    let Some(primary) = locked.first() else { return };
    let began = transaction.start_timestamp();
    // With a time to live of 0, as here, the client takes a lock for expired. That it is not one from before a write, which it is, lets
    // the store remember the rollback.
    let lock = |key: &Vec<u8>| ProtoLockInfo {
        key: key.clone(),
        primary_lock: primary.clone(),
        lock_version: began.version(),
        ..ProtoLockInfo::default()
    };
    store.connection.stats().round_trips.add(RELEASE_ROUND_TRIPS);
    let resolving =
        client.resolve_locks(locked.iter().map(lock).collect(), began.clone(), Backoff::no_backoff());
    let resolved = tokio::time::timeout(ROLLBACK_TIMEOUT, resolving).await;
    // The first key was not even locked, or a store does not answer.
    if !matches!(resolved, Ok(Ok(_))) {
        rollback(store, transaction).await;
    }
}

async fn lock_and_commit(
    store: &Store,
    read: &ReadState,
    transaction: &mut Transaction,
    commit: &Commit,
    mutations: Vec<Mutation>,
    locked: &[Vec<u8>],
) -> Result<(), CommitError> {
    // Before the caller gives up, who would not know what became of it.
    let deadline = Instant::now() + store.connection.timeout() / 2;
    let all = take_locks(store, transaction.lock_keys(locked.iter().cloned()), deadline);
    let is_locked = tokio::time::timeout(ALL_LOCKS_TIMEOUT, all).await;
    if !is_locked.unwrap_or(Ok(false))? {
        // The first key alone, so that it is locked soon: it is that of the transaction. See `release`.
        let (first, others) = locked.split_at(locked.len().min(1));
        for keys in std::iter::once(first).chain(others.chunks(LOCKS_AT_ONCE)) {
            while !take_locks(store, transaction.lock_keys(keys.iter().cloned()), deadline).await? {
                tokio::task::yield_now().await;
            }
        }
    }
    // This locks what is written once more. The locks may have got lost (they need not outlast a change of a region's leader),
    // and somebody else may have committed meanwhile, so what was read is compared after it. What is committed after that is
    // found when this commit is written: TiKV makes up for a lost lock only if the row has not changed since the transaction began.
    if !take_locks(store, transaction.batch_mutate(mutations), deadline).await? {
        return Err(CommitError::Conflict);
    }
    if has_changed(store, read, commit).await? {
        return Err(CommitError::Conflict);
    }
    finish(store, read, transaction).await
}

/// Takes locks. `false` if another transaction was at one of the keys: it is done in a moment.
async fn take_locks(
    store: &Store,
    locking: impl Future<Output = Result<(), Error>>,
    deadline: Instant,
) -> Result<bool, CommitError> {
    store.connection.stats().round_trips.add(2);
    match tokio::time::timeout_at(deadline.into(), locking).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(error)) if is_conflict(&error) => {
            store.connection.note_conflict(&error);
            Ok(false)
        }
        Ok(Err(error)) => Err(unavailable(&error).into()),
        Err(_) => Err(CommitError::Conflict),
    }
}

/// Whether a row that the commit rests on is another than the transaction has read.
async fn has_changed(store: &Store, read: &ReadState, commit: &Commit) -> Result<bool, StorageError> {
    if !read.has_read {
        return Ok(false);
    }
    let connection = &store.connection;
    let now = connection.call(connection.timeout(), read.client.current_timestamp()).await?;
    store.note_time(&now);
    let rows: Vec<Vec<u8>> = commit.checked_keys().map(|key| store.keys.row(key)).collect();
    let values = async |timestamp: Timestamp| {
        let snapshot = || read.client.snapshot(timestamp.clone(), read_options());
        let found = connection.read_rows(|| batch_get(snapshot(), rows.clone())).await?;
        Ok::<_, StorageError>(found.into_iter().map(|pair| (pair.0, pair.1)).collect::<BTreeMap<_, _>>())
    };
    let (before, after) = tokio::join!(values(read.timestamp.clone()), values(now));
    Ok(before? != after?)
}
