//! Copies that continue after the reply, because their bytes are fetched from another server.
//!
//! Each has a record of its own beside the blob, with the time until which it is leased to the node that fetches the bytes.
//! The task that does so renews the lease and publishes its progress with [`BlobService::keep_copy`], which also tells it
//! that another node has aborted the copy, and ends it with [`BlobService::finish_copy`]. A copy whose lease has expired was
//! left behind by a node that does not run any more: any node marks it as failed.

use super::put::store;
use super::service::{BlobService, Context, NextStep};
use super::slot::BlobSlot;
use super::upload::Uploaded;
use super::write_set::WriteSet;
use crate::MAX_CLOCK_SKEW;
use crate::coop::CoopSnapshot;
use crate::keyspace;
use crate::record::{Content, PendingCopy, StoredBlob};
use crate::transact::{Attempt, Outcome, SpaceUse, commit, restart, retry, storage_error};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tepui_model::blob::{BlobPath, CopyState, CopyStatus, Preconditions, Reply, Revision};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Engine, Extents, Key, ScanLimit, Snapshot, StoreId};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The most active copies, most of them queued.
const MAX_ACTIVE: usize = 1000;
/// The most active copies of one account.
const MAX_OF_ACCOUNT: usize = 250;
/// How long a copy is taken to be alive after its lease was renewed, and how often that is done.
const LEASE: Duration = Duration::from_secs(60);
const RENEW_INTERVAL: Duration = Duration::from_secs(15);
/// The delay before a failed write of a copy's end is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long the end of a copy is tried to be written with bytes that may have been swept meanwhile.
const PATIENCE: Duration = LEASE;
const INTERRUPTED: &str = "500 InternalError \"Copy failed because the server was stopped.\"";
const NOT_WRITTEN: &str = "500 InternalError \"Copy failed because its bytes could not be referred to.\"";

/// The copies of this process, by their ids.
#[derive(Default)]
pub(super) struct ActiveCopies(Mutex<HashMap<String, Arc<CopyProgress>>>);

#[derive(Default)]
struct CopyProgress {
    account: String,
    copied: AtomicU64,
    aborted: Notify,
}

/// An active copy of this process. The lease on it has to be renewed: see [`BlobService::keep_copy`].
pub struct CopyUnderWay {
    id: String,
    running: Arc<CopyProgress>,
    copies: Arc<ActiveCopies>,
}

impl ActiveCopies {
    pub(super) fn begin(copies: &Arc<Self>, account: &str, id: String) -> Result<CopyUnderWay, ErrorCode> {
        let running = Arc::new(CopyProgress { account: account.to_owned(), ..CopyProgress::default() });
        let mut all = copies.0.lock();
        let of_account = all.values().filter(|running| running.account == account).count();
        if all.len() >= MAX_ACTIVE || of_account >= MAX_OF_ACCOUNT {
            return Err(ErrorCode::ServerBusy);
        }
        all.insert(id.clone(), Arc::clone(&running));
        Ok(CopyUnderWay { id, running, copies: Arc::clone(copies) })
    }

    /// Notifies the task of a copy that it was aborted.
    pub(super) fn abort(&self, id: &str) {
        if let Some(running) = self.0.lock().get(id) {
            running.aborted.notify_one();
        }
    }

    fn is_active(&self, id: &str) -> bool {
        self.0.lock().contains_key(id)
    }

    /// Updates the progress of a copy.
    pub(super) fn update_progress(&self, copy: &mut CopyState) {
        if copy.status == CopyStatus::Pending
            && let Some(running) = self.0.lock().get(&copy.id)
        {
            copy.progress.0 = running.copied.load(Ordering::Relaxed);
            copy.progress.1 = copy.progress.1.max(copy.progress.0);
        }
    }
}

impl CopyUnderWay {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Counts copied bytes.
    pub fn add(&self, bytes: u64) {
        self.running.copied.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for CopyUnderWay {
    fn drop(&mut self) {
        self.copies.0.lock().remove(&self.id);
    }
}

/// Writes the record of an active copy.
pub(super) fn put_record<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    id: &str,
    now: Timestamp,
) {
    let until = now.saturating_add(LEASE);
    let pending = PendingCopy { container: slot.container, name: slot.name().to_owned(), until };
    writes.put(keyspace::pending_copy(id), pending.encode());
}

pub(super) fn require_none(blob: &StoredBlob) -> Result<(), ErrorCode> {
    match blob.copy.as_ref().map(|copy| copy.status) {
        Some(CopyStatus::Pending) => Err(ErrorCode::PendingCopyOperation),
        _ => Ok(()),
    }
}

/// Abort Copy Blob: leaves an empty blob.
pub(super) async fn abort<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    copy_id: &str,
    preconditions: &Preconditions,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let mut blob = slot.existing()?.clone();
    let Some(copy) = blob.copy.as_deref_mut().filter(|copy| copy.status == CopyStatus::Pending) else {
        return Err(ErrorCode::NoPendingCopyOperation.into());
    };
    if !copy.id.eq_ignore_ascii_case(copy_id) {
        return Err(ErrorCode::CopyIdMismatch.into());
    }
    context.copies.update_progress(copy);
    copy.status = CopyStatus::Aborted;
    copy.completed = Some(context.now);
    writes.delete(keyspace::pending_copy(&copy.id));
    slot.precondition_check(preconditions, context.now).for_lease_holder(&blob)?;
    blob.changed = slot.change_time(context.now);
    blob.stamp = blob.changed;
    writes.put_stamped(slot.key(Revision::Base), blob.encode());
    Ok(writes.finish(Reply::CopyAborted.into()))
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Renews the lease on a copy and publishes its progress, again and again. Returns when the copy has been ended by
    /// somebody else: aborted, declared failed, or its blob was deleted.
    pub async fn keep_copy(&self, copy: &CopyUnderWay) {
        loop {
            tokio::select! {
                () = copy.running.aborted.notified() => return,
                () = tokio::time::sleep(RENEW_INTERVAL) => {}
            }
            match self.renew_copy(copy).await {
                Ok(CopyEnd::Applied) => {}
                Ok(CopyEnd::Superseded) => return,
                // If this lasts, the lease expires.
                Err(error) => {
                    tracing::warn!(copy_id = copy.id, %error, "cannot renew the lease on a copy yet")
                }
            }
        }
    }

    async fn renew_copy(&self, copy: &CopyUnderWay) -> Result<CopyEnd, ServiceError> {
        retry(|()| async move {
            let snapshot = self.begin().await?;
            let mut writes = WriteSet::new(&snapshot);
            let Some(mut pending) = find_pending(&mut writes, &copy.id).await? else {
                return Ok(Attempt::Done(CopyEnd::Superseded));
            };
            let now = self.clock.tick().later_than(pending.blob.stamp);
            pending.record.until = now.saturating_add(LEASE);
            pending.blob.stamp = now;
            if let Some(state) = &mut pending.blob.state.copy {
                self.copies.update_progress(state);
            }
            writes.put(keyspace::pending_copy(&copy.id), pending.record.encode());
            writes.put_stamped(pending.key, pending.blob.encode());
            let (outcome, transaction) = (writes.finish(CopyEnd::Applied), snapshot.into_inner());
            commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        })
        .await
    }

    /// Ends a copy with its bytes, or with a description of its failure. Returns when that is durable.
    ///
    /// Bytes in a store that several nodes share may have been swept, and are refused for ever then. So the copy fails after some
    /// time, in which any other node would have declared it failed, too. Local bytes are never swept: they wait until the disk
    /// has space.
    pub async fn finish_copy(&self, copy: &CopyUnderWay, outcome: Result<Uploaded, String>) {
        let mut is_unreferenced = true;
        let began = Instant::now();
        let gives_up = || self.extents.store() != StoreId::LOCAL && began.elapsed() >= PATIENCE;
        loop {
            let end = match &outcome {
                Ok(_) if gives_up() => CopyOutcome::Failed(NOT_WRITTEN),
                Ok(uploaded) => CopyOutcome::Fetched(uploaded),
                Err(description) => CopyOutcome::Failed(description),
            };
            match (self.try_finish(&copy.id, end).await, end) {
                (Ok(CopyEnd::Applied), CopyOutcome::Fetched(uploaded)) => {
                    return self.mark_referenced(uploaded);
                }
                // A commit of unknown outcome that refers to the bytes conflicts with this one: it never happens any more.
                (Ok(CopyEnd::Applied), _) => {
                    is_unreferenced = true;
                    break;
                }
                (Ok(CopyEnd::Superseded), _) => break,
                (Err(error), _) => {
                    tracing::warn!(copy_id = copy.id, %error, "cannot write the end of a copy yet");
                    is_unreferenced = false;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
        // After a commit of unknown outcome the bytes may be referenced. If not, the next start frees them.
        if is_unreferenced && let Ok(uploaded) = outcome {
            self.discard(uploaded).await;
        }
    }

    async fn try_finish(&self, id: &str, end: CopyOutcome<'_>) -> Result<CopyEnd, ServiceError> {
        retry(|()| async move {
            let snapshot = self.begin().await?;
            let mut writes = WriteSet::new(&snapshot);
            let applied = self.end(&mut writes, id, end).await?;
            let (outcome, transaction) = (writes.finish(applied), snapshot.into_inner());
            commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        })
        .await
    }

    /// Writes the end of a copy, if it is still pending.
    async fn end(
        &self,
        writes: &mut WriteSet<'_, CoopSnapshot<E::Transaction>>,
        id: &str,
        outcome: CopyOutcome<'_>,
    ) -> Result<CopyEnd, ServiceError> {
        let copy_record = keyspace::pending_copy(id);
        if let CopyOutcome::Interrupted(which) = outcome
            && let Some(row) = writes.get(&copy_record).await?
            && !self.is_interrupted(id, PendingCopy::decode(&row)?.until, which)
        {
            return Ok(CopyEnd::Superseded);
        }
        let found = find_pending(writes, id).await?;
        if writes.get(&copy_record).await?.is_some() {
            writes.delete(copy_record);
        }
        let Some(Pending { key, mut blob, .. }) = found else { return Ok(CopyEnd::Superseded) };
        let Some(copy) = blob.state.copy.as_deref_mut() else { return Ok(CopyEnd::Superseded) };
        let now = self.clock.tick().later_than(blob.state.changed.max(blob.stamp));
        copy.completed = Some(now);
        let description = match outcome {
            CopyOutcome::Fetched(uploaded) => {
                copy.status = CopyStatus::Success;
                copy.progress = (uploaded.bytes, uploaded.bytes);
                blob.state.bytes = uploaded.bytes;
                blob.content =
                    store(writes, uploaded, keyspace::ContentId::new(now, (self.random_ids)())).await?;
                None
            }
            CopyOutcome::Failed(description) => Some(description),
            CopyOutcome::Interrupted(_) => Some(INTERRUPTED),
        };
        if let (Some(description), Some(copy)) = (description, blob.state.copy.as_deref_mut()) {
            self.copies.update_progress(copy);
            copy.status = CopyStatus::Failed;
            copy.description = Some(description.to_owned());
            blob.content = Content::Inline(Bytes::new());
        }
        (blob.changed, blob.stamp) = (now, now);
        writes.put_stamped(key, blob.encode());
        Ok(CopyEnd::Applied)
    }

    /// Marks copies as failed whose nodes do not run any more.
    pub async fn fail_interrupted_copies(&self, which: Interrupted) -> Result<(), ServiceError> {
        restart(|| self.fail_interrupted(which)).await
    }

    async fn fail_interrupted(&self, which: Interrupted) -> Result<(), ServiceError> {
        let mut range = keyspace::all_pending_copies();
        loop {
            // Each copy ends in a transaction of its own.
            let snapshot = self.begin().await?;
            let limit = ScanLimit { max_rows: 256, max_bytes: 1024 * 1024 };
            let page = snapshot.scan(&range, limit).await.map_err(storage_error)?;
            drop(snapshot);
            for (key, row) in page.rows {
                let until = PendingCopy::decode(&row)?.until;
                let id = keyspace::pending_copy_id(&key);
                if let Some(id) = id.filter(|id| self.is_interrupted(id, until, which)) {
                    self.try_finish(&id, CopyOutcome::Interrupted(which)).await?;
                }
            }
            let Some(next) = page.next else { return Ok(()) };
            range.start = next;
        }
    }

    fn is_interrupted(&self, id: &str, until: Timestamp, which: Interrupted) -> bool {
        match which {
            // Those of this process go on, even if the clock was set to a time after their lease.
            Interrupted::Expired => {
                until.saturating_add(MAX_CLOCK_SKEW) <= self.clock.now() && !self.copies.is_active(id)
            }
            Interrupted::OfOtherProcesses => !self.copies.is_active(id),
        }
    }
}

/// Which copies are taken to be interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// Those whose lease has expired.
    Expired,
    /// All that this process does not carry out. Only if no other process uses the store.
    OfOtherProcesses,
}

/// How a copy has ended.
#[derive(Clone, Copy)]
enum CopyOutcome<'a> {
    Fetched(&'a Uploaded),
    /// With a description.
    Failed(&'a str),
    Interrupted(Interrupted),
}

/// A copy that is pending: its record, and its blob with the key of it.
struct Pending {
    record: PendingCopy,
    key: Key,
    blob: StoredBlob,
}

/// The copy with this id. `None` if it was ended, or its blob was replaced or deleted.
async fn find_pending<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    id: &str,
) -> Result<Option<Pending>, ServiceError> {
    let Some(row) = writes.get(&keyspace::pending_copy(id)).await? else { return Ok(None) };
    let record = PendingCopy::decode(&row)?;
    let key = keyspace::blob(record.container, &record.name, Revision::Base);
    let Some(row) = writes.get(&key).await? else { return Ok(None) };
    let blob = StoredBlob::decode(&row)?;
    let is_pending = |copy: &CopyState| copy.id == id && copy.status == CopyStatus::Pending;
    Ok(blob.state.copy.as_deref().is_some_and(is_pending).then_some(Pending { record, key, blob }))
}

/// Whether the end of a copy was applied to its blob.
enum CopyEnd {
    Applied,
    /// The copy was aborted, or its blob was replaced or deleted.
    Superseded,
}
